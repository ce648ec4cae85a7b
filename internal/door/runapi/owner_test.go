package runapi_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/door/runapi"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/orchestrator"
	"github.com/actlog/actlog/internal/runtime/executor/thinkact"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// people are clients of one server with keys of their own, by name.
type people map[string]*client

// door sets the keys of a server: of each name with its scopes.
func door(t testing.TB, names map[string][]httpd.Scope) (secrets map[string]string, server func(*apitest.Config)) {
	t.Helper()
	secrets = map[string]string{}
	var lines []string
	for name, scopes := range names {
		secret, line := apitest.NewKey(t, strings.TrimSuffix(name, " again"), scopes...)
		secrets[name], lines = secret, append(lines, line)
	}
	return secrets, func(c *apitest.Config) { c.HTTP.Keys = apitest.Keys(t, lines...) }
}

func (c *client) people(secrets map[string]string) people {
	all := people{}
	for name, secret := range secrets {
		all[name] = &client{c.As(secret)}
	}
	return all
}

var runs = []httpd.Scope{httpd.ScopeRun, httpd.ScopeRead}

// S4: a session belongs to who began it. The same id of somebody else is another session, and nothing shows that
// there is one.
func TestSessionsBelongToWhoBeganThem(t *testing.T) {
	t.Parallel()
	secrets, server := door(t, map[string][]httpd.Scope{
		"alice": {httpd.ScopeRun}, "alice again": runs, "bob": runs, "root": {httpd.ScopeRead, httpd.ScopeAdmin},
		"reader": {httpd.ScopeRead},
	})
	c := facadeWith(t, apitest.Options{Server: server}, nil, scriptmodel.Turn{Content: "One."},
		scriptmodel.Turn{Content: "Two."}, scriptmodel.Turn{Content: "Three."})
	who := c.people(secrets)

	say := func(name, text string) (answer string, messages int) {
		t.Helper()
		a := who[name].post("/execution/agents/guide/run", obj{"user_message": text, "session_id": "s"})
		wantStatus(t, a, http.StatusOK)
		r := a.JSON(t).(obj)
		return r["final_response"].(obj)["content"].(string), len(r["conversation_history"].([]any))
	}

	for i, tt := range []struct {
		name, want string
		messages   int
	}{{"alice", "One.", 2}, {"bob", "One.", 2}, {"alice again", "Two.", 4}, {"bob", "Two.", 4}} {
		// a new key of the same name goes on
		if answer, n := say(tt.name, fmt.Sprint(tt.name, " says ", i)); answer != tt.want || n != tt.messages {
			t.Errorf("%s gets %q after %d messages, want %q after %d", tt.name, answer, n, tt.want, tt.messages)
		}
	}

	if got := string(who["bob"].Get("/execution/history/s").Body) +
		string(who["bob"].Get("/execution/history").Body); strings.Contains(got, "alice") {
		t.Errorf("bob reads %s", got)
	}
	expect(t, who["bob"].Read("/execution/history"), obj{
		"total": 1, "sessions.0.session_id": "s", "sessions.0.starter": "bob", "sessions.0.project": "default",
	})
	expect(t, who["alice again"].Read("/execution/history/s"), obj{
		"total": 4, "history.0.content": "alice says 0", "metadata.starter": "alice",
	})

	expect(t, who["reader"].Read("/execution/history"), obj{"total": 0})
	expect(t, who["root"].Read("/execution/history"), obj{"total": 2})
	expect(t, who["root"].Read("/execution/history?starter=alice"), obj{"total": 1, "sessions.0.starter": "alice"})
	expect(t, who["root"].Read("/execution/history/s?starter=alice"), obj{"history.0.content": "alice says 0"})
	expect(t, who["root"].Read("/execution/history?project=other"), obj{"total": 0})

	// What is another's is answered as what is not there, byte for byte but for the id.
	other := wantStatus(t, who["reader"].Get("/execution/history/s"), http.StatusNotFound)
	none := wantStatus(t, who["reader"].Get("/execution/history/x"), http.StatusNotFound)
	if got := strings.ReplaceAll(string(none.Body), "'x'", "'s'"); got != string(other.Body) {
		t.Errorf("other.Body = %s, want %s", other.Body, got)
	}

	wantStatus(t, who["bob"].Get("/execution/history/s?starter=alice"), http.StatusForbidden)
	wantStatus(t, who["bob"].Get("/execution/history/s?starter=nobody"), http.StatusForbidden)
	wantStatus(t, who["alice again"].Do(http.MethodDelete, "/execution/history/s", nil), http.StatusForbidden)

	wantStatus(t, who["root"].Do(http.MethodDelete, "/execution/history/s?starter=bob", nil), http.StatusNoContent)
	wantStatus(t, who["root"].Do(http.MethodDelete, "/execution/history/s?starter=bob", nil), http.StatusNotFound)
	expect(t, who["alice again"].Read("/execution/history/s"), obj{"total": 4})
	if answer, _ := say("bob", "New."); answer != "One." {
		t.Errorf("bob's session was deleted, and it answers %q", answer)
	}
	wantStatus(t, who["root"].Do(http.MethodDelete, "/execution/history/s?starter=alice", nil), http.StatusNoContent)
	expect(t, who["root"].Read("/execution/history"), obj{"total": 1, "sessions.0.starter": "bob"})
}

