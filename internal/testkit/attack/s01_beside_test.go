//go:build attack

package attack_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/record"
)

// S1: what claims to come from a run is a tree of its own.
func TestS1StartedBy(t *testing.T) {
	t.Parallel()
	h := open(t, setting{})
	for _, m := range moments {
		r := h.start(m.kind)
		r.reach()
		before := r.withoutLinks()
		call := ""
		for _, row := range r.records() {
			if id, ok := row["toolCallId"].(string); ok && row["kind"] == "actTool" {
				call = id
			}
		}
		if call == "" { // the run has no call yet
			r.goesAsUndisturbed(m.name)
			continue
		}

		claims := record.NewPlanID()
		by := object{"planId": r.id, "toolCallId": call}
		a := h.call("write", http.MethodPost, "/api/v1/records", object{"records": []object{
			{
				"kind": "plan", "rootPlanId": claims, "currentPlanId": claims, "title": "Claims to be started by it",
				"state": "FAILED", "errorMessage": "forged cause", "startedBy": by,
			},
			{
				"kind": "agentExecution", "rootPlanId": claims, "planId": claims, "stepId": "step-" + claims, "state": "FAILED",
				"errorMessage": "forged cause",
			},
			{
				"kind": "thinkAct", "rootPlanId": claims, "stepId": "step-" + claims, "seq": 0, "inputTokens": 1_000_000_000,
				"outputTokens": 1_000_000_000, "costUsd": 1_000_000,
			},
		}})
		if a.status != http.StatusOK {
			t.Errorf("%s: a root with startedBy is answered %d %s", m.name, a.status, a.body)
		}

		if body := h.call("owner", http.MethodGet, "/api/v1/plans/"+claims, nil).body; !strings.Contains(body, r.id) ||
			!strings.Contains(body, call) {
			t.Errorf("%s: the root does not show which call it claims to be started by: %s", m.name, clipDiff(body))
		}
		if !slices.ContainsFunc([]string{
			"/api/v1/plans/" + r.id, "/api/executor/details/" + r.id, "/api/v1/runs/" + r.id, "/api/v1/plans?startedBy=" + r.id,
		}, func(path string) bool {
			return strings.Contains(h.call("owner", http.MethodGet, path, nil).body, claims)
		}) {
			t.Errorf("%s: nothing shown of the run links to what it is claimed to have started", m.name)
		}

		now := r.withoutLinks()
		for path, was := range before {
			if diff := cmp.Diff(was, now[path]); diff != "" {
				t.Errorf("%s: %s changed by more than a link:\n%s", m.name, path, clipDiff(diff))
			}
		}
		r.goesAsUndisturbed(m.name)

		// A claim stands only on a root, and never on what the runtime owns.
		h.refusesAll(m.name, doors[0], "write", []object{
			{
				"kind": "plan", "rootPlanId": r.id, "currentPlanId": r.id, "startedBy": object{"planId": claims, "toolCallId": "x"},
			},
		})
	}
}

// withoutLinks are the reads of a run without members that link to what it started.
func (r *run) withoutLinks() map[string]any {
	all := map[string]any{}
	for path, body := range r.reads() {
		_, text, _ := strings.Cut(body, " ")
		var v any
		if json.Unmarshal([]byte(text), &v) != nil {
			v = text
		}
		all[path] = dropLinks(v)
	}
	return all
}

func dropLinks(v any) any {
	switch v := v.(type) {
	case object:
		for name, member := range v {
			if strings.HasPrefix(strings.ToLower(name), "started") {
				delete(v, name)
			} else {
				v[name] = dropLinks(member)
			}
		}
	case []any:
		for i := range v {
			v[i] = dropLinks(v[i])
		}
	}
	return v
}

// S1: a claim is no way to be in a tree: whatever else names the run's plans is refused, whoever sends it.
func TestS1EveryKeyIsRefused(t *testing.T) {
	t.Parallel()
	h := open(t, setting{})
	r := h.start("approved")
	r.reach()
	rows := r.records()
	before := r.reads()

	for _, key := range []string{"write", "owner", "root"} {
		h.refusesAll("key "+key, doors[0], key, append(edited(rows), r.underAnotherRoot()...))
	}
	for _, key := range []string{"read", "run", "decide", "admin", none, wrong} {
		a := h.call(key, http.MethodPost, "/api/v1/records", object{"records": edited(rows)})
		if a.status != http.StatusUnauthorized && a.status != http.StatusForbidden {
			t.Errorf("key %s: %d %s", key, a.status, a.body)
		}
	}
	r.showsWhatItShowed("every key", before)
	r.goesAsUndisturbed("every key")

	// Alone, without a good record beside them, they are 422.
	if a := h.call("write", http.MethodPost, "/api/v1/records",
		object{"records": edited(rows)}); a.status != http.StatusUnprocessableEntity {
		t.Errorf("nothing but records of a run is answered %d, want 422: %s", a.status, clipDiff(a.body))
	}
}

