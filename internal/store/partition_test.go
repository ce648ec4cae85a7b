package store_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/internal/upsert"
	"github.com/actlog/actlog/record"
)

// partitions tells the bounds of a table's partitions, in order.
func partitions(t testing.TB, pool *pgxpool.Pool, table string) []string {
	t.Helper()
	return lines(t, pool, `SELECT c.relname || ' ' || pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
		WHERE i.inhparent = ('actlog.' || $1)::regclass ORDER BY pg_get_expr(c.relpartbound, c.oid) = 'DEFAULT', 1`, table)
}

func today(t testing.TB, pool *pgxpool.Pool) (day time.Time) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), "SELECT (now() AT TIME ZONE 'utc')::date").Scan(&day); err != nil {
		t.Fatal(err)
	}
	return day
}

// warnings collects what the store logs at level warn and above.
type warnings struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *warnings) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(b)
}

func (w *warnings) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

func (w *warnings) logger(c *store.Config) {
	c.Logger = slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func days(n int) func(*store.Config) { return func(c *store.Config) { c.PartitionDays = n } }

func TestPartitionsAreMadeAhead(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	var warned warnings
	before := today(t, pg.Pool)
	var wg sync.WaitGroup
	for range 4 { // at once, then again
		wg.Go(func() {
			s, err := store.Open(t.Context(), store.Config{DatabaseURL: pg.URL, MaxConns: 3, Logger: slog.New(slog.NewTextHandler(&warned, &slog.HandlerOptions{Level: slog.LevelWarn}))})
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	openURL(t, pg.URL, warned.logger)
	openURL(t, pg.URL, warned.logger)
	for _, table := range store.PartitionedTables {
		want := func(day time.Time) (all []string) {
			from := store.PeriodStart(day, 7)
			for range 1 + store.PartitionsAhead {
				to := from.AddDate(0, 0, 7)
				all = append(all, fmt.Sprintf("%s_p%s FOR VALUES FROM ('%s') TO ('%s')", table, from.Format("20060102"), from.Format(time.DateOnly), to.Format(time.DateOnly)))
				from = to
			}
			return append(all, table+"_default DEFAULT")
		}
		got := partitions(t, pg.Pool, table)
		if diff := cmp.Diff(want(before), got); diff != "" && !slices.Equal(want(today(t, pg.Pool)), got) { // a period may have begun meanwhile
			t.Errorf("partitions of %s (-want +got):\n%s", table, diff)
		}
	}
	if w := warned.String(); w != "" {
		t.Errorf("it was said:\n%s", w)
	}
}

// TestAChangedPeriod: partitions go on where the last one ends.
func TestAChangedPeriod(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	var warned warnings
	for _, n := range []int{7, 1, 30, 3, 10, 7} {
		s := openURL(t, pg.URL, days(n), warned.logger)
		root := fmt.Sprint(n)
		write(t, s, &record.ActTool{RootPlanID: root, StepID: root, Seq: 0, ToolCallID: "t"})
		stepDetail(t, s, root)
		for _, table := range store.PartitionedTables {
			all := lines(t, pg.Pool, `SELECT substring(pg_get_expr(c.relpartbound, c.oid) FROM '\((.*)\) TO') || ' ' || substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \((.*)\)')
				FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
				WHERE i.inhparent = ('actlog.' || $1)::regclass AND c.relname NOT LIKE '%\_default' ORDER BY 1`, table)
			for i := 1; i < len(all); i++ {
				_, end, _ := strings.Cut(all[i-1], " ")
				if start, _, _ := strings.Cut(all[i], " "); start != end {
					t.Errorf("%d days: between %s and %s", n, end, start)
				}
			}
			_, last, _ := strings.Cut(all[len(all)-1], " ")
			if ahead := store.PeriodStart(today(t, pg.Pool), n).AddDate(0, 0, n*store.PartitionsAhead); last < "'"+ahead.Format(time.DateOnly)+"'" {
				t.Errorf("%d days: the last partition of %s ends at %s", n, table, last)
			}
		}
	}
	if w := warned.String(); w != "" {
		t.Errorf("it was said:\n%s", w)
	}
}

// TestAnotherDateStyle: bounds are read back as text.
func TestAnotherDateStyle(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	if _, err := pg.Pool.Exec(t.Context(), "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET datestyle = %L', current_database(), 'German'); END $$"); err != nil {
		t.Fatal(err)
	}
	var warned warnings
	for range 2 {
		openURL(t, pg.URL, warned.logger)
	}
	if w := warned.String(); w != "" {
		t.Errorf("it was said:\n%s", w)
	}
}

// restrict gives a URL for a role that may write, and nothing more.
func restrict(t *testing.T, pg *pgtest.DB) string {
	t.Helper()
	name, roleURL := role(t, pg)
	for _, sql := range []string{
		"GRANT USAGE ON SCHEMA actlog TO " + name,
		"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA actlog TO " + name,
	} {
		if _, err := pg.Pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return roleURL
}

func TestARoleWithoutDDL(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	roleURL := restrict(t, pg)
	var warned warnings
	s := openURL(t, roleURL, warned.logger)
	write(t, s, &record.ActTool{RootPlanID: "p", StepID: "s", Seq: 0, ToolCallID: "t"})
	if st := stepDetail(t, s, "s"); len(st.Cycles) != 1 {
		t.Errorf("step = %+v", st)
	}
	for _, table := range store.PartitionedTables {
		if got := partitions(t, pg.Pool, table); len(got) != 1 {
			t.Errorf("partitions = %q", got)
		}
		if n := query[int](t, s, "SELECT count(*) FROM actlog."+table+"_default"); n != 1 {
			t.Errorf("%d rows in the default partition of %s", n, table)
		}
	}
	if w := warned.String(); strings.Count(w, "not allowed to add partitions") != 1 {
		t.Errorf("it was said:\n%s", w)
	}
	if until := s.Stats().PartitionsUntil; !until.IsZero() {
		t.Errorf("partitions until %s", until)
	}
	// Once someone else made them, there is nothing to say.
	owner := openURL(t, pg.URL)
	until := owner.Stats().PartitionsUntil
	if days := time.Until(until).Hours() / 24; days < 14 || days > 21 {
		t.Errorf("partitions until %s", until)
	}
	var after warnings
	lesser := openURL(t, roleURL, after.logger)
	if got := lesser.Stats().PartitionsUntil; !got.Equal(until) {
		t.Errorf("partitions until %s, want %s", got, until)
	}
	if w := after.String(); w != "" {
		t.Errorf("it was said:\n%s", w)
	}
}

// TestRowsMoveToTheirPartition: what the default partition caught is the same
// when its partition comes.
func TestRowsMoveToTheirPartition(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	early := openURL(t, restrict(t, pg))
	root := record.NewPlanID()
	for i := range int64(20) {
		write(t, early,
			&record.ThinkAct{RootPlanID: root, StepID: root + "s", Seq: i, State: new(record.Completed), ThinkInput: new("four"), CostUSD: new(0.1), Metadata: []byte(`{"a":1}`)},
			&record.ActTool{RootPlanID: root, StepID: root + "s", Seq: i, ToolCallID: fmt.Sprint(i), State: new(record.Failed), Rev: new(int64(7)), Result: new(strings.Repeat("x", 10_000))})
	}
	want := stepDetail(t, early, root+"s")
	s := openURL(t, pg.URL)
	if diff := cmp.Diff(want, stepDetail(t, s, root+"s")); diff != "" { // row numbers included
		t.Errorf("after the move (-before +after):\n%s", diff)
	}
	for _, table := range store.PartitionedTables {
		if n := query[int](t, s, "SELECT count(*) FROM actlog."+table+"_default"); n != 0 {
			t.Errorf("%d rows stayed in the default partition of %s", n, table)
		}
	}
	if n := query[int](t, s, "SELECT count(*) FROM actlog.act_tool_info WHERE state = 'FAILED' AND status = 'FINISHED' AND revs IS NOT NULL AND origin = 'native'"); n != 20 {
		t.Errorf("%d rows with all their columns", n)
	}
	if _, err := pg.Pool.Exec(t.Context(), "DELETE FROM actlog.agent_execution_record"); err == nil {
		t.Error("the foreign key does not hold for moved rows")
	}
	// They can be told more about, and new ones get numbers of their own.
	write(t, early, &record.ActTool{RootPlanID: root, StepID: root + "s", Seq: 0, ToolCallID: "0", Rev: new(int64(8)), Name: new("later")},
		&record.ActTool{RootPlanID: root, StepID: root + "s", Seq: 0, ToolCallID: "new"})
	if n := query[int](t, s, "SELECT count(DISTINCT id) FROM actlog.act_tool_info"); n != 21 {
		t.Errorf("%d numbers", n)
	}
	if got := stepDetail(t, s, root+"s").Cycles[0].ToolCalls; len(got) != 2 || *got[0].Record.Name != "later" {
		t.Errorf("calls = %+v", got)
	}
}

// TestPartitionsComeUnderLoad: while rows move, others are written. None is lost,
// and the two do not deadlock.
func TestPartitionsComeUnderLoad(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	c := startCounters(t, openURL(t, restrict(t, pg), patient))
	c.await(t, 200)
	var warned warnings
	s := openURL(t, pg.URL, warned.logger)
	c.await(t, 200)
	c.check(t, s)
	if w := warned.String(); w != "" {
		t.Errorf("it was said:\n%s", w)
	}
	if n := query[int](t, s, "SELECT count(*) FROM actlog.act_tool_info_default"); n != 0 {
		t.Errorf("%d rows in the default partition", n)
	}
	if n := query[int](t, s, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// TestAWriterInTheMiddleOfThings: a partition comes while a writer is between two
// statements. What the writer did is not lost, and the two do not wait for each
// other.
func TestAWriterInTheMiddleOfThings(t *testing.T) {
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
			write(t, openURL(t, restrict(t, pg)), &record.ThinkAct{RootPlanID: "p", StepID: "s", Seq: 0, ThinkInput: new("older")})
			writer, err := pg.Pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = writer.Rollback(context.Background()) }()
			if _, err := writer.Exec(t.Context(), tt.before); err != nil {
				t.Fatal(err)
			}
			var warned warnings
			opened := make(chan *store.Store)
			go func() {
				s, err := store.Open(t.Context(), store.Config{DatabaseURL: pg.URL, Logger: slog.New(slog.NewTextHandler(&warned, nil))})
				if err != nil {
					t.Error(err)
				}
				opened <- s
			}()
			until(t, "the partition waits for the writer", func() bool {
				var n int
				if err := pg.Pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&n); err != nil {
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
			s := <-opened
			if s == nil {
				t.FailNow()
			}
			if in := *stepDetail(t, s, "s").Cycles[0].Record.ThinkInput; in != "newer" {
				t.Errorf("the cycle was moved as it was before: %s", in)
			}
			if got := partitions(t, pg.Pool, "think_act_record"); len(got) == 1 {
				t.Errorf("no partition came; it was said:\n%s", &warned)
			}
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestALongReport holds a lock that partitions need: the store opens all the
// same, and writers are not kept waiting behind it.
func TestALongReport(t *testing.T) {
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
	var warned warnings
	s := openURL(t, pg.URL, warned.logger)
	write(t, s, &record.ThinkAct{RootPlanID: "p", StepID: "s", Seq: 0})
	if w := warned.String(); !strings.Contains(w, "partitions were not added") {
		t.Errorf("it was said:\n%s", w)
	}
	if err := report.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	openURL(t, pg.URL)
	stepDetail(t, s, "s")
	if got := partitions(t, pg.Pool, "think_act_record"); len(got) != 2+store.PartitionsAhead {
		t.Errorf("partitions = %q", got)
	}
}

// TestPart: Go and SQL count periods alike, from the UTC day, whatever the zone
// of the server.
func TestPart(t *testing.T) {
	t.Parallel()
	keys, err := upsert.Statement(record.KindPlan, upsert.Shape{})
	if err != nil {
		t.Fatal(err)
	}
	for _, zone := range []string{"Pacific/Kiritimati", "Etc/GMT+12", "UTC"} { // 26 hours apart
		pg := pgtest.Fresh(t)
		if _, err := pg.Pool.Exec(t.Context(), "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET timezone = %L', current_database(), '"+zone+"'); END $$"); err != nil {
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
			if err := tx.QueryRow(t.Context(), "SELECT now(), current_setting('timezone')").Scan(&now, &setting); err != nil || setting != zone {
				t.Fatalf("zone %s, %v", setting, err)
			}
			root := fmt.Sprint(n)
			if _, err := tx.Exec(t.Context(), keys, []string{root}, []string{root}, n); err != nil {
				t.Fatal(err)
			}
			var part time.Time
			if err := tx.QueryRow(t.Context(), "SELECT part FROM actlog.plan_execution_record WHERE root_plan_id = $1", root).Scan(&part); err != nil {
				t.Fatal(err)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if want := store.PeriodStart(now.UTC().Truncate(24*time.Hour), n); !part.Equal(want) {
				t.Errorf("%s, %d days: part is %s, want %s", zone, n, part, want)
			}
		}
		// Everything of a tree takes the part of its root.
		s := openURL(t, pg.URL, days(1))
		write(t, s, &record.ActTool{RootPlanID: "p", StepID: "s", Seq: 0, ToolCallID: "t"}, &record.Plan{RootPlanID: "p", CurrentPlanID: "q"})
		exec(t, s, "UPDATE actlog.plan_execution_record SET part = part - 300")
		write(t, s, &record.AgentExecution{RootPlanID: "p", StepID: "later", PlanID: "p"}, &record.Plan{RootPlanID: "p", CurrentPlanID: "r"})
		if n := query[int](t, s, "SELECT count(DISTINCT part) FROM (SELECT part FROM actlog.plan_execution_record UNION ALL SELECT part FROM actlog.agent_execution_record WHERE step_id = 'later') AS all_of_them"); n != 1 {
			t.Errorf("%s: a tree lies in %d parts", zone, n)
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
