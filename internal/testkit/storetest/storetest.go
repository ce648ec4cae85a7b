// Package storetest opens stores for tests, and has what tests of the store, its feed and its
// upkeep share.
package storetest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/record"
)

// Open opens the record in a database of the test's own, and closes it at the end of the test.
func Open(t testing.TB, options ...func(*store.Config)) *store.Store {
	t.Helper()
	return OpenURL(t, pgtest.New(t).URL, options...)
}

// CutAll cuts every text that may be kept in parts, into small pieces.
var CutAll = content.Sizes{Cut: 1, Least: 1, Average: 64, Most: 256}

// OpenURL is Open for a database. All texts that may be kept in parts are, unless an option says otherwise.
func OpenURL(t testing.TB, url string, options ...func(*store.Config)) *store.Store {
	t.Helper()
	config := store.Config{DatabaseURL: url, Logger: Logger(t), MaxConns: 4, Contents: CutAll}
	for _, o := range options {
		o(&config)
	}

	s, err := store.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Upkeep starts the upkeep of a store, and ends it with the test.
func Upkeep(t testing.TB, s *store.Store, config upkeep.Config) *upkeep.Upkeep {
	t.Helper()
	if config.Logger == nil {
		config.Logger = Logger(t)
	}

	u, err := upkeep.Start(t.Context(), s, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Close)
	return u
}

// Logger logs to the test's output.
func Logger(t testing.TB) *slog.Logger {
	t.Helper()
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

// Write writes changes, and fails the test if one is refused.
func Write(t testing.TB, s *store.Store, changes ...record.Change) {
	t.Helper()
	result, err := s.Write(t.Context(), changes)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range result.Rejected {
		t.Errorf("change %d was refused: %v", r.Index, r.Err)
	}
}

// PlanTree reads the hierarchy of a plan.
func PlanTree(t testing.TB, s *store.Store, id string) *tree.Plan {
	t.Helper()
	p, _, err := s.PlanTree(t.Context(), "", id)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// StepDetail reads a step with its cycles.
func StepDetail(t testing.TB, s *store.Store, id string) *tree.Step {
	t.Helper()
	st, err := s.StepDetail(t.Context(), "", id)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// Query returns the value of a query of one.
func Query[T any](t testing.TB, s *store.Store, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := s.DB().QueryRow(context.Background(), sql, args...).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// Exec runs a statement.
func Exec(t testing.TB, s *store.Store, sql string, args ...any) {
	t.Helper()
	if _, err := s.DB().Exec(context.Background(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// Log collects what is logged from level warn on.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements [io.Writer].
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Logger logs to l.
func (l *Log) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// OldMonday begins a period that is long over.
const OldMonday = "2026-01-05"

// detailTables are those whose rows lie in the part of their tree.
var detailTables = []string{"think_act_record", "act_tool_info", "content"}

// SetPart moves trees into a part, wherever that lies.
func SetPart(t testing.TB, s *store.Store, day string, roots ...string) {
	t.Helper()
	if err := s.DB().Transact(t.Context(), func(tx pgx.Tx) error {
		return setPart(t.Context(), tx, day, roots)
	}); err != nil {
		t.Fatal(err)
	}
}

func setPart(ctx context.Context, tx pgx.Tx, day string, roots []string) error {
	for _, table := range append([]string{"plan_execution_record", "agent_execution_record", "recent_text"},
		detailTables...) {
		seen := ", first_seen_at = $1::text::date"
		if table == "content" || table == "recent_text" {
			seen = ""
		}

		if _, err := tx.Exec(ctx, "UPDATE actlog."+table+" SET part = $1::text::date"+seen+" WHERE root_plan_id = ANY ($2)",
			day, roots); err != nil {
			return err
		}
	}
	return nil
}

// Age moves trees into a period that is long over, with partitions of its own.
func Age(t testing.TB, s *store.Store, monday string, roots ...string) {
	t.Helper()
	err := s.DB().Transact(t.Context(), func(tx pgx.Tx) error {
		for _, table := range detailTables {
			if _, err := tx.Exec(t.Context(),
				`SELECT actlog.add_partition($1, $2::date, $2::date + 7) WHERE to_regclass('actlog.' || $1 || '_p' || to_char($2::date, 'YYYYMMDD')) IS NULL`, table, monday); err != nil {
				return err
			}
		}
		return setPart(t.Context(), tx, monday, roots)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Lines returns the rows of a query that selects one text.
// A cleanup may call it, too.
func Lines(t testing.TB, conn interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}, sql string, args ...any) []string {
	t.Helper()
	rows, err := conn.Query(context.WithoutCancel(t.Context()), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// CheckKept checks what triggers keep of rows: the table of failures, in which no copy is, and the time by which
// reports find a row.
func CheckKept(t testing.TB, s *store.Store) {
	t.Helper()
	const failed = `told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED', 'BLOCKED')`

	for _, breach := range Lines(t, s.DB(), `
		WITH said AS (
			SELECT root_plan_id, 'plan' AS kind, '' AS step_id, 0 AS seq, current_plan_id AS id, part, told_state,
				COALESCE(end_time, start_time, first_seen_at) AS failed_at
			FROM actlog.plan_execution_record WHERE `+failed+` AND (forked_from IS NULL OR current_plan_id = root_plan_id)

			UNION ALL
			SELECT root_plan_id, 'agentExecution', step_id, 0, '', part, told_state,
				COALESCE(end_time, start_time, first_seen_at, part::timestamp AT TIME ZONE 'utc')
			FROM actlog.agent_execution_record WHERE `+failed+` AND forked_from IS NULL

			UNION ALL
			SELECT root_plan_id, 'thinkAct', step_id, seq, '', part, told_state,
				COALESCE(GREATEST(think_end_time, act_end_time), act_start_time, think_start_time, first_seen_at,
					part::timestamp AT TIME ZONE 'utc')
			FROM actlog.think_act_record WHERE `+failed+` AND forked_from IS NULL

			UNION ALL
			SELECT root_plan_id, 'actTool', step_id, seq, tool_call_id, part, told_state,
				COALESCE(end_time, start_time, first_seen_at, part::timestamp AT TIME ZONE 'utc')
			FROM actlog.act_tool_info WHERE `+failed+` AND forked_from IS NULL

		), kept AS (
			SELECT root_plan_id, kind, step_id, seq, id, part, state, failed_at FROM actlog.failure
		)

		SELECT 'actlog.failure lacks ' || x::text FROM (SELECT * FROM said EXCEPT SELECT * FROM kept) AS x
		UNION ALL
		SELECT 'actlog.failure has ' || x::text FROM (SELECT * FROM kept EXCEPT SELECT * FROM said) AS x

		UNION ALL
		SELECT 'the step ' || step_id || ' is found by another time than its end' FROM actlog.agent_execution_record
		WHERE start_time IS NULL AND end_time <> first_seen_at

		UNION ALL
		SELECT 'the cycle ' || seq || ' of ' || step_id || ' is found by another time than its end' FROM actlog.think_act_record
		WHERE think_start_time IS NULL AND COALESCE(think_end_time, act_start_time, act_end_time) <> first_seen_at

		UNION ALL
		SELECT 'the call ' || tool_call_id || ' is found by another time than its end' FROM actlog.act_tool_info
		WHERE start_time IS NULL AND end_time <> first_seen_at`) {
		t.Error(breach)
	}
}

// WriterURL returns the URL of a role that may read and write the rows that are on record, and
// may do nothing else.
func WriterURL(t testing.TB, db *pgtest.DB) string {
	t.Helper()
	name := "actlog_" + strings.ReplaceAll(record.NewPlanID(), "-", "_")
	exec := func(ctx context.Context, sql string) {
		t.Helper()
		if _, err := db.Pool.Exec(ctx, fmt.Sprintf(sql, name)); err != nil {
			t.Error(err)
		}
	}

	exec(
		t.Context(), `CREATE ROLE %[1]s LOGIN PASSWORD 'secret'; GRANT USAGE ON SCHEMA actlog TO %[1]s; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA actlog TO %[1]s`,
	)
	// what it owns goes first
	t.Cleanup(func() { exec(context.Background(), "DROP OWNED BY %[1]s CASCADE; DROP ROLE %[1]s") })

	u, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, "secret")
	return u.String()
}
