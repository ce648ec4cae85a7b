package orchestrator

import (
	"fmt"
	"slices"
	"strings"

	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/record"
)

// plan is how a request is carried out.
type plan struct {
	Goal              string `json:"goal"`
	Steps             []step `json:"steps"`
	EstimatedDuration int64  `json:"estimatedDuration"` // seconds
}

// step is a step of a plan, for one agent.
type step struct {
	Number         int    `json:"stepNumber"` // from 1
	Agent          string `json:"agentType"`
	Action         string `json:"action"`
	Justification  string `json:"justification"`
	ExpectedOutput string `json:"expectedOutput"`
	// Dependencies are the numbers of earlier steps that must have been completed.
	Dependencies []int `json:"dependencies"`
}

type outcome struct {
	step    step
	output  string
	failure *engine.RunError // nil: it was completed
}

func (o outcome) skipped() bool { return o.failure != nil && o.failure.State == record.Skipped }

func readPlan(text string, d define.OrchestratorDefinition) (p plan, err error) {
	if err := engine.ReadAnswer(text, &p); err != nil {
		return p, badPlan("The plan is no JSON that fits: %v", err)
	}

	switch {
	case strings.TrimSpace(p.Goal) == "":
		return p, badPlan("Goal cannot be null or empty")
	case len(p.Steps) == 0:
		return p, badPlan("Plan must have at least one step")
	case len(p.Steps) > d.MaxPlanSteps:
		return p, badPlan("Plan has %d steps, more than %d", len(p.Steps), d.MaxPlanSteps)
	case p.EstimatedDuration < 0:
		return p, badPlan("Estimated duration cannot be negative")
	}

	for i := range p.Steps {
		if err := p.Steps[i].check(i+1, d); err != nil {
			return p, err
		}
	}
	return p, nil
}

// check checks the step that has a number, and completes it.
func (s *step) check(number int, d define.OrchestratorDefinition) error {
	switch {
	case s.Number != number:
		return badPlan("Step %d has the number %d", number, s.Number)
	case !slices.ContainsFunc(d.Agents, func(a define.Definition) bool { return a.Agent == s.Agent }):
		return badPlan("Step %d: no agent has the type %q", number, s.Agent)
	case strings.TrimSpace(s.Action) == "":
		return badPlan("Step %d: action cannot be empty", number)
	case strings.TrimSpace(s.Justification) == "":
		return badPlan("Step %d: justification cannot be empty", number)
	}

	for _, before := range s.Dependencies {
		if before < 1 || before >= number {
			return badPlan("Step %d cannot depend on step %d: only on earlier ones", number, before)
		}
	}

	if s.Dependencies == nil {
		s.Dependencies = []int{}
	}
	return nil
}

func badPlan(format string, args ...any) error {
	return &engine.RunError{Kind: "plan", Message: fmt.Sprintf(format, args...)}
}
