package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

// latecomer is a Postgres that is not there yet: nobody listens at its socket at first.
type latecomer struct {
	url    string
	config *pgx.ConnConfig // of the Postgres
	socket string
}

func newLatecomer(t *testing.T, database string) *latecomer {
	t.Helper()
	config, err := pgx.ParseConfig(database)
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.MkdirTemp("", "late") //nolint:usetesting // the path of a socket has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })

	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}

	query := u.Query()
	query.Set("host", folder)
	query.Set("port", "5432")
	query.Set("sslmode", "disable")
	u.Host, u.RawQuery = "", query.Encode()
	return &latecomer{url: u.String(), config: config, socket: filepath.Join(folder, ".s.PGSQL.5432")}
}

// listen calls each for the connections to the socket, until stop is called.
func (l *latecomer) listen(t *testing.T, each func(net.Conn)) (stop func()) {
	t.Helper()
	listener, err := net.Listen("unix", l.socket)
	if err != nil {
		t.Fatal(err)
	}

	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				each(conn)
			})
		}
	})
	return sync.OnceFunc(func() {
		_ = listener.Close()
		running.Wait()
	})
}

// starts lets the Postgres be one that is starting up, until stop is called.
func (l *latecomer) starts(t *testing.T) (stop func()) {
	t.Helper()
	return l.listen(t, func(conn net.Conn) {
		backend := pgproto3.NewBackend(conn, conn)
		if _, err := backend.ReceiveStartupMessage(); err == nil {
			backend.Send(&pgproto3.ErrorResponse{
				Severity: "FATAL", Code: "57P03", Message: "the database system is starting up",
			})
			_ = backend.Flush()
		}
	})
}

// arrives lets the Postgres be there until the test ends.
func (l *latecomer) arrives(t *testing.T) {
	t.Helper()
	t.Cleanup(l.listen(t, func(conn net.Conn) {
		network, address := pgconn.NetworkAddress(l.config.Host, l.config.Port)
		to, err := net.Dial(network, address)
		if err != nil {
			t.Error(err)
			return
		}
		defer to.Close()

		var back sync.WaitGroup
		back.Go(func() {
			_, _ = io.Copy(conn, to)
			_ = conn.Close()
		})
		_, _ = io.Copy(to, conn)
		_ = to.Close()
		back.Wait()
	}))
}

// freeAddress returns an address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// reply is what a server answers to a request.
type reply struct {
	status int
	header http.Header
	body   string
}

func askFor(t *testing.T, method, address string, header ...string) (a reply, err error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}

	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()

	body, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(body)}, err
}

// untilAnswer asks until the answer has a status and a text.
func untilAnswer(t *testing.T, address string, status int, text string) (answer reply) {
	t.Helper()
	storetest.Until(t, fmt.Sprintf("%s answers %d %q", address, status, text), func() (holds bool) {
		var err error
		answer, err = askFor(t, http.MethodGet, address)
		return err == nil && answer.status == status && strings.Contains(answer.body, text)
	})
	return answer
}

// O1: a server that is started before its Postgres listens at once, refuses requests with the reason, and serves when
// Postgres is there.
func TestServerBeforePostgres(t *testing.T) {
	t.Parallel()
	late := newLatecomer(t, pgtest.Empty(t).URL)
	address := freeAddress(t)
	overHTTP, overGRPC := freeAddress(t), freeAddress(t)
	base := "http://" + address
	p := begin(t, "serve", "--listen", address, "--otlp-listen", overHTTP, "--otlp-grpc-listen", overGRPC,
		"--database-url", late.url)

	untilAnswer(t, base+"/livez", http.StatusOK, "ok")
	untilAnswer(t, base+"/readyz", http.StatusServiceUnavailable, "cannot be reached")
	for _, request := range [][2]string{
		{http.MethodGet, base + "/api/v1/plans"}, {http.MethodPost, base + "/api/v1/records"},
		{http.MethodDelete, base + "/api/executor/details/p"},
		{http.MethodPost, base + "/v1/traces"}, {http.MethodPost, "http://" + overHTTP + "/v1/traces"},
		{http.MethodGet, base + "/api/v1/events"},
	} {
		a, err := askFor(t, request[0], request[1], "Content-Type", "application/json")
		if err != nil || a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" ||
			!strings.Contains(a.body, "cannot be reached") {
			t.Errorf("%s: %+v, %v", request, a, err)
		}
	}
	if a, err := askFor(t, http.MethodGet, base+"/runs/p", "Accept", "text/html"); err != nil ||
		a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "<html") {
		t.Errorf("the page: %+v, %v", a, err)
	}

	conn, err := grpc.NewClient(overGRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	export := func() codes.Code {
		_, err := collectortrace.NewTraceServiceClient(conn).Export(t.Context(), &collectortrace.ExportTraceServiceRequest{})
		return grpcstatus.Code(err)
	}
	if code := export(); code != codes.Unavailable {
		t.Errorf("over gRPC: %v", code)
	}

	stop := late.starts(t)
	untilAnswer(t, base+"/readyz", http.StatusServiceUnavailable, "starting up")
	stop()
	late.arrives(t)
	p.served(t)
	untilAnswer(t, base+"/readyz", http.StatusOK, "ok")

	if a, err := askFor(t, http.MethodGet, base+"/api/v1/plans"); err != nil || a.status != http.StatusOK {
		t.Errorf("when Postgres is there: %+v, %v", a, err)
	}
	if code := export(); code != codes.OK {
		t.Errorf("over gRPC, when Postgres is there: %v", code)
	}
	p.terminate(t)
	if log := p.stderr.String(); strings.Count(log, "waiting for the database") != 1 ||
		strings.Count(log, "the database is there") != 1 {
		t.Errorf("the log says it more than once, or never:\n%s", log)
	}
}

