package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// lockPlan locks the row of a plan from another session, until unlock or the end of the test.
func lockPlan(t *testing.T, pool *pgxpool.Pool, id string) (unlock func()) {
	t.Helper()
	return holdLock(t, pool, "SELECT FROM actlog.plan_execution_record WHERE current_plan_id = $1 FOR UPDATE", id)
}

// lockPlans locks the table of plans against all writers, as CREATE INDEX does.
func lockPlans(t *testing.T, pool *pgxpool.Pool) (unlock func()) {
	t.Helper()
	return holdLock(t, pool, "LOCK TABLE actlog.plan_execution_record IN SHARE MODE")
}

// holdLock runs a statement that takes a lock, in a transaction that unlock ends.
func holdLock(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) (unlock func()) {
	t.Helper()
	tx, err := pool.Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}

	unlock = sync.OnceFunc(func() {
		if err := tx.Rollback(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(unlock)
	if _, err := tx.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
	return unlock
}

// waitFor waits for writes and reports their errors.
func waitFor(t *testing.T, writes []<-chan error) {
	t.Helper()
	for _, done := range writes {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func title(root, title string) *record.Plan {
	return &record.Plan{RootPlanID: root, CurrentPlanID: root, Title: &title}
}

// TestLockedRow checks that a locked row delays only the writes to its own tree, for as long as
// the lock lasts.
func TestLockedRow(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := storetest.OpenURL(t, db.URL, storetest.Patient, func(c *store.Config) { c.Writers = 1 })
	storetest.Write(t, s, title("locked", "before"))
	unlock := lockPlan(t, db.Pool, "locked")

	var delayed []<-chan error
	for n := range 20 {
		// This write also has a free tree. It is committed without the locked one.
		beside := fmt.Sprintf("beside-%d", n)
		delayed = append(delayed, writing(t.Context(), s, []record.Change{
			&record.AgentExecution{RootPlanID: "locked", PlanID: "locked", StepID: fmt.Sprint("s", n)},
			title(beside, "x"), title("locked", fmt.Sprint("after ", n)),
		}))

		storetest.Write(t, s, title(fmt.Sprintf("free-%d", n), "x"))
		storetest.Until(t, "the free tree of the write is on record", func() bool {
			_, _, err := s.PlanTree(t.Context(), "", beside)
			return err == nil
		})
	}

	storetest.Until(t, "only the rows of the locked tree are queued", func() bool {
		rows, _ := store.Queued(s)
		return rows == 2*len(delayed)
	})
	unlock()
	waitFor(t, delayed)

	if p := storetest.PlanTree(t, s, "locked"); len(p.Steps) != len(delayed) || *p.Record.Title == "before" {
		t.Errorf("%d steps, title %q", len(p.Steps), *p.Record.Title)
	}
	if rows, _ := store.Queued(s); rows != 0 {
		t.Errorf("%d rows are left in the queue", rows)
	}
}

// TestLockedTreeIsReported checks that a write to a locked tree fails after RetryFor with the id
// of the tree, and that the write is not committed later.
func TestLockedTreeIsReported(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := storetest.OpenURL(t, db.URL, func(c *store.Config) { c.RetryFor = 5 * time.Second })
	storetest.Write(t, s, title("locked", "before"), title("other", "before"))
	unlock := lockPlan(t, db.Pool, "locked")

	_, err := s.Write(t.Context(), []record.Change{title("locked", "after"), title("other", "after")})
	var locked *record.LockedError
	if !errors.Is(err, record.ErrUnavailable) || !errors.As(err, &locked) || locked.RootPlanID != "locked" {
		t.Errorf("error = %v", err)
	}
	if waiting, known := store.Locked(s)["locked"]; !known || waiting > 0 {
		t.Errorf("%d requests wait, the tree is known as locked: %t", waiting, known)
	}

	storetest.Until(t, "nothing is being written", func() bool {
		rows, _ := store.Queued(s)
		return rows == 0
	})
	unlock()
	storetest.Write(t, s, &record.Plan{RootPlanID: "locked", CurrentPlanID: "locked", Summary: new("later")})
	if got := *storetest.PlanTree(t, s, "locked").Record.Title; got != "before" {
		t.Errorf("title of the locked plan: %q", got)
	}
	if got := *storetest.PlanTree(t, s, "other").Record.Title; got != "after" {
		t.Errorf("title of the other plan: %q", got)
	}
}

// TestKnownLockBlocksNoWriter checks that requests to a tree that is known as locked are put
// aside, so that they keep no writer busy.
func TestKnownLockBlocksNoWriter(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := storetest.OpenURL(t, db.URL, storetest.Patient)
	storetest.Write(t, s, title("locked", "before"))
	unlock := lockPlan(t, db.Pool, "locked")

	writes := []<-chan error{writing(t.Context(), s, []record.Change{title("locked", "1")})}
	storetest.Until(t, "the tree is known as locked", func() bool { return store.Locked(s)["locked"] == 1 })
	for n := range 50 {
		writes = append(writes, writing(t.Context(), s, []record.Change{title("locked", fmt.Sprint(n+2))}))
	}
	// one may be tried
	storetest.Until(t, "all of them wait aside", func() bool { return store.Locked(s)["locked"] >= 50 })

	unlock()
	waitFor(t, writes)
	storetest.Write(t, s, title("locked", "last"))
	if n := len(store.Locked(s)); n != 0 {
		t.Errorf("%d trees still count as locked", n)
	}
}

// TestLockedTable checks that every tree counts as locked while a table is, and that all of them
// are written afterwards.
func TestLockedTable(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := storetest.OpenURL(t, db.URL, storetest.Patient)
	storetest.Write(t, s, title("p", "before"))
	unlock := lockPlans(t, db.Pool)

	var writes []<-chan error
	for n := range 100 {
		writes = append(writes, writing(t.Context(), s, plans(fmt.Sprintf("p%d-", n), 3)))
	}
	storetest.Until(t, "all trees count as locked", func() bool { return len(store.Locked(s)) >= 100 })

	unlock()
	waitFor(t, writes)
	if n := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.plan_execution_record"); n != 301 {
		t.Errorf("%d plans on record", n)
	}
}

// TestUnmarkingLocksTracesFirst checks that a write that undoes marks holds no root plan while it
// waits for a trace: the writer of that trace waits for the root plan then.
func TestUnmarkingLocksTracesFirst(t *testing.T) {
	t.Parallel()
	pg := pgtest.New(t)
	s := storetest.OpenURL(t, pg.URL)
	p := &record.Plan{
		RootPlanID: "p", CurrentPlanID: "p", TraceID: new("000000000000000000000000000000a1"), State: new(record.Running),
	}
	storetest.Write(t, s, p)

	unlock := holdLock(t, pg.Pool, "SELECT pg_advisory_xact_lock(161)")
	done := make(chan error, 1)
	go func() { done <- store.WriteUnmarked(t.Context(), s, p) }()
	storetest.Until(t, "it waits for the trace", func() bool {
		return storetest.Query[bool](t, s,
			"SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory')")
	})

	if _, err := pg.Pool.Exec(t.Context(),
		"SELECT FROM actlog.plan_execution_record WHERE root_plan_id = 'p' FOR UPDATE NOWAIT"); err != nil {
		t.Errorf("it holds the root plan: %v", err)
	}
	unlock()
	waitFor(t, []<-chan error{done})
}
