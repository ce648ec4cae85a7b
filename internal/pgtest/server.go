package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/actlog/actlog/internal/embedpg"
)

// URLEnv names the server to use instead of a private one. Its role must be allowed to
// create databases.
const URLEnv = "TEST_DATABASE_URL"

// Server is a Postgres that tests fill with databases.
type Server struct {
	URL     string
	Version string
	Private bool // started by StartServer

	close func(context.Context) error
}

// StartServer takes the server of TEST_DATABASE_URL; else starts one from binaries that
// are installed or can be fetched; else in a container. It tells logf which. The error
// names the ways out when none works.
func StartServer(ctx context.Context, logf func(format string, args ...any)) (*Server, error) {
	s, how, err := obtain(ctx, os.Getenv(URLEnv), embedpg.Config{Fast: true})
	if err != nil {
		return nil, err
	}
	if s.Version, err = serverVersion(ctx, s.URL); err != nil {
		return nil, errors.Join(fmt.Errorf("connecting to postgres (%s): %w", how, err), s.Close(ctx))
	}
	logf("pgtest: Postgres %s, %s", s.Version, how)
	return s, nil
}

func obtain(ctx context.Context, url string, cfg embedpg.Config) (s *Server, how string, err error) {
	if url != "" {
		return &Server{URL: url}, "server of " + URLEnv, nil
	}
	s, localErr := startLocal(ctx, cfg)
	if localErr == nil {
		return s, "private server", nil
	}
	if !errors.Is(localErr, embedpg.ErrNoPostgres) {
		return nil, "", localErr
	}
	s, err = startContainer(ctx)
	if err == nil {
		return s, "container", nil
	}
	return nil, "", fmt.Errorf("no Postgres for the tests. Ways out: set %s to a server's address; or install one, as with `apt-get install postgresql`; "+
		"or start Docker.\nlocal: %w\ncontainer: %w", URLEnv, localErr, err)
}

func startLocal(ctx context.Context, cfg embedpg.Config) (*Server, error) {
	start := embedpg.StartTemp
	if os.Getenv(keepEnv) != "" {
		// A temporary one would be swept away by the next test program.
		dir, err := os.MkdirTemp("", "actlog-kept-")
		if err != nil {
			return nil, err
		}
		cfg.Dir, start = dir, embedpg.Start
	}
	pg, err := start(ctx, cfg)
	if err != nil {
		return nil, errors.Join(err, remove(cfg.Dir))
	}
	return &Server{URL: pg.URL(), Private: true, close: func(ctx context.Context) error {
		return errors.Join(pg.Close(ctx), remove(cfg.Dir))
	}}, nil
}

func remove(dir string) error {
	if dir == "" {
		return nil
	}
	return os.RemoveAll(dir)
}

// Close stops a private server.
func (s *Server) Close(ctx context.Context) error {
	if s.close == nil {
		return nil
	}
	return s.close(ctx)
}

// leave lets a private server go on after this program.
func (s *Server) leave() {
	fmt.Fprintln(os.Stderr, "pgtest: the server stays, for the databases kept:", s.URL)
}

func serverVersion(ctx context.Context, url string) (version string, err error) {
	conn, err := connect(ctx, url)
	if err != nil {
		return "", err
	}
	err = conn.QueryRow(ctx, `SHOW server_version`).Scan(&version)
	return version, errors.Join(err, conn.Close(ctx))
}
