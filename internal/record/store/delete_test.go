package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// rowsOf counts the rows of a tree in each table.
func rowsOf(t testing.TB, s *store.Store, root string) (counts []int) {
	t.Helper()
	for _, table := range storetest.TreeTables {
		counts = append(counts, storetest.Query[int](t, s, "SELECT count(*) FROM actlog."+table+" WHERE root_plan_id = $1",
			root))
	}
	return counts
}

// TestDeletePlan checks that a deletion removes all rows of a tree and no others, and what it
// refuses.
func TestDeletePlan(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	storetest.Upkeep(t, s, upkeep.Config{}) // adds partitions
	storetest.WriteTree(t, s, "a", record.Running)
	storetest.WriteTree(t, s, "b", record.Completed)
	other := storetest.Dump(t, s, "b")
	if slices.Contains(rowsOf(t, s, "a"), 0) {
		t.Fatalf("rows = %v", rowsOf(t, s, "a"))
	}

	storetest.Exec(t, s, "DELETE FROM actlog.change")
	for id, want := range map[string]string{
		"none": "not found", "a-sub": "invalid_relation: planId is a sub-plan of a; delete its root",
	} {
		err := s.DeletePlan(t.Context(), id)
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v", id, err)
		}
		var invalid *record.InvalidError
		if errors.As(err, &invalid) == errors.Is(err, record.ErrNotFound) {
			t.Errorf("%s: %v", id, err)
		}
	}

	if err := s.DeletePlan(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(make([]int, len(storetest.TreeTables)), rowsOf(t, s, "a")); diff != "" {
		t.Errorf("rows that are left (-want +got):\n%s", diff)
	}
	if got := storetest.Dump(t, s, "b"); got != other {
		t.Errorf("another tree changed: %s", cmp.Diff(other, got))
	}

	if got := storetest.Query[string](t, s,
		"SELECT string_agg(root_plan_id || ' ' || kinds::text, ',') FROM actlog.change"); got != "a {deleted}" {
		t.Errorf("the feed has %q", got)
	}
	if err := s.DeletePlan(t.Context(), "a"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("a second deletion: %v", err)
	}

	storetest.Write(t, s, &record.ActTool{RootPlanID: "a", StepID: "a-a", Seq: 3, ToolCallID: "late"})
	if p := storetest.PlanTree(t, s, "a"); p.Record.Title != nil || p.Total.ToolCalls != 1 {
		t.Errorf("the placeholder is %+v", p)
	}
	if n := s.Stats().TreesDeleted; n != 1 {
		t.Errorf("%d trees deleted", n)
	}
	storetest.CheckKept(t, s)
}

