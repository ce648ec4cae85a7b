package main

import (
	"bytes"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/internal/trace/otlp"
	"github.com/actlog/actlog/migrations"
	"github.com/actlog/actlog/record"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// until waits until a condition holds. If it never does, what there is instead is in the log of the test.
func until(t *testing.T, what string, instead fmt.Stringer, condition func() bool) {
	t.Helper()
	holds := false
	defer func() {
		if !holds {
			t.Logf("instead:\n%s", instead)
		}
	}()

	storetest.Until(t, what, condition)
	holds = true
}

// actlog runs a command line in this process.
func actlog(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args []string
		code int
		want string // on stderr
	}{
		"help":                 {[]string{"--help"}, exitDone, ""},
		"no arguments":         {nil, exitDone, ""},
		"unknown command":      {[]string{"frobnicate"}, exitUsage, "frobnicate"},
		"unknown flag":         {[]string{"serve", "--frob"}, exitUsage, "--frob"},
		"missing plan":         {[]string{"show"}, exitUsage, "plan"},
		"no port":              {[]string{"serve", "--listen", "localhost"}, exitUsage, "HOST:PORT"},
		"open to all machines": {[]string{"serve", "--listen", "0.0.0.0:0"}, exitUsage, "--insecure"},
		"OTLP open to all": {
			[]string{"serve", "--listen", "127.0.0.1:0", "--otlp-listen", "0.0.0.0:0"}, exitUsage,
			"--otlp-listen 0.0.0.0:0 can be reached",
		},
		"gRPC open to all": {
			[]string{"serve", "--listen", "127.0.0.1:0", "--otlp-grpc-listen", ":0"}, exitUsage,
			"--otlp-grpc-listen :0 can be reached",
		},
		"no OTLP port": {
			[]string{"serve", "--listen", "127.0.0.1:0", "--otlp-listen", "on"}, exitUsage, "HOST:PORT",
		},
		"the help of a subcommand (N26)": {[]string{"price", "set", "x"}, exitUsage, `"actlog price set --help"`},
		"the help of another (N26)": {
			[]string{"migrate", "status", "--frob"}, exitUsage, `"actlog migrate status --help"`,
		},
		"the help of a command (N26)":       {[]string{"show", "--frob"}, exitUsage, `"actlog show --help"`},
		"the help of an incomplete command": {[]string{"price"}, exitUsage, `"actlog price --help"`},
		"a server without http (N26)":       {[]string{"list", "--server", "127.0.0.1:8520"}, exitUsage, "http://"},
		"no plans (N27)":                    {[]string{"list", "--limit", "0"}, exitUsage, "--limit 0: must be at least 1"},
		"less than none (N27)":              {[]string{"list", "--limit=-5"}, exitUsage, "--limit -5: must be at least 1"},
		"no time (N29)":                     {[]string{"list", "--until", "soon"}, exitUsage, "--until soon"},
		"a root without a plan":             {[]string{"tail", "--root", "r"}, exitUsage, "--root r"},
		"no connections": {
			[]string{"serve", "--listen", "127.0.0.1:0", "--max-connections", "0"}, exitUsage, "--max-connections",
		},
		"demo with agents":  {[]string{"demo", "--config", "x"}, exitUsage, "--config"},
		"demo with workers": {[]string{"demo", "--workers", "3"}, exitUsage, "--workers"},
		"no server":         {[]string{"show", "--server", "http://127.0.0.1:1", "plan-1"}, exitFailed, "actlog serve"},
		"unknown state":     {[]string{"list", "--state", "DONE"}, exitUsage, "one of PENDING, "},
		"no file":           {[]string{"import"}, exitUsage, "file"},
		"no shell":          {[]string{"completion"}, exitUsage, "shell"},
		"bad database": {
			[]string{"migrate", "up", "--database-url", "postgres://127.0.0.1:1/x"}, exitFailed, "127.0.0.1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, _, stderr := actlog(t, tt.args...)
			if code != tt.code || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit code %d, want %d; stderr:\n%s", code, tt.code, stderr)
			}
		})
	}
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t).URL
	for _, tt := range []struct {
		command, applied string
	}{{"status", "no"}, {"up", ""}, {"status", "yes"}, {"up", ""}, {"down", ""}, {"status", "no"}} {
		args := []string{"migrate", tt.command, "--database-url", url}
		if tt.command == "down" {
			if code, _, stderr := actlog(t, args...); code != exitUsage || !strings.Contains(stderr, "--yes") {
				t.Errorf("without a terminal: exit code %d\n%s", code, stderr)
			}
			args = append(args, "--yes")
		}

		code, stdout, stderr := actlog(t, args...)
		if code != exitDone {
			t.Fatalf("migrate %s: exit code %d\n%s", tt.command, code, stderr)
		}
		if tt.applied != "" && !regexp.MustCompile(`(?m)^1 +00001_record.sql +(?s:.*) `+tt.applied+
			`\n\z`).MatchString(stdout) {
			t.Errorf("migrate %s, want applied %s:\n%s", tt.command, tt.applied, stdout)
		}
		if want := fmt.Sprintf(`,"applied":%v}`+"\n", tt.applied == "yes"); tt.command == "status" {
			if out := must(t, "migrate", "status", "--json", "--database-url", url); !strings.HasPrefix(out,
				`{"version":1,"name":"00001_record.sql",`) || !strings.HasSuffix(out, want) {
				t.Errorf("migrate = %s, want %s", out, want)
			}
		}
	}
}

