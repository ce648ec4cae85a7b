package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// manyServers is how many servers write to one primary.
const manyServers = 4

// measureServers posts the same requests from 64 clients to four servers of one database and to one of them; and from
// 8: then each of four servers has little to put into one transaction.
func measureServers(ctx context.Context, b *bench) (figures []figure, err error) {
	srv, err := b.served(ctx, "servers")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, srv.close()) }()

	urls := []string{srv.url}
	for range manyServers - 1 {
		s, err := srv.db.store(ctx)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, closing(s.Close)) }()

		url, stop, err := listen(ctx, newAPI(s))
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, stop()) }()
		urls = append(urls, url)
	}

	client := newClient()
	defer client.CloseIdleConnections()

	for _, v := range []struct {
		records int
		share   int // how many clients send each list of requests
		target  *target
	}{{batchRecords, 8, atLeast(0.95)}, {smallRequest, 8, atLeast(0.95)}, {batchRecords, 1, nil}} {
		l, err := b.loadOf(ctx, b.n(clients*runsOfClient, clients), v.records, b.text.sideBySide(1))
		if err != nil {
			return nil, err
		}
		records, _ := l.size()

		split := make([]load, v.share) // the order of requests makes no difference
		for i, requests := range l {
			for n, r := range requests {
				split[n%v.share][i] = append(split[n%v.share][i], r)
			}
		}

		name := fmt.Sprintf("%d servers, %d clients, requests of %d records", manyServers, clients*v.share, v.records)
		to := func(servers int) func(context.Context) (float64, error) {
			return func(ctx context.Context) (float64, error) {
				if err := srv.db.empty(ctx); err != nil {
					return 0, err
				}
				start := time.Now()
				err := concurrently(clients*v.share, func(i int) error {
					return split[i/clients].send(ctx, client, urls[i%servers], i%clients)
				})
				return float64(records) / time.Since(start).Seconds(), err
			}
		}

		ours, baseline, err := b.byTurns(ctx, to(manyServers), to(1))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		figures = append(figures, against(name, "records/s", ours, baseline, "one server", v.target))
	}

	return figures, nil
}
