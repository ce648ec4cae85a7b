package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// timed returns a house whose agent a answers at once. It is not open.
func timed(t *testing.T) *enginetest.House {
	t.Helper()
	return build(t, []scriptmodel.Scene{{Name: "s", Turns: []scriptmodel.Turn{{ToolCalls: terminate("done")}}}},
		map[string]define.Definition{"a": {}}, nil)
}

func from(start, expires time.Time) func(*engine.Request) {
	return func(r *engine.Request) { r.StartAt, r.ExpiresAt = start, expires }
}

// sql runs a statement on the database of a house.
func sql(h *enginetest.House, statement string, args ...any) {
	h.T.Helper()
	if _, err := h.DB.Pool.Exec(h.T.Context(), statement, args...); err != nil {
		h.T.Fatal(err)
	}
}

func detail(h *enginetest.House, id string) *runstore.RunDetail {
	h.T.Helper()
	d, err := h.Runs.Reader.RunDetail(h.T.Context(), id)
	if err != nil {
		h.T.Fatal(err)
	}
	return d
}

// TestStartAt: until its time a run is PENDING and says so, also when it was paused and resumed meanwhile. Then it
// runs, by the clock of the database.
func TestStartAt(t *testing.T) {
	t.Parallel()
	h := timed(t)
	at := time.Now().Add(time.Hour).Truncate(time.Second)
	id := h.Start("a", "Later.", from(at, at.Add(time.Hour)))
	h.Work(h.Engine)

	pending := func() {
		t.Helper()
		storetest.Until(t, "run "+id+" is pending", func() bool { return detail(h, id).State == record.Pending })
		d := detail(h, id)
		if want := "time:" + at.UTC().Format(time.RFC3339); !slices.Equal(d.WaitingFor, []string{want}) {
			t.Errorf("waitingFor of run %s = %q, want %s", id, d.WaitingFor, want)
		}
		if d.DueAt == nil || !d.DueAt.Equal(at) || !d.StartAt.Equal(at) || !d.ExpiresAt.Equal(at.Add(time.Hour)) {
			t.Errorf("run %s: dueAt %v, startAt %v, expiresAt %v", id, d.DueAt, d.StartAt, d.ExpiresAt)
		}
	}
	pending()

	for _, action := range []runstore.Action{runstore.Pause, runstore.Resume} {
		if err := h.Runs.Control(t.Context(), id, action, ""); err != nil {
			t.Fatal(err)
		}
		if action == runstore.Pause {
			h.Await(id, record.Paused)
			if d := detail(h, id); len(d.WaitingFor) > 0 || d.DueAt != nil {
				t.Errorf("run %s is paused: waitingFor %q, dueAt %v", id, d.WaitingFor, d.DueAt)
			}
		}
	}
	pending()

	h.Ended(h.Start("a", "Now.")) // a worker looked what it can do
	pending()

	sql(h, "UPDATE actlog.run SET start_at = now(), due_at = now() WHERE plan_id = $1", id)
	h.Await(id, record.Completed)
	if d := detail(h, id); len(d.WaitingFor) > 0 || d.DueAt != nil {
		t.Errorf("run %s: waitingFor %q, due %v", id, d.WaitingFor, d.DueAt)
	}
	began(h, id)
}

// began checks that a run was not begun before its time.
func began(h *enginetest.House, id string) {
	h.T.Helper()
	if storetest.Query[bool](h.T, h.Store, "SELECT first_claimed_at < start_at FROM actlog.run WHERE plan_id = $1", id) {
		h.T.Errorf("run %s began before its time", id)
	}
}

// TestStartAtInTime: the time comes by itself.
func TestStartAtInTime(t *testing.T) {
	t.Parallel()
	h := timed(t)
	h.Work(h.Engine)
	id := h.Start("a", "Soon.", from(time.Now().Add(500*time.Millisecond), time.Time{}))
	h.Await(id, record.Completed)
	began(h, id)
}

