package recorder_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/record"
	"github.com/actlog/actlog/recorder"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(asAgent); url != "" {
		if err := runAgent(url); err != nil {
			fmt.Println(err)
		}
		return
	}
	pgtest.Main(m) // also finds leaked goroutines
}

// memory is a Sink that merges changes into rows as the store does.
type memory struct {
	mu     sync.Mutex
	rows   map[record.Key]*field.Row
	writes [][]record.Change
	fail   error // of the next writes, which write nothing
}

func (m *memory) Write(ctx context.Context, changes []record.Change) (record.Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return record.Result{}, err
	}
	if m.fail != nil {
		return record.Result{}, m.fail
	}

	m.writes = append(m.writes, slices.Clone(changes))
	var result record.Result
	for i, c := range changes {
		row, err := field.NewRow(c)
		if err != nil {
			result.Rejected = append(result.Rejected, record.Rejection{Index: i, Err: err.(*record.InvalidError)})
			continue
		}

		result.Accepted++
		if old, ok := m.rows[c.Key()]; ok {
			old.Learn(row)
		} else {
			m.rows[c.Key()] = row
		}
	}
	return result, nil
}

func (m *memory) setFail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = err
}

func (m *memory) writeCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.writes)
}

// all returns the rows of a kind as they are on record now, ordered by key.
func all[T any](m *memory, kind record.Kind) []*T {
	m.mu.Lock()
	defer m.mu.Unlock()

	var keys []record.Key
	for k := range m.rows {
		if k.Kind == kind {
			keys = append(keys, k)
		}
	}

	slices.SortFunc(keys, record.Key.Compare)
	var out []*T
	for _, k := range keys {
		c := *any(m.rows[k].Change).(*T)
		out = append(out, &c)
	}
	return out
}

func one[T any](t *testing.T, m *memory, kind record.Kind, match func(*T) bool) *T {
	t.Helper()
	var found []*T
	for _, c := range all[T](m, kind) {
		if match(c) {
			found = append(found, c)
		}
	}

	if len(found) != 1 {
		t.Fatalf("%d rows of kind %s match, want 1", len(found), kind)
	}
	return found[0]
}

func (m *memory) plan(t *testing.T, id string) *record.Plan {
	t.Helper()
	return one(t, m, record.KindPlan, func(p *record.Plan) bool { return p.CurrentPlanID == id })
}

func (m *memory) step(t *testing.T, id string) *record.AgentExecution {
	t.Helper()
	return one(t, m, record.KindAgentExecution, func(a *record.AgentExecution) bool { return a.StepID == id })
}

func (m *memory) cycle(t *testing.T, stepID string, seq int64) *record.ThinkAct {
	t.Helper()
	return one(t, m, record.KindThinkAct, func(c *record.ThinkAct) bool { return c.StepID == stepID && c.Seq == seq })
}

func (m *memory) tool(t *testing.T, id string) *record.ActTool {
	t.Helper()
	return one(t, m, record.KindActTool, func(c *record.ActTool) bool { return c.ToolCallID == id })
}

// clock advances by a millisecond each time it is read, so that no two times are equal.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Millisecond)
	return c.now
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

type bundle struct {
	*recorder.Recorder
	sink  *memory
	clock *clock
}

func setup(t *testing.T, options ...func(*recorder.Options)) *bundle {
	t.Helper()
	b := &bundle{sink: &memory{rows: map[record.Key]*field.Row{}}, clock: &clock{now: noon}}
	o := recorder.Options{Clock: b.clock.read}
	for _, set := range options {
		set(&o)
	}
	b.Recorder = recorder.New(b.sink, o)
	return b
}

// run is a plan with a step, a cycle and a tool call, all of them running.
type run struct {
	*bundle
	planCtx, stepCtx, toolCtx context.Context
	plan                      *recorder.Plan
	step                      *recorder.Step
	cycle                     *recorder.Cycle
	call                      *recorder.ToolCall
}

func startRun(t *testing.T, b *bundle, planned ...recorder.StepInfo) *run {
	t.Helper()
	r := &run{bundle: b}
	var err error
	r.planCtx, r.plan, err = b.StartPlan(t.Context(), recorder.PlanInfo{Title: "a run", Steps: planned})
	ok(t, err)

	r.stepCtx, r.step, err = r.plan.StartStep(r.planCtx, recorder.StepInfo{AgentName: "reader"})
	ok(t, err)
	r.cycle, err = r.step.StartCycle(r.stepCtx, recorder.CycleInfo{ThinkInput: "what now?"})
	ok(t, err)
	r.toolCtx, r.call, err = r.cycle.StartTool(r.stepCtx, recorder.ToolInfo{Name: "look"})
	ok(t, err)
	return r
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// want compares a field that is on record.
func want[T comparable](t *testing.T, what string, got *T, want T) {
	t.Helper()
	switch {
	case got == nil:
		t.Errorf("%s is not recorded, want %v", what, want)
	case *got != want:
		t.Errorf("%s is %v, want %v", what, *got, want)
	}
}

func unreported[T any](t *testing.T, what string, got *T) {
	t.Helper()
	if got != nil {
		t.Errorf("%s is %v, want none", what, *got)
	}
}
