package upkeep_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// failure is a run in which a call failed.
func failure(root, message string) []record.Change {
	failed := new(record.Failed)
	return []record.Change{
		&record.Plan{RootPlanID: root, CurrentPlanID: root, State: failed},
		&record.AgentExecution{
			RootPlanID: root, PlanID: root, StepID: root + "-s", State: failed, ErrorKind: new("tool"),
			ErrorMessage: new("a tool failed"),
		},
		&record.ActTool{
			RootPlanID: root, StepID: root + "-s", Seq: 0, ToolCallID: "c", Name: new("run_sql"), State: failed,
			ErrorKind: new("timeout"), ErrorMessage: &message,
		},
	}
}

// reported returns what reports say of the cause of a run.
func reported(t *testing.T, s *store.Store, root string) string {
	t.Helper()
	return storetest.Query[string](t, s, `
SELECT COALESCE(max(concat_ws('|', COALESCE(cause_kind, '-'), COALESCE(cause_tool, '-'), COALESCE(cause_text, '-'), recovered)), 'no run') FROM report.plan WHERE plan_id = $1 AND is_root`, root)
}

// F8: reports have the cause as it is, whoever of several servers wrote or deleted what, and nothing of what was
// dropped.
func TestCausesAreKept(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t).URL
	s, other := storetest.OpenURL(t, url), storetest.OpenURL(t, url)
	storetest.Upkeep(t, s, upkeep.Config{})
	storetest.Upkeep(t, other, upkeep.Config{})
	becomes := func(root, want string) {
		t.Helper()
		storetest.Until(t, root+" is "+want, func() bool { return reported(t, s, root) == want })
	}

	storetest.Write(t, s, failure("a", "no answer within 10 s")...)
	storetest.Write(t, other, failure("b", "no answer within 20 s")...)
	becomes("a", "timeout|run_sql|no answer within 10 s|f")
	becomes("b", "timeout|run_sql|no answer within 20 s|f")

	// A late record, a run that is told anew, and one that is gone.
	storetest.Write(t, other, &record.Plan{
		RootPlanID: "a", CurrentPlanID: "a", State: new(record.Failed), ErrorKind: new("limit_time"),
		ErrorMessage: new("took too long"),
	})
	becomes("a", "limit_time|-|took too long|f")

	if err := other.DeletePlan(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if n := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.cause WHERE root_plan_id = 'b'"); n != 0 {
		t.Error("what was deleted has a cause")
	}
	storetest.Write(t, s, &record.Plan{RootPlanID: "b", CurrentPlanID: "b", State: new(record.Completed)})
	becomes("b", "-|-|-")
}

// TestCausesOfManyWriters: no change is missed, however transactions overlap, and lists never say anything but what is
// on record.
func TestCausesOfManyWriters(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	u := storetest.Upkeep(t, s, upkeep.Config{})
	const writers, runs = 4, 40

	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range runs {
				root := fmt.Sprint("run-", w, "-", i%10)
				storetest.Write(t, s, failure(root, fmt.Sprint("message ", i))...)
				list, err := s.PlansAt(t.Context(), []string{root})
				if err != nil || len(list) != 1 || list[0].Failure == nil || list[0].Failure.Text() != fmt.Sprint("message ", i) {
					t.Errorf("%s: %+v, %v", root, list, err)
				}
			}
		})
	}
	wg.Wait()
	if err := u.Run(t.Context()); err != nil {
		t.Fatal(err)
	}

	for w := range writers {
		for i := range 10 {
			root, want := fmt.Sprint("run-", w, "-", i), fmt.Sprint("timeout|run_sql|message ", runs-10+i, "|f")
			storetest.Until(t, root+" is "+want, func() bool { return reported(t, s, root) == want })
		}
	}
}

// TestCausesForgetDroppedDetail: what is dropped for its age is in no cause (O4), neither of lists nor of reports.
func TestCausesForgetDroppedDetail(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.Fresh(t).URL)
	storetest.Write(t, s, failure("old", "a text that is dropped")...)
	storetest.Age(t, s, storetest.OldMonday, "old")
	// no writer moves a tree, so the feed does not say it
	storetest.Write(t, s, &record.Plan{RootPlanID: "old", CurrentPlanID: "old", Title: new("Old")})

	u := idle(t, s)
	for _, days := range []int{0, 30} {
		if err := upkeep.DropDetail(u, t.Context(), days); err != nil {
			t.Fatal(err)
		}
		list, err := s.PlansAt(t.Context(), []string{"old"})
		if err != nil || len(list) != 1 || list[0].Failure == nil {
			t.Fatalf("list = %v, %v", list, err)
		}

		want := "a text that is dropped"
		if days > 0 {
			want = "a tool failed"
		}
		if got := list[0].Failure.Text(); got != want {
			t.Errorf("after %d days the list says %q, want %q", days, got, want)
		}

		if days == 0 {
			want = "timeout|run_sql|" + want + "|f"
		} else {
			want = "tool|-|" + want + "|f"
		}
		storetest.Until(t, "the report says "+want, func() bool { return reported(t, s, "old") == want })
	}

	if n := storetest.Query[int](t, s,
		"SELECT count(*) FROM actlog.cause WHERE cause::text LIKE '%that is dropped%'"); n != 0 {
		t.Error("a text that was dropped is left")
	}
}

