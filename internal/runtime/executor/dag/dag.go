// Package dag is the executor of graphs: a model plans tasks that depend on each other, and those that are
// ready run at the same time.
package dag

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/thinkact"
	"github.com/actlog/actlog/internal/runtime/graph"
	"github.com/actlog/actlog/record"
)

// Advance implements [engine.Executor].
func (Executor) Advance(ctx context.Context, run *engine.Run) (engine.Result, error) {
	var in input
	var d definition
	if err := run.Read(&in, &d); err != nil {
		return engine.Result{}, err
	}

	plannedIn, err := d.load(ctx, run, in)
	if err != nil {
		return engine.Result{}, err
	}

	g, err := graph.Read(d.Graph)
	if err != nil {
		return engine.Result{}, engine.Fail("planning", "%v", err)
	}

	run.Title(g.Title)
	if in.Draft {
		return engine.Result{Summary: g.Title}, nil
	}

	e := &execution{
		run: run, graph: g, eager: in.Scheduling == eager, begun: map[string]bool{}, completed: map[string]bool{},
		results: map[string]string{},
	}
	e.log(logStart, nil, record.ThoughtAction, "Starting execution of plan %s", plannedIn)
	if e.providers, err = d.choose(g, input{}); err != nil {
		e.log(logEnd, nil, record.ThoughtError, "ERROR: %s", err)
		return engine.Result{}, engine.Fail("provider", "%v", err)
	}

	for _, by := range e.providers {
		if _, err := run.Model(by.model); err != nil {
			return engine.Result{}, err
		}
	}
	if err := e.runNodes(ctx); err != nil {
		return engine.Result{}, err
	}
	return e.end()
}

// load plans the graph if the definition has none. It returns the id of the run that planned the graph.
func (d *definition) load(ctx context.Context, run *engine.Run, in input) (plannedIn string, err error) {
	if d.Graph != nil {
		return in.PlanID, nil
	}

	text, err := plan(ctx, run, in, *d)
	if err != nil {
		return "", err
	}
	d.Graph = json.RawMessage(text)
	run.Artifact(tool.Artifact{Name: graph.Artifact, Type: graph.Artifact, Value: d.Graph})
	return run.ID(), nil
}

type execution struct {
	run       *engine.Run
	graph     *graph.Graph
	providers []doer // of the nodes
	eager     bool

	wave      int             // the number of the last one
	begun     map[string]bool // nodes
	completed map[string]bool
	results   map[string]string // of those
	waiting   []error           // of nodes that wait for a human
}

type ending struct {
	id, text string
	err      error
}

// runNodes runs the nodes that are ready, again and again, until none is. A wave begins when no node runs any more;
// eager nodes do not wait for that, nor for nodes that wait for a human. The error is one that ends the run, or one of
// the handle.
func (e *execution) runNodes(ctx context.Context) (broken error) {
	endings := make(chan ending, len(e.graph.Nodes))
	for running := 0; ; {
		if broken == nil && (e.eager || running == 0 && len(e.waiting) == 0) {
			running += e.start(ctx, endings)
		}
		if running == 0 {
			return cmp.Or(broken, engine.Worst(e.waiting...))
		}

		broken = e.take(<-endings, broken)
		running--
		if broken == nil && running > 0 {
			broken = e.run.Save() // those who watch see how the node ended, although others go on
		}
	}
}

// take notes how a node ended, and returns what ends the run: what did before, if anything.
func (e *execution) take(end ending, broken error) error {
	switch {
	case end.err == nil:
		e.completed[end.id], e.results[end.id] = true, end.text
	case engine.Waits(end.err):
		e.waiting = append(e.waiting, end.err)
	case broken == nil && engine.OfRun(end.err):
		return end.err
	}
	return broken
}

// start lets the nodes begin that are ready, and returns how many. Each sends how it ended.
func (e *execution) start(ctx context.Context, endings chan<- ending) int {
	ready := e.next()
	for _, at := range ready {
		info, prompt := e.info(at), nodePrompt(&e.graph.Nodes[at], e.inputs(at))
		go func() { endings <- e.node(ctx, at, info, prompt) }()
	}
	return len(ready)
}

// next returns the nodes that begin now.
func (e *execution) next() []int {
	ready := e.graph.Ready(e.begun, e.completed)
	ids := make([]string, len(ready))
	for i, at := range ready {
		ids[i] = e.graph.Nodes[at].ID
		e.begun[ids[i]] = true
	}

	if e.wave++; len(ready) > 0 && !e.eager {
		e.log(lineOf(ready[0], lineWave), nil, record.ThoughtDecision, "Executing %d nodes in parallel: [%s]", len(ready),
			strings.Join(ids, ", "))
	}
	for i, at := range ready {
		e.log(lineOf(at, lineBegin), nil, record.ThoughtAction, "Starting node %s: %s", ids[i], e.graph.Nodes[at].Name)
	}
	return ready
}

