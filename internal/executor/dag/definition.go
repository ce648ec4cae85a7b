package dag

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/actlog/actlog/internal/engine"
	"github.com/actlog/actlog/record"
)

// input is what a run is given.
type input struct {
	Prompt   string `json:"prompt"`
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
}

// available is a model that nodes can use, as it was when the run began.
type available struct {
	Name     string `json:"name"` // in the configuration
	Provider string `json:"provider"`
	Model    string `json:"model"`
}

// definition is what a run keeps.
type definition struct {
	Models []available `json:"models"`
}

// find returns the name of the model of a provider. provider is its kind, or the name of a model. An empty
// model is any of the provider.
func (d definition) find(provider, model string) (name string, ok bool) {
	for _, m := range d.Models {
		if m.Name == provider && (model == "" || m.Model == model) {
			return m.Name, true
		}
	}
	for _, m := range d.Models {
		if m.Provider == provider && (model == "" || m.Model == model) {
			return m.Name, true
		}
	}
	return "", false
}

// planner returns the name of the model that plans: the one asked for, else the default, else the first.
func (d definition) planner(in input) string {
	if in.Provider != "" {
		name, _ := d.find(in.Provider, in.Model)
		return name
	}
	if name, ok := d.find("default", ""); ok || len(d.Models) == 0 {
		return name
	}
	return d.Models[0].Name
}

// names lists the models that there are.
func (d definition) names() []string {
	names := make([]string, len(d.Models))
	for i, m := range d.Models {
		names[i] = m.Name
	}
	return names
}

// Executor carries runs of graphs.
type Executor struct{}

// Kind implements [engine.Executor].
func (Executor) Kind() string { return "dag" }

// Prepare implements [engine.Executor].
func (Executor) Prepare(parts engine.Parts, r engine.Request) (p engine.Prepared, err error) {
	var in input
	d := json.NewDecoder(bytes.NewReader(r.Input))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return p, &record.InvalidError{Code: record.CodeInvalidValue, Field: "input", Reason: "must be an object with prompt, and provider and model if wanted: " + err.Error()}
	}
	if strings.TrimSpace(in.Prompt) == "" {
		return p, &record.InvalidError{Code: record.CodeMissingField, Field: "input.prompt", Reason: "is required"}
	}
	var def definition
	for _, thing := range parts.Provides() {
		if name, ok := strings.CutPrefix(thing, "model:"); ok {
			if m, ok := parts.Model(name); ok {
				def.Models = append(def.Models, available{name, m.Provider(), m.Name()})
			}
		}
	}
	if in.Provider == "" && in.Model != "" {
		return p, &record.InvalidError{Code: record.CodeMissingField, Field: "input.provider", Reason: "is required with a model"}
	}
	p.ModelName = def.planner(in)
	if p.ModelName == "" {
		return p, &engine.UnknownError{Kind: "provider", Name: strings.TrimSpace(in.Provider + " " + in.Model), There: def.names()}
	}
	in.Prompt = parts.Redact(in.Prompt)
	if p.Input, err = json.Marshal(in); err != nil {
		return p, err
	}
	if p.Definition, err = json.Marshal(def); err != nil {
		return p, err
	}
	p.Name, p.UserRequest, p.Title, p.Needs = r.Name, in.Prompt, firstWords(in.Prompt), []string{"model:" + p.ModelName}
	return p, nil
}

// firstWords returns the title of a task that has none.
func firstWords(task string) string {
	words := strings.Fields(task)
	if len(words) <= 6 {
		return strings.Join(words, " ")
	}
	return strings.Join(words[:6], " ") + "..."
}
