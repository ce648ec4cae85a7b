package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/store"
)

// measureSearch searches a million plans over HTTP: for words that none, few or all of them have,
// alone and with other filters.
func measureSearch(ctx context.Context, b *bench) (figures []figure, err error) {
	srv, err := b.served(ctx, "search")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, srv.close()) }()

	plans := b.n(1_000_000, 100)
	if err := b.fillSearched(ctx, srv.db, plans); err != nil {
		return nil, err
	}

	var size int64
	start := time.Now()
	if err := fillIndex(ctx, srv.store); err != nil {
		return nil, err
	}

	took := time.Since(start)
	err = srv.db.pool.QueryRow(ctx, `SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class AS c
		WHERE c.relnamespace = 'actlog'::regnamespace AND c.relkind = 'r' AND c.relname LIKE 'search\_%'`).Scan(&size)
	if err != nil {
		return nil, err
	}
	figures = append(figures,
		alone("making the index", "us/plan", []float64{float64(took.Microseconds()) / float64(plans)}, nil),
		alone("size of the index", "bytes/plan", []float64{float64(size) / float64(plans)}, nil))

	if err := srv.db.settle(ctx); err != nil {
		return nil, err
	}
	client := newClient()
	defer client.CloseIdleConnections()

	for _, v := range []struct {
		name, q, filters string
		target           *target
	}{
		{"no hit", "zyzzyva", "", atMost(50)},
		{"no hit, words that all have", "title4711no", "", atMost(50)},
		{"rare word", "Rarity", "", atMost(50)},
		{"rare word, of one state", "Rarity", "&state=FAILED", atMost(50)},
		{"word that all have", "plan", "", atMost(50)},
		{"word that all have, of one state", "plan", "&state=FAILED", atMost(50)},
		{"word that only old plans have", "outage", "", atMost(50)},
		{"a rare word and one that all have", "plan rarity", "", atMost(50)},
		{"id in a title", "000" + fmt.Sprint(plans/2), "", atMost(50)},
		{"two letters that all have", "pl", "", atMost(50)},
	} {
		times, _, err := b.byTurns(ctx, func(ctx context.Context) (float64, error) {
			start := time.Now()
			_, err := get(ctx, client, srv.url+"/api/v1/plans?limit=50&q="+url.QueryEscape(v.q)+v.filters, "", io.Discard)
			return ms(time.Since(start)), err
		}, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.name, err)
		}
		figures = append(figures, alone(fmt.Sprintf("%s, among %d plans", v.name, plans), "ms", times, v.target))
	}

	return figures, nil
}

// fillIndex indexes all plans.
func fillIndex(ctx context.Context, s *store.Store) error {
	for after := new(store.Beginning()); after != nil; {
		err := s.DB().Transact(ctx, func(tx pgx.Tx) (err error) {
			after, err = s.IndexMissing(ctx, tx, *after)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// fillSearched adds plans with texts, first seen one second apart. The older half of them, without
// the oldest tenth, had an outage.
func (b *bench) fillSearched(ctx context.Context, db *database, n int) error {
	r := rand.New(rand.NewPCG(b.text.seed, 7))
	newest := time.Now()

	_, err := db.pool.CopyFrom(ctx, pgx.Identifier{"actlog", "plan_execution_record"},
		[]string{
			"root_plan_id", "current_plan_id", "part", "first_seen_at", "title", "user_request", "summary", "error_message",
			"told_state",
		},
		pgx.CopyFromSlice(n, func(i int) ([]any, error) {
			id := fmt.Sprintf("plan-%08d", n-i)
			title := fmt.Sprintf("A title of plan 000%d: %s", i, b.text.title(r))
			if i%(n/20) == n/40 {
				title += " rarity"
			}

			state, failure := "COMPLETED", (*string)(nil)
			if i%20 == 0 {
				state, failure = "FAILED", new("it failed")
			}
			if i >= n/2 && i < n-n/10 {
				failure = new("ECONNREFUSED in an outage")
			}

			return []any{
				id, id, newest.AddDate(0, 0, -3), newest.Add(-time.Duration(i) * time.Second), title, cut(r, b.text.prose, 300),
				b.text.answer(r), failure, state,
			}, nil
		}))
	if err != nil {
		return fmt.Errorf("fill in plans: %w", err)
	}
	return nil
}
