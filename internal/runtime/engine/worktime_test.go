package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// asker asks whoever uses it, and waits for the answer while the call goes on, as older MCP servers do.
func asker() tool.Tool {
	return tool.CallFunc("ask", "Asks.", func(ctx context.Context, c tool.Call, _ struct{}) (string, error) {
		a, err := c.Ask(ctx, tool.Question{Key: "1", Message: "Go on?", Held: true})
		return string(a.Decision), err
	}, tool.WithPolicy(tool.Policy{Timeout: time.Minute}))
}

// X2: the time that a person takes is not that of the run, whatever waits: a form, an approval, a question of a tool, a
// sub-agent. The limit is far below the time that passes.
func TestAPersonsTimeIsNotTheRuns(t *testing.T) {
	t.Parallel()
	agents := map[string]define.Definition{
		"form":     {SystemPrompt: "Form.", Tools: []string{"form"}},
		"approval": {SystemPrompt: "Approval.", Tools: []string{"pay"}},
		"question": {SystemPrompt: "Question.", Tools: []string{"ask"}},
		"parent":   {SystemPrompt: "Parent.", Tools: []string{"agent.form"}},
	}

	form := call("form", object{"title": "City?", "inputs": []object{{"label": "City", "name": "city"}}})
	var scenes []scriptmodel.Scene
	for system, c := range map[string]scriptmodel.ToolCall{
		"Form.": form, "Approval.": call("pay", object{"name": "a"}), "Question.": call("ask", nil),
		"Parent.": call("agent.form", object{"request": "Ask."}),
	} {
		scenes = append(scenes, scriptmodel.Scene{
			Name: system, Match: scriptmodel.Match{System: system}, Turns: calls([]scriptmodel.ToolCall{c}, terminate("done")),
		})
	}

	for name := range agents {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := &effects{done: map[string][]string{}}
			h := build(t, scenes, agents, []tool.Tool{e.tool("pay", tool.Policy{Approval: true}), asker()})
			h.Work(h.Engine)
			id := h.Start(name, "Go.", func(r *engine.Request) { r.Limits = &engine.Limits{Seconds: 30} })

			storetest.Until(t, "somebody is asked", func() bool { return len(h.Waits()) == 1 })
			w := h.Waits()[0]
			storetest.Until(t, "no clock goes", func() bool {
				return number(t, h, "SELECT count(*) FROM actlog.run WHERE clock IS NOT NULL") == 0
			})
			if n := number(t, h, "SELECT count(*) FROM actlog.wait_state WHERE expires_at IS NOT NULL"); n > 0 {
				t.Errorf("the wait has an end that nobody gave it")
			}
			if n := number(t, h, "SELECT count(*) FROM actlog.run WHERE due_at IS NOT NULL"); n > 0 {
				t.Errorf("%d runs are due although somebody is to answer first", n)
			}

			// As if the time that passes by all clocks of the world were a day.
			storetest.Exec(t, h.Store, "UPDATE actlog.worker SET age = age + 86400")
			if err := h.Decide(w, map[bool]record.State{true: record.Approved, false: record.Submitted}[name == "approval"],
				"yes", "Oslo"); err != nil {
				t.Fatal(err)
			}

			h.Await(id, record.Completed)
			if worked := number(t, h, "SELECT ceil(max(worked)) FROM actlog.run"); worked < 1 || worked > 30 {
				t.Errorf("the runs worked for %d s", worked)
			}
		})
	}
}

