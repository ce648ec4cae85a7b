package api_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// B3, B15
func TestExecutorBlankAndUnknownIDs(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for _, blank := range []string{"", "%20", "%09%20", "%E2%80%83"} {
		a := wantStatus(t, c.Get(details+blank), http.StatusBadRequest)
		if got := string(a.Body); got != "Plan ID cannot be null or empty" ||
			!strings.HasPrefix(a.Header.Get("Content-Type"), "text/plain") {
			t.Errorf("%q: %s %q", blank, a.Header.Get("Content-Type"), got)
		}
	}

	for _, unknown := range []string{
		details + "nobody", agentExecution + "nobody", agentExecution, agentExecution + "%20", details + "nul%00",
		details + "%ff", agentExecution + "%ff",
	} {
		if a := wantStatus(t, c.Get(unknown), http.StatusNotFound); len(a.Body) > 0 {
			t.Errorf("%s: body %q", unknown, a.Body)
		}
	}

	for _, native := range []string{
		"/api/v1/plans/nobody", "/api/v1/steps/nobody", "/api/v1/plans/%ff", "/api/v1/steps/a%00",
	} {
		wantProblem(t, c.Get(native), http.StatusNotFound, nil)
	}
	wantProblem(t, c.Get("/api/v1/plans/%20"), http.StatusBadRequest, "planId")
	wantProblem(t, c.Get("/api/v1/steps/%20"), http.StatusBadRequest, "stepId")
}

// TestAnyIDCanBeRead: an id is any text, also in a path.
func TestAnyIDCanBeRead(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for _, id := range []string{
		"a/b", "100%", "a%2Fb", "q?x=1#y", "  led", "ключ 🔑", "a+b", "..", strings.Repeat("x", 250),
	} {
		c.Write(plan(id), step(id, id, "step "+id))
		expect(t, c.Details(id), obj{"currentPlanId": id})
		expect(t, c.Step("step "+id), obj{"stepId": "step " + id})
	}
}

// B37: the original's UI calls it after every run.
func TestExecutorDeleteDeletesNothing(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.Write(plan("p", obj{"exception": "boom"}))
	a := wantStatus(t, c.Do(http.MethodDelete, details+"p", nil), http.StatusOK)
	if diff := cmp.Diff(obj{"message": "Execution record found (no deletion needed)", "planId": "p"},
		a.JSON(t)); diff != "" {
		t.Errorf("a.JSON() (-want +got):\n%s", diff)
	}

	if a := wantStatus(t, c.Do(http.MethodDelete, details+"nobody", nil), http.StatusNotFound); len(a.Body) > 0 {
		t.Errorf("body %q", a.Body)
	}
	wantStatus(t, c.Get(details+"p"), http.StatusInternalServerError) // nor does it serve the exception
	wantStatus(t, c.Get(details+"p"), http.StatusOK)
}

// exception returns the exception that a read of a plan is answered with, or nil.
func (c *client) exception(id string) any {
	c.T.Helper()
	a := c.Get(details + id)
	if a.Status == http.StatusOK {
		return nil
	}
	wantStatus(c.T, a, http.StatusInternalServerError)
	return a.JSON(c.T).(obj)["error"]
}

