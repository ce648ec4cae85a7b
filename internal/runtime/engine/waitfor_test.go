package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// waits returns a house whose agent a makes calls of wait_for, one after the other.
func waits(t *testing.T, arguments ...object) *enginetest.House {
	t.Helper()
	var turns [][]scriptmodel.ToolCall
	for _, each := range arguments {
		turns = append(turns, []scriptmodel.ToolCall{call("wait_for", each)})
	}
	return build(t, []scriptmodel.Scene{{Name: "s", Turns: calls(append(turns, terminate("done"))...)}},
		map[string]define.Definition{"a": {Tools: []string{"wait_for"}}}, nil)
}

// send sends an event, and returns how many runs it woke.
func send(h *enginetest.House, key string, data any, set ...func(*engine.EventRequest)) int {
	h.T.Helper()
	raw, err := json.Marshal(data)
	if err != nil {
		h.T.Fatal(err)
	}

	r := engine.EventRequest{Key: key, Data: raw}
	for _, f := range set {
		f(&r)
	}
	woken, err := h.Engine.SendEvent(h.T.Context(), r)
	if err != nil {
		h.T.Fatal(err)
	}
	return woken
}

// sleeps waits until no worker holds a run, which waits for some things.
func sleeps(h *enginetest.House, id string, waitingFor ...string) *runstore.RunDetail {
	h.T.Helper()
	var d *runstore.RunDetail
	storetest.Until(h.T, fmt.Sprintf("run %s waits for %q", id, waitingFor), func() bool {
		d = detail(h, id)
		return d.State == record.Waiting && slices.EqualFunc(d.WaitingFor, waitingFor, strings.HasPrefix)
	})
	return d
}

// startWaiting starts runs, and returns when all of them wait for event e.
func startWaiting(h *enginetest.House, n int) (ids []string) {
	h.T.Helper()
	for range n {
		ids = append(ids, h.Start("a", "Wait."))
	}
	for _, id := range ids {
		sleeps(h, id, "event:e")
	}
	return ids
}

// results returns what the calls of a run that has one step returned, in their order.
func results(h *enginetest.House, id string) (all []string) {
	h.T.Helper()
	for _, cycle := range h.Step(h.Await(id, record.Completed)).Cycles {
		for _, made := range cycle.ToolCalls {
			if text(made.Record.Name) == "wait_for" {
				all = append(all, fmt.Sprint(*made.Record.State, " ", text(made.Record.Result)))
			}
		}
	}
	return all
}

func wantResults(h *enginetest.House, id string, want ...string) {
	h.T.Helper()
	if got := results(h, id); !slices.Equal(got, want) {
		h.T.Errorf("run %s: got %q, want %q", id, got, want)
	}
}

// TestWaitForEvent: a run that waits for an event holds nothing, says what it waits for, and is woken by it.
func TestWaitForEvent(t *testing.T) {
	t.Parallel()
	h := waits(t, object{"event": "paid:17"})
	h.Work(h.Engine)
	id := h.Start("a", "Ship it.")

	d := sleeps(h, id, "event:paid:17")
	if d.DueAt != nil || len(d.Waits) > 0 || *d.Plan.State != record.Waiting {
		t.Errorf("it is due at %v, has %d waits, and is %s", d.DueAt, len(d.Waits), *d.Plan.State)
	}
	if state := *h.Step(h.Plan(id)).Cycles[0].ToolCalls[0].Record.State; state != record.Waiting {
		t.Errorf("the call is %s", state)
	}

	if woken := send(h, "paid:18", nil); woken != 0 {
		t.Errorf("another key woke %d", woken)
	}
	if woken := send(h, "paid:17", object{"amount": 42}); woken != 1 {
		t.Errorf("it woke %d", woken)
	}
	wantResults(h, id, `COMPLETED {"amount":42}`)
	if open := storetest.Query[int64](t, h.Store, "SELECT count(*) FROM actlog.event_wait"); open != 0 {
		t.Errorf("%d waits are left", open)
	}
}