// A database of a version before the baseline is refused by every command that would use it, with what to do; psql
// warns.
func TestBeforeTheBaseline(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	for _, sql := range []string{
		"CREATE SCHEMA actlog", "CREATE TABLE " + migrations.TableBeforeBaseline + " (version_id bigint)",
	} {
		if _, err := db.Pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}

	for _, args := range [][]string{
		{"serve", "--listen", "127.0.0.1:0", "--otlp-listen", "off"}, {"migrate", "up"}, {"migrate", "down", "--yes"},
		{"migrate", "status"},
		{"verify"}, {"price", "list"},
	} {
		code, _, stderr := actlog(t, append(args, "--database-url", db.URL)...)
		if code != exitFailed || !strings.Contains(stderr, store.ErrBeforeBaseline.Error()) {
			t.Errorf("%s: exit code %d, want %d; stderr:\n%s", strings.Join(args, " "), code, exitFailed, stderr)
		}
	}

	code, _, stderr := actlog(t, "psql", "--database-url", db.URL, "--", "-c", "SELECT 1")
	if code != exitDone || !strings.Contains(stderr, "before the first baseline") {
		t.Errorf("psql: exit code %d, want %d; stderr:\n%s", code, exitDone, stderr)
	}
}

// serve starts a server with a record for this test only. Requests go through around, unless it
// is nil.
func serve(t *testing.T, config apitest.Config, around func(http.Handler) http.Handler) (url string, s *store.Store) {
	t.Helper()
	s = storetest.Open(t, func(c *store.Config) { c.Project = store.Projecting(otlp.NewProjection) })
	handler := http.Handler(apitest.New(t, s, config))
	if around != nil {
		handler = around(handler)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL, s
}

func at(ms int) *time.Time { return new(time.UnixMilli(1_760_000_000_000 + int64(ms)).UTC()) }

// fullRun is a run with everything that a tree can have.
func fullRun() []record.Change {
	return []record.Change{
		&record.Plan{
			RootPlanID: "plan-1", CurrentPlanID: "plan-1", Title: new("Report on\n\x1b[31msales"), State: new(record.Failed),
			ErrorMessage: new("no region"), StartTime: at(0), EndTime: at(75_000),
		},
		&record.AgentExecution{
			RootPlanID: "plan-1", PlanID: "plan-1", StepID: "step-1", StepIndex: new(int64(0)), AgentName: new("collector"),
			AgentRequest: new("collect"), State: new(record.Completed), Result: new("done"), StartTime: at(0), EndTime: at(900),
		},
		&record.AgentExecution{
			RootPlanID: "plan-1", PlanID: "plan-1", StepID: "step-2", StepIndex: new(int64(1)), AgentName: new("writer"),
			Attempt: new(int64(2)), State: new(record.Failed), ErrorMessage: new("broke"),
		},
		&record.AgentExecution{RootPlanID: "plan-1", PlanID: "plan-1", StepID: "step-3", StepIndex: new(int64(2))},
		&record.ThinkAct{
			RootPlanID: "plan-1", StepID: "step-1", Seq: 0, ThinkInput: new("what now?"), ThinkOutput: new("fetch"),
			ModelName: new("m-1"), FinishReason: new("tool_calls"), State: new(record.Completed),
			InputTokens: new(int64(12_345)), OutputTokens: new(int64(678)), CostUSD: new(0.0123), ThinkStartTime: at(10),
			ThinkEndTime: at(250),
		},
		&record.ActTool{
			RootPlanID: "plan-1", StepID: "step-1", Seq: 0, ToolCallID: "tool-1", CallIndex: new(int64(0)), Name: new("fetch"),
			Parameters: new(`{"q":3}`), Result: new("rows"), State: new(record.Completed), StartTime: at(250), EndTime: at(800),
		},
		&record.ActTool{
			RootPlanID: "plan-1", StepID: "step-1", Seq: 0, ToolCallID: "tool-2", CallIndex: new(int64(1)), Name: new("mail"),
			State: new(record.Failed), ErrorMessage: new("no such host"),
		},
		&record.Plan{
			RootPlanID: "plan-1", CurrentPlanID: "sub-1", ParentPlanID: new("plan-1"), ToolCallID: new("tool-1"),
			Title: new("Fetch sales"), State: new(record.Completed), StartTime: at(260), EndTime: at(790),
		},
		&record.AgentExecution{
			RootPlanID: "plan-1", PlanID: "sub-1", StepID: "step-4", AgentName: new("fetcher"), State: new(record.Completed),
		},
		&record.Plan{
			RootPlanID: "plan-1", CurrentPlanID: "sub-2", ParentPlanID: new("plan-1"), ToolCallID: new("lost"),
			Title: new("Lost"), State: new(record.Running), StartTime: at(300),
		},
		&record.Wait{RootPlanID: "plan-1", PlanID: "plan-1", WaitID: "w", Title: new("Which region?")},
	}
}

// TestShowRunningPlan expects the open wait, the last sign of life, and the failures below.
func TestShowRunningPlan(t *testing.T) {
	t.Parallel()
	url, s := serve(t, apitest.Config{}, nil)
	storetest.Write(t, s, fullRun()...)
	hourAgo := time.Now().Add(-time.Hour)

	storetest.Write(t, s,
		&record.Plan{RootPlanID: "p", CurrentPlanID: "p", State: new(record.Running), LastSeenAt: &hourAgo},
		&record.ActTool{RootPlanID: "p", StepID: "s", Seq: 0, ToolCallID: "t", Name: new("fetch")},
		&record.Plan{
			RootPlanID: "p", CurrentPlanID: "sub", ParentPlanID: new("p"), ToolCallID: new("t"), Title: new("Sub"),
			State: new(record.Failed), ErrorMessage: new("no\nroute"),
		},
		&record.Wait{
			RootPlanID: "p", PlanID: "sub", WaitID: "w", Type: new(record.WaitPlanValidation), Title: new("Is it fine?"),
			FormDescription: new("Look first"),
		},
		&record.Plan{RootPlanID: "plan-1", CurrentPlanID: "plan-1", LastSeenAt: &hourAgo})

	out := must(t, "show", "p", "--server", url)
	for _, want := range []string{
		"p  RUNNING  1 tool call\n", "waits for plan validation:\nIs it fine?  w\n  Look first\n", "last sign of life 1h0m",
		" ago\n", "fetch:  Sub  FAILED\n      no route\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}

	if out := must(t, "show", "plan-1", "--server", url); strings.Contains(out, "sign of life") {
		t.Errorf("sign of life of a plan that has ended:\n%s", out)
	}
	if out := must(t, "list", "--state", "RUNNING", "--json", "--server", url); strings.Count(out, "\n") != 1 ||
		!strings.HasPrefix(out, `{"id":`) {
		t.Errorf("list = %s", out)
	}
}

func TestColours(t *testing.T) {
	t.Parallel()
	for colour, want := range map[bool]string{true: "\x1b[1mp\x1b[0m  \x1b[31mFAILED\x1b[0m\n", false: "p  FAILED\n"} {
		var out strings.Builder
		(&view{w: &out, colour: colour}).plan(&planView{CurrentPlanID: "p", State: "FAILED"})
		if out.String() != want {
			t.Errorf("out.String() = %q", out.String())
		}
	}
}

// TestVersionVariableIsIgnored sets ACTLOG_VERSION, which must not act as --version.
func TestVersionVariableIsIgnored(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), program0(t), "completion", "fish")
	cmd.Env = append(os.Environ(), "ACTLOG_VERSION=1.2.3")
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != must(t, "completion", "fish") {
		t.Errorf("cmd.CombinedOutput() = %v\n%s", err, out)
	}
}

