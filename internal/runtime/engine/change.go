package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// Changes are what a fork has otherwise than the run that it goes on from. What is nil stays.
type Changes struct {
	// SystemPrompt, Model, Temperature, MaxTokens and Tools are those of the agent in whose step the fork goes on. Tools
	// are names and patterns.
	SystemPrompt *string
	Model        *string // its name in the configuration
	Temperature  *float64
	MaxTokens    *int64
	Tools        *[]string
	Limits       NewLimits // of the run, one by one
	Request      *string   // what the run was asked for, in words
	// Rows are rows before that from which the fork goes on, by their addresses.
	Rows map[string]RowChange
}

// RowChange is another answer of the model of a cycle, or another result of a tool call.
type RowChange struct {
	ThinkOutput, Result *string
}

func (c *Changes) check(parts Parts) error {
	if err := c.Limits.check(); err != nil {
		if invalid, ok := errors.AsType[*record.InvalidError](err); ok {
			return BadInput("changes."+invalid.Field, invalid.Reason)
		}
		return err
	}

	switch {
	case c.Request != nil && strings.TrimSpace(*c.Request) == "":
		return BadInput("changes.request", "must not be empty")
	case c.Temperature != nil && !(*c.Temperature >= 0 && *c.Temperature <= 2):
		return BadInput("changes.temperature", "must be from 0 to 2")
	case c.MaxTokens != nil && (*c.MaxTokens < 1 || *c.MaxTokens > record.MaxCount):
		return BadInput("changes.maxTokens", "must be 1 or more")
	}

	if c.Model != nil {
		if _, known := parts.Model(*c.Model); !known {
			unknown := &UnknownError{Kind: "model", Name: *c.Model}
			for _, m := range Models(parts) {
				unknown.There = append(unknown.There, m.Name)
			}
			return BadInput("changes.model", unknown.Error())
		}
	}
	return c.checkRows()
}

// rowMembers are what can be changed of rows, by their kinds.
var rowMembers = map[string]func(RowChange) (is, other *string){
	"cycle": func(c RowChange) (is, other *string) { return c.ThinkOutput, c.Result },
	"call":  func(c RowChange) (is, other *string) { return c.Result, c.ThinkOutput },
}

func (c *Changes) checkRows() error {
	for _, address := range slices.Sorted(maps.Keys(c.Rows)) {
		kind, _, _ := strings.Cut(address, ":")
		of, ok := rowMembers[kind]
		if !ok {
			return BadInput("changes.rows", shortText(address)+" is neither cycle:STEP/SEQ nor call:STEP/SEQ/CALL")
		}
		if is, other := of(c.Rows[address]); is == nil || other != nil {
			return BadInput("changes.rows", shortText(address)+": a cycle takes thinkOutput, a call result")
		}
	}
	return nil
}

// cycles returns the cycles whose answers are changed.
func (c *Changes) cycles() (all []runstore.Cycle) {
	for address := range c.Rows {
		path, isCycle := strings.CutPrefix(address, "cycle:")
		stepID, seq, _ := strings.Cut(path, "/")
		if n, err := strconv.ParseInt(seq, 10, 32); isCycle && err == nil {
			all = append(all, runstore.Cycle{StepID: stepID, Seq: n})
		}
	}
	return all
}

// withRequest returns an input with another text: in a member, or in the last of its messages.
func withRequest(input json.RawMessage, member, text string) (changed json.RawMessage, ok bool) {
	members := membersOf(input)
	var messages []map[string]any
	var before string
	switch {
	case json.Unmarshal(members[member], &before) == nil && before != "":
		members[member], _ = json.Marshal(text) // a text
	case json.Unmarshal(members["messages"], &messages) == nil && len(messages) > 0:
		messages[len(messages)-1]["content"] = text
		members["messages"], _ = json.Marshal(messages) // was decoded from JSON
	default:
		return nil, false
	}
	changed, err := json.Marshal(members)
	return changed, err == nil
}

// definitionChange is what is changed in the definition of an agent, wherever that stands in what a run pinned.
type definitionChange struct {
	Agent string          `json:"agent"`
	Patch json.RawMessage `json:"patch"` // a JSON merge patch
}