// B2
func TestExceptionIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	boom := obj{"exception": "boom"}

	for name, tt := range map[string]struct {
		do   func(*client)
		want []any // of the reads, one after the other
	}{
		"written": {func(c *client) { c.Write(plan("p", boom)) }, []any{"boom", nil, nil}},
		"the same text again": {func(c *client) {
			c.Write(plan("p", boom))
			c.exception("p")
			c.Write(plan("p", boom))
		}, []any{nil}},
		"the same, of a higher rev": {func(c *client) {
			c.Write(plan("p", boom, obj{"rev": 1}))
			c.exception("p")
			c.Write(plan("p", boom, obj{"rev": 2}))
		}, []any{nil}},
		"another text": {func(c *client) {
			c.Write(plan("p", boom))
			c.exception("p")
			c.Write(plan("p", obj{"exception": "bang"}))
		}, []any{"bang", nil}},
		"two before a read: the later": {func(c *client) {
			c.Write(plan("p", boom))
			c.Write(plan("p", obj{"exception": "bang"}))
		}, []any{"bang", nil}},
		"completed after it": {func(c *client) {
			c.Write(plan("p", boom))
			c.Write(plan("p", state("COMPLETED")))
		}, []any{nil}},
		"failed after it": {func(c *client) {
			c.Write(plan("p", boom))
			c.Write(plan("p", state("FAILED")))
		}, []any{"boom", nil}},
		"older than ten minutes": {func(c *client) {
			c.Write(plan("p", boom))
			c.Exec("UPDATE actlog.plan_execution_record SET exception_at = now() - interval '10 minutes 1 second'")
		}, []any{nil}},
		"nearly ten minutes old": {func(c *client) {
			c.Write(plan("p", boom))
			c.Exec("UPDATE actlog.plan_execution_record SET exception_at = now() - interval '9 minutes'")
		}, []any{"boom", nil}},
		"of the root, read by a sub-plan": {func(c *client) {
			c.Write(plan("p", boom), subPlan("p", "sub", "p", "t"))
			if got := c.exception("sub"); got != nil {
				c.T.Errorf("the sub-plan was answered %v", got)
			}
		}, []any{"boom", nil}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serve(t)
			tt.do(c)
			for i, want := range tt.want {
				if got := c.exception("p"); got != want {
					t.Errorf("read %d: %v, want %v", i, got, want)
				}
			}
		})
	}
}

// The native read leaves the exception to the executor API.
func TestTheNativeReadServesNoException(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.Write(plan("p", obj{"exception": "boom"}))
	c.Read("/api/v1/plans/p")
	if got := c.exception("p"); got != "boom" {
		t.Errorf("exception %v", got)
	}
}

// B2: two servers, many readers at once, one of them receives it.
func TestExceptionIsAnsweredToOneReader(t *testing.T) {
	t.Parallel()
	c := serve(t)
	servers := []*client{c, serveWith(t, options{DB: c.DB})}
	for _, readers := range []int{2, 40} {
		id := fmt.Sprint("plan-", readers)
		c.Write(plan(id, obj{"exception": "boom"}))
		received := make([]any, readers)

		var wg sync.WaitGroup
		for i := range readers {
			wg.Go(func() { received[i] = servers[i%2].exception(id) })
		}
		wg.Wait()
		if n := len(slices.DeleteFunc(received, func(v any) bool { return v == nil })); n != 1 {
			t.Errorf("%d of %d readers received it", n, readers)
		}
	}
}

// B14
func TestASubPlanIsReadAsItsSubtree(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.Write(
		plan("p", obj{"project": "sales"}), step("p", "p", "s"), tool("p", "s", 0, "t1", obj{"name": "fetch"}),
		subPlan("p", "sub", "p", "t1"), step("p", "sub", "s2"), tool("p", "s2", 0, "t2"),
		subPlan("p", "subsub", "sub", "t2", obj{"project": "other"}),
	)

	got := c.Details("sub")
	expect(t, got, obj{
		"currentPlanId": "sub", "rootPlanId": "p", "parentPlanId": "p", "toolCallId": "t1", "link": "toolCall",
		"project":                               "sales", // the root's
		"parentActToolCall.name":                "fetch", // B6
		"agentExecutionSequence.0.stepId":       "s2",
		"agentExecutionSequence.0.subPlanCount": 1,
		"agentExecutionSequence.0.subPlanExecutionRecords.0.currentPlanId": "subsub",
		"agentExecutionSequence.0.subPlanExecutionRecords.0.project":       "other",
	})

	whole := lookup(t, c.Details("p"), "agentExecutionSequence.0.subPlanExecutionRecords.0")
	if diff := cmp.Diff(whole, got); diff != "" {
		t.Errorf("alone, it is another (-in the tree +alone):\n%s", diff)
	}
}

