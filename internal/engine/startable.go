package engine

import (
	"encoding/json"
	"slices"
)

// Startable is something of which runs can be started.
type Startable struct {
	Executor     string
	Name         string // empty: a model plans what is to be done
	Type         string // of a workflow: simple_workflow or custom_workflow
	Description  string
	Placeholders []string // of a plan template, each of which needs a value
}

// Startables returns what there is of which runs can be started, by executor and name.
func Startables(parts Parts) (all []Startable) {
	add := func(executor, kind string) {
		for _, name := range parts.Names(kind) {
			s := Startable{Executor: executor, Name: name}
			if executor == "workflow" {
				s.Type = kind
			}
			var d struct {
				Description  string
				Placeholders []string
			}
			if body, ok := parts.Definition(kind, name); ok && json.Unmarshal(body, &d) == nil {
				s.Description, s.Placeholders = d.Description, d.Placeholders
			}
			all = append(all, s)
		}
	}
	add("agent", "agent")
	add("plan", "plan")
	add("workflow", "simple_workflow")
	add("workflow", "custom_workflow")
	if len(Models(parts)) > 0 {
		all = append(all, Startable{Executor: "plan"}, Startable{Executor: "orchestrator"}, Startable{Executor: "dag"})
	}
	for i := range all {
		all[i].Placeholders = slices.DeleteFunc(all[i].Placeholders, func(name string) bool { return name == "planId" }) // the run itself knows it
	}
	return all
}
