package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/feed"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/record"
)

// ApplyPrices gives prices to the cycles on record that have none and are of the UTC day of
// since or later, and rolls their costs up. It returns how many there were, and calls done, if
// not nil, with the same as it goes on. After an error it may be called again.
func (s *Store) ApplyPrices(ctx context.Context, since time.Time, done func(cycles int64)) (int64, error) {
	total, err := s.applyPrices(ctx, since, done)
	if err != nil {
		err = fmt.Errorf("apply prices: %w", pg.Translate(err))
	}
	return total, err
}

func (s *Store) applyPrices(ctx context.Context, since time.Time, done func(cycles int64)) (total int64, err error) {
	if err := s.prices.load(ctx); err != nil {
		return 0, err
	}
	unpriced, err := s.queries.ModelUnpriced(ctx, s.db, since)
	if err != nil {
		return 0, err
	}

	for _, u := range unpriced {
		provider := optional.Value(u.Provider)
		price := s.prices.list.Load().of(provider, u.Model, u.Day)
		if price == nil {
			continue
		}

		for more := true; more; {
			var cycles int64
			err := s.db.Transact(ctx, func(tx pgx.Tx) (err error) {
				cycles, more, err = s.applyPrice(ctx, tx, price, provider, u)
				return err
			})
			if err != nil {
				return total, err
			}

			s.feed.Grew()
			if total += cycles; done != nil {
				done(total)
			}
		}
	}
	return total, nil
}

// applyPrice gives a price to the cycles of some steps. more reports that there may be others.
func (s *Store) applyPrice(
	ctx context.Context, tx pgx.Tx, price *Price, provider string, u db.ModelUnpricedRow,
) (cycles int64, more bool, err error) {
	steps, err := s.queries.ModelUnpricedSteps(ctx, tx, db.ModelUnpricedStepsParams{
		Day: u.Day, Model: u.Model, Provider: provider,
	})
	if err != nil || len(steps) == 0 {
		return 0, false, err
	}

	wanted := make([]string, len(steps))
	for i, step := range steps {
		wanted[i] = step.RootPlanID
	}
	there, err := s.queries.PlanLock(ctx, tx, wanted)
	if err != nil {
		return 0, false, err
	}

	var roots, ids []string
	var rows []*field.Row
	touched := feed.Touched{}
	for _, step := range steps {
		if slices.Contains(there, step.RootPlanID) { // else it was deleted meanwhile
			roots, ids = append(roots, step.RootPlanID), append(ids, step.StepID)
			rows = append(rows, &field.Row{Change: &record.AgentExecution{RootPlanID: step.RootPlanID, StepID: step.StepID}})
			touched.Add(step.RootPlanID, record.KindThinkAct)
		}
	}
	if len(rows) == 0 {
		return 0, true, nil
	}

	base := price.whole()
	cycles, err = s.queries.ModelPriceApply(ctx, tx, db.ModelPriceApplyParams{
		InputUSD: base.Input, OutputUSD: base.Output, CacheReadUSD: *base.CacheRead, CacheWriteUSD: *base.CacheWrite,
		Tariff:      price.tariff(),
		RootPlanIds: roots, StepIds: ids, Day: u.Day, Model: u.Model, Provider: provider,
	})
	if err != nil {
		return 0, false, err
	}

	var q pgx.Batch
	s.sender.statements.merge(&q, rows, assumed{}) // rolls the steps up
	touched.Append(&q)
	return cycles, true, tx.SendBatch(ctx, &q).Close()
}
