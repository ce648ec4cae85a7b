package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestWaitsOfASubPlan: of the waits of a run, a sub-plan has its own and those below it.
func TestWaitsOfASubPlan(t *testing.T) {
	t.Parallel()
	const answer = `{"waits":[{"waitId":"a","planId":"root"},{"waitId":"b","planId":"sub"},{"waitId":"c","planId":"below"},` +
		`{"waitId":"d","planId":"beside"}]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != runPath("root") {
			t.Errorf("asked for %s", r.URL)
		}
		_, _ = fmt.Fprint(w, answer)
	}))
	t.Cleanup(server.Close)

	client := &client{base: server.URL}
	plan := func(id string) *planView {
		p := &planView{RootPlanID: "root", CurrentPlanID: id, Executor: "agent"}
		p.UserInputWaitState = new(struct{ Title, FormDescription, Type string })
		return p
	}
	root, sub := plan("root"), plan("sub")
	below, beside := plan("below"), plan("beside")
	root.SubPlanExecutionRecords = []*planView{sub, beside}
	sub.AgentExecutionSequence = []*stepView{{SubPlanExecutionRecords: []*planView{below}}}

	for p, want := range map[*planView]string{root: "abcd", sub: "bc", below: "c", beside: "d"} {
		waits, err := client.openWaits(t.Context(), p)
		var got string
		for _, w := range waits {
			got += w.WaitID
		}
		if err != nil || got != want {
			t.Errorf("%s waits for %q, want %q: %v", p.CurrentPlanID, got, want, err)
		}
	}
}
