package web_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// envelopes are the names of members that only programs read.
var envelopes = []string{
	"agent_name", "final_response", "conversation_history", "workflow_name", "final_output", "step_results",
	"node_results", "audit_trail",
}

// TestOutcome: W4: what a run of each executor came to is shown as what it is, wherever it is shown: an answer,
// operations, nodes. The envelope of an answer is in the JSON only. W5: an orchestrator's planning stands before what
// it planned.
func TestOutcome(t *testing.T) {
	t.Parallel()
	s := openShop(t, httpd.Config{})
	carry := func(executor, talk string, input any) string {
		t.Helper()
		raw, err := json.Marshal(input)
		if err != nil {
			t.Fatal(err)
		}

		started, err := s.engine.Start(t.Context(), engine.Request{Executor: executor, Input: raw, ConversationID: talk})
		if err != nil {
			t.Fatal(err)
		}
		return started.PlanID
	}

	type in map[string]any
	house := carry("orchestrator", "talk", in{"request": "How many TODOs are there?"})
	s.asks(house) // the script of its planner knows no talk before it
	flow := carry("workflow", "talk", in{"workflow": "two", "input": in{"about": "the sky", "n": 7}})
	single := carry("workflow", "talk", in{"agent": "clerk", "user_message": "What of the sky?"})
	drawn := carry("dag", "", in{"prompt": "Tea or coffee?"})

	s.answers(house, "accept")
	for _, id := range []string{flow, single, house} {
		s.ends(id, record.Completed)
	}
	s.ends(drawn, record.Failed)

	shown := func(path, where string) string {
		t.Helper()
		p := s.get(path, http.StatusOK)
		body := text(p.root)
		for _, name := range envelopes {
			if strings.Contains(body, name) {
				t.Errorf("%s shows %s", path, name)
			}
		}
		return text(p.one("aria-label", where))
	}

	for id, want := range map[string]string{
		flow: "result The sky is blue.", single: "result The sky is blue.", house: "result There are 30.",
	} {
		for _, view := range []string{"readable", "raw"} {
			got := shown("/runs/"+id+"?view="+view+"&at="+url.QueryEscape("plan:"+id), "Detail")
			if view == "readable" && !strings.Contains(got, want) {
				t.Errorf("the detail of %s lacks %q: %s", id, want, got)
			}
		}
	}

	if got := text(
		s.get("/runs/"+flow+"?view=json&at=plan:"+flow, http.StatusOK).one("aria-label", "Detail"),
	); !strings.Contains(got, "workflow_name") {
		t.Errorf("the JSON has no envelope: %s", got)
	}
	if got := text(s.get("/", http.StatusOK).root); strings.Contains(got, `{"`) {
		t.Errorf("the list shows JSON: %s", got)
	}

	said := s.get("/conversations/talk", http.StatusOK)
	var answers []string
	for _, n := range said.all("class", "answer") {
		answers = append(answers, text(n))
	}
	slices.Sort(answers) // the runs began at the same time
	if got := strings.Join(answers, "|"); got != "answer The sky is blue.|answer The sky is blue.|answer There are 30." {
		t.Errorf("the conversation answers %s", got)
	}

	if got := shown("/compare?a="+flow+"&b="+single+"&at=a:plan:"+
		flow, "Detail"); !strings.Contains(got, "summary The same in both") {
		t.Errorf("the comparison says %s", got)
	}

	var table [][]string
	for n := range s.get("/runs/"+drawn+"?at=plan:"+drawn, http.StatusOK).one("aria-label", "Detail").Descendants() {
		if n.Type == html.ElementNode && n.Data == "tr" {
			var cells []string
			for cell := range n.ChildNodes() {
				cells = append(cells, strings.Join(strings.Fields(text(cell)), " "))
			}
			table = append(table, cells)
		}
	}

	if len(table) != 6 || strings.Join(table[0], "|") != "Node|State|Result" ||
		!strings.HasPrefix(strings.Join(table[1], "|"), "Context|✓ completed") ||
		!strings.HasSuffix(strings.Join(table[1], "|"), "|rated") ||
		!strings.HasPrefix(strings.Join(table[2], "|"), "Rate tea|✗ failed") ||
		!strings.HasPrefix(strings.Join(table[5], "|"), "Choice|✗ blocked") {
		t.Errorf("the nodes are %q", table)
	}

	var steps []string
	for _, row := range s.get("/runs/"+house, http.StatusOK).all("role", "treeitem") {
		if strings.HasPrefix(attr(row, "id"), "step:") {
			steps = append(steps, strings.Fields(text(row))[1])
		}
	}
	if got := strings.Join(steps, " "); got != "ORCHESTRATOR RAG_SEARCH RAG_SEARCH" {
		t.Errorf("the steps are %s", got)
	}
}

// TestOperations: W4: the result of a task that was planned is its operations. A template is no task.
func TestOperations(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	s.writeTask("task", `{"constraints":{"iterative":false}}`)
	s.writeTask("template", `{}`)
	for _, path := range []string{"/runs/task?at=plan:task", "/conversations/talk"} {
		lists := s.get(path, http.StatusOK).all("aria-label", "Operations")
		if len(lists) != 1 {
			t.Errorf("%s has %d lists", path, len(lists))
			continue
		}
		if got, want := text(lists[0]),
			"files.list_files ✓ completed {} "+strings.Repeat("é", 400)+
				" All of it files.edit_file ✗ failed {\"path\":\"a.go\"} no such file"; got != want {
			t.Errorf("%s: the operations are %s", path, got)
		}
	}
}

// writeTask writes a run of executor plan, with two operations.
func (s *site) writeTask(root, metadata string) {
	s.t.Helper()

	storetest.Write(s.t, s.store,
		&record.Plan{
			RootPlanID: root, CurrentPlanID: root, Executor: new("plan"), ConversationID: new("talk"),
			Metadata: []byte(metadata), State: new(record.Completed), Summary: new("Done " + root + "."),
		},
		&record.AgentExecution{
			RootPlanID: root, PlanID: root, StepID: root + "-s", StepIndex: new(int64(0)), AgentName: new("DEVELOPER"),
			State: new(record.Completed),
		},
		&record.ActTool{
			RootPlanID: root, StepID: root + "-s", Seq: 2, ToolCallID: "b", Name: new("files.edit_file"),
			Parameters: new(`{"path":"a.go"}`), State: new(record.Failed), ErrorMessage: new("no such file"),
		},
		&record.ActTool{
			RootPlanID: root, StepID: root + "-s", Seq: 1, ToolCallID: "a", Name: new("files.list_files"),
			Parameters: new(`{}`), State: new(record.Completed), Result: new(strings.Repeat("é", 1_001)),
		})
}
