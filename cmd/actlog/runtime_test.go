package main

import (
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

	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/record"
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
		call("files-list_files", nil), slow, call("files-write_file", map[string]string{
			"path": "b.txt", "content": "written once",
		}),
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
  default: {provider: openai, model: scripted, baseURL: %q, apiKey: key}
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

	c := runClient{t, server.url}
	id := c.start("helper", "Help.")
	c.until(id, "it runs", func(r shownRun) bool { return r.State == "RUNNING" })
	if err := doomed.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}

	next := begin(t, "work", "--database-url", db.URL, "--config", file, "--workers", "1", "--listen", "127.0.0.1:0")
	r := c.until(id, "it waits", func(r shownRun) bool { return r.State == "WAITING" })
	if len(r.Waits) != 1 || r.Waits[0].Name != "files.write_file" {
		t.Errorf("it waits: %+v", r)
	}
	if _, err := os.Stat(filepath.Join(dir, "b.txt")); err == nil {
		t.Error("the file was written before it was approved")
	}

	c.decide(id, r.Waits[0].WaitID, `{"decision":"approve"}`)
	if r = c.until(id, "it ends", func(r shownRun) bool {
		return r.State == "COMPLETED"
	}); r.Result != "All is done." || r.Takeovers != 1 {
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
		"actlog_run_takeovers_total 1\n", `actlog_run_ended_total{executor="agent",state="COMPLETED"} 1`,
		`actlog_run_parked_total{executor="agent",state="WAITING"} 1`,
		`actlog_tool_call_duration_seconds_count{tool="files.write_file"} 1`,
		`actlog_model_call_duration_seconds_count{model="scripted"}`, "actlog_config_stale 0\n",
	} {
		if !strings.Contains(figures, want) {
			t.Errorf("the metrics of the worker lack %s:\n%s", want,
				regexp.MustCompile("(?m)^actlog_(run|tool|model).*$").FindAllString(figures, 100))
		}
	}
	if got := body(t, health[1]+"/readyz"); !strings.HasPrefix(got, "ok\nrole: primary\ntimeline: 1\nstandbys: 0\n") {
		t.Errorf("ready: %s", got)
	}
}

// runClient uses the runs of a server.
type runClient struct {
	t   *testing.T
	url string
}

// shownRun is what a server shows of a run.
type shownRun struct {
	PlanID, State, Result, ErrorKind, Error string
	Takeovers                               int
	Waits                                   []struct{ WaitID, Name string }
}

func (c runClient) ask(method, path, body string, want int) (r shownRun) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}

	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()

	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != want {
		c.t.Fatalf("%s %s: %d %s %v", method, path, resp.StatusCode, b, err)
	}
	if err := json.Unmarshal(b, &r); err != nil {
		c.t.Fatal(err)
	}
	return r
}

// start starts a run of an agent.
func (c runClient) start(agent, request string) (id string) {
	c.t.Helper()
	body, err := json.Marshal(map[string]any{
		"executor": "agent", "input": map[string]string{"agent": agent, "request": request},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return c.ask(http.MethodPost, "/api/v1/runs", string(body), http.StatusAccepted).PlanID
}

// until waits until something holds of a run. A run that ends meanwhile ends the test.
func (c runClient) until(id, what string, holds func(shownRun) bool) shownRun {
	c.t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; {
		r := c.ask(http.MethodGet, "/api/v1/runs/"+id, "", http.StatusOK)
		if holds(r) {
			return r
		}
		if record.State(r.State).Terminal() || time.Now().After(deadline) ||
			pg.Pause(c.t.Context(), 20*time.Millisecond) != nil {
			c.t.Fatalf("never: %s: %+v", what, r)
		}
	}
}

// decide answers what a run waits for.
func (c runClient) decide(id, waitID, decision string) {
	c.t.Helper()
	c.ask(http.MethodPost, "/api/v1/runs/"+id+"/waits/"+waitID, decision, http.StatusOK)
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
