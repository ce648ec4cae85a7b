package store_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/record/feed"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestInTx checks that several writes and another statement are committed together, and that the
// feed reports them once.
func TestInTx(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	reported := make(chan []feed.Change, 1)
	following := make(chan bool, 1)
	go s.Feed().Follow(t.Context(), func(c feed.Changes) {
		select {
		case following <- true:
		default:
		}
		if len(c.Committed) > 0 {
			reported <- c.Committed
		}
	})
	<-following

	err := s.InTx(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		result, err := tx.Write(ctx, []record.Change{
			&record.Plan{RootPlanID: "p", CurrentPlanID: "p", Title: new("one")},
			&record.Plan{RootPlanID: "", CurrentPlanID: "q"}, // invalid
		})
		if err != nil {
			return err
		}
		if result.Accepted != 1 || !slices.Equal(refused(result), []int{1}) {
			t.Errorf("result = %+v", result)
		}
		if _, _, err := s.PlanTree(ctx, "", "p"); !errors.Is(err, record.ErrNotFound) {
			t.Errorf("the plan on another connection before the commit: %v", err)
		}

		var title string
		if err := tx.QueryRow(
			ctx, "SELECT title FROM actlog.plan_execution_record WHERE current_plan_id = 'p'",
		).Scan(&title); err != nil || title != "one" {
			t.Errorf("the title within the transaction is %q, %v", title, err)
		}

		if _, err := tx.Exec(
			ctx, "UPDATE actlog.plan_execution_record SET title = 'two' WHERE current_plan_id = 'p'",
		); err != nil {
			return err
		}
		_, err = tx.Write(ctx, []record.Change{&record.ActTool{RootPlanID: "p", StepID: "s", Seq: 0, ToolCallID: "t"}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	if p := storetest.PlanTree(t, s, "p"); *p.Record.Title != "two" || len(p.Steps) != 1 ||
		p.Steps[0].Figures.ToolCalls != 1 {
		t.Errorf("tree %+v", p)
	}
	if changes := <-reported; len(changes) != 1 || changes[0].RootPlanID != "p" || len(changes[0].Kinds) != 2 {
		t.Errorf("the feed reported %+v", changes)
	}
}

// TestInTxRollsBack checks that nothing is on record after an error.
func TestInTxRollsBack(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	failed := errors.New("failed")

	err := s.InTx(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		if _, err := tx.Write(ctx, []record.Change{&record.Plan{RootPlanID: "p", CurrentPlanID: "p"}}); err != nil {
			return err
		}
		return failed
	})
	if !errors.Is(err, failed) {
		t.Errorf("error = %v", err)
	}
	if _, _, err := s.PlanTree(t.Context(), "", "p"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("after the rollback: %v", err)
	}
}

// TestInTxRetries checks that a transaction runs again after a lost connection, and that it waits
// for a lock until RetryFor ends.
func TestInTxRetries(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, func(c *store.Config) { c.RetryFor = 10 * time.Second })

	tries := 0
	err := s.InTx(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		tries++
		if _, err := tx.Write(ctx, []record.Change{&record.Plan{RootPlanID: "p", CurrentPlanID: "p"}}); err != nil {
			return err
		}
		if tries == 1 { // Postgres ends the connection
			_, err := tx.Exec(ctx, "SELECT pg_terminate_backend(pg_backend_pid())")
			return err
		}
		return nil
	})
	if err != nil || tries != 2 {
		t.Errorf("%d tries, %v", tries, err)
	}
	storetest.PlanTree(t, s, "p")

	lockPlan(t, store.Pool(s), "p")
	short := storetest.OpenURL(t, store.Pool(s).Config().ConnString(), storetest.Impatient)
	err = short.InTx(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Write(ctx, []record.Change{&record.Plan{RootPlanID: "p", CurrentPlanID: "p", Title: new("x")}})
		return err
	})
	var lock *record.LockedError
	if !errors.As(err, &lock) {
		t.Errorf("error = %v", err)
	}
}

// TestInTxLostCommit checks that a transaction is not repeated if the connection is lost during
// the commit: it may be on record already.
func TestInTxLostCommit(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	execSQL(t, store.Pool(s), `
		CREATE TABLE public.fatal (i integer);
		CREATE FUNCTION public.die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON public.fatal DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.die()`)

	tries := 0
	err := s.InTx(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		tries++
		_, err := tx.Exec(ctx, "INSERT INTO public.fatal VALUES (1)")
		return err
	})
	if !errors.Is(err, record.ErrUnavailable) || tries != 1 {
		t.Errorf("%d tries, %v", tries, err)
	}
}

// TestInTxEndsWithTheStore checks that a transaction that hangs does not keep a store from closing.
func TestInTxEndsWithTheStore(t *testing.T) {
	t.Parallel()
	s, err := store.Open(t.Context(), store.Config{DatabaseURL: pgtest.New(t).URL})
	if err != nil {
		t.Fatal(err)
	}

	begun, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- s.InTx(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			close(begun)
			_, err := tx.Exec(ctx, "SELECT pg_sleep(3600)")
			return err
		})
	}()
	<-begun

	atOnce, cancel := context.WithCancel(t.Context())
	cancel()
	_ = s.Close(atOnce) // says what it gave up
	if err := <-ended; !errors.Is(err, record.ErrClosed) {
		t.Errorf("error = %v", err)
	}
}
