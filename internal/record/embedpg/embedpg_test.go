//go:build unix

package embedpg

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
)

// helperEnv turns the test binary into a program that starts a server and waits until it is
// killed. Its value is the folder, or "temp" for a temporary server.
const helperEnv = "EMBEDPG_TEST_HELPER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperEnv); dir != "" {
		helper(dir)
	}
	goleak.VerifyTestMain(m)
}

func helper(dir string) {
	ctx := context.Background()
	var s *Server
	var err error
	if dir == "temp" {
		s, err = StartTemp(ctx, Config{Fast: true})
	} else {
		s, err = Start(ctx, Config{Dir: dir})
	}
	if err == nil {
		err = addRow(ctx, s.URL())
	}

	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(s.PID(), s.cluster.Dir)
	select {}
}

func TestRestartKeepsData(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(publicDir(t), "pg")
	first := mustStart(t, Config{Dir: dir})

	for setting, want := range map[string]string{
		"server_encoding":           "UTF8",
		"lc_collate":                "C",
		"data_checksums":            "on",
		"password_encryption":       "scram-sha-256",
		"max_locks_per_transaction": "256",
		"max_connections":           "100",
		"shared_buffers":            "128MB",
		"synchronous_commit":        "on",
		"fsync":                     "on",
		"listen_addresses":          "",
	} {
		if got := query(t, first, "SELECT current_setting('"+setting+"', true)"); got != want {
			// Since version 16, lc_collate is not a setting any more.
			if setting != "lc_collate" || got != "" {
				t.Errorf("setting = %s = %q, want %q", setting, got, want)
			}
		}
	}

	if !strings.HasPrefix(query(t, first, "SELECT current_setting('server_version')"), first.Version()) {
		t.Errorf("Version() = %q", first.Version())
	}
	if info, err := os.Stat(filepath.Join(dir, "password")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("password file: %v, %v", info.Mode(), err)
	}
	if group, err := syscall.Getpgid(first.PID()); err != nil || group == syscall.Getpgrp() {
		t.Errorf("postmaster is in process group %d, which receives Ctrl-C: %v", group, err)
	}

	mustAddRow(t, first)
	mustClose(t, first)
	mustClose(t, first) // a second Close does nothing

	second := mustStart(t, Config{Dir: dir})
	if second.URL() != first.URL() {
		t.Errorf("URL changed from %s to %s", first.URL(), second.URL())
	}
	wantRows(t, second, 1)
	mustClose(t, second)

	if err := os.Remove(filepath.Join(dir, "password")); err != nil {
		t.Fatal(err)
	}
	third := mustStart(t, Config{Dir: dir})
	wantRows(t, third, 1)
}

func TestFolderInUse(t *testing.T) {
	t.Parallel()
	s := mustStart(t, Config{Dir: publicDir(t), Fast: true})
	_, err := Start(t.Context(), Config{Dir: s.cluster.Dir, Fast: true})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), s.cluster.Dir) {
		t.Errorf("second Start: %v", err)
	}
}

func TestPostmasterKilled(t *testing.T) {
	t.Parallel()
	logged := make(messages, 10)
	s := mustStart(t, Config{Dir: publicDir(t), Logger: slog.New(logged)})
	mustAddRow(t, s)

	// A session that is busy computing does not notice that its postmaster is gone.
	busy := connect(t, s)
	result := make(chan error, 1)
	go func() {
		_, err := busy.Exec(context.Background(), "SELECT count(*) FROM generate_series(1, 1000000000000)")
		result <- err
	}()

	watch := connect(t, s)
	for active := 0; active == 0; {
		err := watch.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND state = 'active'",
			busy.PgConn().PID()).Scan(&active)
		if err != nil {
			t.Fatal(err)
		}
	}

	for restarts := 1; restarts <= 2; restarts++ {
		old := s.PID()
		if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		logged.wait(t, "postgres restarted")
		wantRows(t, s, 1)
		if s.Restarts() != restarts || s.PID() == old || s.PID() == 0 {
			t.Errorf("restarts = %d, want %d; pid = %d, was %d", s.Restarts(), restarts, s.PID(), old)
		}
	}

	if err := <-result; err == nil {
		t.Error("the session outlived its server")
	}
}

