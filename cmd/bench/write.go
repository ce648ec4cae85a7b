package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/actlog/actlog/record"
	"github.com/actlog/actlog/recorder"
	"github.com/actlog/actlog/recorder/direct"
)

const (
	// batchRecords is the number of records in one batch of a client.
	batchRecords = 500
	// runsApart is the number of runs that each client records side by side if starts and ends
	// must not share a batch: one call of each run fills more than half a batch.
	runsApart = 300
	// runsOfClient is the number of runs that each client records otherwise.
	runsOfClient = 500
)

const mbPerSecond = "MB/s"

// measureWrite writes runs through recorder/direct from 8 goroutines, each with its own Recorder and
// Buffer, until everything is committed.
func measureWrite(ctx context.Context, b *bench) (figures []figure, err error) {
	db, err := b.database(ctx, "write")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.drop()) }()

	var sink *direct.Sink
	onSide(ctx, sideOurs, func(ctx context.Context) { sink, err = direct.Open(ctx, db.url, nil) })
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closing(sink.Close)) }()

	runs, apart := b.n(clients*runsOfClient, clients), b.n(clients*runsApart, clients)
	recorded := func(runs, together int) prepare {
		return func(context.Context) (writer, error) {
			return func(ctx context.Context, i int) error {
				from, to := share(runs, i, clients)
				buffer := recorder.NewBuffer(sink, recorder.BufferOptions{BatchRecords: batchRecords})
				err := b.text.recordRuns(ctx, recorder.New(buffer, recorder.Options{EndTimeout: time.Minute}), from, to, together)
				return errors.Join(err, closing(buffer.Close))
			}, nil
		}
	}

	whole := func(ctx context.Context) (writer, error) {
		batches, err := b.batches(ctx, runs, batchRecords, b.text.whole)
		return func(ctx context.Context, i int) error {
			for _, batch := range batches[i] {
				if err := write(ctx, sink, batch); err != nil {
					return err
				}
			}
			return nil
		}, err
	}

	for _, v := range []struct {
		name    string
		runs    int
		prepare prepare
		target  *target
	}{
		{"run after run", runs, recorded(runs, 1), atLeast(0.7)},
		{"whole rows", runs, whole, atLeast(0.7)},
		// COPY cannot write a row twice, so this has no target.
		{"started, later ended", apart, recorded(apart, runsApart), nil},
	} {
		f, err := b.againstCopy(ctx, db, "in process, "+v.name, v.runs*rowsOfRun, clients, v.prepare, v.target)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.name, err)
		}
		figures = append(figures, f)
	}
	return figures, nil
}

// batches returns the batches that each client writes for a number of runs, of so many records.
func (b *bench) batches(
	ctx context.Context, runs, records int, changes func(ctx context.Context, from, to int) ([]record.Change, error),
) (perClient [clients][][]record.Change, err error) {
	for i := range perClient {
		from, to := share(runs, i, clients)
		all, err := changes(ctx, from, to)
		if err != nil {
			return perClient, err
		}

		for len(all) > 0 {
			n := min(records, len(all))
			perClient[i], all = append(perClient[i], all[:n]), all[n:]
		}
	}
	return perClient, nil
}

// writer writes the batches of the i-th client.
type writer func(ctx context.Context, i int) error

// prepare makes the batches of the clients. The runs must be new, because a store remembers those
// that it has written.
type prepare func(ctx context.Context) (writer, error)

// againstCopy lets clients write rows into an empty record until everything is committed, and
// copies the same rows with COPY, by turns.
func (b *bench) againstCopy(
	ctx context.Context, db *database, name string, rows, clients int, prepare prepare, t *target,
) (figure, error) {
	once := func(ctx context.Context) (time.Duration, error) {
		if err := db.empty(ctx); err != nil {
			return 0, err
		}
		write, err := prepare(ctx)
		if err != nil {
			return 0, err
		}

		start := time.Now()
		if err := concurrently(clients, func(i int) error { return write(ctx, i) }); err != nil {
			return 0, err
		}
		took := time.Since(start)

		got, err := db.rows(ctx)
		if err == nil && got != rows {
			err = fmt.Errorf("%d rows are on record, want %d", got, rows)
		}
		return took, err
	}

	if _, err := once(ctx); err != nil {
		return figure{}, err
	}
	c, err := ceilingOf(ctx, db)
	if err != nil {
		return figure{}, err
	}

	rate := func(write func(context.Context) (time.Duration, error)) func(context.Context) (float64, error) {
		return func(ctx context.Context) (float64, error) {
			took, err := write(ctx)
			return c.perSecond(took), err
		}
	}
	ours, baseline, err := b.byTurns(ctx, rate(once), rate(c.copy))
	if err != nil {
		return figure{}, err
	}

	f := against(name, mbPerSecond, ours, baseline, "COPY", t)
	return f.noted("%s", c.note(f.Ours)), nil
}
