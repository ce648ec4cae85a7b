package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/otlp"
	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/record"
)

// TestNewTreesAreCopied, their detail only, and those that are there are merged.
func TestNewTreesAreCopied(t *testing.T) {
	t.Parallel()
	var copies copyTracer
	s := store.CopyNew(open(t, func(c *store.Config) { c.Tracer = &copies }))
	one := []string{"think_act_record", "COPY 1", "act_tool_info", "COPY 1"}
	call := func(root, id string) []record.Change {
		return []record.Change{
			&record.ThinkAct{RootPlanID: root, StepID: root + "-s", Seq: 0, ThinkInput: new("asked"), CostUSD: new(0.1)},
			&record.ActTool{RootPlanID: root, StepID: root + "-s", Seq: 0, ToolCallID: id, Name: new("n"), Metadata: json.RawMessage(`{"a":1}`), State: new(record.Failed)},
		}
	}
	write(t, s, call("known", "a")...)
	if got := copies.taken(); !slices.Equal(got, one) {
		t.Errorf("copied of a new tree: %q", got)
	}
	write(t, s, append(call("known", "b"), call("new", "c")...)...)
	if got := copies.taken(); !slices.Equal(got, one) {
		t.Errorf("copied of a new tree beside a known one: %q", got)
	}
	for root, calls := range map[string]int64{"known": 2, "new": 1} {
		if f := planTree(t, s, root).Figures; f.ToolCalls != calls || f.Failures != calls || f.ModelCalls != 1 || *f.CostUSD != 0.1 {
			t.Errorf("%s: %+v", root, f)
		}
	}
}

// TestWhatCannotBeCopiedIsMerged: a value that no column has room for is the only one
// that is refused.
func TestWhatCannotBeCopiedIsMerged(t *testing.T) {
	t.Parallel()
	s := open(t)
	exec(t, s, "DROP SCHEMA report CASCADE")
	exec(t, s, "ALTER TABLE actlog.act_tool_info ALTER call_index TYPE smallint")
	var changes []record.Change
	for i := range 100 {
		changes = append(changes, &record.ActTool{RootPlanID: fmt.Sprint("r", i/10), StepID: "s", Seq: 1, ToolCallID: fmt.Sprint(i), CallIndex: new(int64(i))})
	}
	changes[55].(*record.ActTool).CallIndex = new(int64(40_000))
	result, err := s.Write(t.Context(), changes)
	if err != nil {
		t.Fatal(err)
	}
	if result.Accepted != 99 || len(result.Rejected) != 1 || result.Rejected[0].Index != 55 {
		t.Errorf("result = %+v", result)
	}
}

// TestATreeThatOnlySeemsNew: two transactions may begin at the same time.
func TestATreeThatOnlySeemsNew(t *testing.T) {
	t.Parallel()
	pg := pgtest.New(t)
	s := openURL(t, pg.URL, projecting)
	exec(t, s, "CREATE SCHEMA standing")
	exec(t, s, "CREATE FUNCTION standing.now() RETURNS timestamptz LANGUAGE sql STABLE AS $$ SELECT timestamptz '2020-01-01 00:00Z' $$")
	stopClock := func() { exec(t, s, "UPDATE actlog.plan_execution_record SET first_seen_at = '2020-01-01 00:00Z'") }
	separator := "?"
	if strings.Contains(pg.URL, "?") {
		separator = "&"
	}
	var copies copyTracer
	other := store.CopyNew(openURL(t, pg.URL+separator+"search_path=standing,pg_catalog", projecting, func(c *store.Config) { c.Tracer = &copies }))
	failed := []string{"think_act_record", ""}

	var cycles []record.Change
	for seq := range int64(100) {
		cycles = append(cycles, &record.ThinkAct{RootPlanID: "r", StepID: "s", Seq: seq, ThinkOutput: new("x")})
	}
	write(t, s, cycles...)
	stopClock()
	write(t, other, cycles...)
	if got := copies.taken(); !slices.Equal(got, failed) {
		t.Errorf("copied of a write: %q", got)
	}
	if n := query[int](t, s, "SELECT cycles FROM actlog.agent_execution_record"); n != 100 {
		t.Errorf("%d cycles", n)
	}

	spans := run(t, traceID(1))
	replace(t, s, spans[:len(spans)-2]...)
	stopClock()
	replace(t, other, spans...)
	if got := copies.taken(); !slices.Equal(got, failed) {
		t.Errorf("copied of a trace: %q", got)
	}
	if diff := cmp.Diff(keys(otlp.Project(spans)), onRecord(t, pg.Pool, traceID(1))); diff != "" {
		t.Errorf("(-projected +on record):\n%s", diff)
	}
}

// TestWhatIsNotCopiedIsOneTransactionOfOneTrip, however much it is.
func TestWhatIsNotCopiedIsOneTransactionOfOneTrip(t *testing.T) {
	t.Parallel()
	var sent statements
	s := open(t, traced(&sent))
	var beats, cycles []record.Change
	for i := range 100 {
		root := fmt.Sprint("r", i)
		beats = append(beats, &record.Plan{RootPlanID: root, CurrentPlanID: root, LastSeenAt: at(i)})
		cycles = append(cycles, &record.ThinkAct{RootPlanID: "r0", StepID: "s", Seq: int64(i), ThinkOutput: new("x")})
	}
	for _, told := range [][]record.Change{beats, cycles} { // the cycles are of a tree that is known by then
		if n := sent.count(func() { write(t, s, told...) }); n > 0 {
			t.Errorf("%d statements beside the batch", n)
		}
	}
}

// copyTracer notes what is copied, by table.
type copyTracer struct {
	mu     sync.Mutex
	copied []string
}

func (c *copyTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (c *copyTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (c *copyTracer) TraceCopyFromStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceCopyFromStartData) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.copied = append(c.copied, data.TableName[1])
	return ctx
}

func (c *copyTracer) TraceCopyFromEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceCopyFromEndData) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.copied = append(c.copied, data.CommandTag.String())
}

// taken gives what was noted since the last time.
func (c *copyTracer) taken() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	copied := c.copied
	c.copied = nil
	return copied
}