// X2: the time that a run waits for its turn at a model, while others are at their limit, is not its own.
func TestATurnIsNotTheRuns(t *testing.T) {
	t.Parallel()
	h, m := limitedHouse(t, model.Limits{Concurrent: 1}, make(chan struct{}), nil)
	h.Work(h.Engine)
	first := h.Start("worker", "Go.")
	storetest.Until(t, "the only place is taken", func() bool { return m.now.Load() == 1 })

	second := h.Start("worker", "Go.", func(r *engine.Request) { r.Limits = &engine.Limits{Seconds: 30} })
	storetest.Until(t, "its clock is stopped", func() bool {
		return storetest.Query[bool](t, h.Store, "SELECT worked > 0 AND clock IS NULL FROM actlog.run WHERE plan_id = $1",
			second)
	})

	// As if the time that passes by all clocks of the world were a day.
	storetest.Exec(t, h.Store, "UPDATE actlog.worker SET age = age + 86400")
	close(m.gate)
	h.Await(first, record.Completed)
	h.Await(second, record.Completed)
	if worked := storetest.Query[float64](t, h.Store, "SELECT worked FROM actlog.run WHERE plan_id = $1",
		second); worked <= 0 || worked > 30 {
		t.Errorf("the run worked for %g s", worked)
	}
}

// X2: neither the queue nor a pause is time of the run.
func TestQueueAndPauseAreNotTheRuns(t *testing.T) {
	t.Parallel()
	b := newBlocker()
	h := blocking(t, b, tool.Policy{})
	id := h.Start("worker", "Go.", func(r *engine.Request) { r.Limits = &engine.Limits{Seconds: 30} })
	storetest.Exec(t, h.Store, "UPDATE actlog.run SET created_at = now() - INTERVAL '1 day', due_at = now() - INTERVAL '1 day'")

	stop := h.Work(h.Engine)
	<-b.begun
	if err := h.Runs.Control(t.Context(), id, runstore.Pause, ""); err != nil {
		t.Fatal(err)
	}
	close(b.free)

	h.Await(id, record.Paused)
	storetest.Until(t, "no clock goes", func() bool {
		return number(t, h, "SELECT count(*) FROM actlog.run WHERE clock IS NOT NULL") == 0
	})
	stop()

	storetest.Exec(t, h.Store, "UPDATE actlog.worker SET age = age + 86400")
	h.Work(h.NewEngine(nil))
	if err := h.Runs.Control(t.Context(), id, runstore.Resume, ""); err != nil {
		t.Fatal(err)
	}
	h.Await(id, record.Completed)
	if worked := number(t, h, "SELECT ceil(max(worked)) FROM actlog.run"); worked < 1 || worked > 30 {
		t.Errorf("the run worked for %d s", worked)
	}
}

// X2: a form that queues behind another one has no end either, however long that waits.
func TestAQueuedFormHasNoEnd(t *testing.T) {
	t.Parallel()
	asks := call("agent.asks", object{"request": "Ask."})
	h := build(t, []scriptmodel.Scene{
		{Name: "parent", Match: scriptmodel.Match{System: "Parent."}, Turns: calls(
			[]scriptmodel.ToolCall{asks, asks}, terminate("done"))},
		{Name: "asks", Turns: calls([]scriptmodel.ToolCall{
			call("form", object{"title": "City?", "inputs": []object{{"label": "City", "name": "city"}}}),
		}, terminate("asked"))},
	}, map[string]define.Definition{
		"parent": {SystemPrompt: "Parent.", Tools: []string{"agent.asks"}}, "asks": {Tools: []string{"form"}},
	}, nil)

	h.Work(h.Engine)
	id := h.Start("parent", "Go.")
	storetest.Until(t, "one form is shown, and the other waits for it", func() bool {
		return len(h.Waits()) == 1 &&
			number(t, h, "SELECT count(*) FROM actlog.act_tool_info WHERE name = 'form' AND state = 'WAITING'") == 2
	})

	// As if both had waited for a day.
	storetest.Exec(t, h.Store, "UPDATE actlog.act_tool_info SET start_time = start_time - INTERVAL '1 day'")
	for answered := range 2 {
		storetest.Until(t, "a form is shown", func() bool {
			return len(h.Waits()) == 1 && number(t, h, "SELECT count(*) FROM actlog.wait_state") == answered+1
		})
		if n := number(t, h, "SELECT count(*) FROM actlog.wait_state WHERE expires_at IS NOT NULL"); n > 0 {
			t.Errorf("%d waits have an end that nobody gave them", n)
		}
		if err := h.Decide(h.Waits()[0], record.Submitted, "submit", "Oslo"); err != nil {
			t.Fatal(err)
		}
	}

	h.Await(id, record.Completed)
	if n := number(t, h, "SELECT count(*) FROM actlog.act_tool_info WHERE name = 'form' AND state = 'COMPLETED'"); n != 2 {
		t.Errorf("%d forms were answered", n)
	}
}

