//go:build attack

package attack_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/record"
)

// S11: nothing that others wrote is obeyed by a terminal.

// evilText has what terminals obey, and what deceives who reads: escape sequences, C1, bidi, invisible characters.
const evilText = "evil \x1b[31mred\x1b]0;title\x07 \u009b31m \u0085 \u202etxet\u202c \u2066iso\u2069 \u200bzero " +
	"\ufefffoo \u061c \u2028 \x08\x08 \x7f"

// obeyed returns the first character of an output that a terminal obeys or that hides something.
func obeyed(output string) string {
	for i, r := range output {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == '\u2028' || r == '\u2029', r == '\ufeff' ||
			r == '\u200b':
			return fmt.Sprintf("%U in %q", r, output[max(0, i-60):min(len(output), i+60)])
		}
	}
	return ""
}

func (h *house) prints(what string, key, stdin string, args ...string) {
	h.t.Helper()
	stdout, stderr, _ := h.commandFor(2*time.Second, key, stdin, args...)
	for name, output := range map[string]string{"stdout": stdout, "stderr": stderr} {
		if bad := obeyed(output); bad != "" {
			h.t.Errorf("%s: actlog %q prints on %s %s", what, args, name, bad)
		}
	}
}

func TestS11RecordedTexts(t *testing.T) {
	t.Parallel()
	h := open(t, setting{})
	// A tree in which each text of each kind is evil, also ids.
	root, sub := "root\x1b[2J\u202e", "sub\u009b"
	rows := []object{
		{"kind": "plan", "rootPlanId": root, "currentPlanId": root, "state": "RUNNING", "startTime": "2026-11-20T13:53:00Z"},
		{"kind": "agentExecution", "rootPlanId": root, "planId": root, "stepId": "step\x1b]", "state": "FAILED"},
		{"kind": "thinkAct", "rootPlanId": root, "stepId": "step\x1b]", "seq": 0, "state": "FAILED"},
		{"kind": "actTool", "rootPlanId": root, "stepId": "step\x1b]", "seq": 0, "toolCallId": "call\x1b", "state": "FAILED"},
		{
			"kind": "plan", "rootPlanId": root, "currentPlanId": sub, "parentPlanId": root, "toolCallId": "call\x1b",
			"state": "FAILED",
		},
		{"kind": "thought", "rootPlanId": root, "planId": root, "thoughtId": "thought\x1b"},
		{"kind": "artifact", "rootPlanId": root, "planId": root, "name": "artifact\x1b"},
		{"kind": "source", "rootPlanId": root, "planId": root, "sourceId": "source\x1b"},
		{
			"kind": "wait", "rootPlanId": root, "planId": root, "waitId": "wait\x1b", "state": "WAITING",
			"type": "ACTION_VALIDATION",
		},
	}

	for _, row := range rows {
		kind := record.Kind(row["kind"].(string))
		for _, f := range field.Fields(kind) {
			if _, known := row[f.Name]; known || !f.Sent() || f.Role != field.NoRole {
				continue
			}

			switch f.Name {
			case "parentPlanId", "toolCallId", "traceId", "type", "state":
				continue
			case "formInputs":
				row[f.Name] = []object{{"label": evilText, "name": evilText, evilText: evilText}}
			default:
				switch {
				case f.Type == field.Text:
					row[f.Name] = evilText
				case f.Type == field.Texts:
					row[f.Name] = []string{evilText}
				case f.IsList():
					row[f.Name] = []object{{"text": evilText, "by": evilText, "model": evilText, "error": evilText}}
				case f.Type == field.JSON:
					row[f.Name] = object{evilText: evilText, "name": evilText, "parameters": object{evilText: evilText}}
				}
			}
		}
	}

	if codes := doors[0].send(h, "write", rows); len(codes) > 0 {
		for i, code := range codes {
			t.Logf("not taken: %s %s", rows[i]["kind"], code)
		}
	}

	for _, args := range [][]string{
		{"list"}, {"list", "--json"}, {"list", "--state", "RUNNING"}, {"list", "--q", "evil"},
		{"show", root}, {"show", root, "--json"}, {"show", root, "--step", "step\x1b]"},
		{"show", root, "--step", "step\x1b]", "--json"}, {"show", root, "--search", "evil"},
		{"show", sub}, {"search", "evil"}, {"search", "evil", "--json"}, {"search", evilText}, {"export", root}, {"runs"},
		{"runs", "--json"}, {"unknown"}, {"unknown", "--json"},
		{"show", "unknown" + evilText}, {"show", root, "--step", "unknown" + evilText}, {"answer", "unknown" + evilText},
		{"answer", root, "--list"}, {"answer", root, "w" + evilText, "--decision", "approve"},
		{"stop", "unknown" + evilText}, {"pause", root}, {"resume", root}, {"tail", "unknown" + evilText},
		{"export", "unknown" + evilText}, {"delete", "--yes", "unknown" + evilText},
		{"run", "unknown" + evilText, "x"}, {"list", "--since", evilText},
		{"import", "unknown" + strings.ReplaceAll(evilText, "\x00", "")}, {evilText}, {"list", "--" + evilText},
		{"show", root, "--root", evilText},
		{"price", "list"}, {"price", "set", evilText, evilText, "--input", "1"}, {"price", "delete", evilText, evilText},
	} {
		h.prints("a record", "root", "", args...)
	}

	// An import names its files, and what is wrong in them.
	name := filepath.Join(h.dir, "file\x1b[31m\u202e\u009b.ndjson")
	h.write(name, ndjson(rows)+`{"kind":"`+strings.ReplaceAll(evilText, "\x1b", `\u001b`)+`"}`+
		"\nnot JSON \x1b[31m\u202e\n"+`{"kind":"plan","evil`+"\u202e"+`":1}`+"\n")
	h.prints("a file", "root", "", "import", name)
	h.prints("a file", "root", "", "import", "--json", name)
}