// B5: several sub-plans of one agent, by start time, nulls last, then id.
func TestSubPlansUnderTheirAgent(t *testing.T) {
	t.Parallel()
	c := serve(t)
	records := []any{
		plan("p"), step("p", "p", "s1", obj{"stepIndex": 0}), step("p", "p", "s2", obj{"stepIndex": 1}),
		tool("p", "s1", 0, "t1"), tool("p", "s1", 0, "t2"), tool("p", "s2", 3, "t3"),
		subPlan("p", "late", "p", "t1", obj{"startTime": at(9)}),
		subPlan("p", "early", "p", "t2", obj{"startTime": at(1)}),
		subPlan("p", "never-b", "p", "t1"), subPlan("p", "never-a", "p", "t2"),
		subPlan("p", "twin", "p", "t1", obj{"startTime": at(9)}), // a call may own several
		subPlan("p", "other", "p", "t3"),
	}

	rand.New(rand.NewPCG(1, 2)).Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
	for half := range slices.Chunk(records, 5) { // children come before their parents
		c.Write(half...)
	}

	got := c.Details("p")
	for i, want := range [][]string{{"early", "late", "twin", "never-a", "never-b"}, {"other"}} {
		var ids []string
		for _, sub := range lookup(t, got, fmt.Sprintf("agentExecutionSequence.%d.subPlanExecutionRecords", i)).([]any) {
			ids = append(ids, sub.(obj)["currentPlanId"].(string))
		}
		if diff := cmp.Diff(want, ids); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
	}

	expect(t, got, obj{"agentExecutionSequence.0.subPlanCount": 5, "subPlanExecutionRecords": []any{}})
}

// TestLinks: everything on record is in the tree, which says how sure each place is.
func TestLinks(t *testing.T) {
	t.Parallel()
	c := serve(t)

	c.Write(
		plan("p"), step("p", "p", "s1", obj{"startTime": at(1)}), step("p", "p", "s2", obj{"startTime": at(5)}),
		tool("p", "s1", 0, "known"), subPlan("p", "by-call", "p", "known", obj{"startTime": at(9)}),
		subPlan("p", "by-time", "p", "lost", obj{"startTime": at(7)}),
		subPlan("p", "before-all", "p", "lost", obj{"startTime": at(0)}),
		plan("orphan", obj{"rootPlanId": "p"}),
		subPlan("p", "stepless-child", "by-time", "lost"),
	)

	expect(t, c.Details("p"), obj{
		"link": nil,
		"agentExecutionSequence.0.subPlanExecutionRecords.0.currentPlanId":                           "before-all",
		"agentExecutionSequence.0.subPlanExecutionRecords.0.link":                                    "inferred",
		"agentExecutionSequence.0.subPlanExecutionRecords.0.parentActToolCall":                       nil,
		"agentExecutionSequence.0.subPlanExecutionRecords.1.currentPlanId":                           "by-call",
		"agentExecutionSequence.0.subPlanExecutionRecords.1.link":                                    "toolCall",
		"agentExecutionSequence.1.subPlanExecutionRecords.0.currentPlanId":                           "by-time",
		"agentExecutionSequence.1.subPlanExecutionRecords.0.link":                                    "inferred",
		"agentExecutionSequence.1.subPlanExecutionRecords.0.subPlanExecutionRecords.0.currentPlanId": "stepless-child",
		"subPlanExecutionRecords.0.currentPlanId":                                                    "orphan",
		"subPlanExecutionRecords.0.link":                                                             "inferred",
		"subPlanExecutionRecords.#":                                                                  1,
	})
}

