package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/recorder"
	"github.com/actlog/actlog/recorder/direct"
)

// clockTick is the unit of processor times in /proc, in milliseconds.
const clockTick = 10

// measureReplica reads lists, searches, charts and exports from 8 clients, at a server with a replica and at one
// without, and measures the processor time of the primary for each.
func measureReplica(ctx context.Context, b *bench) (figures []figure, err error) {
	if runtime.GOOS != "linux" {
		return []figure{alone("reads at a replica", "ms", nil, nil).noted("not measured: only Linux tells it")}, nil
	}

	srv, err := b.served(ctx, "replica")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, srv.close()) }()

	if err := b.fillSearched(ctx, srv.db, b.n(20_000, 100)); err != nil {
		return nil, err
	}
	if err := fillIndex(ctx, srv.store); err != nil {
		return nil, err
	}
	if err := srv.db.settle(ctx); err != nil {
		return nil, err
	}

	primary := filepath.Join(b.dir, "postgres")
	standby, err := pgtest.Follow(ctx, b.postgres.URL(), primary, filepath.Join(b.dir, "standby"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closing(standby.Close)) }()

	at, err := url.Parse(standby.URL())
	if err != nil {
		return nil, err
	}
	of, err := url.Parse(srv.db.url)
	if err != nil {
		return nil, err
	}
	at.Path = of.Path

	s, err := store.Open(ctx, store.Config{DatabaseURL: srv.db.url, ReplicaURL: at.String()})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closing(s.Close)) }()

	replicated, stop, err := listen(ctx, newAPI(s))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()

	for end := time.Now().Add(time.Minute); !s.Stats().Replica.Used; {
		if time.Now().After(end) {
			return nil, errors.New("the replica is not used")
		}
		if err := wait(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}

	client := newClient()
	defer client.CloseIdleConnections()

	for _, reads := range []struct{ name, path string }{
		{"lists", "/api/v1/plans?limit=50"},
		{"filtered lists", "/api/v1/plans?limit=50&state=FAILED&agent=none"},
		{"searches", "/api/v1/plans?limit=50&q=Rarity"},
		{"charts", "/charts"},
	} {
		of := func(server string) func(context.Context) (float64, error) {
			return func(ctx context.Context) (float64, error) {
				return b.primaryTime(ctx, primary, client, server+reads.path)
			}
		}

		ours, baseline, err := b.byTurns(ctx, of(replicated), of(srv.url))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", reads.name, err)
		}
		figures = append(figures, against("the primary's processor time for "+reads.name+" at a replica", "ms", ours,
			baseline,
			"without a replica", atMost(0.1)))
	}

	passed := s.Stats().Replica.Passed
	figures[0] = figures[0].noted("%d of all reads were made at the primary instead", passed)
	waits, err := b.waitedCalls(ctx, srv.db.url)
	return append(figures, waits), err
}

// waitedCalls measures calls of a Recorder whose commits wait for the standby of this machine, and calls whose commits
// do not.
func (b *bench) waitedCalls(ctx context.Context, database string) (f figure, err error) {
	sink, err := direct.Open(ctx, database, nil)
	if err != nil {
		return figure{}, err
	}
	defer func() { err = errors.Join(err, closing(sink.Close)) }()

	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return figure{}, err
	}
	defer func() { _ = conn.Close(ctx) }()

	rec := recorder.New(sink, recorder.Options{})
	of := func(standbys, state string) func(context.Context) (float64, error) {
		return func(ctx context.Context) (float64, error) {
			if err := setStandbys(ctx, conn, standbys, state); err != nil {
				return 0, err
			}
			next, stop := iter.Pull(b.text.endless(ctx, rec))
			defer stop()
			return medianMicroseconds(b.n(1_000, 20), func() error {
				err, _ := next()
				return err
			})
		}
	}

	ours, baseline, err := b.byTurns(ctx, of("*", "sync"), of("", "async"))
	if err == nil {
		err = setStandbys(ctx, conn, "", "async")
	}
	return against("a synchronous call that waits for a standby, median", "us", ours, baseline, "one that does not", nil),
		err
}

// setStandbys sets synchronous_standby_names, and waits until the standby is in a state.
func setStandbys(ctx context.Context, conn *pgx.Conn, names, state string) error {
	for _, statement := range []string{
		"ALTER SYSTEM SET synchronous_standby_names = '" + names + "'", "SELECT pg_reload_conf()",
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}

	for end := time.Now().Add(time.Minute); ; {
		var is bool
		err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = $1)", state).Scan(&is)
		if err == nil && !is && time.Now().After(end) {
			err = fmt.Errorf("the standby does not become %s", state)
		}
		if err != nil || is {
			return err
		}
		if err := wait(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// primaryTime returns the processor time of a Postgres, in milliseconds, while 8 clients read something.
func (b *bench) primaryTime(ctx context.Context, folder string, client *http.Client, url string) (float64, error) {
	before, err := postgresTime(folder)
	if err != nil {
		return 0, err
	}

	reads := b.n(50, 2)
	err = concurrently(clients, func(int) error {
		for range reads {
			if _, err := get(ctx, client, url, "", io.Discard); err != nil {
				return err
			}
		}
		return nil
	})

	after, timeErr := postgresTime(folder)
	// A tick, at least: a ratio needs something.
	return float64(max(1, after-before) * clockTick), errors.Join(err, timeErr)
}

// postgresTime returns what a Postgres and its sessions have used, those that ended included, in ticks.
func postgresTime(folder string) (ticks int64, err error) {
	content, err := os.ReadFile(filepath.Join(folder, "data", "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	postmaster, _, _ := strings.Cut(string(content), "\n")
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}

	for _, path := range stats {
		content, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) { // it has ended
			continue
		}
		if err != nil {
			return 0, err
		}

		text := string(content)
		fields := strings.Fields(text[strings.LastIndex(text, ")")+1:]) // from the state on
		own := strings.HasPrefix(text, postmaster+" ")
		if len(fields) < 15 || !own && fields[1] != postmaster {
			continue
		}

		times := fields[11:13] // utime, stime
		if own {
			times = slices.Concat(times, fields[13:15]) // and those of sessions that ended
		}
		for _, f := range times {
			n, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", path, err)
			}
			ticks += n
		}
	}

	return ticks, nil
}
