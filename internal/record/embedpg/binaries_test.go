//go:build unix

package embedpg

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeBinaries writes programs that print this version of Postgres.
func fakeBinaries(t *testing.T, dir, version string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}

	script := "#!/bin/sh\necho 'postgres (PostgreSQL) " + version + "'\n"
	for _, name := range []string{"initdb", "postgres"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFindBinaries(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, v := range []string{"9.6.24", "13.4", "15.2", "15.14 (Debian 15.14-0+deb12u1)", "17.1", "18beta1"} {
		name, _, _ := strings.Cut(v, " ")
		fakeBinaries(t, filepath.Join(root, name, "bin"), v)
	}
	if err := os.MkdirAll(filepath.Join(root, "19", "bin"), 0o755); err != nil { // no binaries
		t.Fatal(err)
	}
	all := filepath.Join(root, "*", "bin")

	for _, tt := range []struct {
		name  string
		dirs  []string
		major int
		want  string // "" if an error is expected
	}{
		{"newest", []string{all}, 0, "18beta1"},
		{"version of the data", []string{all}, 15, "15.14"},
		{"old data", []string{all}, 13, "13.4"},
		{"version of the data not installed", []string{all}, 16, ""},
		{"too old", []string{filepath.Join(root, "13.4", "bin")}, 0, ""},
		{"no such folder", []string{filepath.Join(root, "nowhere")}, 0, ""},
		{"no folders", []string{}, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg, err := Config{Dir: root, BinDirs: tt.dirs, Offline: true}.withDefaults()
			if err != nil {
				t.Fatal(err)
			}

			b, err := findBinaries(t.Context(), cfg, tt.major)
			if tt.want == "" {
				if !errors.Is(err, ErrNoPostgres) {
					t.Errorf("findBinaries(cfg, tt.major) = %v, %v", b, err)
				}
				return
			}
			if err != nil || b.version != tt.want {
				t.Errorf("findBinaries(cfg, tt.major) = %v, %v; want %s", b, err, tt.want)
			}
		})
	}
}

func TestNoPostgres(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()

	_, err := Start(t.Context(), Config{
		Dir: t.TempDir(), BinDirs: []string{}, CacheDir: t.TempDir(), repository: gone.URL,
	})
	if !errors.Is(err, ErrNoPostgres) {
		t.Fatalf("Start: %v", err)
	}

	for _, way := range []string{"apt-get install postgresql", "ACTLOG_DATABASE_URL", "download"} {
		if !strings.Contains(err.Error(), way) {
			t.Errorf("the error does not mention %q: %v", way, err)
		}
	}
}

// TestMajor: new data is of the version that the program asks for, and of no other.
func TestMajor(t *testing.T) {
	t.Parallel()
	const major = 99
	_, err := Start(t.Context(), Config{Dir: t.TempDir(), Major: major, Offline: true})
	if !errors.Is(err, ErrNoPostgres) || !strings.Contains(err.Error(), "of version 99") ||
		strings.Contains(err.Error(), "created the data") {
		t.Errorf("start Postgres %d: %v", major, err)
	}
}

func TestDataOfAnotherVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data", "PG_VERSION"), []byte("99\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	_, err := Start(t.Context(), Config{Dir: dir})
	if !errors.Is(err, ErrNoPostgres) || !strings.Contains(err.Error(), "99") || !strings.Contains(err.Error(), dir) {
		t.Errorf("Start: %v", err)
	}
}