// N1: TestShowAttempts expects a line for each attempt before the current one, in a tree and in a
// step.
func TestShowAttempts(t *testing.T) {
	t.Parallel()
	url, s := serve(t, apitest.Config{}, nil)
	second := new(int64(2))

	storetest.Write(t, s,
		&record.AgentExecution{
			RootPlanID: "p", PlanID: "p", StepID: "s", AgentName: new("writer"), State: new(record.Failed), StartTime: at(0),
			EndTime: at(8_000), ErrorKind: new("io"), ErrorMessage: new("disk \x1b[31mfull\nat /data"),
		},
		&record.AgentExecution{RootPlanID: "p", PlanID: "p", StepID: "s", Attempt: second, State: new(record.Interrupted)},
		&record.AgentExecution{
			RootPlanID: "p", PlanID: "p", StepID: "s", Attempt: new(int64(3)), State: new(record.Completed),
			StartTime: at(20_000), EndTime: at(21_000),
		},
		&record.ThinkAct{RootPlanID: "p", StepID: "s", Seq: 0, State: new(record.Failed), ErrorMessage: new("overloaded")},
		&record.ThinkAct{RootPlanID: "p", StepID: "s", Seq: 0, Attempt: second, State: new(record.Completed)},
		&record.ActTool{
			RootPlanID: "p", StepID: "s", Seq: 0, ToolCallID: "t", Name: new("fetch"), State: new(record.Failed),
			StartTime: at(0), EndTime: at(500), ErrorMessage: new("no route"),
		},
		&record.ActTool{RootPlanID: "p", StepID: "s", Seq: 0, ToolCallID: "t", Attempt: second, State: new(record.Running)},
	)

	const steps = "attempt 1  FAILED  8s  io  disk [31mfull\nINDENTattempt 2  INTERRUPTED\n"
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{
			[]string{"show", "p"}, []string{
				"writer  COMPLETED  1s, 1 tool call  attempt 3  s\n   " + strings.ReplaceAll(steps, "INDENT", "   "),
			},
		},
		{[]string{"show", "p", "--step", "s"}, []string{
			"writer  COMPLETED  1s, 1 tool call  attempt 3\n" + strings.ReplaceAll(steps, "INDENT", ""),
			"cycle 1  COMPLETED  attempt 2\n  at cycle:s/0\n  attempt 1  FAILED  overloaded\n",
			"  → fetch  RUNNING  attempt 2\n    attempt 1  FAILED  500ms  no route\n",
		}},
	} {
		out := must(t, append(tt.args, "--server", url)...)
		for _, want := range tt.want {
			if !strings.Contains(out, want) {
				t.Errorf("%v: no %q in\n%s", tt.args, want, out)
			}
		}
	}
}

