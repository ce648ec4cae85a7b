package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/migrations"
)

// newestVersion is the version of the last migration in this binary.
var newestVersion = func() int64 {
	m, err := goose.NewProvider(goose.DialectPostgres, new(sql.DB), migrations.FS,
		goose.WithTableName(migrations.VersionTable))
	if err != nil {
		panic(fmt.Sprintf("store: embedded migrations: %v", err))
	}
	sources := m.ListSources()
	return sources[len(sources)-1].Version
}()

// Migrator brings the schema of a database up or down. A session lock keeps several of them in
// order.
type Migrator struct {
	db       *sql.DB
	provider *goose.Provider
	log      *slog.Logger
}

// Migration is one version of the schema.
type Migration struct {
	Version int64
	Name    string
	Applied bool
}

// NewMigrator connects. Only [Migrator.Up] makes something. The error wraps [ErrBeforeBaseline] if the database
// is of an earlier version than the first migration.
func NewMigrator(ctx context.Context, databaseURL string, log *slog.Logger) (*Migrator, error) {
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}

	config.RuntimeParams["application_name"] = "actlog migrate"
	config.RuntimeParams["client_min_messages"] = "warning"
	config.RuntimeParams["lock_timeout"] = "900"                             // ms, see LockPatience
	config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsPrimary // of several hosts
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { log.Warn(n.Message) }

	m := &Migrator{db: stdlib.OpenDB(*config), log: log}
	if err := m.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare migrations: %w", pg.Translate(err)), m.db.Close())
	}
	return m, nil
}

func (m *Migrator) prepare(ctx context.Context) error {
	var before bool
	if err := m.db.QueryRowContext(ctx, hasTable, migrations.TableBeforeBaseline).Scan(&before); err != nil {
		return err
	}
	if before {
		return ErrBeforeBaseline
	}

	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300)) // asks each second, for five minutes
	if err != nil {
		return err
	}
	m.provider, err = goose.NewProvider(goose.DialectPostgres, m.db, migrations.FS,
		goose.WithTableName(migrations.VersionTable), goose.WithSessionLocker(locker))
	return err
}

func (m *Migrator) makeSchema(ctx context.Context) error {
	// CREATE SCHEMA IF NOT EXISTS needs the right to create one even if it exists. The owner of
	// a prepared database may lack it.
	var exists bool
	if err := m.db.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)",
		migrations.Schema).Scan(&exists); err != nil {
		return err
	}

	if !exists {
		if _, err := m.db.ExecContext(ctx, "CREATE SCHEMA IF NOT EXISTS "+migrations.Schema); err != nil &&
			pg.State(err) != "23505" {
			return err // 23505: another migrator was quicker
		}
	}
	return nil
}

// made reports whether the database has the table of its migrations.
func (m *Migrator) made(ctx context.Context) (made bool, err error) {
	err = m.db.QueryRowContext(ctx, hasTable, migrations.VersionTable).Scan(&made)
	return made, err
}

// Made reports whether a database has a record, migrated to any version.
func Made(ctx context.Context, databaseURL string) (bool, error) {
	m, err := NewMigrator(ctx, databaseURL, slog.New(slog.DiscardHandler))
	if err != nil {
		return false, err
	}
	made, err := m.made(ctx)
	return made, errors.Join(pg.Translate(err), m.Close())
}

// migrateFor is how long a migration gives way to sessions that hold its locks.
const migrateFor = 5 * time.Minute

// Up applies every migration that is missing. Its locks give way to backups and long reports: a migration that waits
// for one would block every reader and writer behind it. So it tries again, for five minutes.
func (m *Migrator) Up(ctx context.Context) (err error) {
	defer func() { err = pg.Wrap(err, "migrate up") }()

	var encoding string
	if err := m.db.QueryRowContext(ctx, "SELECT current_setting('server_encoding')").Scan(&encoding); err != nil {
		return pg.Translate(err)
	}
	if err := pg.CheckEncoding(encoding); err != nil {
		return err
	}
	if err := m.makeSchema(ctx); err != nil {
		return fmt.Errorf("make schema %s: %w", migrations.Schema, pg.Translate(err))
	}

	err = m.giveWay(ctx, func() error {
		done, err := m.provider.Up(ctx)
		for _, r := range done {
			m.log.Info("migrated", "version", r.Source.Version, "took", r.Duration)
		}
		return err
	})
	if err == nil {
		err = m.warnIfAhead(ctx)
	}
	return pg.Translate(err)
}

