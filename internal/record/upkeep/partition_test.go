package upkeep_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// partitions returns the bounds of a table's partitions, in order.
func partitions(t testing.TB, pool *pgxpool.Pool, table string) []string {
	t.Helper()
	return storetest.Lines(t, pool,
		`SELECT c.relname || ' ' || pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
		WHERE i.inhparent = ('actlog.' || $1)::regclass ORDER BY pg_get_expr(c.relpartbound, c.oid) = 'DEFAULT', 1`, table)
}

// today returns the day of the database.
func today(t testing.TB, pool *pgxpool.Pool) (day time.Time) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), "SELECT (now() AT TIME ZONE 'utc')::date").Scan(&day); err != nil {
		t.Fatal(err)
	}
	return day
}

// days makes a period last so many days.
func days(n int) func(*store.Config) { return func(c *store.Config) { c.PartitionDays = n } }

// TestPartitionsAhead checks which partitions servers add that start at the same time and later.
func TestPartitionsAhead(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	var warned storetest.Log
	before := today(t, pg.Pool)

	var wg sync.WaitGroup
	for range 4 { // at once, then again
		wg.Go(func() {
			s, err := store.Open(t.Context(), store.Config{DatabaseURL: pg.URL, MaxConns: 3, Logger: warned.Logger()})
			if err != nil {
				t.Error(err)
				return
			}

			u, err := upkeep.Start(t.Context(), s, upkeep.Config{Logger: warned.Logger()})
			if err != nil {
				t.Error(err)
			} else {
				u.Close()
			}
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	openLogged(t, pg.URL, &warned)
	openLogged(t, pg.URL, &warned)

	for _, table := range upkeep.PartitionedTables {
		want := func(day time.Time) (all []string) {
			from := store.PeriodStart(day, 7)
			for range 1 + upkeep.PartitionsAhead {
				to := from.AddDate(0, 0, 7)
				all = append(all, fmt.Sprintf("%s_p%s FOR VALUES FROM ('%s') TO ('%s')", table, from.Format("20060102"),
					from.Format(time.DateOnly), to.Format(time.DateOnly)))
				from = to
			}
			return append(all, table+"_default DEFAULT")
		}

		got := partitions(t, pg.Pool, table)
		// a period may have begun meanwhile
		if diff := cmp.Diff(want(before), got); diff != "" && !slices.Equal(want(today(t, pg.Pool)), got) {
			t.Errorf("partitions of %s (-want +got):\n%s", table, diff)
		}
	}
	if w := warned.String(); w != "" {
		t.Errorf("logged:\n%s", w)
	}
}

// TestAnotherPeriod checks that the next partition begins where the last one ends, also after the
// length of the period was changed.
func TestAnotherPeriod(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	var warned storetest.Log
	for _, n := range []int{7, 1, 30, 3, 10, 7} {
		s := openLogged(t, pg.URL, &warned, days(n))
		root := fmt.Sprint(n)
		storetest.Write(t, s, &record.ActTool{RootPlanID: root, StepID: root, Seq: 0, ToolCallID: "t"})
		storetest.StepDetail(t, s, root)

		for _, table := range upkeep.PartitionedTables {
			all := storetest.Lines(t, pg.Pool,
				`SELECT substring(pg_get_expr(c.relpartbound, c.oid) FROM '\((.*)\) TO') || ' ' || substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \((.*)\)')
				FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
				WHERE i.inhparent = ('actlog.' || $1)::regclass AND c.relname NOT LIKE '%\_default' ORDER BY 1`, table)
			for i := 1; i < len(all); i++ {
				_, end, _ := strings.Cut(all[i-1], " ")
				if start, _, _ := strings.Cut(all[i], " "); start != end {
					t.Errorf("%d days: between %s and %s", n, end, start)
				}
			}

			_, last, _ := strings.Cut(all[len(all)-1], " ")
			if ahead := store.PeriodStart(today(t, pg.Pool), n).AddDate(0, 0, n*upkeep.PartitionsAhead); last < "'"+
				ahead.Format(time.DateOnly)+"'" {
				t.Errorf("%d days: the last partition of %s ends at %s", n, table, last)
			}
		}
	}

	if w := warned.String(); w != "" {
		t.Errorf("logged:\n%s", w)
	}
}

// TestAnotherDateStyle checks a database that writes dates differently: the bounds of partitions
// are read as text.
func TestAnotherDateStyle(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	if _, err := pg.Pool.Exec(t.Context(),
		"DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET datestyle = %L', current_database(), 'German'); END $$"); err !=
		nil {
		t.Fatal(err)
	}

	var warned storetest.Log
	for range 2 {
		openLogged(t, pg.URL, &warned)
	}
	if w := warned.String(); w != "" {
		t.Errorf("logged:\n%s", w)
	}
}

// TestAddPartitionsWithoutDDL checks a server whose role may not add partitions: it warns, and the
// default partitions receive the rows, until another server has added them.
func TestAddPartitionsWithoutDDL(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	roleURL := storetest.WriterURL(t, pg)
	var warned storetest.Log
	s := storetest.OpenURL(t, roleURL, logTo(&warned))
	u := storetest.Upkeep(t, s, upkeep.Config{Logger: warned.Logger()})
	storetest.Write(t, s, &record.ActTool{RootPlanID: "p", StepID: "s", Seq: 0, ToolCallID: "t"},
		&record.ThinkAct{RootPlanID: "p", StepID: "s", Seq: 0, ThinkInput: new("asked")})

	if st := storetest.StepDetail(t, s, "s"); len(st.Cycles) != 1 || *st.Cycles[0].Record.ThinkInput != "asked" {
		t.Errorf("step = %+v", st)
	}
	for _, table := range upkeep.PartitionedTables {
		if got := partitions(t, pg.Pool, table); len(got) != 1 {
			t.Errorf("partitions = %q", got)
		}
		if n := storetest.Query[int](t, s, "SELECT count(*) FROM actlog."+table+"_default"); n != 1 {
			t.Errorf("%d rows in the default partition of %s", n, table)
		}
	}
	if w := warned.String(); strings.Count(w, "not allowed to add partitions") != 1 {
		t.Errorf("logged:\n%s", w)
	}
	if until := u.Stats().PartitionsUntil; !until.IsZero() {
		t.Errorf("partitions until %s", until)
	}

	// Once another server has added them, there is nothing to warn about.
	owner := storetest.Upkeep(t, storetest.OpenURL(t, pg.URL), upkeep.Config{})
	until := owner.Stats().PartitionsUntil
	if days := time.Until(until).Hours() / 24; days < 14 || days > 21 {
		t.Errorf("partitions until %s", until)
	}

	var after storetest.Log
	lesser := storetest.Upkeep(t, storetest.OpenURL(t, roleURL, logTo(&after)), upkeep.Config{Logger: after.Logger()})
	if got := lesser.Stats().PartitionsUntil; !got.Equal(until) {
		t.Errorf("partitions until %s, want %s", got, until)
	}
	if w := after.String(); w != "" {
		t.Errorf("logged:\n%s", w)
	}
}

// TestRowsMoveToANewPartition checks that the rows of the default partition are the same after
// they were moved to a partition that was added later.
func TestRowsMoveToANewPartition(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	early := open(t, storetest.WriterURL(t, pg)) // adds no partitions: its role may not
	root := record.NewPlanID()
	for i := range int64(20) {
		storetest.Write(t, early,
			&record.ThinkAct{
				RootPlanID: root, StepID: root + "s", Seq: i, State: new(record.Completed), ThinkInput: new("four"),
				CostUSD: new(0.1), Metadata: []byte(`{"a":1}`),
			},
			&record.ActTool{
				RootPlanID: root, StepID: root + "s", Seq: i, ToolCallID: fmt.Sprint(i), State: new(record.Failed),
				Rev: new(int64(7)), Result: new(strings.Repeat("x", 10_000)),
			})
	}

	want := storetest.StepDetail(t, early, root+"s")
	s := open(t, pg.URL)
	if diff := cmp.Diff(want, storetest.StepDetail(t, s, root+"s")); diff != "" { // row numbers included
		t.Errorf("after the move (-before +after):\n%s", diff)
	}
	for _, table := range upkeep.PartitionedTables {
		if n := storetest.Query[int](t, s, "SELECT count(*) FROM actlog."+table+"_default"); n != 0 {
			t.Errorf("%d rows stayed in the default partition of %s", n, table)
		}
	}

	if n := storetest.Query[int](t, s,
		"SELECT count(*) FROM actlog.act_tool_info WHERE state = 'FAILED' AND status = 'FINISHED' AND revs IS NOT NULL "+
			"AND origin = 'native'"); n != 20 {
		t.Errorf("%d rows with all their columns", n)
	}
	if _, err := pg.Pool.Exec(t.Context(), "DELETE FROM actlog.agent_execution_record"); err == nil {
		t.Error("the foreign key does not hold for moved rows")
	}

	// They can be written again, and new rows get other numbers.
	storetest.Write(t, early, &record.ActTool{
		RootPlanID: root, StepID: root + "s", Seq: 0, ToolCallID: "0", Rev: new(int64(8)), Name: new("later"),
	},
		&record.ActTool{RootPlanID: root, StepID: root + "s", Seq: 0, ToolCallID: "new"})
	if n := storetest.Query[int](t, s, "SELECT count(DISTINCT id) FROM actlog.act_tool_info"); n != 21 {
		t.Errorf("%d numbers", n)
	}
	if got := storetest.StepDetail(t, s, root+"s").Cycles[0].ToolCalls; len(got) != 2 || *got[0].Record.Name != "later" {
		t.Errorf("calls = %+v", got)
	}
}

// TestAddPartitionsUnderLoad checks that no row is lost when others are written while rows move,
// and that there are no deadlocks.
func TestAddPartitionsUnderLoad(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	load := storetest.StartLoad(t, open(t, storetest.WriterURL(t, pg), storetest.Patient))
	load.Await(t, 200)

	var warned storetest.Log
	s := openLogged(t, pg.URL, &warned)
	load.Await(t, 200)
	load.Check(t, s)

	if w := warned.String(); w != "" {
		t.Errorf("logged:\n%s", w)
	}
	if n := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.act_tool_info_default"); n != 0 {
		t.Errorf("%d rows in the default partition", n)
	}
	storetest.CheckNoDeadlocks(t, s)
}

// TestAddPartitionsDuringAWrite adds a partition while a writer is between two statements. What
// the writer did is not lost, and the two do not wait for each other.
func TestAddPartitionsDuringAWrite(t *testing.T) {
	t.Parallel()
	const (
		plan  = "UPDATE actlog.plan_execution_record SET title = 'newer'"
		step  = "UPDATE actlog.agent_execution_record SET agent_name = 'newer'"
		cycle = "UPDATE actlog.think_act_record SET think_input = 'newer'"
	)

	for _, tt := range []struct{ name, before, after string }{
		{"after its plans, before its cycles", plan, cycle},
		{"after its cycles, before its steps", plan + "; " + cycle, step},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			pg := pgtest.Fresh(t)
			storetest.Write(t, open(t, storetest.WriterURL(t, pg)), &record.ThinkAct{
				RootPlanID: "p", StepID: "s", Seq: 0, ThinkInput: new("older"),
			})

			writer, err := pg.Pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = writer.Rollback(context.Background()) }()
			if _, err := writer.Exec(t.Context(), tt.before); err != nil {
				t.Fatal(err)
			}

			var warned storetest.Log
			s := storetest.OpenURL(t, pg.URL, logTo(&warned))
			started := make(chan *upkeep.Upkeep)
			go func() {
				u, err := upkeep.Start(t.Context(), s, upkeep.Config{Logger: warned.Logger()})
				if err != nil {
					t.Error(err)
				}
				started <- u
			}()
			storetest.Until(t, "the partition waits for the writer", func() bool {
				var n int
				if err := pg.Pool.QueryRow(t.Context(),
					"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&n); err != nil {
					t.Error(err)
				}
				return n > 0 || t.Failed()
			})

			if _, err := writer.Exec(t.Context(), tt.after); err != nil {
				t.Errorf("the writer: %v", err)
			}
			if err := writer.Commit(t.Context()); err != nil {
				t.Errorf("the writer: %v", err)
			}

			u := <-started
			if u == nil {
				t.FailNow()
			}
			defer u.Close()
			if in := *storetest.StepDetail(t, s, "s").Cycles[0].Record.ThinkInput; in != "newer" {
				t.Errorf("the cycle that was moved is the older one: %s", in)
			}
			if got := partitions(t, pg.Pool, "think_act_record"); len(got) == 1 {
				t.Errorf("no partition was added; logged:\n%s", &warned)
			}
		})
	}
}

