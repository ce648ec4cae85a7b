package api_test

import (
	"net/http"
	"testing"

	"github.com/actlog/actlog/internal/testkit/apitest"
)

// F4: what a shortened id may stand for: the id itself, else root plans, else the others.
func TestPlanIDs(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.Write(obj{"kind": "plan", "rootPlanId": "ab", "currentPlanId": "ab"},
		obj{"kind": "plan", "rootPlanId": "abc", "currentPlanId": "abc"}, obj{
			"kind": "plan", "rootPlanId": "abd\U0010FFFF", "currentPlanId": "abd\U0010FFFF",
		},
		obj{"kind": "actTool", "rootPlanId": "ab", "stepId": "s", "seq": 0, "toolCallId": "t", "name": "look"},
		obj{"kind": "plan", "rootPlanId": "ab", "currentPlanId": "abc-sub", "parentPlanId": "ab", "toolCallId": "t"},
		obj{"kind": "plan", "rootPlanId": "ab", "currentPlanId": "sub/1", "parentPlanId": "ab", "toolCallId": "t"})

	for prefix, want := range map[string][]any{
		"ab": {"ab"}, "a": {"ab", "abc", "abd\U0010FFFF"}, "abc-": {"abc-sub"}, "s": {"sub/1"}, "sub/1": {"sub/1"}, "x": {},
		"abd": {"abd\U0010FFFF"}, "%25": {}, "b": {},
	} {
		apitest.Expect(t, c.Read("/api/v1/ids?prefix="+prefix), obj{"planIds": want, "more": false})
	}

	var many []any
	for _, end := range "0123456789a" {
		many = append(many, obj{"kind": "plan", "rootPlanId": "m" + string(end), "currentPlanId": "m" + string(end)})
	}
	c.Write(many...)
	apitest.Expect(t, c.Read("/api/v1/ids?prefix=m"), obj{"planIds.#": 10, "planIds.0": "m0", "more": true})

	for _, query := range []string{"", "?prefix=", "?prefix=a&limit=3"} {
		if a := c.Get("/api/v1/ids" + query); a.Status != http.StatusBadRequest {
			t.Errorf("%q: %d", query, a.Status)
		}
	}
}

// F4: a search may spread over runs, and says how many more texts each has. The agent of a run is in the list.
func TestSearchPerRun(t *testing.T) {
	t.Parallel()
	c := serve(t)

	c.Write(obj{"kind": "plan", "rootPlanId": "old", "currentPlanId": "old", "title": "A needle", "startTime": at(0)},
		obj{
			"kind": "plan", "rootPlanId": "new", "currentPlanId": "new", "title": "A needle", "userRequest": "Find the needle",
			"startTime": at(60),
		},
		obj{
			"kind": "agentExecution", "rootPlanId": "new", "planId": "new", "stepId": "b", "stepIndex": 1,
			"agentName": "second", "result": "a needle",
		},
		obj{
			"kind": "agentExecution", "rootPlanId": "new", "planId": "new", "stepId": "c", "stepIndex": 0, "agentName": "first",
			"result": "no needle",
		})

	apitest.Expect(t, c.Read("/api/v1/search?q=needle"), obj{"items.#": 5, "left": []any{}})
	apitest.Expect(t, c.Read("/api/v1/search?q=needle&perRun=1"), obj{
		"items.#": 2, "items.0.rootPlanId": "new", "items.1.rootPlanId": "old", "left.#": 1, "left.0.rootPlanId": "new",
		"left.0.texts": 3, "left.0.open": false,
	})
	for _, wrong := range []string{"0", "501", "x", "-1"} {
		apitest.WantProblem(t, c.Get("/api/v1/search?q=needle&perRun="+wrong), http.StatusBadRequest, "perRun")
	}
	apitest.Expect(t, c.Read("/api/v1/plans"), obj{"items.0.agent": "first", "items.1.agent": nil})
}

// F12: the events of every stream are objects with what an event has.
func TestContractOfStreams(t *testing.T) {
	t.Parallel()
	streams := 0
	paths, _ := contract().Find("paths")
	for path := range paths {
		for _, method := range []string{"get", "post"} {
			schema, at := contract().Find("paths", path, method, "responses", "200", "content", "text/event-stream", "schema")
			if schema == nil {
				continue
			}
			streams++

			event := obj{"id": "1", "event": "", "data": `{"stepId":"s"}`}
			properties, _ := schema["properties"].(obj)
			for name := range event {
				if properties[name] == nil {
					delete(event, name)
				}
			}
			if kinds, ok := properties["event"].(obj); ok {
				event["event"] = kinds["enum"].([]any)[0]
			}

			if schema["type"] != "object" || properties["data"] == nil || contract().Validate(event, at...) != nil ||
				contract().Validate("data: {}", at...) == nil {
				t.Errorf("%s %s: %v", method, path, schema)
			}
		}
	}

	if streams < 4 {
		t.Errorf("only %d streams", streams)
	}
}

// F4: since and until take the same forms everywhere, and errors name the field.
func TestTimesInQueries(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for _, path := range []string{"/api/v1/plans?", "/api/v1/search?q=x&"} {
		for _, name := range []string{"since", "until"} {
			for _, when := range []string{
				"90s", "5m", "24h", "3d", "2w", "1d12h", "2026-11-20", "2026-11-20T13:53:00Z", "2026-11-20T13:53:00%2B02:00",
			} {
				c.Read(path + name + "=" + when)
			}
			apitest.WantProblem(t, c.Get(path+name+"=3x"), http.StatusBadRequest, name)
		}
	}

	c.Read("/api/v1/plans?minDuration=1d&maxDuration=2w")
}
