package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/actlog/actlog/internal/pg"
	"github.com/actlog/actlog/internal/store"
)

// notable is how long a migration takes that is worth a figure of its own.
const notable = 100 * time.Millisecond

// measureMigrate fills a million runs into the tables of the first migration, and applies the others one by one while
// somebody writes.
func measureMigrate(ctx context.Context, b *bench) (_ []figure, err error) {
	db, err := b.unmigrated(ctx, "migrate")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.drop()) }()
	m, err := store.NewMigrator(ctx, db.url, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if _, _, err := m.Next(ctx); err != nil {
		return nil, err
	}

	runs := b.n(1_000_000, 1_000)
	if err := fillRuns(ctx, db.pool, runs); err != nil {
		return nil, fmt.Errorf("fill in runs: %w", err)
	}
	probe := startProbe(ctx, db.pool)
	figures, err := migrateEach(ctx, m, probe, runs)
	return figures, errors.Join(err, probe.stop())
}

// migrateEach applies all migrations that are left.
func migrateEach(ctx context.Context, m *store.Migrator, probe *writeProbe, runs int) (figures []figure, err error) {
	var all, worst time.Duration
	for {
		name, took, err := migrateOne(ctx, m)
		if err != nil {
			return nil, err
		}
		if name == "" {
			break
		}
		waited, err := probe.worst()
		if err != nil {
			return nil, fmt.Errorf("write during %s: %w", name, err)
		}
		all, worst = all+took, max(worst, waited)
		if took >= notable || waited >= notable {
			figures = append(figures,
				alone(name+", in all", "s", []float64{took.Seconds()}, nil),
				alone(name+", slowest write", "s", []float64{waited.Seconds()}, nil))
		}
	}

	title := fmt.Sprintf("%d runs, all migrations, ", runs)
	return append(figures,
		alone(title+"in all", "s", []float64{all.Seconds()}, nil),
		alone(title+"slowest write", "s", []float64{worst.Seconds()}, atMost(store.DefaultRetryFor.Seconds()))), nil
}

// migrateOne applies the next migration. As the program does, it gives way to others and tries again.
func migrateOne(ctx context.Context, m *store.Migrator) (name string, took time.Duration, err error) {
	for {
		name, took, err := m.Next(ctx)
		if !pg.Locked(err) && !pg.Deadlocked(err) {
			return name, took, err
		}
		if err := wait(ctx, 100*time.Millisecond); err != nil {
			return "", 0, err
		}
	}
}

// The rows of a run, in tables as the first migration makes them: one step with two cycles, each with a call. Triggers
// and foreign keys are left out, and the figures of the step are made up.
var runRows = []string{
	`INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, part, first_seen_at, name, title, project, told_state, start_time, end_time)
		SELECT id, id, date_trunc('week', seen)::date, seen, 'kind-' || i % 20, 'Find what is wrong with order ' || i, 'project-' || i % 3,
			CASE WHEN i % 20 = 0 THEN 'FAILED' ELSE 'COMPLETED' END, seen, seen + interval '10 minutes'
		FROM generate_series($1::integer, $2::integer) AS i
		CROSS JOIN LATERAL (SELECT 'plan-' || md5(i::text) AS id, timestamptz '2026-01-05 00:00:00+00' + i * interval '2 seconds' AS seen) AS x`,
	`INSERT INTO actlog.agent_execution_record (root_plan_id, step_id, plan_id, part, step_index, agent_name, model_name, told_state, start_time, end_time, cycles,
			completed_cycles, model_calls, tool_calls, failures, input_tokens, output_tokens, cost_usd, think_ms, tool_ms, latest_round, latest_tool_name, latest_tool_args)
		SELECT root_plan_id, 'step-' || i, root_plan_id, part, 0, 'agent', 'large-1', told_state, start_time, end_time, 2, 2, 2, 2, CASE told_state WHEN 'FAILED' THEN 1 ELSE 0 END,
			3000, 300, 0.012, 6000, 4000, 2, 'fetch', repeat('x', 200)
		FROM generate_series($1::integer, $2::integer) AS i JOIN actlog.plan_execution_record ON root_plan_id = 'plan-' || md5(i::text)`,
	`INSERT INTO actlog.think_act_record (root_plan_id, step_id, seq, part, think_input, think_output, told_state, model_name, input_tokens, output_tokens, think_start_time, think_end_time)
		SELECT s.root_plan_id, s.step_id, c, s.part, repeat('what the model reads ', 20), repeat('what it says ', 20), 'COMPLETED', 'large-1', 1500, 150, s.start_time, s.start_time + interval '3 seconds'
		FROM generate_series($1::integer, $2::integer) AS i
		JOIN actlog.agent_execution_record AS s ON s.root_plan_id = 'plan-' || md5(i::text) CROSS JOIN generate_series(0, 1) AS c`,
	`INSERT INTO actlog.act_tool_info (root_plan_id, step_id, seq, tool_call_id, part, call_index, name, parameters, result, told_state, error_kind, start_time, end_time)
		SELECT s.root_plan_id, s.step_id, c, 'toolcall-' || i || '-' || c, s.part, 0, 'tool-' || i % 30, repeat('arguments ', 20), repeat('result ', 40),
			CASE WHEN i % 19 = 0 THEN 'FAILED' ELSE 'COMPLETED' END, CASE WHEN i % 19 = 0 THEN 'timeout' END, s.start_time, s.end_time
		FROM generate_series($1::integer, $2::integer) AS i
		JOIN actlog.agent_execution_record AS s ON s.root_plan_id = 'plan-' || md5(i::text) CROSS JOIN generate_series(0, 1) AS c`,
}

