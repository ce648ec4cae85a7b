package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/embedpg"
)

// Pair is a primary and a standby that follows it. Commits wait for the standby.
type Pair struct {
	// URL names both.
	URL string
	// Primary and Standby are the addresses of each.
	Primary, Standby string

	dir string
}

// NewPair starts two servers of its own for a test. Their database is empty.
func NewPair(t testing.TB) *Pair {
	t.Helper()
	top := t.TempDir()
	if err := os.Chmod(filepath.Dir(top), 0o755); err != nil { // Postgres may run as another user
		t.Fatal(err)
	}

	p := &Pair{dir: top}
	p.Primary = p.started(t, func() (*embedpg.Server, error) {
		return embedpg.Start(t.Context(), embedpg.Config{Dir: filepath.Join(top, "a")})
	})
	p.Standby = p.started(t, func() (*embedpg.Server, error) {
		return Follow(t.Context(), p.Primary, filepath.Join(top, "a"), filepath.Join(top, "b"))
	})
	p.Set(t, "synchronous_standby_names", "*")
	p.URL = Both(t, p.Standby, p.Primary) // the standby comes first, which is of no use
	return p
}

// Both returns the URL of the same database at the sockets of two servers.
func Both(t testing.TB, first, second string) string {
	t.Helper()
	a, err := url.Parse(first)
	if err != nil {
		t.Fatal(err)
	}
	b, err := url.Parse(second)
	if err != nil {
		t.Fatal(err)
	}

	of := func(name string) string { return a.Query().Get(name) + "," + b.Query().Get(name) }
	a.RawQuery = url.Values{"host": {of("host")}, "port": {of("port")}, "sslmode": {"disable"}}.Encode()
	return a.String()
}

// Another starts another standby, and returns its address.
func (p *Pair) Another(t testing.TB) string {
	t.Helper()
	return p.started(t, func() (*embedpg.Server, error) {
		return Follow(t.Context(), p.Primary, filepath.Join(p.dir, "a"), filepath.Join(p.dir, "c"))
	})
}

func (p *Pair) started(t testing.TB, start func() (*embedpg.Server, error)) (address string) {
	t.Helper()
	server, err := start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return server.URL()
}

// Follow makes a standby of a private Postgres in another folder, and starts it.
func Follow(ctx context.Context, primary, from, to string) (*embedpg.Server, error) {
	at, err := url.Parse(primary)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, primary)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()

	for _, sql := range []string{"ALTER SYSTEM SET wal_keep_size = '256MB'", "SELECT pg_reload_conf()"} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return nil, err
		}
	}
	if err := backUp(ctx, conn, from, to); err != nil {
		return nil, err
	}

	password, _ := at.User.Password()
	follow := fmt.Sprintf("primary_conninfo = 'host=%s port=%s user=%s password=%s'\n", at.Query().Get("host"),
		at.Query().Get("port"), at.User.Username(), password)
	for name, text := range map[string]string{"standby.signal": "", "postgresql.auto.conf": follow} {
		if err := os.WriteFile(filepath.Join(to, "data", name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	return embedpg.Start(ctx, embedpg.Config{Dir: to})
}

// Set sets a setting of the primary, and returns when new sessions have it.
func (p *Pair) Set(t testing.TB, name, value string) {
	t.Helper()
	Exec(t, p.Primary, "ALTER SYSTEM SET "+name+" = '"+value+"'", "SELECT pg_reload_conf()")
	for got := "?"; got != value; { // the postmaster does not do it at once
		conn, err := pgx.Connect(t.Context(), p.Primary)
		if err == nil {
			err = errors.Join(conn.QueryRow(t.Context(), "SELECT current_setting($1)", name).Scan(&got), conn.Close(t.Context()))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Promote makes the standby a primary of its own. The old one runs on, and its commits wait for ever.
func (p *Pair) Promote(t testing.TB) {
	t.Helper()
	Exec(t, p.Standby, "SELECT pg_promote()")
}

// Exec runs statements on a connection of their own, each in a transaction of its own.
func Exec(t testing.TB, url string, statements ...string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()

	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// backUp copies the folder of a running server.
func backUp(ctx context.Context, conn *pgx.Conn, from, to string) error {
	var major int
	if err := conn.QueryRow(
		ctx, "SELECT current_setting('server_version_num')::integer / 10000",
	).Scan(&major); err != nil {
		return err
	}

	begin, end := "SELECT pg_backup_start('pair', true)", "SELECT labelfile FROM pg_backup_stop(false)"
	if major < 15 {
		begin, end = "SELECT pg_start_backup('pair', true, false)", "SELECT labelfile FROM pg_stop_backup(false, false)"
	}
	if _, err := conn.Exec(ctx, begin); err != nil {
		return err
	}

	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) { // removed meanwhile
			return nil
		}
		if err != nil {
			return err
		}

		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		case !d.Type().IsRegular(), d.Name() == "postmaster.pid", d.Name() == "postmaster.opts", d.Name() == "lock",
			d.Name() == "postgres.log":
			return nil
		}

		b, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), b, 0o600)
	})
	if err != nil {
		return err
	}

	var label string
	if err := conn.QueryRow(ctx, end).Scan(&label); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, "data", "backup_label"), []byte(label), 0o600)
}
