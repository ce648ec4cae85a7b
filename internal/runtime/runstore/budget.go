package runstore

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/pg"
)

// BudgetPlace returns the place of which there are none once a project has spent its budget, see [Most].
func BudgetPlace(project string) string { return "budget:" + project }

// Spent returns what the runs of projects spent on models today, in US dollars, up to what was committed before the
// call. The day is that of the database, in UTC. Each project has a budget, which is noted for those who read runs.
func (s *Store) Spent(ctx context.Context, budgets map[string]float64) (map[string]float64, error) {
	projects := append([]string{}, slices.Sorted(maps.Keys(budgets))...)
	amounts := make([]float64, len(projects))
	for i, project := range projects {
		amounts[i] = budgets[project]
	}

	spent := make(map[string]float64, len(projects))
	q := &pgx.Batch{}
	q.Queue(db.BudgetTurn)
	q.Queue(db.BudgetCount)
	q.Queue(db.BudgetSpent, projects, amounts).Query(func(rows pgx.Rows) error {
		var project string
		var cost float64
		_, err := pgx.ForEachRow(rows, []any{&project, &cost}, func() error {
			spent[project] = cost
			return nil
		})
		return err
	})

	if err := s.DB().Send(ctx, q); err != nil {
		return nil, fmt.Errorf("count what projects have spent: %w", pg.Translate(err))
	}
	return spent, nil
}