// TestDeletePlanUnderLoad checks that writers to a tree which is deleted again and again see no
// error and leave no rows without parents.
func TestDeletePlanUnderLoad(t *testing.T) {
	t.Parallel()
	pg := pgtest.New(t)
	s := storetest.OpenURL(t, pg.URL, storetest.Patient, func(c *store.Config) { c.MaxConns = 8 })
	storetest.Upkeep(t, s, upkeep.Config{}) // adds partitions
	deleter := storetest.OpenURL(t, pg.URL, storetest.Patient)
	stop, written := make(chan struct{}), make(chan struct{}, 1000)

	var writers sync.WaitGroup
	for w := range 6 {
		writers.Go(func() {
			for i := range int64(1 << 30) {
				sub := fmt.Sprintf("busy-p%d", (int64(w)+i)%3)
				changes := []record.Change{
					&record.Plan{RootPlanID: "busy", CurrentPlanID: sub, Title: new(fmt.Sprint(i))},
					&record.ActTool{
						RootPlanID: "busy", StepID: fmt.Sprintf("busy-s%d", w%3), Seq: i, ToolCallID: fmt.Sprintf("t%d-%d", w, i),
					},
					&record.Thought{RootPlanID: "busy", PlanID: "busy", ThoughtID: fmt.Sprint(w), Content: new(fmt.Sprint(i))},
					&record.Wait{RootPlanID: "busy", PlanID: sub, WaitID: fmt.Sprint(w)},
				}
				if w == 0 {
					changes = changes[:1] // a sub-plan and nothing else
				}
				if result, err := s.Write(context.Background(), changes); err != nil || len(result.Rejected) > 0 {
					t.Errorf("a writer saw an error: %+v %v", result, err)
				}

				select {
				case <-stop:
					return
				case written <- struct{}{}:
				default:
				}
			}
		})
	}

	for range 25 {
		<-written
		if err := deleter.DeletePlan(t.Context(), "busy"); err != nil && !errors.Is(err, record.ErrNotFound) {
			t.Error(err)
		}
	}
	close(stop)
	writers.Wait()

	if n := deleter.Stats().TreesDeleted; n == 0 {
		t.Error("nothing was deleted")
	}
	if n := storetest.Query[int](t, s, `SELECT count(*) FROM actlog.plan_execution_record AS p WHERE NOT EXISTS (
		SELECT FROM actlog.plan_execution_record AS r WHERE r.root_plan_id = p.root_plan_id AND r.current_plan_id = p.root_plan_id AND r.part = p.part)`); n != 0 {
		t.Errorf("%d plans without their root", n)
	}

	if err := deleter.DeletePlan(t.Context(), "busy"); err != nil && !errors.Is(err, record.ErrNotFound) {
		t.Error(err)
	}
	if diff := cmp.Diff(make([]int, len(storetest.TreeTables)), rowsOf(t, s, "busy")); diff != "" {
		t.Errorf("rows that are left (-want +got):\n%s", diff)
	}
	storetest.CheckNoDeadlocks(t, s)
}

// TestDeletePlanDuringANewSubPlan checks that a sub-plan does not outlive its root if its writer has
// found the root, but has not committed, when the root is deleted.
func TestDeletePlanDuringANewSubPlan(t *testing.T) {
	t.Parallel()
	pg := pgtest.New(t)
	storetest.WriteTree(t, storetest.OpenURL(t, pg.URL), "a", record.Completed)
	s := storetest.OpenURL(t, pg.URL, storetest.Impatient)

	writer, err := pg.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = writer.Rollback(context.Background()) }()
	if _, err := writer.Exec(t.Context(),
		"INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, part) SELECT 'a', 'a-new', part FROM "+
			"actlog.plan_execution_record WHERE current_plan_id = 'a'"); err != nil {
		t.Fatal(err)
	}

	if err := s.DeletePlan(t.Context(), "a"); !errors.Is(err, record.ErrUnavailable) {
		t.Errorf("error = %v", err)
	}
	if err := writer.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.DeletePlan(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(make([]int, len(storetest.TreeTables)), rowsOf(t, s, "a")); diff != "" {
		t.Errorf("rows that are left (-want +got):\n%s", diff)
	}
}

// TestDeletePlanWithALockedRow checks that a deletion waits for a row that another session has
// locked, and returns an error after RetryFor.
func TestDeletePlanWithALockedRow(t *testing.T) {
	t.Parallel()
	pg := pgtest.New(t)
	s := storetest.OpenURL(t, pg.URL, storetest.Patient)
	storetest.Upkeep(t, s, upkeep.Config{}) // adds partitions
	storetest.WriteTree(t, s, "a", record.Completed)

	writer, err := pg.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = writer.Rollback(context.Background()) }()
	if _, err := writer.Exec(t.Context(), "UPDATE actlog.wait_state SET title = 'held'"); err != nil {
		t.Fatal(err)
	}

	impatient := storetest.OpenURL(t, pg.URL, storetest.Impatient)
	var locked *record.LockedError
	if err := impatient.DeletePlan(t.Context(), "a"); !errors.Is(err, record.ErrUnavailable) ||
		!errors.As(err, &locked) || locked.RootPlanID != "a" {
		t.Errorf("while a row is locked: %v", err)
	}

	done := make(chan error, 1)
	go func() { done <- s.DeletePlan(t.Context(), "a") }()
	if err := writer.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
