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
	"github.com/actlog/actlog/internal/apitest"
	"github.com/actlog/actlog/internal/storetest"
	"github.com/actlog/actlog/recorder"
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

// TestRecordedRun runs the real agent on the files of this repository, with the scripted model
// over HTTP, and reads the run through both endpoints.
func TestRecordedRun(t *testing.T) {
	t.Parallel()
	st := storetest.Open(t)
	server := httptest.NewServer(apitest.New(t, st, apitest.Config{}))
	t.Cleanup(server.Close)
	get := func(path string, into any) {
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

	repository, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	b := setup(t, codereader.DemoScript(0), repository, &codereader.Options{Recorder: recorder.New(st, recorder.Options{})})
	answer, err := b.agent.Run(t.Context(), "plan-demo", codereader.DemoQuestion)
	if err != nil {
		t.Fatal(err)
	}

	var root plan
	get("/api/executor/details/plan-demo", &root)
	if root.State != "COMPLETED" || root.Summary != answer || root.UserRequest != codereader.DemoQuestion {
		t.Errorf("root = %+v", root)
	}
	if want := "code reader\n  research researcher\n  research researcher\n    research researcher\n"; outline(root, "") != want {
		t.Errorf("tree (-want +got):\n%s", cmp.Diff(want, outline(root, "")))
	}
	if n := len(b.server.Requests()); root.Total.ModelCalls != n || root.Figures.ModelCalls >= n {
		t.Errorf("own and total model calls = %d, %d; the model was called %d times", root.Figures.ModelCalls, root.Total.ModelCalls, n)
	}
	if root.Total.Failures != 1 { // the missing file
		t.Errorf("failures = %d", root.Total.Failures)
	}

	var detail step
	get("/api/executor/agent-execution/"+root.AgentExecutionSequence[0].StepID, &detail)
	if detail.Result != answer || detail.AgentName != "code reader" {
		t.Errorf("step = %+v", detail)
	}
	var names []string
	for i, c := range detail.ThinkActSteps {
		if c.Seq != i || c.State != "COMPLETED" || c.InputTokens == 0 || !strings.Contains(c.ThinkInput, `"role":"system"`) {
			t.Errorf("cycle %d = %+v", i, c)
		}
		for _, call := range c.ActToolInfoList {
			names = append(names, call.Name)
			if call.Result == nil || call.State != "COMPLETED" {
				t.Errorf("call = %+v", call)
			}
			if call.Name == "list_files" && !strings.Contains(*call.Result, "go.mod") {
				t.Errorf("list_files returned %s", *call.Result)
			}
		}
	}
	if want := []string{"list_files", "read_file", "research", "research"}; !slices.Equal(names, want) {
		t.Errorf("calls = %q, want %q", names, want)
	}
	for _, sub := range root.AgentExecutionSequence[0].SubPlanExecutionRecords {
		if !strings.Contains(*sub.ParentActToolCall.Result, sub.Summary) {
			t.Errorf("the result of the tool is not the answer of the sub-agent: %s", sub.CurrentPlanID)
		}
	}
}

// outline returns the tree, one line per step, with the tool that started its plan.
func outline(p plan, indent string) string {
	var b strings.Builder
	for _, st := range p.AgentExecutionSequence {
		tool := ""
		if p.ParentActToolCall != nil && *p.Link == "toolCall" {
			tool = p.ParentActToolCall.Name + " "
		}
		fmt.Fprintf(&b, "%s%s%s\n", indent, tool, st.AgentName)
		var subs []string
		for _, sub := range st.SubPlanExecutionRecords {
			subs = append(subs, outline(sub, indent+"  "))
		}
		slices.Sort(subs) // they ran in parallel, in either order
		b.WriteString(strings.Join(subs, ""))
	}
	for range p.SubPlanExecutionRecords {
		fmt.Fprintf(&b, "%sunlinked\n", indent)
	}
	return b.String()
}
