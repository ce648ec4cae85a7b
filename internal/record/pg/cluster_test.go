package pg_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/record"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var discard = slog.New(slog.DiscardHandler)

// timeline returns the timeline of the server that answers.
func timeline(ctx context.Context, d *pg.DB) (id string, err error) {
	err = d.QueryRow(ctx, "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)").Scan(&id)
	return id, err
}

func open(t *testing.T, url string) *pg.DB {
	t.Helper()
	d, err := pg.Open(t.Context(), pg.Config{URL: url, MaxConns: 4, Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// TestAnotherPrimary: when a standby has taken over, whatever still goes on at the old primary ends at once, although
// that one answers. Nothing is asked of it any more.
func TestAnotherPrimary(t *testing.T) {
	t.Parallel()
	pair := pgtest.NewPair(t)
	if _, err := pg.Open(t.Context(),
		pg.Config{URL: pair.Standby, MaxConns: 1, Logger: discard}); !errors.Is(err, record.ErrUnavailable) {
		t.Errorf("a standby alone: %v", err)
	}

	d := open(t, pair.URL)
	ctx := t.Context()
	if id, err := timeline(ctx, d); err != nil || id != "00000001" {
		t.Fatalf("id = %v, %v", id, err)
	}
	if s, err := d.Standing(ctx); err != nil || s.Timeline != 1 || s.Standbys != 1 || s.Alone || s.Lag == nil {
		t.Errorf("d.Standing() = %+v, %v", s, err)
	}

	listener, err := d.Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close(context.Background()) }()

	ended := make(chan error, 2)
	go func() {
		_, err := d.Exec(ctx, "SELECT pg_sleep(60)")
		ended <- err
	}()
	go func() {
		_, err := listener.WaitForNotification(ctx)
		ended <- err
	}()

	idle, err := d.Acquire(ctx) // beside the one that sleeps
	if err != nil {
		t.Fatal(err)
	}
	idle.Release()

	pair.Promote(t)
	for range 2 {
		select {
		case err := <-ended:
			if !pg.Transient(err) {
				t.Errorf("what went on at the old primary: %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("a statement goes on at the old primary")
		}
	}
	for range 8 {
		if id, err := timeline(ctx, d); err != nil || id != "00000002" {
			t.Errorf("id = %s, %v", id, err)
		}
	}

	old, err := pgx.Connect(ctx, pair.Primary)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Close(context.Background()) }()
	left := func() (sessions int) {
		if err := old.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'actlog' AND query "+
			"NOT LIKE '%pg_control_system%' AND query NOT LIKE '%pg_sleep%'").Scan(&sessions); err != nil {
			t.Fatal(err)
		}
		return sessions
	}

	for end := time.Now().Add(20 * time.Second); left() > 0; { // it sees a moment later that they ended
		if time.Now().After(end) {
			t.Fatalf("%d sessions are left at the old primary", left())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// TestOneAddress: one address stands for whatever is the primary. The old one is frozen, and the address leads to the
// new one: what goes on at the old one ends. Should the address lead to the old one again for a moment, nobody goes
// there.
func TestOneAddress(t *testing.T) {
	t.Parallel()
	pair := pgtest.NewPair(t)
	address := pgtest.NewAddress(t, pair.Primary)
	d := open(t, address.URL)
	ctx := t.Context()
	if id, err := timeline(ctx, d); err != nil || id != "00000001" {
		t.Fatalf("id = %v, %v", id, err)
	}

	ended := make(chan error, 1)
	go func() {
		_, err := d.Exec(ctx, "SELECT pg_sleep(0.5)")
		ended <- err
	}()
	address.Freeze(t, pair.Primary)
	pair.Promote(t)
	address.Lead(t, pair.Standby)
	select {
	case err := <-ended:
		if !pg.Transient(err) {
			t.Errorf("what went on at the old primary: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("a statement waits for the old primary")
	}

	for range 2 { // the connection that finds the new primary is not kept
		if id, err := timeline(ctx, d); err != nil || id != "00000002" {
			t.Errorf("id = %s, %v", id, err)
		}
	}

	address.Freeze(t, "")
	address.Lead(t, pair.Primary)
	if conn, err := d.Connect(ctx); err == nil {
		_ = conn.Close(ctx)
		t.Error("a new connection leads to the old primary")
	}
	if id, err := timeline(ctx, d); err != nil || id != "00000002" {
		t.Errorf("id = %s, %v", id, err)
	}

	if err := d.AwaitTimeline(ctx, 2); err != nil {
		t.Error(err)
	}
	if err := d.AwaitTimeline(ctx, 3); !errors.Is(err, record.ErrUnavailable) {
		t.Errorf("what is not there yet: %v", err)
	}
}

// TestStandbysThatNobodyWaitsFor: there is a warning if a failover may lose what was acknowledged, and only then.
func TestStandbysThatNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	pair := pgtest.NewPair(t)
	says := func(want bool, url string) {
		t.Helper()
		var log bytes.Buffer
		d, err := pg.Open(t.Context(), pg.Config{URL: url, MaxConns: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		d.Close()

		if got := strings.Contains(log.String(), "synchronous_standby_names"); got != want {
			t.Errorf("a warning: %v, want %v: %s", got, want, &log)
		}
	}

	says(false, pair.URL)
	says(true, pair.URL+"&synchronous_commit=local")
	pair.Set(t, "synchronous_standby_names", "")
	says(true, pair.URL)
}
