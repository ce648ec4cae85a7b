package store_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/record"
)

// TestWhereATreeLies: what a store knows of a tree's place makes its writes cheaper, and
// never wrong. Each time a tool call is told of a cycle that was told before.
func TestWhereATreeLies(t *testing.T) {
	t.Parallel()
	const (
		older      = "2026-01-05" // a period without a partition
		sqlOlder   = "INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, part) VALUES ($1, $1, '" + older + "')"
		sqlForget  = "WITH calls AS (DELETE FROM actlog.act_tool_info WHERE root_plan_id = $1) DELETE FROM actlog.think_act_record WHERE root_plan_id = $1"
		sqlGone    = "DO $$ DECLARE p regclass; BEGIN FOR p IN SELECT inhrelid FROM pg_inherits WHERE inhparent IN ('actlog.think_act_record'::regclass, 'actlog.act_tool_info'::regclass) AND inhrelid::regclass::text NOT LIKE '%default' LOOP EXECUTE 'DROP TABLE ' || p; END LOOP; END $$"
		sqlDropped = "WITH root AS (SELECT FROM actlog.plan_execution_record WHERE root_plan_id = $1) INSERT INTO actlog.dropped_detail (from_day, to_day) SELECT '2001-01-01', '2101-01-01' FROM root"
	)
	type figures struct{ Cycles, Calls, StepsCycles, StepsCalls, Elsewhere int }
	whole := figures{Cycles: 1, Calls: 2, StepsCycles: 1, StepsCalls: 2}
	one := figures{Cycles: 1, Calls: 1, StepsCycles: 1, StepsCalls: 1}
	for _, tt := range []struct {
		name   string
		before string // runs before the tree is told of
		then   string // runs before the second call is told
		remove bool   // the tree, before that
		stays  bool   // what is known
		want   figures
	}{
		{name: "as it was", stays: true, want: whole},
		{name: "gone", remove: true, want: one},
		{name: "gone, and made anew elsewhere", remove: true, then: sqlOlder, want: one},
		{name: "elsewhere from the beginning", before: sqlOlder, want: whole},
		{name: "without its cycle", then: sqlForget, want: one},
		{name: "without its partitions", then: sqlGone, want: one},
		{name: "after its detail was dropped", then: sqlDropped, stays: true, want: figures{Cycles: 1, Calls: 2, StepsCycles: 1, StepsCalls: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			pg := pgtest.New(t)
			s := openURL(t, pg.URL)
			root := record.NewPlanID()
			run := func(sql string) {
				if sql == "" {
					return
				}
				var args []any
				if strings.Contains(sql, "$1") {
					args = append(args, root)
				}
				if _, err := pg.Pool.Exec(t.Context(), sql, args...); err != nil {
					t.Fatal(err)
				}
			}
			call := func(id string) record.Change {
				return &record.ActTool{RootPlanID: root, StepID: root + "s", Seq: 3, ToolCallID: id}
			}
			run(tt.before)
			write(t, s, &record.ThinkAct{RootPlanID: root, StepID: root + "s", Seq: 3, ThinkOutput: new("x")})
			if !store.Placed(s, root) {
				t.Fatal("nothing is known of the tree")
			}
			write(t, s, call("first"))
			if tt.remove {
				if err := s.DeletePlan(t.Context(), root); err != nil {
					t.Fatal(err)
				}
			}
			run(tt.then)
			write(t, s, call("second"))
			if known := store.Placed(s, root); known != tt.stays {
				t.Errorf("the tree's place is known afterwards: %t", known)
			}
			got := figures{
				Cycles:      query[int](t, s, "SELECT count(*) FROM actlog.think_act_record"),
				Calls:       query[int](t, s, "SELECT count(*) FROM actlog.act_tool_info"),
				StepsCycles: query[int](t, s, "SELECT cycles FROM actlog.agent_execution_record"),
				StepsCalls:  query[int](t, s, "SELECT tool_calls FROM actlog.agent_execution_record"),
				Elsewhere: query[int](t, s, `SELECT count(*) FROM actlog.plan_execution_record AS root
					JOIN (SELECT part FROM actlog.agent_execution_record UNION ALL SELECT part FROM actlog.think_act_record UNION ALL SELECT part FROM actlog.act_tool_info) AS x
					ON x.part <> root.part`),
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestAKnownCycleIsNotWritten again for each of its tool calls. Where one is not known,
// it is.
func TestAKnownCycleIsNotWritten(t *testing.T) {
	t.Parallel()
	s := open(t)
	root := record.NewPlanID()
	// Writing takes a number, if only to find that the row is there.
	taken := func(seqs ...int64) int {
		sql := "SELECT nextval(pg_get_serial_sequence('actlog.think_act_record', 'id'))"
		before := query[int](t, s, sql)
		var calls []record.Change
		for _, seq := range seqs {
			calls = append(calls, &record.ActTool{RootPlanID: root, StepID: root + "s", Seq: seq, ToolCallID: record.NewToolCallID(), Name: new("x")})
		}
		write(t, s, calls...)
		return query[int](t, s, sql) - before - 1
	}
	write(t, s, &record.ThinkAct{RootPlanID: root, StepID: root + "s", Seq: 3, ThinkOutput: new("x")})
	var got []int
	for _, seqs := range [][]int64{{3}, {3, 3}, {3, 4}, {3, 4}, {5}} {
		got = append(got, taken(seqs...))
	}
	if diff := cmp.Diff([]int{0, 0, 1, 0, 1}, got); diff != "" {
		t.Errorf("cycles written (-want +got):\n%s", diff)
	}
	if n := query[int](t, s, "SELECT cycles FROM actlog.agent_execution_record"); n != 3 {
		t.Errorf("%d cycles", n)
	}
}

// TestTreesInSeveralPlaces are written to by one transaction.
func TestTreesInSeveralPlaces(t *testing.T) {
	t.Parallel()
	s := open(t)
	today := record.NewPlanID()
	long := "plan-01890a5d-ac96-774b-bcce-b302099a8057" // of 2023
	cycle := func(root string, seq int64) record.Change {
		return &record.ThinkAct{RootPlanID: root, StepID: root + "s", Seq: seq, ThinkOutput: new("x")}
	}
	for seq := range int64(3) {
		write(t, s, cycle(today, seq), cycle(long, seq))
	}
	write(t, s, cycle(today, 3))
	if !store.Placed(s, today) {
		t.Error("where the one lies was right, and is not relied on")
	}
	write(t, s, cycle(long, 3))
	if store.Placed(s, long) {
		t.Error("the other does not lie where its id says, and that is relied on")
	}
	write(t, s, cycle(today, 4), cycle(long, 4))
	if n := query[int](t, s, "SELECT sum(cycles) FROM actlog.agent_execution_record"); n != 10 {
		t.Errorf("%d cycles", n)
	}
}

// TestPlacesAreBounded, and what is asked for stays.
func TestPlacesAreBounded(t *testing.T) {
	t.Parallel()
	s := open(t)
	if n := store.RememberPlaces(s, 3*store.Places); n > store.Places {
		t.Errorf("%d are remembered", n)
	}
	if !store.Placed(s, "0") {
		t.Error("the one that was asked for is forgotten")
	}
}
