package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// killOnce lets a worker take what is due, and kills it once a call is under way: its runs are taken over by who comes
// next.
func killOnce(t *testing.T, h *enginetest.House, b *blocker) {
	t.Helper()
	kill := mortal(t, h)
	<-b.begun
	kill()
	bury(t, h)
}

// bury declares all workers dead, as another one does whose lease has passed without a heartbeat.
func bury(t *testing.T, h *enginetest.House) {
	t.Helper()
	holders, err := h.Runs.Holders(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range holders {
		if _, err := h.Runs.Bury(t.Context(), each); err != nil {
			t.Fatal(err)
		}
	}
}

// A run that loses worker after worker without a result on record fails, with how many they were, and nothing below
// it is live. That holds for a sub-run, too, and what started it goes on.
func TestARunThatKillsItsWorkers(t *testing.T) {
	t.Parallel()
	for _, agent := range []string{"worker", "parent"} {
		t.Run(agent, func(t *testing.T) {
			t.Parallel()
			b := newBlocker()
			h := blocking(t, b, tool.Policy{OnUnknown: tool.Retry})
			id := h.Start(agent, "Go.")
			for range 5 {
				killOnce(t, h, b)
			}

			h.Work(h.NewEngine(nil))
			p := h.Ended(id)
			if agent == "parent" {
				if *p.Record.State != record.Completed {
					t.Errorf("the parent is %s: %s", *p.Record.State, text(p.Record.ErrorMessage))
				}
				if made := h.Step(p).Cycles[0].ToolCalls[0].Record; *made.State != record.Failed ||
					text(made.ErrorKind) != "worker_lost" {
					t.Errorf("the call is %s, %s", *made.State, text(made.ErrorKind))
				}
				p = p.Steps[0].SubPlans[0]
			}

			if *p.Record.State != record.Failed || text(p.Record.ErrorKind) != "worker_lost" ||
				!strings.Contains(text(p.Record.ErrorMessage), " 5 ") {
				t.Errorf("p.Record.State = %s, %s: %s", *p.Record.State, text(p.Record.ErrorKind), text(p.Record.ErrorMessage))
			}
			if n := number(t, h, "SELECT count(*) FROM actlog.run WHERE NOT done OR worker_id IS NOT NULL"); n > 0 {
				t.Errorf("%d runs are open", n)
			}

			for _, table := range []string{"agent_execution_record", "think_act_record", "act_tool_info"} {
				if n := number(t, h, "SELECT count(*) FROM actlog."+table+
					" WHERE state IN ('PENDING', 'RUNNING', 'WAITING', 'AWAITING_APPROVAL', 'IDLE')"); n > 0 {
					t.Errorf("%d rows of %s are live", n, table)
				}
			}
			if len(b.begun) > 0 {
				t.Error("a sixth worker was given the call")
			}
		})
	}
}

// A result on record starts the count again, however many workers were lost in all.
func TestProgressStartsTheCountAgain(t *testing.T) {
	t.Parallel()
	b := newBlocker()
	var turns [][]scriptmodel.ToolCall
	for range 2 {
		turns = append(turns, []scriptmodel.ToolCall{call("block", nil)})
	}
	h := build(t, []scriptmodel.Scene{{Name: "s", Turns: calls(append(turns, terminate("done"))...)}},
		map[string]define.Definition{"a": {Tools: []string{"block"}}}, []tool.Tool{
			b.tool(tool.Policy{OnUnknown: tool.Retry}),
		})

	id := h.Start("a", "Go.")
	kill := mortal(t, h)
	<-b.begun
	for i := range turns {
		for range 3 {
			kill()
			bury(t, h)
			kill = mortal(t, h)
			<-b.begun
		}
		b.free <- struct{}{}
		if i < len(turns)-1 {
			<-b.begun
		}
	}

	h.Await(id, record.Completed)
	if n := number(t, h, "SELECT max(takeovers) FROM actlog.run"); n != 6 {
		t.Errorf("%d takeovers, want 6", n)
	}
}

// A call that ends UNKNOWN, and a question that nobody answered in time, are results like others.
func TestEndsWithoutAnAnswerStartTheCountAgain(t *testing.T) {
	t.Parallel()
	b := newBlocker()
	patient := tool.CallFunc("ask", "Asks, and goes on without an answer.",
		func(ctx context.Context, c tool.Call, _ struct{}) (string, error) {
			if _, err := c.Ask(ctx, tool.Question{Key: "1", Message: "Go on?", Held: true}); err != nil {
				return "", err
			}
			b.begun <- c.ID
			<-b.free
			return "done", nil
		}, tool.WithPolicy(tool.Policy{OnUnknown: tool.Retry, Timeout: time.Minute}))

	once := func(begun chan struct{}) tool.Tool {
		return tool.CallFunc("once", "Never ends by itself.",
			func(ctx context.Context, _ tool.Call, _ struct{}) (string, error) {
				close(begun)
				<-ctx.Done()
				return "", ctx.Err()
			})
	}

	for name, c := range map[string]struct {
		calls []scriptmodel.ToolCall
		ended string // what is on record then
	}{
		"unknown": {
			[]scriptmodel.ToolCall{call("once", nil), call("block", nil)},
			"SELECT count(*) FROM actlog.act_tool_info WHERE state = 'UNKNOWN' AND result IS NOT NULL",
		},
		"timed out": {
			[]scriptmodel.ToolCall{call("ask", nil)}, "SELECT count(*) FROM actlog.wait_state WHERE state = 'TIMED_OUT'",
		},
	} {
		t.Run(name, func(t *testing.T) {
			begun := make(chan struct{})
			h := build(t, []scriptmodel.Scene{{Name: "s", Turns: calls(c.calls, terminate("done"))}},
				map[string]define.Definition{
					"a": {Tools: []string{"once", "block", "ask"}, WaitTimeout: define.Duration(time.Hour)},
				},
				[]tool.Tool{once(begun), b.tool(tool.Policy{OnUnknown: tool.Retry}), patient})

			id := h.Start("a", "Go.")
			kill := mortal(t, h)
			if name == "unknown" {
				<-begun
				<-b.begun
			} else {
				storetest.Until(t, "somebody is asked", func() bool { return len(h.Waits()) == 1 })
			}

			kill()
			bury(t, h)
			storetest.Exec(t, h.Store, "UPDATE actlog.wait_state SET expires_at = now()")
			if n := number(t, h, "SELECT lost FROM actlog.run"); n != 1 {
				t.Fatalf("the run lost %d workers", n)
			}

			h.Work(h.NewEngine(nil))
			<-b.begun
			storetest.Until(t, "that has ended", func() bool { return number(t, h, c.ended) == 1 })
			if n := number(t, h, "SELECT lost FROM actlog.run"); n != 0 {
				t.Errorf("after a result, %d lost workers count", n)
			}
			b.free <- struct{}{}
			h.Await(id, record.Completed)
		})
	}
}

// A planned hand-over is no loss.
func TestAHandOverIsNoLoss(t *testing.T) {
	t.Parallel()
	b := newBlocker()
	h := blocking(t, b, tool.Policy{OnUnknown: tool.Retry})
	id := h.Start("worker", "Go.")
	for range 4 { // more would be more than a call is tried again
		stop := h.Work(h.NewEngine(func(c *engine.Config) { c.Drain = time.Millisecond }))
		<-b.begun
		stop()
	}
	if n := number(t, h, "SELECT max(lost) + max(takeovers) FROM actlog.run"); n != 0 {
		t.Errorf("%d hand-overs count as losses", n)
	}

	h.Work(h.NewEngine(nil))
	close(b.free)
	h.Await(id, record.Completed)
}

// Runs beside one that kills its workers are not taken for it: before it is one too many, each is carried by a worker
// that carries nothing else, so that it is known which it was.
func TestRunsBesideAPoisonedOneGoOn(t *testing.T) {
	t.Parallel()
	b := newBlocker()
	h := blocking(t, b, tool.Policy{OnUnknown: tool.Retry})
	ids := map[string]bool{}
	for i := range 3 {
		ids[h.Start("worker", fmt.Sprint("Go ", i))] = true
	}

	for range 4 { // all of them lose four workers
		kill := mortal(t, h)
		for range 3 {
			<-b.begun
		}
		kill()
		bury(t, h)
	}
	kill := mortal(t, h)
	<-b.begun
	held := number(t, h, "SELECT count(*) FROM actlog.run WHERE worker_id IS NOT NULL")
	if held != 1 {
		t.Errorf("%d runs are carried beside one another", held)
	}

	kill()
	bury(t, h)
	close(b.free)
	h.Work(h.NewEngine(nil))

	var failed int
	for id := range ids {
		if p := h.Ended(id); *p.Record.State == record.Failed {
			failed++
			if text(p.Record.ErrorKind) != "worker_lost" {
				t.Errorf("%s: %s", text(p.Record.ErrorKind), text(p.Record.ErrorMessage))
			}
		}
	}
	if failed != 1 {
		t.Errorf("%d runs failed, want the one that killed its worker alone", failed)
	}
}

// A worker that always carries something lets go of it for a run that is to be carried alone.
func TestABusyWorkerMakesRoom(t *testing.T) {
	t.Parallel()
	b := newBlocker()
	var turns [][]scriptmodel.ToolCall
	for range 10_000 {
		turns = append(turns, []scriptmodel.ToolCall{call("block", nil)})
	}

	h := build(t, []scriptmodel.Scene{
		{Name: "busy", Match: scriptmodel.Match{System: "Busy."}, Turns: calls(turns...)},
		{Name: "suspect", Turns: calls(terminate("done"))},
	},
		map[string]define.Definition{
			"busy": {SystemPrompt: "Busy.", Tools: []string{"block"}, MaxSteps: len(turns)}, "suspect": {},
		}, []tool.Tool{b.tool(tool.Policy{})})

	suspect := h.Start("suspect", "Go on.", func(r *engine.Request) { r.Held = true })
	storetest.Exec(t, h.Store, "UPDATE actlog.run SET lost = 4 WHERE plan_id = $1", suspect)
	h.Work(h.NewEngine(func(c *engine.Config) { c.Lease = 2 * time.Second }))
	busy := h.Start("busy", "Go.")
	<-b.begun
	storetest.Exec(t, h.Store, "UPDATE actlog.run SET desired = 'RUN', due_at = now() WHERE plan_id = $1", suspect)

	done := make(chan struct{})
	go func() {
		for {
			select {
			case b.free <- struct{}{}:
			case <-b.begun:
			case <-done:
				return
			}
		}
	}()

	h.Await(suspect, record.Completed)
	if p := h.Plan(busy); p.Record.State.Terminal() {
		t.Error("the other run had ended before")
	}
	if err := h.Runs.Control(t.Context(), busy, runstore.Stop, "ann"); err != nil {
		t.Fatal(err)
	}
	h.Await(busy, record.Cancelled)
	close(done)
}

// Of several busy workers one makes room, and does so until it is empty, however long its calls take. The others take
// what is due.
func TestOneWorkerMakesRoom(t *testing.T) {
	t.Parallel()
	b := newBlocker()
	h := build(t, []scriptmodel.Scene{
		{
			Name: "busy", Match: scriptmodel.Match{System: "Busy."},
			Turns: calls([]scriptmodel.ToolCall{call("block", nil)}, terminate("done")),
		},
		{Name: "suspect", Turns: calls(terminate("done"))},
	}, map[string]define.Definition{"busy": {SystemPrompt: "Busy.", Tools: []string{"block"}}, "suspect": {}},
		[]tool.Tool{b.tool(tool.Policy{})})

	suspect := h.Start("suspect", "Go on.", func(r *engine.Request) { r.Held = true })
	storetest.Exec(t, h.Store, "UPDATE actlog.run SET lost = 4 WHERE plan_id = $1", suspect)

	const workers = 2
	rooms := &roomMakers{}
	for n := range workers {
		h.Work(h.NewEngine(func(c *engine.Config) {
			c.Lease, c.Drain = 2*time.Second, time.Millisecond
			c.Slots, c.Logger = 20, slog.New(rooms)
		}))
		storetest.Until(t, "there is another worker", func() bool {
			return number(t, h, "SELECT count(*) FROM actlog.worker") == n+1
		})
	}

	busy := map[string]bool{}
	start := func() {
		busy[h.Start("busy", fmt.Sprint("Go ", len(busy)))] = true
		<-b.begun
	}
	holders := func() int {
		return number(t, h, "SELECT count(DISTINCT worker_id) FROM actlog.run WHERE worker_id IS NOT NULL")
	}
	for holders() < workers {
		start()
	}

	storetest.Exec(t, h.Store, "UPDATE actlog.run SET desired = 'RUN', due_at = now() WHERE plan_id = $1", suspect)
	storetest.Until(t, "a worker makes room", func() bool { return len(rooms.all()) > 0 })

	looks := number(t, h, "SELECT ceil(max(age))::integer FROM actlog.worker") + 6
	storetest.Until(t, "all workers have looked again", func() bool {
		return number(t, h, "SELECT floor(min(age))::integer FROM actlog.worker") >= looks
	})
	first := rooms.all()[0]
	held := "SELECT count(*) FROM actlog.run WHERE worker_id = '" + first + "'"
	before := number(t, h, held)
	for range 5 {
		start()
	}

	if n := number(t, h, held); n != before {
		t.Errorf("the worker that makes room has %d runs, and had %d", n, before)
	}
	if all := rooms.all(); len(all) != 1 {
		t.Errorf("room is made by %v, want one worker, once", all)
	}

	close(b.free)
	h.Await(suspect, record.Completed)
	for id := range busy {
		h.Await(id, record.Completed)
	}
}

// A run that is to be carried alone is stopped or paused at once, although the only worker is busy with a long call.
func TestASuspectIsStoppedBesideOthers(t *testing.T) {
	t.Parallel()
	b := newBlocker()
	h := blocking(t, b, tool.Policy{})
	h.Work(h.NewEngine(nil))
	busy := h.Start("worker", "Go.")
	<-b.begun

	for action, want := range map[runstore.Action]record.State{
		runstore.Stop: record.Cancelled, runstore.Pause: record.Paused,
	} {
		suspect := h.Start("worker", "Go on.", func(r *engine.Request) { r.Held = true })
		claimable := "UPDATE actlog.run SET lost = 4, desired = 'RUN', due_at = now() WHERE plan_id = $1"
		storetest.Exec(t, h.Store, claimable, suspect)
		if err := h.Runs.Control(t.Context(), suspect, action, "ann"); err != nil {
			t.Fatal(err)
		}
		h.Await(suspect, want)
	}
	if p := h.Plan(busy); p.Record.State.Terminal() {
		t.Error("the other run had ended before")
	}
	b.free <- struct{}{}
	h.Await(busy, record.Completed)
}

// A run whose call waits for a person keeps its worker from no other run, however many workers it has lost.
func TestASuspectThatWaitsForAPerson(t *testing.T) {
	t.Parallel()
	b := newBlocker()
	patient := tool.CallFunc("ask", "Asks.", func(ctx context.Context, c tool.Call, _ struct{}) (string, error) {
		a, err := c.Ask(ctx, tool.Question{Key: "1", Message: "Go on?", Held: true})
		return string(a.Decision), err
	}, tool.WithPolicy(tool.Policy{OnUnknown: tool.Retry}))
	h := build(t, []scriptmodel.Scene{
		{
			Name: "asks", Match: scriptmodel.Match{System: "Asks."},
			Turns: calls([]scriptmodel.ToolCall{call("ask", nil)}, terminate("asked")),
		},
		{Name: "other", Turns: calls([]scriptmodel.ToolCall{call("block", nil)}, terminate("done"))},
	}, map[string]define.Definition{
		"asks": {SystemPrompt: "Asks.", Tools: []string{"ask"}}, "other": {Tools: []string{"block"}},
	}, []tool.Tool{patient, b.tool(tool.Policy{})})

	suspect := h.Start("asks", "Go on.")
	kill := mortal(t, h)
	storetest.Until(t, "somebody is asked", func() bool { return len(h.Waits()) == 1 })
	kill()
	bury(t, h)

	storetest.Exec(t, h.Store, "UPDATE actlog.run SET lost = 4")
	h.Work(h.NewEngine(nil))
	storetest.Until(t, "the call is made again", func() bool {
		return number(t, h, "SELECT count(*) FROM actlog.act_tool_info WHERE state = 'RUNNING' AND attempt = 2") == 1
	})
	other := h.Start("other", "Go.")
	storetest.Until(t, "the other run goes on", func() bool { return len(b.begun) == 1 })
	b.free <- struct{}{}
	h.Await(other, record.Completed)

	if err := h.Decide(h.Waits()[0], record.Submitted, "yes", ""); err != nil {
		t.Fatal(err)
	}
	h.Await(suspect, record.Completed)
}

// roomMakers hears in a log which workers make room for a run that is to be carried alone.
type roomMakers struct {
	mu      sync.Mutex
	workers []string
}

func (*roomMakers) Enabled(context.Context, slog.Level) bool { return true }

func (m *roomMakers) Handle(_ context.Context, r slog.Record) error {
	if !strings.HasPrefix(r.Message, "the worker lets go of its runs") {
		return nil
	}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "worker" {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.workers = append(m.workers, a.Value.String())
		}
		return true
	})
	return nil
}

func (m *roomMakers) WithAttrs([]slog.Attr) slog.Handler { return m }
func (m *roomMakers) WithGroup(string) slog.Handler      { return m }

func (m *roomMakers) all() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.workers)
}