// S4: the sessions of the steps of a workflow go with that of their owner, and so do clean-ups.
func TestSessionsOfStepsBelongToWhoBeganThem(t *testing.T) {
	t.Parallel()
	secrets, server := door(t, map[string][]httpd.Scope{
		"alice": runs, "bob": runs, "root": {httpd.ScopeRead, httpd.ScopeAdmin},
	})
	c := facadeWith(t, apitest.Options{Server: server}, nil, scriptmodel.Turn{Content: "One."},
		scriptmodel.Turn{Content: "Two."})
	who := c.people(secrets)

	for _, name := range []string{"alice", "bob"} {
		a := who[name].post("/execution/workflows/simple/chain/run", obj{
			"initial_input": "Go, " + name + ".", "session_id": "w",
		})
		wantStatus(t, a, http.StatusOK)
		expect(t, a.JSON(t), obj{"final_output": "One."})
		expect(t, who[name].Read("/execution/history/w-0"), obj{
			"total": 2, "metadata.base_session_id": "w", "metadata.starter": name,
		})
	}

	wantStatus(t, who["root"].Do(http.MethodDelete, "/execution/history/w?starter=alice", nil), http.StatusNoContent)
	expect(t, who["alice"].Read("/execution/history"), obj{"total": 0})
	expect(t, who["bob"].Read("/execution/history"), obj{"total": 2})
	wantStatus(t, who["root"].post("/execution/history/cleanup", obj{"max_sessions": 1}), http.StatusOK)
	expect(t, who["bob"].Read("/execution/history"), obj{"total": 2})
	wantStatus(t, who["root"].post("/execution/history/cleanup", obj{"max_sessions": 0}), http.StatusOK)
	expect(t, who["bob"].Read("/execution/history"), obj{"total": 0})
}

// S4: a stream of somebody else's run cannot be resumed by who may only start runs.
func TestStreamsAreResumedByWhoBeganThem(t *testing.T) {
	t.Parallel()
	secrets, server := door(t, map[string][]httpd.Scope{"alice": {httpd.ScopeRun}, "bob": {httpd.ScopeRun}})
	c := facadeWith(t, apitest.Options{Server: server}, nil, scriptmodel.Turn{Content: "A secret."})
	who := c.people(secrets)

	id := who["alice"].post("/execution/agents/guide/run", obj{"user_message": "Go."}).Header.Get("Actlog-Plan-Id")
	for name, status := range map[string]int{"alice": http.StatusOK, "bob": http.StatusNotFound} {
		a := who[name].post("/execution/agents/guide/stream", "", "Last-Event-ID", id+"/0")
		wantStatus(t, a, status)
		if strings.Contains(string(a.Body), "secret") != (name == "alice") {
			t.Errorf("%s reads %s", name, a.Body)
		}
	}

	other := who["bob"].post("/execution/agents/guide/stream", "", "Last-Event-ID", "plan-none/0")
	if theirs := who["bob"].post("/execution/agents/guide/stream", "", "Last-Event-ID", id+
		"/0"); string(other.Body) != string(theirs.Body) {
		t.Errorf("other.Body = %s and %s", other.Body, theirs.Body)
	}
}

