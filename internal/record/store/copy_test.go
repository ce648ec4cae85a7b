package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/internal/trace/otlp"
	"github.com/actlog/actlog/record"
)

// TestNewTreesAreCopied checks that the detail of a new tree is copied, and that the detail of a
// known tree is merged.
func TestNewTreesAreCopied(t *testing.T) {
	t.Parallel()
	var copies copyTracer
	s := store.CopyNew(storetest.Open(t, withTracer(&copies)))
	oneCall := []string{"content", "COPY 1", "think_act_record", "COPY 1", "act_tool_info", "COPY 1"}
	call := func(root, id string) []record.Change {
		return []record.Change{
			&record.ThinkAct{RootPlanID: root, StepID: root + "-s", Seq: 0, ThinkInput: new("asked"), CostUSD: new(0.1)},
			&record.ActTool{
				RootPlanID: root, StepID: root + "-s", Seq: 0, ToolCallID: id, Name: new("n"),
				Metadata: json.RawMessage(`{"a":1}`), State: new(record.Failed),
			},
		}
	}

	storetest.Write(t, s, call("known", "a")...)
	if got := copies.take(); !slices.Equal(got, oneCall) {
		t.Errorf("copies of a new tree: %q", got)
	}
	storetest.Write(t, s, append(call("known", "b"), call("new", "c")...)...)
	if got := copies.take(); !slices.Equal(got, oneCall) {
		t.Errorf("copies of a new tree beside a known one: %q", got)
	}

	for root, calls := range map[string]int64{"known": 2, "new": 1} {
		if f := storetest.PlanTree(t, s, root).Figures; f.ToolCalls != calls || f.Failures != calls || f.ModelCalls != 1 ||
			*f.CostUSD != 0.1 {
			t.Errorf("%s: %+v", root, f)
		}
	}
}

// TestFailedCopyIsMerged checks that a batch is merged if Postgres cannot copy it. Only the
// value that does not fit its column is refused.
func TestFailedCopyIsMerged(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	storetest.Exec(t, s, "DROP SCHEMA report CASCADE")
	storetest.Exec(t, s, "ALTER TABLE actlog.act_tool_info ALTER call_index TYPE smallint")

	var changes []record.Change
	for i := range 100 {
		changes = append(changes, &record.ActTool{
			RootPlanID: fmt.Sprint("r", i/10), StepID: "s", Seq: 1, ToolCallID: fmt.Sprint(i), CallIndex: new(int64(i)),
		})
	}
	changes[55].(*record.ActTool).CallIndex = new(int64(40_000))

	result, err := s.Write(t.Context(), changes)
	if err != nil {
		t.Fatal(err)
	}
	if result.Accepted != 99 || !slices.Equal(refused(result), []int{55}) {
		t.Errorf("result = %+v", result)
	}
}

// TestTreeThatOnlySeemsNew checks a tree that another transaction made at the same moment. It
// seems new, so the copy fails; then its rows are merged. A schema with a clock that stands still
// makes the moments equal.
func TestTreeThatOnlySeemsNew(t *testing.T) {
	t.Parallel()
	pg := pgtest.New(t)
	s := storetest.OpenURL(t, pg.URL, takeTraces)
	storetest.Exec(t, s, "CREATE SCHEMA standing")
	storetest.Exec(t, s, "CREATE FUNCTION standing.now() RETURNS timestamptz LANGUAGE sql STABLE AS $$ SELECT "+
		"timestamptz '2020-01-01 00:00Z' $$")

	setFirstSeen := func() {
		storetest.Exec(t, s, "UPDATE actlog.plan_execution_record SET first_seen_at = '2020-01-01 00:00Z'")
	}
	var copies copyTracer
	other := store.CopyNew(storetest.OpenURL(t, withParam(t, pg.URL, "search_path", "standing,pg_catalog"), takeTraces,
		withTracer(&copies)))
	// No rows were copied.
	failed, failedTrace := []string{"think_act_record", ""}, []string{"content", ""}

	var cycles []record.Change
	for seq := range int64(100) {
		cycles = append(cycles, &record.ThinkAct{RootPlanID: "r", StepID: "s", Seq: seq, ThinkOutput: new("x")})
	}

	storetest.Write(t, s, cycles...)
	setFirstSeen()
	storetest.Write(t, other, cycles...)
	if got := copies.take(); !slices.Equal(got, failed) {
		t.Errorf("copies of a write: %q", got)
	}
	if n := storetest.Query[int](t, s, "SELECT cycles FROM actlog.agent_execution_record"); n != 100 {
		t.Errorf("%d cycles", n)
	}

	spans := agentTrace(t, traceID(1))
	writeSpans(t, s, spans[:len(spans)-2]...)
	setFirstSeen()
	writeSpans(t, other, spans...)
	if got := copies.take(); !slices.Equal(got, failedTrace) {
		t.Errorf("copies of a trace: %q", got)
	}
	if diff := cmp.Diff(storetest.RowKeys(otlp.Project(spans)), storetest.StoredKeys(t, s, traceID(1))); diff != "" {
		t.Errorf("rows (-projected +on record):\n%s", diff)
	}
}

