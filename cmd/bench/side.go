package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	// runsAtOnce is the number of runs of which all are in progress at the same time.
	runsAtOnce = 800
	// smallRequest is the number of records in a small request.
	smallRequest = 100
)

// measureSide writes runs that are in progress at the same time. With each request a client reports the
// next event of each of its runs. So a request touches as many trees as it has records, and every row
// is written when it starts and again when it ends. That is what a server does when many agents are at
// work. It also writes runs one after the other, in small requests.
func measureSide(ctx context.Context, b *bench) (figures []figure, err error) {
	srv, err := b.served(ctx, "side")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, srv.close()) }()
	client := newClient()
	defer client.CloseIdleConnections()

	for _, v := range []struct {
		name     string
		runs     int
		together int // runs of a client that are in progress at the same time
		records  int // per request
		target   *target
	}{
		{"80 runs at once", b.n(runsAtOnce, clients), 80 / clients, 80 / clients, nil}, // see measureWrite
		{"800 runs at once", b.n(runsAtOnce, clients), runsAtOnce / clients, runsAtOnce / clients, nil},
		{"run after run, requests of 100", b.n(clients*runsOfClient, clients), 1, smallRequest, atLeast(0.3)},
	} {
		var l load
		prepare := func(ctx context.Context) (_ writer, err error) {
			l, err = b.loadOf(ctx, v.runs, v.records, b.text.sideBySide(v.together))
			return func(ctx context.Context, i int) error { return l.send(ctx, client, srv.url, i) }, err
		}

		f, err := b.againstCopy(ctx, srv.db, v.name, v.runs*rowsOfRun, clients, prepare, v.target)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.name, err)
		}

		rate, wal, err := l.cost(ctx, srv, client)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.name, err)
		}
		figures = append(figures, f.noted("%s; %.0f records/s", f.Note, rate),
			alone(v.name+", WAL a byte of JSON", "bytes", []float64{wal}, atMost(1.4)))
	}

	return figures, nil
}

// cost sends a load once more. It returns the records per second, and the bytes of WAL that Postgres
// writes for a byte of JSON.
func (l *load) cost(ctx context.Context, srv *served, client *http.Client) (rate, wal float64, err error) {
	if err := srv.db.empty(ctx); err != nil {
		return 0, 0, err
	}

	written := func() (bytes float64, err error) {
		err = srv.db.pool.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn() - '0/0'").Scan(&bytes)
		return bytes, err
	}
	before, err := written()
	if err != nil {
		return 0, 0, err
	}

	start := time.Now()
	if err := concurrently(clients, func(i int) error { return l.send(ctx, client, srv.url, i) }); err != nil {
		return 0, 0, err
	}
	took := time.Since(start)
	after, err := written()
	records, bytes := l.size()
	return float64(records) / took.Seconds(), (after - before) / float64(bytes), err
}