// serveArchive serves an archive as one of version 18, with the hash that a repository says it has.
func serveArchive(t *testing.T, archive []byte) *httptest.Server {
	t.Helper()
	repository := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch hash := sha256.Sum256(archive); {
		case strings.HasSuffix(r.URL.Path, ".jar") && strings.Contains(r.URL.Path, "/18."):
			_, _ = w.Write(archive)
		case strings.HasSuffix(r.URL.Path, ".jar.sha256"):
			_, _ = io.WriteString(w, hex.EncodeToString(hash[:]))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(repository.Close)
	return repository
}

// pinned is the release that an archive is of, for this machine.
func pinned(archive []byte) []pin {
	hash := sha256.Sum256(archive)
	return []pin{{"18.3.0", map[string]string{platform(): hex.EncodeToString(hash[:])}}}
}

// S11: an archive that was changed, if by one bit, is not unpacked, although the repository vouches for it; nor is one
// without a known hash. Nothing of them is left.
func TestChangedArchive(t *testing.T) {
	t.Parallel()
	var jar bytes.Buffer
	z := zip.NewWriter(&jar)
	w, err := z.Create("postgres-linux-x86_64.txz")
	if err != nil {
		t.Fatal(err)
	}

	archive, err := os.ReadFile(filepath.Join("testdata", "postgres.txz"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(archive); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}

	good := jar.Bytes()
	changed := bytes.Clone(good)
	changed[len(changed)/2] ^= 1

	for name, tt := range map[string]struct {
		sent []byte
		pins []pin
		want string
	}{
		"changed":           {changed, pinned(good), "nothing of it was unpacked"},
		"longer":            {append(bytes.Clone(good), 0), pinned(good), "nothing of it was unpacked"},
		"cut":               {good[:len(good)-1], pinned(good), "nothing of it was unpacked"},
		"not the real one":  {good, nil, "nothing of it was unpacked"},
		"no known hash":     {good, []pin{{"18.3.0", map[string]string{"plan9-amd64": "00"}}}, "whose hash is known"},
		"no such a version": {good, []pin{{"17.5.0", map[string]string{platform(): "00"}}}, "none of version 18"},
	} {
		cache := t.TempDir()
		cfg, err := Config{
			Dir: t.TempDir(), BinDirs: []string{}, CacheDir: cache, repository: serveArchive(t, tt.sent).URL, pins: tt.pins,
		}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}

		if _, err := findBinaries(t.Context(), cfg, 18); !errors.Is(err, ErrNoPostgres) ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
		if left, err := os.ReadDir(cache); err != nil || len(left) > 0 {
			t.Errorf("%s: the cache has %v, %v", name, left, err)
		}
	}
}

// S11: binaries that another user could have changed are not run.
func TestForeignCache(t *testing.T) {
	t.Parallel()
	const hash = "00112233445566778899aabbccddeeff"
	known := []pin{{"18.3.0", map[string]string{platform(): hash}}}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()

	for _, folder := range []string{
		".", "postgresql-18.3.0-" + platform() + "-" + hash[:16],
		"postgresql-18.3.0-" + platform() + "-" + hash[:16] + "/bin",
	} {
		cache := t.TempDir()
		cfg, err := Config{
			Dir: t.TempDir(), BinDirs: []string{}, CacheDir: cache, repository: gone.URL, pins: known,
		}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}

		fakeBinaries(t, filepath.Join(cache, "postgresql-18.3.0-"+platform()+"-"+hash[:16], "bin"), "18.3")
		if b, err := findBinaries(t.Context(), cfg, 18); err != nil || b.version != "18.3" {
			t.Fatalf("findBinaries(cfg, 18) = %v, %v", b, err)
		}

		if err := os.Chmod(filepath.Join(cache, folder), 0o777); err != nil {
			t.Fatal(err)
		}
		if _, err := findBinaries(t.Context(), cfg, 18); !errors.Is(err, ErrNoPostgres) ||
			!strings.Contains(err.Error(), "can be changed by other users") {
			t.Errorf("%s: %v", folder, err)
		}
	}
}

// TestPins checks that the pins are hashes, and that the platforms that most people have are there with the newest
// version.
func TestPins(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range pins {
		for on, hash := range r.sha256 {
			if b, err := hex.DecodeString(hash); err != nil || len(b) != sha256.Size || seen[hash] {
				t.Errorf("%s for %s: %s", r.version, on, hash)
			}
			seen[hash] = true
		}
	}

	for _, on := range []string{"linux-amd64", "linux-arm64v8", "darwin-amd64", "darwin-arm64v8", "linux-amd64-alpine"} {
		if pins[0].sha256[on] == "" {
			t.Errorf("%s has no hash for %s", pins[0].version, on)
		}
	}
}

func TestFetch(t *testing.T) {
	t.Parallel()
	archive, err := os.ReadFile(filepath.Join("testdata", "postgres.txz"))
	if err != nil {
		t.Fatal(err)
	}

	var jar bytes.Buffer
	z := zip.NewWriter(&jar)
	w, err := z.Create("postgres-linux-x86_64.txz")
	if err != nil {
		t.Fatal(err)
	}

	if _, err := w.Write(archive); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	repository := serveArchive(t, jar.Bytes())

	cache := t.TempDir()
	other := filepath.Join(cache, "postgresql-17.0.0-other")
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}

	cfg, err := Config{
		Dir: t.TempDir(), BinDirs: []string{}, CacheDir: cache, repository: repository.URL, pins: pinned(jar.Bytes()),
	}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}

	if _, err := findBinaries(t.Context(), cfg, 16); !errors.Is(err, ErrNoPostgres) {
		t.Errorf("a version that cannot be downloaded: %v", err)
	}
	for range 2 { // the second time it comes from the cache
		b, err := findBinaries(t.Context(), cfg, 0)
		if err != nil || b.version != "18.3" {
			t.Errorf("findBinaries(cfg, 0) = %v, %v", b, err)
		}
		repository.Close()
	}

	entries, err := os.ReadDir(cache)
	if err != nil || len(entries) != 2 {
		t.Errorf("the cache contains %v, %v; want the other version and the new one", entries, err)
	}
}
