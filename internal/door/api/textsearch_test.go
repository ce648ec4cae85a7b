package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/actlog/actlog/internal/testkit/apitest"
)

// TestSearchTexts: texts of all runs that have what is looked for, newest run first, in pages.
func TestSearchTexts(t *testing.T) {
	t.Parallel()
	c := serve(t)

	c.Write(obj{
		"kind": "plan", "rootPlanId": "old run", "currentPlanId": "old run", "title": "Find a needle", "startTime": at(0),
	},
		obj{
			"kind": "plan", "rootPlanId": "new", "currentPlanId": "new", "name": "finder", "project": "docs", "state": "FAILED",
			"startTime": at(60),
		},
		obj{
			"kind": "agentExecution", "rootPlanId": "new", "planId": "new", "stepId": "a/b", "agentName": "first",
			"result": "no NEEDLE",
		},
		obj{
			"kind": "thinkAct", "rootPlanId": "new", "stepId": "a/b", "seq": 3, "thinkInput": "a needle?",
			"thinkOutput": "the needle!",
		},
		obj{
			"kind": "actTool", "rootPlanId": "new", "stepId": "a/b", "seq": 3, "toolCallId": "x", "name": "look",
			"result": "a\nneedle",
		},
		obj{"kind": "thought", "rootPlanId": "new", "planId": "new", "thoughtId": "t", "content": "Where is the needle?"},
		obj{"kind": "wait", "rootPlanId": "new", "planId": "new", "waitId": "w", "title": "Needle or pin?"})

	const path = "/api/v1/search?q=Needle"
	apitest.Expect(t, c.Read(path), obj{
		"nextCursor": nil, "incomplete": false, "reached": nil, "items.#": 7,
		"items.0.rootPlanId": "new", "items.0.runName": "finder", "items.0.title": nil, "items.0.project": "docs",
		"items.0.state": "FAILED", "items.0.began": at(60),
		"items.0.at": "step:a%2Fb", "items.0.kind": "agentExecution", "items.0.planId": "new", "items.0.stepId": "a/b",
		"items.0.seq": nil, "items.0.textId": nil,
		"items.0.name": "first", "items.0.field": "result", "items.0.before": "no ", "items.0.match": "NEEDLE",
		"items.0.after": "",
		"items.1.at":    "cycle:a%2Fb/3", "items.1.seq": 3, "items.1.field": "thinkOutput", "items.1.name": "first",
		"items.2.at": "cycle:a%2Fb/3", "items.2.field": "thinkInput",
		"items.3.at": "call:a%2Fb/3/x", "items.3.toolCallId": "x", "items.3.name": "look", "items.3.before": "a ",
		"items.4.at": "plan:new", "items.4.kind": "thought", "items.4.textId": "t",
		"items.5.at": "wait:w", "items.5.textId": "w",
		"items.6.rootPlanId": "old run", "items.6.at": "plan:old%20run",
	})

	next := ""
	for page := range 7 {
		body := c.Read(path + "&limit=1" + next)
		apitest.Expect(t, body, obj{"items.#": 1, "incomplete": false})
		if cursor, _ := apitest.Lookup(t, body, "nextCursor").(string); page < 6 {
			next = "&cursor=" + url.QueryEscape(cursor)
			apitest.Expect(t, body, obj{"reached": at(60)})
		} else if cursor != "" {
			t.Errorf("after the last page comes %q", cursor)
		}
	}

	apitest.Expect(t, c.Read(path+"&kind=thought,wait"), obj{"items.#": 2})
	apitest.Expect(t, c.Read(path+"&project=default"), obj{"items.#": 1})
	apitest.Expect(t, c.Read(path+"&until="+url.QueryEscape(at(60))), obj{"items.#": 1})
	apitest.Expect(t, c.Read(path+"&agent=first&kind=actTool&state=FAILED"), obj{"items.#": 1})

	for _, wrong := range []struct{ query, field string }{
		{"", "q"}, {"?q=%20", "q"}, {"?q=a&kind=run", "kind"}, {"?q=a&state=odd", "state"}, {"?q=a&cursor=wrong", "cursor"},
		{"?q=a&since=x", "since"}, {"?q=a&limit=0", "limit"},
		{"?q=a&failed=true", "failed"},
	} {
		apitest.WantProblem(t, c.Get("/api/v1/search"+wrong.query), http.StatusBadRequest, wrong.field)
	}
}

// TestSearchPerRunLosesNothing: whatever a page may have, each text is on one of the pages, or counted in left.
func TestSearchPerRunLosesNothing(t *testing.T) {
	t.Parallel()
	c := serve(t)
	all := map[string]int{"plain": 5, "one": 1, "late": 5, "many": 9}
	for i, root := range []string{"one", "plain", "late", "many"} { // each has one in its title
		c.Write(obj{"kind": "plan", "rootPlanId": root, "currentPlanId": root, "title": "A needle", "startTime": at(i)})
	}

	c.Write(obj{"kind": "plan", "rootPlanId": "plain", "currentPlanId": "plain", "userRequest": "Find the needle"},
		obj{"kind": "agentExecution", "rootPlanId": "plain", "planId": "plain", "stepId": "p1", "result": "a needle"},
		obj{"kind": "agentExecution", "rootPlanId": "plain", "planId": "plain", "stepId": "p2", "result": "no needle"},
		obj{"kind": "thought", "rootPlanId": "plain", "planId": "plain", "thoughtId": "t", "content": "Where is the needle?"})
	for i := range 12 { // the policies of calls are not searched, but the rows that have the word are read
		call := obj{
			"kind": "actTool", "rootPlanId": "late", "stepId": "l", "seq": i, "toolCallId": "c", "policy": obj{"of": "needle"},
		}
		if i == 4 || i == 8 || i == 11 {
			call["result"] = "a needle"
		}
		if i == 11 {
			call["parameters"] = "needles"
		}
		c.Write(call)
	}

	for i := range 8 {
		c.Write(obj{
			"kind": "actTool", "rootPlanId": "many", "stepId": "m", "seq": i, "toolCallId": "c", "result": "a needle",
		})
	}

	for _, perRun := range []int{1, 2, 3, 4, 5, 6, 100} {
		for _, limit := range []int{1, 2, 3, 4, 5, 7, 100} {
			name := fmt.Sprintf("perRun=%d&limit=%d", perRun, limit)
			got, open := countedTexts(t, c, "/api/v1/search?q=needle&"+name)
			for root, want := range all {
				if got[root] != want && (!open[root] || got[root] > want) {
					t.Errorf("%s: of the %d texts of %s, %d are shown or counted, open: %v", name, want, root, got[root], open[root])
				}
			}
		}
	}
}

// countedTexts returns how many texts of each run the pages of a search show or count, and which runs may have more.
func countedTexts(t *testing.T, c *client, path string) (texts map[string]int, open map[string]bool) {
	t.Helper()
	texts, open = map[string]int{}, map[string]bool{}
	next := ""
	for range 100 {
		page := c.Read(path + next).(obj)
		for _, item := range page["items"].([]any) {
			texts[item.(obj)["rootPlanId"].(string)]++
		}
		for _, item := range page["left"].([]any) {
			left := item.(obj)
			root := left["rootPlanId"].(string)
			texts[root] += int(left["texts"].(float64))
			open[root] = open[root] || left["open"].(bool)
		}

		cursor, more := page["nextCursor"].(string)
		if !more {
			return texts, open
		}
		next = "&cursor=" + url.QueryEscape(cursor)
	}

	t.Fatalf("%s comes to no end", path)
	return nil, nil
}
