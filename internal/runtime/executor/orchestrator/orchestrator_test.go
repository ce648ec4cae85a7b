package orchestrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/runtime/decision"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runs"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

func nothing(string, string) {}

// run carries a request to its end.
func run(t *testing.T, d define.OrchestratorDefinition, all []scriptmodel.Scene, as human) (*house, *tree.Plan) {
	t.Helper()
	h := build(t, d, all, tools(nothing))
	h.Work(h.Engine)
	return h, h.ended(h.start(object{"request": "Do it"}), as)
}

// C1, C2, C14, C17: a request is planned with the agents and a schema at temperature 0.3, accepted, carried out and
// answered. A later step is told what earlier ones found, and the sources of a result are on record.
func TestRequest(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var told string
	planner := says(plan(step(1, "RAG_SEARCH", "Search"), step(2, "GIT", "Status")))
	status := scriptmodel.Turn{Reply: func(_ context.Context, r *scriptmodel.Request) (scriptmodel.Turn, error) {
		mu.Lock()
		defer mu.Unlock()
		told = r.Question()
		return scriptmodel.Turn{ToolCalls: []scriptmodel.ToolCall{enginetest.Call("git.status", object{})}}, nil
	}}

	h, p := run(t, definition(nil), scenes([]scriptmodel.Turn{planner}, map[string][]scriptmodel.Turn{
		"Search": calls("search.searchCode", query{"TODO"}), "Status": {status, repeats},
	}), accept)
	if story := h.story(p); !strings.HasPrefix(story, "COMPLETED \nAnswer to Request: Do it") ||
		!strings.Contains(story, "source file:///src/main.go") {
		t.Errorf("story = %v", story)
	}

	prompt := string(h.Model.Requests()[0].Body)
	for _, part := range []string{
		"- RAG_SEARCH: ", "- GIT: ", "- REFACTORING: ", "- CODE_ANALYSIS: ", "git.commit", "Max steps: 5",
		"Each step needs a justification", `"temperature":0.3`, "json_schema",
	} {
		if !strings.Contains(prompt, part) {
			t.Errorf("the planner is not told %q: %s", part, prompt)
		}
	}
	if !strings.Contains(told, "Step 1 (RAG_SEARCH): Search\nResult:\nmain.go has TODO") {
		t.Errorf("step 2 is told %q", told)
	}
}

// C3, C4, C5, C6: plans that do not fit fail the run before a human sees them, and say why. Dependencies may lack.
func TestPlans(t *testing.T) {
	t.Parallel()
	with := func(change func(s object)) object {
		s := step(1, "GIT", "Status")
		change(s)
		return plan(s)
	}
	var six []object
	for n := range 6 {
		six = append(six, step(n+1, "GIT", "Status"))
	}

	for _, tt := range []struct {
		answer any
		want   string // of the error; empty: it is shown
	}{
		{plan(step(1, "GIT", "Status")), ""},
		{"```json\n" + says(plan(six[:5]...)).Content + "\n```", ""},
		{with(func(s object) { s["dependencies"] = nil }), ""},
		{"no JSON", "The plan is no JSON that fits"},
		{object{"goal": " ", "steps": six[:1]}, "Goal cannot be null or empty"},
		{object{"goal": "x"}, "Plan must have at least one step"},
		{plan(six...), "Plan has 6 steps, more than 5"},
		{object{"goal": "x", "steps": six[:1], "estimatedDuration": -1}, "Estimated duration cannot be negative"},
		{with(func(s object) { s["stepNumber"] = 0 }), "Step 1 has the number 0"},
		{with(func(s object) { s["agentType"] = "ORCHESTRATOR" }), `Step 1: no agent has the type "ORCHESTRATOR"`},
		{with(func(s object) { s["action"] = "" }), "Step 1: action cannot be empty"},
		{with(func(s object) { s["justification"] = "" }), "Step 1: justification cannot be empty"},
		{with(func(s object) { s["dependencies"] = []int{1} }), "Step 1 cannot depend on step 1"},
		{plan(six[0], step(2, "GIT", "Status", 0)), "Step 2 cannot depend on step 0"},
	} {
		t.Run(tt.want, func(t *testing.T) {
			t.Parallel()
			reject := func(*record.Wait) decision.Decision { return decision.Decision{Decision: decision.Reject} }
			h, p := run(t, definition(nil), scenes([]scriptmodel.Turn{says(tt.answer)}, nil), reject)
			got := text(p.Record.ErrorMessage)
			if tt.want == "" && text(p.Record.ErrorKind) != "plan_rejected" || !strings.HasPrefix(got, tt.want) ||
				tt.want != "" && (*p.Record.State != record.Failed || len(h.seen) > 0) {
				t.Errorf("%s: %s %q", text(p.Record.ErrorKind), *p.Record.State, got)
			}
		})
	}
}

