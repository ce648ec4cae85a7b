package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/internal/testkit/pgtest"
)

// ambiguous writes three trees: the root plan victim, and the root plans a and b with a sub-plan of
// that id. A step of each plan is named s.
func ambiguous(t *testing.T) *client {
	t.Helper()
	c := serve(t)
	c.Write(plan("victim", obj{"title": "of victim"}), step("victim", "victim", "s", obj{"agentName": "of victim"}),
		thought("victim", "victim", "of victim"))
	for _, root := range []string{"a", "b"} {
		c.Write(subPlan(root, "victim", root, "t", obj{"title": "of " + root}),
			step(root, "victim", "s", obj{"agentName": "of " + root}), thought(root, "victim", "of "+root))
	}
	return c
}

// TestSecondRoot: an id under a second root never hides a root plan (N10). Every read takes the root.
func TestSecondRoot(t *testing.T) {
	t.Parallel()
	c := ambiguous(t)
	events := func(query string) string {
		c.Write(plan("victim", state("COMPLETED")), plan("a", state("COMPLETED")),
			subPlan("a", "victim", "a", "t", state("COMPLETED")))
		return string(c.Get("/api/v1/plans/victim/events" + query).Body)
	}

	for root, want := range map[string]struct {
		plan, step             string
		plansUnder, stepsUnder []any
	}{
		"":       {"victim", "b", []any{"b", "a"}, []any{"a", "victim"}},
		"victim": {"victim", "victim", []any{}, []any{}},
		"a":      {"a", "a", []any{}, []any{}},
	} {
		query := ""
		if root != "" {
			query = "?root=" + root
		}

		for _, path := range []string{details, "/api/v1/plans/"} {
			expect(t, c.Read(path+"victim"+query), obj{
				"rootPlanId": want.plan, "title": "of " + want.plan, "alsoUnder": want.plansUnder,
			})
		}
		for _, path := range []string{agentExecution, "/api/v1/steps/"} {
			expect(t, c.Read(path+"s"+query), obj{
				"rootPlanId": want.step, "agentName": "of " + want.step, "alsoUnder": want.stepsUnder,
			})
		}

		expect(t, c.Read("/api/v1/plans/victim/thoughts"+query), obj{"items.#": 1, "items.0.thoughtId": "of " + want.plan})
		if export := c.Get("/api/v1/plans/victim/records" + query); !strings.HasPrefix(string(export.Body),
			fmt.Sprintf(`{"kind":"plan","rootPlanId":%q,"currentPlanId":%[1]q`, want.plan)) {
			t.Errorf("root %q: exported %.100s", root, export.Body)
		}
		if got := events(query); !strings.Contains(got, fmt.Sprintf(`"rootPlanId":%q`, want.plan)) {
			t.Errorf("root %q: events %.300s", root, got)
		}
	}

	for _, path := range []string{details + "victim?root=c", "/api/v1/plans/victim?root=c",
		"/api/v1/plans/victim/waits?root=c", "/api/v1/plans/victim/records?root=c",
		"/api/v1/plans/victim/events?root=c", "/api/v1/steps/s?root=c", agentExecution + "s?root=c",
		"/api/v1/plans/a?root=b"} {
		wantStatus(t, c.Get(path), http.StatusNotFound)
	}

	// What is read is what is deleted.
	wantStatus(t, c.Do(http.MethodDelete, "/api/v1/plans/victim", nil), http.StatusNoContent)
	expect(t, c.Details("victim"), obj{"rootPlanId": "b", "alsoUnder": []any{"a"}})
}

// TestManyRoots: an answer names some of the other roots, however many there are (N10).
func TestManyRoots(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for i := range 30 {
		root := fmt.Sprint("root-", i)
		c.Write(subPlan(root, "again", root, "t"), step(root, "again", "s"))
	}
	expect(t, c.Details("again"), obj{"alsoUnder.#": 20})
	expect(t, c.Step("s"), obj{"alsoUnder.#": 20})
}

