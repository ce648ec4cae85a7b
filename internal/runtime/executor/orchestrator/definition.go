package orchestrator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
)

type input struct {
	Request          string   `json:"request"`
	Mode             string   `json:"mode"` // agent or chat; agent if it lacks
	MaxPlanSteps     *int     `json:"maxPlanSteps,omitempty"`
	ExecutionTimeout *float64 `json:"executionTimeout,omitempty"` // seconds
}

// The modes of a run.
const (
	agentMode = "agent" // plans, and lets agents carry the plan out
	chatMode  = "chat"  // answers at once
)

// Executor carries runs of requests that are planned and carried out by specialised agents.
type Executor struct{}

// Kind implements [engine.Executor].
func (Executor) Kind() string { return "orchestrator" }

// About implements [engine.Described].
func (Executor) About() engine.About {
	itself := engine.Startable{
		Title: "Plan a request for specialised agents", Sort: "planned by a model",
		Description: "A model plans the request. When a human has accepted the plan, specialised agents carry it out.",
		Fields: []engine.Field{
			engine.LongText("Request", "request"),
			{Member: []string{"mode"}, Label: "Mode", Kind: "select", Options: []string{agentMode, chatMode}},
		},
	}
	return engine.About{
		Schema: json.RawMessage(`{"type":"object","required":["request"],"properties":{"request":{"type":"string"},` +
			`"mode":{"enum":["agent","chat"]},"maxPlanSteps":{"type":"integer"},"executionTimeout":{"type":"number"}}}`),
		Startables: func(engine.Parts) []engine.Startable { return []engine.Startable{itself} },
	}
}

// Prepare implements [engine.Executor].
func (x Executor) Prepare(parts engine.Parts, r engine.Request) (p engine.Prepared, err error) {
	var in input
	if err := engine.ReadInput(r.Input, "an object with request, and mode, maxPlanSteps and executionTimeout if wanted",
		&in); err != nil {
		return p, err
	}

	d, err := engine.Find[define.OrchestratorDefinition](parts, x.Kind(), r.Name)
	if err != nil {
		return p, err
	}
	if err := in.complete(d); err != nil {
		return p, err
	}

	d.MaxPlanSteps = *in.MaxPlanSteps
	in.Request = parts.Redact(in.Request)
	p.Metadata, _ = json.Marshal(map[string]string{"mode": in.Mode}) // texts
	p.Name, p.ModelName = r.Name, d.Model.Model
	p.UserRequest, p.Title = in.Request, engine.Title(in.Request)
	p.Limits = &engine.Limits{Seconds: *in.ExecutionTimeout}

	p.Needs = []string{"model:" + d.Model.Name}
	for _, a := range d.Agents {
		p.Needs = append(p.Needs, a.Needs()...)
	}
	err = p.Keep(in, d)
	return p, err
}

// complete sets the defaults, and checks the values.
func (in *input) complete(d define.OrchestratorDefinition) error {
	if strings.TrimSpace(in.Request) == "" {
		return engine.NoInput("input.request")
	}
	if in.Mode = cmp.Or(in.Mode, agentMode); in.Mode != agentMode && in.Mode != chatMode {
		return engine.BadInput("input.mode", "must be agent or chat")
	}

	if in.MaxPlanSteps == nil {
		in.MaxPlanSteps = &d.MaxPlanSteps
	}
	if n := *in.MaxPlanSteps; n < 1 || n > define.MaxPlanSteps {
		return engine.BadInput("input.maxPlanSteps", fmt.Sprintf("must be from 1 to %d", define.MaxPlanSteps))
	}

	if in.ExecutionTimeout == nil {
		in.ExecutionTimeout = new(time.Duration(d.ExecutionTimeout).Seconds())
	}
	if s := *in.ExecutionTimeout; s <= 0 || s > 30*24*3600 {
		return engine.BadInput("input.executionTimeout", "must be more than 0 and at most 30 days, in seconds")
	}
	return nil
}
