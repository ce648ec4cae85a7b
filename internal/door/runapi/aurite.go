package runapi

import (
	"encoding/json"

	"github.com/actlog/actlog/internal/runtime/runs"
)

// aurite sends the events of an agent under the public names of Aurite, for clients that were made for it.
type aurite struct {
	begun bool // the first answer has begun
}

// of returns the events that a client gets for an event: none if it has no such name.
func (a *aurite) of(e runs.Event) (events []runs.Event) {
	add := func(kind string, data map[string]any) {
		events = append(events, runs.Event{Number: e.Number, Type: kind, Data: data})
	}

	if !a.begun && (e.Type == runs.TextDelta || e.Type == runs.ToolUseStart) {
		a.begun = true
		events = append(events, runs.Event{Type: "llm_response_start", Data: map[string]any{}})
	}

	switch e.Type {
	case runs.TextDelta:
		data := map[string]any{"content": e.Data["text"]}
		if e.Data["reset"] != nil {
			data["reset"] = true
		}
		add("llm_response", data)
	case runs.ToolUseInputDelta:
		add("tool_call", map[string]any{"name": e.Data["name"], "input": argumentsOf(e.Data["input"])})
	case runs.ToolResult:
		add("tool_output", map[string]any{"name": e.Data["name"], "output": e.Data["output"]})
	case runs.ToolExecutionError:
		add("tool_output", map[string]any{"name": e.Data["name"], "output": e.Data["error"]})
	case runs.ToolUseStart, runs.ToolUseEnd:
	case runs.StreamEnd:
		switch reason := e.Data["reason"]; reason {
		case "stop":
			add("llm_response_stop", map[string]any{"status": "success", "reason": "message_complete"})
		case "turn_limit_reached":
			add("llm_response_stop", map[string]any{"status": "error", "reason": reason})
		} // else there was an error, which is the last event
	default:
		add(e.Type, e.Data)
	}

	return events
}

// argumentsOf returns the arguments of a call, which need not be JSON.
func argumentsOf(text any) any {
	raw, _ := text.(string)
	if raw == "" {
		raw = "{}"
	}
	if json.Valid([]byte(raw)) {
		return json.RawMessage(raw)
	}
	return map[string]string{"raw_arguments": raw}
}
