package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

// browser sends what a browser would, without following redirects.
func browser(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// send sends a request, with a form if there is one. Headers come in pairs.
func send(t *testing.T, client *http.Client, address, form string, header ...string) *http.Response {
	t.Helper()
	method, body := http.MethodGet, io.Reader(nil)
	if form != "" {
		method, body = http.MethodPost, strings.NewReader(form)
		header = append(header, "Content-Type", "application/x-www-form-urlencoded")
	}

	r, err := http.NewRequestWithContext(t.Context(), method, address, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if r.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			r.Host = header[i+1]
		}
	}

	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp
}

// local is an address of all interfaces as a program on this machine reaches it.
func local(address string) string { return strings.Replace(address, "[::]", "127.0.0.1", 1) }

// TestInsecureServersCheckHosts: S11. Without keys, no web page reaches a server that others can reach by a name of its
// own, at none of its addresses. Names that it was told do.
func TestInsecureServersCheckHosts(t *testing.T) {
	t.Parallel()
	args := []string{
		"serve", "--insecure", "--listen", "0.0.0.0:0", "--otlp-listen", "0.0.0.0:0", "--otlp-grpc-listen", "0.0.0.0:0",
		"--database-url", pgtest.Empty(t).URL,
	}
	p := start(t, append(args, "--allowed-hosts", "actlog.example,actlog")...)
	overHTTP, overGRPC := p.doors(t)
	machine, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}

	client := browser(t)
	for host, want := range map[string]int{
		"evil.example": 403, "evil.example:8420": 403, "10.0.0.1.nip.io": 403, "actlog.example": 200, "actlog:8420": 200,
		"10.1.2.3:8420": 200, "localhost": 200, machine: 200,
	} {
		for _, path := range []string{"/livez", "/api/v1/plans", "/"} {
			if got := send(t, client, local(p.url)+path, "", "Host", host).StatusCode; got != want {
				t.Errorf("host = %s%s: %d, want %d", host, path, got, want)
			}
		}
		if got := send(t, client, local(overHTTP)+
			"/v1/traces", "x=y", "Host", host).StatusCode; got == http.StatusForbidden != (want == 403) {
			t.Errorf("OTLP at %s: %d", host, got)
		}

		conn, err := grpc.NewClient(local(overGRPC), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithAuthority(host))
		if err != nil {
			t.Fatal(err)
		}
		_, err = ptraceotlp.NewGRPCClient(conn).Export(t.Context(), ptraceotlp.NewExportRequestFromTraces(ptrace.NewTraces()))
		if got := grpcstatus.Code(err); (got == codes.PermissionDenied) != (want == 403) || want == 200 && err != nil {
			t.Errorf("gRPC at %s: %v", host, err)
		}
		_ = conn.Close()
	}
	p.terminate(t)

	for name, args := range map[string][]string{
		"--trusted-proxy": {"--trusted-proxy", "10.0.0.0/8,proxy.example"},
		"--allowed-hosts": {"--allowed-hosts", "*.example"},
	} {
		if code, _, stderr := actlog(
			t, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...,
		); code != exitUsage || !strings.Contains(stderr, name) || !strings.Contains(stderr, ".example") {
			t.Errorf("%s: exit code %d: %s", name, code, stderr)
		}
	}
}