// S4: executors of POST /api/v1/runs are told what was said before by the same key in the same project, and nothing
// else.
func TestConversationsBelongToWhoBeganThem(t *testing.T) {
	t.Parallel()
	secrets, server := door(t, map[string][]httpd.Scope{
		"alice": runs, "bob": runs, "root": append(runs, httpd.ScopeAdmin),
	})

	heard := func(_ context.Context, r *scriptmodel.Request) (scriptmodel.Turn, error) {
		var all []string
		for _, m := range r.Messages {
			if m.Role == "user" {
				all = append(all, fmt.Sprint(m.Content))
			}
		}
		return scriptmodel.Turn{Content: strings.Join(all, " | ")}, nil
	}
	end := func(ctx context.Context, r *scriptmodel.Request) (scriptmodel.Turn, error) {
		told, err := heard(ctx, r)
		return enginetest.Calls(enginetest.Terminate(told.Content))[0], err
	}

	h := enginetest.Build(t, enginetest.Plans{
		Scenes: []scriptmodel.Scene{
			{
				Name: "agent", Match: scriptmodel.Match{System: "Talker."},
				Turns: []scriptmodel.Turn{{Reply: end}, {Reply: end}, {Reply: end}},
			},
			{Name: "orchestrator", Turns: []scriptmodel.Turn{{Reply: heard}, {Reply: heard}, {Reply: heard}}},
		},
		Definitions: map[string]any{
			"agent.reader": define.Definition{
				Model: define.DefinitionModel{Name: "default"}, EnableWrite: true, SystemPrompt: "Talker.", IncludeHistory: true,
			},
			"orchestrator.": define.DefaultOrchestrator().Definition(func(name string) define.DefinitionModel {
				return define.DefinitionModel{Name: name}
			}, nil, nil),
		},
		Executors: []engine.Executor{thinkact.Executor{}, orchestrator.Executor{}},
	})
	h.Work(h.Engine)
	who := (&client{apitest.ServeWith(t,
		apitest.Options{DB: h.DB, Server: server, Runtime: func(*runstore.Store) (runapi.Starter, runapi.Catalog) {
			return h.Engine, runtime{}
		}})}).people(secrets)

	for _, executor := range []string{"agent", "orchestrator"} {
		for _, tt := range []struct{ name, project, text, want string }{
			{"alice", "", "A1", "A1"}, {"bob", "", "B1", "B1"}, {"root", "", "R1", "R1"}, {"alice", "", "A2", "A1 | A2"},
			{"alice", "web", "W1", "W1"},
			{"alice", "default", "A3", "A1 | A2 | A3"}, {"alice", "web", "W2", "W1 | W2"}, {"bob", "", "B2", "B1 | B2"},
		} {
			body := obj{"executor": executor, "input": obj{"agent": "reader", "request": tt.text}, "conversationId": "c"}
			if executor == "orchestrator" {
				body["input"], body["conversationId"] = obj{"request": tt.text, "mode": "chat"}, "d"
			}
			if tt.project != "" {
				body["project"] = tt.project
			}

			a := who[tt.name].post("/api/v1/runs", body, "Prefer", "wait=60")
			wantStatus(t, a, http.StatusOK)
			at := map[string]string{"agent": "result", "orchestrator": "result.result"}[executor]
			expect(t, a.JSON(t), obj{"state": "COMPLETED", at: tt.want})
		}
	}
}

// S4: the same Idempotency-Key of another API key, or in another project, is another request.
func TestIdempotencyKeysBelongToWhoSentThem(t *testing.T) {
	t.Parallel()
	secrets, server := door(t, map[string][]httpd.Scope{
		"alice": {httpd.ScopeRun}, "alice again": {httpd.ScopeRun}, "bob": {httpd.ScopeRun},
	})
	c := serve(t, apitest.Options{Server: server})
	who := c.people(secrets)

	start := func(name, project string) string {
		t.Helper()
		body := request()
		if project != "" {
			body["project"] = project
		}
		a := who[name].post("/api/v1/runs", body, "Idempotency-Key", "k")
		wantStatus(t, a, http.StatusAccepted)
		return a.JSON(t).(obj)["planId"].(string)
	}

	alice := start("alice", "")
	if bob := start("bob", ""); bob == alice || bob != start("bob", "") {
		t.Error("bob gets alice's run")
	}
	if web := start("alice", "web"); web == alice || web != start("alice again", "web") {
		t.Error("a run of another project")
	}
	if again := start("alice again", ""); again != alice {
		t.Error("a new key of the same name starts another run")
	}

	other := request()
	other["userId"] = "u"
	wantProblem(t, who["alice"].post("/api/v1/runs", other, "Idempotency-Key", "k"), http.StatusUnprocessableEntity,
		"Idempotency-Key")
}

