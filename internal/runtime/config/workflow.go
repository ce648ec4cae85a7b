package config

import (
	"slices"
	"strings"

	"github.com/actlog/actlog/internal/runtime/define"
)

func readWorkflow(n node, there knownNames) (w define.Workflow) {
	g := n.object(fields{
		"modulePath":  func(n node) { w.ModulePath = n.word() },
		"className":   func(n node) { w.ClassName = n.word() },
		"description": func(n node) { w.Description = n.text() },
		"steps": func(n node) {
			w.Steps = each(n, func(n node) define.WorkflowStep { return readWorkflowStep(n, there) })
			if n.ShortTag() == "!!seq" && len(w.Steps) == 0 {
				n.problem("want at least one step")
			}
		},
	})

	if !g.has("modulePath") && !g.has("className") {
		g.require("steps")
		return w
	}
	if g.require("modulePath", "className"); g.has("steps") {
		g.at("steps").problem("a workflow has steps or a class, not both")
	}

	if w.ModulePath == "" || w.ClassName == "" {
		return w
	}
	if len(there.functions) == 0 {
		g.at("className").problem("this program has no custom workflows. Write the workflow with steps, or build a "+
			"program of your own "+
			"that registers a Go function as %q (docs/workflow.md)", w.Function())
		return w
	}
	g.at("className").refer("function of the program", w.Function(), there.functions)
	return w
}

// withClass splits the names of workflows: the second are those that have a class.
func withClass(section node) (simple, custom []string) {
	for _, name := range keysOf(section) {
		w := section.child(name)
		if keys := keysOf(w); slices.Contains(keys, "modulePath") || slices.Contains(keys, "className") {
			custom = append(custom, name)
		} else {
			simple = append(simple, name)
		}
	}
	return simple, custom
}

// readWorkflowStep reads {name, type}, or only the name, from which the type follows.
func readWorkflowStep(n node, there knownNames) (s define.WorkflowStep) {
	at, typed := n, false
	if n.ShortTag() == "!!map" {
		g := n.object(fields{
			"name": func(n node) { s.Name = n.word() },
			"type": func(n node) {
				s.Type = oneOf(n, define.AgentStep, define.SimpleStep, define.CustomStep)
			},
		})
		g.require("name")
		at, typed = g.at("name"), g.has("type")
	} else {
		s.Name = n.word()
	}

	if s.Name == "" || typed && s.Type == "" {
		return s
	}

	known := map[define.StepType][]string{
		define.AgentStep: there.agents, define.SimpleStep: there.workflows, define.CustomStep: there.custom,
	}
	if typed {
		at.refer(string(s.Type), s.Name, known[s.Type])
		return s
	}

	var types []string
	for _, t := range []define.StepType{define.AgentStep, define.SimpleStep, define.CustomStep} {
		if slices.Contains(known[t], s.Name) {
			s.Type = t
			types = append(types, string(t))
		}
	}

	switch {
	case len(types) > 1:
		at.problem("%q found in multiple types (%s); write {name: %s, type: ...}", s.Name, strings.Join(types, ", "), s.Name)
	case len(types) == 0:
		at.refer("agent or workflow", s.Name, slices.Concat(there.agents, there.workflows, there.custom))
	}
	return s
}

// checkRings notes the workflows that contain themselves: they would not end.
func checkRings(section node, workflows map[string]define.Workflow) {
	for name := range workflows {
		if ring := ringFrom(name, workflows); ring != nil {
			section.child(name).problem("it contains itself and would not end: %s", strings.Join(ring, ", "))
		}
	}
}

// ringFrom returns the shortest way from a workflow back to it, or nil.
func ringFrom(name string, workflows map[string]define.Workflow) []string {
	seen := map[string]bool{}
	for ways := [][]string{{name}}; len(ways) > 0; ways = ways[1:] {
		way := ways[0]
		for _, step := range workflows[way[len(way)-1]].Steps {
			if step.Type != define.SimpleStep {
				continue
			}
			if step.Name == name {
				return append(way, name)
			}
			if !seen[step.Name] {
				seen[step.Name] = true
				ways = append(ways, append(slices.Clone(way), step.Name))
			}
		}
	}
	return nil
}