// A run that waits shows what is approved.
func TestS11WhatIsApproved(t *testing.T) {
	t.Parallel()
	h := open(t, setting{})
	mark := "mark-00000000000000f0"
	body := object{
		"executor": "agent", "input": object{"agent": "approved", "request": "Do it for " + mark + ". " + evilText},
	}

	a := h.call("owner", http.MethodPost, "/api/v1/runs", body, "Prefer: wait=30")
	id, _ := a.object()["planId"].(string)
	if a.status != http.StatusOK || id == "" {
		t.Fatalf("a.status = %d %s", a.status, a.body)
	}

	for _, args := range [][]string{
		{"answer", id, "--list"}, {"answer", id, "--list", "--json"}, {"show", id}, {"runs"},
		{"answer", id, "--decision", "approve", "--by", evilText}, {"tail", id}, {"show", id, "--json"},
	} {
		h.prints("a run that waits", "owner", "", args...)
	}
}

// A hostile server answers with what it likes.
func TestS11HostileServer(t *testing.T) {
	t.Parallel()
	h := open(t, setting{})

	raw := strings.NewReplacer("\x07", "", "\x7f", "").Replace(evilText)
	quoted, _ := json.Marshal(evilText)
	problem := fmt.Sprintf(`{"type":"about:blank","title":%s,"status":500,"detail":%s,"field":%s,"error":%s}`, quoted,
		quoted, quoted, quoted)
	doc := fmt.Sprintf(`{"planId":%[1]s,"rootPlanId":%[1]s,"currentPlanId":%[1]s,"stepId":%[1]s,"title":%[1]s,"name":%[1]s,"state":%[1]s,"status":%[1]s,"result":%[1]s,"error":%[1]s,"errorMessage":%[1]s,"executor":%[1]s,`+
		`"items":[{"planId":%[1]s,"rootPlanId":%[1]s,"currentPlanId":%[1]s,"title":%[1]s,"state":%[1]s,"name":%[1]s}],"nextCursor":null,"waits":[{"waitId":%[1]s,"planId":%[1]s,"type":%[1]s,"title":%[1]s,"name":%[1]s,"parameters":{"a":%[1]s},"decisions":[%[1]s]}],`+
		`"agentExecutionSequence":[{"stepId":%[1]s,"agentName":%[1]s,"state":%[1]s,"errorMessage":%[1]s}],"thinkActSteps":[{"thinkOutput":%[1]s,"actToolInfoList":[{"name":%[1]s,"parameters":%[1]s}]}],"rejected":[{"index":0,"code":%[1]s,"field":%[1]s,"message":%[1]s}],"accepted":0}`, quoted)

	for name, respond := range map[string]func(w http.ResponseWriter){
		"problems, 500": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(500)
			fmt.Fprint(w, problem)
		},
		"problems, 404": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(404)
			fmt.Fprint(w, problem)
		},
		"problems, 422": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(422)
			fmt.Fprint(w, problem)
		},
		"texts":     func(w http.ResponseWriter) { w.WriteHeader(400); fmt.Fprint(w, raw) },
		"no JSON":   func(w http.ResponseWriter) { w.Header().Set("Content-Type", "application/json"); fmt.Fprint(w, raw) },
		"documents": func(w http.ResponseWriter) { w.Header().Set("Content-Type", "application/json"); fmt.Fprint(w, doc) },
		"raw documents": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, strings.ReplaceAll(doc, `\u001b`, "\x1b"))
		},
		"a header": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/\u009bx")
			w.Header().Set("Location", "http://evil\u202e/")
			w.WriteHeader(302)
			fmt.Fprint(w, raw)
		},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { respond(w) }))
		for _, args := range [][]string{
			{"show", "plan-1"}, {"show", "plan-1", "--json"}, {"show", "plan-1", "--step", "step-1"},
			{"show", "plan-1", "--step", "step-1", "--json"}, {"show", "plan-1", "--search", "x"},
			{"answer", "plan-1", "--list"}, {"answer", "plan-1", "--list", "--json"},
			{"answer", "plan-1", "wait-1", "--decision", "approve"}, {"list"}, {"list", "--json"}, {"runs"}, {"runs", "--json"},
			{"search", "x"}, {"export", "plan-1"}, {"stop", "plan-1"}, {"pause", "plan-1"}, {"unknown"}, {"ready"},
			{"delete", "--yes", "plan-1"}, {"run", "reader", "x"}, {"import", h.config},
		} {
			h.prints("a hostile server with "+name, none, "", append(args, "--server", server.URL)...)
		}
		server.Close()
	}
}