// TestCausesOfRunsFromBefore: runs that were on record before there were causes get theirs.
func TestCausesOfRunsFromBefore(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	const runs = 450 // several pages
	for i := range runs {
		storetest.Write(t, s, failure(fmt.Sprint("run-", i), "no answer")...)
	}

	storetest.Exec(t, s, "UPDATE actlog.cause_progress SET seq = (SELECT max(seq) FROM actlog.change), before_at = "+
		"'9999-12-31', before_id = ''")
	if err := storetest.Upkeep(t, s, upkeep.Config{}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}

	storetest.Until(t, "all have a cause", func() bool {
		return storetest.Query[int](t, s, "SELECT count(*) FROM report.plan WHERE cause_kind = 'timeout'") == runs
	})
}

// TestCausesBesideABadTree: a tree of which the rows cannot be read is logged once, and the others get their causes.
func TestCausesBesideABadTree(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	const runs = 25
	for i := range runs {
		storetest.Write(t, s, failure(fmt.Sprint("run-", i), "no answer")...)
	}

	// Go has no such time
	storetest.Exec(t, s, "UPDATE actlog.act_tool_info SET start_time = 'infinity' WHERE root_plan_id = 'run-12'")
	var log storetest.Log
	u := idle(t, s, func(c *upkeep.Config) { c.Logger = log.Logger() })
	causes := func() int {
		return storetest.Query[int](t, s, "SELECT count(*) FROM report.plan WHERE cause_kind = 'timeout'")
	}

	for range 2 { // the second time nothing is due
		if err := u.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := causes(); n != runs-1 {
			t.Errorf("%d of %d runs have a cause", n, runs)
		}
	}
	if n := strings.Count(log.String(), "run-12"); n != 1 {
		t.Errorf("the bad tree is in the log %d times:\n%s", n, log.String())
	}
	if n := u.Stats().Failures; n != 1 {
		t.Errorf("%d failures are counted", n)
	}

	storetest.Write(t, s, failure("again", "no answer")...) // the feed names others now, and not the bad tree
	list, err := s.Plans(t.Context(), store.PlanFilter{Limit: 100})
	if err != nil || len(list) != runs+1 {
		t.Fatalf("the list has %d runs, %v", len(list), err)
	}

	storetest.Exec(t, s, "UPDATE actlog.act_tool_info SET start_time = end_time WHERE root_plan_id = 'run-12'")
	storetest.Write(t, s, &record.Plan{RootPlanID: "run-12", CurrentPlanID: "run-12", Title: new("mended")})
	if err := u.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := causes(); n != runs+1 {
		t.Errorf("%d of %d runs have a cause", n, runs+1)
	}
}

// TestListBesideABadTree: a list has all runs, also one of which the cause cannot be read.
func TestListBesideABadTree(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	storetest.Write(t, s, failure("bad", "no answer")...)
	storetest.Write(t, s, failure("good", "no answer")...)
	storetest.Exec(t, s, "UPDATE actlog.act_tool_info SET start_time = 'infinity' WHERE root_plan_id = 'bad'")

	list, err := s.Plans(t.Context(), store.PlanFilter{Limit: 100})
	if err != nil || len(list) != 2 {
		t.Fatalf("%d runs, %v", len(list), err)
	}
	for _, p := range list {
		if has := p.Failure != nil; has != (p.Record.RootPlanID == "good") {
			t.Errorf("%s has a cause: %t", p.Record.RootPlanID, has)
		}
	}
}

// causeReads counts of how many trees the rows were read at most at once.
type causeReads struct{ most, all atomic.Int64 }

func (c *causeReads) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, "name: CauseRows ") {
		roots, _ := q.Args[len(q.Args)-1].([]string)
		c.all.Add(int64(len(roots)))
		c.most.Store(max(c.most.Load(), int64(len(roots))))
	}
	return ctx
}

func (*causeReads) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestCausesOfAFewTreesAtOnce: the rows of at most ten trees are in memory, and at most so much of each error.
func TestCausesOfAFewTreesAtOnce(t *testing.T) {
	t.Parallel()
	var reads causeReads
	s := storetest.Open(t, func(c *store.Config) { c.Tracer = &reads })
	const runs = 25
	long := strings.Repeat("x", 1<<20) + "\nthe end"
	for i := range runs {
		storetest.Write(t, s, failure(fmt.Sprint("run-", i), long)...)
	}

	if err := idle(t, s).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if reads.all.Load() != runs || reads.most.Load() > 10 {
		t.Errorf("the rows of %d trees were read, %d at once", reads.all.Load(), reads.most.Load())
	}

	if n := storetest.Query[int](t, s,
		"SELECT max(octet_length(actlog.cause_evidence(root_plan_id, part)::text)) FROM actlog.plan_execution_record"); n >
		12_000 {
		t.Errorf("the rows of a tree have %d bytes", n)
	}

	if text := storetest.Query[string](
		t, s, "SELECT actlog.error_text($1)", strings.Repeat("ü", 8_192),
	); text != strings.Repeat("ü", 8_192) {
		t.Errorf("an error of 8,192 characters is cut: %d", len(text))
	}
	if text := storetest.Query[string](t, s, "SELECT actlog.error_text($1)", long); text != long[:4_096]+"\n"+
		long[len(long)-4_096:] {
		t.Errorf("of a long error, %d bytes are read", len(text))
	}
}
