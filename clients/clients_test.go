//go:build clients

package clients_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/clients/packages"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

var update = flag.Bool("update", false, "rewrite golden files")

// TestClients runs the program of each folder and compares the tree from the API with the golden
// file. The programs do not know Actlog: only environment variables point to it.
func TestClients(t *testing.T) {
	t.Parallel()
	server := serve(t)

	for _, c := range all(t) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			bin, err := c.install()
			if err != nil {
				t.Fatal(err)
			}

			model := c.model(t)
			// The variables from docs/otlp.md, and the address of the model.
			run(t, c.name, []string{
				"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"),
				"OTEL_EXPORTER_OTLP_ENDPOINT=" + string(server), "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
				"OTEL_SERVICE_NAME=" + c.name, "OTEL_RESOURCE_ATTRIBUTES=actlog.project=" + c.name,
				"OPENAI_BASE_URL=" + model + "/v1", "OPENAI_API_KEY=x", "ANTHROPIC_BASE_URL=" + model, "ANTHROPIC_API_KEY=x",
			}, "sh", "-ec", c.command)

			got := server.tree(t, c.name)
			golden := filepath.Join(c.name, "tree.golden")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}

			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("If this is right, run with -update (-golden +now):\n%s", diff)
			}
		})
	}
}

// model starts a model that follows the scenario of the client, or else the one of all clients. It
// returns its URL.
func (c client) model(t *testing.T) string {
	t.Helper()
	scenario := filepath.Join(c.name, "scenario.json")
	if !c.own {
		scenario = "scenario.json"
	}

	script, err := scriptmodel.Load(scenario)
	if err != nil {
		t.Fatal(err)
	}

	model, err := scriptmodel.Start(script, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { model.Close() })
	return strings.TrimSuffix(model.URL(), "/v1")
}

// run runs a command in a folder, with additional environment variables.
func run(t *testing.T, dir string, env []string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)

	began := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	t.Logf("%s: %.1fs\n%s", strings.Join(args, " "), time.Since(began).Seconds(), out)
}

// tools install the packages of clients.
const tools packages.Tools = "tools"

// install downloads the packages of the lock file of a client into its folder. It returns the
// folder with the programs that run the client.
func (c client) install() (bin string, err error) {
	if c.js {
		return tools.JavaScript(c.name)
	}
	return tools.Python(c.name)
}

// server is the URL of a running actlog.
type server string

// serve builds actlog and runs it with an empty database, and with additional flags.
func serve(t *testing.T, flags ...string) server {
	t.Helper()
	dir := t.TempDir()
	run(t, "..", nil, "go", "build", "-o", filepath.Join(dir, "actlog"), "./cmd/actlog")
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(dir, "actlog"), append([]string{
		"serve", "--listen", "127.0.0.1:0", "--otlp-listen", "off", "--data-dir", filepath.Join(dir, "data"),
	}, flags...)...)

	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	ready := make(chan string, 1)
	var log bytes.Buffer
	var read sync.WaitGroup
	read.Go(func() {
		defer close(ready)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			fmt.Fprintln(&log, lines.Text())
			if url, ok := strings.CutPrefix(lines.Text(), "actlog serves on "); ok {
				ready <- url
			}
		}
	})

	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		read.Wait()
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("actlog serve: %v\n%s", err, &log)
		}
	})

	url, ok := <-ready
	if !ok {
		t.Fatal("actlog serve exited before it was ready")
	}
	return server(url)
}

func (s server) get(t *testing.T, path string, to any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, string(s)+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true

	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", path, resp.Status)
	}
	if err := json.NewDecoder(resp.Body).Decode(to); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// The types contain what the tests read from the API.
type (
	plan struct {
		CurrentPlanID, Name, UserRequest, Summary, State, ModelName, ErrorMessage string
		span
		Total                   figures
		ParentActToolCall       *struct{ ID string }
		AgentExecutionSequence  []step
		SubPlanExecutionRecords []json.RawMessage
	}
	step struct {
		StepID, AgentName, AgentRequest, Result, State, ErrorMessage string
		span
		SubPlanExecutionRecords []plan
		ThinkActSteps           []cycle
	}
	cycle struct {
		State, Provider, ModelName, FinishReason, ThinkInput, ThinkOutput, ErrorMessage string
		InputTokens, OutputTokens                                                       int64
		ThinkStartTime, ThinkEndTime, FirstTokenTime                                    *time.Time
		ActToolInfoList                                                                 []tool
	}
	tool struct {
		ID, Name, Parameters, Result, State, ErrorMessage, ErrorKind string
		Inferred                                                     bool
		span
	}
	span    struct{ StartTime, EndTime *time.Time }
	figures struct{ ModelCalls, ToolCalls, Failures, InputTokens, OutputTokens int64 }
)

