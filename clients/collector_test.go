//go:build clients

package clients_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// compressions are those that the exporters of the Collector offer, by the type of the exporter.
var compressions = map[string][]string{
	"otlp_http": {"none", "gzip", "zstd", "zlib", "deflate", "snappy", "x-snappy-framed", "lz4"},
	"otlp_grpc": {"none", "gzip", "zstd", "snappy"},
}

// TestCollector sends traces and logs through the exporters of an OpenTelemetry Collector, in each of their
// compressions. The rows are the same as without the Collector.
func TestCollector(t *testing.T) {
	t.Parallel()
	grpc := freeAddress(t)
	server := serve(t, "--otlp-grpc-listen", grpc)
	direct := server.send(t, string(server))
	if !strings.Contains(direct, "Paris is sunny") {
		t.Fatalf("the texts are missing, which are in the logs: %s", direct)
	}

	receivers := collect(t, map[string]string{"otlp_http": string(server), "otlp_grpc": grpc})
	for exporter, address := range receivers {
		if diff := cmp.Diff(direct, server.send(t, "http://"+address)); diff != "" {
			t.Errorf("%s (-direct +collected):\n%s", exporter, diff)
		}
	}
}

// rowNumbers are the numbers that the database gives to rows.
var rowNumbers = regexp.MustCompile(`"(id|parentExecutionId)":\d+`)

// send sends what frameworks once sent, returns the rows as JSON, and deletes them.
func (s server) send(t *testing.T, to string) string {
	t.Helper()
	captures, err := filepath.Glob(filepath.Join("..", "internal", "trace", "otlp", "testdata", "fixtures", "python", "*",
		"*.pb"))
	if err != nil || len(captures) == 0 {
		t.Fatalf("captures = %v, %v", captures, err)
	}

	for _, capture := range captures {
		body, err := os.ReadFile(capture)
		if err != nil {
			t.Fatal(err)
		}
		_, signal, _ := strings.Cut(strings.TrimSuffix(filepath.Base(capture), ".pb"), "-")
		if signal != "metrics" {
			do(t, http.MethodPost, to+"/v1/"+signal, body)
		}
	}

	var list struct{ Items []struct{ RootPlanID string } }
	s.get(t, "/api/v1/plans?limit=100", &list)
	runs := map[string]string{}
	for _, item := range list.Items {
		runs[item.RootPlanID] = rowNumbers.ReplaceAllString(s.rows(t, item.RootPlanID), `"$1":0`)
		do(t, http.MethodDelete, string(s)+"/api/v1/plans/"+item.RootPlanID, nil)
	}

	var all strings.Builder
	for _, run := range slices.Sorted(maps.Keys(runs)) {
		fmt.Fprintln(&all, runs[run])
	}
	return all.String()
}

// rows returns a run with its steps, as JSON.
func (s server) rows(t *testing.T, run string) string {
	t.Helper()
	var root json.RawMessage
	s.get(t, "/api/executor/details/"+run, &root)
	var steps struct {
		AgentExecutionSequence []struct{ StepID string }
	}
	if err := json.Unmarshal(root, &steps); err != nil {
		t.Fatal(err)
	}

	rows := string(root)
	for _, step := range steps.AgentExecutionSequence {
		var detail json.RawMessage
		s.get(t, "/api/executor/agent-execution/"+step.StepID, &detail)
		rows += "\n" + string(detail)
	}
	return rows
}

// do sends a request that must succeed.
func do(t *testing.T, method, to string, body []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, to, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Close = true

	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		t.Fatalf("%s %s: %s", method, to, resp.Status)
	}
}

// collect builds and runs a Collector that passes on what it receives at once, so that its answer is that of the
// server. It returns the addresses of its receivers, one for each exporter and compression.
func collect(t *testing.T, endpoints map[string]string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	run(t, "collector", nil, "go", "build", "-o", filepath.Join(dir, "collector"), ".")

	receivers := map[string]string{}
	parts := map[string]any{}
	exporters, pipelines := map[string]any{}, map[string]any{}
	for exporter, all := range compressions {
		for _, compression := range all {
			name := exporter + "/" + compression
			receiver := "otlp/" + exporter + "-" + compression
			receivers[name] = freeAddress(t)
			parts[receiver] = map[string]any{"protocols": map[string]any{"http": map[string]any{"endpoint": receivers[name]}}}

			off := map[string]any{"enabled": false}
			exporters[name] = map[string]any{
				"endpoint": endpoints[exporter], "compression": compression, "tls": map[string]any{"insecure": true},
				"sending_queue": off, "retry_on_failure": off,
			}
			for _, signal := range []string{"traces", "logs"} {
				pipelines[signal+"/"+exporter+"-"+compression] = map[string]any{
					"receivers": []string{receiver}, "exporters": []string{name},
				}
			}
		}
	}

	config, err := json.Marshal(map[string]any{ // JSON is YAML, too
		"receivers": parts, "exporters": exporters,
		"service": map[string]any{
			"pipelines": pipelines, "telemetry": map[string]any{"metrics": map[string]any{"level": "none"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}

	file := filepath.Join(dir, "collector.yaml")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatal(err)
	}

	cmd := exec.Command(filepath.Join(dir, "collector"), "--config", file) // it is stopped below
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	ready := make(chan struct{})
	var log bytes.Buffer
	var read sync.WaitGroup
	read.Go(func() {
		begin := sync.OnceFunc(func() { close(ready) })
		defer begin()
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			fmt.Fprintln(&log, lines.Text())
			if strings.Contains(lines.Text(), "Everything is ready") {
				begin()
			}
		}
	})

	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		read.Wait()
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("collector: %v\n%s", err, &log)
		}
	})

	select {
	case <-ready:
	case <-time.After(time.Minute):
		t.Fatal("the Collector did not report that everything is ready within a minute")
	}
	return receivers
}

// freeAddress returns an address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
