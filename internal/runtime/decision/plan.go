package decision

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Plan is a plan that a human may accept.
type Plan struct {
	Goal              string
	EstimatedDuration int64 // seconds
	Steps             []PlanStep
}

// PlanStep is a step of a plan.
type PlanStep struct {
	StepNumber                                       int
	AgentType, Action, Justification, ExpectedOutput string
	Dependencies                                     []int // numbers of steps
}

// ReadPlan reads the plan of a subject. It reports false if that is none with steps.
func ReadPlan(raw json.RawMessage) (p Plan, ok bool) {
	err := json.Unmarshal(raw, &p)
	return p, err == nil && len(p.Steps) > 0
}

// TakeTexts takes texts of several lines, such as patches, out of an object: in JSON nobody can read them.
func TakeTexts(raw json.RawMessage) (rest json.RawMessage, texts [][2]string) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return raw, nil
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		var text string
		if json.Unmarshal(members[name], &text) == nil && strings.Contains(text, "\n") {
			texts = append(texts, [2]string{name, text})
			delete(members, name)
		}
	}

	if len(texts) == 0 {
		return raw, nil
	}
	if len(members) == 0 {
		return nil, texts
	}

	rest, _ = encode(members) // it was JSON
	return rest, texts
}