// C3: what a request may ask for.
func TestInput(t *testing.T) {
	t.Parallel()
	h := build(t, definition(nil), scenes([]scriptmodel.Turn{says("{}")}, nil), nil)

	for _, tt := range []struct {
		input object
		field string
	}{
		{object{}, "input.request"}, {object{"request": "x", "maxPlanSteps": 11}, "input.maxPlanSteps"},
		{object{"request": "x", "maxPlanSteps": 0}, "input.maxPlanSteps"},
		{object{"request": "x", "executionTimeout": 0}, "input.executionTimeout"},
		{object{"request": "x", "mode": "moon"}, "input.mode"}, {object{"request": "x", "more": 1}, "input.more"},
	} {
		b, _ := json.Marshal(tt.input)
		_, err := h.Engine.Start(t.Context(), engine.Request{Executor: "orchestrator", Input: b})
		if invalid, ok := errors.AsType[*record.InvalidError](err); !ok || invalid.Field != tt.field {
			t.Errorf("%v: %v", tt.input, err)
		}
	}
}

// C7, C11: before any step a human sees the goal, the steps and the duration. A rejected plan, and one that nobody
// accepts in time, ends as CANCELLED without a step. A plan can be modified three times; each is bound to what was
// shown.
func TestValidation(t *testing.T) {
	t.Parallel()
	one := says(plan(step(1, "GIT", "Status")))
	t.Run("reject", func(t *testing.T) {
		t.Parallel()
		h, p := run(t, definition(nil), scenes([]scriptmodel.Turn{one}, nil), func(*record.Wait) decision.Decision {
			return decision.Decision{Decision: decision.Reject, Text: "Too short.", By: "ann"}
		})
		if *p.Record.State != record.Cancelled ||
			text(p.Record.ErrorMessage) != "The plan was rejected by ann: Too short." || len(p.Steps) != 1 {
			t.Errorf("h.story(p) = %v", h.story(p))
		}
	})
	t.Run("timeout", func(t *testing.T) {
		t.Parallel()
		d := definition(func(o *define.Orchestrator) { o.WaitTimeout = define.Duration(time.Millisecond) })
		h := build(t, d, scenes([]scriptmodel.Turn{one}, nil), tools(nothing))
		h.Work(h.Engine)
		if p := h.Ended(h.start(object{"request": "Do it"})); *p.Record.State != record.Failed ||
			text(p.Record.ErrorKind) != engine.WaitTimedOut {
			t.Errorf("h.story(p) = %v", h.story(p))
		}
	})
	t.Run("modify", func(t *testing.T) {
		t.Parallel()
		var plans []scriptmodel.Turn
		for n := range 4 {
			p := plan(step(1, "GIT", "Status"))
			p["goal"] = fmt.Sprint("Version ", n)
			plans = append(plans, says(p))
		}

		h, p := run(t, definition(nil),
			scenes(plans, map[string][]scriptmodel.Turn{"Status": calls("git.status", object{})}),
			func(w *record.Wait) decision.Decision {
				if slices.Contains(decision.Decisions(w), decision.Modify) {
					return decision.Decision{Decision: decision.Modify, Text: "Better."}
				}
				return accept(w)
			})

		hashes := map[string]bool{}
		for i, w := range h.seen {
			hashes[text(w.SubjectSHA256)] = true
			if shown := string(w.Subject) + text(w.FormDescription); !strings.Contains(shown, fmt.Sprint("Version ", i)) ||
				!strings.Contains(shown, "Estimated duration: 30 s") {
				t.Errorf("a human sees %s", shown)
			}
		}

		if *p.Record.State != record.Completed || len(h.seen) != 4 || len(hashes) != 4 ||
			!strings.Contains(h.story(p), `artifact plan {"goal":"Version 3"`) {
			t.Errorf("%d waits\n%s", len(h.seen), h.story(p))
		}
	})
}

