package parts

import (
	"encoding/json"
	"fmt"

	"github.com/actlog/actlog/internal/engine"
	"github.com/actlog/actlog/record"
)

// Tool returns the request that runs what has a name as a tool, with parameters: an agent, whose
// parameter is request. templateID is that of a plan template, which no executor here carries yet.
func (s *Source) Tool(name string, parameters map[string]string) (r engine.Request, templateID string, err error) {
	p, release := s.Use()
	defer release()
	if _, ok := p.Definition("agent", name); !ok {
		return r, "", fmt.Errorf("agent %q: %w", name, record.ErrNotFound)
	}
	request, ok := parameters["request"]
	if !ok {
		return r, "", &record.InvalidError{Code: record.CodeMissingField, Field: "replacementParams.request", Reason: "is required: what the agent is to do"}
	}
	input, err := json.Marshal(map[string]string{"agent": name, "request": request})
	return engine.Request{Executor: "agent", Name: name, Input: input}, "", err
}
