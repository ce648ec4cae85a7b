package recorder_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/record"
	"github.com/actlog/actlog/recorder"
)

func newMemory() *memory { return &memory{rows: map[record.Key]*field.Row{}} }

// sizes are the numbers of changes of the writes so far.
func (m *memory) sizes() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []int
	for _, w := range m.writes {
		out = append(out, len(w))
	}
	return out
}

// content is the value of each artifact on record.
func (m *memory) content() map[record.Key]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[record.Key]string{}
	for k, r := range m.rows {
		a := r.Change.(*record.Artifact)
		out[k] = string(a.Value)
	}
	return out
}

// artifact makes a change. Those with the same name are about the same row.
func artifact(name string, rev int64) record.Change {
	return &record.Artifact{RootPlanID: "p", PlanID: "p", Name: name, Rev: &rev, Value: fmt.Appendf(nil, "%d", rev)}
}

func artifacts(n int) (out []record.Change) {
	for i := range n {
		out = append(out, artifact(fmt.Sprint("a", i), 1))
	}
	return out
}

// gated is a Sink whose writes wait until the gate opens.
type gated struct {
	*memory
	gate chan struct{}
}

func (g *gated) Write(ctx context.Context, changes []record.Change) (record.Result, error) {
	select {
	case <-g.gate:
	case <-ctx.Done():
		return record.Result{}, ctx.Err()
	}
	return g.memory.Write(ctx, changes)
}

func write(t *testing.T, sink recorder.Sink, changes ...record.Change) {
	t.Helper()
	result, err := sink.Write(t.Context(), changes)
	if err != nil || result.Accepted != len(changes) || len(result.Rejected) > 0 {
		t.Fatalf("Write returned %+v, %v", result, err)
	}
}

func closeNow(t *testing.T, b *recorder.Buffer) {
	t.Helper()
	if err := b.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// A batch is sent when it is large enough in records or bytes, or old enough.
func TestBatches(t *testing.T) {
	t.Parallel()

	tests := []struct {
		name    string
		options recorder.BufferOptions
		writes  []int // sizes, a millisecond apart
		wait    time.Duration
		batches []int
	}{
		{
			"by time", recorder.BufferOptions{FlushEvery: 50 * time.Millisecond}, []int{1, 2, 3}, 49 * time.Millisecond,
			[]int{6},
		},
		{"not yet", recorder.BufferOptions{FlushEvery: 50 * time.Millisecond}, []int{1, 2, 3}, 40 * time.Millisecond, nil},
		{"by count", recorder.BufferOptions{FlushEvery: time.Hour, BatchRecords: 4}, []int{3, 6, 1}, 0, []int{4, 4}},
		{"by bytes", recorder.BufferOptions{FlushEvery: time.Hour, BatchBytes: 1100}, []int{1, 1, 1, 1, 1}, 0, []int{2, 2}},
		{
			"one that is larger than a batch", recorder.BufferOptions{FlushEvery: time.Hour, BatchBytes: 10}, []int{2}, 0,
			[]int{1, 1},
		},
	}

	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				sink := newMemory()
				b := recorder.NewBuffer(sink, test.options)
				for _, n := range test.writes {
					write(t, b, artifacts(n)...)
					time.Sleep(time.Millisecond)
				}

				time.Sleep(test.wait)
				synctest.Wait()
				if diff := cmp.Diff(test.batches, sink.sizes()); diff != "" {
					t.Errorf("sink.sizes() (-want +got):\n%s", diff)
				}
				closeNow(t, b)
			})
		})
	}
}

// A full Buffer makes Write wait; what waits is bounded, and nothing is dropped.
func TestBackPressure(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 10_000)
	large := func(name string) record.Change {
		return &record.Source{RootPlanID: "p", PlanID: "p", SourceID: name, Snippet: &text}
	}

	tests := []struct {
		name    string
		options recorder.BufferOptions
		change  func(string) record.Change
		fits    int
	}{
		{"records", recorder.BufferOptions{MaxRecords: 7}, func(name string) record.Change { return artifact(name, 1) }, 7},
		{"bytes", recorder.BufferOptions{MaxBytes: 50_000}, large, 5},
	}

	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				sink := &gated{newMemory(), make(chan struct{})}
				b := recorder.NewBuffer(sink, test.options)
				var returned atomic.Int64
				var wg sync.WaitGroup
				for i := range 20 {
					wg.Go(func() {
						write(t, b, test.change(fmt.Sprint(i)))
						returned.Add(1)
					})
				}

				synctest.Wait()
				time.Sleep(time.Hour) // however long the sink takes, the batch under way counts
				if n := int(returned.Load()); n != test.fits || b.Pending() != n {
					t.Errorf("%d writes have returned and %d records wait, want %d", n, b.Pending(), test.fits)
				}

				// A call waits no longer than its context.
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := b.Write(ctx, []record.Change{test.change("given up")}); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("b.Write = %v", err)
				}

				close(sink.gate)
				wg.Wait()
				closeNow(t, b)
				if n := len(sink.rows); n != 20 {
					t.Errorf("%d rows are on record, want 20", n)
				}
			})
		})
	}
}

func TestMaxWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := &gated{newMemory(), make(chan struct{})}
		b := recorder.NewBuffer(sink, recorder.BufferOptions{MaxRecords: 1, MaxWait: 3 * time.Second})
		write(t, b, artifact("a", 1))

		start := time.Now()
		if _, err := b.Write(t.Context(), artifacts(2)); !errors.Is(err, record.ErrUnavailable) {
			t.Errorf("b.Write(artifacts(2)) = %v", err)
		}
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("waited for %s", d)
		}
		close(sink.gate)
		closeNow(t, b)
	})
}

// An agent goes on while the record is away, and everything is on record when it is back.
func TestAwayAndBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := newMemory()
		sink.setFail(record.ErrUnavailable)
		b := recorder.NewBuffer(sink, recorder.BufferOptions{})
		rec := recorder.New(b, recorder.Options{})

		ctx, plan, err := rec.StartPlan(t.Context(), recorder.PlanInfo{ID: "p"})
		ok(t, err)
		_, step, err := plan.StartStep(ctx, recorder.StepInfo{ID: "s"})
		ok(t, err)
		time.Sleep(24 * time.Hour)
		ok(t, errors.Join(step.End(ctx, recorder.StepResult{Result: "done"}), plan.End(ctx, recorder.PlanResult{})))

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = b.Flush(ctx)
		var unwritten *recorder.UnwrittenError
		if !errors.As(err, &unwritten) || unwritten.Waiting != 4 || !errors.Is(err, record.ErrUnavailable) ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Flush returned %v", err)
		}

		sink.setFail(nil)
		time.Sleep(time.Minute) // without a Flush, too
		synctest.Wait()
		if b.Pending() != 0 || sink.writeCount() != 2 {
			t.Errorf("%d wait, %d writes", b.Pending(), sink.writeCount())
		}

		want(t, "state", sink.plan(t, "p").State, record.Completed)
		want(t, "result", sink.step(t, "s").Result, "done")
		ok(t, b.Flush(t.Context()))
		closeNow(t, b)
	})
}

// What is refused is reported once to OnReject, and once by the next Flush or Close.
func TestRejections(t *testing.T) {
	t.Parallel()
	sink := newMemory()
	var rejected []string
	b := recorder.NewBuffer(sink,
		recorder.BufferOptions{FlushEvery: time.Hour, OnReject: func(c record.Change, err *record.InvalidError) {
			rejected = append(rejected, c.Key().ID+" "+err.Field)
		}})
	bad := func(name string) record.Change {
		return &record.Artifact{RootPlanID: "p", PlanID: "p", Name: name, Value: []byte("{")}
	}

	write(t, b, artifact("good", 1), bad("bad"), artifact("fine", 1))
	err := b.Flush(t.Context())
	var unwritten *recorder.UnwrittenError
	var invalid *record.InvalidError
	if !errors.As(err, &unwritten) || unwritten.Rejected != 1 || unwritten.Waiting != 0 || !errors.As(err, &invalid) ||
		invalid.Field != "value" {
		t.Fatalf("Flush returned %v", err)
	}

	want := "not on record: 1 records were refused; artifact bad: invalid_value: value must be valid JSON"
	if err.Error() != want {
		t.Errorf("Flush said %q, want %q", err, want)
	}
	if !slices.Equal(rejected, []string{"bad value"}) || len(sink.rows) != 2 {
		t.Errorf("rejected %q, %d rows", rejected, len(sink.rows))
	}

	ok(t, b.Flush(t.Context()))
	for i := range 30 {
		write(t, b, bad(fmt.Sprint(i)))
	}
	err = b.Close(t.Context())
	if !errors.As(err, &unwritten) || unwritten.Rejected != 30 || len(unwritten.Causes) != 10 {
		t.Errorf("Close returned %v", err)
	}
}

// Close returns when its context ends, says what is left, and ends every Write that waits.
func TestCloseOfAFullBuffer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := &gated{newMemory(), make(chan struct{})}
		b := recorder.NewBuffer(sink, recorder.BufferOptions{MaxRecords: 3})
		write(t, b, artifacts(3)...)

		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if _, err := b.Write(t.Context(), artifacts(1)); !errors.Is(err, record.ErrClosed) {
					t.Errorf("Write returned %v", err)
				}
			})
		}

		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range 2 { // called again it returns the same
			var unwritten *recorder.UnwrittenError
			if err := b.Close(ctx); !errors.As(err, &unwritten) || unwritten.Waiting != 3 ||
				!errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Close returned %v", err)
			}
		}

		wg.Wait()
		if _, err := b.Write(t.Context(), artifacts(1)); !errors.Is(err, record.ErrClosed) {
			t.Errorf("Write returned %v", err)
		}
		if err := b.Flush(t.Context()); !errors.Is(err, record.ErrClosed) {
			t.Errorf("Flush returned %v", err)
		}
	})
}