// TestPlaceholders: a plan of which only the id is known is shown as a placeholder, until a record
// says more, whatever the order of the records (N13).
func TestPlaceholders(t *testing.T) {
	t.Parallel()
	key, told := obj{"kind": "plan", "rootPlanId": "q", "currentPlanId": "q2"},
		subPlan("q", "q2", "q", "t", obj{"title": "sub"})
	root := plan("q", state("PENDING"))
	type shown struct{ Root, Sub bool }

	for name, tt := range map[string]struct {
		records []obj
		want    []shown // after each
	}{
		"the sub-plan alone":   {[]obj{key}, []shown{{true, true}}},
		"then all of it":       {[]obj{key, told, root}, []shown{{true, true}, {true, false}, {false, false}}},
		"the root in between":  {[]obj{key, root, told}, []shown{{true, true}, {false, true}, {false, false}}},
		"the key at the end":   {[]obj{told, root, key}, []shown{{true, false}, {false, false}, {false, false}}},
		"the root at the end":  {[]obj{told, key, root}, []shown{{true, false}, {true, false}, {false, false}}},
		"the root at first":    {[]obj{root, key, told}, []shown{{false, true}, {false, true}, {false, false}}},
		"the sub-plan at last": {[]obj{root, told, key}, []shown{{false, true}, {false, false}, {false, false}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serve(t)
			for i, r := range tt.records {
				c.Write(r)
				if _, ok := c.Read("/api/v1/plans").(obj)["items"].([]any)[0].(obj); !ok {
					t.Fatal("the root is not listed")
				}

				listed := lookup(t, c.Read("/api/v1/plans"), "items.0.placeholder").(bool)
				got := shown{Root: lookup(t, c.Details("q"), "placeholder").(bool)}
				if a := c.Get(details + "q2"); a.Status == http.StatusOK {
					got.Sub = lookup(t, a.JSON(t), "placeholder").(bool)
				} else {
					got.Sub = true // nothing named it yet
				}

				if got != tt.want[i] || listed != got.Root {
					t.Errorf("after %d records %+v, listed %v, want %+v", i+1, got, listed, tt.want[i])
				}

				pending := lookup(t, c.Read("/api/v1/plans?state=PENDING"), "items.#").(float64)
				if (pending == 0) != got.Root {
					t.Errorf("after %d records %v plans are PENDING", i+1, pending)
				}
			}
		})
	}
}

// TestNoPlaceholder: any field of a plan makes it more than a placeholder (N13).
func TestNoPlaceholder(t *testing.T) {
	t.Parallel()
	c := serve(t)
	_, schema := recordSchema(t, "plan")
	values := map[string]any{
		"tags": []string{}, "metadata": obj{}, "state": "PENDING", "traceId": strings.Repeat("1", 32),
		"startedBy": obj{"planId": "p"}, "attempt": 2,
	}

	for i, name := range slices.Sorted(maps.Keys(schema["properties"].(obj))) {
		root := fmt.Sprint("r", i)
		r := obj{"kind": "plan", "rootPlanId": root, "currentPlanId": root}
		switch value := values[name]; {
		case name == "kind" || name == "rev" || r[name] != nil || name == "parentPlanId" || name == "toolCallId":
			continue
		case value != nil:
			r[name] = value
		case schema["properties"].(obj)[name].(obj)["format"] == "date-time":
			r[name] = at(1)
		default:
			r[name] = "x"
		}

		c.Write(r)
		if lookup(t, c.Read("/api/v1/plans/"+root), "placeholder") != false {
			t.Errorf("with %s the plan is a placeholder", name)
		}
	}
}

// deep writes a chain of sub-plans p0, p1, ..., each under a step of the one above it. Beside p1
// there is a sub-plan without a step.
func deep(t *testing.T, c *client, levels int) {
	t.Helper()
	var lines bytes.Buffer
	add := func(r obj) {
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(b, '\n'))
	}
	flush := func() {
		if status, a := c.PostBody(wire.TypeNDJSON, lines.Bytes()); status != http.StatusOK {
			t.Fatalf("status = %d %+v", status, a)
		}
		lines.Reset()
	}

	add(plan("p0"))
	for i := range levels {
		at, below := fmt.Sprint("p", i), fmt.Sprint("p", i+1)
		add(step("p0", at, "s"+at))
		add(tool("p0", "s"+at, 0, "t"+at))
		add(subPlan("p0", below, at, "t"+at))
		if i%300 == 299 {
			flush()
		}
	}

	flush()
}

// deepLevels is how deep a deep tree is.
var deepLevels = 1_200