// B7
func TestWaits(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.Write(plan("p"), step("p", "p", "s"), tool("p", "s", 0, "t"), subPlan("p", "sub", "p", "t"))
	shown := func(id string) any { t.Helper(); return lookup(t, c.Details(id), "userInputWaitState") }
	if w := shown("p"); w != nil {
		t.Errorf("nothing waits, yet %v", w)
	}

	c.Write(wait("p", "p", "approval", obj{"type": "ACTION_VALIDATION", "startTime": at(1)}))
	expect(t, shown("p"), obj{"waitId": "approval", "type": "ACTION_VALIDATION"})
	c.Write(wait("p", "p", "young", obj{"type": "USER_INPUT", "startTime": at(9)}))
	expect(t, shown("p"), obj{"waitId": "young"})

	// without a type
	c.Write(wait("p", "sub", "old", obj{"startTime": at(3), "formInputs": []obj{{"label": "A", "value": ""}}}))
	want := obj{"planId": "p", "title": "Awaiting user input.", "waiting": true, "formDescription": nil,
		"formInputs": []any{obj{"label": "A", "value": ""}}, "waitId": "old", "type": "USER_INPUT"}
	for _, asked := range []string{"p", "sub"} {
		if diff := cmp.Diff(any(want), shown(asked)); diff != "" {
			t.Errorf("asked for %s (-want +got):\n%s", asked, diff)
		}
	}

	// On the plan that was asked for only.
	expect(t, c.Details("p"), obj{"agentExecutionSequence.0.subPlanExecutionRecords.0.userInputWaitState": nil})
	for _, done := range []string{"SUBMITTED", "TIMED_OUT"} {
		id := map[string]string{"SUBMITTED": "old", "TIMED_OUT": "young"}[done]
		c.Write(wait("p", map[bool]string{true: "sub", false: "p"}[id == "old"], id, state(done)))
	}

	expect(t, shown("p"), obj{"waitId": "approval"})
	c.Write(plan("p", state("FAILED")))
	if w := shown("p"); w != nil {
		t.Errorf("the plan is completed, yet %v", w)
	}
}

// A form that was too long to keep is not half a form.
func TestWaitWithAFormThatWasCut(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.Write(plan("p"), wait("p", "p", "w", obj{
		"title": "long", "formInputs": []obj{{"label": strings.Repeat("x", 5<<20)}},
	}))
	expect(t, c.Details("p"), obj{"userInputWaitState.title": "long", "userInputWaitState.formInputs": []any{}})
}

// B8
func TestStructureResult(t *testing.T) {
	t.Parallel()
	last := func(result any) []any {
		return []any{
			plan("p", state("COMPLETED")), step("p", "p", "s1", obj{"stepIndex": 0}), step("p", "p", "s2", obj{"stepIndex": 1}),
			tool("p", "s1", 0, "t0", obj{"result": "of another step"}),
			tool("p", "s2", 0, "t1", obj{"result": "of another cycle"}),
			tool("p", "s2", 1, "t2", obj{"callIndex": 0, "result": "of another call"}),
			tool("p", "s2", 1, "t3", obj{"callIndex": 1, "result": result}),
		}
	}

	for name, tt := range map[string]struct {
		records []any
		want    any
	}{
		"JSON is compacted, its order kept": {
			last("{ \"b\" : 1,\n \"a\" : [ 1.50, \"x y\" ] }"), `{"b":1,"a":[1.50,"x y"]}`,
		},
		"an object":                 {last(obj{"output": "done"}), `{"output":"done"}`},
		"a JSON string":             {last(` "x" `), `"x"`},
		"other text stays":          {last("  plain <b>text</b> {"), "  plain <b>text</b> {"},
		"no result":                 {last(nil), nil},
		"no tool in the last cycle": {append(last("x"), cycle("p", "s2", 2)), nil},
		"no cycle in the last step": {append(last("x"), step("p", "p", "s3", obj{"stepIndex": 2})), nil},
		"no step":                   {[]any{plan("p", state("COMPLETED"))}, nil},
		"a failed plan has one":     {append(last("x"), plan("p", state("FAILED"))), "x"},
		"not completed": {
			[]any{plan("p", state("RUNNING")), step("p", "p", "s"), tool("p", "s", 0, "t", obj{"result": "x"})}, nil,
		},
		"a step without an index is the last": {
			append(last("x"), step("p", "p", "a"), tool("p", "a", 0, "t9", obj{"result": "y"})), "y",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serve(t)
			c.Write(tt.records...)
			expect(t, c.Details("p"), obj{"structureResult": tt.want})
		})
	}
}

