package embedpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

const (
	defaultRepository = "https://repo1.maven.org/maven2"
	// reachTimeout is how long the repository may take to answer a first request.
	reachTimeout = 5 * time.Second
	// fetchTimeout limits the download of about 10 MB and its unpacking.
	fetchTimeout = 5 * time.Minute
)

// fetchable lists the versions that can be downloaded, newest first.
var fetchable = []embeddedpostgres.PostgresVersion{
	embeddedpostgres.V18,
	embeddedpostgres.V17,
	embeddedpostgres.V16,
	embeddedpostgres.V15,
	embeddedpostgres.V14,
}

// fetch returns the folder of the downloaded binaries of a major version, or of the newest
// if major is 0. It downloads them into cache if they are not there yet.
func fetch(ctx context.Context, repository, cache string, major int) (string, error) {
	i := slices.IndexFunc(fetchable, func(v embeddedpostgres.PostgresVersion) bool {
		return major == 0 || strings.HasPrefix(string(v), strconv.Itoa(major)+".")
	})
	if i < 0 {
		return "", fmt.Errorf("there is none of version %d", major)
	}
	version := fetchable[i]
	final := filepath.Join(cache, fmt.Sprintf("postgresql-%s-%s-%s", version, runtime.GOOS, runtime.GOARCH))
	bin := filepath.Join(final, "bin")
	if _, err := os.Stat(bin); err == nil {
		return bin, nil
	}
	repository = cmp.Or(repository, defaultRepository)
	if err := reach(ctx, repository); err != nil {
		return "", err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	temp, err := os.MkdirTemp(cache, "fetch-")
	if err != nil {
		return "", err
	}

	// The library takes no context. If ctx ends, the goroutine still finishes and cleans up.
	fetched := make(chan error, 1)
	go func() {
		err := unpack(repository, version, temp)
		if err == nil {
			err = os.Rename(filepath.Join(temp, "postgres"), final)
			if _, statErr := os.Stat(bin); statErr == nil {
				err = nil // if it was an error, another program was faster
			}
		}
		_ = os.RemoveAll(temp)
		fetched <- err
	}()
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	select {
	case err := <-fetched:
		return bin, err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// reach checks that the repository answers.
func reach(ctx context.Context, repository string) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, repository+"/", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// unpack makes the library download a version and extract it into temp/postgres. The library
// does this only as part of starting a server. So it gets a data directory on which no server
// starts, and its error about that is ignored.
func unpack(repository string, version embeddedpostgres.PostgresVersion, temp string) error {
	path := func(name string) string { return filepath.Join(temp, name) }
	if err := os.Mkdir(path("data"), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(path("data/PG_VERSION"), []byte(version[:2]), 0o600); err != nil {
		return err
	}
	pg := embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().
		Version(version).
		Port(0).
		BinaryRepositoryURL(repository).
		CachePath(path("archive")).
		RuntimePath(path("runtime")).
		DataPath(path("data")).
		BinariesPath(path("postgres")).
		Logger(io.Discard))
	startErr := pg.Start()
	http.DefaultClient.CloseIdleConnections() // the library uses this client
	if startErr == nil {
		return errors.Join(errors.New("a server started on an empty folder"), pg.Stop())
	}
	for _, name := range []string{"postgres/bin/initdb", "postgres/bin/postgres"} {
		if _, err := os.Stat(path(name)); err != nil {
			return startErr
		}
	}
	return nil
}
