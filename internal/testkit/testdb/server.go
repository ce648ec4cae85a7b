package testdb

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/actlog/actlog/internal/record/embedpg"
)

// URLEnv is the environment variable with the address of a server that [Start] takes instead of a private one. The role
// must be allowed to create databases.
const URLEnv = "ACTLOG_TEST_DATABASE_URL"

// Server is a Postgres in which tests create databases.
type Server struct {
	URL     string
	Version string
	Private bool // started for the tests

	Stop func(context.Context) error // nil: others stop it
}

// Close stops a private server.
func (s *Server) Close(ctx context.Context) error {
	if s.Stop == nil {
		return nil
	}
	return s.Stop(ctx)
}

// Start uses the server that [URLEnv] names. Else it starts one from binaries that are installed or can be downloaded,
// which ends with this process. The error says what the user can do.
func Start(ctx context.Context, logf func(format string, args ...any)) (*Server, error) {
	if url := os.Getenv(URLEnv); url != "" {
		return (&Server{URL: url}).Found(ctx, "server of "+URLEnv, logf)
	}

	s, err := StartPrivate(ctx, embedpg.Config{Fast: true, Guarded: true})
	if err != nil {
		return nil, fmt.Errorf("no Postgres for the tests: set %s to the address of a server, or install one, for example "+
			"with `apt-get install postgresql`: %w", URLEnv, err)
	}
	return s.Found(ctx, "private server", logf)
}

// Found returns the server with its version, if it answers. how says where it is from.
func (s *Server) Found(ctx context.Context, how string, logf func(format string, args ...any)) (*Server, error) {
	var err error
	if s.Version, err = serverVersion(ctx, s.URL); err != nil {
		return nil, errors.Join(fmt.Errorf("connect to postgres (%s): %w", how, err), s.Close(ctx))
	}
	logf("test database: Postgres %s, %s", s.Version, how)
	return s, nil
}

// StartPrivate starts a server. The error wraps [embedpg.ErrNoPostgres] if there are no binaries.
func StartPrivate(ctx context.Context, cfg embedpg.Config) (*Server, error) {
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
	return &Server{URL: pg.URL(), Private: true, Stop: func(ctx context.Context) error {
		return errors.Join(pg.Close(ctx), os.RemoveAll(cfg.Dir))
	}}, nil
}

func serverVersion(ctx context.Context, url string) (version string, err error) {
	conn, err := connect(ctx, url)
	if err != nil {
		return "", err
	}
	err = conn.QueryRow(ctx, `SHOW server_version`).Scan(&version)
	return version, errors.Join(err, conn.Close(ctx))
}
