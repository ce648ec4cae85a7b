package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/record"
)

// detailDays is how long the store keeps details. The tool calls are 10 weeks old.
const detailDays = 28

// measureRetention drops a partition of a million tool calls during writes. It does this only once,
// because then the partition is gone.
func measureRetention(ctx context.Context, b *bench) (_ []figure, err error) {
	db, err := b.database(ctx, "retention")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.drop()) }()

	writing, err := db.store(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closing(writing.Close)) }()

	lock := &lockTimer{}
	keeping, err := store.Open(ctx, store.Config{DatabaseURL: db.url, Tracer: lock})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closing(keeping.Close)) }()

	// Its first automatic round finds nothing, and the next one is an hour later.
	keeper, err := upkeep.Start(ctx, keeping, upkeep.Config{DetailDays: detailDays})
	if err != nil {
		return nil, err
	}
	defer keeper.Close()

	calls := b.n(1_000_000, 5_000)
	if err := b.fillCalls(ctx, db, calls, 1, 10); err != nil {
		return nil, err
	}

	var took time.Duration
	worst, err := slowestWrite(ctx, writing, func() error {
		start := time.Now()
		err := keeper.Run(ctx)
		took = time.Since(start)
		return err
	})
	if err != nil {
		return nil, err
	}

	left, err := ids(ctx, db, "SELECT count(*)::text FROM actlog.act_tool_info WHERE part < now() - interval '50 days'", 1)
	if err == nil && left[0] != "0" {
		err = fmt.Errorf("%s tool calls were not dropped", left[0])
	}
	if err != nil {
		return nil, err
	}

	usual, err := slowestWrite(ctx, writing, func() error { return wait(ctx, took) })
	if err != nil {
		return nil, err
	}

	name := fmt.Sprintf("dropping %d tool calls, ", calls)
	return []figure{
		alone(name+"tables locked", "ms", []float64{ms(lock.total())}, nil),
		against(name+"slowest write", "ms", []float64{ms(worst)}, []float64{ms(usual)}, "as long without", nil),
		alone(name+"in all", "s", []float64{took.Seconds()}, nil),
	}, nil
}

// slowestWrite writes one tool call after the other until meanwhile returns.
func slowestWrite(ctx context.Context, s *store.Store, meanwhile func() error) (worst time.Duration, err error) {
	done := make(chan error, 1)
	go func() { done <- meanwhile() }()

	root := record.NewPlanID()
	for n := int64(0); ; n++ {
		select {
		case err := <-done:
			return worst, err
		default:
		}

		start := time.Now()
		err := write(ctx, s, []record.Change{
			&record.ActTool{
				RootPlanID: root, StepID: root + "-step", Seq: n / 10, ToolCallID: record.NewToolCallID(), Name: new("tool"),
			},
		})
		if err != nil {
			return 0, errors.Join(err, <-done)
		}
		worst = max(worst, time.Since(start))
	}
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lockTimer is a tracer that measures how long retention waits for and holds the locks that block
// writers.
type lockTimer struct {
	mu    sync.Mutex
	conn  *pgx.Conn
	since time.Time
	sum   time.Duration
}

type tracedSQL struct{}

// TraceQueryStart implements [pgx.QueryTracer].
func (t *lockTimer) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.HasPrefix(data.SQL, "LOCK TABLE actlog.plan_execution_record") {
		t.mu.Lock()
		t.conn, t.since = conn, time.Now()
		t.mu.Unlock()
	}
	return context.WithValue(ctx, tracedSQL{}, data.SQL)
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (t *lockTimer) TraceQueryEnd(ctx context.Context, conn *pgx.Conn, _ pgx.TraceQueryEndData) {
	sql, _ := ctx.Value(tracedSQL{}).(string)
	t.mu.Lock()
	defer t.mu.Unlock()
	if conn == t.conn && (sql == "commit" || sql == "rollback") {
		t.sum += time.Since(t.since)
		t.conn = nil
	}
}

func (t *lockTimer) total() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sum
}