// payer serves an agent that pays by a sub-agent, if somebody else than who started it approves.
func payer(t *testing.T, server func(*apitest.Config)) *client {
	t.Helper()
	apart := tool.WithPolicy(tool.Policy{Approval: true, NotStarter: true, OnUnknown: tool.Ask})
	pay := tool.Func("pay", "Pays.", func(context.Context, struct{}) (string, error) { return "paid", nil }, apart)

	h := enginetest.Build(t, enginetest.Plans{
		Scenes: []scriptmodel.Scene{
			{
				Name: "payer", Match: scriptmodel.Match{System: "Payer."},
				Turns: enginetest.Calls([]scriptmodel.ToolCall{enginetest.Call("pay", obj{})}, enginetest.Terminate("ended")),
			},
			{
				Name: "reader", Turns: enginetest.Calls([]scriptmodel.ToolCall{
					enginetest.Call("agent.payer", obj{"request": "Pay."}),
				}, enginetest.Terminate("ended")),
			},
		},
		Definitions: map[string]any{
			"agent.reader": define.Definition{
				Model: define.DefinitionModel{Name: "default"}, EnableWrite: true, Tools: []string{"agent.payer"},
			},
			"agent.payer": define.Definition{
				Model: define.DefinitionModel{Name: "default"}, EnableWrite: true, SystemPrompt: "Payer.", Tools: []string{"pay"},
			},
		},
		Tools: []tool.Tool{pay}, Executors: []engine.Executor{thinkact.Executor{}},
	})
	h.Work(h.Engine)
	return &client{apitest.ServeWith(t,
		apitest.Options{DB: h.DB, Server: server, Runtime: func(*runstore.Store) (runapi.Starter, runapi.Catalog) {
			return h.Engine, runtime{}
		}})}
}

// asks starts a run, and returns where the wait of its sub-agent is decided.
func (c *client) asks() (planID, at string) {
	c.T.Helper()
	a := c.post("/api/v1/runs", request(), "Prefer", "wait=60")
	wantStatus(c.T, a, http.StatusOK)
	run := a.JSON(c.T)
	expect(c.T, run, obj{"state": "WAITING", "waits.#": 1, "waits.0.name": "pay"})
	planID = apitest.Lookup(c.T, run, "planId").(string)
	return planID, "/api/v1/runs/" + planID + "/waits/" + apitest.Lookup(c.T, run, "waits.0.waitId").(string)
}

// S9: who started a run may not approve what its policy keeps from them, whatever they say they are called. They may
// reject it.
func TestNotStarter(t *testing.T) {
	t.Parallel()
	decides := []httpd.Scope{httpd.ScopeRun, httpd.ScopeRead, httpd.ScopeDecide}
	secrets, server := door(t, map[string][]httpd.Scope{
		"alice": decides, "alice again": decides, "bob": decides, "admin": append(decides, httpd.ScopeAdmin),
	})
	who := payer(t, server).people(secrets)
	_, at := who["alice"].asks()

	for _, name := range []string{"alice", "alice again"} {
		a := who[name].post(at, obj{"decision": "approve", "by": "bob"})
		wantProblem(t, a, http.StatusForbidden, nil)
		if !strings.Contains(string(a.Body), "started the run") {
			t.Errorf("a.Body = %s", a.Body)
		}
	}

	a := who["bob"].post(at, obj{"decision": "approve", "by": "alice"})
	wantStatus(t, a, http.StatusOK)
	expect(t, a.JSON(t), obj{"state": "APPROVED", "decidedBy": "bob", "by": "alice"})

	_, at = who["alice"].asks()
	a = who["alice"].post(at, obj{"decision": "reject"})
	wantStatus(t, a, http.StatusOK)
	expect(t, a.JSON(t), obj{"state": "REJECTED", "decidedBy": "alice", "by": nil})

	_, at = who["admin"].asks()
	wantProblem(t, who["admin"].post(at, obj{"decision": "approve"}), http.StatusForbidden, nil)

	// Of a run whose starter is not known, nobody can be told apart.
	id, at := who["bob"].asks()
	who["bob"].Exec("UPDATE actlog.run SET starter = '' WHERE root_plan_id = $1", id)
	wantProblem(t, who["alice"].post(at, obj{"decision": "approve"}), http.StatusForbidden, nil)
	wantStatus(t, who["alice"].post(at, obj{"decision": "reject"}), http.StatusOK)
}

