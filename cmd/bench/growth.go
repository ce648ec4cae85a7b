package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/record"
)

// A record grows in ten parts. Each part has chunksOfTenth chunks, and each chunk has a rate.
const chunksOfTenth = 10

// inMemoryMS bounds the fsync of a folder in memory.
const inMemoryMS = 0.01

// measureGrowth fills one record with 2 million rows and another with a hundredth of that. It
// compares the reads of both, and the write rates of the first and the last tenth of the large one.
// On a disk, the kernel has gigabytes to write by then, so that less is asked for than in memory.
func measureGrowth(ctx context.Context, b *bench) (figures []figure, err error) {
	rows := b.n(2_000_000, 10*chunksOfTenth*rowsOfRun)

	large, largeStore, err := b.openStore(ctx, "growth_large")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closing(largeStore.Close), large.drop()) }()

	small, smallStore, err := b.openStore(ctx, "growth_small")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closing(smallStore.Close), small.drop()) }()

	runs := rows / rowsOfRun
	rates, err := b.grow(ctx, largeStore, runs)
	if err != nil {
		return nil, err
	}

	first, last := rates[:chunksOfTenth], rates[len(rates)-chunksOfTenth:]
	least := 0.75
	if b.machine.FsyncMS < inMemoryMS {
		least = 0.85
	}
	f := against(fmt.Sprintf("writing the last tenth of %d rows", rows), "rows/s", last, first, "the first tenth",
		atLeast(least))
	figures = append(figures, f.noted("ratio by chunk of %d rows", runs/(10*chunksOfTenth)*rowsOfRun))

	if err := b.text.fill(ctx, smallStore, 0, max(clients, runs/100)); err != nil {
		return nil, err
	}
	for _, db := range []*database{large, small} {
		if err := db.settle(ctx); err != nil {
			return nil, err
		}
	}

	for _, v := range []struct {
		name, ids string
		read      func(ctx context.Context, s *store.Store, id string) error
	}{
		{"tree", "SELECT root_plan_id FROM actlog.plan_execution_record ORDER BY 1",
			func(ctx context.Context, s *store.Store, id string) error {
				_, _, err := s.PlanTree(ctx, "", id)
				return err
			}},
		{"step", "SELECT step_id FROM actlog.agent_execution_record ORDER BY 1",
			func(ctx context.Context, s *store.Store, id string) error {
				_, err := s.StepDetail(ctx, "", id)
				return err
			}},
	} {
		median := func(db *database, s *store.Store) (func(context.Context) (float64, error), error) {
			sample, err := ids(ctx, db, v.ids, b.n(300, 10))
			return func(ctx context.Context) (float64, error) {
				var took []float64
				for i := range b.n(2_000, 20) {
					start := time.Now()
					if err := v.read(ctx, s, sample[i%len(sample)]); err != nil {
						return 0, err
					}
					took = append(took, 1_000*ms(time.Since(start)))
				}
				return valueOf(took).Median, nil
			}, err
		}

		readLarge, err := median(large, largeStore)
		if err != nil {
			return nil, err
		}
		readSmall, err := median(small, smallStore)
		if err != nil {
			return nil, err
		}

		ours, baseline, err := b.byTurns(ctx, readLarge, readSmall)
		if err != nil {
			return nil, err
		}
		figures = append(figures, against(fmt.Sprintf("%s among %d rows", v.name, rows), "us", ours, baseline, "a hundredth",
			atMost(1.3)))
	}

	return figures, nil
}

// openStore creates a database and opens its store.
func (b *bench) openStore(ctx context.Context, name string) (*database, *store.Store, error) {
	db, err := b.database(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	s, err := db.store(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, db.drop())
	}
	return db, s, nil
}

// grow writes runs in chunks, from all clients, each row once and complete. It returns the rows per
// second of each chunk. The texts are made between the chunks.
func (b *bench) grow(ctx context.Context, s *store.Store, runs int) (rates []float64, err error) {
	const chunks = 10 * chunksOfTenth
	for chunk := range chunks {
		from, to := share(runs, chunk, chunks)
		batches, err := b.batches(ctx, to-from, batchRecords,
			func(ctx context.Context, first, last int) ([]record.Change, error) {
				return b.text.whole(ctx, from+first, from+last)
			})
		if err != nil {
			return nil, err
		}

		start := time.Now()
		err = concurrently(clients, func(i int) error {
			for _, batch := range batches[i] {
				if err := write(ctx, s, batch); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		rates = append(rates, float64((to-from)*rowsOfRun)/time.Since(start).Seconds())
	}

	return rates, nil
}