// number returns the number that a statement selects.
func number(t *testing.T, h *enginetest.House, sql string) (n int) {
	t.Helper()
	if err := h.DB.Pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// X2: where one branch waits for a person and another one works, the run works, and ends with its limit.
func TestABranchThatWorks(t *testing.T) {
	t.Parallel()
	b := newBlocker()
	h := build(t, []scriptmodel.Scene{
		{Name: "parent", Match: scriptmodel.Match{System: "Parent."}, Turns: calls(
			[]scriptmodel.ToolCall{
				call("agent.waits", object{"request": "Ask."}), call("agent.works", object{"request": "Work."}),
			}, terminate("done"))},
		{Name: "waits", Match: scriptmodel.Match{System: "Waits."}, Turns: calls(
			[]scriptmodel.ToolCall{call("form", object{"title": "City?", "inputs": []object{{"label": "City"}}})},
			terminate("done"))},
		{Name: "works", Turns: calls([]scriptmodel.ToolCall{call("block", nil)}, terminate("done"))},
	}, map[string]define.Definition{
		"parent": {SystemPrompt: "Parent.", Tools: []string{"agent.waits", "agent.works"}},
		"waits":  {SystemPrompt: "Waits.", Tools: []string{"form"}}, "works": {
			SystemPrompt: "Works.", Tools: []string{"block"},
		},
	}, []tool.Tool{b.tool(tool.Policy{})})

	h.Work(h.Engine)
	p := h.Await(h.Start("parent", "Go.", func(r *engine.Request) {
		r.Limits = &engine.Limits{Seconds: 3}
	}), record.Failed)
	if text(p.Record.ErrorKind) != engine.LimitTime {
		t.Errorf("%s: %s", text(p.Record.ErrorKind), text(p.Record.ErrorMessage))
	}

	storetest.Until(t, "nothing below it goes on", func() bool {
		return number(t, h, "SELECT count(*) FROM actlog.run WHERE NOT done") == 0
	})
	if n := len(h.Waits()); n > 0 {
		t.Errorf("%d waits are open", n)
	}
}

// X2: a wait that has an end ends TIMED_OUT, and the call says so.
func TestAWaitTimesOut(t *testing.T) {
	t.Parallel()
	form := call("form", object{"title": "City?", "inputs": []object{{"label": "City"}}})
	for name, c := range map[string]struct {
		call  scriptmodel.ToolCall
		state record.State
		text  string
	}{
		"form": {form, record.Failed, "Input timeout occurred"},
		"pay":  {call("pay", object{"name": "a"}), record.Skipped, "Nobody approved this call in time. It was not made."},
		"ask":  {call("ask", nil), record.Completed, "cancel"}, // the tool makes the best of it
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := &effects{done: map[string][]string{}}
			h := build(t, []scriptmodel.Scene{{Name: "s", Turns: calls([]scriptmodel.ToolCall{c.call}, terminate("done"))}},
				map[string]define.Definition{"a": {Tools: []string{name}, WaitTimeout: define.Duration(300 * time.Millisecond)}},
				[]tool.Tool{e.tool("pay", tool.Policy{Approval: true}), asker()})

			h.Work(h.Engine)
			p := h.Await(h.Start("a", "Go.", func(r *engine.Request) {
				r.Limits = &engine.Limits{Seconds: 60}
			}), record.Completed)

			made := h.Step(p).Cycles[0].ToolCalls[0].Record
			kind := map[bool]string{true: engine.WaitTimedOut}[c.state != record.Completed]
			if *made.State != c.state || text(made.Result) != c.text || text(made.ErrorKind) != kind || len(e.done) > 0 {
				t.Errorf("the call is %s, %s: %q", *made.State, text(made.ErrorKind), text(made.Result))
			}
			if n := number(
				t, h, "SELECT count(*) FROM actlog.wait_state WHERE state = 'TIMED_OUT' AND expires_at <= end_time",
			); n != 1 {
				t.Errorf("%d waits timed out", n)
			}
		})
	}
}