// S9: of a call whose outcome is unknown, who started the run may say that it is skipped, and no more.
func TestNotStarterOfAnUnknownCall(t *testing.T) {
	t.Parallel()
	decides := []httpd.Scope{httpd.ScopeRun, httpd.ScopeRead, httpd.ScopeDecide}
	secrets, server := door(t, map[string][]httpd.Scope{"alice": decides, "bob": decides})
	c := payer(t, server)
	who := c.people(secrets)

	for _, decision := range []string{"done", "retry", "skip"} {
		id, at := who["alice"].asks()
		c.Exec(
			`UPDATE actlog.wait_state SET subject = '{"name":"pay","decisions":["done","retry","skip"]}' WHERE root_plan_id = $1`, id,
		)
		if decision == "skip" {
			wantStatus(t, who["alice"].post(at, obj{"decision": decision}), http.StatusOK)
			continue
		}
		wantProblem(t, who["alice"].post(at, obj{"decision": decision}), http.StatusForbidden, nil)
	}
}

// S9: without keys nobody is known, so nobody may approve. Who decides otherwise is only a claim.
func TestNotStarterWithoutKeys(t *testing.T) {
	t.Parallel()
	c := payer(t, nil)
	_, at := c.asks()
	wantProblem(t, c.post(at, obj{"decision": "approve", "by": "bob"}), http.StatusForbidden, nil)
	a := c.post(at, obj{"decision": "reject", "by": "bob"})
	wantStatus(t, a, http.StatusOK)
	expect(t, a.JSON(t), obj{"state": "REJECTED", "decidedBy": nil, "by": "bob"})
}

// S9: decidedBy is the key, by what its owner says, in the wait, the records, the trace and the reports.
func TestDecidedByIsWhoWasAuthenticated(t *testing.T) {
	t.Parallel()
	secrets, server := door(t, map[string][]httpd.Scope{"desk": {httpd.ScopeRead, httpd.ScopeRun, httpd.ScopeDecide}})
	c := serve(t, apitest.Options{Server: server})
	c.Key = secrets["desk"]
	l := c.waits(formWait())

	a := c.post("/api/v1/runs/"+l.PlanID+"/waits/form", obj{
		"decision": "submit", "values": obj{"region": "EMEA"}, "by": "the chief",
	})
	wantStatus(t, a, http.StatusOK)
	expect(t, a.JSON(t), obj{"decidedBy": "desk", "by": "the chief"})
	expect(t, c.Read("/api/v1/plans/"+l.PlanID+"/waits"), obj{"items.0.decidedBy": "desk", "items.0.by": "the chief"})
	for _, path := range []string{"/trace?format=markdown", "/trace"} {
		if got := string(c.Get("/api/v1/runs/" + l.PlanID + path).Body); !strings.Contains(got, "by desk (says: the chief)") {
			t.Errorf("%s: %s", path, got)
		}
	}

	var told string
	row := c.DB.Pool.QueryRow(t.Context(), "SELECT decided_by || ' ' || claimed_by FROM report.wait")
	if err := row.Scan(&told); err != nil || told != "desk the chief" {
		t.Errorf("told = %s %v", told, err)
	}

	asked := c.started()
	wantStatus(t, c.post("/api/v1/runs/"+asked+"/stop", obj{"by": "the chief"}), http.StatusAccepted)
	row = c.DB.Pool.QueryRow(t.Context(),
		"SELECT requested_by || ' ' || claimed_by FROM actlog.control_request WHERE plan_id = $1", asked)
	if err := row.Scan(&told); err != nil || told != "desk the chief" {
		t.Errorf("told = %s %v", told, err)
	}
}
