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
		all = append(all, Startable{Executor: "plan", Description: "A model plans the task, and its operations are carried out in order."},
			Startable{Executor: "orchestrator", Description: "A model plans the request. When a human has accepted the plan, specialised agents carry it out."},
			Startable{Executor: "dag", Description: "A model plans the task as a graph. Nodes that do not need each other run at the same time."})
	}
	for i := range all {
		all[i].Placeholders = slices.DeleteFunc(all[i].Placeholders, func(name string) bool { return name == "planId" }) // the run itself knows it
	}
	return all
}
