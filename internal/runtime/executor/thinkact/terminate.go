package thinkact

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
)

// terminateTool is the name of the tool by which an agent says that it is done.
const terminateTool = "terminate"

// plainTerminate returns the one whose message is a text. All runs share it, because a schema takes 8 kB of memory.
var plainTerminate = sync.OnceValues(func() (tool.Tool, error) { return newTerminate(json.RawMessage(`{"type":"string"}`)) })

// terminateOf returns that tool. Its message is the answer: what fits the schema, or a text without one.
func terminateOf(schema json.RawMessage) (tool.Tool, error) {
	if schema == nil {
		return plainTerminate()
	}
	return newTerminate(schema)
}

// Offered implements [engine.Offering].
func (Executor) Offered(_ json.RawMessage, d define.Definition) (more []tool.Tool, offers bool, err error) {
	terminate, err := terminateOf(d.ResponseSchema)
	return []tool.Tool{terminate}, true, err
}

func newTerminate(answer json.RawMessage) (tool.Tool, error) {
	arguments, err := json.Marshal(map[string]any{
		"type": "object", "properties": map[string]json.RawMessage{"message": answer}, "required": []string{"message"},
		"additionalProperties": false,
	})
	var t tool.Tool
	if err == nil {
		t, err = tool.SchemaFunc(terminateTool, "Ends your work. The message is your answer to the request.", arguments,
			func(_ context.Context, call tool.Call) (tool.Result, error) {
				return tool.Result{Text: message(call.Arguments)}, nil
			}, tool.WithPolicy(tool.Policy{OnUnknown: tool.Retry}))
	}
	if err != nil {
		return nil, engine.Fail("configuration", "The response schema is not valid: %v", err)
	}
	return t, nil
}

// terminateWith returns a call that ends the work with a text.
func terminateWith(text string, schema json.RawMessage) model.ToolCall {
	message := json.RawMessage(text)
	if schema == nil || !json.Valid(message) {
		message, _ = json.Marshal(text) // a text
	}
	arguments, _ := json.Marshal(map[string]json.RawMessage{"message": message}) // valid JSON
	return model.ToolCall{ID: "terminate", Name: terminateTool, Arguments: string(arguments)}
}

// message returns the answer in the arguments of the call: a text as it is, anything else as JSON.
func message(arguments json.RawMessage) string {
	var in struct{ Message json.RawMessage }
	var text string
	if json.Unmarshal(arguments, &in) != nil || json.Unmarshal(in.Message, &text) != nil {
		return string(in.Message)
	}
	return text
}
