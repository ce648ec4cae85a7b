package live_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/door/live"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// reads counts the statements that read rows of tool calls.
type reads struct{ n atomic.Int64 }

// TraceQueryStart implements [pgx.QueryTracer].
func (*reads) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (*reads) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements [pgx.BatchTracer].
func (*reads) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

// TraceBatchQuery implements [pgx.BatchTracer].
func (r *reads) TraceBatchQuery(_ context.Context, _ *pgx.Conn, q pgx.TraceBatchQueryData) {
	if strings.Contains(q.SQL, "FROM actlog.act_tool_info AS t") {
		r.n.Add(1)
	}
}

// TraceBatchEnd implements [pgx.BatchTracer].
func (*reads) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// lister is an encoder that lists the keys of rows, and counts plans.
type lister struct {
	prefix  string        // of each line
	encoded *atomic.Int64 // counts the events; may be nil
}

func (l lister) Rows(_ string, rows []store.Row) ([]byte, error) {
	if l.encoded != nil {
		l.encoded.Add(1)
	}
	var keys []string
	for _, r := range rows {
		keys = append(keys, l.prefix+fmt.Sprint(r.Record.Key()))
	}
	return []byte(strings.Join(keys, "\n")), nil
}

func (lister) Plans(plans []live.Plan) ([]byte, error) { return fmt.Append(nil, len(plans)), nil }

func open(t *testing.T, tracer pgx.QueryTracer) (*store.Store, *live.Hub) {
	t.Helper()
	s := storetest.Open(t, func(c *store.Config) { c.Tracer = tracer })
	hub := live.New(s, s.Feed(), s.Deltas(), storetest.Logger(t), 1_000)
	t.Cleanup(hub.Close)
	return s, hub
}

func plan(id string, state record.State) *record.Plan {
	return &record.Plan{RootPlanID: id, CurrentPlanID: id, State: &state}
}

// until reads a stream until an event has a text in its data.
func until(t *testing.T, s *live.Stream, text string) {
	t.Helper()
	for {
		e, err := s.Next(t.Context(), time.Hour)
		if err != nil {
			t.Errorf("before %q: %v", text, err)
			return
		}
		if strings.Contains(string(e.Data), text) {
			return
		}
	}
}

