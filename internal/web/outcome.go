package web

import (
	"cmp"
	"context"
	"net/url"

	"github.com/actlog/actlog/internal/outline"
	"github.com/actlog/actlog/internal/runs"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/internal/tree"
	"github.com/actlog/actlog/internal/words"
	"github.com/actlog/actlog/record"
)

// outcomeView is what a run came to that is more than an answer: of a planned task its operations, of a graph its nodes.
type outcomeView struct {
	operations, nodes []deed
	more              bool // there are more of them
}

// deed is an operation or a node.
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

// outcomeOf reads what a run came to; nil: it is no planned task and no graph, or nothing was done yet.
func outcomeOf(ctx context.Context, reader *store.Reader, p *record.Plan) (*outcomeView, error) {
	graph := orZero(p.Executor) == "dag"
	if !graph && (orZero(p.Executor) != runs.TaskExecutor || !runs.IsTask(p)) {
		return nil, nil //nolint:nilnil // there is none
	}
	o, err := reader.Outcome(ctx, p.RootPlanID, p.CurrentPlanID, maxCame+1)
	if err != nil {
		return nil, err
	}
	v := &outcomeView{more: o.More}
	path := func(row record.Change) string {
		at, _ := outline.AtOf(row)
		return runPath(p.RootPlanID) + "?" + url.Values{"at": {at}}.Encode()
	}
	if graph {
		for _, s := range o.Steps {
			if orZero(s.StepIndex) > 0 { // 0 is the planner
				v.nodes = append(v.nodes, deed{
					name: cmp.Or(orZero(s.AgentDescription), orZero(s.AgentName), s.StepID), href: path(s), state: orZero(s.State), took: words.Took(s.StartTime, s.EndTime),
				}.with(s.Result, s.ErrorMessage))
			}
		}
	} else {
		for _, t := range o.Calls {
			v.operations = append(v.operations, deed{
				name: cmp.Or(orZero(t.Name), "(unnamed tool)"), about: words.Shorten(orZero(t.Parameters), 200), href: path(t), state: orZero(t.State),
				took: words.Took(t.StartTime, t.EndTime),
			}.with(t.Result, t.ErrorMessage))
		}
	}
	if len(v.nodes)+len(v.operations) == 0 {
		return nil, nil //nolint:nilnil // there is none
	}
	return v, nil
}

// with returns what was done with what came of it.
func (d deed) with(result, failure *string) deed {
	if d.came = orZero(failure); d.came != "" {
		d.bad = true
	} else {
		d.came = tree.Answer(orZero(result))
	}
	text := []rune(d.came)
	if d.cut = len(text) > maxCame; d.cut {
		d.came = string(text[:maxCame])
	}
	return d
}