// C8, C13: a tool that needs it waits for an approval, which shows the action, the parameters and the files; others do
// not. A rejected action skips its step. Who approves all with the plan is not asked again.
func TestApproval(t *testing.T) {
	t.Parallel()
	all := scenes([]scriptmodel.Turn{says(plan(step(1, "GIT", "Status"), step(2, "GIT", "Commit A")))},
		map[string][]scriptmodel.Turn{
			"Status": calls("git.status", object{}), "Commit A": calls("git.commit", query{"A"}),
		})
	h, p := run(t, definition(nil), all, accept)

	w := h.seen[len(h.seen)-1]
	if subject := decision.SubjectOf(&w); len(h.seen) != 2 || *w.Type != record.WaitActionValidation ||
		text(subject.Name) != "git.commit" || !slices.Equal(subject.Files, []string{"A.go"}) ||
		text(w.FormDescription) != "Commit A" {
		t.Errorf("%d: %s %q", len(h.seen), w.Subject, text(w.FormDescription))
	}
	if story := h.story(p); !strings.Contains(story, "step 1 GIT COMPLETED: committed A") {
		t.Errorf("story = %v", story)
	}

	h, p = run(t, definition(nil), all, func(w *record.Wait) decision.Decision {
		d := accept(w)
		if d.Decision == decision.Approve {
			d.Decision = decision.Reject
		}
		return d
	})
	if story := h.story(p); !strings.HasPrefix(story, "COMPLETED ") || !strings.Contains(story, "step 1 GIT SKIPPED") ||
		!strings.Contains(story, "SKIPPED: A human rejected") {
		t.Errorf("story = %v", story)
	}

	h, p = run(t, definition(nil), all, func(*record.Wait) decision.Decision {
		return decision.Decision{
			Decision: decision.Accept, Values: map[string]json.RawMessage{"auto_approve": json.RawMessage("true")},
		}
	})
	if *p.Record.State != record.Completed || len(h.seen) != 1 {
		t.Errorf("%d waits\n%s", len(h.seen), h.story(p))
	}
}

// S9: who accepts a plan with all its actions does not approve those that who started the run may not.
func TestApprovedActionsKeepTheirStarterOut(t *testing.T) {
	t.Parallel()
	apart := tool.Func("git.commit", "Commits.", func(context.Context, struct{}) (string, error) {
		return "committed", nil
	}, tool.WithPolicy(tool.Policy{Writes: true, Approval: true, NotStarter: true}))
	all := scenes([]scriptmodel.Turn{says(plan(step(1, "GIT", "Commit")))},
		map[string][]scriptmodel.Turn{"Commit": calls("git.commit", object{})})

	h := build(t, definition(nil), all, []tool.Tool{apart})
	h.Work(h.Engine)
	id := h.start(object{"request": "Do it"}, func(r *engine.Request) { r.Starter = "ann" })
	h.Await(id, record.Waiting)
	h.decide(h.Waits()[0], func(*record.Wait) decision.Decision {
		return decision.Decision{
			Decision: decision.Accept, By: "ann", Values: map[string]json.RawMessage{"auto_approve": json.RawMessage("true")},
		}
	})
	asks := func() bool { return len(h.Waits()) == 1 && *h.Waits()[0].Type == record.WaitActionValidation }
	storetest.Until(t, "the commit is asked about", asks)

	w := h.Waits()[0]
	approve := func(by string) error {
		return runs.Decide(t.Context(), h.Runs, w.Key(), func(*record.Wait) (decision.Decision, error) {
			return decision.Decision{Decision: decision.Approve, By: by, Claim: "bob"}, nil
		})
	}
	for _, by := range []string{"ann", ""} {
		if err := approve(by); !errors.Is(err, runstore.ErrSelfApproval) {
			t.Errorf("%q approves: %v", by, err)
		}
	}
	if err := approve("bob"); err != nil {
		t.Error(err)
	}
	h.Await(id, record.Completed)
}