// B29, B30
func TestCurrentStepIndex(t *testing.T) {
	t.Parallel()
	c := serve(t)

	for i, tt := range []struct {
		plan  string
		steps string // a letter each: Idle, Running, Waiting, Completed, Failed
		want  int
	}{
		{"COMPLETED", "", 0}, {"RUNNING", "", 0},
		{"COMPLETED", "CCC", 2}, {"FAILED", "CRI", 2}, {"INTERRUPTED", "CII", 2}, {"CANCELLED", "RII", 2},
		{"RUNNING", "CRI", 1}, {"RUNNING", "RRI", 0}, {"RUNNING", "IRI", 1}, {"RUNNING", "CWI", 1},
		{"RUNNING", "CII", 1}, {"RUNNING", "III", 0}, {"RUNNING", "CFI", 2},
		{"RUNNING", "CCC", 2}, {"PENDING", "CF", 1}, {"WAITING", "CW", 1},
	} {
		root := fmt.Sprint("p", i)
		records := []any{plan(root, state(tt.plan))}
		for j, s := range tt.steps {
			name := map[rune]string{'I': "IDLE", 'R': "RUNNING", 'W': "WAITING", 'C': "COMPLETED", 'F': "FAILED"}[s]
			records = append(records, step(root, root, fmt.Sprintf("%s-s%d", root, j), obj{"stepIndex": j}, state(name)))
		}

		c.Write(records...)
		if got := lookup(t, c.Details(root), "currentStepIndex"); got != float64(tt.want) {
			t.Errorf("%s %q: %v, want %d", tt.plan, tt.steps, got, tt.want)
		}
	}
}

// B25, B30: the views of each state, of a step and of a plan.
func TestStatusAndCompletedOfStates(t *testing.T) {
	t.Parallel()
	c := serve(t)
	statuses := map[string][]string{
		"IDLE":     {"IDLE", "PENDING"},
		"RUNNING":  {"RUNNING", "WAITING", "PAUSED"},
		"FINISHED": {"COMPLETED", "FAILED", "CANCELLED", "SKIPPED", "BLOCKED", "INTERRUPTED", "UNKNOWN"},
	}
	for status, states := range statuses {
		for _, s := range states {
			root := "p-" + s
			c.Write(step(root, root, "s-"+s, state(s), obj{"result": "r"}))
			if s != "IDLE" {
				c.Write(plan(root, state(s), obj{"summary": "sum", "endTime": at(5)})) // B29
				expect(t, c.Details(root), obj{"completed": status == "FINISHED", "state": s, "summary": "sum", "endTime": at(5)})
			}
			expect(t, c.Step("s-"+s), obj{
				"state": s, "status": status, "completed": status == "FINISHED", "running": status == "RUNNING",
				"idle": status == "IDLE",
			})
		}
	}

	// B22: a step that is planned only.
	c.Write(step("planned", "planned", "planned-s"))
	expect(t, c.Step("planned-s"), obj{"state": "IDLE", "status": "IDLE", "idle": true, "thinkActSteps": []any{}})
}

// B22: written again, a step is updated and not doubled; steps in their order.
func TestStepsInOrderAndWrittenTwice(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for range 2 {
		c.Write(step("p", "p", "c", obj{"stepIndex": 2}), step("p", "p", "a", obj{"stepIndex": 1}), step("p", "p", "z"),
			step("p", "p", "b", obj{"stepIndex": 0}),
			step("p", "p", "y", obj{"startTime": at(1)}), plan("p", obj{"title": "t"}))
	}

	got := c.Details("p")
	for i, want := range []string{"b", "a", "c", "y", "z"} { // by index, then start; nulls last
		expect(t, got, obj{fmt.Sprintf("agentExecutionSequence.%d.stepId", i): want})
	}
	expect(t, got, obj{"agentExecutionSequence.#": 5})
}