// idle reads until a stream has caught up and nothing happens.
func idle(t *testing.T, s *live.Stream) {
	t.Helper()
	for {
		e, err := s.Next(t.Context(), 50*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == "" && e.ID != "" {
			return
		}
	}
}

// TestOneReadForAll: a change is read once for all streams of its plan, and encoded once for
// each encoder. A plan without streams is not read.
func TestOneReadForAll(t *testing.T) {
	t.Parallel()
	var r reads
	s, hub := open(t, &r)
	storetest.Write(t, s, plan("p", record.Running), plan("q", record.Running))
	var encoded atomic.Int64
	encoders := []lister{{"- ", &encoded}, {"* ", &encoded}}

	streams := make([]*live.Stream, 20)
	for i := range streams {
		st, err := hub.Open(t.Context(), "", "p", "", encoders[i%2], nil)
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		streams[i] = st
		idle(t, st)
	}

	readBefore, encodedBefore := r.n.Load(), encoded.Load()
	const calls = 5
	for i := range calls {
		for _, root := range []string{"p", "q"} {
			storetest.Write(t, s, &record.ActTool{
				RootPlanID: root, StepID: root + "-step", Seq: 0, ToolCallID: fmt.Sprint("call", i),
			})
		}
		var all sync.WaitGroup
		for j, st := range streams {
			key := (&record.ActTool{RootPlanID: "p", StepID: "p-step", ToolCallID: fmt.Sprint("call", i)}).Key()
			all.Go(func() { until(t, st, encoders[j%2].prefix+fmt.Sprint(key)) })
		}
		all.Wait()
	}

	if n := r.n.Load() - readBefore; n != calls {
		t.Errorf("%d reads for %d changes", n, calls)
	}
	if n := encoded.Load() - encodedBefore; n != 2*calls {
		t.Errorf("%d events encoded for %d changes and 2 encoders", n, calls)
	}
	if st := hub.Stats(); st.Streams != 20 || st.Events < 20*calls || st.Cut != 0 {
		t.Errorf("st = %+v", st)
	}
}

// slowStore is a store whose trees can only be read once the channel is closed.
type slowStore struct {
	*store.Store
	readable <-chan struct{}
}

func (s slowStore) Rows(ctx context.Context, rootPlanID string, f *store.RowFilter) ([]store.Row, error) {
	select {
	case <-s.readable:
		return s.Store.Rows(ctx, rootPlanID, f)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// slowEncoder is an encoder that encodes rows only once the channel is closed.
type slowEncoder struct {
	lister
	ready <-chan struct{}
}

func (e slowEncoder) Rows(string, []store.Row) ([]byte, error) {
	<-e.ready
	return []byte("rows"), nil
}

// TestAlive: a stream reports that it is alive while a read or its encoding takes long. It can
// be ended and closed meanwhile.
func TestAlive(t *testing.T) {
	t.Parallel()
	for _, slow := range []string{"reading", "encoding"} {
		t.Run(slow, func(t *testing.T) {
			t.Parallel()
			s, _ := open(t, nil)
			storetest.Write(t, s, plan("p", record.Running))

			readable, ready := make(chan struct{}), make(chan struct{})
			start := readable
			if slow == "encoding" {
				start = ready
				close(readable)
			} else {
				close(ready)
			}

			hub := live.New(slowStore{s, readable}, s.Feed(), s.Deltas(), storetest.Logger(t), 10)
			t.Cleanup(hub.Close)
			var streams []*live.Stream
			for range 6 { // more than may read at the same time
				st, err := hub.Open(t.Context(), "", "p", "", slowEncoder{ready: ready}, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer st.Close()
				for range 2 {
					if e, err := st.Next(t.Context(), time.Millisecond); err != nil || e.Type != "" || e.ID != "" {
						t.Fatalf("st.Next(time.Millisecond) = %+v, %v", e, err)
					}
				}
				streams = append(streams, st)
			}

			if slow == "reading" {
				streams[5].Close() // before it has read anything
			}
			close(start)
			for _, st := range streams[:5] {
				until(t, st, "rows")
			}
		})
	}
}

func TestEnds(t *testing.T) {
	t.Parallel()
	s, hub := open(t, nil)
	storetest.Write(t, s, plan("p", record.Running), plan("over", record.Failed))
	st, err := hub.Open(t.Context(), "", "over", "", lister{}, nil)
	if err != nil {
		t.Fatal(err)
	}

	var types []string
	for {
		var e live.Event
		if e, err = st.Next(t.Context(), time.Hour); err != nil {
			break
		}
		types = append(types, e.Type)
	}

	st.Close()
	st.Close() // does no harm
	if got := strings.Join(types, " "); got != "rows done" || !errors.Is(err, io.EOF) {
		t.Errorf("%s, then %v", got, err)
	}

	st, err = hub.Open(t.Context(), "", "p", "", lister{}, nil)
	if err != nil {
		t.Fatal(err)
	}

	idle(t, st)
	hub.End()
	if _, err := st.Next(t.Context(), time.Hour); !errors.Is(err, live.ErrCut) {
		t.Errorf("cut: %v", err)
	}
	st.Close()

	last, err := hub.Open(t.Context(), "", "", "", lister{}, nil)
	if err != nil {
		t.Fatal(err)
	}

	idle(t, last)
	hub.Close()
	if _, err := last.Next(t.Context(), time.Hour); !errors.Is(err, record.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	last.Close()

	if _, err := hub.Open(t.Context(), "", "p", "", lister{}, nil); !errors.Is(err, record.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// littleRoom has room for one stream that catches up.
type littleRoom struct{ held, most *atomic.Int64 }

func (r littleRoom) Take(bytes int64) error {
	if r.held.Load()+bytes > 2<<20 {
		return errors.New("no room")
	}
	r.held.Add(bytes)
	r.most.Store(max(r.most.Load(), r.held.Load()))
	return nil
}

func (r littleRoom) Release() { r.held.Store(0) }

// TestCatchingUpTakesRoom: N14: what a stream reads for itself is counted until its client has
// received it, and a stream without room waits.
func TestCatchingUpTakesRoom(t *testing.T) {
	t.Parallel()
	s, hub := open(t, nil)
	storetest.Write(t, s, plan("p", record.Running))
	room := littleRoom{new(atomic.Int64), new(atomic.Int64)}
	st, err := hub.Open(t.Context(), "", "p", "", lister{}, room)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()

	room.held.Store(2 << 20) // of others
	if e, err := st.Next(t.Context(), 0); err != nil || e.Type != "" {
		t.Fatalf("st.Next(0) = %+v, %v", e, err)
	}

	room.held.Store(0)
	until(t, st, "plan")
	idle(t, st)
	if most, held := room.most.Load(), room.held.Load(); most < 1<<20 || held != 0 {
		t.Errorf("%d bytes were taken, and %d are held by a stream that has caught up", most, held)
	}
}

// TestSlowClientLosesDeltas: a client that reads nothing while an answer arrives lacks a part of it.
// It receives everything that is on record, then a reset, then the rest.
func TestSlowClientLosesDeltas(t *testing.T) {
	t.Parallel()
	s, hub := open(t, nil)
	storetest.Write(t, s, plan("p", record.Running))
	quick, slow := openDeltas(t, hub, "p"), openDeltas(t, hub, "p")

	without, err := hub.Open(t.Context(), "", "p", "", lister{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer without.Close()
	idle(t, without)

	var sent strings.Builder
	for i := range 20 {
		piece := fmt.Sprintf("%04d", i) + strings.Repeat("x", 10_000)
		sent.WriteString(piece)
		s.Deltas().Delta("p", "q", "step", 3, 2, piece)
		until(t, quick, "x")
	}

	storetest.Write(t, s, &record.ActTool{RootPlanID: "p", StepID: "step", ToolCallID: "call"})
	until(t, quick, "call")
	s.Deltas().Delta("p", "q", "step", 3, 2, "end")
	until(t, quick, "end")

	var types []string
	for {
		e, err := slow.Next(t.Context(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, e.Type)
		if e.Type != live.TypeDelta {
			if e.Type == live.TypeReset && string(e.Data) != `{"planId":"q","stepId":"step","seq":3,"attempt":2}` {
				t.Errorf("reset %s", e.Data)
			}
			continue
		}

		var d struct{ Text string }
		if err := json.Unmarshal(e.Data, &d); err != nil {
			t.Fatal(err)
		}
		if len(d.Text) > 200_000 || !strings.HasSuffix(sent.String()+"end", d.Text) || e.ID != "" {
			t.Errorf("%d bytes with id %q that are not the rest", len(d.Text), e.ID)
		}
		break
	}

	if got := strings.Join(types, " "); got != "rows reset delta" {
		t.Errorf("the slow client received %s", got)
	}

	for {
		e, err := without.Next(t.Context(), 10*time.Millisecond)
		if err != nil || e.Type == live.TypeDelta || e.Type == live.TypeReset {
			t.Fatalf("a client that wants no deltas: %+v, %v", e, err)
		}
		if e.Type == "" && e.ID != "" {
			break
		}
	}

	if cut := hub.Stats().Cut; cut != 0 {
		t.Errorf("%d clients were cut off", cut)
	}
}

// openDeltas opens a stream with deltas that has caught up.
func openDeltas(t *testing.T, hub *live.Hub, planID string) *live.Stream {
	t.Helper()
	st, err := hub.Open(t.Context(), "", planID, "", lister{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	st.WithDeltas()
	idle(t, st)
	return st
}

// movedStore is a store whose trees are read only once another server is the primary. All rows are found there: as
// many transactions have the numbers of those that were lost.
type movedStore struct {
	*store.Store
	from atomic.Pointer[string] // the primary before; nil: trees are read at once
}

func (s *movedStore) Rows(ctx context.Context, rootPlanID string, f *store.RowFilter) ([]store.Row, error) {
	if from := s.from.Load(); from != nil {
		for s.Primary() == *from && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		f.XIDs = nil
	}
	return s.Store.Rows(ctx, rootPlanID, f)
}

// TestReadAfterAFailover checks what a client receives if another server becomes the primary after a change and before
// its rows are read: first a reset, then all rows, then the end.
func TestReadAfterAFailover(t *testing.T) {
	t.Parallel()
	pair := storetest.Pair(t)
	s := &movedStore{Store: storetest.OpenURL(t, pair.URL, storetest.Patient)}
	hub := live.New(s, s.Feed(), s.Deltas(), storetest.Logger(t), 10)
	t.Cleanup(hub.Close)

	storetest.Write(t, s.Store, plan("p", record.Running))
	st, err := hub.Open(t.Context(), "", "p", "", lister{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	idle(t, st)

	before := s.Primary()
	s.from.Store(&before)
	storetest.Write(t, s.Store, plan("p", record.Completed))
	pair.Promote(t)

	var types []string
	for err == nil {
		var e live.Event
		if e, err = st.Next(t.Context(), time.Hour); err == nil && e.Type != "" {
			types = append(types, e.Type)
		}
	}
	if got := strings.Join(types, " "); got != "reset rows done" || !errors.Is(err, io.EOF) {
		t.Errorf("%s, then %v", got, err)
	}
}
