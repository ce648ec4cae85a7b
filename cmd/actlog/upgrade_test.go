//go:build ha

package main

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/migrations"
)

// buildBaseline builds the version that made the baseline of the migrations, whose commit is in migrations/baseline,
// and returns its path and how many migrations it has.
func buildBaseline(t *testing.T) (path string, migrations int) {
	t.Helper()
	run := func(dir, name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}

	top := filepath.Join("..", "..")
	line, err := os.ReadFile(filepath.Join(top, "migrations", "baseline"))
	if err != nil {
		t.Fatalf("%v: write there the hash of the commit that made the baseline of the migrations", err)
	}

	baseline := strings.TrimSpace(string(line))
	if exec.CommandContext(t.Context(), "git", "-C", top, "cat-file", "-e", baseline+"^{commit}").Run() != nil {
		t.Fatalf("commit %q of migrations/baseline is not in this clone: fetch the whole history with git fetch --unshallow",
			baseline)
	}
	if changed := run(top, "git", "diff", "--name-only", "--diff-filter=a", baseline, "HEAD", "--",
		"migrations/*.sql"); changed != "" {
		t.Fatalf("migrations of the baseline %s were changed, so no database of it gets the change: make it in a new "+
			"migration. "+
			"Before the first release you may instead name a later commit in migrations/baseline.\n%s", baseline, changed)
	}

	source := t.TempDir()
	run(top, "sh", "-c", fmt.Sprintf("git archive %s | tar -x -C '%s'", baseline, source))
	path = filepath.Join(t.TempDir(), "actlog")
	run(source, "go", "build", "-o", path, "./cmd/actlog")
	files, err := filepath.Glob(filepath.Join(source, "migrations", "*.sql"))
	if err != nil {
		t.Fatal(err)
	}
	return path, len(files)
}

// balancer sends requests to servers that are ready, in turn, as /readyz says.
type balancer struct {
	t   *testing.T
	url string

	mu   sync.Mutex
	all  map[string]bool // by address, and whether it is ready
	turn int
}

func newBalancer(t *testing.T) *balancer {
	t.Helper()
	b := &balancer{t: t, all: map[string]bool{}}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(b.next(t)) },
		ModifyResponse: func(r *http.Response) error {
			if r.StatusCode >= http.StatusInternalServerError {
				t.Errorf("an answer of a ready server: %s", r.Status)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil {
				t.Errorf("a request to a ready server: %v", err)
			}
			w.WriteHeader(http.StatusBadGateway)
		},
	}

	server := httptest.NewServer(proxy)
	b.url = server.URL
	stop, stopped := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() {
		close(stop)
		<-stopped
		server.Close()
	})

	go func() {
		defer close(stopped)
		for {
			b.look()
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return b
}

// add adds a server, and returns when requests may be sent to it.
func (b *balancer) add(url string) {
	b.mu.Lock()
	b.all[url] = false
	b.mu.Unlock()

	storetest.Until(b.t, url+" is ready", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.all[url]
	})
}

func (b *balancer) look() {
	b.mu.Lock()
	urls := make([]string, 0, len(b.all))
	for u := range b.all {
		urls = append(urls, u)
	}
	b.mu.Unlock()

	client := http.Client{Timeout: time.Second}
	for _, u := range urls {
		resp, err := client.Get(u + "/readyz")
		if err == nil {
			_ = resp.Body.Close()
		}
		b.mu.Lock()
		b.all[u] = err == nil && resp.StatusCode == http.StatusOK
		b.mu.Unlock()
	}
}

func (b *balancer) next(t *testing.T) *url.URL {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()

	var ready []string
	for u, is := range b.all {
		if is {
			ready = append(ready, u)
		}
	}

	if len(ready) == 0 {
		t.Error("no server is ready")
		return &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	}

	b.turn++
	u, _ := url.Parse(ready[b.turn%len(ready)])
	return u
}

// TestRollingUpgrade replaces two servers of the baseline by new ones under load, and puts one of them back. No request
// to a server that says that it is ready fails, and all of them see all that was acknowledged.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	before, ofBaseline := buildBaseline(t)
	files, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		t.Fatal(err)
	}

	db := pgtest.Empty(t)
	args := []string{
		"serve", "--listen", "127.0.0.1:0", "--otlp-listen", "off", "--database-url", db.URL, "--drain-delay", "2s",
	}
	serve := func(path string) *program {
		p := beginFile(t, path, args...)
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("the log of %s, %s:\n%s", p.url, path, p.stderr)
			}
		})
		p.served(t)
		return p
	}
	applied := func() (n int) {
		if err := db.Pool.QueryRow(t.Context(),
			"SELECT count(*) FROM "+migrations.VersionTable+" WHERE is_applied AND version_id > 0").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}

	a, b := serve(before), serve(before)
	if n := applied(); n != ofBaseline {
		t.Fatalf("the baseline has %d migrations, and applied %d", ofBaseline, n)
	}

	balancer := newBalancer(t)
	balancer.add(a.url)
	balancer.add(b.url)
	l := newLedger(t, "plan-upgrade")
	stop := l.writers(balancer.url)
	l.await(t, 100)

	c := serve(os.Args[0]) // migrates, while the others serve
	if n := applied(); n != len(files) {
		t.Errorf("%d migrations are applied, want %d", n, len(files))
	}
	balancer.add(c.url)
	l.await(t, 100)
	stop()
	l.check(t, a.url)
	l.check(t, c.url)

	stop = l.writers(balancer.url)
	a.terminate(t)
	l.await(t, 100)
	old := serve(before) // on the newer schema
	balancer.add(old.url)
	l.await(t, 100)

	d := serve(os.Args[0])
	balancer.add(d.url)
	for _, p := range []*program{b, old} {
		p.terminate(t)
		l.await(t, 50)
	}

	stop()
	l.check(t, c.url)
	l.check(t, d.url)
	t.Logf("%d tool calls were acknowledged", l.count())
	if s := old.stderr.String(); len(files) > ofBaseline && !strings.Contains(s, "ahead") {
		t.Errorf("the old server on the newer schema does not say so:\n%s", s)
	}
}
