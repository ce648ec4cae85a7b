package codereader_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/examples/codereader"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

// The types contain what this test reads from the executor API.
type plan struct {
	CurrentPlanID           string
	UserRequest             string
	State                   string
	Summary                 string
	StructureResult         *string
	Link                    *string
	ParentActToolCall       *toolCall
	AgentExecutionSequence  []step
	SubPlanExecutionRecords []plan
	Figures, Total          struct{ ModelCalls, ToolCalls, Failures, InputTokens int }
}

type step struct {
	StepID                  string
	AgentName               string
	State                   string
	Result                  string
	SubPlanExecutionRecords []plan
	ThinkActSteps           []struct {
		Seq                     int
		State                   string
		ThinkInput, ThinkOutput string
		InputTokens             int
		ActToolInfoList         []toolCall
	}
}

type toolCall struct {
	ID, Name, Parameters, State string
	Result, ErrorMessage        *string
}

// tree is that of the demo: each step with the calls of its cycles, and the tool that started its plan.
const tree = `code-reader: files.list_files; files.read_file agent.researcher agent.researcher; terminate
  agent.researcher researcher: files.read_file (FAILED); files.search_in_files; files.read_file; terminate
  agent.researcher researcher: files.search_in_files files.list_files; agent.researcher; terminate
    agent.researcher researcher: files.search_in_files files.search_in_files; terminate
`

// api returns what reads the executor API on the database of a bundle.
func api(t *testing.T, b *bundle) (get func(path string, into any)) {
	t.Helper()
	server := httptest.NewServer(apitest.New(t, storetest.OpenURL(t, b.url), apitest.Config{}))
	t.Cleanup(server.Close)
	return func(path string, into any) {
		t.Helper()
		resp, err := server.Client().Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()

		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("GET %s: %s %v %s", path, resp.Status, err, body)
		}
		if err := json.Unmarshal(body, into); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRecordedRun runs the real agents on the files of this repository, with the scripted model
// over HTTP, and reads the run through both endpoints.
func TestRecordedRun(t *testing.T) {
	t.Parallel()
	b := setup(t, demoScript(0), filepath.Join("..", ".."))
	run := b.run(demoQuestion)
	get := api(t, b)

	var root plan
	get("/api/executor/details/"+run.PlanID, &root)
	if root.State != "COMPLETED" || root.Summary != run.Result || root.UserRequest != demoQuestion {
		t.Errorf("root = %+v", root)
	}
	if diff := cmp.Diff(tree, outline(get, root, "")); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}

	if n := len(b.server.Requests()); root.Total.ModelCalls != n || root.Figures.ModelCalls >= n {
		t.Errorf("own and total model calls = %d, %d; the model was called %d times", root.Figures.ModelCalls,
			root.Total.ModelCalls, n)
	}
	if root.Total.Failures != 1 { // the missing file
		t.Errorf("failures = %d", root.Total.Failures)
	}

	var detail step
	get("/api/executor/agent-execution/"+root.AgentExecutionSequence[0].StepID, &detail)
	if detail.Result != run.Result || detail.AgentName != codereader.Reader {
		t.Errorf("step = %+v", detail)
	}
	for i, c := range detail.ThinkActSteps {
		// The first cycle has the whole prompt, later ones what was new.
		if c.Seq != i || c.State != "COMPLETED" || c.InputTokens == 0 ||
			strings.Contains(c.ThinkInput, `"role":"system"`) != (i == 0) {
			t.Errorf("cycle %d = %+v", i, c)
		}
		for _, call := range c.ActToolInfoList {
			if call.Result == nil || call.State != "COMPLETED" {
				t.Errorf("call = %+v", call)
			}
			if call.Name == "files.list_files" && !strings.Contains(*call.Result, "go.mod") {
				t.Errorf("list_files returned %s", *call.Result)
			}
		}
	}

	for _, sub := range root.AgentExecutionSequence[0].SubPlanExecutionRecords {
		if !strings.Contains(*sub.ParentActToolCall.Result, sub.Summary) {
			t.Errorf("the result of the tool is not the answer of the sub-agent: %s", sub.CurrentPlanID)
		}
	}
}

// outlineOf returns the tree of a plan of a bundle.
func outlineOf(t *testing.T, b *bundle, planID string) string {
	t.Helper()
	get := api(t, b)
	var root plan
	get("/api/executor/details/"+planID, &root)
	return outline(get, root, "")
}

// outline returns the tree, one line per step, with the tool that started its plan, and its calls.
func outline(get func(string, any), p plan, indent string) string {
	var b strings.Builder
	for _, st := range p.AgentExecutionSequence {
		tool := ""
		if p.ParentActToolCall != nil && *p.Link == "toolCall" {
			tool = p.ParentActToolCall.Name + " "
		}

		var detail step
		get("/api/executor/agent-execution/"+st.StepID, &detail)
		var cycles []string
		for _, c := range detail.ThinkActSteps {
			var calls []string
			for _, call := range c.ActToolInfoList {
				if call.State != "COMPLETED" {
					call.Name += " (" + call.State + ")"
				}
				calls = append(calls, call.Name)
			}
			cycles = append(cycles, strings.Join(calls, " "))
		}

		fmt.Fprintf(&b, "%s%s%s: %s\n", indent, tool, st.AgentName, strings.Join(cycles, "; "))

		var subs []string
		for _, sub := range st.SubPlanExecutionRecords {
			subs = append(subs, outline(get, sub, indent+"  "))
		}
		slices.Sort(subs) // they ran in parallel, in either order
		b.WriteString(strings.Join(subs, ""))
	}

	for range p.SubPlanExecutionRecords {
		fmt.Fprintf(&b, "%sunlinked\n", indent)
	}
	return b.String()
}