func TestProgramCrash(t *testing.T) {
	t.Parallel()
	dir := publicDir(t)
	pid, _ := crash(t, dir)
	data := filepath.Join(dir, "data")
	if !isPostmaster(pid, data) {
		t.Fatal("the server stopped with its program, so this test tests nothing")
	}

	s := mustStart(t, Config{Dir: dir})
	wantRows(t, s, 1)
	if isPostmaster(pid, data) {
		t.Errorf("the old server %d still runs", pid)
	}
	mustClose(t, s)

	// The machine crashes. After the reboot another process has the process id.
	pid, _ = crash(t, dir)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}

	pidFile := filepath.Join(data, "postmaster.pid")
	b, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "\n")
	if err := os.WriteFile(pidFile, []byte(strconv.Itoa(os.Getppid())+"\n"+rest), 0o600); err != nil {
		t.Fatal(err)
	}

	s = mustStart(t, Config{Dir: dir})
	wantRows(t, s, 2)
}

func TestTemp(t *testing.T) {
	t.Parallel()
	pid, stale := crash(t, "temp")
	s, err := StartTemp(t.Context(), Config{Fast: true})
	if err != nil {
		t.Fatal(err)
	}

	mustAddRow(t, s)
	if isPostmaster(pid, filepath.Join(stale, "data")) {
		t.Errorf("the stale server %d still runs", pid)
	}
	if _, err := os.Stat(stale); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the stale folder %s still exists: %v", stale, err)
	}

	mustClose(t, s)
	if _, err := os.Stat(s.cluster.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder %s still exists: %v", s.cluster.Dir, err)
	}
}

func TestCloseCancelled(t *testing.T) {
	t.Parallel()
	dir := publicDir(t)
	s := mustStart(t, Config{Dir: dir})
	mustAddRow(t, s)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// The server may stop before Close checks ctx.
	if err := s.Close(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("Close: %v", err)
	}
	wantRows(t, mustStart(t, Config{Dir: dir}), 1)
}

func TestStartCancelled(t *testing.T) {
	t.Parallel()
	dir := publicDir(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, Config{Dir: dir, Fast: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("Start: %v", err)
	}
	mustStart(t, Config{Dir: dir, Fast: true}) // works now
}

func TestLongPath(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(publicDir(t), strings.Repeat("d", 110), strings.Repeat("e", 110))
	s := mustStart(t, Config{Dir: dir, Fast: true})
	mustAddRow(t, s)
	mustClose(t, s)
	if _, err := os.Stat(s.cluster.socketDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket folder %s still exists: %v", s.cluster.socketDir, err)
	}
}

func TestPathWithSpecialCharacters(t *testing.T) {
	t.Parallel()
	mustAddRow(t, mustStart(t, Config{Dir: filepath.Join(publicDir(t), `a b,c"d'é%`), Fast: true}))
}

func TestLoopback(t *testing.T) {
	t.Parallel()
	logged := make(messages, 10)
	s := mustStart(t, Config{Dir: publicDir(t), noSocket: true, Logger: slog.New(logged)})
	mustAddRow(t, s)

	if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	logged.wait(t, "postgres restarted")
	wantRows(t, s, 1)
}

func TestPostgresLogInError(t *testing.T) {
	t.Parallel()
	dir := publicDir(t)
	mustClose(t, mustStart(t, Config{Dir: dir, Fast: true}))
	conf := filepath.Join(dir, "data", "postgresql.conf")
	if err := os.WriteFile(conf, []byte("no_such_setting = on\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	_, err := Start(t.Context(), Config{Dir: dir, Fast: true})
	if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("Start: %v", err)
	}

	if err := os.WriteFile(conf, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mustStart(t, Config{Dir: dir, Fast: true}) // works in spite of the failed start
}

func TestFolderWithOtherFiles(t *testing.T) {
	t.Parallel()
	dir := publicDir(t)
	precious := filepath.Join(dir, "data", "precious")
	if err := os.MkdirAll(filepath.Dir(precious), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}

	if _, err := Start(t.Context(), Config{Dir: dir, Fast: true}); err == nil {
		t.Error("Start used a folder that contains other files")
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}

func TestUnwritableFolder(t *testing.T) {
	t.Parallel()
	_, err := Start(t.Context(), Config{Dir: "/proc/no/such"})
	if err == nil || !strings.Contains(err.Error(), "/proc/no") {
		t.Errorf("Start: %v", err)
	}
}

// TestRoot tests what only root can meet. If the tests run as root, TestOrdinaryUser runs
// the others as another user.
func TestRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Log("not root: nothing to test")
		return
	}

	t.Run("private folder", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}

		if !canUseNamespaces(t) {
			_, err := Start(t.Context(), Config{Dir: dir, Fast: true})
			if err == nil || !strings.Contains(err.Error(), "user postgres") {
				t.Errorf("Start: %v", err)
			}
			return
		}

		s := mustStart(t, Config{Dir: dir, Fast: true})
		mustAddRow(t, s)
		if owner := ownerOf(filepath.Join(dir, "data")); owner != 0 {
			t.Errorf("the data belongs to %d", owner)
		}
	})

	t.Run("data of another user", func(t *testing.T) {
		t.Parallel()
		const nobody = 65534
		dir := publicDir(t)
		data := filepath.Join(dir, "data")
		if err := os.Mkdir(data, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(data, nobody, nobody); err != nil {
			t.Fatal(err)
		}

		for range 2 {
			s := mustStart(t, Config{Dir: dir, Fast: true})
			mustAddRow(t, s)
			if owner := ownerOf(fmt.Sprintf("/proc/%d", s.PID())); owner != nobody {
				t.Errorf("postgres runs as %d", owner)
			}
			mustClose(t, s)
		}
	})
}

func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Log("not root: all tests run as an ordinary user")
		return
	}

	binary := filepath.Join(publicDir(t), "embedpg.test")
	copyFile(t, os.Args[0], binary)
	users := map[string]uint32{"nobody": 65534}
	if canUseNamespaces(t) {
		users["without a passwd entry"] = 54321
	}

	for name, uid := range users {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), binary, "-test.v",
				"-test.run=^Test(RestartKeepsData|ProgramCrash|Temp|LongPath)$")
			cmd.Dir = filepath.Dir(binary)
			cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}

			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("cmd.CombinedOutput() = %v\n%s", err, out)
			}
		})
	}
}

