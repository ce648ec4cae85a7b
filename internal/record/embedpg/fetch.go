//go:build unix

package embedpg

import (
	"archive/zip"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

const (
	defaultRepository = "https://repo1.maven.org/maven2"
	// reachTimeout is how long the repository may take to answer a first request.
	reachTimeout = 5 * time.Second
	// fetchTimeout limits the download of up to 35 MB.
	fetchTimeout = 5 * time.Minute
	// maxArchive limits an archive, in bytes.
	maxArchive = 128 << 20
)

// fetch returns the folder of the downloaded binaries of a major version, or of the newest if major is 0. It downloads
// them into cache if they are not there yet. Nothing is unpacked whose hash is not that of [pins].
func fetch(ctx context.Context, cfg Config, major int) (string, error) {
	known := cfg.pins
	if known == nil {
		known = pins
	}

	i := slices.IndexFunc(known, func(p pin) bool { return p.is(strconv.Itoa(major)) })
	if i < 0 {
		return "", fmt.Errorf("there is none of version %d", major)
	}
	version, on := known[i].version, platform()
	hash := known[i].sha256[on]
	if hash == "" {
		return "", fmt.Errorf("there is none of version %s for %s whose hash is known", version, cmp.Or(on, "this platform"))
	}

	// The name has the hash: what is there was checked against this one.
	final := filepath.Join(cfg.CacheDir, fmt.Sprintf("postgresql-%s-%s-%s", version, on, hash[:16]))
	bin := filepath.Join(final, "bin")
	if _, err := os.Stat(bin); err == nil {
		return bin, ours(cfg.CacheDir, final, bin)
	}

	repository := cmp.Or(cfg.repository, defaultRepository)
	if err := reach(ctx, repository); err != nil {
		return "", err
	}
	if err := os.MkdirAll(cfg.CacheDir, 0o755); err != nil {
		return "", err
	}
	if err := ours(cfg.CacheDir); err != nil {
		return "", err
	}

	temp, err := os.MkdirTemp(cfg.CacheDir, "fetch-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(temp) }()

	name := "embedded-postgres-binaries-" + on
	jar := filepath.Join(temp, "jar")
	if err := download(ctx, fmt.Sprintf("%s/io/zonky/test/postgres/%s/%s/%[2]s-%[3]s.jar", repository, name, version),
		hash, jar); err != nil {
		return "", err
	}

	if err := takeArchive(jar, filepath.Join(temp, "archive", name+"-"+version+".txz")); err != nil {
		return "", err
	}
	if err := unpack(version, temp); err != nil {
		return "", err
	}

	err = os.Rename(filepath.Join(temp, "postgres"), final)
	if _, statErr := os.Stat(bin); statErr == nil {
		err = ours(final, bin) // if it was an error, another program was faster
	}
	return bin, err
}

// ours returns an error if another user can change what is in a folder, or could before: it would run as this one.
func ours(folders ...string) error {
	for _, folder := range folders {
		info, err := os.Stat(folder)
		if err != nil {
			return err
		}
		owner, known := info.Sys().(*syscall.Stat_t)
		if known && owner.Uid != 0 && int(owner.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
			return fmt.Errorf("the folder %s can be changed by other users: remove it, or take its write permissions away",
				folder)
		}
	}
	return nil
}

// download writes what is at a URL to a file, if it has the hash.
func download(ctx context.Context, url, hash, file string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}

	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}

	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()

	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(f, sum), io.LimitReader(resp.Body, maxArchive)); err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != hash {
		return fmt.Errorf("%s: %w: its SHA-256 is %s, and must be %s", url, errChanged, got, hash)
	}
	return nil
}

var errChanged = errors.New("not the archive that this program knows; nothing of it was unpacked")

// takeArchive copies the archive in a jar to a file.
func takeArchive(jar, file string) (err error) {
	z, err := zip.OpenReader(jar)
	if err != nil {
		return err
	}
	defer func() { _ = z.Close() }() // it was only read

	i := slices.IndexFunc(z.File, func(f *zip.File) bool { return strings.HasSuffix(f.Name, ".txz") })
	if i < 0 {
		return fmt.Errorf("%s has no archive", jar)
	}
	from, err := z.File[i].Open()
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()

	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	to, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, io.LimitReader(from, maxArchive))
	return errors.Join(err, to.Close())
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

// nowhere answers no request: the library is to download nothing.
const nowhere = "http://127.0.0.1:0"

// unpack makes the library extract the archive in temp/archive into temp/postgres. The library does this only as part
// of starting a server. So it gets a data directory on which no server starts, and its error about that is ignored.
func unpack(version, temp string) error {
	path := func(name string) string { return filepath.Join(temp, name) }
	if err := os.Mkdir(path("data"), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(path("data/PG_VERSION"), []byte(version[:2]), 0o600); err != nil {
		return err
	}

	pg := embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().
		Version(embeddedpostgres.PostgresVersion(version)).
		Port(0).
		BinaryRepositoryURL(nowhere).
		CachePath(path("archive")).
		RuntimePath(path("runtime")).
		DataPath(path("data")).
		BinariesPath(path("postgres")).
		Logger(io.Discard))

	startErr := pg.Start()
	http.DefaultClient.CloseIdleConnections() // of the download
	if startErr == nil {
		return errors.Join(errors.New("a server started on an empty folder"), pg.Stop())
	}

	for _, name := range []string{"postgres/bin/initdb", "postgres/bin/postgres"} {
		if _, err := os.Stat(path(name)); err != nil {
			return startErr
		}
	}

	return filepath.WalkDir(path("postgres"), func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := entry.Info()
		if err != nil || info.Mode().Perm()&0o022 == 0 {
			return err
		}
		return os.Chmod(name, info.Mode().Perm()&^0o022)
	})
}
