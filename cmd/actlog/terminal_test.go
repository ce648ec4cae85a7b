package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// evil is what a terminal obeys, or what fools who reads it: a title, a link, C0, DEL, C1, bidi controls, and what
// nobody sees. Its lines forge a line of the program.
const evil = "A\x1b]0;title\a\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\\x08\x7f\u0085\u009b2J\u009d0;t\u009c\u202egnp\u2066\u2069\u061c\u200b\u200d\ufeff\u00ad\U000e0041\u3164\u2028\u2029\rB\nactlog: all is well"

// wantSafe checks that a terminal can be sent a text.
func wantSafe(t *testing.T, what, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%s: not UTF-8: %q", what, text)
	}
	if i := strings.IndexFunc(text, func(r rune) bool {
		return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point) &&
			r != '\n' && r != '\t'
	}); i >= 0 {
		t.Errorf("%s: %U in\n%q", what, []rune(text[i:])[0], text)
	}

	if strings.Contains(text, "\nactlog: all is well") {
		t.Errorf("%s: a text forges a line:\n%s", what, text)
	}
}

// evilRun is a run all of whose texts are evil.
func evilRun() []record.Change {
	text := func() *string { return new(evil) }
	return []record.Change{
		&record.Plan{
			RootPlanID: "p", CurrentPlanID: "p", Title: text(), Name: text(), UserRequest: text(), Summary: text(),
			ErrorMessage: text(), ErrorKind: text(), State: new(record.Failed), StartTime: at(0), EndTime: at(9),
		},
		&record.AgentExecution{
			RootPlanID: "p", PlanID: "p", StepID: "s", AgentName: text(), AgentRequest: text(), Result: text(),
			ErrorMessage: text(), State: new(record.Failed), StartTime: at(0), EndTime: at(9),
		},
		&record.ThinkAct{
			RootPlanID: "p", StepID: "s", Seq: 0, ThinkInput: text(), ThinkOutput: text(), ModelName: text(),
			FinishReason: text(), ErrorMessage: text(), State: new(record.Failed),
		},
		&record.ActTool{
			RootPlanID: "p", StepID: "s", ToolCallID: "c", Name: text(), Parameters: text(), Result: text(),
			ErrorMessage: text(), State: new(record.Failed),
		},
		&record.Plan{
			RootPlanID: "p", CurrentPlanID: "q", ParentPlanID: new("p"), ToolCallID: new("c"), Title: text(),
			State: new(record.Completed),
		},
	}
}

// S11: what is on record reaches the terminal of nobody as it is, in views and as JSON, in which it is the same text.
func TestRecordedTextsAreSafe(t *testing.T) {
	t.Parallel()
	url, s := serve(t, apitest.Config{}, nil)
	storetest.Write(t, s, evilRun()...)
	for _, args := range [][]string{
		{"list"}, {"runs"}, {"show", "p"}, {"show", "p", "--step", "s"}, {"show", "p", "--search", "title"},
		{"search", "title"}, {"tail", "p"},
	} {
		args = append(args, "--server", url)
		code, stdout, stderr := actlog(t, args...)
		if code != exitDone || stdout == "" {
			t.Errorf("%q: exit code %d\n%s", args, code, stderr)
		}
		wantSafe(t, strings.Join(args, " "), stdout+stderr)

		out := must(t, append(args, "--json")...)
		wantSafe(t, strings.Join(args, " ")+" --json", out)
		same := args[0] == "runs" // there is no run of the runtime
		for lines := json.NewDecoder(strings.NewReader(out)); ; {
			var v any
			if err := lines.Decode(&v); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%q: %v\n%s", args, err, out)
			}
			same = same || hasText(v, evil) || strings.HasSuffix(args[len(args)-3], "title") || args[0] == "search"
		}
		if !same {
			t.Errorf("%q --json has not the text:\n%s", args, out)
		}
	}
}

// hasText reports whether a text is anywhere in JSON.
func hasText(v any, text string) bool {
	switch v := v.(type) {
	case string:
		return v == text
	case []any:
		for _, member := range v {
			if hasText(member, text) {
				return true
			}
		}
	case map[string]any:
		for _, member := range v {
			if hasText(member, text) {
				return true
			}
		}
	}
	return false
}

