package engine

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/actlog/actlog/internal/runtime/define"
)

// Plain is for executors to embed whose runs are given a text, for a model of the configuration, and nothing else.
type Plain struct{}

// PlainInput is the input of a run of an executor that embeds [Plain].
type PlainInput struct {
	Request string `json:"request"`
	Model   string `json:"model"` // its name in the configuration. Default: default, or else the first
}

var textSchema = json.RawMessage(`{"type":"object","required":["request"],"properties":{` +
	`"request":{"type":"string"},"model":{"type":"string"}}}`)

// Prepare implements [Executor].
func (Plain) Prepare(parts Parts, r Request) (p Prepared, err error) {
	var in PlainInput
	if err := ReadInput(r.Input, "an object with request", &in); err != nil {
		return p, err
	}

	switch {
	case r.Name != "":
		return p, &UnknownError{Kind: r.Executor, Name: r.Name}
	case strings.TrimSpace(in.Request) == "":
		return p, NoInput("input.request")
	case in.Model == "":
		in.Model = defaultModel(parts)
	}
	in.Request = parts.Redact(in.Request)

	p.UserRequest, p.Title = in.Request, Title(in.Request)
	p.Needs = []string{"model:" + in.Model}
	if m, ok := parts.Model(in.Model); ok { // else the start of the run says what there is
		p.ModelName = m.Name()
	}
	p.Input, err = json.Marshal(in)
	return p, err
}

// defaultModel returns the name of the model that is called default, or else of the first one. Without any it is
// default, too.
func defaultModel(parts Parts) string {
	all := Models(parts)
	if len(all) == 0 || slices.ContainsFunc(all, func(m ModelInfo) bool { return m.Name == define.DefaultModel }) {
		return define.DefaultModel
	}
	return all[0].Name
}

// Asked returns the input of a run, and its model.
func (Plain) Asked(run *Run) (in PlainInput, m Model, err error) {
	if err := run.Read(&in, nil); err != nil {
		return in, m, err
	}
	m, err = run.Model(in.Model)
	return in, m, err
}