// TestShow compares a tree and a step that have everything with golden files.
func TestShow(t *testing.T) {
	t.Parallel()
	url, s := serve(t, apitest.Config{}, nil)
	storetest.Write(t, s, fullRun()...)
	for name, args := range map[string][]string{
		"tree.txt": {"show", "plan-1"},
		"step.txt": {"show", "plan-1", "--step", "step-1"},
	} {
		code, stdout, stderr := actlog(t, append(args, "--server", url)...)
		if code != exitDone {
			t.Fatalf("exit code %d\n%s", code, stderr)
		}
		golden(t, name, stdout)
	}

	for _, args := range [][]string{{"show", "plan-2"}, {"show", "plan-1", "--step", "step-9"}} {
		if code, _, stderr := actlog(t, append(args, "--server", url)...); code != exitFailed ||
			!strings.Contains(stderr, "not on record") {
			t.Errorf("%v: exit code %d: %s", args, code, stderr)
		}
	}
}

// N10: TestShowRoot shows plans and steps of ids that two trees use: the step is that of the tree of
// the plan, --root chooses the tree, and the view says that there is another.
func TestShowRoot(t *testing.T) {
	t.Parallel()
	url, s := serve(t, apitest.Config{}, nil)
	for _, root := range []string{"a", "b"} {
		storetest.Write(t, s,
			&record.Plan{RootPlanID: root, CurrentPlanID: root, State: new(record.Completed)},
			&record.ActTool{RootPlanID: root, StepID: "s", Seq: 0, ToolCallID: "t", Name: new("fetch-" + root)},
			&record.AgentExecution{RootPlanID: root, PlanID: root, StepID: "s", AgentName: new("agent-" + root)},
			&record.Plan{
				RootPlanID: root, CurrentPlanID: "sub", ParentPlanID: &root, ToolCallID: new("t"), Title: new("Sub of " + root),
				State: new(record.Completed),
			},
			&record.AgentExecution{RootPlanID: root, PlanID: "sub", StepID: "sub-s", AgentName: new("sub-agent-" + root)})
	}

	const alsoUnderA = "plan sub is shown under root plan b; it is also under these, which --root chooses: a\n"
	for _, tt := range []struct {
		args []string
		want string
		not  string
	}{
		{[]string{"show", "a", "--step", "s"}, "agent-a", "--root"},
		{[]string{"show", "b", "--step", "s"}, "agent-b", "--root"},
		{[]string{"show", "a", "--step", "sub-s"}, "sub-agent-a", "--root"},
		{[]string{"show", "a", "--step", "s", "--json"}, `"agentName":"agent-a"`, "agent-b"},
		{[]string{"show", "sub", "--step", "sub-s", "--root", "a"}, "sub-agent-a", "--root"},
		{[]string{"show", "sub", "--step", "sub-s"}, "sub-agent-b", "sub-agent-a"},
		{[]string{"show", "sub", "--step", "sub-s"}, alsoUnderA, "sub-agent-a"},
		{[]string{"show", "sub"}, alsoUnderA, "sub-agent-a"},
		{[]string{"show", "sub", "--root", "a"}, "Sub of a", "--root"},
		{[]string{"show", "sub", "--root", "a", "--json"}, `"rootPlanId":"a"`, `"rootPlanId":"b"`},
		{[]string{"tail", "sub", "--root", "a"}, "Sub of a", "Sub of b"},
		{[]string{"tail", "sub", "--root", "b"}, "Sub of b", "Sub of a"},
	} {
		if out := must(t, append(tt.args, "--server", url)...); !strings.Contains(out, tt.want) ||
			strings.Contains(out, tt.not) {
			t.Errorf("%q, want %q and no %q:\n%s", tt.args, tt.want, tt.not, out)
		}
	}

	for _, args := range [][]string{
		{"show", "sub", "--root", "c"}, {"show", "a", "--root", "b"}, {"tail", "a", "--root", "b"},
		{"show", "sub", "--root", "c", "--step", "sub-s"},
	} {
		if code, _, stderr := actlog(t, append(args, "--server", url)...); code != exitFailed ||
			!strings.Contains(stderr, "not on record") {
			t.Errorf("%q: exit code %d: %s", args, code, stderr)
		}
	}
}