// S11: an export is safe to look at, on stdout and as a file, and is the same records: the copy has every byte.
func TestExportIsSafe(t *testing.T) {
	t.Parallel()
	from, s := serve(t, apitest.Config{}, nil)
	storetest.Write(t, s, evilRun()...)
	storetest.Write(t, s, &record.Plan{RootPlanID: "every", CurrentPlanID: "every", UserRequest: new(everyCharacter())})
	for _, contents := range []string{"", "once"} {
		to, _ := serve(t, apitest.Config{}, nil)
		file := filepath.Join(t.TempDir(), "export")
		args := []string{"export", "p", "every", "--server", from}
		if contents != "" {
			args = append(args, "--contents", contents)
		}

		stdout := must(t, args...)
		must(t, append(args, "--output", file)...)
		text, err := os.ReadFile(file)
		if err != nil || string(text) != stdout {
			t.Fatalf("%v: the file is not what stdout is", err)
		}

		wantSafe(t, "export", stdout)
		must(t, "import", file, "--server", to)
		for _, plan := range []string{"p", "every"} {
			a, b := body(t, from+"/api/v1/plans/"+plan+"/records"), body(t, to+"/api/v1/plans/"+plan+"/records")
			if a != b || !strings.Contains(a, "\u202e") {
				t.Errorf("plan %s: the copy differs (%d and %d bytes)", plan, len(a), len(b))
			}
		}
	}
}

// everyCharacter has each character that a text on record may have.
func everyCharacter() string {
	var b strings.Builder
	for r := rune(1); r <= unicode.MaxRune; r++ {
		if utf8.ValidRune(r) && (r < 0x3000 || r > 0xe000) {
			b.WriteRune(r)
		}
		if r == 0xffff {
			r = 0xdffff
		}
		if r == 0xe0fff {
			break
		}
	}
	return b.String()
}