// B12: in the tree only, and only where the step came to a result.
func TestRecoveredErrorIsNotShownInTheTree(t *testing.T) {
	t.Parallel()
	c := serve(t)
	const transient = "System execution error at step 3: timeout"

	for i, tt := range []struct {
		record obj
		hidden bool
	}{
		{obj{"state": "COMPLETED", "result": "done", "errorMessage": transient}, true},
		{obj{"state": "FAILED", "result": "done", "errorMessage": transient}, true},
		{obj{"state": "RUNNING", "result": "half", "errorMessage": transient}, false},
		{obj{"state": "COMPLETED", "result": "", "errorMessage": transient}, false},
		{obj{"state": "COMPLETED", "errorMessage": transient}, false},
		{obj{"state": "COMPLETED", "result": "done", "errorMessage": "Some " + transient}, false},
	} {
		id := fmt.Sprint("p", i)
		c.Write(step(id, id, id+"-s", tt.record))
		want := tt.record["errorMessage"]
		expect(t, c.Step(id+"-s"), obj{"errorMessage": want})
		if tt.hidden {
			want = nil
		}
		expect(t, c.Details(id), obj{"agentExecutionSequence.0.errorMessage": want})
	}
}

// B16 to B21, B26, B27
func TestStepDetailInFullAndInOrder(t *testing.T) {
	t.Parallel()
	c := serve(t)

	c.Write(
		step("p", "p", "s", obj{"maxSteps": 30, "currentStep": 2}),
		tool("p", "s", 1, "z", obj{
			"callIndex": 0, "name": "first", "parameters": `{"a":1}`, "providerCallId": "call_1", "serverName": "mcp",
		}),
		tool("p", "s", 1, "a", obj{"callIndex": 1}), tool("p", "s", 1, "n2", obj{"startTime": at(1)}),
		tool("p", "s", 1, "n1"),
		cycle("p", "s", 2, obj{"thinkInput": "no tools", "thinkOutput": ""}, state("COMPLETED")),
		cycle("p", "s", 0, obj{"thinkInput": "日本語", "provider": "acme", "modelName": "m", "finishReason": "stop",
			"firstTokenTime": at(2), "metadata": obj{"k": "v"},
			"thinkStartTime": at(1), "thinkEndTime": at(3), "actStartTime": at(3), "actEndTime": at(4),
			"actionDescription": "d", "actionResult": "r"}),
	)

	got := c.Step("s")
	expect(t, got, obj{
		"maxSteps": 30, "currentStep": 2, "latestRoundNumber": 3, "completedThinkActStepsCount": 1, "thinkActSteps.#": 3,
		"latestMethodName":         nil, // the last call's, by the order below
		"thinkActSteps.0.seq":      0,
		"thinkActSteps.0.provider": "acme", "thinkActSteps.0.modelName": "m", "thinkActSteps.0.finishReason": "stop",
		"thinkActSteps.0.firstTokenTime": at(2),
		"thinkActSteps.0.metadata":       obj{"k": "v"}, "thinkActSteps.0.thinkStartTime": at(1),
		"thinkActSteps.0.thinkEndTime": at(3),
		"thinkActSteps.0.actStartTime": at(3), "thinkActSteps.0.actEndTime": at(4), "thinkActSteps.0.actionDescription": "d",
		"thinkActSteps.0.actionResult":   "r",
		"thinkActSteps.0.inputCharCount": 3, "thinkActSteps.0.outputCharCount": nil, // characters, counted
		"thinkActSteps.0.actionNeeded": false, "thinkActSteps.0.actToolInfoList": []any{}, "thinkActSteps.0.toolName": nil,
		"thinkActSteps.1.actionNeeded": true, "thinkActSteps.1.toolName": "first",
		"thinkActSteps.1.toolParameters":       `{"a":1}`,
		"thinkActSteps.1.actToolInfoList.0.id": "z", "thinkActSteps.1.actToolInfoList.0.providerCallId": "call_1",
		"thinkActSteps.1.actToolInfoList.0.serverName": "mcp",
		"thinkActSteps.1.actToolInfoList.1.id":         "a", "thinkActSteps.1.actToolInfoList.2.id": "n2",
		"thinkActSteps.1.actToolInfoList.3.id": "n1",
		"thinkActSteps.2.seq":                  2, "thinkActSteps.2.status": "FINISHED", "thinkActSteps.2.outputCharCount": 0,
		"thinkActSteps.2.parentExecutionId": lookup(t, got, "id"),
	})

	if diff := cmp.Diff(got, c.Read("/api/v1/steps/s")); diff != "" {
		t.Errorf("the native read says something else:\n%s", diff)
	}

	c.Write(tool("p", "s", 1, "z", obj{"result": "done"}, state("COMPLETED"))) // B27: found by its id
	expect(t, c.Step("s"), obj{
		"thinkActSteps.1.actToolInfoList.0.result": "done", "thinkActSteps.1.actToolInfoList.0.name": "first",
		"thinkActSteps.1.actToolInfoList.#": 4,
	})
	// B21
	expect(t, c.Details("p"), obj{
		"agentExecutionSequence.0.thinkActSteps": []any{}, "agentExecutionSequence.0.latestRoundNumber": 3,
	})
}

