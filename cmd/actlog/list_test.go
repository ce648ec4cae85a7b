package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/actlog/actlog/internal/apitest"
	"github.com/actlog/actlog/internal/storetest"
	"github.com/actlog/actlog/record"
)

// TestListFilters (N29) uses every filter of the API, each of which one plan passes.
func TestListFilters(t *testing.T) {
	t.Parallel()
	url, s := serve(t, apitest.Config{}, nil)
	storetest.Write(t, s,
		&record.Plan{RootPlanID: "a", CurrentPlanID: "a", Name: new("nightly"), Project: new("shop"), UserID: new("ada"), ConversationID: new("c-1"), Tags: []string{"x", "y"}, State: new(record.Failed), StartTime: at(0), EndTime: at(60_000), Title: new("Sell 100%"), StartedBy: record.StartedBy{PlanID: "z"}.JSON()},
		&record.AgentExecution{RootPlanID: "a", PlanID: "a", StepID: "s", AgentName: new("clerk")},
		&record.ThinkAct{RootPlanID: "a", StepID: "s", Seq: 0, ModelName: new("small"), CostUSD: new(0.25)},
		&record.ActTool{RootPlanID: "a", StepID: "s", Seq: 0, ToolCallID: "t", Name: new("search")},
		&record.Plan{RootPlanID: "b", CurrentPlanID: "b", Name: new("daily"), Project: new("bank"), UserID: new("bob"), ConversationID: new("c-2"), Tags: []string{"z"}, State: new(record.Completed), StartTime: at(10_000_000)})
	flags := map[string][]string{ // a member of the API's query: the flag and its value
		"state": {"--state", "FAILED"}, "name": {"--name", "nightly"}, "project": {"--project", "shop"}, "userId": {"--user", "ada"},
		"conversationId": {"--conversation", "c-1"}, "tag": {"--tag", "y"}, "agent": {"--agent", "clerk"}, "q": {"--q", "100%"},
		"until": {"--until", at(5_000_000).Format(time.RFC3339)}, "since": {"--since", at(5_000_000).Format(time.RFC3339)},
		"failed": {"--failed"}, "minCost": {"--min-cost", "0.25"}, "maxCost": {"--max-cost", "0.25"}, "minDuration": {"--min-duration", "1m"}, "maxDuration": {"--max-duration", "60000"},
		"model": {"--model", "small"}, "tool": {"--tool", "search"}, "startedBy": {"--started-by", "z"},
	}
	for name, flag := range flags {
		want := `"rootPlanId":"a"`
		if name == "since" {
			want = `"rootPlanId":"b"`
		}
		if out := must(t, append([]string{"list", "--json", "--server", url}, flag...)...); strings.Count(out, "\n") != 1 || !strings.Contains(out, want) {
			t.Errorf("%q:\n%s", flag, out)
		}
	}
	for _, name := range listFilters(t) {
		if flags[name] == nil {
			t.Errorf("the API has the filter %s, and list has none", name)
		}
	}
}

// N15: a list of several pages says that runs may be missing if that was so for any of them.
func TestListIsIncompleteIfAPageIs(t *testing.T) {
	t.Parallel()
	for _, pages := range [][]string{{"true", "false"}, {"false", "true"}, {"true", "true"}, {"false", "false"}} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.URL.Query().Get("cursor") == "" {
				_, _ = io.WriteString(w, `{"items":[{"rootPlanId":"b"}],"nextCursor":"x","incomplete":`+pages[0]+`}`)
				return
			}
			_, _ = io.WriteString(w, `{"items":[{"rootPlanId":"a"}],"nextCursor":null,"incomplete":`+pages[1]+`}`)
		}))
		t.Cleanup(server.Close)
		code, _, stderr := actlog(t, "list", "--q", "weather", "--server", server.URL)
		if said := strings.Contains(stderr, "some may be missing"); code != exitDone || said != slices.Contains(pages, "true") {
			t.Errorf("%q: exit code %d, %q", pages, code, stderr)
		}
	}
}