// C9, C10: a run that waits for its plan can be paused and resumed, and stopped.
func TestControls(t *testing.T) {
	t.Parallel()
	h := build(t, definition(nil),
		scenes([]scriptmodel.Turn{says(plan(step(1, "GIT", "Status")))},
			map[string][]scriptmodel.Turn{"Status": calls("git.status", object{})}), tools(nothing))
	h.Work(h.Engine)
	control := func(id string, a runstore.Action) {
		t.Helper()
		if err := h.control(id, a); err != nil {
			t.Fatal(err)
		}
	}

	id, other := h.start(object{"request": "Do it"}), h.start(object{"request": "Do it"})
	h.Await(id, record.Waiting)
	control(id, runstore.Pause)
	h.Await(id, record.Paused)
	control(id, runstore.Resume)
	h.Await(id, record.Waiting)
	h.Await(other, record.Waiting)
	control(other, runstore.Stop)

	if p := h.Ended(other); *p.Record.State != record.Cancelled || len(p.Steps) != 1 {
		t.Errorf("h.story(p) = %v", h.story(p))
	}
	if p := h.ended(id, accept); *p.Record.State != record.Completed || len(h.Model.Requests()) != 5 {
		t.Errorf("%d model calls\n%s", len(h.Model.Requests()), h.story(p))
	}
}

// C11: a run that takes too long fails, with a clear kind.
func TestExecutionTimeout(t *testing.T) {
	t.Parallel()
	// X2: that is the time for which it works, not that in which somebody is to accept its plan.
	slow := tools(nothing)
	slow[1] = tool.Func("git.status", "Shows what changed.", func(ctx context.Context, _ struct{}) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	})

	h := build(t, definition(nil),
		scenes([]scriptmodel.Turn{says(plan(step(1, "GIT", "Status")))},
			map[string][]scriptmodel.Turn{"Status": calls("git.status", object{})}), slow)
	h.Work(h.Engine)
	id := h.start(object{"request": "Do it", "executionTimeout": 2})
	h.Await(id, record.Waiting)

	var ends int
	if err := h.DB.Pool.QueryRow(t.Context(),
		"SELECT count(*) FROM actlog.wait_state WHERE expires_at IS NOT NULL").Scan(&ends); err != nil || ends > 0 {
		t.Errorf("the plan waits with an end that nobody gave it, %v", err)
	}

	storetest.Exec(t, h.Store, "UPDATE actlog.worker SET age = age + 86400") // a day later
	if p := h.ended(id, accept); *p.Record.State != record.Failed || text(p.Record.ErrorKind) != engine.LimitTime {
		t.Errorf("h.story(p) = %v", h.story(p))
	}
	if got := time.Duration(definition(nil).ExecutionTimeout); got != 300*time.Second {
		t.Errorf("the default is %s", got)
	}
}

// C12: agents are those of the registry. One that is disabled is not offered, and one that the configuration adds is;
// an agent has no tools but its own, and one without tools answers itself.
func TestRegistry(t *testing.T) {
	t.Parallel()
	d := definition(func(o *define.Orchestrator) {
		git := o.Agents["GIT"]
		git.Enabled = false
		o.Agents["GIT"], o.Agents["WRITER"] = git, define.Specialist{Description: "Writes.", Enabled: true}
	})
	h, p := run(t, d, scenes([]scriptmodel.Turn{
		says(plan(step(1, "WRITER", "Write"), step(2, "RAG_SEARCH", "Commit A"))),
	}, map[string][]scriptmodel.Turn{
		"Write":    {says("A poem.")},
		"Commit A": append(calls("git.commit", query{"A"})[:1], says("I cannot."), says("I can not."), says("No.")),
	}), accept)

	story := h.story(p)
	for _, part := range []string{"step 0 WRITER COMPLETED: A poem.",
		"step 1 RAG_SEARCH FAILED:  The agent called no tool that there is.", "git-commit FAILED There is no tool"} {
		if !strings.Contains(story, part) {
			t.Errorf("it lacks %q:\n%s", part, story)
		}
	}

	_, p = run(t, d, scenes([]scriptmodel.Turn{says(plan(step(1, "GIT", "Status")))}, nil), accept)
	if got := text(p.Record.ErrorMessage); got != `Step 1: no agent has the type "GIT"` {
		t.Errorf("text(p.Record.ErrorMessage) = %v", got)
	}
}

