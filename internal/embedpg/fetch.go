package embedpg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

const (
	defaultRepository = "https://repo1.maven.org/maven2"
	// reachTimeout is how long the repository gets to answer at all.
	reachTimeout = 5 * time.Second
	// fetchTimeout is for the download of some 10 MB and its unpacking.
	fetchTimeout = 5 * time.Minute

	newestMajor = 18
)

// fetchable maps a major version to the one that can be downloaded.
var fetchable = map[int]embeddedpostgres.PostgresVersion{
	14: embeddedpostgres.V14,
	15: embeddedpostgres.V15,
	16: embeddedpostgres.V16,
	17: embeddedpostgres.V17,
	18: embeddedpostgres.V18,
}

// fetch returns the folder of downloaded binaries of a major version, the newest for 0.
// It downloads them into cache when they are not there yet.
func fetch(ctx context.Context, repository, cache string, major int) (string, error) {
	if major == 0 {
		major = newestMajor
	}
	version, ok := fetchable[major]
	if !ok {
		return "", fmt.Errorf("there is none of version %d", major)
	}
	final := filepath.Join(cache, fmt.Sprintf("postgresql-%s-%s-%s", version, runtime.GOOS, runtime.GOARCH))
	bin := filepath.Join(final, "bin")
	if _, err := os.Stat(bin); err == nil {
		return bin, nil
	}
	if repository == "" {
		repository = defaultRepository
	}
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

	// The library knows no context. What is cut short goes on by itself, and cleans up.
	fetched := make(chan error, 1)
	go func() {
		err := unpack(repository, version, temp)
		if err == nil {
			// Another program may have been faster.
			if err = os.Rename(filepath.Join(temp, "postgres"), final); err != nil {
				if _, statErr := os.Stat(bin); statErr == nil {
					err = nil
				}
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

// unpack has the library download and extract into temp/postgres. The library only
// does this on the way to starting a server, so it gets a data directory that no
// server starts on, and its complaint about that is not ours.
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
	http.DefaultClient.CloseIdleConnections() // it goes through that one
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
