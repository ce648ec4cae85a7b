package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// manyServers is how many servers write to one primary.
const manyServers = 4

// measureServers posts the same requests from 8 clients to four servers of one database and to one of them.
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
		name    string
		records int
	}{{"requests of 500 records", batchRecords}, {"requests of 100 records", smallRequest}} {
		l, err := b.loadOf(ctx, b.n(clients*runsOfClient, clients), v.records, b.text.sideBySide(1))
		if err != nil {
			return nil, err
		}
		records, _ := l.size()
		to := func(servers int) func(context.Context) (float64, error) {
			return func(ctx context.Context) (float64, error) {
				if err := srv.db.empty(ctx); err != nil {
					return 0, err
				}
				start := time.Now()
				err := concurrently(clients, func(i int) error { return l.send(ctx, client, urls[i%servers], i) })
				return float64(records) / time.Since(start).Seconds(), err
			}
		}
		ours, beside, err := b.byTurns(ctx, to(manyServers), to(1))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.name, err)
		}
		figures = append(figures, against(fmt.Sprintf("%d servers, %s", manyServers, v.name), "records/s", ours, beside, "one server", atLeast(0.95)))
	}
	return figures, nil
}
