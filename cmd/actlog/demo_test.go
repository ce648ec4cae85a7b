package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

// playDemo runs the whole demo, and returns what it printed.
func playDemo(t *testing.T, dataDir, databaseURL string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "demo", "--once", "--pace", "1ms", "--listen", "127.0.0.1:0",
		"--data-dir", dataDir, "--database-url", databaseURL)
	cmd.Env = append(os.Environ(), beMain+"=1") // its worker is this program, too
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("cmd.CombinedOutput() = %v\n%s", err, out)
	}
	return string(out)
}

// TestDemo runs the demo twice on one database and folder. A worker is killed in the middle of an answer,
// another goes on, and the file that needs an approval is written once it has it.
func TestDemo(t *testing.T) {
	t.Parallel()
	dir, database := filepath.Join(t.TempDir(), ".actlog"), pgtest.Empty(t).URL // as the data folder is called
	for n := 1; n <= 2; n++ {
		out := playDemo(t, dir, database)
		if strings.Contains(out, "FAILED") {
			t.Errorf("something failed:\n%s", out)
		}

		wantAll(t, out, ">>> The demo has killed the worker", "the answer begins again, attempt 2")
		wantAll(t, out, "demo/actlog.yaml defines two agents", "In a browser, watch it on its page: http", "analyst:",
			"   researcher:", "the answer begins again, attempt 2",
			"May files.write_file run?", ">>> The demo approves", "APPROVED  by demo", "← files.write_file  COMPLETED",
			"report.md has it for the team.",
			"analyst  COMPLETED", "/runs/plan-", "/api/executor/details/plan-", "/api/executor/agent-execution/step-",
			" show plan-", " --server http", " runs --server http", " run analyst ", " --server http")

		conn := connect(t, database, "")
		if got := mustSQL(t, conn, "SELECT FROM actlog.run WHERE executor = 'agent' AND takeovers > 0"); got != n {
			t.Errorf("%d runs were taken over, want %d", got, n)
		}
		if got := mustSQL(t, conn, "SELECT FROM actlog.act_tool_info WHERE coalesce(attempt, 1) > 1"); got != 0 {
			t.Errorf("%d tool calls were made again", got)
		}
	}

	if b, err := os.ReadFile(filepath.Join(dir, "demo", "shop", "report.md")); err != nil ||
		!strings.Contains(string(b), "31 of 210") {
		t.Errorf("os.ReadFile = %q, %v", b, err)
	}
}

// TestDemoIsKilled: the worker of a demo ends with it, also if the demo has no time to end it. A demo whose
// worker is killed by somebody else ends, too, and says so.
func TestDemoIsKilled(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, *program, *os.Process){
		"killed": func(t *testing.T, p *program, _ *os.Process) {
			t.Helper()
			p.kill(t)
		},
		"stopped": func(t *testing.T, p *program, _ *os.Process) {
			t.Helper()
			p.terminate(t)
		},
		"without its worker": func(t *testing.T, p *program, worker *os.Process) {
			t.Helper()
			if err := worker.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = p.cmd.Wait()
			if code := p.cmd.ProcessState.ExitCode(); code != exitFailed ||
				!strings.Contains(p.stderr.String(), "the worker ended (signal: killed)") {
				t.Errorf("exit code %d\n%s", code, p.stderr)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, "demo", "--pace", "1ms", "--listen", "127.0.0.1:0", "--data-dir", t.TempDir(), "--database-url",
				pgtest.Empty(t).URL)
			p.says(t, "Still serving")

			worker := p.child(t, "--attached")
			end(t, p, worker)
			storetest.Until(t, "the worker ends", func() bool { return !alive(worker.Pid) })
		})
	}
}

// alive reports whether a process runs. One that has ended may still be listed, without a command line.
func alive(pid int) bool {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return err == nil && len(line) > 0
}

// F9: a demo whose port is taken leaves nothing behind, and says nothing but that.
func TestDemoWhosePortIsTaken(t *testing.T) {
	t.Parallel()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()

	dir := filepath.Join(t.TempDir(), "data")
	code, stdout, stderr := actlog(t, "demo", "--listen", taken.Addr().String(), "--data-dir", dir)
	if code != exitFailed || stdout != "" || !strings.HasPrefix(stderr, "actlog: listen on ") ||
		strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("it left %s: %v", dir, err)
	}
}

// F9: where the data folder cannot be written, the error says how to name another, and no warning stands before it.
func TestFolderThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}

	for _, command := range []string{"serve", "demo"} {
		code, _, stderr := actlog(t, command, "--listen", "127.0.0.1:0", "--otlp-listen", "off", "--data-dir",
			filepath.Join(file, "data"))
		if code != exitFailed || !strings.HasPrefix(stderr, "actlog: ") ||
			!strings.Contains(stderr, "--data-dir names another") {
			t.Errorf("%s: exit code %d\n%s", command, code, stderr)
		}
	}
}
