package otlp

import (
	"cmp"
	"strings"
	"time"
)

// genAI is OpenTelemetry's own convention, gen_ai.*, with its older spellings.
var genAI = convention{
	kind: "gen_ai.operation.name",
	classes: map[string]Class{
		"chat": Model, "generate_content": Model, "text_completion": Model, "invoke_agent": Agent, "execute_tool": Tool,
		"agent_step": Cycle, "execute_event_loop_cycle": Cycle, "execute_agent_loop_cycle": Cycle,
		"invoke_workflow": Transparent, "plan": Transparent, "embeddings": Transparent, "retrieval": Transparent,
		"create_agent": Transparent, "handoff": Transparent, "goto": Transparent,
		"search_memory": Transparent, "create_memory": Transparent, "update_memory": Transparent, "upsert_memory": Transparent,
		"delete_memory": Transparent, "create_memory_store": Transparent, "delete_memory_store": Transparent,
	},
	read: func(s *Span, f *Facts) {
		if s.Attributes.hasPrefix("gen_ai.") {
			readGenAI(s, f)
		}
		if f.Input == "" || f.Output == "" {
			readEvents(s, f)
		}
	},
}

func readGenAI(s *Span, f *Facts) {
	a := s.Attributes
	fill(&f.Workflow, a, "gen_ai.workflow.name")
	fill(&f.Agent, a, "gen_ai.agent.name")
	fill(&f.AgentDescription, a, "gen_ai.agent.description")
	fill(&f.AgentVersion, a, "gen_ai.agent.version")
	fill(&f.Tool, a, "gen_ai.tool.name")
	fill(&f.CallID, a, "gen_ai.tool.call.id")
	fill(&f.Arguments, a, "gen_ai.tool.call.arguments")
	fill(&f.Result, a, "gen_ai.tool.call.result")
	fill(&f.Model, a, "gen_ai.response.model", "gen_ai.request.model")
	fill(&f.Provider, a, "gen_ai.provider.name", "gen_ai.system")
	fill(&f.System, a, "gen_ai.system_instructions")
	fill(&f.Input, a, "gen_ai.input.messages")
	fill(&f.Output, a, "gen_ai.output.messages")
	if f.Input == "" {
		f.Input = flattened(a, "gen_ai.prompt.")
	}
	if f.Output == "" {
		f.Output = flattened(a, "gen_ai.completion.")
	}
	fill(&f.Input, a, "gen_ai.prompt")
	fill(&f.Output, a, "gen_ai.completion")
	if reasons := list(a.first("gen_ai.response.finish_reasons", "gen_ai.completion.0.finish_reason")); len(reasons) > 0 {
		f.Finish = cmp.Or(f.Finish, reasons[0])
	}
	fill(&f.Conversation, a, "gen_ai.conversation.id")
	f.Usage.fill(Usage{
		Input:  a.count("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.usage.prompt_tokens"),
		Output: a.count("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.usage.completion_tokens"),
		CacheRead: a.count("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens",
			"gen_ai.usage.cache_read_tokens", "gen_ai.usage.details.cache_read_tokens", "gen_ai.usage.input_tokens.cached"),
		CacheWrite: a.count("gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.cache_creation_input_tokens",
			"gen_ai.usage.cache_write_input_tokens", "gen_ai.usage.cache_write_tokens", "gen_ai.usage.details.cache_write_tokens"),
		Reasoning: a.count("gen_ai.usage.reasoning.output_tokens", "gen_ai.usage.reasoning_tokens", "gen_ai.usage.details.reasoning_tokens"),
	})
	f.CostUSD = cmp.Or(f.CostUSD, money(a.first("gen_ai.usage.cost", "operation.cost")))
	f.FirstToken = cmp.Or(f.FirstToken, after(s.Start, a.first("gen_ai.response.time_to_first_chunk",
		"gen_ai.client.operation.time_to_first_chunk", "gen_ai.server.time_to_first_token"), time.Second))
}

// readEvents reads the messages from a span's events, or from log records that became events: all
// messages in one event, or one message per event.
func readEvents(s *Span, f *Facts) {
	var input, output []byte
	for i := range s.Events {
		e := &s.Events[i]
		kind, ok := strings.CutPrefix(e.Name, "gen_ai.")
		if !ok {
			continue
		}
		body := e.Attributes.Get(logBody)
		get := func(key string) string { return cmp.Or(e.Attributes.Get(key), memberText(body, key)) }
		switch kind {
		case "client.inference.operation.details":
			f.Input = cmp.Or(f.Input, get("gen_ai.input.messages"))
			f.Output = cmp.Or(f.Output, get("gen_ai.output.messages"))
			f.System = cmp.Or(f.System, get("gen_ai.system_instructions"))
		case "choice":
			if f.Class == Tool {
				continue
			}
			output = appendEventMessage(output, "assistant", e.Attributes, body)
			f.Finish = cmp.Or(f.Finish, get("finish_reason"))
		case "system.message", "user.message", "assistant.message", "tool.message":
			input = appendEventMessage(input, strings.TrimSuffix(kind, ".message"), e.Attributes, body)
		case "content.prompt":
			f.Input = cmp.Or(f.Input, get("gen_ai.prompt"))
		case "content.completion":
			f.Output = cmp.Or(f.Output, get("gen_ai.completion"))
		}
	}
	if f.Input == "" && input != nil {
		f.Input = string(append(input, ']'))
	}
	if f.Output == "" && output != nil {
		f.Output = string(append(output, ']'))
	}
}

// appendEventMessage adds the message of an event to a list. The message is in the attributes, or in
// the body that the event had as a log record.
func appendEventMessage(b []byte, role string, a Attributes, body string) []byte {
	if b == nil {
		b = []byte{'['}
	}
	b = appendMember(append(comma(b), '{'), "role", role)
	if strings.HasPrefix(body, "{") && isJSON(body) {
		source := body
		if inner := member(body, "message"); strings.HasPrefix(inner, "{") {
			source = inner
		}
		for key, value := range members(source) {
			switch key {
			case "content", "tool_calls":
				b = appendRaw(b, key, value)
			case "id":
				b = appendRaw(b, "tool_call_id", value)
			}
		}
	} else if body != "" {
		b = appendMember(b, "content", body)
	}
	for i := range a {
		v := a[i].Value.Text
		switch a[i].Key {
		case "content", "gen_ai.event.content":
			b = appendRaw(b, "content", asJSON(v))
		case "message":
			if !strings.HasPrefix(v, "{") || !isJSON(v) { // the content of a message
				b = appendRaw(b, "content", asJSON(v))
				continue
			}
			for key, value := range members(v) {
				if key == "content" || key == "tool_calls" {
					b = appendRaw(b, key, value)
				}
			}
		case "tool_calls":
			b = appendRaw(b, "tool_calls", asJSON(v))
		case "id":
			if role == "tool" {
				b = appendMember(b, "tool_call_id", v)
			}
		}
	}
	return append(b, '}')
}