// TestSeveralWrongGuesses checks writes that assume two things which are both wrong: that a tree is new,
// and that what this server wrote to another is still on record. Each is given up in turn.
func TestSeveralWrongGuesses(t *testing.T) {
	t.Parallel()
	pg := pgtest.New(t)
	s := storetest.OpenURL(t, pg.URL, takeTraces)
	storetest.Exec(t, s, "CREATE SCHEMA standing")
	storetest.Exec(t, s, "CREATE FUNCTION standing.now() RETURNS timestamptz LANGUAGE sql STABLE AS $$ SELECT "+
		"timestamptz '2020-01-01 00:00Z' $$")

	var copies copyTracer
	other := store.CopyNew(storetest.OpenURL(t, withParam(t, pg.URL, "search_path", "standing,pg_catalog"), takeTraces,
		withTracer(&copies)))
	// again makes a tree seem new to other, and another one lose what other remembers of it.
	again := func(seemsNew, lost string, write func(root string)) {
		t.Helper()
		write(seemsNew)
		storetest.Exec(t, s, "UPDATE actlog.plan_execution_record SET first_seen_at = '2020-01-01 00:00Z' WHERE "+
			"root_plan_id = $1", seemsNew)
		if err := s.DeletePlan(t.Context(), lost); err != nil {
			t.Fatal(err)
		}
		storetest.Write(t, s, &record.Plan{RootPlanID: lost, CurrentPlanID: lost, Title: new("again")})
		copies.take()
	}

	copyFailed := func() {
		t.Helper()
		if got := copies.take(); len(got) == 0 || got[len(got)-1] != "" {
			t.Errorf("copies: %q", got)
		}
	}

	asked := func(root string) []record.Change {
		return []record.Change{
			&record.ThinkAct{RootPlanID: root, StepID: root + "-s", ThinkInput: new("asked"), ThinkOutput: new("x")},
			&record.ThinkAct{RootPlanID: root, StepID: root + "-s", Seq: 1, ThinkInput: new("asked"), ThinkOutput: new("y")},
		}
	}
	storetest.Write(t, other, asked("lost")...)
	again("seems-new", "lost", func(root string) { storetest.Write(t, s, asked(root)...) })
	storetest.Write(t, other, append(asked("seems-new"), asked("lost")...)...)
	copyFailed()

	for _, root := range []string{"seems-new", "lost"} {
		if n := len(storetest.StoredKeys(t, s, root)); n != 4 {
			t.Errorf("%s has %d rows", root, n)
		}
	}

	first, second := agentTrace(t, traceID(1)), agentTrace(t, traceID(2))
	writeSpans(t, other, second...)
	again(traceID(1), traceID(2), func(string) { writeSpans(t, s, first...) })
	writeSpans(t, other, append(first, second...)...)
	copyFailed()

	for i, spans := range [][]otlp.Span{first, second} {
		if diff := cmp.Diff(storetest.RowKeys(otlp.Project(spans)), storetest.StoredKeys(t, s, traceID(i+1))); diff != "" {
			t.Errorf("rows of trace %d (-projected +on record):\n%s", i+1, diff)
		}
	}
	checkNothingDamaged(t, s)
}

// TestMergeIsOneRoundTrip checks that a batch without copies is one transaction that is sent at
// once, of any size.
func TestMergeIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	var sent statementCounter
	s := storetest.Open(t, withTracer(&sent))
	var beats, cycles []record.Change
	for i := range 100 {
		root := fmt.Sprint("r", i)
		beats = append(beats, &record.Plan{RootPlanID: root, CurrentPlanID: root, LastSeenAt: at(i)})
		cycles = append(cycles, &record.ThinkAct{RootPlanID: "r0", StepID: "s", Seq: int64(i), ThinkOutput: new("x")})
	}

	for _, changes := range [][]record.Change{beats, cycles} { // after the beats the tree of the cycles is known
		if n := sent.count(func() { storetest.Write(t, s, changes...) }); n > 0 {
			t.Errorf("%d statements beside the batch", n)
		}
	}
}

// copyTracer keeps the table and the result of each COPY.
type copyTracer struct {
	mu     sync.Mutex
	copied []string
}

func (c *copyTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (c *copyTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (c *copyTracer) TraceCopyFromStart(
	ctx context.Context, _ *pgx.Conn, data pgx.TraceCopyFromStartData,
) context.Context {
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

// take returns what was copied since the last call.
func (c *copyTracer) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	copied := c.copied
	c.copied = nil
	return copied
}