// TestAddPartitionsDuringALongReport checks a report that holds a lock which a new partition
// needs: upkeep starts without the partitions, and no writer has to wait behind it.
func TestAddPartitionsDuringALongReport(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	report, err := pg.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = report.Rollback(context.Background()) }()
	if _, err := report.Exec(t.Context(), "SELECT count(*) FROM actlog.think_act_record"); err != nil {
		t.Fatal(err)
	}

	var warned storetest.Log
	s := openLogged(t, pg.URL, &warned)
	storetest.Write(t, s, &record.ThinkAct{RootPlanID: "p", StepID: "s", Seq: 0})
	if w := warned.String(); !strings.Contains(w, "add partitions failed") {
		t.Errorf("logged:\n%s", w)
	}

	if err := report.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	open(t, pg.URL)
	storetest.StepDetail(t, s, "s")
	if got := partitions(t, pg.Pool, "think_act_record"); len(got) != 2+upkeep.PartitionsAhead {
		t.Errorf("partitions = %q", got)
	}
}

// TestMovedRowsAreInTheFeed checks that rows which moved to a new partition are found by the
// change in the feed: the move has written them again.
func TestMovedRowsAreInTheFeed(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	for _, table := range upkeep.PartitionedTables {
		if _, err := pg.Pool.Exec(t.Context(), `DO $$ DECLARE child text; BEGIN
			FOR child IN SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'actlog.`+table+`'::regclass AND inhrelid <> 'actlog.`+table+`_default'::regclass
			LOOP EXECUTE 'DROP TABLE ' || child; END LOOP; END $$`); err != nil {
			t.Fatal(err)
		}
	}

	root := record.NewPlanID()
	call := &record.ActTool{RootPlanID: root, StepID: root, Seq: 0, ToolCallID: "c"}
	if _, err := pg.Pool.Exec(t.Context(), `
		INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, part) VALUES ($1, $1, (now() AT TIME ZONE 'utc')::date)`, root); err != nil {
		t.Fatal(err)
	}

	if _, err := pg.Pool.Exec(t.Context(), `
		INSERT INTO actlog.agent_execution_record (root_plan_id, step_id, part) SELECT root_plan_id, root_plan_id, part FROM actlog.plan_execution_record`); err != nil {
		t.Fatal(err)
	}
	if _, err := pg.Pool.Exec(t.Context(), `
		INSERT INTO actlog.act_tool_info (root_plan_id, step_id, seq, tool_call_id, part) SELECT root_plan_id, step_id, 0, 'c', part FROM actlog.agent_execution_record`); err != nil {
		t.Fatal(err)
	}

	s := open(t, pg.URL)
	var xid uint32
	if err := pg.Pool.QueryRow(t.Context(), "SELECT xmin::text::bigint FROM actlog.change WHERE root_plan_id = $1",
		root).Scan(&xid); err != nil {
		t.Fatal(err)
	}

	found, err := s.Rows(t.Context(), root, &store.RowFilter{
		XIDs: []uint32{xid}, Kinds: []record.Kind{record.KindActTool},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || found[0].Record.Key() != call.Key() {
		t.Errorf("the transaction of the change has the rows %v", found)
	}
}