// TestDeepTrees: a tree is shown to a depth that readers of JSON can take, says what is left out and
// where to read on, and shows more on request (N21).
func TestDeepTrees(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what is read, and how much of it")
	t.Parallel()
	c := serve(t)
	levels := deepLevels
	deep(t, c, levels)

	// down follows the chain, and returns the last plan that is shown, and how deep it is.
	down := func(v any) (last obj, depth int) {
		p := v.(obj)
		for {
			if steps := p["agentExecutionSequence"].([]any); len(steps) == 0 ||
				len(steps[0].(obj)["subPlanExecutionRecords"].([]any)) == 0 {
				return p, depth
			}
			p = lookup(t, p, "agentExecutionSequence.0.subPlanExecutionRecords.0").(obj)
			depth++
		}
	}

	for _, path := range []string{details, "/api/v1/plans/"} {
		for query, depth := range map[string]int{
			"": 50, "?maxDepth=0": 0, "?maxDepth=3": 3, fmt.Sprint("?maxDepth=", levels-1): levels - 1,
			fmt.Sprint("?maxDepth=", levels): levels, "?maxDepth=20000": levels,
		} {
			tree := c.Read(path + "p0" + query)
			last, got := down(tree)
			if got != depth {
				t.Errorf("%s: %d levels, want %d", query, got, depth)
			}

			var omitted any
			if depth < levels {
				omitted = obj{"plans": float64(levels - depth), "planIds": []any{fmt.Sprint("p", depth)}}
				expect(t, last, obj{"agentExecutionSequence.0.subPlanCount": 1})
			}

			expect(t, tree, obj{"omitted": omitted, "total.toolCalls": levels})
			expect(t, last, obj{"omitted": omitted})
			if depth > 1 && depth < levels {
				expect(t, tree, obj{"agentExecutionSequence.0.subPlanExecutionRecords.0.omitted": nil})
			}
		}
	}

	// Reading on with the ids that the answers name reaches every plan.
	seen, at := 0, "p0"
	for at != "" {
		tree := c.Details(at)
		_, depth := down(tree)
		seen += depth
		if at = ""; lookup(t, tree, "omitted") != nil {
			at = lookup(t, tree, "omitted.planIds.0").(string)
		}
	}

	if seen != levels {
		t.Errorf("reading on reached %d of %d plans", seen, levels)
	}
	if n := nesting(c.Get(details + "p0").Body); n > 256 {
		t.Errorf("%d levels of JSON are more than jq 1.6 reads", n)
	}

	for _, wrong := range []string{"-1", "20001", "x", "1.5"} {
		for _, path := range []string{details, "/api/v1/plans/"} {
			wantProblem(t, c.Get(path+"p0?maxDepth="+wrong), http.StatusBadRequest, "maxDepth")
		}
	}
}

// nesting returns how deep a JSON text without brackets in its strings nests.
func nesting(b []byte) (deepest int) {
	depth := 0
	for _, c := range b {
		switch c {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		deepest = max(deepest, depth)
	}
	return deepest
}

// TestUnknownQuery: every path of the native API refuses a query that it does not understand, and
// the executor API and that of graphs ignore it (N27).
func TestUnknownQuery(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.Write(plan("p"), step("p", "p", "s"))
	paths, _ := contract().Find("paths")
	checked := 0

	for _, route := range slices.Sorted(maps.Keys(paths)) {
		path := strings.NewReplacer("{planId}", "p", "{stepId}", "s").Replace(route)
		for method := range paths[route].(obj) {
			if method = strings.ToUpper(method); method == "PARAMETERS" || !strings.HasPrefix(route, "/api/") {
				continue
			}
			checked++

			a := c.Do(method, path+"?nonsense=1", nil)
			if strings.HasPrefix(route, "/api/v1/") {
				wantProblem(t, a, http.StatusBadRequest, "nonsense")
			} else if executor := strings.HasPrefix(route, "/api/executor/"); strings.Contains(string(a.Body), "nonsense") ||
				// its own words about the rest
				executor && a.Status != http.StatusOK && !strings.HasPrefix(string(a.Body), `{"error":`) {
				t.Errorf("%s %s: %d %s", method, path, a.Status, a.Body)
			}
		}
	}

	if checked < 15 {
		t.Errorf("%d operations", checked)
	}

	c.Read(details + "p?%zz&root=p")
	wantProblem(t, c.Get(details+"p?root=p&root=q"), http.StatusBadRequest, "root")
	wantProblem(t, c.Get(agentExecution+"s?root=%00"), http.StatusBadRequest, "root")
}
