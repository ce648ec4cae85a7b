package config

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

var (
	placeholder     = regexp.MustCompile(`<<([^<>\r\n]*)>>`)
	placeholderName = regexp.MustCompile(`^[\pL_][\pL\pN_-]*$`)
	// inBrackets is the beginning of "[AGENT] request".
	inBrackets = regexp.MustCompile(`^\s*\[([^\]\r\n]+)\]\s*`)
)

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
		"type": "object", "properties": map[string]any{"rows": map[string]any{"type": "array", "items": row}}, "required": []string{"rows"},
	})
	return schema
}

// Placeholders returns the names of the placeholders that need a value, in their order.
func (p Plan) Placeholders() (found []string) {
	texts := []string{p.Title}
	for _, s := range p.Steps {
		texts = append(texts, s.Request)
	}
	for _, m := range placeholder.FindAllStringSubmatch(strings.Join(texts, "\n"), -1) {
		if m[1] != planID && !slices.Contains(found, m[1]) {
			found = append(found, m[1])
		}
	}
	return found
}

func readPlan(n node, name string, there names) Plan {
	p := Plan{Title: name}
	n.object(fields{
		"title":          func(n node) { p.Title = n.template() },
		"description":    func(n node) { p.Description = n.text() },
		"planType":       func(n node) { n.oneOf("dynamic_agent") },
		"planTemplateId": func(n node) { n.text() },
		"steps": func(n node) {
			for _, each := range n.list() {
				p.Steps = append(p.Steps, readPlanStep(each, there))
			}
			if n.ShortTag() == "!!seq" && len(p.Steps) == 0 {
				n.problem("want at least one step")
			}
		},
	}).require("steps")
	return p
}

// readPlanStep reads a step by our names or by those of the plan JSON of B38.
func readPlanStep(n node, there names) (s PlanStep) {
	agent := func(n node) { s.Agent = n.reference("agent", there.agents) }
	request := func(n node) { s.Request = n.template() }
	model := func(n node) { s.Model = n.reference("model", there.models) }
	tools := func(n node) { s.Tools = n.patterns(there.tools) }
	g := n.object(fields{
		"agent": agent, "agentName": agent,
		"request": request, "stepRequirement": request,
		"model": model, "modelName": model,
		"tools": tools, "selectedToolKeys": tools,
		"terminateColumns": func(n node) { s.TerminateColumns = n.columns() },
	})
	for _, names := range [][2]string{{"agent", "agentName"}, {"request", "stepRequirement"}, {"model", "modelName"}, {"tools", "selectedToolKeys"}} {
		if g.has(names[0]) && g.has(names[1]) {
			g.at(names[1]).problem("it is another name of %s, which is there too", names[0])
		}
	}
	if g.has("request") == g.has("stepRequirement") {
		if !g.has("request") {
			g.require("request")
		}
		return s
	}
	if g.has("agent") || g.has("agentName") {
		return s
	}
	at := g.at("request")
	if g.has("stepRequirement") {
		at = g.at("stepRequirement")
	}
	if m := inBrackets.FindStringSubmatch(s.Request); m != nil {
		s.Agent, s.Request = m[1], s.Request[len(m[0]):]
		at.refer("agent", s.Agent, there.agents)
	} else {
		g.require("agent")
	}
	return s
}

// template returns a text whose placeholders are right.
func (n node) template() string {
	text := n.word()
	for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
		if !placeholderName.MatchString(m[1]) {
			n.problem("the placeholder %s is not of the form <<name>>", m[0])
		}
	}
	return text
}

// columns returns a list of texts, which may be one text with commas.
func (n node) columns() (columns []string) {
	if n.ShortTag() == "!!seq" {
		return n.texts()
	}
	for column := range strings.SplitSeq(n.text(), ",") {
		if column = strings.TrimSpace(column); column != "" {
			columns = append(columns, column)
		}
	}
	return columns
}
