package upkeep_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
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

// N15: the runs from before leave room for others: between two steps, upkeep rests as long as the step
// took, and moves texts that were written meanwhile.
func TestUpkeepRestsWhileItIndexes(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.Fresh(t).URL)
	storetest.Exec(t, s, `
		INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, part, first_seen_at, title)
		SELECT 'old-' || i, 'old-' || i, DATE '2026-01-05', now() - interval '1 day', 'before ' || i % 100 FROM generate_series(1, 9000) AS i;
		INSERT INTO actlog.search_backfill DEFAULT VALUES`)
	u := upkeep.Idle(s, upkeep.Config{})

	var asked time.Duration
	upkeep.SetClocks(u, func() time.Duration { return 0 }, func() time.Duration { // a step takes an hour
		asked += time.Hour
		return asked
	})

	var rests int
	upkeep.SetPause(u, func(ctx context.Context, d time.Duration) error {
		rests++
		if d < time.Hour || d > time.Hour+time.Minute {
			t.Errorf("rests %v", d)
		}
		if n := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.search_fresh"); n > store.FreshTexts {
			t.Errorf("%d fresh texts wait for the runs from before", n)
		}
		storetest.Exec(t, s, fmt.Sprintf("INSERT INTO actlog.search_fresh (root_plan_id, text) SELECT 'old-' || i, "+
			"'after' FROM generate_series(1, %d) AS i", store.FreshTexts+1))
		return ctx.Err()
	})

	if err := u.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rests != 3 {
		t.Errorf("%d rests", rests)
	}
}