// S1: deletion needs admin, and stops a run that has not ended: nothing happens after the answer.
func TestS1Delete(t *testing.T) {
	t.Parallel()
	h := open(t, setting{})
	for _, m := range append(slices.Clone(moments), struct{ name, kind string }{"runs a tool before a sub-plan", "late"}) {
		r := h.start(m.kind)
		r.reach()
		children := r.planIDs()

		for _, key := range []string{"write", "read", "run", "decide", "owner", none, wrong} {
			if a := h.call(key, http.MethodDelete, "/api/v1/plans/"+r.id, nil); a.status != http.StatusForbidden &&
				a.status != http.StatusUnauthorized {
				t.Errorf("%s: DELETE with key %s is %d", m.name, key, a.status)
			}
		}

		waits := r.view().Waits
		asked := len(h.model.Requests())
		if a := h.call("admin", http.MethodDelete, "/api/v1/plans/"+r.id, nil); a.status != http.StatusNoContent {
			t.Errorf("%s: DELETE with key admin is %d %s", m.name, a.status, a.body)
			continue
		}

		effects := h.tools.of(r.mark)
		h.tools.release(r.mark)
		for _, w := range waits { // an answer that comes too late
			r.decide("decide", w, object{"decision": w.Decisions[0], "values": object{"city": "Oslo"}})
		}

		// Another run to its end: by then this one would have gone on, too.
		other := h.start("quick")
		other.end()
		time.Sleep(300 * time.Millisecond) // longer than the scan for due runs
		if diff := cmp.Diff(effects, h.tools.of(r.mark)); diff != "" {
			t.Errorf("%s: tools were called after the deletion:\n%s", m.name, diff)
		}

		for _, asked := range h.model.Requests()[min(asked, len(h.model.Requests())):] {
			if strings.Contains(string(asked.Body), r.mark) {
				t.Errorf("%s: the model was asked after the deletion: %s", m.name, clipDiff(string(asked.Body)))
			}
		}
		for _, id := range children {
			for _, path := range []string{"/api/v1/runs/", "/api/v1/plans/"} {
				if a := h.call("owner", http.MethodGet, path+id, nil); a.status != http.StatusNotFound {
					t.Errorf("%s: GET %s of a deleted run is %d %s", m.name, path, a.status, clipDiff(a.body))
				}
			}
		}
	}
	h.givesUp()
}

// givesUp checks that the workers do not try for ever to write what is not there any more.
func (h *house) givesUp() {
	h.t.Helper()
	tries := func() (n int) {
		h.server.mu.Lock()
		defer h.server.mu.Unlock()
		for _, line := range h.server.lines {
			if strings.Contains(line, "cannot be put on record") {
				n++
			}
		}
		return n
	}

	before := tries()
	time.Sleep(3 * time.Second) // several tries
	if now := tries(); now > before {
		h.t.Errorf("after the deletions a worker goes on trying to write ends: %d times in 3 s", now-before)
	}
}

// S1: only graphs that the runtime itself planned are carried out.
func TestS1GraphOfARecord(t *testing.T) {
	t.Parallel()
	h := open(t, setting{})
	nodes := func(text string) object {
		return object{
			"title": "A graph", "nodes": []object{{"id": "n0", "name": text, "description": text, "provider": "default"}},
		}
	}
	asked := func(text string) bool {
		return slices.ContainsFunc(h.model.Requests(), func(r modelRequest) bool {
			return strings.Contains(string(r.Body), text)
		})
	}

	for i, executor := range []string{"dag", "agent", "actlog"} {
		evil := fmt.Sprintf("EVIL-%d", i)
		root := record.NewPlanID()
		h.call("write", http.MethodPost, "/api/v1/records", object{"records": []object{
			{
				"kind": "plan", "rootPlanId": root, "currentPlanId": root, "executor": executor, "name": "draft",
				"title": "A graph", "state": "COMPLETED", "startTime": "2026-11-20T13:53:00Z", "endTime": "2026-11-20T13:54:00Z",
			},
			{"kind": "artifact", "rootPlanId": root, "planId": root, "name": "graph", "type": "graph", "value": nodes(evil)},
		}})

		a := h.call("run", http.MethodPost, "/api/v1/runs", object{"executor": "dag", "input": object{"plan_id": root}})
		if a.status < 400 || a.status >= 500 {
			t.Errorf("a graph of a record of executor %s is carried out: %d %s", executor, a.status, a.body)
		}
		a = h.call("run", http.MethodPost, "/api/execute", object{"plan_id": root})
		if a.status < 400 || a.status >= 500 {
			t.Errorf("POST /api/execute carries out a graph of a record of executor %s: %d %s", executor, a.status, a.body)
		}
		if id, ok := a.object()["execution_id"].(string); ok {
			h.call("run", http.MethodPost, "/api/execute/"+id+"/start", nil)
		}

		time.Sleep(200 * time.Millisecond) // what was started would have asked the model
		if asked(evil) {
			t.Errorf("the model was asked to carry out a node of a recorded graph of executor %s", executor)
		}
	}

	// A graph of the runtime's own is what it was when it was planned.
	a := h.call("owner", http.MethodPost, "/api/plan", object{"prompt": "Plan for mark-0123456789abcdef."})
	id, _ := a.object()["plan_id"].(string)
	if a.status != http.StatusOK || id == "" {
		t.Fatalf("POST /api/plan: %d %s", a.status, a.body)
	}
	for i, d := range doors {
		evil := fmt.Sprintf("EVIL-DRAFT-%d", i)
		h.refusesAll("a planned graph", d, "write", []object{
			{
				"kind": "artifact", "rootPlanId": id, "planId": id, "name": "graph", "type": "graph", "value": nodes(evil),
				"rev": highest,
			},
		})

		a := h.call("owner", http.MethodPost, "/api/v1/runs", object{"executor": "dag", "input": object{"plan_id": id}},
			"Prefer: wait=30")
		if a.status != http.StatusOK || asked(evil) {
			t.Errorf("%s: the planned graph went otherwise: %d, forged: %v, %s", d.name, a.status, asked(evil), clipDiff(a.body))
		}
	}
}
