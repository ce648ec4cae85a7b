package store_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestPlaceOfTree checks that a write is right even if the store remembers a wrong place of its
// tree. Each case writes a cycle and two calls of it, and changes the tree before the second call.
func TestPlaceOfTree(t *testing.T) {
	t.Parallel()

	const (
		older    = "2026-01-05" // a period without a partition
		sqlOlder = "INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, part) VALUES ($1, $1, '" +
			older + "')"
		sqlNoDetail = "WITH calls AS (DELETE FROM actlog.act_tool_info WHERE root_plan_id = $1) DELETE FROM " +
			"actlog.think_act_record WHERE root_plan_id = $1"
		sqlNoPartitions = "DO $$ DECLARE p regclass; BEGIN FOR p IN SELECT inhrelid FROM pg_inherits WHERE inhparent IN " +
			"('actlog.think_act_record'::regclass, 'actlog.act_tool_info'::regclass) AND inhrelid::regclass::text NOT LIKE " +
			"'%default' LOOP EXECUTE 'DROP TABLE ' || p; END LOOP; END $$"
		sqlDropped = "WITH root AS (SELECT FROM actlog.plan_execution_record WHERE root_plan_id = $1) INSERT INTO " +
			"actlog.dropped_detail (from_day, to_day) SELECT '2001-01-01', '2101-01-01' FROM root"
	)

	// figures counts rows, the cycles and calls that the step rolled up, and rows that do not lie
	// in the part of their root.
	type figures struct{ Cycles, Calls, StepCycles, StepCalls, Misplaced int }
	bothCalls := figures{Cycles: 1, Calls: 2, StepCycles: 1, StepCalls: 2}
	secondCall := figures{Cycles: 1, Calls: 1, StepCycles: 1, StepCalls: 1}

	for _, tt := range []struct {
		name       string
		before     string // SQL to run before the first write
		remove     bool   // delete the tree before the second call
		then       string // SQL to run before the second call
		knownAfter bool   // the store still relies on the place
		want       figures
	}{
		{name: "unchanged", knownAfter: true, want: bothCalls},
		{name: "deleted", remove: true, want: secondCall},
		{name: "deleted, and made again in another part", remove: true, then: sqlOlder, want: secondCall},
		{name: "in another part from the beginning", before: sqlOlder, want: bothCalls},
		{name: "without its cycle", then: sqlNoDetail, want: secondCall},
		{name: "without its partitions", then: sqlNoPartitions, want: secondCall},
		{
			name: "after its detail was dropped", then: sqlDropped, knownAfter: true,
			want: figures{Cycles: 1, Calls: 2, StepCycles: 1, StepCalls: 1},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			pg := pgtest.New(t)
			s := storetest.OpenURL(t, pg.URL)
			storetest.Upkeep(t, s, upkeep.Config{}) // adds partitions
			root := record.NewPlanID()

			run := func(sql string) {
				if sql == "" {
					return
				}

				var args []any
				if strings.Contains(sql, "$1") {
					args = append(args, root)
				}
				execSQL(t, pg.Pool, sql, args...)
			}
			call := func(id string) record.Change {
				return &record.ActTool{RootPlanID: root, StepID: root + "s", Seq: 3, ToolCallID: id}
			}

			run(tt.before)
			storetest.Write(t, s, &record.ThinkAct{RootPlanID: root, StepID: root + "s", Seq: 3, ThinkOutput: new("x")})
			if !store.Placed(s, root) {
				t.Fatal("the place of the tree is not known after the first write")
			}
			storetest.Write(t, s, call("first"))
			if tt.remove {
				if err := s.DeletePlan(t.Context(), root); err != nil {
					t.Fatal(err)
				}
			}

			run(tt.then)
			storetest.Write(t, s, call("second"))
			if known := store.Placed(s, root); known != tt.knownAfter {
				t.Errorf("the store relies on the place after the second call: %t", known)
			}
			got := figures{
				Cycles:     storetest.Query[int](t, s, "SELECT count(*) FROM actlog.think_act_record"),
				Calls:      storetest.Query[int](t, s, "SELECT count(*) FROM actlog.act_tool_info"),
				StepCycles: storetest.Query[int](t, s, "SELECT cycles FROM actlog.agent_execution_record"),
				StepCalls:  storetest.Query[int](t, s, "SELECT tool_calls FROM actlog.agent_execution_record"),
				Misplaced: storetest.Query[int](t, s, `SELECT count(*) FROM actlog.plan_execution_record AS root
					JOIN (SELECT part FROM actlog.agent_execution_record UNION ALL SELECT part FROM actlog.think_act_record UNION ALL SELECT part FROM actlog.act_tool_info) AS x
					ON x.part <> root.part`),
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("figures (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStaleGuessSaysWhatItIs (N26): the error of a wrong guess in Postgres' log is no division by
// zero.
func TestStaleGuessSaysWhatItIs(t *testing.T) {
	t.Parallel()
	_, err := pgtest.New(t).Pool.Exec(t.Context(), "SELECT actlog.stale_guess('why')")
	if err == nil || !strings.Contains(err.Error(), "why") || !strings.Contains(err.Error(), "SQLSTATE YA001") {
		t.Errorf("Exec = %v", err)
	}
}

// TestKnownCycleIsNotWritten checks that a tool call writes its cycle only if the store does not
// know that the cycle is on record.
func TestKnownCycleIsNotWritten(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	root := record.NewPlanID()
	// written writes calls of some cycles and returns how many cycles were written. A write takes a
	// number from the sequence, even if the row exists.
	written := func(seqs ...int64) int {
		sql := "SELECT nextval(pg_get_serial_sequence('actlog.think_act_record', 'id'))"
		before := storetest.Query[int](t, s, sql)
		var calls []record.Change
		for _, seq := range seqs {
			calls = append(calls, &record.ActTool{
				RootPlanID: root, StepID: root + "s", Seq: seq, ToolCallID: record.NewToolCallID(), Name: new("x"),
			})
		}
		storetest.Write(t, s, calls...)
		return storetest.Query[int](t, s, sql) - before - 1
	}

	storetest.Write(t, s, &record.ThinkAct{RootPlanID: root, StepID: root + "s", Seq: 3, ThinkOutput: new("x")})
	var got []int
	for _, seqs := range [][]int64{{3}, {3, 3}, {3, 4}, {3, 4}, {5}} {
		got = append(got, written(seqs...))
	}

	if diff := cmp.Diff([]int{0, 0, 1, 0, 1}, got); diff != "" {
		t.Errorf("cycles written (-want +got):\n%s", diff)
	}
	if n := storetest.Query[int](t, s, "SELECT cycles FROM actlog.agent_execution_record"); n != 3 {
		t.Errorf("%d cycles", n)
	}
}

// TestTreesInSeveralPlaces checks that one transaction can write to trees in several places, and
// that the store relies on a place only until it was wrong.
func TestTreesInSeveralPlaces(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	today := record.NewPlanID()
	old := "plan-01890a5d-ac96-774b-bcce-b302099a8057" // of 2023, although it is written today
	cycle := func(root string, seq int64) record.Change {
		return &record.ThinkAct{RootPlanID: root, StepID: root + "s", Seq: seq, ThinkOutput: new("x")}
	}
	for seq := range int64(3) {
		storetest.Write(t, s, cycle(today, seq), cycle(old, seq))
	}

	storetest.Write(t, s, cycle(today, 3))
	if !store.Placed(s, today) {
		t.Error("the store does not rely on a right place")
	}
	storetest.Write(t, s, cycle(old, 3))
	if store.Placed(s, old) {
		t.Error("the store relies on the place that an id says, after it was wrong")
	}

	storetest.Write(t, s, cycle(today, 4), cycle(old, 4))
	if n := storetest.Query[int](t, s, "SELECT sum(cycles) FROM actlog.agent_execution_record"); n != 10 {
		t.Errorf("%d cycles", n)
	}
}