// about is what the metadata of the step of a node say, for reports: they are small.
type about struct {
	Node  string `json:"node"`
	Wave  int    `json:"wave,omitempty"`  // from 1; 0: it did not begin, or is eager
	Agent string `json:"agent,omitempty"` // that carries it out
	Below int    `json:"below"`           // how many nodes need its result, directly or through others
}

func (e *execution) info(at int) engine.StepInfo {
	n := e.graph.Nodes[at]
	a := about{Node: n.ID, Below: e.graph.Below(n.ID), Agent: n.Agent}
	if e.begun[n.ID] && !e.eager {
		a.Wave = e.wave
	}

	metadata, _ := json.Marshal(a) // texts and numbers
	info := engine.StepInfo{Agent: n.ID, Description: n.Name, Request: n.Description, Model: e.providers[at].model,
		Metadata: metadata}
	if agent := e.providers[at].agent; agent != nil {
		info.MaxSteps = thinkact.Rounds(e.run, *agent)
	}
	return info
}

// node carries out a node. Several run at the same time. A panic, such as that of a model, fails the run.
func (e *execution) node(ctx context.Context, at int, info engine.StepInfo, prompt string) (end ending) {
	defer e.run.Recover("a node failed", &end.err, errors.New("a node panicked"))
	n := &e.graph.Nodes[at]
	step, text, err := e.run.Do(ctx, at+1, info, func(step *engine.Step) (string, error) {
		if agent := e.providers[at].agent; agent != nil {
			return thinkact.On(ctx, e.run, step, *agent, thinkact.Asked{Request: prompt + othersAreData})
		}
		return ask(ctx, step, 0, info.Model, nodeSystem(n), prompt)
	})

	switch {
	case err == nil:
		e.log(lineOf(at, lineEnd), step, record.ThoughtObservation, "Completed node %s: %s (took %.2fs)", n.ID, n.Name,
			step.Took().Seconds())
	case !engine.OfRun(err):
		e.log(lineOf(at, lineEnd), step, record.ThoughtError, "Failed node %s: %s - %s", n.ID, n.Name, err)
	}
	return ending{n.ID, text, err}
}

const blocked = "Cannot proceed - dependencies failed"

// end ends the run: nodes that could not begin are BLOCKED. Its answer is what those nodes found whose results no
// other one needs.
func (e *execution) end() (engine.Result, error) {
	var ids, answers []string
	for at, n := range e.graph.Nodes {
		switch {
		case !e.begun[n.ID]:
			ids = append(ids, n.ID)
			e.run.Skip(at+1, e.info(at), record.Blocked, blocked)
		case e.completed[n.ID] && e.graph.Below(n.ID) == 0:
			answers = append(answers, e.results[n.ID])
		}
	}

	if len(ids) > 0 {
		e.log(logBlocked, nil, record.ThoughtError, "ERROR: %s: [%s]", blocked, strings.Join(ids, ", "))
	}
	status, err := "completed", error(nil)
	if len(e.completed) < len(e.graph.Nodes) {
		status = "failed"
		err = engine.Fail("node", "%d of %d nodes completed.", len(e.completed), len(e.graph.Nodes))
	}

	e.log(logEnd, nil, record.ThoughtConclusion, "Execution completed. Status: %s", status)
	return engine.Result{Summary: strings.Join(answers, "\n\n")}, err
}

// The numbers of the lines of the log that are of the whole. The lines of the log are thoughts of the run, which have
// their ids from these numbers.
const (
	logStart = iota
	logBlocked
	logEnd
	logNodes // the first line of a node
)

// The lines that each node has.
const (
	lineWave = iota // the node is the first of a wave
	lineBegin
	lineEnd
	lines // how many there are
)

func lineOf(node, line int) int { return logNodes + node*lines + line }

// log adds a line to the log of the run, of a step if it is not nil.
func (e *execution) log(number int, step *engine.Step, kind record.ThoughtType, format string, args ...any) {
	t := record.Thought{Type: &kind, Content: new(fmt.Sprintf(format, args...)), AgentID: new("dag")}
	if step != nil {
		t.StepID = new(step.ID())
	}
	e.run.Thought(number, t)
}
