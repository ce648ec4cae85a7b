package upkeep_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestSweepChanges checks that the old rows at the beginning of the change feed are swept, and that
// the sweep ends at the first young one: no row is missing behind the lowest that is left. The time of
// a change is the start of its transaction, so times are not in the order of the numbers. There are
// more old rows than one statement deletes.
//
// N19: a row of the future, from before the clock was set back, blocked the sweep.
func TestSweepChanges(t *testing.T) {
	t.Parallel()
	const old, young = "-25 hours", "-23 hours"
	const future = "10 years"
	type rows struct {
		n   int
		age string
	}

	for name, tt := range map[string]struct {
		feed []rows
		left int
	}{
		"old, then young":          {[]rows{{12_000, old}, {7, young}}, 7},
		"old after young":          {[]rows{{2, old}, {1, young}, {2, old}}, 3},
		"only old":                 {[]rows{{5, old}}, 0},
		"only young":               {[]rows{{5, young}}, 5},
		"one of the future":        {[]rows{{3, old}, {1, future}, {3, old}, {7, young}}, 7},
		"first of the future":      {[]rows{{1, future}, {3, old}, {7, young}}, 7},
		"many of the future":       {[]rows{{12_000, future}, {1, old}, {7, young}}, 7},
		"the future before young":  {[]rows{{3, old}, {4, future}, {7, young}}, 11}, // as young, as far as is known
		"the future at the end":    {[]rows{{3, old}, {4, future}}, 4},
		"the future between young": {[]rows{{1, young}, {4, future}, {3, old}, {1, young}}, 9},
		"empty":                    {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := storetest.Open(t)
			for _, r := range tt.feed {
				storetest.Exec(t, s, "INSERT INTO actlog.change (root_plan_id, kinds, at) SELECT 'r', '{plan}', now() + "+
					"$1::text::interval FROM generate_series(1, $2)", r.age, r.n)
			}

			last := storetest.Query[int64](t, s, "SELECT COALESCE(max(seq), 0) FROM actlog.change")
			if err := upkeep.SweepChanges(idle(t, s), t.Context(), 24); err != nil {
				t.Fatal(err)
			}

			left := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.change")
			inARow := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.change WHERE seq > $1", last-int64(tt.left))
			if left != tt.left || inARow != tt.left {
				t.Errorf("%d rows are left, %d of them the last %d", left, inARow, tt.left)
			}
		})
	}
}

// TestForgetVectors checks that the vectors that nobody used for 30 days are deleted, however many they are.
func TestForgetVectors(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	storetest.Exec(t, s, `INSERT INTO actlog.text_vector (model, sha256, elements, used_at)
		SELECT 'm', int4send(i), '', now() - CASE WHEN i <= 2500 THEN interval '31 days' ELSE interval '29 days' END FROM generate_series(1, 2507) AS i`)

	if err := idle(t, s).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.text_vector"); n != 7 {
		t.Errorf("%d vectors are left", n)
	}
}

// TestUpkeepRunsByItself checks that a started Upkeep does all its tasks without a call of Run,
// and counts them.
func TestUpkeepRunsByItself(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	s := open(t, pg.URL)
	storetest.WriteTree(t, s, "detail", record.Completed)
	storetest.WriteTree(t, s, "tree", record.Completed)
	writeRun(t, s, "run", storetest.At(1))
	storetest.Age(t, s, storetest.OldMonday, "detail")

	storetest.Exec(t, s, "UPDATE actlog.plan_execution_record SET first_seen_at = now() - interval '1 day' WHERE "+
		"root_plan_id = 'detail'")
	storetest.Exec(t, s, "UPDATE actlog.plan_execution_record SET first_seen_at = now() - interval '61 days' WHERE "+
		"root_plan_id = 'tree'")
	storetest.Exec(t, s, "UPDATE actlog.change SET at = at - interval '2 hours'")
	silent(t, s, "run", "1 hour")

	other := storetest.OpenURL(t, pg.URL)
	keeper := storetest.Upkeep(t, other, upkeep.Config{
		DetailDays: 30, KeepDays: 60, ChangeHours: 1, InterruptAfter: 100 * time.Millisecond,
	})

	storetest.Until(t, "everything is done", func() bool {
		return storetest.Query[bool](t, s,
			`SELECT count(*) = 2 AND bool_and(completed) AND NOT EXISTS (SELECT FROM actlog.change WHERE at < now() - interval '1 hour')
			AND to_regclass('actlog.act_tool_info_p20260105') IS NULL AND EXISTS (SELECT FROM actlog.tool_daily)
			FROM actlog.plan_execution_record WHERE current_plan_id = root_plan_id`)
	})
	storetest.Until(t, "it is counted", func() bool {
		st := keeper.Stats()
		return st.PartitionsDropped == 3 && other.Stats().TreesDeleted == 1 && st.RunsInterrupted == 1
	})
}

// TestStats checks what an Upkeep counts when it is started.
func TestStats(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	u := storetest.Upkeep(t, storetest.OpenURL(t, pg.URL), upkeep.Config{})
	want := upkeep.Stats{
		PartitionsAdded: 4 * (1 + upkeep.PartitionsAhead),
		PartitionsUntil: store.PeriodStart(today(t, pg.Pool), 7).AddDate(0, 0, 7*(1+upkeep.PartitionsAhead)),
	}
	if diff := cmp.Diff(want, u.Stats()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestStatementsUseIndexes checks that what runs each minute, or for every batch, reads no table as
// a whole.
func TestStatementsUseIndexes(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)

	if _, err := pg.Pool.Exec(t.Context(), `
		INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, part, parent_plan_id, told_state)
			SELECT 'root-' || r, 'root-' || r || CASE WHEN s > 0 THEN '-sub-' || s ELSE '' END, DATE '2026-01-05' + 7 * (r % 4),
				CASE WHEN s > 0 THEN 'root-' || r END, 'COMPLETED'
			FROM generate_series(0, 1999) AS r, generate_series(0, 2) AS s;
		ANALYZE actlog.plan_execution_record`); err != nil {
		t.Fatal(err)
	}

	conn, err := pg.Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()

	if _, err := conn.Exec(t.Context(),
		"SET plan_cache_mode = force_generic_plan; SET jit = off; SET enable_seqscan = off; PREPARE unseen (text, "+
			"timestamptz, timestamptz, text[]) AS "+db.PlanUnseen+
			"; PREPARE outdated (int, timestamptz, text) AS "+db.PlanOutdated+"; PREPARE changes (bigint) AS "+db.ChangeSweep+
			"; PREPARE sweepable (int) AS "+db.ChangeSweepable+"; PREPARE live (date, date) AS "+db.PlanLive+
			"; PREPARE forget (int) AS "+db.VectorForget); err != nil {
		t.Fatal(err)
	}

	for _, execute := range []string{
		"unseen('', now(), now(), NULL)", "outdated(30, '-infinity', '')", "changes(24)", "sweepable(24)",
		"live('2026-01-01', '2026-02-01')", "forget(30)",
	} {
		for _, line := range storetest.Lines(t, conn, "EXPLAIN EXECUTE "+execute) {
			if strings.Contains(line, "Seq Scan on") {
				t.Errorf("%s reads a whole table: %s", execute, strings.TrimSpace(line))
			}
		}
	}
}