// giveWay migrates, and again while another session holds its locks, or both waited for each other.
func (m *Migrator) giveWay(ctx context.Context, migrate func() error) error {
	for deadline := time.Now().Add(migrateFor); ; {
		err := migrate()
		if !pg.Locked(err) && !pg.Deadlocked(err) || time.Now().After(deadline) {
			return err
		}

		m.log.Warn("a session holds a lock that a migration needs, such as a backup or a long report; it is tried again",
			"error", err)
		if err := pg.Pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

// warnIfAhead warns if the database has migrations of a newer version, as in the middle of an upgrade of several
// servers.
func (m *Migrator) warnIfAhead(ctx context.Context) error {
	version, err := m.provider.GetDBVersion(ctx)
	if version > newestVersion {
		m.log.Warn("the database is ahead of this version of actlog", "version", version, "known", newestVersion)
	}
	return err
}

var (
	errNothingApplied = errors.New("migrate down: no migration is applied")
	errNewer          = errors.New("migrate down: the newest migration is of a newer version of actlog, and only that " +
		"can take it back")
)

// Down takes the newest applied migration back, and removes what it holds. Its locks give way as those of Up.
func (m *Migrator) Down(ctx context.Context) error {
	var done *goose.MigrationResult
	made, err := m.made(ctx)
	if made {
		err = m.giveWay(ctx, func() (err error) {
			done, err = m.provider.Down(ctx)
			return err
		})
	}

	switch {
	case err == nil && !made, errors.Is(err, goose.ErrNoNextVersion):
		return errNothingApplied
	case errors.Is(err, goose.ErrVersionNotFound):
		return errNewer
	case err != nil:
		return fmt.Errorf("migrate down: %w", pg.Translate(err))
	}

	m.log.Info("migrated down", "version", done.Source.Version, "took", done.Duration)
	return nil
}

// Loss is what [Migrator.Down] would remove.
type Loss struct {
	Migration Migration
	Tables    []LostTable
	Columns   []string // such as actlog.run.first_claimed_at, of tables that stay
	Rows      []string // tables that stay and lose some of their rows
}

// LostTable is a table, and how many rows it has.
type LostTable struct {
	Name string
	Rows int64 // at most maxCounted
}

const maxCounted = 100_000

var (
	dropTable   = regexp.MustCompile(`(?i)^DROP TABLE (?:IF EXISTS )?(.*)$`)
	alterTable  = regexp.MustCompile(`(?i)^ALTER TABLE (\S+)`)
	dropColumn  = regexp.MustCompile(`(?i)DROP COLUMN (?:IF EXISTS )?(\w+)`)
	deleteFrom  = regexp.MustCompile(`(?i)^DELETE FROM (\S+)`)
	sqlBlocks   = regexp.MustCompile(`(?s)-- \+goose StatementBegin.*?-- \+goose StatementEnd`)
	sqlComments = regexp.MustCompile(`(?m)--.*$`)
)

// Lost returns what Down would remove from the record. It reads that from the migration.
func (m *Migrator) Lost(ctx context.Context) (loss Loss, err error) {
	all, err := m.Status(ctx)
	if err != nil {
		return loss, err
	}

	for _, each := range all {
		if each.Applied {
			loss.Migration = each
		}
	}
	if loss.Migration.Version == 0 {
		return loss, errNothingApplied
	}

	version, err := m.provider.GetDBVersion(ctx)
	switch {
	case err != nil:
		return loss, fmt.Errorf("read migrations: %w", pg.Translate(err))
	case version > loss.Migration.Version:
		return loss, errNewer
	}

	text, err := fs.ReadFile(migrations.FS, loss.Migration.Name)
	if err != nil {
		return loss, fmt.Errorf("read migration: %w", err)
	}
	_, down, _ := strings.Cut(string(text), "+goose Down")
	loss.addStatements(down)
	for i, table := range loss.Tables {
		count := fmt.Sprintf("SELECT count(*) FROM (SELECT FROM %s LIMIT %d) AS t",
			table.Name, maxCounted) //nolint:gosec // a migration's
		if err := m.db.QueryRowContext(ctx, count).Scan(&loss.Tables[i].Rows); err != nil {
			return loss, fmt.Errorf("count rows of %s: %w", table.Name, pg.Translate(err))
		}
	}
	return loss, nil
}

// addStatements adds what the SQL of a down migration removes: tables, columns, and tables from which rows are deleted.
func (l *Loss) addStatements(down string) {
	down = sqlComments.ReplaceAllString(sqlBlocks.ReplaceAllString(down, ""), "") // blocks are bodies of functions

	for statement := range strings.SplitSeq(down, ";") {
		statement = strings.Join(strings.Fields(statement), " ")
		if found := dropTable.FindStringSubmatch(statement); found != nil {
			for name := range strings.SplitSeq(found[1], ", ") {
				l.Tables = append(l.Tables, LostTable{Name: name})
			}
		}
		if found := deleteFrom.FindStringSubmatch(statement); found != nil {
			l.Rows = append(l.Rows, found[1])
		}
		if table := alterTable.FindStringSubmatch(statement); table != nil {
			for _, column := range dropColumn.FindAllStringSubmatch(statement, -1) {
				l.Columns = append(l.Columns, table[1]+"."+column[1])
			}
		}
	}
}

// Connected returns how many sessions of servers, workers and other programs with the record's store there are.
func (m *Migrator) Connected(ctx context.Context) (sessions int, err error) {
	err = m.db.QueryRowContext(ctx, `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = 'actlog' AND pid <> pg_backend_pid()`).Scan(&sessions)
	return sessions, pg.Wrap(pg.Translate(err), "look for servers")
}

// String says what is lost, in lines.
func (l Loss) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "Migration %s is taken back.", l.Migration.Name)
	if len(l.Tables)+len(l.Columns)+len(l.Rows) == 0 {
		text.WriteString(" Nothing of the record is lost: it made no table and no column.")
		return text.String()
	}

	text.WriteString(" This is lost, for good:")
	for _, t := range l.Tables {
		switch t.Rows {
		case 1:
			fmt.Fprintf(&text, "\n  table %s, 1 row", t.Name)
		case maxCounted:
			fmt.Fprintf(&text, "\n  table %s, %d rows or more", t.Name, t.Rows)
		default:
			fmt.Fprintf(&text, "\n  table %s, %d rows", t.Name, t.Rows)
		}
	}

	for _, c := range l.Columns {
		fmt.Fprintf(&text, "\n  column %s", c)
	}
	for _, r := range l.Rows {
		fmt.Fprintf(&text, "\n  rows of table %s that the version before does not know", r)
	}
	return text.String()
}

