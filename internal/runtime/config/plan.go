package config

import (
	"regexp"
	"strings"

	"github.com/actlog/actlog/internal/runtime/define"
)

var (
	placeholderName = regexp.MustCompile(`^[\pL_][\pL\pN_-]*$`)
	// inBrackets is the beginning of "[AGENT] request".
	inBrackets = regexp.MustCompile(`^\s*\[([^\]\r\n]+)\]\s*`)
)

func readPlan(n node, name string, there knownNames) define.Plan {
	p := define.Plan{Title: name}
	n.object(fields{
		"title":          func(n node) { p.Title = n.template() },
		"description":    func(n node) { p.Description = n.text() },
		"planType":       func(n node) { oneOf(n, "dynamic_agent") },
		"planTemplateId": func(n node) { n.text() },
		"steps": func(n node) {
			p.Steps = each(n, func(n node) define.PlanStep { return readPlanStep(n, there) })
			if n.ShortTag() == "!!seq" && len(p.Steps) == 0 {
				n.problem("want at least one step")
			}
		},
	}).require("steps")
	return p
}

// readPlanStep reads a step by our names or by those of the plan JSON of B38.
func readPlanStep(n node, there knownNames) (s define.PlanStep) {
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

	for _, names := range [][2]string{
		{"agent", "agentName"}, {"request", "stepRequirement"}, {"model", "modelName"}, {"tools", "selectedToolKeys"},
	} {
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
	for _, m := range define.Placeholder.FindAllStringSubmatch(text, -1) {
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
