package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/actlog/actlog/agent/plan"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/view/words"
)

// maxShownResult bounds what is shown of the result of an operation or a node, in characters. --json has all of it.
const maxShownResult = 200

// result returns the result of a run for people: the answer; of a planned task its operations as a list; of a graph its
// nodes as a table of some width.
func (c *client) result(ctx context.Context, r *runView, width int) (string, error) {
	switch r.Executor {
	case "plan":
		var task plan.Result
		if json.Unmarshal(r.Result, &task) == nil && task.Operations != nil {
			return operations(&task), nil
		}
	case tree.GraphExecutor:
		if len(r.Result) > 0 && string(r.Result) != "null" {
			return c.nodes(ctx, r, width)
		}
	}
	return r.answer(), nil
}

// answer returns the result as it is shown: a text as it is, other JSON indented. It is empty without a result. Of an
// orchestrator it is the answer: trace and sources are for --json. So it is of a workflow.
func (r *runView) answer() (text string) {
	if r.Executor == "orchestrator" {
		var response struct{ Result string }
		if json.Unmarshal(r.Result, &response) == nil {
			return response.Result
		}
	}

	if len(r.Result) == 0 || json.Unmarshal(r.Result, &text) == nil { // also null
		return text
	}
	if text = tree.Answer(string(r.Result)); text != string(r.Result) {
		return text
	}

	var b bytes.Buffer
	if json.Indent(&b, r.Result, "", "  ") != nil {
		return string(r.Result)
	}
	return b.String()
}

// operations lists what was done for a task, and what came of it.
func operations(of *plan.Result) string {
	var b strings.Builder
	for i := range of.Operations {
		o := &of.Operations[i]
		sign, came := "✓", o.Result
		if !o.Success {
			sign, came = "✗", o.Error
		}
		fmt.Fprintf(&b, "%d. %s %s.%s %s\n", i+1, sign, words.Clean(o.Tool), words.Clean(o.Operation),
			words.Shorten(string(o.Params), maxShownResult))
		if came != nil && *came != "" {
			fmt.Fprintf(&b, "   %s\n", words.Shorten(*came, maxShownResult))
		}
	}
	return b.String()
}

// nodes is a table of the nodes of a graph, with the state and the result of each that is on record.
func (c *client) nodes(ctx context.Context, r *runView, width int) (string, error) {
	p, err := c.plan(ctx, r.PlanID, url.Values{"maxDepth": {"0"}, "root": {r.RootPlanID}})
	if err != nil {
		return "", err
	}

	t := &table{columns: []column{{head: "NODE", share: 1}, {head: "STATE"}, {head: "RESULT", share: 2}}}
	for _, st := range p.AgentExecutionSequence {
		if name, isNode := st.name(p); isNode {
			t.add(words.Shorten(cmp.Or(name, st.StepID), maxShownResult), words.Clean(st.State),
				words.Shorten(cmp.Or(tree.Answer(st.Result), st.ErrorMessage), maxShownResult))
		}
	}
	if len(t.rows) == 0 { // it was planned, and not carried out
		return r.answer(), nil
	}

	var b strings.Builder
	err = t.write(&b, width)
	return b.String(), err
}
