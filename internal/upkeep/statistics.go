package upkeep

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/pg"
)

// analyzeEvery is how often it is looked for tables that Postgres knows nothing of.
const analyzeEvery = 5 * time.Second

// keepStatistics has new tables analyzed until ctx ends. Postgres does so by itself, but a minute later
// or more. Until then it takes a partition for empty, and may read all of it for each row that is
// looked up.
func (u *Upkeep) keepStatistics(ctx context.Context) {
	for pg.Pause(ctx, analyzeEvery) == nil {
		u.done(ctx, u.analyzeNew(ctx))
	}
}

// analyzeNew analyzes the tables that have many rows and were never analyzed.
func (u *Upkeep) analyzeNew(ctx context.Context) error {
	tables, err := u.queries.StatisticsMissing(ctx, u.db)
	if err != nil {
		return fmt.Errorf("look for tables without statistics: %w", err)
	}
	for _, table := range tables {
		err := u.inTurn(ctx, taskStatistics, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "ANALYZE "+pgx.Identifier{"actlog", table}.Sanitize())
			return err
		})
		if err != nil {
			return fmt.Errorf("analyze %s: %w", table, err)
		}
	}
	return nil
}
