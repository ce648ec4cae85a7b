package upkeep_test

import (
	"fmt"
	"testing"

	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/internal/storetest"
	"github.com/actlog/actlog/internal/upkeep"
	"github.com/actlog/actlog/record"
)

// N15: upkeep indexes what was on record before there was an index, and what was written since if it
// is much. All is found before and after, and what is left of deleted trees goes.
func TestUpkeepIndexesTexts(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	s := open(t, pg.URL)
	found := func(q string, want int) {
		t.Helper()
		plans, err := s.Plans(t.Context(), store.PlanFilter{Query: q, Limit: 500})
		if err != nil || len(plans) != want {
			t.Errorf("%q finds %d plans, %v; want %d", q, len(plans), err, want)
		}
	}
	storetest.Exec(t, s, `
		INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, part, first_seen_at, title)
		SELECT 'old-' || i, 'old-' || i, DATE '2026-01-05', now() - interval '1 day', 'before ' || i % 100 FROM generate_series(1, 3000) AS i;
		INSERT INTO actlog.search_backfill DEFAULT VALUES`)
	if incomplete, err := s.SearchIncomplete(t.Context()); err != nil || !incomplete {
		t.Errorf("incomplete: %v, %v", incomplete, err)
	}
	var changes []record.Change
	for i := range store.FreshTexts + 10 {
		id := fmt.Sprint("new-", i)
		changes = append(changes, &record.Plan{RootPlanID: id, CurrentPlanID: id, Title: new(fmt.Sprint("after ", i%100))})
	}
	storetest.Write(t, s, changes...)
	found("after 77", 41)
	u := upkeep.Idle(s, upkeep.Config{})
	tidy := func() {
		t.Helper()
		if err := u.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	tidy()
	found("after 77", 41)
	found("before 77", 30)
	if incomplete, err := s.SearchIncomplete(t.Context()); err != nil || incomplete {
		t.Errorf("incomplete: %v, %v", incomplete, err)
	}
	if n := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.search_fresh"); n != 10 {
		t.Errorf("%d fresh texts are left", n)
	}
	if n := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.search_text"); n != 3000+store.FreshTexts {
		t.Errorf("%d texts are in the index", n)
	}
	storetest.Exec(t, s, "DELETE FROM actlog.plan_execution_record WHERE root_plan_id LIKE 'old-%'")
	tidy()
	found("before 77", 0)
	if n := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.search_slice"); n != 1 {
		t.Errorf("%d slices are left", n)
	}
}
