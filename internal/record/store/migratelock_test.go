package store_test

import (
	"context"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/migrations"
)

// O3: a migration is not starved by those who write all the time, and they go on. What it keeps of rows, it keeps of
// all.
func TestMigrateBesideWriters(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	m := newMigrator(t, db.URL)
	if err := m.Up(t.Context()); err != nil {
		t.Fatal(err)
	}

	// all but the record
	for storetest.Lines(t, db.Pool, "SELECT (to_regclass('actlog.otlp_trace') IS NOT NULL)::text")[0] == "true" {
		if err := m.Down(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for w := range 3 {
		writers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				err := pgx.BeginFunc(ctx, db.Pool, func(tx pgx.Tx) error {
					id := fmt.Sprintf("run-%d-%d", w, n)
					for _, sql := range []string{
						"INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, part, told_state) VALUES ($1, $1, " +
							"DATE '2026-01-05', 'RUNNING')",
						"INSERT INTO actlog.agent_execution_record (root_plan_id, step_id, part, end_time) VALUES ($1, 'step', DATE " +
							"'2026-01-05', now() - interval '1 day')",
						"INSERT INTO actlog.think_act_record (root_plan_id, step_id, seq, part) VALUES ($1, 'step', 0, DATE '2026-01-05')",
						"INSERT INTO actlog.act_tool_info (root_plan_id, step_id, seq, tool_call_id, part, told_state) VALUES ($1, " +
							"'step', 0, 'call', DATE '2026-01-05', 'FAILED')",
					} {
						if _, err := tx.Exec(ctx, sql, id); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}

	err := m.Up(t.Context())
	stop()
	writers.Wait()
	if err != nil {
		t.Fatal(err)
	}

	storetest.CheckKept(t, storetest.OpenURL(t, db.URL))
	const unfinished = "SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid"
	if got := storetest.Lines(t, db.Pool, unfinished); len(got) > 0 {
		t.Errorf("indexes that are not whole: %q", got)
	}
}

// A migration that changes tables of the record locks the plans before anything else, as writers do.
func TestMigrationsLockPlansFirst(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		t.Fatal(err)
	}

	apart := regexp.MustCompile(`(?s)--[^\n]*|\$\$.*?\$\$`)
	changes := regexp.MustCompile(`(ALTER TABLE( ONLY)?|INDEX[^;]*? ON|TRIGGER[^;]*? ON|REFERENCES|UPDATE|DELETE FROM) ` +
		`actlog\.(plan_execution_record|agent_execution_record|think_act_record|act_tool_info|content|wait_state|thought|artifact|source_reference)\b`)

	checked := 0
	for _, name := range names[1:] { // the first one makes the tables
		text, err := fs.ReadFile(migrations.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		up, _, _ := strings.Cut(string(text), "-- +goose Down")
		if strings.Contains(up, "+goose NO TRANSACTION") {
			continue
		}

		up = apart.ReplaceAllString(up, "")
		if change := changes.FindStringIndex(up); change != nil {
			checked++
			if first, _, _ := strings.Cut(strings.TrimSpace(up), "\n"); !strings.HasPrefix(first,
				"LOCK TABLE actlog.plan_execution_record IN ") {
				t.Errorf("%s begins with %q", name, first)
			}
		}
	}
	if checked < 2 { // the runtime refers to plans, and the reports have indexes
		t.Errorf("%d migrations were checked", checked)
	}
}
