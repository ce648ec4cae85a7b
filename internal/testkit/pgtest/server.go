package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/actlog/actlog/internal/record/embedpg"
)

// URLEnv is the environment variable with the address of a server to use instead of a
// private one. The role must be allowed to create databases.
const URLEnv = "TEST_DATABASE_URL"

// Server is a Postgres in which tests create databases.
type Server struct {
	URL     string
	Version string
	Private bool // started by StartServer

	close func(context.Context) error
}

// StartServer uses the server of TEST_DATABASE_URL if that is set. Else it starts one from
// binaries that are installed or can be downloaded, else one in a container. It reports the
// choice to logf. If nothing works, the error lists what the user can do.
func StartServer(ctx context.Context, logf func(format string, args ...any)) (*Server, error) {
	s, how, err := obtain(ctx, os.Getenv(URLEnv), embedpg.Config{Fast: true})
	if err != nil {
		return nil, err
	}
	if s.Version, err = serverVersion(ctx, s.URL); err != nil {
		return nil, errors.Join(fmt.Errorf("connect to postgres (%s): %w", how, err), s.Close(ctx))
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
	return nil, "", fmt.Errorf("no Postgres for the tests. Either set %s to the address of a server; or install one, "+
		"for example with "+
		"`apt-get install postgresql`; or start Docker.\nlocal: %w\ncontainer: %w", URLEnv, localErr, err)
}

func startLocal(ctx context.Context, cfg embedpg.Config) (*Server, error) {
	start := embedpg.StartTemp
	if os.Getenv(keepEnv) != "" {
		// The next test program would remove a temporary server.
		dir, err := os.MkdirTemp("", "actlog-kept-")
		if err != nil {
			return nil, err
		}
		cfg.Dir, start = dir, embedpg.Start
	}

	pg, err := start(ctx, cfg)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(cfg.Dir))
	}
	return &Server{URL: pg.URL(), Private: true, close: func(ctx context.Context) error {
		return errors.Join(pg.Close(ctx), os.RemoveAll(cfg.Dir))
	}}, nil
}

// Close stops a private server.
func (s *Server) Close(ctx context.Context) error {
	if s.close == nil {
		return nil
	}
	return s.close(ctx)
}

func serverVersion(ctx context.Context, url string) (version string, err error) {
	conn, err := connect(ctx, url)
	if err != nil {
		return "", err
	}
	err = conn.QueryRow(ctx, `SHOW server_version`).Scan(&version)
	return version, errors.Join(err, conn.Close(ctx))
}
