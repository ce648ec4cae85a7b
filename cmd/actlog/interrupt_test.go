package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

// TestInterrupted (N5) sends signals to commands before they are done. Each must end with the exit
// code that shells have for the signal, and never with that of success.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 100)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	url, s := serve(t, apitest.Config{}, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked <- struct{}{}
			h.ServeHTTP(w, r)
		})
	})
	storetest.Write(t, s, runningPlan("p")...)

	for _, tt := range []struct {
		name string
		args []string
		wait string // what it prints before it is interrupted; empty: a request arrives
	}{
		{"a live plan", []string{"tail", "p", "--server", url}, "plan p  Work  RUNNING"},
		{"all plans", []string{"tail", "--server", url}, "p  RUNNING"},
		{"its events", []string{"tail", "p", "--json", "--server", url}, `"RUNNING"`},
		{"list", []string{"list", "--server", silent.URL}, ""},
		{"show", []string{"show", "p", "--server", silent.URL}, ""},
		{"ready", []string{"ready", "--server", silent.URL}, ""},
		{"export", []string{"export", "p", "--server", silent.URL}, ""},
		{"delete", []string{"delete", "p", "--yes", "--server", silent.URL}, ""},
		{"import", []string{"import", "testdata/tree.txt", "--server", silent.URL}, ""},
		{"import of stdin", []string{"import", "-", "--server", url}, ""},
	} {
		for signal, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
			for len(asked) > 0 { // by the command before, which asks several times
				<-asked
			}

			out := new(watched)
			cmd := exec.CommandContext(t.Context(), os.Args[0], tt.args...)
			cmd.Env = append(os.Environ(), beMain+"=1")
			cmd.Stdout, cmd.Stderr = out, out
			stdin, err := cmd.StdinPipe() // which stays open
			if err != nil {
				t.Fatal(err)
			}

			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if tt.wait != "" {
				out.await(t, tt.wait)
			}
			<-asked
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}

			_ = cmd.Wait()
			_ = stdin.Close()
			if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(out.String(), "stopped by SIG") &&
				tt.name != "import" {
				t.Errorf("%s: exit code %d after %v\n%s", tt.name, got, signal, out)
			}
		}
	}
}

// TestInterruptedPsql (N5): Ctrl-C is for the client, which ends its query.
func TestInterruptedPsql(t *testing.T) {
	t.Parallel()
	requireClients(t, "psql")
	database := pgtest.New(t)
	for signal, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		query := fmt.Sprintf("SELECT pg_sleep(1000) -- %d", signal)
		p := begin(t, "psql", "--database-url", database.URL, "--", "-c", query)
		client := p.child(t, "pg_sleep")
		storetest.Until(t, "the query runs", func() (runs bool) {
			if err := database.Pool.QueryRow(t.Context(), "SELECT count(*) > 0 FROM pg_stat_activity WHERE query = $1",
				query).Scan(&runs); err != nil {
				t.Fatal(err)
			}
			return runs
		})

		if err := p.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if signal == syscall.SIGINT { // a terminal sends it to both
			_ = client.Signal(signal)
		}
		if _ = p.cmd.Wait(); p.cmd.ProcessState.ExitCode() != code {
			t.Errorf("exit code %d after %v\n%s", p.cmd.ProcessState.ExitCode(), signal, p.stderr)
		}
	}
}

// TestStoppedServer (N5): a signal is how a server ends, so its exit code is 0. A second server on
// the same address ends with a hint (N26).
func TestStoppedServer(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		database := pgtest.Empty(t).URL
		p := start(t, "serve", "--listen", "127.0.0.1:0", "--database-url", database)
		address := strings.TrimPrefix(p.url, "http://")
		code, _, stderr := actlog(t, "serve", "--listen", address, "--database-url", database)
		if code != exitFailed || !strings.Contains(stderr, "name another address with --listen") {
			t.Errorf("exit code %d: %s", code, stderr)
		}

		if err := p.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("%v: %v\n%s", signal, err, p.stderr)
		}
	}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()

	for _, flag := range []string{"--otlp-listen", "--otlp-grpc-listen"} {
		code, _, stderr := actlog(t, "serve", "--listen", "127.0.0.1:0", flag, l.Addr().String())
		if code != exitFailed || !strings.Contains(stderr, "name another address with "+flag) {
			t.Errorf("exit code %d: %s", code, stderr)
		}
	}
}

// TestInterruptible ends a read that would wait for ever.
func TestInterruptible(t *testing.T) {
	t.Parallel()
	never, end := io.Pipe()
	defer end.Close()
	ctx, stop := context.WithCancelCause(t.Context())
	r := interruptible(ctx, never)
	defer r.Close()

	stop(interruption{syscall.SIGINT})
	if _, err := r.Read(make([]byte, 1)); err == nil || err.Error() != "stopped by SIGINT" {
		t.Errorf("r.Read(make([]byte, 1)) = %v", err)
	}
}