var providerID = regexp.MustCompile(`(call|toolu)_[0-9a-f]{24}`)

// tree returns the only plan of a project with everything in it, without ids and times.
func (s server) tree(t *testing.T, project string) string {
	t.Helper()
	var list struct{ Items []struct{ RootPlanID string } }
	s.get(t, "/api/v1/plans?project="+url.QueryEscape(project), &list)
	if len(list.Items) != 1 {
		t.Fatalf("%d plans, want 1", len(list.Items))
	}

	var root plan
	s.get(t, "/api/executor/details/"+list.Items[0].RootPlanID, &root)
	w := writer{t: t, server: s}
	w.plan("", &root)

	ids := map[string]string{}
	return providerID.ReplaceAllStringFunc(w.String(), func(id string) string {
		if ids[id] == "" {
			ids[id] = fmt.Sprint("call_", len(ids)+1)
		}
		return ids[id]
	})
}

// writer writes a tree, a few lines per row.
type writer struct {
	strings.Builder
	t      *testing.T
	server server
}

// line writes a head and those pairs of a name and a text whose text is not empty.
func (w *writer) line(indent, head string, pairs ...string) {
	fmt.Fprintf(w, "%s%s\n", indent, head)
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			fmt.Fprintf(w, "%s  %s: %s\n", indent, pairs[i], pairs[i+1])
		}
	}
}

// checkTimes checks that a row has a start and an end.
func (w *writer) checkTimes(name string, s span) {
	w.t.Helper()
	if s.StartTime == nil || s.EndTime == nil || s.EndTime.Before(*s.StartTime) {
		w.t.Errorf("%s: started %v, ended %v", name, s.StartTime, s.EndTime)
	}
}

func (w *writer) plan(indent string, p *plan) {
	w.checkTimes("plan "+p.Name, p.span)
	f := p.Total
	w.line(indent, fmt.Sprintf("plan %s %s %s", p.Name, p.State, p.ModelName), "request", p.UserRequest, "summary",
		p.Summary, "error", p.ErrorMessage,
		"total", fmt.Sprintf("%d model calls, %d tool calls, %d failures, %d → %d tokens", f.ModelCalls, f.ToolCalls,
			f.Failures, f.InputTokens, f.OutputTokens))

	if n := len(p.SubPlanExecutionRecords); n > 0 {
		w.t.Errorf("plan %s has %d sub-plans without a step", p.Name, n)
	}
	for i := range p.AgentExecutionSequence {
		w.step(indent+"  ", &p.AgentExecutionSequence[i])
	}
}

func (w *writer) step(indent string, st *step) {
	w.checkTimes("step "+st.AgentName, st.span)
	w.line(indent, fmt.Sprintf("step %s %s", st.AgentName, st.State), "request", st.AgentRequest, "result", st.Result,
		"error", st.ErrorMessage)

	var detail step
	w.server.get(w.t, "/api/executor/agent-execution/"+st.StepID, &detail)
	for _, c := range detail.ThinkActSteps {
		w.checkTimes("cycle of "+st.AgentName, span{c.ThinkStartTime, c.ThinkEndTime})
		head := fmt.Sprintf("cycle %s %s %s %s %d → %d tokens", c.State, c.Provider, c.ModelName, c.FinishReason,
			c.InputTokens, c.OutputTokens)
		if c.FirstTokenTime != nil { // O2: within the cycle
			w.checkTimes("until the first token of "+st.AgentName, span{c.ThinkStartTime, c.FirstTokenTime})
			w.checkTimes("from the first token of "+st.AgentName, span{c.FirstTokenTime, c.ThinkEndTime})
			head += ", streamed"
		}

		w.line(indent+"  ", head,
			"input", c.ThinkInput, "output", c.ThinkOutput, "error", c.ErrorMessage)
		for _, call := range c.ActToolInfoList {
			w.tool(indent+"    ", &call, st.SubPlanExecutionRecords)
		}
	}
}

func (w *writer) tool(indent string, call *tool, plans []plan) {
	head := fmt.Sprintf("tool %s %s", call.Name, call.State)
	if call.Inferred {
		head += " inferred"
	} else {
		w.checkTimes(head, call.span)
	}

	w.line(indent, head, "parameters", call.Parameters, "result", call.Result, "error", call.ErrorMessage, "kind",
		call.ErrorKind)
	for i := range plans {
		if parent := plans[i].ParentActToolCall; parent != nil && parent.ID == call.ID {
			w.plan(indent+"  ", &plans[i])
		}
	}
}