// N21: TestShowDepth shows plans that are nested deeper than a tree shows: the view says how many it
// leaves out, and their steps can be shown all the same.
func TestShowDepth(t *testing.T) {
	t.Parallel()
	url, s := serve(t, apitest.Config{}, nil)
	const deepest = 60
	id := func(depth int) string { return fmt.Sprintf("level-%d", depth) }

	var changes []record.Change
	for depth := range deepest + 1 {
		p := &record.Plan{RootPlanID: id(0), CurrentPlanID: id(depth), State: new(record.Completed)}
		if depth > 0 {
			p.ParentPlanID, p.ToolCallID = new(id(depth-1)), new("tool-of-"+id(depth-1))
		}
		changes = append(changes, p,
			&record.AgentExecution{
				RootPlanID: id(0), PlanID: id(depth), StepID: "step-of-" + id(depth), AgentName: new("agent of " + id(depth)),
			},
			&record.ActTool{RootPlanID: id(0), StepID: "step-of-" + id(depth), Seq: 0, ToolCallID: "tool-of-" + id(depth)})
	}

	storetest.Write(t, s, changes...)
	shownTo := func(depth int, rest string, args ...string) {
		t.Helper()
		// lines are wrapped
		out := strings.Join(strings.Fields(must(t, append(append([]string{"show"}, args...), "--server", url)...)), " ")
		if !strings.Contains(out, "agent of "+id(depth)) || strings.Contains(out, "agent of "+id(depth+1)) ||
			!strings.HasSuffix(out, rest) || rest == "" && strings.Contains(out, "not shown") {
			t.Errorf("%q, want %d levels and %q:\n%s", args, depth, rest, out)
		}
	}

	const use = " not shown; use actlog show with a larger --max-depth, or with one of these ids: "
	shownTo(50, "10 plans below are"+use+"level-50", id(0))
	shownTo(60, "", id(50))
	shownTo(3, "57 plans below are"+use+"level-3", id(0), "--max-depth", "3")
	shownTo(59, "1 plan below is"+use+"level-59", id(0), "--max-depth", "59")
	shownTo(60, "", id(0), "--max-depth", "2000")
	shownTo(60, "", id(0), "--step", "step-of-"+id(60))

	if out := must(
		t, "show", id(0), "--json", "--max-depth", "20000", "--server", url,
	); !strings.Contains(out, "agent of "+id(60)) {
		t.Errorf("show = %s", out)
	}
	for _, args := range [][]string{{"--max-depth=-1"}, {"--max-depth", "2001"}, {"--json", "--max-depth", "20001"}} {
		if code, _, stderr := actlog(t, append([]string{"show", id(0), "--server", url}, args...)...); code != exitUsage ||
			!strings.Contains(stderr, "--max-depth") {
			t.Errorf("%q: exit code %d: %s", args, code, stderr)
		}
	}
}

