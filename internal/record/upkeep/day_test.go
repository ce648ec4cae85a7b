package upkeep_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// callsOneByOne are the figures of a chart as the calls themselves have them.
var callsOneByOne = map[store.ChartBy]string{
	store.ByModel: `SELECT model_name AS name, count(*), count(*) FILTER (WHERE state = 'FAILED') AS failed, sum(input_tokens)::bigint AS input_tokens,
		sum(output_tokens)::bigint AS output_tokens, sum(cost_usd) AS cost_usd, count(*) FILTER (WHERE cost_usd IS NULL) AS unpriced,
		percentile_disc(0.5) WITHIN GROUP (ORDER BY think_seconds) AS p50_seconds, percentile_disc(0.95) WITHIN GROUP (ORDER BY think_seconds) AS p95_seconds
		FROM report.think_act WHERE COALESCE(think_seconds, input_char_count, output_char_count, input_tokens, output_tokens) IS NOT NULL AND `,
	store.ByTool: `SELECT tool_name AS name, count(*), count(*) FILTER (WHERE state = 'FAILED') AS failed,
		percentile_disc(0.5) WITHIN GROUP (ORDER BY duration_seconds) AS p50_seconds, percentile_disc(0.95) WITHIN GROUP (ORDER BY duration_seconds) AS p95_seconds
		FROM report.tool_call WHERE `,
}

// sayChart writes the rows of a chart so that they can be compared: percentiles of closed days are near enough.
func sayChart(rows []store.ChartRow) (lines []string) {
	number := func(n *int64) string {
		if n == nil {
			return "-"
		}
		return fmt.Sprint(*n)
	}
	for _, r := range rows {
		name, cost := "-", 0.0
		if r.Name != nil {
			name = *r.Name
		}
		if r.CostUSD != nil {
			cost = *r.CostUSD
		}

		lines = append(lines, fmt.Sprintf("%s: %d calls, %d failed, %s -> %s tokens, %.6f USD, %s unpriced",
			name, r.Count, r.Failed, number(r.InputTokens), number(r.OutputTokens), cost, number(r.Unpriced)))
	}
	slices.Sort(lines)
	return lines
}

// sameSeconds reports whether percentiles are near each other: both nil, or within 5 percent.
func sameSeconds(a, b *float64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a <= *b*1.06 && *b <= *a*1.06
}

// checkCharts compares the charts of a time with the calls themselves.
func checkCharts(t *testing.T, s *store.Store, f store.ChartFilter) {
	t.Helper()
	for by, sql := range callsOneByOne {
		got, err := s.Chart(t.Context(), by, f)
		if err != nil {
			t.Fatal(err)
		}

		rows, err := s.DB().Query(t.Context(), sql+`happened_at >= $1 AND happened_at < COALESCE($2, 'infinity'::timestamptz) AND ($3 = '' OR project = $3)
			GROUP BY 1`, f.Since, f.Until, f.Project)
		if err != nil {
			t.Fatal(err)
		}
		want, err := pgx.CollectRows(rows, pgx.RowToStructByNameLax[store.ChartRow])
		if err != nil {
			t.Fatal(err)
		}

		if g, w := sayChart(got), sayChart(want); !slices.Equal(g, w) {
			t.Fatalf("by %s from %v to %v of %q:\n%q, want\n%q", by, f.Since, f.Until, f.Project, g, w)
		}

		byName := func(a, b store.ChartRow) int {
			return cmp.Compare(sayChart([]store.ChartRow{a})[0], sayChart([]store.ChartRow{b})[0])
		}
		slices.SortFunc(got, byName)
		slices.SortFunc(want, byName)
		for i := range got {
			if !sameSeconds(got[i].P50Seconds, want[i].P50Seconds) || !sameSeconds(got[i].P95Seconds, want[i].P95Seconds) {
				t.Fatalf("by %s: %+v, want %+v", by, got[i], want[i])
			}
		}
	}
}

