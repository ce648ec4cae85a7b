package live_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/live"
	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/store"
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

func open(t *testing.T, tracer pgx.QueryTracer) (*store.Store, *live.Hub) {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{DatabaseURL: pgtest.New(t).URL, Tracer: tracer})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	hub := live.New(s, live.Config{
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), MaxStreams: 1_000,
		Rows: func(_ string, rows []store.Row) ([]byte, error) {
			var keys []string
			for _, r := range rows {
				keys = append(keys, fmt.Sprint(r.Record.Key()))
			}
			return []byte(strings.Join(keys, "\n")), nil
		},
		Plans: func(plans []live.Plan) ([]byte, error) { return fmt.Append(nil, len(plans)), nil },
	})
	t.Cleanup(hub.Close)
	return s, hub
}

func write(t *testing.T, s *store.Store, changes ...record.Change) {
	t.Helper()
	if result, err := s.Write(t.Context(), changes); err != nil || len(result.Rejected) > 0 {
		t.Fatal(result, err)
	}
}

func plan(id string, state record.State) *record.Plan {
	return &record.Plan{RootPlanID: id, CurrentPlanID: id, State: &state}
}

// until reads a stream until an event holds a text.
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

// TestOneReadForAll: what changes is read once for all who follow a plan, and for
// nobody where nobody does.
func TestOneReadForAll(t *testing.T) {
	t.Parallel()
	var r reads
	s, hub := open(t, &r)
	write(t, s, plan("p", record.Running), plan("q", record.Running))
	streams := make([]*live.Stream, 20)
	for i := range streams {
		st, err := hub.Open(t.Context(), "p", "")
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		streams[i] = st
		idle(t, st)
	}
	before := r.n.Load()
	const calls = 5
	for i := range calls {
		for _, root := range []string{"p", "q"} {
			write(t, s, &record.ActTool{RootPlanID: root, StepID: root + "-step", Seq: 0, ToolCallID: fmt.Sprint("call", i)})
		}
		var all sync.WaitGroup
		for _, st := range streams {
			all.Go(func() { until(t, st, fmt.Sprint("call", i)) })
		}
		all.Wait()
	}
	if n := r.n.Load() - before; n != calls {
		t.Errorf("%d reads for %d changes", n, calls)
	}
	if st := hub.Stats(); st.Streams != 20 || st.Events < 20*calls || st.Cut != 0 {
		t.Errorf("%+v", st)
	}
}

// TestAlive: a stream says that it is alive also while what it reads takes long, and can
// be ended and closed then.
func TestAlive(t *testing.T) {
	t.Parallel()
	s, _ := open(t, nil)
	write(t, s, plan("p", record.Running))
	read := make(chan struct{})
	hub := live.New(s, live.Config{
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), MaxStreams: 10,
		Rows: func(string, []store.Row) ([]byte, error) {
			<-read
			return []byte("rows"), nil
		},
	})
	t.Cleanup(hub.Close)
	var streams []*live.Stream
	for range 6 { // more than may read at once
		st, err := hub.Open(t.Context(), "p", "")
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		for range 2 {
			if e, err := st.Next(t.Context(), time.Millisecond); err != nil || e.Type != "" || e.ID != "" {
				t.Fatalf("%+v, %v", e, err)
			}
		}
		streams = append(streams, st)
	}
	streams[5].Close() // before it has read anything
	close(read)
	for _, st := range streams[:5] {
		until(t, st, "rows")
	}
}

func TestEnds(t *testing.T) {
	t.Parallel()
	s, hub := open(t, nil)
	write(t, s, plan("p", record.Running), plan("over", record.Failed))
	st, err := hub.Open(t.Context(), "over", "")
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
	st, err = hub.Open(t.Context(), "p", "")
	if err != nil {
		t.Fatal(err)
	}
	idle(t, st)
	hub.End()
	if _, err := st.Next(t.Context(), time.Hour); !errors.Is(err, live.ErrCut) {
		t.Errorf("cut: %v", err)
	}
	st.Close()
	last, err := hub.Open(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	idle(t, last)
	hub.Close()
	if _, err := last.Next(t.Context(), time.Hour); !errors.Is(err, record.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	last.Close()
	if _, err := hub.Open(t.Context(), "p", ""); !errors.Is(err, record.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}