// listFilters returns the members of the query of the API's list.
func listFilters(t *testing.T) (names []string) {
	t.Helper()
	raw, err := os.ReadFile("../../internal/api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var spec struct {
		Paths map[string]struct {
			Get struct{ Parameters []struct{ Name string } }
		}
	}
	if err := yaml.Unmarshal(raw, &spec); err != nil {
		t.Fatal(err)
	}
	for _, p := range spec.Paths["/api/v1/plans"].Get.Parameters {
		if p.Name != "" { // pages are references
			names = append(names, p.Name)
		}
	}
	if !slices.Contains(names, "userId") {
		t.Fatalf("filters: %q", names)
	}
	return names
}

// TestListSilence (N9): list and show say how long a live run has been silent, by heartbeats and by
// all other times that are on record of its tree.
func TestListSilence(t *testing.T) {
	t.Parallel()
	url, s := serve(t, apitest.Config{}, nil)
	ago := func(d time.Duration) *time.Time { return new(time.Now().Add(-d)) }
	running := func(id string, p record.Plan) *record.Plan {
		p.RootPlanID, p.CurrentPlanID, p.State = id, id, new(record.Running)
		return &p
	}
	storetest.Write(t, s,
		running("heartbeat", record.Plan{StartTime: ago(9 * time.Hour), LastSeenAt: ago(3*time.Hour + 30*time.Second)}),
		running("start", record.Plan{StartTime: ago(4*time.Hour + 30*time.Second)}),
		running("cycle", record.Plan{StartTime: ago(9 * time.Hour)}),
		&record.AgentExecution{RootPlanID: "cycle", PlanID: "cycle", StepID: "s1", StartTime: ago(8 * time.Hour)},
		&record.ThinkAct{RootPlanID: "cycle", StepID: "s1", Seq: 0, ThinkStartTime: ago(5*time.Hour + 30*time.Second)},
		running("tool", record.Plan{StartTime: ago(9 * time.Hour)}),
		&record.ActTool{RootPlanID: "tool", StepID: "s2", Seq: 0, ToolCallID: "t2", StartTime: ago(9 * time.Hour), EndTime: ago(6*time.Hour + 30*time.Second)},
		running("sub-plan", record.Plan{StartTime: ago(9 * time.Hour)}),
		&record.ActTool{RootPlanID: "sub-plan", StepID: "s3", Seq: 0, ToolCallID: "t3", StartTime: ago(9 * time.Hour)},
		&record.Plan{RootPlanID: "sub-plan", CurrentPlanID: "sub", ParentPlanID: new("sub-plan"), ToolCallID: new("t3"), StartTime: ago(8 * time.Hour), LastSeenAt: ago(7*time.Hour + 30*time.Second)},
		running("wait", record.Plan{StartTime: ago(11 * time.Hour)}),
		&record.Wait{RootPlanID: "wait", PlanID: "wait", WaitID: "w", StartTime: ago(8*time.Hour + 30*time.Second)},
		running("answer", record.Plan{StartTime: ago(11 * time.Hour)}),
		&record.Wait{RootPlanID: "answer", PlanID: "answer", WaitID: "w", StartTime: ago(10 * time.Hour), EndTime: ago(9*time.Hour + 30*time.Second), State: new(record.Approved)},
		running("thought", record.Plan{StartTime: ago(11 * time.Hour)}),
		&record.ActTool{RootPlanID: "thought", StepID: "s4", Seq: 0, ToolCallID: "t4"},
		&record.Plan{RootPlanID: "thought", CurrentPlanID: "thinker", ParentPlanID: new("thought"), ToolCallID: new("t4"), State: new(record.Completed)},
		&record.Thought{RootPlanID: "thought", PlanID: "thinker", ThoughtID: "h", Time: ago(10*time.Hour + 30*time.Second)},
		running("nothing", record.Plan{}),
		&record.Plan{RootPlanID: "ended", CurrentPlanID: "ended", State: new(record.Completed), StartTime: ago(9 * time.Hour), EndTime: ago(8 * time.Hour)},
	)
	table := must(t, "list", "--server", url)
	for id, want := range map[string]string{"heartbeat": "3h0m", "start": "4h0m", "cycle": "5h0m", "tool": "6h0m", "sub-plan": "7h0m", "wait": "8h0m", "answer": "9h0m", "thought": "10h0m", "nothing": "-", "ended": "-"} {
		row := regexp.MustCompile(`(?m)^` + id + ` .*$`).FindString(table)
		if cells := regexp.MustCompile(` {2,}`).Split(row, -1); len(cells) < 3 || !strings.HasPrefix(cells[2], want) {
			t.Errorf("%s, want silent for %s: %q", id, want, row)
		}
		shown := must(t, "show", id, "--server", url)
		if want == "-" {
			want = "nothing"
		}
		if strings.Contains(shown, "last sign of life "+want) == (want == "nothing") {
			t.Errorf("%s, want %s:\n%s", id, want, shown)
		}
	}
	if !strings.HasPrefix(table, "PLAN       STATE      SILENT") {
		t.Errorf("\n%s", table)
	}
	for line := range strings.Lines(must(t, "list", "--json", "--server", url)) {
		var p struct {
			RootPlanID     string
			LastSignOfLife *time.Time
		}
		if err := json.Unmarshal([]byte(line), &p); err != nil || (p.LastSignOfLife == nil) != (p.RootPlanID == "ended" || p.RootPlanID == "nothing") {
			t.Errorf("%v: %s", err, line)
		}
	}
}

