package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/actlog/actlog/internal/record/store"
)

type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Apply every migration that is missing."`
	Down   migrateDownCmd   `cmd:"" help:"Revert the newest migration, and delete what its tables and columns hold."`
	Status migrateStatusCmd `cmd:"" help:"List the migrations."`
}

type (
	migrateUpCmd   struct{ databaseFlags }
	migrateDownCmd struct {
		Yes   bool `help:"Do not ask." env:"-"`
		Force bool `help:"Migrate down although servers or workers are connected. They fail from then on." env:"-"`
		databaseFlags
	}
	migrateStatusCmd struct {
		JSON bool `help:"Print the migrations as JSON, one per line."`
		databaseFlags
	}
)

type migrationView struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
	Applied bool   `json:"applied"`
}

func (c *migrateUpCmd) Run(ctx context.Context, e *env) error {
	return c.useOrMake(ctx, e, func(url string) error { return migrateUp(ctx, url, e.log) })
}

func (c *migrateDownCmd) Run(ctx context.Context, e *env) error {
	return withMigrator(ctx, c.databaseFlags, e, func(m *store.Migrator, ctx context.Context) error {
		loss, err := m.Lost(ctx)
		if err != nil {
			return err
		}

		sessions, err := m.Connected(ctx)
		if err != nil {
			return err
		}
		if sessions > 0 && !c.Force {
			return fmt.Errorf("migrate down: servers, workers or other programs use this database (sessions: %d), and would "+
				"fail: stop them first, or pass --force", sessions)
		}

		if !c.Yes {
			if err := confirm(ctx, e, "migrate down", loss.String()+"\nGo on?"); err != nil {
				return err
			}
		} else {
			fmt.Fprintln(e.stderr, loss)
		}
		return m.Down(ctx)
	})
}

func (c *migrateStatusCmd) Run(ctx context.Context, e *env) error {
	return withMigrator(ctx, c.databaseFlags, e, func(m *store.Migrator, ctx context.Context) error {
		migrations, err := m.Status(ctx)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(migrations, func(m store.Migration) bool { return m.Applied }) {
			fmt.Fprintf(e.stderr, "actlog: %s\n", noRecord)
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
	})
}

func withMigrator(
	ctx context.Context, flags databaseFlags, e *env, do func(*store.Migrator, context.Context) error,
) error {
	return flags.use(ctx, e, func(url string) error { return migrate(ctx, url, e.log, do) })
}

func migrateUp(ctx context.Context, url string, log *slog.Logger) error {
	return migrate(ctx, url, log, (*store.Migrator).Up)
}

func migrate(ctx context.Context, url string, log *slog.Logger, do func(*store.Migrator, context.Context) error) error {
	m, err := store.NewMigrator(ctx, url, log)
	if err != nil {
		return err
	}
	return errors.Join(do(m, ctx), m.Close())
}