// S11: errors about what the caller named are safe: ids, files that a glob found, flags.
func TestErrorsAreSafe(t *testing.T) {
	t.Parallel()
	url, _ := serve(t, apitest.Config{}, nil)
	folder := t.TempDir()
	name := strings.NewReplacer("/", "").Replace(evil) + "\xff\x9b2J"
	files := map[string]string{
		"empty": "", "records": "{\"kind\":\"" + evil + "\"}\n" + "{\"kind\":\"plan\",\"" + "\u202ex\":1}\n{\n\xff\x1b[2J\n",
		"gzip": "\x1f\x8b" + evil, "json": "[1]", "deep": strings.Repeat(`{"a":`, 100_000),
	}

	var paths []string
	for prefix, text := range files {
		path := filepath.Join(folder, prefix+name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	if err := os.Mkdir(filepath.Join(folder, name), 0o700); err != nil {
		t.Fatal(err)
	}

	commands := [][]string{
		{"import", filepath.Join(folder, name)}, {"import", filepath.Join(folder, "none"+name)},
		append([]string{"import"}, paths...), append([]string{"import", "--json"}, paths...),
		{"show", evil}, {"show", evil, "--step", evil}, {"show", evil, "--json"}, {"show", evil, "--search", evil},
		{"tail", evil}, {"export", evil}, {"export", "x", "--output", filepath.Join(folder, "no", name)},
		{"answer", evil}, {"answer", evil, evil, "--decision", "approve"}, {"stop", evil}, {"pause", evil}, {"resume", evil},
		{"retry", evil}, {"again", evil}, {"retry", "p", "--limit", evil}, {"again", "p", "--input", evil},
		{"delete", "--yes", evil}, {"run", evil, evil}, {"run", "--workflow", evil, evil},
	}
	for i := range commands {
		commands[i] = append(commands[i], "--server", url)
	}

	named := len(commands) // what the others repeat of their own flags may have several lines
	commands = append(commands, [][]string{
		{"list", "--server", "ftp://" + evil}, {"list", "--server", "http://" + evil}, {"list", "--state", evil},
		{"list", "--since", evil}, {"list", "--limit", evil}, {"search", "x", "--kind", evil},
		{evil}, {"--" + evil}, {"show", "--" + evil}, {"run", evil}, {"run", "a", "b", "--limit", evil},
		{"answer", "p", "--value", evil}, {"serve", "--listen", evil}, {"tail", "--root", evil},
		{"serve", "--listen", "127.0.0.1:0", "--api-keys", filepath.Join(folder, name)},
		{"psql", "--data-dir", filepath.Join(folder, "none"+name)}, {"price", "delete", "a", "b", "--from", evil},
		{"psql", "--database-url", "postgres://127.0.0.1:1/x", "--admin", "--client", evil},
		{"work", "--database-url", "x", "--config", filepath.Join(folder, "none"+name)}, {"completion", evil},
	}...)

	for i, args := range commands {
		code, stdout, stderr := actlog(t, args...)
		if code == exitDone {
			t.Errorf("%q: no error", args)
		}
		if stderr == "" {
			t.Errorf("%q says nothing", args)
		}

		if i >= named {
			stderr = strings.ReplaceAll(stderr, "\nactlog: all is well", "")
		}
		wantSafe(t, fmt.Sprintf("%.60q", args), stdout+stderr)
	}
}

// S11: what a hostile server answers is safe: errors, states, headers, what is no JSON, and texts of streams.
func TestHostileServer(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(evil)
	if err != nil {
		t.Fatal(err)
	}
	raw := strings.NewReplacer(`\u001b`, "\x1b").Replace(string(text)) // no JSON any more

	for name, answer := range map[string]http.HandlerFunc{
		"problem": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"detail":%s}`, text)
		},
		"no JSON":  func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, raw) },
		"bad JSON": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"items":[{"x":%s}]}`, raw) },
		"other types": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{%s:%s,"items":%[1]s,"state":[%[1]s]}`, text, text)
		},
		"strange JSON": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, "{\r\n\t\"x\"\r:\t%s\r}", strings.ReplaceAll(string(text), `\u2028`, "\u2028"))
		},
		"redirect": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://127.0.0.1:1/\u202e\u009b")
			w.WriteHeader(http.StatusFound)
		},
		"not found": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, evil, http.StatusNotFound) },
	} {
		server := httptest.NewServer(answer)
		t.Cleanup(server.Close)

		for _, args := range [][]string{
			{"list"}, {"list", "--json"}, {"show", "p"}, {"show", "p", "--json"}, {"show", "p", "--step", "s", "--json"},
			{"answer", "p"}, {"answer", "p", "--list", "--json"}, {"runs", "--json"},
			{"agents"}, {"agents", "--json"}, {"tools"}, {"tools", "--json"}, {"models"}, {"models", "--json"}, {"unknown"},
			{"unknown", "--json"},
			{"search", "x", "--json"}, {"export", "p"}, {"stop", "p", "--json"}, {"ready"}, {"delete", "--yes", "p"},
		} {
			_, stdout, stderr := actlog(t, append(args, "--server", server.URL)...)
			wantSafe(t, name+" "+strings.Join(args, " "), strings.ReplaceAll(stdout+stderr, "\nactlog: all is well", ""))
			if strings.Contains(stdout, "{") && args[0] != "export" && name != "bad JSON" && !json.Valid([]byte(stdout)) {
				t.Errorf("%s: %q prints what is no JSON:\n%s", name, args, stdout)
			}
		}
	}
}

// S11: who approves sees every character, and what is pushed off the screen is folded and counted; a text is shown
// whole, or it says how much is missing.
func TestApprovalShowsEverything(t *testing.T) {
	t.Parallel()
	draw := func(w *waitView) string {
		var out bytes.Buffer
		w.draw(&view{w: &out})
		return out.String()
	}

	hidden := "rm \u202e/ fr- mr\u2066 " +
		"\u200b\u200d\u2060\ufeff\u00a0\u3164\ufe0f\U000e0041\u0085\u009b2J\x1b[8m\x7f\u2028\u2800"
	shown := `rm \u202e/ fr- mr\u2066 \u200b\u200d\u2060\ufeff\u00a0\u3164\ufe0f\udb40\udc41\u0085\u009b2J\u001b[8m\u007f\u2028\u2800`

	plan, err := json.Marshal(map[string]any{
		"goal": hidden, "steps": []map[string]any{
			{"stepNumber": 1, "agentType": hidden, "action": hidden, "justification": hidden},
		},
	})
	if err != nil {
		t.Fatal(err)
	}

	for name, w := range map[string]*waitView{
		"title":       {Title: hidden},
		"description": {FormDescription: hidden},
		"argument": {
			Parameters: json.RawMessage(`{"command":"` + strings.NewReplacer("\x1b", `\u001b`).Replace(hidden) + `"}`),
		},
		"name": {Parameters: json.RawMessage(`{"` + strings.NewReplacer("\x1b", `\u001b`).Replace(hidden) + `":"a\nb"}`)},
		"lines": {
			Parameters: json.RawMessage(`{"patch":"a\n` + strings.NewReplacer("\x1b", `\u001b`).Replace(hidden) + `"}`),
		},
		"file": {Files: []string{"a", hidden}},
		"plan": {Plan: plan},
	} {
		out := draw(w)
		wantSafe(t, name, out)
		if !strings.Contains(out, shown) || !strings.Contains(out, "that cannot be seen") {
			t.Errorf("%s: %s\nwant %s", name, out, shown)
		}
	}

	pushed, err := json.Marshal(map[string]any{
		"patch": "first" + strings.Repeat("\n \t", 5_000) + "\ndanger" + strings.Repeat(" ", 5_000) + "more",
		"note":  strings.Repeat(" ", 1_000) + "end",
	})
	if err != nil {
		t.Fatal(err)
	}

	out := draw(&waitView{Parameters: pushed})
	wantAll(t, out, "[… 1,000 blanks …]end", "first", "[… 5,000 empty lines …]", "danger[… 5,000 blanks …]more",
		"Not shown as it is: 21,001 characters of long runs of blanks")
	if lines := strings.Count(out, "\n"); lines > 15 {
		t.Errorf("%d lines:\n%s", lines, out)
	}

	long, err := json.Marshal(map[string]any{"patch": strings.Repeat(".\n", 300) + "danger" + strings.Repeat("\n.", 300)})
	if err != nil {
		t.Fatal(err)
	}
	wantAll(t, draw(&waitView{Parameters: long}), "danger", "It takes about 601 lines: scroll up")
	out = draw(&waitView{Parameters: json.RawMessage(`{"a":"` + strings.Repeat("x", 30_000) + `rm -rf /"}`)})
	wantAll(t, out, "… and 10,0", "characters; --json shows all", "Not shown as it is: 10,0",
		"characters at the end of long texts: left out")

	if out := draw(&waitView{
		Title: "Write b.txt?", Parameters: json.RawMessage(`{"path":"b.txt","content":"é 漢 — \\u202e"}`),
		Files: []string{"b.txt"},
	}); strings.Contains(out, "Not shown") || strings.Contains(out, "scroll") ||
		!strings.Contains(out, "é 漢 — \\\\u202e") {
		t.Errorf("draw = %s", out)
	}
}

// S11: a human at a real terminal sees the character that turns the text around.
func TestApprovalAtATerminal(t *testing.T) {
	t.Parallel()
	var turned waitView
	if err := json.Unmarshal(
		[]byte(
			`{"waitId":"w","state":"WAITING","title":"Run it\u202e?","decisions":["approve","reject"],"parameters":{"command":"echo \u202efr- mr\u001b[2J"}}`,
		), &turned,
	); err != nil {
		t.Fatal(err)
	}

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_, _ = io.WriteString(w, `{"waitId":"w\u001b]0;t\u0007","state":"REJECTED"}`)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"planId": "p", "state": "WAITING", "waits": []any{map[string]any{
			"waitId": "w", "state": "WAITING", "title": turned.Title, "decisions": turned.Decisions,
			"parameters": turned.Parameters,
		}}})
	}))
	t.Cleanup(server.Close)

	p := atTerminal(t, "answer", "p", "--server", server.URL)
	p.types(t, "approve, reject? ", "reject")
	p.types(t, "Why?", "turned around")
	if code := p.ended(); code != exitDone {
		t.Errorf("exit code %d\n%s", code, p.out.String())
	}

	wantAll(t, p.out.String(), `Run it\u202e?`, `"echo \u202efr- mr\u001b[2J"`, "that cannot be seen")
	wantNone(t, p.out.String(), "\u202e", "\x1b[2J")
	if diff := cmp.Diff("w: reject\n", p.stdout.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