// W1, F9: the list has the kind, the tool and the line of each cause; show names it only where there is one.
func TestCauses(t *testing.T) {
	t.Parallel()
	url, s := serve(t, apitest.Config{}, nil)
	all := storetest.CauseCases(t, "run-")
	for _, run := range all {
		storetest.Write(t, s, run.Changes...)
	}
	rows := map[string]string{}
	for line := range strings.Lines(must(t, "list", "--limit", "1000", "--server", url)) {
		rows[strings.Fields(line)[0]] = line
	}
	if !strings.Contains(rows["PLAN"], "CAUSE") {
		t.Errorf("the head is %s", rows["PLAN"])
	}

	items := map[string]struct {
		Failed int
		Cause  *causeView
	}{}
	for line := range strings.Lines(must(t, "list", "--json", "--limit", "1000", "--server", url)) {
		var item struct {
			RootPlanID string
			Failed     int
			Cause      *causeView
		}
		if err := json.Unmarshal([]byte(line), &item); err != nil {
			t.Fatal(err)
		}
		items[item.RootPlanID] = struct {
			Failed int
			Cause  *causeView
		}{item.Failed, item.Cause}
	}

	for _, run := range all {
		item, row, shown := items[run.Root], rows[run.Root], must(t, "show", run.Root, "--server", url)
		if item.Failed != run.Failed || (item.Cause == nil) != (run.At == "") {
			t.Errorf("%s: %+v", run.Name, item)
		}
		if run.At == "" || run.Asks {
			if strings.Contains(shown, "cause:") || strings.Contains(shown, "recovered:") {
				t.Errorf("%s: a cause is shown:\n%s", run.Name, shown)
			}
			if run.Asks && !strings.Contains(row, "asks") {
				t.Errorf("%s: %s", run.Name, row)
			}
			continue
		}
		if c := item.Cause; c.At != run.At || c.Text != run.Text || c.Tool != run.Tool || c.ErrorKind != run.Kind || c.Recovered != run.Recovered {
			t.Errorf("%s: the cause is %+v", run.Name, c)
		}
		for _, part := range []string{run.CauseKind(), run.Tool, run.Text} {
			if !strings.Contains(row, part) || !strings.Contains(shown, part) {
				t.Errorf("%s: %q is not in\n%s\n%s", run.Name, part, row, shown)
			}
		}
		if strings.Contains(shown, "first failure, recovered:") != run.Recovered || strings.Contains(shown, "cause:") == run.Recovered || strings.Contains(row, "recovered:") != run.Recovered {
			t.Errorf("%s: recovered %t:\n%s\n%s", run.Name, run.Recovered, row, shown)
		}
	}
}