// TestSleep: a run sleeps for a time, or until an event is sent, if that is earlier.
func TestSleep(t *testing.T) {
	t.Parallel()
	h := waits(t, object{"seconds": 0.01}, object{"seconds": 0}, object{"event": "f", "seconds": 0.01},
		object{"event": "e", "seconds": 86400}, object{"seconds": 3600})
	h.Work(h.Engine)
	id := h.Start("a", "Sleep.")

	d := sleeps(h, id, "event:e", "time:20")
	if d.DueAt == nil || time.Until(*d.DueAt) < 23*time.Hour {
		t.Errorf("it is due at %v", d.DueAt)
	}
	if woken := send(h, "e", "now"); woken != 1 {
		t.Errorf("it woke %d", woken)
	}

	sleeps(h, id, "time:20")
	if send(h, "e", "later") != 0 {
		t.Error("it woke a run that only sleeps")
	}
	if err := h.Runs.Control(t.Context(), id, runstore.Stop, ""); err != nil {
		t.Fatal(err)
	}

	p := h.Ended(id)
	var got []string
	for _, cycle := range h.Step(p).Cycles {
		got = append(got, fmt.Sprint(*cycle.ToolCalls[0].Record.State, " ", text(cycle.ToolCalls[0].Record.Result)))
	}
	if want := []string{
		`COMPLETED {"timedOut": true}`, `COMPLETED {"timedOut": true}`, `COMPLETED {"timedOut": true}`, `COMPLETED "now"`,
		"CANCELLED ",
	}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestEventsBefore: events count that were sent in the last day before a run waited, the oldest first, each once in a
// run. Others of the same key, of another project or older ones do not.
func TestEventsBefore(t *testing.T) {
	t.Parallel()
	h := waits(t, object{"event": "e"}, object{"event": "e"}, object{"event": "e"}, object{"event": "e", "seconds": 0})
	send(h, "e", "too old")
	sql(h, "UPDATE actlog.event SET sent_at = now() - INTERVAL '25 hours'")
	send(h, "e", "of others", func(r *engine.EventRequest) { r.Project = "other" })
	for _, data := range []string{"one", "two"} {
		if woken := send(h, "e", data); woken != 0 {
			t.Errorf("%s woke %d", data, woken)
		}
	}

	h.Work(h.Engine)
	first, second := h.Start("a", "Wait."), h.Start("a", "Wait, too.")
	others := h.Start("a", "Wait.", func(r *engine.Request) { r.Project = "other" })
	for _, id := range []string{first, second, others} {
		sleeps(h, id, "event:e")
	}

	if woken := send(h, "e", "three"); woken != 2 {
		t.Errorf("three woke %d", woken)
	}
	for _, id := range []string{first, second} {
		wantResults(h, id, `COMPLETED "one"`, `COMPLETED "two"`, `COMPLETED "three"`, `COMPLETED {"timedOut": true}`)
	}
	sleeps(h, others, "event:e")
}

// TestWaitForArguments: wrong arguments are told to the model, and wrong events to the sender. What is secret is on
// record of neither.
func TestWaitForArguments(t *testing.T) {
	t.Parallel()
	h := waits(t, object{}, object{"seconds": -1}, object{"seconds": 1e18}, object{"event": strings.Repeat("k", 256)},
		object{"event": 7}, object{"event": "e", "minutes": 1}, object{"event": "pay-hush"})
	h.Parts.Secret = "hush"
	h.Work(h.Engine)

	id := h.Start("a", "Wait.")
	sleeps(h, id, "event:pay-[secret]")
	if woken := send(h, "pay-hush", object{"token": "hush"}); woken != 1 {
		t.Errorf("it woke %d", woken)
	}

	got := results(h, id)
	for i, want := range []string{
		"event or seconds", "seconds: must be from 0", "seconds: must be from 0", "event: must be", "event", "minutes",
		`COMPLETED {"token":"[secret]"}`,
	} {
		if i >= len(got) || !strings.Contains(got[i], want) || i < 6 && !strings.HasPrefix(got[i], "FAILED") {
			t.Errorf("call %d: %q", i, got)
		}
	}
	if n := storetest.Query[int64](t, h.Store,
		"SELECT count(*) FROM actlog.event WHERE key || data::text LIKE '%hush%'"); n != 0 {
		t.Error("a secret is on record")
	}

	for field, r := range map[string]engine.EventRequest{
		"key": {}, "data": {Key: "k", Data: json.RawMessage(`"` + strings.Repeat("x", engine.MaxEventBytes) + `"`)},
		"project": {Key: "k", Project: "\x00"},
	} {
		_, err := h.Engine.SendEvent(t.Context(), r)
		if bad := new(record.InvalidError); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, r := range []engine.EventRequest{
		{Key: strings.Repeat("k", 256)}, {Key: "\xff"}, {Key: "k", Data: json.RawMessage("{")},
	} {
		if _, err := h.Engine.SendEvent(t.Context(), r); !errors.As(err, new(*record.InvalidError)) {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// TestSameEventRequest: the same request sends one event, and another one with its key is refused.
func TestSameEventRequest(t *testing.T) {
	t.Parallel()
	h := waits(t, object{"event": "e"})
	h.Work(h.Engine)
	id := h.Start("a", "Wait.")
	sleeps(h, id, "event:e")

	same := func(body string) func(*engine.EventRequest) {
		return func(r *engine.EventRequest) { r.IdempotencyKey, r.Body = "k", []byte(body) }
	}
	for range 2 {
		if woken := send(h, "e", 1, same("b")); woken != 1 {
			t.Errorf("it woke %d", woken)
		}
	}
	if n := storetest.Query[int64](t, h.Store, "SELECT count(*) FROM actlog.event"); n != 1 {
		t.Errorf("%d events are on record", n)
	}

	r := engine.EventRequest{Key: "e"}
	same("another")(&r)
	if _, err := h.Engine.SendEvent(t.Context(), r); !errors.As(err, new(*record.InvalidError)) {
		t.Errorf("another request: %v", err)
	}
	wantResults(h, id, "COMPLETED 1")
}

// TestSendersAtOnce: however many send at the same moment, each event wakes each run at most once, and each run takes
// each event once.
func TestSendersAtOnce(t *testing.T) {
	t.Parallel()
	const runs, senders = 6, 5
	h := waits(t, slices.Repeat([]object{{"event": "e"}}, senders)...)
	h.Work(h.Engine)
	h.Work(h.NewEngine(nil))
	ids := startWaiting(h, runs)

	var sending sync.WaitGroup
	woken := make([]int, senders)
	for i := range senders {
		sending.Go(func() { woken[i] = send(h, "e", i) })
	}
	sending.Wait()

	total := 0
	for _, n := range woken {
		total += n
		if n > runs {
			t.Errorf("an event woke %d", n)
		}
	}
	if total < runs || total > runs*senders {
		t.Errorf("together they woke %v", woken)
	}

	for _, id := range ids {
		got := results(h, id)
		if slices.Sort(got); len(slices.Compact(got)) != senders {
			t.Errorf("run %s took %q", id, got)
		}
	}
}

// TestOneWakesOnce: of many events that are sent at the same moment, one wakes each run that waits.
func TestOneWakesOnce(t *testing.T) {
	t.Parallel()
	h := waits(t, object{"event": "e"})
	stop := h.Work(h.Engine)
	ids := startWaiting(h, 3)
	stop()

	var sending sync.WaitGroup
	woken := make([]int, 8)
	for i := range woken {
		sending.Go(func() { woken[i] = send(h, "e", i) })
	}
	sending.Wait()

	total := 0
	for _, n := range woken {
		total += n
	}
	if total != len(ids) {
		t.Errorf("together they woke %v, want each run once", woken)
	}

	h.Work(h.NewEngine(nil))
	for _, id := range ids {
		if got := results(h, id); len(got) != 1 || !strings.HasPrefix(got[0], "COMPLETED ") {
			t.Errorf("run %s: %q", id, got)
		}
	}
}

// TestSenderLost: a run is woken although the sender was lost right after its event was on record.
func TestSenderLost(t *testing.T) {
	t.Parallel()
	h := waits(t, object{"event": "e"})
	h.Work(h.Engine)
	id := h.Start("a", "Wait.")
	sleeps(h, id, "event:e")
	sql(h, `INSERT INTO actlog.event (project, key, data, sent_by, sent_at)
		VALUES ('default', 'e', '"lost"', '', now() - INTERVAL '2 seconds')`)
	wantResults(h, id, `COMPLETED "lost"`)
}

// TestControlOfWaits: a run that waits is paused, resumed, stopped and retried as others are. An event that is sent
// while it is paused is not lost.
func TestControlOfWaits(t *testing.T) {
	t.Parallel()
	h := waits(t, object{"event": "e", "seconds": 3600}, object{"event": "f"})
	h.Work(h.Engine)
	id := h.Start("a", "Wait.")
	sleeps(h, id, "event:e", "time:20")
	asks := func(action runstore.Action) {
		t.Helper()
		if err := h.Runs.Control(t.Context(), id, action, "ada"); err != nil {
			t.Fatal(err)
		}
	}

	asks(runstore.Pause)
	h.Await(id, record.Paused)
	if woken := send(h, "e", "paused"); woken != 0 {
		t.Errorf("it woke %d", woken)
	}
	if d := detail(h, id); d.State != record.Paused || len(d.WaitingFor) > 0 {
		t.Errorf("it is %s, and waits for %q", d.State, d.WaitingFor)
	}
	asks(runstore.Resume)
	sleeps(h, id, "event:f")

	asks(runstore.Stop)
	h.Await(id, record.Cancelled)
	if n := storetest.Query[int64](t, h.Store, "SELECT count(*) FROM actlog.event_wait"); n != 0 {
		t.Errorf("%d waits are left", n)
	}
	if woken := send(h, "g", "nobody"); woken != 0 {
		t.Errorf("it woke %d", woken)
	}

	if err := h.Engine.Retry(t.Context(), engine.RetryRequest{PlanID: id}); err != nil {
		t.Fatal(err)
	}
	sleeps(h, id, "event:f")
	send(h, "f", "again")
	wantResults(h, id, `COMPLETED "paused"`, `COMPLETED "again"`)
}

// TestSleepIsNoWork: a limit of seconds does not count sleeps.
func TestSleepIsNoWork(t *testing.T) {
	t.Parallel()
	h := waits(t, object{"seconds": 1.5})
	h.Work(h.Engine)
	id := h.Start("a", "Sleep.", func(r *engine.Request) { r.Limits = &engine.Limits{Seconds: 1} })
	wantResults(h, id, `COMPLETED {"timedOut": true}`)
}

// TestWaitsBelow: an agent that another one called waits. Each run takes an event once, with all that is below it.
func TestWaitsBelow(t *testing.T) {
	t.Parallel()
	waitFor := call("wait_for", object{"event": "e"})
	h := build(t, []scriptmodel.Scene{
		{Name: "child", Match: scriptmodel.Match{System: "Child."}, Turns: calls(
			[]scriptmodel.ToolCall{waitFor}, terminate("child answer"))},
		{Name: "root", Match: scriptmodel.Match{System: "Root."}, Turns: calls(
			[]scriptmodel.ToolCall{call("agent.child", object{"request": "Wait."}), waitFor}, terminate("root answer"))},
	}, map[string]define.Definition{
		"root":  {SystemPrompt: "Root.", Tools: []string{"agent.child", "wait_for"}},
		"child": {SystemPrompt: "Child.", Tools: []string{"wait_for"}},
	}, nil)
	h.Work(h.Engine)

	id := h.Start("root", "Wait.")
	storetest.Until(t, "both wait", func() bool {
		return storetest.Query[int64](t, h.Store, `SELECT count(*) FROM actlog.event_wait AS w
			JOIN actlog.run AS r USING (root_plan_id, plan_id) WHERE r.worker_id IS NULL AND r.due_at IS NULL`) == 2
	})

	sleeps(h, id, "event:e")
	if woken := send(h, "e", 1); woken != 1 {
		t.Errorf("it woke %d", woken)
	}

	storetest.Until(t, "one has it, and the other one waits", func() bool {
		return storetest.Query[bool](t, h.Store, `SELECT (SELECT count(*) FROM actlog.event_wait) = 1
			AND NOT EXISTS (SELECT FROM actlog.run WHERE NOT done AND (worker_id IS NOT NULL OR due_at IS NOT NULL))`)
	})
	sleeps(h, id, "event:e")
	if woken := send(h, "e", 2); woken != 1 {
		t.Errorf("the second woke %d", woken)
	}
	h.Await(id, record.Completed)
}

// TestThousandWait: a thousand runs that wait hold no worker, and one event wakes them all.
func TestThousandWait(t *testing.T) {
	t.Parallel()
	pgtest.NotRaced(t, "a thousand runs take too long")
	const runs = 1000
	h := waits(t, object{"event": "e"})
	h.Work(h.Engine)
	for range runs {
		h.Start("a", "Wait.")
	}

	count := func(where string) int64 {
		return storetest.Query[int64](t, h.Store, "SELECT count(*) FROM actlog.run WHERE "+where)
	}
	storetest.Until(t, "all wait", func() bool {
		return storetest.Query[int64](t, h.Store, "SELECT count(*) FROM actlog.event_wait") == runs &&
			count("worker_id IS NOT NULL OR due_at IS NOT NULL OR placed") == 0
	})
	if woken := send(h, "e", 1); woken != runs {
		t.Errorf("it woke %d", woken)
	}
	storetest.Until(t, "all have ended", func() bool { return count("done") == runs })
}

// TestWaitsKilledAtEveryWrite: wherever the worker is killed, each call gets its event, once, and sleeps end.
func TestWaitsKilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	waitFor := func(arguments object) scriptmodel.ToolCall { return call("wait_for", arguments) }
	want := enginetest.AtEveryWrite(t, func(t *testing.T, disturb func(*enginetest.House)) string {
		t.Helper()
		h := build(t, []scriptmodel.Scene{
			{Name: "child", Match: scriptmodel.Match{System: "Child."}, Turns: calls(
				[]scriptmodel.ToolCall{waitFor(object{"event": "below"})}, terminate("child answer"))},
			{Name: "root", Match: scriptmodel.Match{System: "Root."}, Turns: calls(
				[]scriptmodel.ToolCall{waitFor(object{"event": "before"})},
				[]scriptmodel.ToolCall{waitFor(object{"event": "before"}), waitFor(object{"seconds": 0.02})},
				[]scriptmodel.ToolCall{waitFor(object{"event": "never", "seconds": 0.02})},
				[]scriptmodel.ToolCall{call("agent.child", object{"request": "Wait."}), waitFor(object{"event": "later"})},
				[]scriptmodel.ToolCall{waitFor(object{"event": "later"})},
				terminate("root answer"))},
		}, map[string]define.Definition{
			"root":  {SystemPrompt: "Root.", Tools: []string{"agent.child", "wait_for"}},
			"child": {SystemPrompt: "Child.", Tools: []string{"wait_for"}},
		}, nil)
		disturb(h)
		for _, data := range []string{"one", "two", "three"} {
			send(h, "before", data)
		}
		h.Work(h.Engine)

		id := h.Start("root", "Wait.")
		for _, key := range []string{"below", "later", "later"} {
			storetest.Until(t, "something waits for "+key, func() bool {
				return storetest.Query[int64](t, h.Store, "SELECT count(*) FROM actlog.event_wait WHERE key = $1", key) > 0
			})
			send(h, key, key+" came")
			storetest.Until(t, key+" was taken", func() bool {
				return storetest.Query[int64](t, h.Store, `SELECT count(*) FROM actlog.event AS e
					WHERE e.key = $1 AND NOT EXISTS (SELECT FROM actlog.event_taken AS t WHERE t.event_id = e.event_id)`, key) == 0
			})
		}

		p := h.Await(id, record.Completed)
		return outlineOf(h, p) + fmt.Sprint(storetest.Query[string](t, h.Store, `SELECT format('%s waits, taken: %s',
			(SELECT count(*) FROM actlog.event_wait), (SELECT count(*) FROM actlog.event_taken))`))
	}, func(t *testing.T, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("it came to another end:\n%s", got)
		}
	})

	if !strings.Contains(want, "root answer") || strings.Count(want, "later came") < 2 ||
		!strings.Contains(want, "0 waits, taken: 5") {
		t.Fatalf("undisturbed:\n%s", want)
	}
}
