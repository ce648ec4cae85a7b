package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/actlog/actlog/internal/record/embedpg"
	"github.com/actlog/actlog/internal/testkit/testdb"
)

// URLEnv is the environment variable with the address of a server to use instead of a
// private one. The role must be allowed to create databases.
const URLEnv = "TEST_DATABASE_URL"

// keepEnv is that of testdb.
const keepEnv = "ACTLOG_TEST_KEEP"

// StartServer uses the server of TEST_DATABASE_URL if that is set. Else it starts one from
// binaries that are installed or can be downloaded, else one in a container. It reports the
// choice to logf. If nothing works, the error lists what the user can do.
func StartServer(ctx context.Context, logf func(format string, args ...any)) (*testdb.Server, error) {
	s, how, err := obtain(ctx, os.Getenv(URLEnv), embedpg.Config{Fast: true})
	if err != nil {
		return nil, err
	}
	return s.Found(ctx, how, logf)
}

func obtain(ctx context.Context, url string, cfg embedpg.Config) (s *testdb.Server, how string, err error) {
	if url != "" {
		return &testdb.Server{URL: url}, "server of " + URLEnv, nil
	}

	s, localErr := testdb.StartPrivate(ctx, cfg)
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
