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
	// batchRecords is what a client sends at once.
	batchRecords = 500
	// runsApart is how many runs each client tells side by side where starts and ends
	// come apart: one call of each is more than half a batch.
	runsApart = 300
	// runsOfClient is how many runs each client tells, where they do not.
	runsOfClient = 500
)

const mbPerSecond = "MB/s"

// measureWrite writes runs through recorder/direct from 8 goroutines, each with a
// Recorder and a Buffer of its own, until all is committed.
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
	told := func(runs, together int) prepare {
		return func(context.Context) (writer, error) {
			return func(ctx context.Context, i int) error {
				from, to := share(runs, i, clients)
				buffer := recorder.NewBuffer(sink, recorder.BufferOptions{BatchRecords: batchRecords})
				err := b.text.tell(ctx, recorder.New(buffer, recorder.Options{EndTimeout: time.Minute}), from, to, together)
				return errors.Join(err, closing(buffer.Close))
			}, nil
		}
	}
	whole := func(ctx context.Context) (writer, error) {
		batches, err := b.batches(ctx, runs, b.text.whole)
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
		{"run after run", runs, told(runs, 1), atLeast(0.7)},
		{"rows told whole", runs, whole, atLeast(0.7)},
		// COPY cannot write a row twice, so this is not held against it.
		{"started, later ended", apart, told(apart, runsApart), nil},
	} {
		f, err := b.againstCopy(ctx, db, "in process, "+v.name, v.runs*rowsOfRun, clients, v.prepare, v.target)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.name, err)
		}
		figures = append(figures, f)
	}
	return figures, nil
}

// batches makes what each client is to write of so many runs.
func (b *bench) batches(ctx context.Context, runs int, changes func(ctx context.Context, from, to int) ([]record.Change, error)) (of [clients][][]record.Change, err error) {
	for i := range of {
		from, to := share(runs, i, clients)
		all, err := changes(ctx, from, to)
		if err != nil {
			return of, err
		}
		for len(all) > 0 {
			n := min(batchRecords, len(all))
			of[i], all = append(of[i], all[:n]), all[n:]
		}
	}
	return of, nil
}

// writer writes what the i-th client has to say.
type writer func(ctx context.Context, i int) error

// prepare makes what clients are to write, of runs that no one has told of before: a
// store remembers those that it has written.
type prepare func(ctx context.Context) (writer, error)

// againstCopy has clients write so many rows into an emptied record, until all is
// committed, and copies what came of it, by turns.
func (b *bench) againstCopy(ctx context.Context, db *database, name string, rows, clients int, prepare prepare, t *target) (figure, error) {
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
			err = fmt.Errorf("%d rows are on record, not %d", got, rows)
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
	ours, beside, err := b.byTurns(ctx, rate(once), rate(c.copy))
	if err != nil {
		return figure{}, err
	}
	f := against(name, mbPerSecond, ours, beside, "COPY", t)
	return f.noted("%s", c.note(f.Ours)), nil
}
