package store_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

// O3: a migration that Postgres ended because of a deadlock is tried again.
func TestMigrateAgainAfterADeadlock(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)

	execSQL(t, db.Pool, `CREATE SEQUENCE public.tries;
		CREATE FUNCTION public.deadlock() RETURNS event_trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF EXISTS (SELECT FROM pg_class WHERE relname = 'worker') AND nextval('public.tries') <= 2 THEN
				RAISE deadlock_detected USING MESSAGE = 'deadlock detected';
			END IF;
		END $$;
		CREATE EVENT TRIGGER deadlocks ON ddl_command_start EXECUTE FUNCTION public.deadlock()`)

	m := newMigrator(t, db.URL)
	if err := m.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if tries := storetest.Lines(t, db.Pool, "SELECT (last_value > 2)::text FROM public.tries"); tries[0] != "true" {
		t.Error("there was no deadlock")
	}
}

// O3: what a migration takes back is named before: all tables and columns that go.
func TestWhatIsLostIsNamed(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	m := newMigrator(t, db.URL)
	if err := m.Up(t.Context()); err != nil {
		t.Fatal(err)
	}

	execSQL(t, db.Pool, "INSERT INTO actlog.worker (worker_id, host, release, provides, slots, lease_until) VALUES "+
		"('w', 'h', 'r', '{}', 1, now())")
	catalog := func() []string {
		return storetest.Lines(t, db.Pool, `
			SELECT 'table ' || c.oid::regclass FROM pg_class AS c WHERE relnamespace = 'actlog'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
			UNION ALL
			SELECT 'column ' || c.oid::regclass || '.' || attname FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
			WHERE relnamespace = 'actlog'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition AND attnum > 0 AND NOT attisdropped ORDER BY 1`)
	}

	for before := catalog(); ; {
		loss, err := m.Lost(t.Context())
		if err != nil {
			if !strings.Contains(err.Error(), "no migration is applied") {
				t.Error(err)
			}
			break
		}

		var said []string
		for _, table := range loss.Tables {
			said = append(said, "table "+table.Name)
			if table.Name == "actlog.worker" && table.Rows != 1 {
				t.Errorf("%s has %d rows, want 1", table.Name, table.Rows)
			}
		}
		for _, column := range loss.Columns {
			said = append(said, "column "+column)
		}
		if err := m.Down(context.WithoutCancel(t.Context())); err != nil {
			t.Fatal(err)
		}

		after, gone := catalog(), []string(nil)
		for _, object := range before {
			parts := strings.Split(object, ".") // "table actlog", name, or "column actlog", name of the table, name
			ofGoneTable := len(parts) == 3 && !slices.Contains(after, "table actlog."+parts[1])
			if !slices.Contains(after, object) && !ofGoneTable {
				gone = append(gone, object)
			}
		}

		slices.Sort(said)
		slices.Sort(gone)
		if !slices.Equal(said, gone) {
			t.Errorf("%s (-gone +said):\n%s", loss.Migration.Name, cmp.Diff(gone, said))
		}
		before = after
	}
}

// What a way back removes from tables that stay is named, too.
func TestLostColumnsAndRows(t *testing.T) {
	t.Parallel()

	loss := store.LostBy(`
		-- DROP TABLE actlog.comment;
		ALTER TABLE actlog.run
			DROP CONSTRAINT run_held,
			DROP COLUMN lost, DROP COLUMN IF EXISTS clock;
		DELETE FROM actlog.conversation_message WHERE role = 'tool';
		-- +goose StatementBegin
		CREATE OR REPLACE FUNCTION actlog.f() RETURNS void LANGUAGE sql AS $$ DELETE FROM actlog.login; $$;
		-- +goose StatementEnd
		DROP TABLE actlog.login, actlog.text_vector;`)

	want := store.Loss{
		Tables:  []store.LostTable{{Name: "actlog.login"}, {Name: "actlog.text_vector"}},
		Columns: []string{"actlog.run.lost", "actlog.run.clock"},
		Rows:    []string{"actlog.conversation_message"},
	}
	if diff := cmp.Diff(want, loss); diff != "" {
		t.Errorf("what is lost (-want +got):\n%s", diff)
	}
}