// B22: latest tool of the step, its arguments cut to a thousand characters.
func TestLatestTool(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.Write(tool("p", "s", 0, "b", obj{"name": "old", "parameters": "x"}),
		tool("p", "s", 4, "a", obj{"name": "new", "parameters": strings.Repeat("é", 1200)}))
	expect(t, c.Details("p"), obj{
		"agentExecutionSequence.0.latestMethodName":  "new",
		"agentExecutionSequence.0.latestMethodArgs":  strings.Repeat("é", 1000),
		"agentExecutionSequence.0.latestRoundNumber": 5,
	})
}

func TestFiguresOwnAndTotal(t *testing.T) {
	t.Parallel()
	c := serve(t)
	tokens := obj{
		"inputTokens": 100, "outputTokens": 10, "cacheReadInputTokens": 5, "cacheCreationInputTokens": 2,
		"reasoningTokens": 3, "costUsd": 0.1, "thinkStartTime": at(0), "thinkEndTime": at(2),
	}

	c.Write(
		plan("p", obj{"startTime": at(0), "endTime": at(60)}), step("p", "p", "s", obj{"startTime": at(1)}),
		cycle("p", "s", 0, tokens), cycle("p", "s", 1, tokens, state("FAILED")), cycle("p", "s", 2),
		tool("p", "s", 0, "t", obj{"startTime": at(2), "endTime": at(5)}), tool("p", "s", 0, "u", state("FAILED")),
		subPlan("p", "sub", "p", "t"), step("p", "sub", "s2"), cycle("p", "s2", 0, tokens, obj{"costUsd": 0.2}),
		subPlan("p", "free", "p", "u"), step("p", "free", "s3"), cycle("p", "s3", 0, obj{"inputTokens": 1}),
	)

	own := obj{"modelCalls": 2, "toolCalls": 2, "failures": 2, "inputTokens": 200, "outputTokens": 20,
		"cacheReadInputTokens": 10, "cacheCreationInputTokens": 4,
		"reasoningTokens": 6, "costUsd": 0.2, "thinkMs": 4000, "toolMs": 3000, "durationMs": 60000}
	total := obj{"modelCalls": 4, "toolCalls": 2, "failures": 2, "inputTokens": 301, "outputTokens": 30,
		"cacheReadInputTokens": 15, "cacheCreationInputTokens": 6,
		"reasoningTokens": 9, "costUsd": 0.4, "thinkMs": 6000, "toolMs": 3000, "durationMs": 60000}

	ofStep := obj{"durationMs": nil}
	for k, v := range own {
		if k != "durationMs" {
			ofStep[k] = v
		}
	}

	expect(t, c.Details("p"), obj{
		"figures": own, "total": total, "agentExecutionSequence.0.figures": ofStep,
		"agentExecutionSequence.0.subPlanExecutionRecords.0.figures.costUsd": nil, // free, by id; no cost is known
		"agentExecutionSequence.0.subPlanExecutionRecords.1.figures.costUsd": 0.2,
	})
	expect(t, c.Step("s"), obj{"figures": ofStep})
	expect(t, c.Read("/api/v1/plans"), obj{"items.0.total": total, "items.0.steps": 3})
}