// patch returns what is changed in the definition of an agent, and the name of a member that does so; empty: none
// does.
func (c *Changes) patch(parts Parts) (field string, patch json.RawMessage) {
	all, ofModel := map[string]any{}, map[string]any{}
	if c.SystemPrompt != nil {
		field, all["systemPrompt"] = "systemPrompt", parts.Redact(*c.SystemPrompt)
	}
	if c.Tools != nil {
		field = "tools"
		maps.Copy(all, toolsPatch(parts, *c.Tools))
	}

	if c.MaxTokens != nil {
		field, ofModel["maxTokens"] = "maxTokens", *c.MaxTokens
	}
	if c.Temperature != nil {
		field, ofModel["temperature"] = "temperature", *c.Temperature
	}
	if c.Model != nil {
		m, _ := parts.Model(*c.Model) // is there: see check
		field = "model"
		ofModel["name"], ofModel["provider"] = *c.Model, m.Provider()
		ofModel["model"] = m.Name()
	}
	if len(ofModel) > 0 {
		all["model"] = ofModel
	}

	patch, _ = json.Marshal(all) // texts and numbers
	return field, patch
}

// toolsPatch returns what an agent has that has tools by names and patterns: as with one that the file defines, the MCP
// servers that some are of, and the policies that are in force.
func toolsPatch(parts Parts, tools []string) map[string]any {
	a := define.Agent{Tools: tools}
	d := a.Definition("", define.DefinitionModel{}, Provided(parts, "mcp"), parts.Policies())
	return map[string]any{"tools": d.Tools, "mcpServers": d.MCPServers, "allOf": nil, "policies": d.Policies}
}

// changedDefinition returns a definition after what is changed in it; nil: nothing is.
func changedDefinition(definition, changes json.RawMessage) (json.RawMessage, error) {
	if changes == nil {
		return definition, nil
	}

	var all []definitionChange
	if err := json.Unmarshal(changes, &all); err != nil {
		return nil, fmt.Errorf("read what is changed in a definition: %w", err)
	}
	for _, c := range all {
		var err error
		if definition, _, err = c.apply(definition); err != nil {
			return nil, err
		}
	}
	return definition, nil
}

// AgentIn returns the definition of an agent in that of a run, with what is changed in it; nil: it has none.
func AgentIn(definition, changes json.RawMessage, agent string) (*define.Definition, error) {
	changed, err := changedDefinition(definition, changes)
	if err != nil {
		return nil, err
	}
	_, d, err := definitionChange{agent, json.RawMessage(`{}`)}.apply(changed)
	return d, err
}

// apply changes the definition of the agent wherever it stands in another one. changed is that of the agent; nil: there
// is none.
func (c definitionChange) apply(to json.RawMessage) (after json.RawMessage, changed *define.Definition, err error) {
	if d, ok := asDefinition(to); ok && d.Agent == c.Agent {
		if after, err = merge(to, c.Patch); err == nil {
			changed, _ = asDefinition(after)
		}
		return after, changed, err
	}

	var list []json.RawMessage
	if json.Unmarshal(to, &list) == nil {
		for i := range list {
			if err := c.applyIn(&list[i], &changed); err != nil {
				return nil, nil, err
			}
		}
		after, err = json.Marshal(list)
		return after, changed, err
	}

	members := membersOf(to)
	if members == nil {
		return to, nil, nil
	}
	for name, member := range members {
		if err := c.applyIn(&member, &changed); err != nil {
			return nil, nil, err
		}
		members[name] = member
	}
	after, err = json.Marshal(members)
	return after, changed, err
}

// applyIn changes a part of a definition, and sets changed if that is changed.
func (c definitionChange) applyIn(part *json.RawMessage, changed **define.Definition) error {
	after, d, err := c.apply(*part)
	if err != nil || d == nil {
		return err
	}
	*part, *changed = after, d
	return nil
}

// asDefinition reads the definition of an agent. ok is false if it is something else.
func asDefinition(raw json.RawMessage) (d *define.Definition, ok bool) {
	var has struct{ Agent, Model json.RawMessage }
	if json.Unmarshal(raw, &has) != nil || membersOf(has.Model) == nil || json.Unmarshal(raw, &d) != nil || d.Agent == "" {
		return nil, false
	}
	return d, true
}