// canUseNamespaces reports whether the system allows user namespaces.
func canUseNamespaces(t *testing.T) bool {
	t.Helper()
	for _, id := range userNamespace() {
		err := execute(command(t.Context(), id, "/", "true"), "")
		if err == nil {
			return true
		}
		t.Logf("no user namespaces: %v", err)
	}
	return false
}

// mustStart starts a server and closes it at the end of the test.
func mustStart(t *testing.T, cfg Config) *Server {
	t.Helper()
	s, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

func mustClose(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := orphans(s.cluster.data); len(left) > 0 {
		t.Errorf("processes still running after Close: %v", left)
	}
}

func connect(t *testing.T, s *Server) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func query(t *testing.T, s *Server, sql string) (value string) {
	t.Helper()
	conn := connect(t, s)
	defer func() { _ = conn.Close(context.Background()) }()
	if err := conn.QueryRow(t.Context(), "SELECT coalesce(("+sql+")::text, '')").Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

func addRow(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "CREATE TABLE IF NOT EXISTS r (i int); INSERT INTO r VALUES (1)")
	return errors.Join(err, conn.Close(ctx))
}

func mustAddRow(t *testing.T, s *Server) {
	t.Helper()
	if err := addRow(t.Context(), s.URL()); err != nil {
		t.Fatal(err)
	}
}

func wantRows(t *testing.T, s *Server, want int) {
	t.Helper()
	if got := query(t, s, "SELECT count(*) FROM r"); got != strconv.Itoa(want) {
		t.Errorf("%s rows, want %d", got, want)
	}
}

// crash starts a server in another program and kills that program.
func crash(t *testing.T, dir string) (postmaster int, serverDir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}

	_ = cmd.Wait()
	if _, err := fmt.Sscan(line, &postmaster, &serverDir); err != nil {
		t.Fatalf("helper: %s", line)
	}
	return postmaster, serverDir
}

// publicDir returns a temporary folder that other users can enter.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "embedpg-") //nolint:usetesting // the path of t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	src, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = src.Close() }()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}

	_, err = io.Copy(dst, src)
	if err := errors.Join(err, dst.Close()); err != nil {
		t.Fatal(err)
	}
}

// messages is a log handler that sends the messages to a channel.
type messages chan string

func (m messages) Enabled(context.Context, slog.Level) bool { return true }
func (m messages) WithAttrs([]slog.Attr) slog.Handler       { return m }
func (m messages) WithGroup(string) slog.Handler            { return m }

func (m messages) Handle(_ context.Context, r slog.Record) error {
	select {
	case m <- r.Message:
	default: // no test waits for so many
	}
	return nil
}

func (m messages) wait(t *testing.T, message string) {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case got := <-m:
			if got == message {
				return
			}
		case <-timeout:
			t.Fatalf("never logged: %q", message)
		}
	}
}
