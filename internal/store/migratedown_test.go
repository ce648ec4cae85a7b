package store_test

import (
	"context"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/storetest"
	"github.com/actlog/actlog/migrations"
)

// O3: a migration that Postgres ended because of a deadlock is tried again.
func TestMigrateAgainAfterADeadlock(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	execSQL(t, db.Pool, `CREATE SEQUENCE public.tries;
		CREATE FUNCTION public.deadlock() RETURNS event_trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF EXISTS (SELECT FROM pg_class WHERE relname = 'login') AND nextval('public.tries') <= 2 THEN
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
	execSQL(t, db.Pool, "INSERT INTO actlog.worker (worker_id, host, release, provides, slots, lease_until) VALUES ('w', 'h', 'r', '{}', 1, now())")
	catalog := func() []string {
		return storetest.Lines(t, db.Pool, `
			SELECT 'table ' || c.oid::regclass FROM pg_class AS c WHERE relnamespace = 'actlog'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
			UNION ALL
			SELECT 'column ' || c.oid::regclass || '.' || attname FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
			WHERE relnamespace = 'actlog'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition AND attnum > 0 AND NOT attisdropped ORDER BY 1`)
	}
	renamed := regexp.MustCompile(`ALTER TABLE (\S+) RENAME COLUMN (\w+) TO (\w+)`)

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

		text, err := fs.ReadFile(migrations.FS, loss.Migration.Name)
		if err != nil {
			t.Fatal(err)
		}
		_, down, _ := strings.Cut(string(text), "+goose Down")
		names := renamed.FindAllStringSubmatch(down, -1)
		after, gone := catalog(), []string(nil)
		for _, object := range before {
			parts := strings.Split(object, ".") // "table actlog", name, or "column actlog", name of the table, name
			ofGoneTable := len(parts) == 3 && !slices.Contains(after, "table actlog."+parts[1])
			isRenamed := slices.ContainsFunc(names, func(n []string) bool { return object == "column "+n[1]+"."+n[2] })
			if !slices.Contains(after, object) && !ofGoneTable && !isRenamed {
				gone = append(gone, object)
			}
		}
		for _, n := range names { // what is lost had the name that another column has now
			said = slices.DeleteFunc(said, func(object string) bool { return object == "column "+n[1]+"."+n[3] })
		}
		slices.Sort(said)
		slices.Sort(gone)
		if !slices.Equal(said, gone) {
			t.Errorf("%s (-gone +said):\n%s", loss.Migration.Name, cmp.Diff(gone, said))
		}
		before = after
	}
}