const emptyConfig = "agents: {helper: {description: Helps}}\nmodels: {default: {provider: openai, model: m}}\n"

func writeConfig(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "actlog.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// O1: a worker waits for Postgres, and for a server that migrates the database.
func TestWorkerBeforePostgres(t *testing.T) {
	t.Parallel()
	database := pgtest.Empty(t).URL
	late := newLatecomer(t, database)
	file := writeConfig(t, emptyConfig)
	w := begin(t, "work", "--listen", "127.0.0.1:0", "--config", file, "--workers", "1", "--database-url", late.url)
	w.says(t, "serves health and metrics on http")
	base := regexp.MustCompile(`serves health and metrics on (\S+)`).FindStringSubmatch(w.stderr.String())[1]

	untilAnswer(t, base+"/livez", http.StatusOK, "ok")
	if a := untilAnswer(t, base+"/readyz", http.StatusServiceUnavailable,
		"cannot be reached"); a.header.Get("Retry-After") == "" {
		t.Errorf("untilAnswer = %+v", a)
	}

	late.arrives(t)
	untilAnswer(t, base+"/readyz", http.StatusServiceUnavailable, "not migrated")
	s := start(t, "serve", "--listen", "127.0.0.1:0", "--workers", "0", "--config", file, "--database-url", database)
	untilAnswer(t, base+"/readyz", http.StatusOK, "ok")
	untilAnswer(t, base+"/metrics", http.StatusOK, "actlog_runs_carried")
	w.terminate(t)
	s.terminate(t)
}

// O1: who waits can be stopped at any time, and asked to read files again.
func TestStoppedWhileWaiting(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	keys := filepath.Join(folder, "keys")
	must(t, "key", "one", "--file", keys)
	file := writeConfig(t, emptyConfig)

	for _, args := range [][]string{
		{"serve", "--listen", "127.0.0.1:0", "--api-keys", keys, "--config", file},
		{"work", "--listen", "127.0.0.1:0", "--api-keys", keys, "--config", file},
	} {
		for _, hangUp := range []bool{true, false} {
			p := begin(t, append(args, "--database-url", "postgres://127.0.0.1:1/x")...)
			p.says(t, "waiting for the database")

			if hangUp {
				if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
					t.Fatal(err)
				}
				p.says(t, "reloaded the configuration")
			}
			p.terminate(t)
		}
	}
}