// X7: of the forms of a tree one is asked at a time, however fast it is answered, and also where its time is over
// before its run has ended it. The database itself looks at each change.
func TestOneFormAtATime(t *testing.T) {
	t.Parallel()
	form := call("form", object{"title": "City?", "inputs": []object{{"label": "City"}}})
	h := build(t, []scriptmodel.Scene{
		{Name: "parent", Match: scriptmodel.Match{System: "Parent."}, Turns: calls(
			[]scriptmodel.ToolCall{
				call("agent.asks", object{"request": "1"}), call("agent.asks", object{"request": "2"}),
				call("agent.late", object{"request": "3"}),
			}, terminate("done"))},
		{
			Name: "asks", Match: scriptmodel.Match{System: "Asks."},
			Turns: calls([]scriptmodel.ToolCall{form}, []scriptmodel.ToolCall{form}, terminate("asked")),
		},
		{Name: "late", Turns: calls([]scriptmodel.ToolCall{form}, terminate("nobody answered"))},
	}, map[string]define.Definition{
		"parent": {SystemPrompt: "Parent.", Tools: []string{"agent.asks", "agent.late"}},
		"asks":   {SystemPrompt: "Asks.", Tools: []string{"form"}}, "late": {
			Tools: []string{"form"}, WaitTimeout: define.Duration(time.Nanosecond),
		},
	}, nil)

	storetest.Exec(t, h.Store, `CREATE FUNCTION actlog.one_form() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF (SELECT count(*) FROM actlog.wait_state WHERE root_plan_id = NEW.root_plan_id AND state = 'WAITING') > 1 THEN
			INSERT INTO actlog.two_forms VALUES (NEW.wait_id);
		END IF;
		RETURN NULL;
	END $$`)

	storetest.Exec(t, h.Store, "CREATE TABLE actlog.two_forms (wait_id text)")
	storetest.Exec(t, h.Store, "CREATE TRIGGER one_form AFTER INSERT OR UPDATE ON actlog.wait_state FOR EACH ROW "+
		"EXECUTE FUNCTION actlog.one_form()")

	ctx, cancel := context.WithCancel(t.Context())
	var answering sync.WaitGroup
	answering.Go(func() { answer(ctx, h) })
	defer func() { cancel(); answering.Wait() }()
	h.Work(h.Engine)
	h.Await(h.Start("parent", "Go."), record.Completed)

	if n := number(t, h, "SELECT count(*) FROM actlog.two_forms"); n > 0 {
		t.Errorf("two forms were asked at a time, %d times", n)
	}
	if n := number(t, h, "SELECT count(*) FROM actlog.wait_state WHERE state <> 'WAITING'"); n != 5 {
		t.Errorf("%d forms, want 5", n)
	}
}

// X2: the time that a run worked counts on where its worker was killed, by the heartbeats of that worker, and not by
// any clock that can be set.
func TestTheLimitOutlivesTheWorker(t *testing.T) {
	t.Parallel()
	for name, aged := range map[string]int{"little": 50, "too much": 500} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBlocker()
			h := blocking(t, b, tool.Policy{OnUnknown: tool.Retry})
			kill := mortal(t, h)
			id := h.Start("parent", "Go.", func(r *engine.Request) { r.Limits = &engine.Limits{Seconds: 100} })
			<-b.begun
			kill()

			// Its last heartbeat was when it had worked for so long. The clock of Postgres says nothing of it.
			storetest.Exec(
				t, h.Store, fmt.Sprintf(`UPDATE actlog.worker SET age = age + %d, lease_until = now() - interval '3 days'`, aged),
			)
			bury(t, h)
			h.Work(h.NewEngine(nil))
			close(b.free)

			want := map[bool]record.State{true: record.Completed, false: record.Failed}[aged < 100]
			p := h.Await(id, want)
			if want == record.Failed && text(p.Record.ErrorKind) != engine.LimitTime {
				t.Errorf("%s: %s", text(p.Record.ErrorKind), text(p.Record.ErrorMessage))
			}
			if worked := number(t, h, "SELECT floor(min(worked)) FROM actlog.run"); worked < min(aged, 100)-10 {
				t.Errorf("a run worked for %d s, want about %d", worked, aged)
			}
		})
	}
}

