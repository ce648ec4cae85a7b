package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"text/tabwriter"

	"github.com/actlog/actlog/internal/store"
)

type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Apply every migration that is missing."`
	Down   migrateDownCmd   `cmd:"" help:"Take the newest migration back. What it holds is removed."`
	Status migrateStatusCmd `cmd:"" help:"List the migrations."`
}

type (
	migrateUpCmd     struct{ databaseFlags }
	migrateDownCmd   struct{ databaseFlags }
	migrateStatusCmd struct {
		JSON bool `help:"Print the migrations as JSON, one a line."`
		databaseFlags
	}
)

// migrationView is a migration as JSON.
type migrationView struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
	Applied bool   `json:"applied"`
}

// Run implements the command.
func (c *migrateUpCmd) Run(ctx context.Context, e *env) error {
	return withMigrator(ctx, c.databaseFlags, e, func(m *store.Migrator) error { return m.Up(ctx) })
}

// Run implements the command.
func (c *migrateDownCmd) Run(ctx context.Context, e *env) error {
	return withMigrator(ctx, c.databaseFlags, e, func(m *store.Migrator) error { return m.Down(ctx) })
}

// Run implements the command.
func (c *migrateStatusCmd) Run(ctx context.Context, e *env) error {
	return withMigrator(ctx, c.databaseFlags, e, func(m *store.Migrator) error {
		migrations, err := m.Status(ctx)
		if err != nil {
			return err
		}
		if c.JSON {
			enc := json.NewEncoder(e.stdout)
			for _, v := range migrations {
				if err := enc.Encode(migrationView(v)); err != nil {
					return err
				}
			}
			return nil
		}
		w := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "VERSION\tNAME\tAPPLIED")
		for _, v := range migrations {
			applied := "no"
			if v.Applied {
				applied = "yes"
			}
			fmt.Fprintf(w, "%d\t%s\t%s\n", v.Version, v.Name, applied)
		}
		return w.Flush()
	})
}

// withMigrator opens the configured or the private database, and closes it.
func withMigrator(ctx context.Context, flags databaseFlags, e *env, do func(*store.Migrator) error) (err error) {
	url, closeDatabase, err := flags.open(ctx, e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDatabase()) }()
	m, err := store.NewMigrator(ctx, url, e.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	return do(m)
}

func migrateUp(ctx context.Context, url string, log *slog.Logger) error {
	m, err := store.NewMigrator(ctx, url, log)
	if err != nil {
		return err
	}
	return errors.Join(m.Up(ctx), m.Close())
}