func TestETag(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.Write(plan("p"), step("p", "p", "s"))
	for _, path := range []string{
		details + "p", agentExecution + "s", "/api/v1/plans/p", "/api/v1/steps/s", "/api/v1/plans",
	} {
		tag := wantStatus(t, c.Get(path), http.StatusOK).Header.Get("ETag")
		for _, match := range []string{tag, strings.TrimPrefix(tag, "W/"), `"other", ` + tag, "*"} {
			if a := wantStatus(t, c.Get(path, "If-None-Match", match), http.StatusNotModified); len(a.Body) > 0 {
				t.Errorf("body %q", a.Body)
			}
		}
		wantStatus(t, c.Get(path, "If-None-Match", `"other"`), http.StatusOK)
		if again := c.Get(path).Header.Get("ETag"); again != tag {
			t.Errorf("%s: the tag of the same answer changed", path)
		}

		c.Write(step("p", "p", "s", obj{"result": path}), plan("p", obj{"title": path}))
		if a := wantStatus(t, c.Get(path, "If-None-Match", tag), http.StatusOK); a.Header.Get("ETag") == tag {
			t.Errorf("%s: the tag of another answer is the same", path)
		}
	}

	c.Write(plan("p", obj{"exception": "boom"}))
	wantStatus(t, c.Get(details+"p", "If-None-Match", "*"), http.StatusInternalServerError)
}

// B23, as far as HTTP shows it. B24, B28 and the rest of B22 to B30 are the Recorder's.
func TestPlanRelations(t *testing.T) {
	t.Parallel()
	c := serve(t)

	for name, tt := range map[string]struct {
		record obj
		field  string
	}{
		"a parent without its call": {plan("p", obj{"rootPlanId": "r", "parentPlanId": "r"}), "toolCallId"},
		"a call without its parent": {plan("p", obj{"rootPlanId": "r", "toolCallId": "t"}), "parentPlanId"},
		"a root with a parent":      {plan("p", obj{"parentPlanId": "r", "toolCallId": "t"}), "rootPlanId"},
		"a plan that is its parent": {
			plan("p", obj{"rootPlanId": "r", "parentPlanId": "p", "toolCallId": "t"}), "parentPlanId",
		},
		"a blank call is none": {plan("p", obj{"rootPlanId": "r", "parentPlanId": "r", "toolCallId": " "}), "toolCallId"},
	} {
		status, a := c.Post(tt.record)
		if status != http.StatusUnprocessableEntity || a.Rejected[0].Code != "invalid_relation" ||
			a.Rejected[0].Field != tt.field {
			t.Errorf("%s: %d %+v", name, status, a)
		}
	}

	for _, record := range []obj{
		plan("root"), subPlan("root", "sub", "root", "t"), plan("sub", obj{
			"rootPlanId": "root", "title": "later: its key is enough",
		}),
	} {
		c.Write(record)
	}
	expect(t, c.Details("sub"), obj{"parentPlanId": "root", "toolCallId": "t", "title": "later: its key is enough"})
}