func fillRuns(ctx context.Context, pool *pgxpool.Pool, runs int) error {
	const page = 20_000
	for from := 1; from <= runs; from += page {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SET LOCAL session_replication_role = replica"); err != nil {
				return err
			}
			for _, sql := range runRows {
				if _, err := tx.Exec(ctx, sql, from, min(from+page-1, runs)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	_, err := pool.Exec(ctx, "VACUUM ANALYZE")
	return err
}

// writeProbe writes one run after the other, in the way of every version, and remembers how long that took.
type writeProbe struct {
	cancel context.CancelFunc
	asked  chan chan time.Duration // each question is answered with the slowest write since the one before
	ended  chan struct{}
	err    error // when it has ended
}

func startProbe(ctx context.Context, pool *pgxpool.Pool) *writeProbe {
	ctx, cancel := context.WithCancel(ctx)
	p := &writeProbe{cancel: cancel, asked: make(chan chan time.Duration), ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		longest := time.Duration(0)
		for n := 0; ctx.Err() == nil; n++ {
			start, id := time.Now(), fmt.Sprintf("probe-%d", n)
			err := writeRun(ctx, pool, id)
			for pg.Deadlocked(err) { // with the migration
				err = writeRun(ctx, pool, id)
			}
			if err != nil && ctx.Err() == nil {
				p.err = err
				return
			}
			longest = max(longest, time.Since(start))

			select {
			case to := <-p.asked:
				to <- longest
				longest = 0
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return p
}

// worst returns how long the slowest write took since the last call, with the one that is under way.
func (p *writeProbe) worst() (time.Duration, error) {
	answer := make(chan time.Duration, 1)
	select {
	case p.asked <- answer:
		return <-answer, nil
	case <-p.ended:
		return 0, p.err
	}
}

func (p *writeProbe) stop() error {
	p.cancel()
	<-p.ended
	return p.err
}

// writeRun writes a run and ends it, as a server of the first release would.
func writeRun(ctx context.Context, pool *pgxpool.Pool, id string) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		for _, sql := range []string{
			"INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, part, told_state, start_time) VALUES ($1, $1, DATE '2026-01-05', 'RUNNING', now())",
			"INSERT INTO actlog.agent_execution_record (root_plan_id, step_id, part, told_state) VALUES ($1, 'step', DATE '2026-01-05', 'RUNNING')",
			"INSERT INTO actlog.think_act_record (root_plan_id, step_id, seq, part, told_state) VALUES ($1, 'step', 0, DATE '2026-01-05', 'COMPLETED')",
			"INSERT INTO actlog.act_tool_info (root_plan_id, step_id, seq, tool_call_id, part, told_state) VALUES ($1, 'step', 0, 'call', DATE '2026-01-05', 'COMPLETED')",
			"UPDATE actlog.plan_execution_record SET told_state = 'COMPLETED', end_time = now() WHERE root_plan_id = $1",
		} {
			if _, err := tx.Exec(ctx, sql, id); err != nil {
				return err
			}
		}
		return nil
	})
}
