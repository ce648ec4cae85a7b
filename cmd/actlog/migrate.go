package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/actlog/actlog/internal/store"
)

type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Apply every migration that is missing."`
	Down   migrateDownCmd   `cmd:"" help:"Revert the newest migration, and delete what its tables and columns hold."`
	Status migrateStatusCmd `cmd:"" help:"List the migrations."`
}

type (
	migrateUpCmd     struct{ databaseFlags }
	migrateDownCmd   struct{ databaseFlags }
	migrateStatusCmd struct {
		JSON bool `help:"Print the migrations as JSON, one per line."`
		databaseFlags
	}
)

// migrationView is a migration as JSON.
type migrationView struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
	Applied bool   `json:"applied"`
}

func (c *migrateUpCmd) Run(ctx context.Context, e *env) error {
	return c.use(ctx, e, func(url string) error { return migrateUp(ctx, url, e.log) })
}

func (c *migrateDownCmd) Run(ctx context.Context, e *env) error {
	return c.use(ctx, e, func(url string) error {
		return withMigrator(ctx, url, e.log, func(m *store.Migrator) error { return m.Down(ctx) })
	})
}

func (c *migrateStatusCmd) Run(ctx context.Context, e *env) error {
	return c.use(ctx, e, func(url string) error {
		return withMigrator(ctx, url, e.log, func(m *store.Migrator) error { return c.print(ctx, e, m) })
	})
}

func (c *migrateStatusCmd) print(ctx context.Context, e *env, m *store.Migrator) error {
	migrations, err := m.Status(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		views := make([]migrationView, len(migrations))
		for i, v := range migrations {
			views[i] = migrationView(v)
		}
		return encodeAll(json.NewEncoder(e.stdout), views)
	}
	return printTable(e.stdout, "VERSION\tNAME\tAPPLIED", migrations, func(m store.Migration) string {
		return fmt.Sprintf("%d\t%s\t%s", m.Version, m.Name, map[bool]string{true: "yes", false: "no"}[m.Applied])
	})
}

// use passes the URL of the configured or the private database to do, and then closes the
// database.
func (f databaseFlags) use(ctx context.Context, e *env, do func(url string) error) (err error) {
	url, closeDatabase, err := f.open(ctx, e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDatabase()) }()
	return do(url)
}

func withMigrator(ctx context.Context, url string, log *slog.Logger, do func(*store.Migrator) error) error {
	m, err := store.NewMigrator(ctx, url, log)
	if err != nil {
		return err
	}
	return errors.Join(do(m), m.Close())
}

func migrateUp(ctx context.Context, url string, log *slog.Logger) error {
	return withMigrator(ctx, url, log, func(m *store.Migrator) error { return m.Up(ctx) })
}
