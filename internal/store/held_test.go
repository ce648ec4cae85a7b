package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/record"
)

// seize has another session hold rows until it is undone.
func seize(t *testing.T, pool *pgxpool.Pool, rows string) (unlock func()) {
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
	if _, err := tx.Exec(t.Context(), "SELECT FROM "+rows+" FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	return unlock
}

func title(root, title string) *record.Plan {
	return &record.Plan{RootPlanID: root, CurrentPlanID: root, Title: &title}
}

// TestAHeldRow holds up its own tree only, for however long.
func TestAHeldRow(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := openURL(t, db.URL, patient, func(c *store.Config) { c.Writers = 1 })
	write(t, s, title("held", "before"))
	unlock := seize(t, db.Pool, "actlog.plan_execution_record WHERE current_plan_id = 'held'")

	var held []<-chan error
	for n := range 20 {
		// Some tell of a free tree, too; that is committed without the other.
		beside := fmt.Sprintf("beside-%d", n)
		held = append(held, writing(t.Context(), s, []record.Change{
			&record.AgentExecution{RootPlanID: "held", PlanID: "held", StepID: fmt.Sprint("s", n)},
			title(beside, "x"), title("held", fmt.Sprint("after ", n)),
		}))
		write(t, s, title(fmt.Sprintf("free-%d", n), "x"))
		until(t, "the free tree of both is on record", func() bool {
			_, _, err := s.PlanTree(t.Context(), beside)
			return err == nil
		})
	}
	until(t, "what waits is counted, and nothing else", func() bool {
		rows, _ := store.Queued(s)
		return rows == 2*len(held)
	})
	unlock()
	for _, done := range held {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if p := planTree(t, s, "held"); len(p.Steps) != len(held) || *p.Record.Title == "before" {
		t.Errorf("%d steps, title %q", len(p.Steps), *p.Record.Title)
	}
	if rows, _ := store.Queued(s); rows != 0 {
		t.Errorf("%d rows are left in the queue", rows)
	}
}

// TestWhoIsHeldIsTold what keeps the tree, after RetryFor, and nothing of it comes
// on record later.
func TestWhoIsHeldIsTold(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := openURL(t, db.URL, func(c *store.Config) { c.RetryFor = 5 * time.Second })
	write(t, s, title("held", "before"), title("other", "before"))
	unlock := seize(t, db.Pool, "actlog.plan_execution_record WHERE current_plan_id = 'held'")
	_, err := s.Write(t.Context(), []record.Change{title("held", "after"), title("other", "after")})
	var locked *store.LockedError
	if !errors.Is(err, record.ErrUnavailable) || !errors.As(err, &locked) || locked.RootPlanID != "held" {
		t.Errorf("error = %v", err)
	}
	if waiting, known := store.Held(s)["held"]; !known || waiting > 0 {
		t.Errorf("%d requests wait, it is still known to be held: %v", waiting, known)
	}
	until(t, "nothing of it is being written", func() bool {
		rows, _ := store.Queued(s)
		return rows == 0
	})
	unlock()
	write(t, s, &record.Plan{RootPlanID: "held", CurrentPlanID: "held", Summary: new("later")})
	if got := *planTree(t, s, "held").Record.Title; got != "before" {
		t.Errorf("the title is that of %s", got)
	}
	if got := *planTree(t, s, "other").Record.Title; got != "after" {
		t.Errorf("the other's title is that of %s", got)
	}
}

// TestAKnownLockCostsNoWriter: what is told of a tree that is known to be held
// goes aside though every writer is busy.
func TestAKnownLockCostsNoWriter(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := openURL(t, db.URL, patient)
	write(t, s, title("held", "before"))
	unlock := seize(t, db.Pool, "actlog.plan_execution_record WHERE current_plan_id = 'held'")
	all := []<-chan error{writing(t.Context(), s, []record.Change{title("held", "1")})}
	until(t, "it is known to be held", func() bool { return store.Held(s)["held"] == 1 })
	for n := range 50 {
		all = append(all, writing(t.Context(), s, []record.Change{title("held", fmt.Sprint(n+2))}))
	}
	until(t, "all of them wait aside", func() bool { return store.Held(s)["held"] >= 50 }) // one may be tried
	unlock()
	for _, done := range all {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	write(t, s, title("held", "last"))
	if n := len(store.Held(s)); n != 0 {
		t.Errorf("%d trees are still taken for held", n)
	}
}

// TestATableIsLocked for long, as by CREATE INDEX: every tree is held, and all of
// them are free again afterwards.
func TestATableIsLocked(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := openURL(t, db.URL, patient)
	write(t, s, title("p", "before"))
	unlock := lock(t, db.Pool)
	var all []<-chan error
	for n := range 100 {
		all = append(all, writing(t.Context(), s, plans(fmt.Sprintf("p%d-", n), 3)))
	}
	until(t, "trees are found held", func() bool { return len(store.Held(s)) >= 100 })
	unlock()
	for _, done := range all {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if n := query[int](t, s, "SELECT count(*) FROM actlog.plan_execution_record"); n != 301 {
		t.Errorf("%d plans on record", n)
	}
}
