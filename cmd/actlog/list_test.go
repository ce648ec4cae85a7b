package main

import (
	"encoding/json"
	"fmt"
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

	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/internal/view/words"
	"github.com/actlog/actlog/record"
)

// TestListFilters (N29) uses every filter of the API, each of which one plan passes.
func TestListFilters(t *testing.T) {
	t.Parallel()
	url, s := serve(t, apitest.Config{}, nil)

	storetest.Write(t, s,
		&record.Plan{
			RootPlanID: "a", CurrentPlanID: "a", Name: new("nightly"), Project: new("shop"), UserID: new("ada"),
			ConversationID: new("c-1"), Tags: []string{"x", "y"}, State: new(record.Failed), StartTime: at(0),
			EndTime: at(60_000), Title: new("Sell 100%"), StartedBy: record.StartedBy{PlanID: "z"}.JSON(),
		},
		&record.AgentExecution{RootPlanID: "a", PlanID: "a", StepID: "s", AgentName: new("clerk")},
		&record.ThinkAct{RootPlanID: "a", StepID: "s", Seq: 0, ModelName: new("small"), CostUSD: new(0.25)},
		&record.ActTool{RootPlanID: "a", StepID: "s", Seq: 0, ToolCallID: "t", Name: new("search")},
		&record.Plan{
			RootPlanID: "b", CurrentPlanID: "b", Name: new("daily"), Project: new("bank"), UserID: new("bob"),
			ConversationID: new("c-2"), Tags: []string{"z"}, State: new(record.Completed), StartTime: at(10_000_000),
		})

	flags := map[string][]string{ // a member of the API's query: the flag and its value
		"state": {"--state", "FAILED"}, "name": {"--name", "nightly"}, "project": {"--project", "shop"},
		"userId":         {"--user", "ada"},
		"conversationId": {"--conversation", "c-1"}, "tag": {"--tag", "y"}, "agent": {"--agent", "clerk"},
		"q":     {"--q", "100%"},
		"until": {"--until", at(5_000_000).Format(time.RFC3339)}, "since": {"--since", at(5_000_000).Format(time.RFC3339)},
		"failed": {"--failed"}, "minCost": {"--min-cost", "0.25"}, "maxCost": {"--max-cost", "0.25"},
		"minDuration": {"--min-duration", "1m"}, "maxDuration": {"--max-duration", "60000"},
		"model": {"--model", "small"}, "tool": {"--tool", "search"}, "startedBy": {"--started-by", "z"},
	}
	for name, flag := range flags {
		want := `"rootPlanId":"a"`
		if name == "since" {
			want = `"rootPlanId":"b"`
		}
		if out := must(t, append([]string{"list", "--json", "--server", url}, flag...)...); strings.Count(out, "\n") != 1 ||
			!strings.Contains(out, want) {
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
		if said := strings.Contains(stderr, "some may be missing"); code != exitDone ||
			said != slices.Contains(pages, "true") {
			t.Errorf("%q: exit code %d, %q", pages, code, stderr)
		}
	}
}

// listFilters returns the members of the query of the API's list.
func listFilters(t *testing.T) (names []string) {
	t.Helper()
	raw, err := os.ReadFile("../../internal/door/api/openapi.yaml")
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
		p.RootPlanID, p.CurrentPlanID = id, id
		p.State = new(record.Running)
		return &p
	}

	storetest.Write(t, s,
		running("heartbeat", record.Plan{StartTime: ago(9 * time.Hour), LastSeenAt: ago(3*time.Hour + 30*time.Second)}),
		running("start", record.Plan{StartTime: ago(4*time.Hour + 30*time.Second)}),
		running("cycle", record.Plan{StartTime: ago(9 * time.Hour)}),
		&record.AgentExecution{RootPlanID: "cycle", PlanID: "cycle", StepID: "s1", StartTime: ago(8 * time.Hour)},
		&record.ThinkAct{RootPlanID: "cycle", StepID: "s1", Seq: 0, ThinkStartTime: ago(5*time.Hour + 30*time.Second)},
		running("tool", record.Plan{StartTime: ago(9 * time.Hour)}),
		&record.ActTool{
			RootPlanID: "tool", StepID: "s2", Seq: 0, ToolCallID: "t2", StartTime: ago(9 * time.Hour),
			EndTime: ago(6*time.Hour + 30*time.Second),
		},
		running("sub-plan", record.Plan{StartTime: ago(9 * time.Hour)}),
		&record.ActTool{RootPlanID: "sub-plan", StepID: "s3", Seq: 0, ToolCallID: "t3", StartTime: ago(9 * time.Hour)},
		&record.Plan{
			RootPlanID: "sub-plan", CurrentPlanID: "sub", ParentPlanID: new("sub-plan"), ToolCallID: new("t3"),
			StartTime: ago(8 * time.Hour), LastSeenAt: ago(7*time.Hour + 30*time.Second),
		},
		running("wait", record.Plan{StartTime: ago(11 * time.Hour)}),
		&record.Wait{RootPlanID: "wait", PlanID: "wait", WaitID: "w", StartTime: ago(8*time.Hour + 30*time.Second)},
		running("answer", record.Plan{StartTime: ago(11 * time.Hour)}),
		&record.Wait{
			RootPlanID: "answer", PlanID: "answer", WaitID: "w", StartTime: ago(10 * time.Hour),
			EndTime: ago(9*time.Hour + 30*time.Second), State: new(record.Approved),
		},
		running("thought", record.Plan{StartTime: ago(11 * time.Hour)}),
		&record.ActTool{RootPlanID: "thought", StepID: "s4", Seq: 0, ToolCallID: "t4"},
		&record.Plan{
			RootPlanID: "thought", CurrentPlanID: "thinker", ParentPlanID: new("thought"), ToolCallID: new("t4"),
			State: new(record.Completed),
		},
		&record.Thought{RootPlanID: "thought", PlanID: "thinker", ThoughtID: "h", Time: ago(10*time.Hour + 30*time.Second)},
		running("nothing", record.Plan{}),
		&record.Plan{
			RootPlanID: "ended", CurrentPlanID: "ended", State: new(record.Completed), StartTime: ago(9 * time.Hour),
			EndTime: ago(8 * time.Hour),
		},
	)

	table := must(t, "list", "--server", url)
	for id, want := range map[string]string{
		"heartbeat": "3h", "start": "4h", "cycle": "5h", "tool": "6h", "sub-plan": "7h", "wait": "8h", "answer": "9h",
		"thought": "10h", "nothing": "-", "ended": "-",
	} {
		row := regexp.MustCompile(`(?m)^` + id + ` .*$`).FindString(table)
		// of those that are silent for no time, - is the agent
		if cells := regexp.MustCompile(` {2,}`).Split(row, -1); len(cells) < 3 || cells[2] != want {
			t.Errorf("%s, want silent for %s: %q", id, want, row)
		}

		shown := must(t, "show", id, "--server", url)
		if want == "-" {
			want = "nothing"
		}
		if strings.Contains(shown, "last sign of life "+want) == (want == "nothing") {
			t.Errorf("id = %s, want %s:\n%s", id, want, shown)
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
		if err := json.Unmarshal([]byte(line), &p); err != nil ||
			(p.LastSignOfLife == nil) != (p.RootPlanID == "ended" || p.RootPlanID == "nothing") {
			t.Errorf("%v: %s", err, line)
		}
	}
}

// F4: a list that is cut says how many plans there are and how to go on, fits 100 columns, and has agent, project and
// cost. Its short ids do for every command.
func TestListSaysHowToGoOn(t *testing.T) {
	t.Parallel()
	url, s := serve(t, apitest.Config{}, nil)
	id := func(n int) string { return fmt.Sprintf("0192%04x-4715-78b8-90e1-73f0804531c2", n) }

	for n := range 12 {
		storetest.Write(t, s,
			&record.Plan{
				RootPlanID: id(n), CurrentPlanID: id(n), Project: new("a project with a long name"),
				Title: new("Which product do customers send back most often, and why do they do that?"),
				State: new(record.Completed), StartTime: at(n), EndTime: at(n + 1000),
			},
			&record.AgentExecution{
				RootPlanID: id(n), PlanID: id(n), StepID: "s" + id(n), AgentName: new("an analyst with a long name"),
				StepIndex: new(int64(0)),
			},
			&record.ThinkAct{RootPlanID: id(n), StepID: "s" + id(n), Seq: 0, CostUSD: new(0.25)})
	}

	code, out, stderr := actlog(t, "list", "--limit", "5", "--server", url)
	if code != exitDone || !strings.HasPrefix(stderr, "actlog: 5 of 12 plans. The next ones: --cursor ") ||
		!strings.HasSuffix(stderr, ", or all: --limit 12\n") {
		t.Errorf("code = %d %s", code, stderr)
	}
	wantAll(t, out, "PLAN", "STATE", "AGENT", "PROJECT", "COST", "TITLE", id(11)[:leastShortID]+"  ", "an anal",
		"a proje", "$0.2500")
	for line := range strings.Lines(out) {
		if n := columns(strings.TrimSuffix(line, "\n")); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}

	cursor := nextCursor(stderr)
	_, _, behind := actlog(t, "list", "--limit", "5", "--cursor", cursor, "--server", url)
	if !strings.HasPrefix(behind, "actlog: 5 plans, and there are more. The next ones: --cursor ") ||
		strings.Contains(behind, "all") {
		t.Errorf("behind a cursor: %s", behind)
	}
	if rest := must(t, "list", "--limit", "50", "--cursor", cursor, "--server", url); strings.Count(rest, "\n") != 8 ||
		!strings.Contains(rest, id(0)[:leastShortID]) || strings.Contains(rest, id(11)[:leastShortID]) {
		t.Errorf("\n%s", rest)
	}

	if _, out, stderr := actlog(t, "list", "--limit", "5", "--json", "--server", url); strings.Count(out, "\n") != 5 ||
		strings.Contains(out, "actlog:") ||
		!strings.Contains(stderr, "5 plans, and there are more. The next ones: --cursor ") {
		t.Errorf("stderr = %s\n%s", stderr, out)
	}
	if _, _, stderr := actlog(t, "list", "--limit", "12", "--server", url); stderr != "" {
		t.Errorf("of a whole list it says %s", stderr)
	}

	short, step := id(3)[:leastShortID], ("s" + id(3))[:12]
	wantAll(t, must(t, "show", short, "--server", url), id(3))
	wantAll(t, must(t, "show", short, "--step", step, "--server", url), "an analyst with a long name")
	wantAll(t, must(t, "tail", short, "--server", url), id(3))
	wantAll(t, must(t, "export", short, "--server", url), id(3))
	for _, args := range [][]string{
		{"show", "0192"}, {"tail", "0192"}, {"export", "0192"}, {"delete", "0192", "--yes"}, {"stop", "0192"},
		{"answer", "0192"}, {"list", "--started-by", "0192"},
	} {
		if code, _, stderr := actlog(t, append(args, "--server", url)...); code != exitUsage ||
			!strings.Contains(stderr, "plan 0192 is ambiguous: it may be "+id(0)+", "+id(1)+", ") ||
			!strings.Contains(stderr, ", ...") {
			t.Errorf("%q: %d %s", args, code, stderr)
		}
	}

	tooShort := short[:leastShortID-1]
	for _, args := range [][]string{
		{"delete", short, "--yes"}, {"delete", id(3)[:35], "--yes"}, {"delete", tooShort},
		{"stop", tooShort}, {"pause", tooShort}, {"resume", tooShort}, {"retry", tooShort},
		{"again", tooShort}, {"answer", tooShort},
	} {
		want := "plan " + args[1] + " is not on record; if you mean " + id(3) + ", name it whole"
		if code, _, stderr := actlog(t, append(args, "--server", url)...); code != exitUsage ||
			!strings.Contains(stderr, want) {
			t.Errorf("%q: %d %s", args, code, stderr)
		}
	}

	if code, _, stderr := actlog(t, "stop", short, "--server", url); code != exitFailed ||
		!strings.Contains(stderr, "run "+id(3)) {
		t.Errorf("stop %s: %d %s", short, code, stderr)
	}
	if out := must(t, "delete", id(3), "--yes", "--server", url); out != "deleted "+id(3)+"\n" {
		t.Errorf("delete = %s", out)
	}
	if code, _, stderr := actlog(t, "show", "nothing", "--server", url); code != exitFailed ||
		!strings.Contains(stderr, "plan nothing is not on record") {
		t.Errorf("code = %d %s", code, stderr)
	}

	storetest.Write(t, s, &record.Plan{RootPlanID: "0192", CurrentPlanID: "0192", Title: new("the whole id")})
	wantAll(t, must(t, "show", "0192", "--server", url), "the whole id")
}

// nextCursor returns the cursor that the last line of a list names.
func nextCursor(stderr string) string {
	_, rest, _ := strings.Cut(stderr, "--cursor ")
	cursor, _, _ := strings.Cut(rest, ", ")
	return cursor
}

// F4: --since and --until take the same forms in every command, and errors name the flag.
func TestSinceEverywhere(t *testing.T) {
	t.Parallel()
	url, _ := serve(t, apitest.Config{}, nil)
	for _, command := range [][]string{{"list"}, {"search", "x"}, {"retry", "--yes"}} {
		for _, flag := range []string{"--since", "--until"} {
			for _, when := range []string{"90s", "5m", "24h", "3d", "2w", "2026-11-20", "2026-11-20T13:53:00Z"} {
				must(t, append(slices.Clone(command), flag, when, "--server", url)...)
			}
			if code, _, stderr := actlog(t, append(slices.Clone(command), flag, "3x", "--server", url)...); code != exitUsage ||
				!strings.Contains(stderr, flag+" 3x: must be a time") {
				t.Errorf("%q %s: %d %s", command, flag, code, stderr)
			}
		}
	}

	if code, _, stderr := actlog(t, "price", "apply", "--since", "3x"); code != exitUsage ||
		!strings.Contains(stderr, "--since 3x: must be a time") {
		t.Errorf("code = %d %s", code, stderr)
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
		item, row := items[run.Root], rows[run.Root]
		shown := must(t, "show", run.Root, "--server", url)
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

		if c := item.Cause; c.At != run.At || c.Text != run.Text || c.Tool != run.Tool || c.ErrorKind != run.Kind ||
			c.Recovered != run.Recovered {
			t.Errorf("%s: the cause is %+v", run.Name, c)
		}
		for _, part := range []string{run.CauseKind(), run.Tool, run.Text} {
			if !strings.Contains(item.Cause.brief(), part) || !strings.Contains(shown, part) {
				t.Errorf("%s: %q is not in %s\n%s", run.Name, part, item.Cause.brief(), shown)
			}
		}

		// as far as there is room
		if begins := words.Shorten(item.Cause.brief(), 8); !strings.Contains(row, strings.TrimSuffix(begins, "…")) {
			t.Errorf("%s: no %q in %s", run.Name, begins, row)
		}
		if strings.Contains(shown, "first failure, recovered:") != run.Recovered ||
			strings.Contains(shown, "cause:") == run.Recovered || strings.Contains(row, "recovered:") != run.Recovered {
			t.Errorf("%s: recovered %t:\n%s\n%s", run.Name, run.Recovered, row, shown)
		}
	}
}
