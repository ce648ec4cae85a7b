//go:build clients

package clients_test

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestAssistantInPython asks why a run failed with the Python SDK of the Model Context Protocol, over HTTP and over
// stdio.
func TestAssistantInPython(t *testing.T) {
	t.Parallel()
	server := serve(t)

	resp, err := http.Post(string(server)+"/api/v1/records", "application/x-ndjson", strings.NewReader(`
{"kind":"plan","rootPlanId":"night","currentPlanId":"night","state":"FAILED"}
{"kind":"agentExecution","rootPlanId":"night","planId":"night","stepId":"night-s1","state":"FAILED"}
{"kind":"actTool","rootPlanId":"night","stepId":"night-s1","seq":0,"toolCallId":"night-c1","name":"write_file","state":"FAILED","errorMessage":"no space left on device"}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()

	bin, err := client{name: "mcp"}.install()
	if err != nil {
		t.Fatal(err)
	}
	actlog := filepath.Join(t.TempDir(), "actlog")
	run(t, "..", nil, "go", "build", "-o", actlog, "./cmd/actlog")

	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "python"), "assistant.py", string(server), actlog)
	cmd.Dir = "mcp"
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("cmd.Output() = %v\n%s", err, &log)
	}

	type place struct{ At string }
	type answers struct {
		Server   string
		Tools    []string
		FindRuns struct {
			Runs []struct {
				PlanID string
				Cause  struct{ Error string }
			}
		} `json:"find_runs"`
		Failures struct{ Failures []place }
		ReadStep struct {
			Cycles []struct{ Calls []place }
		} `json:"read_step"`
		Search struct {
			Hits []struct{ Match string }
		}
		SQL   struct{ Rows [][]any }
		Wrong []any
	}
	var got map[string]answers
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}

	for over, a := range got {
		if a.Server != "actlog" || !slices.Equal(a.Tools,
			[]string{"describe_reports", "failures", "find_runs", "read_row", "read_run", "read_step", "search", "sql"}) {
			t.Errorf("%s: %s has %q", over, a.Server, a.Tools)
		}

		const call = "call:night-s1/0/night-c1"
		if len(a.FindRuns.Runs) != 1 || a.FindRuns.Runs[0].Cause.Error != "no space left on device" ||
			a.Failures.Failures[0].At != call || a.ReadStep.Cycles[0].Calls[0].At != call ||
			a.Search.Hits[0].Match != "no space" || a.SQL.Rows[0][0] != "FAILED" || a.Wrong[0] != true ||
			a.Wrong[1] != "nothing of that id is on record" {
			t.Errorf("%s: %+v", over, a)
		}
	}

	if len(got) != 2 {
		t.Errorf("%d ways", len(got))
	}
}
