package api_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/record"
)

// retried are records of a step, a cycle and a tool call that failed and are attempted again. A
// sub-plan shows the tool call, too.
func retried() []any {
	return []any{
		plan("p", state("RUNNING")),
		step("p", "p", "s", state("FAILED"), obj{
			"startTime": at(1), "endTime": at(9), "errorMessage": "disk full", "errorKind": "io",
		}),
		cycle("p", "s", 0, state("FAILED"), obj{
			"thinkStartTime": at(2), "thinkEndTime": at(3), "actEndTime": at(5), "errorMessage": "no answer", "rev": 3,
		}),
		tool("p", "s", 0, "t", state("FAILED"), obj{
			"startTime": at(4), "endTime": at(5), "errorMessage": strings.Repeat("x", 20_000), "rev": 7,
		}),
		subPlan("p", "sub", "p", "t"),
		tool("p", "s", 0, "t", state("COMPLETED"), obj{"attempt": 2, "startTime": at(11), "endTime": at(12)}),
		cycle("p", "s", 0, state("RUNNING"), obj{"attempt": 2, "thinkStartTime": at(10)}),
		step("p", "p", "s", state("RUNNING"), obj{"attempt": 2, "startTime": at(10)}),
	}
}

// retriedAttempts are the attempts that all reads show then.
var retriedAttempts = func() map[string][]obj {
	attempt := func(n int, state string, start, end, message, kind any, cut ...string) obj {
		return obj{
			"attempt": n, "state": state, "startTime": start, "endTime": end, "errorMessage": message, "errorKind": kind,
			"truncated": append([]string{}, cut...),
		}
	}
	return map[string][]obj{
		"step":  {attempt(1, "FAILED", at(1), at(9), "disk full", "io"), attempt(2, "RUNNING", at(10), nil, nil, nil)},
		"cycle": {attempt(1, "FAILED", at(2), at(5), "no answer", nil), attempt(2, "RUNNING", at(10), nil, nil, nil)},
		"tool": {
			attempt(1, "FAILED", at(4), at(5), strings.Repeat("x", record.MaxAttemptTextBytes), nil, "errorMessage"),
			attempt(2, "COMPLETED", at(11), at(12), nil, nil),
		},
	}
}()

// N1: TestAttemptsStay checks that the JSON of steps, cycles and tool calls lists every attempt, in
// a tree and in the detail of a step, also in a tree that was imported, whatever the order of the
// lines. What was never attempted again has an empty list.
func TestAttemptsStay(t *testing.T) {
	t.Parallel()
	records := retried()
	c := serve(t)
	c.Write(records[:5]...)
	none := []obj{}
	expect(t, c.Details("p"), obj{"agentExecutionSequence.0.attempts": none})
	expect(t, c.Step("s"), obj{
		"attempts": none, "thinkActSteps.0.attempts": none, "thinkActSteps.0.actToolInfoList.0.attempts": none,
	})

	c.Write(records[5:]...)
	check := func(c *client) {
		t.Helper()
		expect(t, c.Details("p"), obj{
			"agentExecutionSequence.0.attempts": retriedAttempts["step"], "agentExecutionSequence.0.startTime": at(10),
		})
		expect(t, c.Details("sub"), obj{
			"parentActToolCall.attempts": retriedAttempts["tool"], "parentActToolCall.errorMessage": nil,
		})
		expect(t, c.Step("s"), obj{
			"attempts": retriedAttempts["step"], "thinkActSteps.0.attempts": retriedAttempts["cycle"],
			"thinkActSteps.0.actToolInfoList.0.attempts": retriedAttempts["tool"],
		})
	}

	check(c)

	lines := strings.Split(strings.TrimSpace(string(c.Get(exported("p")).Body)), "\n")
	for range 2 {
		other := serve(t)
		var imported []any
		for _, line := range lines {
			imported = append(imported, json.RawMessage(line))
		}
		for _, record := range imported { // each meets the others in the database
			other.Write(record)
		}

		check(other)
		if diff := cmp.Diff(c.everything("p"), other.everything("p")); diff != "" {
			t.Errorf("(-exported +imported):\n%s", diff)
		}
		if again := strings.Split(
			strings.TrimSpace(string(other.Get(exported("p")).Body)), "\n",
		); !slices.Contains(lines, again[0]) || len(again) != len(lines) {
			t.Errorf("the export of the copy has %d lines, not %d", len(again), len(lines))
		}
		slices.Reverse(lines)
	}
}