// O1: the wait has an end if it is given one, and does not begin where somebody has to correct something first.
func TestWaitingHasAnEnd(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	u, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}

	u.Path = "/nowhere"
	file := writeConfig(t, emptyConfig)
	const away = "postgres://127.0.0.1:1/x"
	for _, command := range [][]string{{"serve", "--listen", "127.0.0.1:0"}, {"work", "--config", file}} {
		for name, tt := range map[string]struct {
			url, wait string
			code      int
			want      string
		}{
			"no wait":           {away, "0s", exitFailed, "127.0.0.1"},
			"a short wait":      {away, "30ms", exitFailed, "not there within 30ms (--wait-for-database)"},
			"no such database":  {u.String(), "forever", exitFailed, "nowhere"},
			"no URL":            {"postgres://[/", "forever", exitFailed, "parse"},
			"no time":           {away, "soon", exitUsage, "--wait-for-database"},
			"less than nothing": {away, "-1s", exitUsage, "--wait-for-database"},
		} {
			began := time.Now()
			code, _, stderr := actlog(t, append(command, "--database-url", tt.url, "--wait-for-database="+tt.wait)...)
			if code != tt.code || !strings.Contains(stderr, tt.want) {
				t.Errorf("%s, %s: exit code %d after %s, want %d: %s", command[0], name, code, time.Since(began), tt.code, stderr)
			}
		}
	}
}

// F6: a mistake in the configuration is found before anything is started, and is all that is said.
func TestMistakesComeFirst(t *testing.T) {
	t.Parallel()
	file := writeConfig(t, "models: {}\nagents:\n  helper: {description: Helps, model: none, maxStep: 3}\n")
	folder := filepath.Join(t.TempDir(), "data")
	for _, args := range [][]string{
		{"serve", "--listen", "127.0.0.1:0", "--data-dir", folder},
		{"serve", "--listen", "127.0.0.1:0", "--database-url", "postgres://127.0.0.1:1/x"},
		{"work", "--database-url", "postgres://127.0.0.1:1/x"},
	} {
		code, stdout, stderr := actlog(t, append(args, "--config", file)...)
		if code != exitFailed || stdout != "" || !strings.HasPrefix(stderr, "actlog: "+file+":3: agents.helper.m") ||
			strings.Count(stderr, "\n") != 2 {
			t.Errorf("%s: exit code %d\n%s%s", args, code, stdout, stderr)
		}
	}

	if _, err := os.Stat(folder); err == nil {
		t.Error("a private Postgres was made")
	}
}

// F6: config check finds what serve would, without a database.
func TestConfigCheck(t *testing.T) {
	t.Parallel()
	good := writeConfig(t, emptyConfig+"policies: [{tools: nothing, approval: true}]\ntoolsets: {files: {root: .}}\n")
	code, stdout, stderr := actlog(t, "config", "check", good)
	if code != exitDone || stderr != "" {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	wantAll(t, stdout, "warning: "+good+":3: policies", good+" can be used\n")

	bad := writeConfig(t, "models: {}\nagents:\n  helper: {description: Helps, model: none, maxStep: 3}\n")
	code, stdout, stderr = actlog(t, "config", "check", bad)
	if code != exitFailed || strings.Count(stdout, "\n") != 2 || strings.Count(stdout, bad+":3: agents.helper.m") != 2 ||
		!strings.Contains(stderr, "mistakes: 2") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}

	wantAll(t, must(t, "config", "check", "--help"), "that each name is of something in the file",
		"Exit code 0: the file can be used", "1: it cannot be used", "2: the command line")

	for name, path := range map[string]string{
		"no file":   filepath.Join(t.TempDir(), "none.yaml"),
		"no folder": writeConfig(t, "toolsets: {files: {root: ./nowhere}}\n"),
	} {
		if code, stdout, stderr := actlog(t, "config", "check", path); code != exitFailed ||
			!strings.Contains(stdout+stderr, path) {
			t.Errorf("%s: exit code %d\n%s%s", name, code, stdout, stderr)
		}
	}
}

// O3: migrate down says what is lost, and does nothing while servers use the database, unless it is forced.
func TestMigrateDown(t *testing.T) {
	t.Parallel()
	database := pgtest.Empty(t).URL
	server := start(t, "serve", "--listen", "127.0.0.1:0", "--database-url", database)
	down := []string{"migrate", "down", "--yes", "--database-url", database}
	if code, _, stderr := actlog(t, down...); code != exitFailed || !strings.Contains(stderr, "--force") {
		t.Errorf("while a server runs: exit code %d\n%s", code, stderr)
	}
	server.terminate(t)

	code, _, stderr := actlog(t, down...)
	if code != exitDone || !strings.Contains(stderr, ".sql is taken back") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}

	must(t, "migrate", "up", "--database-url", database)
	server = start(t, "serve", "--listen", "127.0.0.1:0", "--database-url", database)
	if code, _, stderr := actlog(t, append(down, "--force")...); code != exitDone {
		t.Errorf("by force: exit code %d\n%s", code, stderr)
	}
	server.terminate(t)
}