// TestExpires: a run that nobody began in time ends, once, without a worker that could carry it: one that needs what
// nobody has, one that is held, one that is paused, one that is due, and one whose start has not come. One that was
// begun goes on, and one that is to stop was stopped.
func TestExpires(t *testing.T) {
	t.Parallel()
	h := timed(t)
	soon := from(time.Time{}, time.Now().Add(time.Hour))

	ids := map[string]string{
		"due": h.Start("a", "due", soon), "needs": h.Start("a", "needs", soon),
		"held":   h.Start("a", "held", soon, func(r *engine.Request) { r.Held = true }),
		"paused": h.Start("a", "paused", soon),
		"later":  h.Start("a", "later", from(time.Now().Add(time.Minute), time.Now().Add(time.Hour))),
	}
	begun, stopped := h.Start("a", "begun", soon), h.Start("a", "stopped", soon)

	sql(h, "UPDATE actlog.run SET needs = '{tool:none}' WHERE plan_id = $1", ids["needs"])
	if err := h.Runs.Control(t.Context(), ids["paused"], runstore.Pause, ""); err != nil {
		t.Fatal(err)
	}
	if err := h.Runs.Control(t.Context(), stopped, runstore.Stop, ""); err != nil {
		t.Fatal(err)
	}
	sql(h, `UPDATE actlog.run SET first_claimed_at = now(), claimed_at = now() WHERE plan_id = $1`, begun)
	sql(h, `UPDATE actlog.run SET start_at = least(start_at, now() - interval '2 s'), expires_at = now() - interval '1 s'`)

	claimed, err := enginetest.Claim(t.Context(), h.Runs, "nobody", h.Parts.Provides(), 50)
	if err != nil || slices.ContainsFunc(claimed, func(c runstore.Claimed) bool { return c.PlanID == ids["due"] }) {
		t.Fatalf("claimed %+v, %v: a run that nobody began in time is among them", claimed, err)
	}
	sql(h, "UPDATE actlog.run SET worker_id = NULL, due_at = now() WHERE worker_id IS NOT NULL")

	ctx, cancel := context.WithCancel(t.Context())
	var keeping sync.WaitGroup
	for range 3 {
		e := h.NewEngine(nil)
		keeping.Go(func() { e.KeepTime(ctx) })
	}
	for why, id := range ids {
		p := h.Await(id, record.Cancelled)
		if enginetest.Text(p.Record.ErrorKind) != runstore.Expired ||
			!strings.Contains(enginetest.Text(p.Record.ErrorMessage), "Nobody began") {
			t.Errorf("the run that is %s: %+v", why, p.Record)
		}
		if d := detail(h, id); !d.Done || d.DueAt != nil {
			t.Errorf("the run that is %s: done %t, due %v", why, d.Done, d.DueAt)
		}
	}
	cancel()
	keeping.Wait()

	h.Work(h.Engine)
	h.Await(begun, record.Completed)
	if p := h.Await(stopped, record.Cancelled); enginetest.Text(p.Record.ErrorKind) != "stopped" {
		t.Errorf("the run that was stopped: %s", enginetest.Text(p.Record.ErrorKind))
	}
}

// TestExpiresBehindOne: a run that cannot be ended keeps no other from that.
func TestExpiresBehindOne(t *testing.T) {
	t.Parallel()
	h := timed(t)
	soon := from(time.Time{}, time.Now().Add(time.Hour))
	bad, good := h.Start("a", "bad", soon), h.Start("a", "good", soon)
	sql(h, "UPDATE actlog.run SET expires_at = now() - interval '2 s' WHERE plan_id = $1", bad)
	sql(h, "UPDATE actlog.run SET expires_at = now() - interval '1 s' WHERE plan_id = $1", good)
	sql(h, "ALTER TABLE actlog.run ADD CONSTRAINT planted CHECK (NOT done OR plan_id <> '"+bad+"')")

	ended, err := h.Runs.Expire(t.Context())
	if len(ended) != 1 || err == nil || !strings.Contains(err.Error(), bad) {
		t.Errorf("%d runs ended: %v", len(ended), err)
	}
	if state := detail(h, good).State; state != record.Cancelled {
		t.Errorf("the run behind it is %s", state)
	}
}

// TestExpiresOnce: a run is either begun or ended, however many workers and others look at the same time.
func TestExpiresOnce(t *testing.T) {
	t.Parallel()
	h := timed(t)
	const runs = 30
	var ids []string
	for range runs {
		ids = append(ids, h.Start("a", "Now or never.", from(time.Time{}, time.Now().Add(time.Hour))))
	}
	sql(h, "UPDATE actlog.run SET expires_at = now() + plan_id_rank * interval '20 ms' FROM (SELECT plan_id AS p, "+
		"row_number() OVER () AS plan_id_rank FROM actlog.run) AS x WHERE plan_id = p")

	for range 2 {
		h.Work(h.NewEngine(func(c *engine.Config) { c.Slots = 1 }))
	}
	expired := 0
	for _, id := range ids {
		p := h.Ended(id)
		kind := enginetest.Text(p.Record.ErrorKind)
		if begun := len(p.Steps) > 0; begun == (kind == runstore.Expired) {
			t.Errorf("run %s is %s %s, with %d steps", id, *p.Record.State, kind, len(p.Steps))
		}
		if kind == runstore.Expired {
			expired++
		}
	}
	t.Logf("%d of %d expired", expired, runs)
}

// TestTimesOfRequests: what cannot be is refused, with the name of the field.
func TestTimesOfRequests(t *testing.T) {
	t.Parallel()
	h := timed(t)
	now := time.Now()
	for field, set := range map[string]func(*engine.Request){
		"expiresAt": from(now, now), "startAt": from(time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC), time.Time{}),
	} {
		r := engine.Request{Executor: "agent", Input: []byte(`{"agent":"a","request":"r"}`)}
		set(&r)
		_, err := h.Engine.Start(t.Context(), r)
		if bad := new(record.InvalidError); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
