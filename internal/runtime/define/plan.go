package define

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// Plan is a plan template: steps whose requests may have placeholders such as <<path>>.
type Plan struct {
	Title       string     `json:"title"`
	Description string     `json:"description,omitempty"`
	Steps       []PlanStep `json:"steps"`
}

// PlanStep is one step of a template, for one agent.
type PlanStep struct {
	Agent   string `json:"agent"`
	Request string `json:"request"`
	// Model and Tools are those of the agent if they are empty.
	Model string   `json:"model,omitempty"`
	Tools []string `json:"tools,omitempty"`
	// TerminateColumns are the columns of the table in which the step answers, if any.
	TerminateColumns []string `json:"terminateColumns,omitempty"`
}

// planID is a placeholder that always has a value.
const planID = "planId"

// Placeholder matches a placeholder such as <<path>>.
var Placeholder = regexp.MustCompile(`<<([^<>\r\n]*)>>`)

// PlanDefinition is what a run pins of a plan template when it starts. It has no secrets.
type PlanDefinition struct {
	Title        string               `json:"title"`
	Description  string               `json:"description,omitempty"`
	Placeholders []string             `json:"placeholders,omitempty"`
	Steps        []PlanStepDefinition `json:"steps"`
}

// PlanStepDefinition is a step of a template with the agent that does it.
type PlanStepDefinition struct {
	Request string     `json:"request"`
	Agent   Definition `json:"agent"`
}

// Definition returns the definition of a template. agent returns that of a step's agent: of the name, with
// changes by the step.
func (p Plan) Definition(agent func(name string, change func(*Agent)) (Definition, bool)) (d PlanDefinition, ok bool) {
	d = PlanDefinition{Title: p.Title, Description: p.Description, Placeholders: p.Placeholders()}
	for _, s := range p.Steps {
		of, ok := agent(s.Agent, s.change)
		if !ok {
			return d, false
		}
		d.Steps = append(d.Steps, PlanStepDefinition{Request: s.Request, Agent: of})
	}
	return d, true
}

// change makes an agent what a step says.
func (s PlanStep) change(a *Agent) {
	if a.Model = cmp.Or(s.Model, a.Model); s.Tools != nil {
		a.Tools = s.Tools
	}
	if len(s.TerminateColumns) > 0 {
		a.ResponseSchema = tableOf(s.TerminateColumns)
	}
}

// tableOf returns the JSON Schema of a table: a list of rows with these columns.
func tableOf(columns []string) json.RawMessage {
	properties := map[string]any{}
	for _, c := range columns {
		properties[c] = map[string]string{"type": "string"}
	}

	row := map[string]any{"type": "object", "properties": properties, "required": columns}
	schema, _ := json.Marshal(map[string]any{ // texts
		"type": "object", "properties": map[string]any{"rows": map[string]any{"type": "array", "items": row}},
		"required": []string{"rows"},
	})
	return schema
}

// Fill replaces the placeholders of a text. plan is the plan of the run, whatever values say. Values are not
// searched for placeholders, and a placeholder without a value stays.
func Fill(text, plan string, values map[string]string) string {
	return Placeholder.ReplaceAllStringFunc(text, func(found string) string {
		name := found[2 : len(found)-2]
		if name == planID {
			return plan
		}
		if value, there := values[name]; there {
			return value
		}
		return found
	})
}

// Lacking returns the first placeholder without a value, if there is one.
func Lacking(placeholders []string, values map[string]string) (name string, lacks bool) {
	i := slices.IndexFunc(placeholders, func(name string) bool {
		_, there := values[name]
		return !there && name != planID
	})
	if i < 0 {
		return "", false
	}
	return placeholders[i], true
}

// Placeholders returns the names of the placeholders that need a value, in their order.
func (p Plan) Placeholders() (found []string) {
	texts := []string{p.Title}
	for _, s := range p.Steps {
		texts = append(texts, s.Request)
	}

	for _, m := range Placeholder.FindAllStringSubmatch(strings.Join(texts, "\n"), -1) {
		if m[1] != planID && !slices.Contains(found, m[1]) {
			found = append(found, m[1])
		}
	}
	return found
}
