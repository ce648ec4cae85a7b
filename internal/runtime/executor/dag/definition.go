package dag

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/thinkact"
	"github.com/actlog/actlog/internal/runtime/graph"
	"github.com/actlog/actlog/record"
)

// When a node begins: with its wave, which begins when the one before has ended, or when its own dependencies
// are done.
const (
	waves = "waves"
	eager = "eager"
)

// input is what a run is given: a task to plan, or the plan of a graph that is stored.
type input struct {
	Prompt     string `json:"prompt,omitempty"`
	PlanID     string `json:"plan_id,omitempty"`
	Provider   string `json:"provider,omitempty"`
	Model      string `json:"model,omitempty"`
	Scheduling string `json:"scheduling,omitempty"`
	Draft      bool   `json:"draft,omitempty"` // plan, and no more
}

type definition struct {
	Models []engine.ModelInfo  `json:"models"`           // the default one first
	Agents []define.Definition `json:"agents,omitempty"` // that may carry out nodes
	Graph  json.RawMessage     `json:"graph,omitempty"`  // nil: it is to be planned
}

// agentProvider is the provider of nodes that agents carry out.
const agentProvider = "agent"

// doer is who carries out a node: an agent, or a single answer of a model.
type doer struct {
	model string             // its name in the configuration
	agent *define.Definition // nil: a model
}

// agentOf returns the agent that a node names; nil: it names none. As its provider is "agent", its model may name it.
func (d definition) agentOf(n *graph.Node) (*define.Definition, error) {
	isModel := slices.ContainsFunc(d.Models,
		func(m engine.ModelInfo) bool { return m.Name == agentProvider || m.Provider == agentProvider })
	if n.Agent == "" && (n.Provider != agentProvider || isModel) {
		return nil, nil
	}

	name := cmp.Or(n.Agent, n.Model)
	var there []string
	for i := range d.Agents {
		if d.Agents[i].Agent == name {
			return &d.Agents[i], nil
		}
		there = append(there, d.Agents[i].Agent)
	}
	return nil, fmt.Errorf("uses unavailable agent '%s'. Available: %s", name, cmp.Or(strings.Join(there, ", "), "none"))
}

// find returns a model of a provider, which is its kind or the name of a model. Empty texts fit all.
func (d definition) find(provider, model string) (found engine.ModelInfo, err error) {
	var fit []engine.ModelInfo
	var there, models []string
	for _, m := range d.Models {
		there = append(there, m.Name, m.Provider)
		if provider != "" && provider != m.Name && provider != m.Provider {
			continue
		}
		if models = append(models, m.Model); model == "" || model == m.Model {
			fit = append(fit, m)
		}
	}

	if len(fit) > 0 {
		return fit[max(0, slices.IndexFunc(fit, func(m engine.ModelInfo) bool { return m.Name == provider }))], nil
	}

	what, wanted := "provider", provider
	if len(models) > 0 {
		what, wanted = "model", model
		there = models
	}
	available := strings.Join(slices.Compact(slices.Sorted(slices.Values(there))), ", ")
	return found, fmt.Errorf("uses unavailable %s '%s'. Available: %s", what, wanted, available)
}

// choose sets the provider and the model of each node, and returns who carries them out. instead, if it has a provider
// or a model, counts for all nodes but those of agents.
func (d definition) choose(g *graph.Graph, instead input) (doers []doer, err error) {
	for i := range g.Nodes {
		n := &g.Nodes[i]
		agent, err := d.agentOf(n)
		if err != nil {
			return nil, fmt.Errorf("Node %s %w", n.ID, err) //nolint:staticcheck // the source's words
		}
		if agent != nil {
			n.Provider, n.Agent = agentProvider, agent.Agent
			n.Model = agent.Model.Model
			doers = append(doers, doer{agent.Model.Name, agent})
			continue
		}

		if instead.Provider+instead.Model != "" {
			n.Provider, n.Model = instead.Provider, instead.Model
		}
		m, err := d.find(n.Provider, n.Model)
		if err != nil {
			return nil, fmt.Errorf("Node %s %w", n.ID, err) //nolint:staticcheck // the source's words
		}
		n.Provider, n.Model = cmp.Or(n.Provider, m.Name), m.Model
		doers = append(doers, doer{model: m.Name})
	}
	return doers, nil
}

// Executor carries runs of graphs.
type Executor struct{}