// TestSessionsOfKeysInFiles: S11. A session ends for good with its key, also if its server was stopped while the key
// was gone. A server whose file lacks a new key leaves the sessions that others have begun with it.
func TestSessionsOfKeysInFiles(t *testing.T) {
	t.Parallel()
	dir, database := t.TempDir(), pgtest.Empty(t).URL
	client := browser(t)
	file, stale := filepath.Join(dir, "keys"), filepath.Join(dir, "stale")

	newKey := func(name string) string {
		_, stdout, _ := actlog(t, "key", name, "--scopes", "read", "--file", file)
		return strings.TrimSpace(stdout)
	}
	read := func(name string) []byte {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	write := func(name string, text []byte) {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	serve := func(keys string) *program {
		return start(t, "serve", "--listen", "127.0.0.1:0", "--otlp-listen", "off", "--database-url", database, "--api-keys",
			keys)
	}
	reload := func(p *program) {
		t.Helper()
		const reloaded = "reloaded the API keys"
		n := strings.Count(p.stderr.String(), reloaded)
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		storetest.Until(t, "the keys are reloaded", func() bool { return strings.Count(p.stderr.String(), reloaded) > n })
	}
	login := func(p *program, key string) *http.Cookie {
		t.Helper()
		resp := send(t, client, p.url+"/login", url.Values{"key": {key}}.Encode())
		if resp.StatusCode != http.StatusSeeOther || len(resp.Cookies()) != 1 {
			t.Fatalf("resp.StatusCode = %d %v", resp.StatusCode, resp.Header)
		}
		return resp.Cookies()[0]
	}
	want := func(what string, p *program, session *http.Cookie, status int) {
		t.Helper()
		if got := send(t, client, p.url+"/api/v1/plans", "", "Cookie",
			session.Name+"="+session.Value).StatusCode; got != status {
			t.Errorf("%s: %d, want %d", what, got, status)
		}
	}

	first := newKey("first")
	onlyFirst := read(file)
	write(stale, onlyFirst)
	a, b := serve(file), serve(stale)

	second := newKey("second")
	both := read(file)
	reload(a)
	session, other := login(a, second), login(b, first)
	want("the new key", a, session, 200)
	reload(b)
	want("after a server without it has read its file again", a, session, 200)

	b.terminate(t)
	b = serve(stale)
	want("after a server without it has started", a, session, 200)
	want("of a server without it", b, session, 401)
	write(stale, both)
	reload(b)
	want("the file has arrived", b, session, 200)

	write(file, onlyFirst)
	reload(a)
	write(file, both)
	reload(a)
	want("its key was removed and restored", a, session, 401)
	want("its key was removed and restored elsewhere", b, session, 401)
	want("another key", a, other, 200)

	session = login(a, second)
	a.terminate(t)
	b.terminate(t)
	write(file, onlyFirst)
	a = serve(file)
	a.terminate(t)

	write(file, both)
	a = serve(file)
	want("its key was removed while the server was stopped", a, session, 401)
	want("another key", a, other, 200)

	// An older file takes the place of the newer one: what counts is when it was put there.
	session = login(a, second)
	a.terminate(t)
	write(stale, onlyFirst)
	if err := errors.Join(os.Chtimes(stale, time.Time{}, time.Now().Add(-time.Hour)), os.Rename(stale, file)); err != nil {
		t.Fatal(err)
	}

	a = serve(file)
	a.terminate(t)
	write(file, both)
	a = serve(file)
	want("its key was removed with an older file", a, session, 401)
	a.terminate(t)
}

// TestIdleConnectionsOfAServer: S10. As many connections as a server takes are open at each of its addresses, and it
// answers all the same.
func TestIdleConnectionsOfAServer(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys")
	_, stdout, _ := actlog(t, "key", "ops", "--file", file)
	key := strings.TrimSpace(stdout)
	p := start(t, "serve", "--listen", "127.0.0.1:0", "--otlp-listen", "127.0.0.1:0", "--otlp-grpc-listen", "127.0.0.1:0",
		"--max-connections", "10", "--database-url", pgtest.Empty(t).URL, "--api-keys", file)
	overHTTP, overGRPC := p.doors(t)

	for _, address := range []string{p.url, overHTTP, overGRPC} {
		for range 100 {
			conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
		}
	}

	client := browser(t)
	for range 20 {
		fresh := browser(t)
		if got := send(t, fresh, p.url+"/api/v1/plans", "", "X-Api-Key", key).StatusCode; got != http.StatusOK {
			t.Errorf("%d", got)
		}
		fresh.CloseIdleConnections()
	}
	if got := send(t, client, overHTTP+
		"/v1/traces", "x=y", "X-Api-Key", key).StatusCode; got != http.StatusUnsupportedMediaType {
		t.Errorf("%d", got)
	}

	conn, err := grpc.NewClient(overGRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, err = ptraceotlp.NewGRPCClient(conn).Export(t.Context(), ptraceotlp.NewExportRequestFromTraces(ptrace.NewTraces()))
	if grpcstatus.Code(err) != codes.Unauthenticated {
		t.Error(err)
	}
	p.kill(t)
}