// late is a tool that is not called before something has happened.
type late struct {
	tool.Tool
	happened func()
}

// CheckArguments implements [tool.ArgumentChecker].
func (l late) CheckArguments(json.RawMessage) error {
	l.happened()
	return nil
}

// TestACallThatTheLimitKeepsFromBeingMade checks that a call is SKIPPED that would be made when the time of the run is
// over: nobody made it.
func TestACallThatTheLimitKeepsFromBeingMade(t *testing.T) {
	t.Parallel()
	e := &effects{done: map[string][]string{}}
	var h *enginetest.House
	last := late{e.tool("late", tool.Policy{}), func() {
		storetest.Until(t, "the clock stands while somebody is asked", func() bool {
			return number(t, h, "SELECT count(*) FROM actlog.wait_state") == 1 &&
				number(t, h, "SELECT count(*) FROM actlog.run WHERE clock IS NOT NULL") == 0
		})
		storetest.Exec(t, h.Store, "UPDATE actlog.run SET worked = 1000")
	}}

	h = build(t, []scriptmodel.Scene{
		{
			Name: "s", Turns: calls([]scriptmodel.ToolCall{call("ask", nil), call("late", object{"name": "a"})},
				terminate("done")),
		},
	},
		map[string]define.Definition{"a": {Tools: []string{"ask", "late"}}}, []tool.Tool{asker(), last})

	h.Work(h.Engine)
	p := h.Await(h.Start("a", "Go.", func(r *engine.Request) { r.Limits = &engine.Limits{Seconds: 500} }), record.Failed)
	if text(p.Record.ErrorKind) != engine.LimitTime {
		t.Errorf("%s: %s", text(p.Record.ErrorKind), text(p.Record.ErrorMessage))
	}
	made := h.Step(p).Cycles[0].ToolCalls[1].Record
	if *made.State != record.Skipped || made.StartTime != nil || len(e.done) > 0 {
		t.Errorf("the call is %s: %s", *made.State, text(made.ErrorMessage))
	}
}

// mortal runs a worker that can be killed: from then on nothing of it is written, and its runs wait for somebody who
// takes them over.
func mortal(t *testing.T, h *enginetest.House) (kill func()) {
	t.Helper()
	dead := make(chan struct{})
	stop := h.Work(h.NewEngine(func(c *engine.Config) {
		c.Beat, c.Lease = time.Hour, 4*time.Hour
		c.Drain = time.Millisecond
		c.Write = func(ctx context.Context, l runstore.Lease, changes []record.Change, ops ...runstore.RunOp) error {
			select {
			case <-dead:
				return runstore.ErrLeaseLost
			default:
				return c.Store.WriteRun(ctx, l, changes, ops...)
			}
		}
	}))

	return func() {
		close(dead)
		// The process that plays the worker lives, and hands back what is its own.
		storetest.Exec(t, h.Store, `INSERT INTO actlog.worker (worker_id, host, release, provides, slots, age, lease_until)
			SELECT 'killed-' || w.worker_id, w.host, w.release, w.provides, w.slots, w.age, now() FROM actlog.worker AS w
			WHERE w.worker_id IN (SELECT r.worker_id FROM actlog.run AS r)`)
		storetest.Exec(t, h.Store, "UPDATE actlog.run SET worker_id = 'killed-' || worker_id WHERE worker_id IS NOT NULL")
		stop()
	}
}