// N13: TestShowPlaceholder expects that plans of which only the id is known are marked.
func TestShowPlaceholder(t *testing.T) {
	t.Parallel()
	url, s := serve(t, apitest.Config{}, nil)
	storetest.Write(t, s, &record.Plan{RootPlanID: "q", CurrentPlanID: "q2"})

	for _, tt := range []struct {
		args []string
		want string // a pattern
	}{
		{[]string{"list"}, `(?m)^q +\(placeholder\) `}, {
			[]string{"show", "q"}, `^q  \(placeholder\)\n└─ q2  \(placeholder\)`,
		},
	} {
		if out := must(t, append(tt.args, "--server", url)...); !regexp.MustCompile(tt.want).MatchString(out) ||
			strings.Contains(out, "PENDING") {
			t.Errorf("tt.args = %q, want %s:\n%s", tt.args, tt.want, out)
		}
	}

	storetest.Write(t, s, &record.Plan{RootPlanID: "q", CurrentPlanID: "q", Title: new("Known")},
		&record.Plan{RootPlanID: "q", CurrentPlanID: "q2", Name: new("known, too")})
	if out := must(t, "list", "--server", url) +
		must(t, "show", "q", "--server", url); strings.Contains(out, "placeholder") || strings.Count(out, "PENDING") != 3 {
		t.Errorf("out = %s", out)
	}
}

func TestPsql(t *testing.T) {
	t.Parallel()
	requireClients(t, "psql")
	code, stdout, stderr := actlog(t, "psql", "--database-url", pgtest.New(t).URL, "--admin", "--", "-Atc",
		"SELECT count(*) FROM think_act_record")
	if code != exitDone || stdout != "0\n" {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}

	if code, _, stderr := actlog(t, "psql", "--database-url", pgtest.New(t).URL, "--", "-c",
		"SELECT nonsense"); code != exitFailed {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
