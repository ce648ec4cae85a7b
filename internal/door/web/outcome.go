package web

import (
	"cmp"
	"context"
	"net/url"

	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/runtime/runs"
	"github.com/actlog/actlog/internal/view/outline"
	"github.com/actlog/actlog/internal/view/words"
	"github.com/actlog/actlog/record"
)

// outcomeView is what a run came to that is more than an answer: of a planned task its operations, of a graph its
// nodes.
type outcomeView struct {
	operations, nodes []deed
	more              bool // there are more of them
}

type deed struct {
	name, about string
	href        string // of its row
	state       record.State
	took        string
	came        string // the result, or the error
	bad         bool
	cut         bool // came is the beginning
}

// maxCame bounds how much of a result an outcome shows, in characters. All of it is in its row.
const maxCame = 400

// outcomesOf reads what runs came to, each of another tree, by their root plans. Those that are no planned task and no
// graph, and those in which nothing was done yet, are not among them.
func outcomesOf(ctx context.Context, reader *store.Reader, all ...*record.Plan) (map[string]*outcomeView, error) {
	var graphs, tasks []*record.Plan
	for _, p := range all {
		switch executor := optional.Value(p.Executor); {
		case executor == tree.GraphExecutor:
			graphs = append(graphs, p)
		case executor == runs.TaskExecutor && runs.IsTask(p):
			tasks = append(tasks, p)
		}
	}

	steps, err := reader.StepOutcomes(ctx, graphs, maxCame+1)
	if err != nil {
		return nil, err
	}
	calls, err := reader.CallOutcomes(ctx, tasks, maxCame+1)
	if err != nil {
		return nil, err
	}

	views := map[string]*outcomeView{}
	for root, o := range steps {
		if v := nodesOf(root, o); len(v.nodes) > 0 {
			views[root] = v
		}
	}
	for root, o := range calls {
		views[root] = operationsOf(root, o)
	}
	return views, nil
}

func nodesOf(root string, o store.Outcome[*record.AgentExecution]) *outcomeView {
	v := &outcomeView{more: o.More}
	for _, s := range o.Rows {
		name, isNode := tree.StepName(tree.GraphExecutor, optional.Value(s.AgentName), optional.Value(s.AgentDescription),
			s.StepIndex)
		if isNode {
			v.nodes = append(v.nodes, deed{
				name: cmp.Or(name, s.StepID),
				href: rowPath(root, s), state: optional.Value(s.State), took: words.Took(s.StartTime, s.EndTime),
			}.with(s.Result, s.ErrorMessage))
		}
	}
	return v
}

func operationsOf(root string, o store.Outcome[*record.ActTool]) *outcomeView {
	v := &outcomeView{more: o.More}
	for _, t := range o.Rows {
		v.operations = append(v.operations, deed{
			name: cmp.Or(optional.Value(t.Name), "(unnamed tool)"), about: words.Shorten(optional.Value(t.Parameters), 200),
			href: rowPath(root, t), state: optional.Value(t.State), took: words.Took(t.StartTime, t.EndTime),
		}.with(t.Result, t.ErrorMessage))
	}
	return v
}

func rowPath(root string, row record.Change) string {
	at, _ := outline.AtOf(row)
	return runPath(root) + "?" + url.Values{"at": {at}}.Encode()
}

// with returns what was done with what came of it.
func (d deed) with(result, failure *string) deed {
	if d.came = optional.Value(failure); d.came != "" {
		d.bad = true
	} else {
		d.came = tree.Answer(optional.Value(result))
	}

	text := []rune(d.came)
	if d.cut = len(text) > maxCame; d.cut {
		d.came = string(text[:maxCame])
	}
	return d
}
