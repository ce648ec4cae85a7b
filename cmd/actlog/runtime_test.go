package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/pg"
	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/scriptmodel"
)

// TestWorkerIsKilled runs an agent of a configuration, kills its worker in the middle, and checks that
// another process goes on with the run, through an approval to its end.
func TestWorkerIsKilled(t *testing.T) {
	t.Parallel()
	call := func(name string, arguments any) scriptmodel.Turn {
		return scriptmodel.Turn{ToolCalls: []scriptmodel.ToolCall{{Name: name, Arguments: arguments}}}
	}
	slow := call("files-read_file", map[string]string{"path": "a.txt"})
	slow.Delay = scriptmodel.Duration(500 * time.Millisecond)
	m, err := scriptmodel.Start(scriptmodel.Script{Scenes: []scriptmodel.Scene{{Name: "s", Turns: []scriptmodel.Turn{
		call("files-list_files", nil), slow, call("files-write_file", map[string]string{"path": "b.txt", "content": "written once"}),
		call("terminate", map[string]string{"message": "All is done."}),
	}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("read me"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "actlog.yaml")
	config := fmt.Sprintf(`
models:
  default: {provider: openai, model: scripted, baseURL: %q, apiKey: planted-secret-key}
toolsets:
  files: {root: .}
policies:
  - {tools: files.write_file, approval: true}
agents:
  helper: {description: Helps, tools: ["files.*"]}
`, m.URL())
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	db := pgtest.Fresh(t)
	server := start(t, "serve", "--listen", "127.0.0.1:0", "--database-url", db.URL, "--config", file, "--workers", "0")
	doomed := begin(t, "work", "--database-url", db.URL, "--config", file, "--workers", "1")

	type run struct {
		PlanID, State, Result string
		Takeovers             int
		Waits                 []struct{ WaitID, Name string }
	}
	ask := func(method, path, body string, want int) (r run) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, server.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != want {
			t.Fatalf("%s %s: %d %s %v", method, path, resp.StatusCode, b, err)
		}
		if bytes.Contains(b, []byte("planted-secret")) {
			t.Errorf("%s %s shows the key", method, path)
		}
		if err := json.Unmarshal(b, &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	until := func(id, what string, holds func(run) bool) run {
		t.Helper()
		for {
			if r := ask(http.MethodGet, "/api/v1/runs/"+id, "", http.StatusOK); holds(r) {
				return r
			} else if r.State == "FAILED" {
				t.Fatalf("it failed: %+v", r)
			}
			if pg.Pause(t.Context(), 20*time.Millisecond) != nil {
				t.Fatal("never: " + what)
			}
		}
	}
	id := ask(http.MethodPost, "/api/v1/runs", `{"executor":"agent","input":{"agent":"helper","request":"Help."}}`, http.StatusAccepted).PlanID
	until(id, "it runs", func(r run) bool { return r.State == "RUNNING" })
	if err := doomed.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	next := begin(t, "work", "--database-url", db.URL, "--config", file, "--workers", "1", "--listen", "127.0.0.1:0")
	r := until(id, "it waits", func(r run) bool { return r.State == "WAITING" })
	if len(r.Waits) != 1 || r.Waits[0].Name != "files.write_file" {
		t.Errorf("it waits: %+v", r)
	}
	if _, err := os.Stat(filepath.Join(dir, "b.txt")); err == nil {
		t.Error("the file was written before it was approved")
	}
	ask(http.MethodPost, "/api/v1/runs/"+id+"/waits/"+r.Waits[0].WaitID, `{"decision":"approve"}`, http.StatusOK)
	if r = until(id, "it ends", func(r run) bool { return r.State == "COMPLETED" }); r.Result != "All is done." || r.Takeovers != 1 {
		t.Errorf("it ended: %+v", r)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "b.txt")); err != nil || string(b) != "written once" {
		t.Errorf("the file is %q, %v", b, err)
	}
	health := regexp.MustCompile(`actlog serves health and metrics on (\S+)`).FindStringSubmatch(next.stderr.String())
	if health == nil {
		t.Fatalf("the worker does not say where its metrics are:\n%s", next.stderr)
	}
	figures := body(t, health[1]+"/metrics")
	for _, want := range []string{
		"actlog_run_takeovers_total 1\n", `actlog_run_ended_total{executor="agent",state="COMPLETED"} 1`, `actlog_run_parked_total{executor="agent",state="WAITING"} 1`,
		`actlog_tool_call_duration_seconds_count{tool="files.write_file"} 1`, `actlog_model_call_duration_seconds_count{model="scripted"}`, "actlog_config_stale 0\n",
	} {
		if !strings.Contains(figures, want) {
			t.Errorf("the metrics of the worker lack %s:\n%s", want, regexp.MustCompile("(?m)^actlog_(run|tool|model).*$").FindAllString(figures, 100))
		}
	}
	if got := body(t, health[1]+"/readyz"); got != "ok\n" {
		t.Errorf("ready: %s", got)
	}
}

// body returns the body of the answer to a request.
func body(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
