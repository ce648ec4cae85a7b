package pgtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/postgres"

	"github.com/actlog/actlog/internal/testkit/testdb"
)

// imageEnv is the environment variable with another image for the container.
const imageEnv = "ACTLOG_TEST_POSTGRES_IMAGE"

// errNoDocker means that no Docker engine answers.
var errNoDocker = errors.New("no Docker engine answers")

// startContainer runs Postgres in a container. The container is removed when this program
// ends, unless keepEnv is set.
func startContainer(ctx context.Context) (*testdb.Server, error) {
	if err := dockerAnswers(ctx); err != nil {
		return nil, err
	}
	image := cmp.Or(os.Getenv(imageEnv), "postgres:17-alpine")
	container, err := postgres.Run(ctx, image, postgres.BasicWaitStrategies(), testcontainers.WithCmd("postgres",
		"-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off",
		"-c", "max_connections=500", "-c", "max_locks_per_transaction=256"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start container %s: %w", image, err), terminate(container))
	}

	url, err := container.ConnectionString(ctx, "sslmode=disable")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("address of container %s: %w", image, err), terminate(container))
	}
	return &testdb.Server{URL: url, Private: true, Stop: func(context.Context) error { return terminate(container) }}, nil
}

func terminate(container *postgres.PostgresContainer) error {
	if container == nil {
		return nil
	}
	return testcontainers.TerminateContainer(container)
}

// dockerAnswers returns an error if no Docker engine answers. Call it before anything else of
// the library.
func dockerAnswers(ctx context.Context) (err error) {
	if os.Getenv(keepEnv) != "" {
		// The reaper of the library would remove the container soon after this program ends.
		// The library reads the variable only once.
		if err := os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true"); err != nil {
			return err
		}
	}
	defer func() {
		if r := recover(); r != nil { // the library panics if it finds no host
			err = fmt.Errorf("%w: %v", errNoDocker, r)
		}
	}()

	provider, err := testcontainers.NewDockerProvider()
	if err != nil {
		return fmt.Errorf("%w: %w", errNoDocker, err)
	}
	defer func() { _ = provider.Close() }()

	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := provider.Health(ctx); err != nil {
		return fmt.Errorf("%w: %w", errNoDocker, err)
	}
	return nil
}