// C25: chat mode and agent mode share a conversation.
func TestModes(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	hear := func(answer scriptmodel.Turn) scriptmodel.Turn {
		return scriptmodel.Turn{Reply: func(_ context.Context, r *scriptmodel.Request) (scriptmodel.Turn, error) {
			mu.Lock()
			defer mu.Unlock()
			b, err := json.Marshal(r)
			asked = append(asked, string(b))
			return answer, err
		}}
	}

	planner := hear(says(plan(step(1, "GIT", "Status"))))
	all := []scriptmodel.Scene{
		{
			Name: "chat", Match: scriptmodel.Match{System: "helpful assistant"},
			Turns: []scriptmodel.Turn{hear(says("I am well.")), hear(says("x")), hear(says("It was clean."))},
		},
		{Name: "planner", Match: scriptmodel.Match{System: "Plan how"}, Turns: []scriptmodel.Turn{planner, planner}},
		{Name: "git", Match: scriptmodel.Match{System: "agent GIT"}, Turns: calls("git.status", object{})},
		{
			Name: "answer", Match: scriptmodel.Match{System: "They have worked"},
			Turns: []scriptmodel.Turn{says("x"), says("All is clean.")},
		},
	}
	h := build(t, definition(nil), all, tools(nothing))
	h.Work(h.Engine)
	talk := func(mode, request string) string {
		t.Helper()
		id := h.start(object{"request": request, "mode": mode}, func(r *engine.Request) { r.ConversationID = "c" })
		return text(h.ended(id, accept).Record.Summary)
	}

	if got := []string{
		talk("chat", "How are you?"), talk("agent", "Look at the repository."), talk("chat", "What was it?"),
	}; !slices.Equal(got, []string{"I am well.", "All is clean.", "It was clean."}) {
		t.Errorf("%q", got)
	}
	if len(asked) != 3 || !strings.Contains(asked[1], "How are you?") || !strings.Contains(asked[1], "I am well.") ||
		!strings.Contains(asked[2], "All is clean.") {
		t.Errorf("asked = %q", asked)
	}
}

// TestRefusedAndCut: a planner whose model refuses or is cut ends the run at once. A step does, too, but is told three
// times that it was cut.
func TestRefusedAndCut(t *testing.T) {
	t.Parallel()
	half := scriptmodel.Turn{
		ToolCalls: []scriptmodel.ToolCall{enginetest.Call("git.status", `{"pa`)}, FinishReason: "length",
	}
	for kind, turns := range map[string][]scriptmodel.Turn{
		"refusal": {{Refusal: "I will not."}}, "content_filter": {{Content: "Here", FinishReason: "content_filter"}},
		"length": {half, half, half},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			h, p := run(t, definition(nil),
				scenes([]scriptmodel.Turn{says(plan(step(1, "GIT", "Status")))}, map[string][]scriptmodel.Turn{"Status": turns}),
				accept)
			if st := p.Steps[1].Record; *p.Record.State != record.Failed || text(st.ErrorKind) != kind {
				t.Errorf("%s; the step is %s, %s: %s\n%s", *p.Record.State, *st.State, text(st.ErrorKind), text(st.ErrorMessage),
					h.story(p))
			}

			if _, p := run(t, definition(nil), scenes(turns[:1], nil), accept); text(p.Record.ErrorKind) != kind {
				t.Errorf("planning failed as %s: %s", text(p.Record.ErrorKind), text(p.Record.ErrorMessage))
			}
		})
	}
}