// N1: TestEventsHaveAttempts checks that a row of an event lists its attempts, and that a late
// change of an earlier attempt is an event.
func TestEventsHaveAttempts(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.Write(retried()...)
	s := c.open(events("p"))
	s.until("the present state", s.has("actTool[p s 0 t]"))

	for row, key := range map[string]string{
		"step": "agentExecution[p s]", "cycle": "thinkAct[p s 0]", "tool": "actTool[p s 0 t]",
	} {
		expect(t, s.rows[key], obj{"attempts": retriedAttempts[row]})
	}

	clear(s.rows)
	c.Write(step("p", "p", "s", obj{"attempt": 1, "endTime": at(19)}))
	s.until("the late change", s.has("agentExecution[p s]"))
	expect(t, s.rows["agentExecution[p s]"], obj{"attempts.0.endTime": at(19), "attempts.1.endTime": nil})
}

// TestPlanGoesOn: a run that has ended goes on as another attempt, whatever the order of its records. How it ended
// before stays on record, and its start stays.
func TestPlanGoesOn(t *testing.T) {
	t.Parallel()
	records := []any{
		plan("p", state("RUNNING"), obj{"startTime": at(1)}),
		plan("p", state("FAILED"), obj{"endTime": at(2), "errorMessage": "refused", "errorKind": "network"}),
		plan("p", state("RUNNING"), obj{"attempt": 2, "startTime": at(7)}),
		plan("p", state("COMPLETED"), obj{"attempt": 2, "endTime": at(9), "summary": "done"}),
	}
	want := obj{
		"state": "COMPLETED", "startTime": at(1), "endTime": at(9), "errorMessage": nil, "errorKind": nil, "attempt": 2,
		"attempts": []obj{
			{"attempt": 1, "state": "FAILED", "startTime": nil, "endTime": at(2), "errorMessage": "refused",
				"errorKind": "network", "truncated": []string{}},
			{"attempt": 2, "state": "COMPLETED", "startTime": nil, "endTime": at(9), "errorMessage": nil, "errorKind": nil,
				"truncated": []string{}},
		},
	}

	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}} {
		c := serve(t)
		for _, i := range order {
			c.Write(records[i])
		}
		expect(t, c.Details("p"), want)

		other := serve(t)
		for line := range strings.Lines(string(c.Get(exported("p")).Body)) {
			other.Write(json.RawMessage(line))
		}
		expect(t, other.Details("p"), want)
	}
}

// TestPlanIsOpenAgain: a run that goes on is no failure any more.
func TestPlanIsOpenAgain(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.Write(plan("p", state("FAILED"), obj{"startTime": at(1), "endTime": at(2), "errorMessage": "refused"}))
	expect(t, c.Read("/api/v1/plans?state=FAILED"), obj{"items.0.rootPlanId": "p", "items.0.errorMessage": "refused"})

	c.Write(plan("p", state("RUNNING"), obj{"attempt": 2}))
	expect(t, c.Read("/api/v1/plans?state=RUNNING"), obj{"items.0.rootPlanId": "p", "items.0.errorMessage": nil})
	expect(t, c.Read("/api/v1/plans?state=FAILED"), obj{"items": []any{}})
	expect(t, c.Read("/api/v1/plans/p/failures"), obj{"items": []any{}})
}