// A failure that waiting does not fix ends a Flush at once.
func TestFlushOfARefusal(t *testing.T) {
	t.Parallel()
	sink := newMemory()
	sink.setFail(record.ErrClosed)
	b := recorder.NewBuffer(sink, recorder.BufferOptions{})
	write(t, b, artifacts(2)...)

	var unwritten *recorder.UnwrittenError
	if err := b.Flush(t.Context()); !errors.Is(err, record.ErrClosed) || !errors.As(err, &unwritten) ||
		unwritten.Waiting != 2 {
		t.Errorf("Flush returned %v", err)
	}

	sink.setFail(nil)
	closeNow(t, b)
	if len(sink.rows) != 2 {
		t.Errorf("%d rows", len(sink.rows))
	}
}

// faulty is a Sink that fails at random, also after it has written.
type faulty struct {
	*memory
	mu     sync.Mutex
	random *rand.Rand
}

func (f *faulty) Write(ctx context.Context, changes []record.Change) (record.Result, error) {
	f.mu.Lock()
	chance := f.random.IntN(4)
	f.mu.Unlock()

	switch chance {
	case 0:
		return record.Result{}, record.ErrUnavailable
	case 1:
		if _, err := f.memory.Write(ctx, changes[:len(changes)/2]); err != nil {
			return record.Result{}, err
		}
		return record.Result{}, errors.New("connection lost")
	}
	return f.memory.Write(ctx, changes)
}

// Whatever the faults and however many the writers, the record at the end is what was written, and
// the changes of each writer came in its order.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	const writers, each = 8, 200
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				sink := &faulty{memory: newMemory(), random: rand.New(rand.NewPCG(seed, 0))}
				b := recorder.NewBuffer(sink, recorder.BufferOptions{
					MaxRecords: 50, BatchRecords: 20, FlushEvery: time.Millisecond,
				})

				written := map[record.Key]string{}
				var mu sync.Mutex
				var wg sync.WaitGroup
				for w := range writers {
					wg.Go(func() {
						for i := range each {
							rev := int64(i + 1)
							changes := []record.Change{artifact(fmt.Sprintf("%d/%d", w, i), rev), artifact(fmt.Sprint("shared by ", w), rev)}
							write(t, b, changes...)

							mu.Lock()
							for _, c := range changes {
								written[c.Key()] = fmt.Sprint(rev)
							}
							mu.Unlock()

							if i%50 == 0 {
								_ = b.Flush(t.Context()) // it may fail with a lost connection
							}
						}
					})
				}

				wg.Wait()
				for b.Pending() > 0 {
					_ = b.Flush(t.Context())
				}
				closeNow(t, b)
				if diff := cmp.Diff(written, sink.content()); diff != "" {
					t.Errorf("sink.content() (-want +got):\n%s", diff)
				}

				newest := map[record.Key]int64{}
				firstSeen := map[record.Change]bool{}
				for _, batch := range sink.writes {
					for _, c := range batch {
						if firstSeen[c] {
							continue // sent again
						}
						firstSeen[c] = true
						if rev := *c.Revision(); rev <= newest[c.Key()] {
							t.Fatalf("%v: revision %d came after %d", c.Key(), rev, newest[c.Key()])
						} else {
							newest[c.Key()] = rev
						}
					}
				}
			})
		})
	}
}

// What the agent does to its values after a call does not change what is queued.
func TestQueuedValuesAreCopies(t *testing.T) {
	t.Parallel()
	sink := newMemory()
	b := recorder.NewBuffer(sink, recorder.BufferOptions{FlushEvery: time.Hour})
	rec := recorder.New(b, recorder.Options{})
	tags, operations := []string{"x"}, []string{"read"}
	raw, cost := []byte(`{"a":1}`), 0.5

	ctx, plan, err := rec.StartPlan(t.Context(), recorder.PlanInfo{ID: "p", Tags: tags})
	ok(t, err)
	ok(t, plan.Thought(ctx, recorder.ThoughtInfo{ID: "t", RelatedOperations: operations, Confidence: &cost}))
	ok(t, plan.Artifact(ctx, recorder.ArtifactInfo{Name: "n", Value: json.RawMessage(raw)}))

	ctx, step, err := plan.StartStep(ctx, recorder.StepInfo{ID: "s"})
	ok(t, err)
	cycle, err := step.StartCycle(ctx, recorder.CycleInfo{})
	ok(t, err)
	ok(t, cycle.EndThink(ctx, recorder.ThinkResult{CostUSD: &cost}))

	tags[0], operations[0] = "y", "write"
	cost = 9
	copy(raw, `{"b":2}`)
	closeNow(t, b)

	thought := one(t, sink, record.KindThought, func(*record.Thought) bool { return true })
	value := one(t, sink, record.KindArtifact, func(*record.Artifact) bool { return true }).Value
	if tag := sink.plan(t, "p").Tags[0]; tag != "x" || thought.RelatedOperations[0] != "read" ||
		string(value) != `{"a":1}` {
		t.Errorf("tag = %s, %s, %s", tag, thought.RelatedOperations[0], value)
	}
	want(t, "confidence", thought.Confidence, 0.5)
	want(t, "costUsd", sink.cycle(t, "s", 0).CostUSD, 0.5)
}
