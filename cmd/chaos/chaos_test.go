//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/actlog/actlog/recorder"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(beClient) != "" || os.Getenv(beTools) != "":
		main()
		return
	case os.Getenv(beClock) != "":
		tellClock()
		return
	}

	goleak.VerifyTestMain(m)
}

// TestChaos is a short `make chaos` without a mount. Nothing that was acknowledged may be lost, and no
// process may be left behind.
func TestChaos(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "work")
	var out bytes.Buffer
	code := run(t.Context(), []string{
		"-kills", "10", "-seed", "7", "-writers", "2", "-rate", "10", "-between", "200ms", "-duration", "20s", "-dir", dir,
		"-faults", "server,postgres,backend,client,pause,network,clock",
	}, &out, &out)

	if code != exitDone {
		server, _ := os.ReadFile(filepath.Join(dir, "server.log"))
		client, _ := os.ReadFile(filepath.Join(dir, "client.log"))
		t.Errorf("exit code %d:\n%s\nserver:\n%s\nclients:\n%s", code, &out, server[max(0, len(server)-4000):], client)
	}
	if left := processesOf(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestFlood is a short `make chaos CHAOS="-scenario flood"`. Slow clients and garbage must not disturb
// good clients.
func TestFlood(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if code := run(t.Context(), []string{
		"-scenario", "flood", "-lasts", "5s", "-connections", "200", "-garbage", "1000", "-rate", "5", "-writers", "2",
		"-within", recorder.HTTPTimeoutDefault.String(),
	}, &out, &out); code != exitDone {
		t.Errorf("exit code %d:\n%s", code, &out)
	}
}

// TestGreedy is `make chaos CHAOS="-scenario greedy -short"`. N14-N18: greedy clients must not take
// what good clients need.
func TestGreedy(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if code := run(t.Context(), []string{"-scenario", "greedy", "-short"}, &out, &out); code != exitDone {
		t.Errorf("exit code %d:\n%s", code, &out)
	}
}

// TestRuns is `make chaos CHAOS="-scenario runs -short"`. Every fault comes once, and each run must end
// as an undisturbed one does.
func TestRuns(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "work")
	var out bytes.Buffer

	if code := run(t.Context(), []string{"-scenario", "runs", "-short", "-between", "300ms", "-dir", dir}, &out,
		&out); code != exitDone {
		t.Errorf("exit code %d:\n%s", code, &out)
	}
	if left := processesOf(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// processesOf lists the processes with the folder in their command line.
func processesOf(dir string) (left []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		content, _ := os.ReadFile(file)
		if strings.Contains(string(content), dir) {
			left = append(left, strings.ReplaceAll(string(content), "\x00", " "))
		}
	}
	return left
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"-kills", "-1"}, {"-faults", "flood"}, {"-faults", ""}, {"-scenario", "drought"}, {"-ways", "z"}, {"-pooler", "z"},
		{"-attacks", "z"}, {"more"}, {"-writers", "0"}, {"-runs", "0"},
	} {
		var out bytes.Buffer
		if code := run(t.Context(), args, &out, &out); code != exitUsage {
			t.Errorf("%q: exit code %d, want %d", args, code, exitUsage)
		}
	}
}

// TestChecker checks that the checker finds violations.
func TestChecker(t *testing.T) {
	t.Parallel()
	plan := planWith(t, 2)
	step, second := stepID(plan, 0), stepID(plan, 1)
	tool := toolCallID(cycleID(step, 0), 0)

	good := map[string]string{
		"details/" + plan: fmt.Sprintf(`{"currentPlanId":%q,"title":%q,"userRequest":%q,"agentExecutionSequence":[
			{"stepId":%q,"agentRequest":%q},{"stepId":%q,"agentRequest":%q}]}`,
			plan, text("title", plan), text("request", plan), step, text("request", step), second, text("request", second)),
		"agent-execution/" + step:   fmt.Sprintf(`{"stepId":%q}`, step),
		"agent-execution/" + second: fmt.Sprintf(`{"stepId":%q}`, second),
	}
	with := func(path, body string) map[string]string {
		changed := map[string]string{}
		for k, v := range good {
			changed[k] = v
		}
		changed[path] = body
		return changed
	}

	call := fmt.Sprintf(
		`{"id":%q,"result":%q,"state":"COMPLETED","startTime":"2026-01-01T00:00:00Z","endTime":"2026-01-01T00:00:01Z"}`,
		tool, text("result", tool),
	)

	for _, tc := range []struct {
		name   string
		record map[string]string
		acked  []string
		want   string // lost, twice, half, strange
	}{
		{"no violation", good, []string{plan}, "0 0 0 0"},
		{"no plan", nil, []string{plan}, "1 0 0 0"},
		{"no end", good, []string{plan, endOf(plan)}, "1 0 0 0"},
		{
			"wrong text", with("details/"+plan, strings.Replace(good["details/"+plan], "title of", "title off", 1)),
			[]string{plan}, "0 0 0 1",
		},
		{
			"half of the steps", with("details/"+plan,
				strings.Replace(good["details/"+plan], fmt.Sprintf(`"agentRequest":%q`, text("request", second)),
					`"agentRequest":""`, 1)), []string{plan}, "0 0 1 0",
		},
		{
			"a call twice", with("agent-execution/"+step,
				fmt.Sprintf(`{"stepId":%q,"figures":{"toolCalls":2},"thinkActSteps":[{"actToolInfoList":[%s,%s]}]}`, step, call,
					call)), []string{plan, tool, endOf(tool)}, "0 2 0 0",
		},
		// its start and its end
		{
			"a call that no client wrote",
			with("agent-execution/"+step,
				fmt.Sprintf(`{"stepId":%q,"figures":{"toolCalls":1},"thinkActSteps":[{"actToolInfoList":[%s]}]}`, step, call)),
			[]string{plan}, "0 0 0 2",
		},
		{
			"wrong figures", with("agent-execution/"+step, fmt.Sprintf(`{"stepId":%q,"figures":{"toolCalls":1}}`, step)),
			[]string{plan}, "0 0 0 1",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, ok := tc.record[strings.TrimPrefix(r.URL.Path, "/api/executor/")]
				if !ok {
					w.WriteHeader(http.StatusNotFound)
					return
				}
				_, _ = w.Write([]byte(body))
			}))
			t.Cleanup(server.Close)

			l := newLedger(t.TempDir())
			p, err := openPen(l.file("c0"))
			if err != nil {
				t.Fatal(err)
			}

			for _, item := range tc.acked {
				p.note(markIntent, plan, item)
				p.note(markAcked, plan, item)
			}
			_ = p.file.Close()
			if _, err := l.catchUp(); err != nil {
				t.Fatal(err)
			}

			c := &checker{base: server.URL, http: server.Client(), ledger: l, final: true, tally: new(tally)}
			if err := c.check(context.WithoutCancel(t.Context()), []string{plan}); err != nil {
				t.Fatal(err)
			}
			f := c.tally
			got := fmt.Sprintf("%d %d %d %d", len(f.lost), len(f.twice), len(f.half), len(f.strange))
			if got != tc.want {
				t.Errorf("lost, twice, half, strange: %s, want %s\n%q %q %q %q", got, tc.want, f.lost, f.twice, f.half, f.strange)
			}
		})
	}
}

// planWith returns a plan of a direct client with a number of steps and without a sub-plan.
func planWith(t *testing.T, steps int) string {
	t.Helper()
	for n := range 1000 {
		if plan := fmt.Sprintf("d-test-%d", n); stepCount(plan) == steps && !hasSub(plan) {
			return plan
		}
	}
	t.Fatal("no such plan")
	return ""
}
