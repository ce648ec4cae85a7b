package pg_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/record"
)

// crowdedURL returns the URL of a login that may have few connections at once.
func crowdedURL(t *testing.T, limit int) string {
	t.Helper()
	db := pgtest.New(t)
	role := fmt.Sprintf("crowded_%x", time.Now().UnixNano())
	exec := func(sql string) {
		t.Helper()
		if _, err := db.Pool.Exec(context.WithoutCancel(t.Context()), sql); err != nil {
			t.Fatal(err)
		}
	}

	exec(fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD 'secret' CONNECTION LIMIT %d", role, limit))
	t.Cleanup(func() {
		exec("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = '" + role + "'")
		exec("DROP ROLE " + role)
	})

	u, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "secret")
	return u.String()
}

func sleepFor(d *pg.DB, seconds float64) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := pg.Read(ctx, d, func() (struct{}, error) {
			_, err := d.Exec(ctx, "SELECT pg_sleep($1)", seconds)
			return struct{}{}, err
		})
		return err
	}
}

// O5: Postgres gives out fewer connections than the pool may have. Reads take turns on those that are held. Only if
// none becomes free in time they fail, with the reason.
func TestReadsTakeTurnsOnHeldConnections(t *testing.T) {
	t.Parallel()
	pool, err := pg.Open(t.Context(), pg.Config{URL: crowdedURL(t, 2), MaxConns: 8, Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	d := pool.ForReads(8)
	if d.Crowded() {
		t.Error("crowded although all connections were given out")
	}

	var reading sync.WaitGroup
	for range 24 {
		reading.Go(func() {
			if err := sleepFor(d, 0.02)(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	reading.Wait()
	if !pool.Crowded() {
		t.Error("it is not said that Postgres refuses connections")
	}

	for range 2 {
		held, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer held.Release()
	}

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := sleepFor(d, 0)(ctx); !errors.Is(err, record.ErrTooManyClients) || !errors.Is(err, record.ErrUnavailable) {
		t.Errorf("without a free connection: %v", err)
	}
	err = pg.ReadTx(ctx, d, func(pgx.Tx) error { return nil })
	if err == nil {
		t.Error("a transaction began without a connection")
	}
}

// O5: a read that Postgres ended because of a deadlock is made again. If that does not help, it is no outage.
func TestReadsAreMadeAgainAfterADeadlock(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)

	if _, err := db.Pool.Exec(t.Context(), `CREATE SEQUENCE public.tries;
		CREATE FUNCTION public.deadlock(times bigint) RETURNS bigint LANGUAGE plpgsql AS $$
		BEGIN
			IF nextval('public.tries') <= times THEN
				RAISE deadlock_detected USING MESSAGE = 'deadlock detected';
			END IF;
			RETURN currval('public.tries');
		END $$`); err != nil {
		t.Fatal(err)
	}

	d := open(t, db.URL)
	read := func(times int) (n int64, err error) {
		return pg.Read(t.Context(), d, func() (n int64, err error) {
			return n, d.QueryRow(t.Context(), "SELECT public.deadlock($1)", times).Scan(&n)
		})
	}

	if _, err := read(2); err != nil {
		t.Errorf("after two deadlocks: %v", err)
	}
	var locked *record.LockedError
	if _, err := read(1_000); !errors.As(err, &locked) || strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("after many: %v", err)
	}
}

// O1: what comes by itself is distinguished from what somebody has to correct.
func TestAbsent(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	change := func(f func(*url.URL)) string {
		u, err := url.Parse(db.URL)
		if err != nil {
			t.Fatal(err)
		}
		f(u)
		return u.String()
	}

	for name, tt := range map[string]struct {
		url    string
		absent bool
	}{
		"nobody listens":   {"postgres://127.0.0.1:1/x", true},
		"no such host":     {"postgres://nowhere.invalid/x", true},
		"no such socket":   {"postgres:///x?host=/nowhere", true},
		"no such database": {change(func(u *url.URL) { u.Path = "/nowhere" }), false},
		"no such role":     {change(func(u *url.URL) { u.User = url.UserPassword("nobody", "secret") }), false},
	} {
		_, err := pg.Open(t.Context(), pg.Config{URL: tt.url, MaxConns: 1, Logger: discard})
		if err == nil || pg.Absent(err) != tt.absent {
			t.Errorf("%s: absent %v, want %v: %v", name, pg.Absent(err), tt.absent, err)
		}
	}

	if pg.Absent(nil) || pg.Absent(errors.New("a mistake")) {
		t.Error("what is no error of a connection is absent")
	}
}
