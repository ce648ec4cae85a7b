package embedpg

import (
	"archive/zip"
	"bytes"
	"errors"
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
					t.Errorf("got %v, %v", b, err)
				}
				return
			}
			if err != nil || b.version != tt.want {
				t.Errorf("got %v, %v; want %s", b, err, tt.want)
			}
		})
	}
}

func TestNoPostgres(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	_, err := Start(t.Context(), Config{Dir: t.TempDir(), BinDirs: []string{}, CacheDir: t.TempDir(), repository: gone.URL})
	if !errors.Is(err, ErrNoPostgres) {
		t.Fatalf("Start: %v", err)
	}
	for _, way := range []string{"apt-get install postgresql", "ACTLOG_DATABASE_URL", "download"} {
		if !strings.Contains(err.Error(), way) {
			t.Errorf("the error does not mention %q: %v", way, err)
		}
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
	repository := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".jar") && strings.Contains(r.URL.Path, "/18.") {
			_, _ = w.Write(jar.Bytes())
			return
		}
		http.NotFound(w, r)
	}))
	defer repository.Close()

	cache := t.TempDir()
	other := filepath.Join(cache, "postgresql-17.0.0-other")
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	cfg, err := Config{Dir: t.TempDir(), BinDirs: []string{}, CacheDir: cache, repository: repository.URL}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := findBinaries(t.Context(), cfg, 16); !errors.Is(err, ErrNoPostgres) {
		t.Errorf("a version that cannot be downloaded: %v", err)
	}
	for range 2 { // the second time it comes from the cache
		b, err := findBinaries(t.Context(), cfg, 0)
		if err != nil || b.version != "18.3" {
			t.Errorf("got %v, %v", b, err)
		}
		repository.Close()
	}
	entries, err := os.ReadDir(cache)
	if err != nil || len(entries) != 2 {
		t.Errorf("the cache contains %v, %v; want the other version and the new one", entries, err)
	}
}
