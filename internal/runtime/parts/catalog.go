package parts

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor"
	"github.com/actlog/actlog/record"
)

// Models returns the models that there are.
func (s *Source) Models() []engine.ModelInfo {
	p, release := s.Use()
	defer release()
	return engine.Models(p)
}

// Startables returns what there is of which runs can be started.
func (s *Source) Startables() []engine.Startable {
	p, release := s.Use()
	defer release()
	return executor.Startables(p)
}

// Tool returns the request that runs what has a name as a tool, with parameters: an agent, whose
// parameter is request, or a plan template, whose parameters are its placeholders; others are left out.
// The name may be that of the tool, such as plan.nightly. templateID is that of a template.
func (s *Source) Tool(name string, parameters map[string]string) (r engine.Request, templateID string, err error) {
	p, release := s.Use()
	defer release()
	kind, of, _ := strings.Cut(name, ".")
	for _, k := range []string{"agent", "plan"} {
		if _, ok := p.Definition(k, name); ok {
			kind, of = k, name
			break
		}
	}

	body, ok := p.Definition(kind, of)
	if ok && kind == "agent" {
		r, err = agentRequest(of, parameters)
		return r, "", err
	}
	if !ok || kind != "plan" {
		return r, "", fmt.Errorf("agent or plan template %q: %w", name, record.ErrNotFound)
	}

	var d struct{ Placeholders []string }
	if err := json.Unmarshal(body, &d); err != nil {
		return r, "", err
	}
	if name, lacks := define.Lacking(d.Placeholders, parameters); lacks {
		return r, "", &record.InvalidError{
			Code: record.CodeMissingField, Field: name, Reason: "has no value: the template needs it",
		}
	}

	values := map[string]string{}
	for _, each := range d.Placeholders {
		values[each] = parameters[each]
	}
	input, err := json.Marshal(values)
	return engine.Request{Executor: "plan", Name: of, Input: input}, of, err
}

func agentRequest(name string, parameters map[string]string) (r engine.Request, err error) {
	request, ok := parameters["request"]
	if !ok {
		return r, &record.InvalidError{
			Code: record.CodeMissingField, Field: "replacementParams.request", Reason: "is required: what the agent is to do",
		}
	}
	input, err := json.Marshal(map[string]string{"agent": name, "request": request})
	return engine.Request{Executor: "agent", Name: name, Input: input}, err
}

// Rules returns the policies that there are.
func (s *Source) Rules() tool.Rules {
	p, release := s.use()
	defer release()
	return p.Policies()
}

// Model returns the host that a model of the configuration is asked at, empty if it is its provider's own, and how many
// requests at the same time it takes; 0: any number.
func (s *Source) Model(name string) (host string, maxConcurrent int) {
	p, release := s.use()
	defer release()
	if p.own.Models[name] != nil {
		return "", 0
	}
	m := p.configured.Models[name]
	return m.Host, m.MaxConcurrent
}