// randomCall is a cycle with a call, some days ago, of one of a few trees. Written again, it changes.
func randomCall(r *rand.Rand, now time.Time) []record.Change {
	root := fmt.Sprint("p", r.IntN(6))
	step, seq := fmt.Sprint(root, "-s", r.IntN(2)), int64(r.IntN(4))
	began := now.Add(-time.Duration(r.IntN(12*24*60)) * time.Minute)
	took := began.Add(time.Duration(r.IntN(5000)) * time.Millisecond)
	state := []record.State{record.Running, record.Completed, record.Failed}[r.IntN(3)]

	plan := &record.Plan{RootPlanID: root, CurrentPlanID: []string{root, root + "-sub"}[r.IntN(2)]}
	if r.IntN(4) == 0 {
		plan.Project = new(fmt.Sprint("project", r.IntN(3)))
	}
	agent := &record.AgentExecution{RootPlanID: root, PlanID: plan.CurrentPlanID, StepID: step}
	if r.IntN(4) == 0 {
		agent.ModelName = new(fmt.Sprint("model", r.IntN(3)))
	}

	cycle := &record.ThinkAct{
		RootPlanID: root, StepID: step, Seq: seq, State: &state, ThinkStartTime: &began, ThinkEndTime: &took,
	}
	if r.IntN(2) == 0 {
		cycle.InputTokens, cycle.OutputTokens = new(int64(r.IntN(1000))), new(int64(r.IntN(1000)))
	}

	call := &record.ActTool{
		RootPlanID: root, StepID: step, Seq: seq, ToolCallID: fmt.Sprint("c", r.IntN(3)), State: &state,
	}
	if r.IntN(3) > 0 {
		call.Name = new(fmt.Sprint("tool", r.IntN(3)))
	}
	if r.IntN(3) > 0 {
		call.StartTime, call.EndTime = &began, &took
	}
	return []record.Change{plan, agent, cycle, call}
}

// TestChartsAreOfTheCalls: whatever is written, changed and deleted on days that are closed, charts say what the calls
// themselves do, before and after the days are closed again.
func TestChartsAreOfTheCalls(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	u := upkeep.Idle(s, upkeep.Config{})
	now, r := time.Now().UTC(), rand.New(rand.NewPCG(1, 1))

	// The clock of a client was wrong. This is in the same transaction as a call of last week.
	week, zero := randomCall(r, now), new(time.Unix(0, 0))
	storetest.Write(t, s, append(week, &record.ActTool{
		RootPlanID: "wrong", StepID: "s", ToolCallID: "c", StartTime: zero, EndTime: zero,
	})...)
	days := "SELECT count(DISTINCT day) FROM actlog.opened_day WHERE day = 'epoch'"
	if n := storetest.Query[int](t, s, days); n != 1 {
		t.Errorf("1970 is opened %d times", n)
	}

	closed := 0

	for range 60 {
		for range 1 + r.IntN(4) {
			storetest.Write(t, s, randomCall(r, now)...)
		}
		if r.IntN(5) == 0 {
			if err := s.DeletePlan(t.Context(), fmt.Sprint("p", r.IntN(6))); err != nil && !errors.Is(err, record.ErrNotFound) {
				t.Fatal(err)
			}
		}
		if r.IntN(3) == 0 {
			if err := upkeep.CloseDays(u, t.Context()); err != nil {
				t.Fatal(err)
			}
			closed += storetest.Query[int](t, s, "SELECT count(*) FROM report.closed_day")
		}

		checkCharts(t, s, store.ChartFilter{Since: now.AddDate(-100, 0, 0)})
		f := store.ChartFilter{Since: now.Add(-time.Duration(r.IntN(12*24)) * time.Hour)}
		f.Project = []string{"", "project1", "default"}[r.IntN(3)]
		if r.IntN(2) == 0 {
			f.Until = new(f.Since.Add(time.Duration(1+r.IntN(100)) * time.Hour))
		}
		checkCharts(t, s, f)
	}

	if closed == 0 {
		t.Error("no day is closed")
	}
}

// TestDaysOfTransactionsUnderWay: a day that is closed while a transaction writes to it is open once that is committed.
func TestDaysOfTransactionsUnderWay(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	u := upkeep.Idle(s, upkeep.Config{})
	now, r := time.Now().UTC(), rand.New(rand.NewPCG(3, 4))
	for range 30 {
		storetest.Write(t, s, randomCall(r, now)...)
	}

	for i := range 2 {
		err := s.InTx(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			if _, err := tx.Write(ctx, randomCall(r, now)); err != nil {
				return err
			}
			return upkeep.CloseDays(u, ctx)
		})
		if err != nil {
			t.Fatal(i, err)
		}
		checkCharts(t, s, store.ChartFilter{Since: now.AddDate(0, 0, -20)})
	}
}