// Kind implements [engine.Executor].
func (Executor) Kind() string { return "dag" }

// About implements [engine.Described].
func (Executor) About() engine.About {
	itself := engine.Startable{
		Title: "Plan a task as a graph", Sort: "planned by a model",
		Description: "A model plans the task as a graph. Nodes that do not need each other run at the same time.",
		Fields: []engine.Field{
			engine.LongText("Task", "prompt"),
			{Member: []string{"scheduling"}, Label: "Nodes begin in", Kind: "select", Options: []string{waves, eager}},
		},
	}
	return engine.About{
		Text: "prompt",
		Schema: json.RawMessage(`{"type":"object","description":"A prompt, or a graph that was planned before.","properties":{` +
			`"prompt":{"type":"string"},"plan_id":{"type":"string"},"provider":{"type":"string"},"model":{"type":"string"},` +
			`"scheduling":{"type":"string"}}}`),
		Startables: func(engine.Parts) []engine.Startable { return []engine.Startable{itself} },
	}
}

// From implements [engine.Continuing].
func (Executor) From(r engine.Request) (rootPlanID, artifact string) {
	var in input
	_ = json.Unmarshal(r.Input, &in) // Prepare says what is wrong with it
	return in.PlanID, graph.Artifact
}

// Offered implements [engine.Offering].
func (Executor) Offered(pinned json.RawMessage, d define.Definition) (more []tool.Tool, offers bool, err error) {
	return thinkact.Executor{}.Offered(pinned, d)
}

// Prepare implements [engine.Executor].
func (Executor) Prepare(parts engine.Parts, r engine.Request) (p engine.Prepared, err error) {
	var in input
	if err := engine.ReadInput(r.Input, "an object with prompt, or with the plan_id of a stored graph", &in); err != nil {
		return p, err
	}
	if in.Scheduling != "" && in.Scheduling != waves && in.Scheduling != eager {
		return p, engine.BadInput("input.scheduling", "must be waves or eager")
	}

	d := definition{Models: engine.Models(parts), Graph: r.From}
	pinned, err := engine.Find[define.DagDefinition](parts, Executor{}.Kind(), "")
	if err != nil && !errors.Is(err, record.ErrNotFound) {
		return p, err
	}
	d.Agents = pinned.Agents

	isDefault := func(m engine.ModelInfo) bool { return m.Name == define.DefaultModel }
	if i := slices.IndexFunc(d.Models, isDefault); i > 0 {
		d.Models = slices.Concat(d.Models[i:i+1], d.Models[:i], d.Models[i+1:])
	}
	if in.Prompt = parts.Redact(in.Prompt); in.PlanID != "" {
		p, err = d.stored(in)
	} else {
		p, err = d.planned(in)
	}
	if err != nil {
		return p, err
	}

	p.UUID = true
	err = p.Keep(in, d)
	return p, err
}

func (d definition) stored(in input) (p engine.Prepared, err error) {
	if in.Prompt+in.Provider+in.Model != "" || in.Draft {
		return p, engine.BadInput("input.plan_id", "takes no other field but scheduling: its graph is planned")
	}
	g, err := graph.Read(d.Graph)
	if err != nil {
		return p, engine.BadInput("input.plan_id", "is not that of a stored graph")
	}

	written := tool.Artifact{Name: graph.Artifact, Type: graph.Artifact, Value: d.Graph}
	p = engine.Prepared{Name: in.PlanID, Title: g.Title, UserRequest: g.Prompt, Artifacts: []tool.Artifact{written}}
	doers, _ := d.choose(g, input{}) // the run says what is not there
	for _, by := range doers {
		if p.Needs = append(p.Needs, "model:"+by.model); by.agent != nil {
			p.Needs = append(p.Needs, by.agent.Needs()...)
		}
	}
	return p, nil
}

func (d definition) planned(in input) (p engine.Prepared, err error) {
	if strings.TrimSpace(in.Prompt) == "" {
		return p, engine.NoInput("input.prompt")
	}
	m, err := d.find(in.Provider, in.Model)
	if err != nil {
		return p, engine.BadInput("input.provider", err.Error())
	}

	if in.Draft {
		p.Name = graph.Draft
	}
	p.Title, p.UserRequest = firstWords(in.Prompt), in.Prompt
	p.ModelName, p.Needs = m.Name, []string{"model:" + m.Name}
	return p, nil
}