// Status lists the migrations, oldest first. It changes nothing in the database.
func (m *Migrator) Status(ctx context.Context) (all []Migration, err error) {
	made, err := m.made(ctx)
	if err == nil && !made {
		for _, s := range m.provider.ListSources() {
			all = append(all, Migration{Version: s.Version, Name: s.Path})
		}
		return all, nil
	}

	var status []*goose.MigrationStatus
	if err == nil {
		status, err = m.provider.Status(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", pg.Translate(err))
	}

	for _, s := range status {
		all = append(all, Migration{Version: s.Source.Version, Name: s.Source.Path, Applied: s.State == goose.StateApplied})
	}
	return all, nil
}

// Close disconnects.
func (m *Migrator) Close() error { return m.db.Close() }

// ErrNotMigrated means that the database lacks migrations of this version.
var ErrNotMigrated = errors.New("database is not migrated: run actlog migrate up")

// ErrBeforeBaseline means that a version before the baseline of migrations made the database. No migration leads from
// there to this version.
var ErrBeforeBaseline = errors.New("this database was made by a version of actlog before the first baseline of its " +
	"schema, " +
	"and cannot be migrated: export its records with that version (actlog export), and import them into a new database " +
	"with this one (actlog import); docs/operations.md, \"Databases before the baseline\", has the steps")

const hasTable = "SELECT to_regclass($1) IS NOT NULL"

// ErrNotMade means that the database has no record at all. It wraps [ErrNotMigrated].
var ErrNotMade = fmt.Errorf("%w: it holds no record", ErrNotMigrated)

// checkMigrated returns [ErrNotMigrated] unless every migration is applied, and [ErrBeforeBaseline] if none can be.
func checkMigrated(ctx context.Context, d *pg.DB) error {
	var version int64
	err := d.QueryRow(ctx, "SELECT COALESCE(max(version_id), 0) FROM "+migrations.VersionTable+
		" WHERE is_applied").Scan(&version)
	switch code := pg.State(err); {
	case code == "42P01", code == "3F000": // no such table, no such schema
		var before bool
		if err := d.QueryRow(ctx, hasTable, migrations.TableBeforeBaseline).Scan(&before); err != nil {
			return pg.Translate(err)
		}
		if before {
			return ErrBeforeBaseline
		}
		return ErrNotMade
	case err != nil:
		return pg.Translate(err)
	}

	if version < newestVersion {
		return fmt.Errorf("%w: at version %d of %d", ErrNotMigrated, version, newestVersion)
	}
	return nil
}
