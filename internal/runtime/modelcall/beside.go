package modelcall

import (
	"encoding/json"
	"slices"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/record"
)

// read takes tools and settings from the members of an object, in place of those that it has. What cannot be read is
// left out.
func (r *Request) read(raw json.RawMessage) {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return
	}

	for _, name := range []string{"tools", "functions"} {
		if tools := toolsOf(m[name]); len(tools) > 0 {
			r.Tools = tools
			break
		}
	}
	var temperature *float64
	_ = json.Unmarshal(m["temperature"], &temperature) // else it is left out
	if temperature != nil && *temperature >= 0 && *temperature <= 2 {
		r.Temperature = temperature
	}

	for _, name := range []string{"max_completion_tokens", "max_output_tokens", "max_tokens", "maxTokens"} {
		var most int64
		if json.Unmarshal(m[name], &most) == nil && most > 0 && most <= record.MaxCount {
			r.MaxTokens = most
			return
		}
	}
}

// toolsOf returns the tools that a list defines, in the form of any provider. Those that cannot be offered are left
// out, and so is another one of the same name.
func toolsOf(raw json.RawMessage) (all []model.ToolSpec) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}

	for _, each := range list {
		for _, t := range definedIn(each) {
			same := func(other model.ToolSpec) bool { return model.OfferedName(other.Name) == model.OfferedName(t.Name) }
			if tool.CheckName(t.Name) == nil && !slices.ContainsFunc(all, same) {
				all = append(all, t)
			}
		}
	}
	return all
}

// definition is a tool as providers and frameworks define it: by itself, as a function, or as one of several.
type definition struct {
	Name        string
	Description string
	// Each of these is the schema of the arguments.
	Parameters, InputSchema, Snake, JSONSchema json.RawMessage

	Function  *definition
	Functions []definition
}

// UnmarshalJSON implements [json.Unmarshaler]. Members of another type than they should be are left out.
func (d *definition) UnmarshalJSON(raw []byte) error {
	var m map[string]json.RawMessage
	var text string
	if json.Unmarshal(raw, &text) == nil { // JSON in a text
		raw = []byte(text)
	}
	_ = json.Unmarshal(raw, &m) // of anything else, nothing is taken

	for member, to := range map[string]any{
		"name": &d.Name, "description": &d.Description, "function": &d.Function,
		"functionDeclarations": &d.Functions, "function_declarations": &d.Functions,
	} {
		_ = json.Unmarshal(m[member], to) // else it is left out
	}
	d.Parameters, d.InputSchema = m["parameters"], m["inputSchema"]
	d.Snake, d.JSONSchema = m["input_schema"], m["json_schema"]
	return nil
}

// definedIn returns the tools that a value defines.
func definedIn(raw json.RawMessage) (all []model.ToolSpec) {
	var d definition
	if json.Unmarshal(raw, &d) != nil {
		return nil
	}
	if d.Function != nil {
		return []model.ToolSpec{d.Function.spec()}
	}

	for _, f := range d.Functions {
		all = append(all, f.spec())
	}
	if d.Name != "" {
		all = append(all, d.spec())
	}
	return all
}

// spec returns the tool. One whose schema is none of an object takes any arguments.
func (d definition) spec() model.ToolSpec {
	s := model.ToolSpec{Name: d.Name, Description: d.Description, Schema: json.RawMessage(`{"type":"object"}`)}
	for _, schema := range []json.RawMessage{d.Parameters, d.InputSchema, d.Snake, d.JSONSchema} {
		if len(schema) > 0 && tool.CheckSchema(schema) == nil {
			s.Schema = schema
			break
		}
	}
	return s
}
