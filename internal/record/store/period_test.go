package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestPeriodStart checks that Go and SQL agree on the period of a day, in UTC, whatever the time zone
// of the server, and that all rows of a tree are in the period of its root.
func TestPeriodStart(t *testing.T) {
	t.Parallel()
	keys := fieldsql.Merge(record.KindPlan, fieldsql.Shape{})
	for _, zone := range []string{"Pacific/Kiritimati", "Etc/GMT+12", "UTC"} { // 26 hours apart
		pg := pgtest.Fresh(t)
		if _, err := pg.Pool.Exec(t.Context(),
			"DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET timezone = %L', current_database(), '"+zone+
				"'); END $$"); err != nil {
			t.Fatal(err)
		}
		pg.Pool.Reset()

		for _, n := range []int{1, 2, 7, 10, 30, 365} {
			tx, err := pg.Pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}

			var now time.Time
			var setting string
			if err := tx.QueryRow(t.Context(), "SELECT now(), current_setting('timezone')").Scan(&now, &setting); err != nil ||
				setting != zone {
				t.Fatalf("zone %s, %v", setting, err)
			}

			root := fmt.Sprint(n)
			if _, err := tx.Exec(t.Context(), keys, []string{root}, []string{root}, n); err != nil {
				t.Fatal(err)
			}
			var part time.Time
			if err := tx.QueryRow(t.Context(), "SELECT part FROM actlog.plan_execution_record WHERE root_plan_id = $1",
				root).Scan(&part); err != nil {
				t.Fatal(err)
			}

			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if want := store.PeriodStart(now.UTC().Truncate(24*time.Hour), n); !part.Equal(want) {
				t.Errorf("%s, %d days: part is %s, want %s", zone, n, part, want)
			}
		}

		// All rows of a tree have the part of its root.
		s := storetest.OpenURL(t, pg.URL, func(c *store.Config) { c.PartitionDays = 1 })
		storetest.Write(t, s, &record.ActTool{RootPlanID: "p", StepID: "s", Seq: 0, ToolCallID: "t"},
			&record.Plan{RootPlanID: "p", CurrentPlanID: "q"})

		storetest.Exec(t, s, "UPDATE actlog.plan_execution_record SET part = part - 300")
		storetest.Write(t, s, &record.AgentExecution{RootPlanID: "p", StepID: "later", PlanID: "p"},
			&record.Plan{RootPlanID: "p", CurrentPlanID: "r"})
		if n := storetest.Query[int](t, s,
			"SELECT count(DISTINCT part) FROM (SELECT part FROM actlog.plan_execution_record UNION ALL SELECT part FROM "+
				"actlog.agent_execution_record WHERE step_id = 'later') AS all_of_them"); n != 1 {
			t.Errorf("%s: a tree is in %d parts", zone, n)
		}
	}

	for n := 1; n < 40; n++ {
		for day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC); day.Year() < 2027; day = day.AddDate(0, 0, 1) {
			start := store.PeriodStart(day, n)
			if start.After(day) || !start.AddDate(0, 0, n).After(day) || !store.PeriodStart(start, n).Equal(start) {
				t.Fatalf("%d days: the period of %s starts at %s", n, day, start)
			}
		}
	}
	if monday := store.PeriodStart(time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC), 7).Weekday(); monday != time.Monday {
		t.Errorf("weeks begin on %s", monday)
	}
}
