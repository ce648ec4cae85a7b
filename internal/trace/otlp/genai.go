package otlp

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// genAI is OpenTelemetry's own convention, gen_ai.*, with its older spellings.
var genAI = convention{
	kind: "gen_ai.operation.name",
	classes: map[string]Class{
		"chat": Model, "generate_content": Model, "text_completion": Model, "invoke_agent": Agent, "execute_tool": Tool,
		"user_prompt": Agent, "agent_call": Agent, "llm_call": Model, "tool_call": Tool, // Gemini CLI's
		"agent_step": Cycle, "execute_event_loop_cycle": Cycle, "execute_agent_loop_cycle": Cycle,
		"invoke_workflow": Transparent, "plan": Transparent, "embeddings": Transparent, "retrieval": Transparent,
		"create_agent": Transparent, "handoff": Transparent, "goto": Transparent,
		"search_memory": Transparent, "create_memory": Transparent, "update_memory": Transparent,
		"upsert_memory": Transparent,
		"delete_memory": Transparent, "create_memory_store": Transparent, "delete_memory_store": Transparent,
	},
	read: func(s *Span, f *Facts) {
		if s.Attributes.HasPrefix("gen_ai.") || s.Attributes.HasPrefix("llm.usage.") {
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
	fill(&f.agentID, a, "gen_ai.agent.id")
	fill(&f.AgentDescription, a, "gen_ai.agent.description")
	fill(&f.AgentVersion, a, "gen_ai.agent.version")

	fill(&f.Tool, a, "gen_ai.tool.name")
	fill(&f.CallID, a, "gen_ai.tool.call.id", "gen_ai.tool.call_id")
	fill(&f.Arguments, a, "gen_ai.tool.call.arguments")
	fill(&f.Result, a, "gen_ai.tool.call.result")

	fill(&f.Model, a, "gen_ai.response.model", "gen_ai.request.model")
	fill(&f.Provider, a, "gen_ai.provider.name", "gen_ai.system")
	fill(&f.System, a, "gen_ai.system_instructions")
	fill(&f.Input, a, "gen_ai.input.messages")
	if f.Output == "" {
		f.Output = joined(a.Get("gen_ai.output.messages"))
	}

	if f.Input == "" {
		f.Input = flattened(a, "gen_ai.prompt.")
	}
	if f.Output == "" {
		f.Output = flattened(a, "gen_ai.completion.")
	}
	fill(&f.Input, a, "gen_ai.prompt")
	fill(&f.Output, a, "gen_ai.completion")

	if reasons := list(a.First("gen_ai.response.finish_reasons", "gen_ai.completion.0.finish_reason")); len(reasons) > 0 {
		f.Finish = cmp.Or(f.Finish, reasons[0])
	}
	fill(&f.ResponseID, a, "gen_ai.response.id")
	fill(&f.Conversation, a, "gen_ai.conversation.id")

	usage := Usage{
		Input:  countOf(a, "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.usage.prompt_tokens"),
		Output: countOf(a, "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.usage.completion_tokens"),
		CacheRead: countOf(a, "gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens",
			"gen_ai.usage.cache_read_tokens", "gen_ai.usage.details.cache_read_tokens", "gen_ai.usage.input_tokens.cached"),
		CacheWrite: countOf(a, "gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.cache_creation_input_tokens",
			"gen_ai.usage.cache_write.input_tokens", "gen_ai.usage.cache_write_input_tokens", "gen_ai.usage.cache_write_tokens",
			"gen_ai.usage.details.cache_write_tokens", "gen_ai.usage.input_tokens.cache_write"),
		Reasoning: countOf(a, "gen_ai.usage.reasoning.output_tokens", "gen_ai.usage.reasoning_tokens",
			"gen_ai.usage.thinking_tokens",
			"gen_ai.usage.details.reasoning_tokens", "gen_ai.usage.completion_tokens_details.reasoning_tokens",
			"gen_ai.usage.output_tokens.reasoning"),
		Total: countOf(a, "gen_ai.usage.total_tokens", "llm.usage.total_tokens"),
	}
	usage.addParts(a, "gen_ai.usage.") // by other names
	usage.addParts(a, "llm.usage.")
	f.Usage.fill(usage)

	f.CostUSD = cmp.Or(f.CostUSD,
		money(a.First("gen_ai.usage.cost", "operation.cost", "gen_ai.cost.total_cost", "gen_ai.cost.total")))
	if f.CostUSD == nil {
		f.CostUSD = sum(money(a.Get("gen_ai.cost.input_cost")), money(a.Get("gen_ai.cost.output_cost")))
	}

	token := a.Get("gen_ai.server.time_to_first_token") // some count milliseconds
	f.FirstToken = cmp.Or(f.FirstToken,
		after(s, a.First("gen_ai.response.time_to_first_chunk", "gen_ai.client.operation.time_to_first_chunk",
			"gen_ai.response.time_to_first_token"), time.Second),
		within(s, after(s, token, time.Second)), after(s, token, time.Millisecond))
}

// readEvents reads the messages from a span's events, or from log records that became events: all
// messages in one event, or one message per event.
func readEvents(s *Span, f *Facts) {
	var input []byte
	var choices []choice
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
			f.Output = cmp.Or(f.Output, joined(get("gen_ai.output.messages")))
			f.System = cmp.Or(f.System, get("gen_ai.system_instructions"))
		case "choice":
			if f.Class == Tool {
				continue
			}
			c := choice{message: string(appendEventMessage(nil, "assistant", e.Attributes, body)), finish: get("finish_reason")}
			choices = append(choices, c)
			f.Finish = cmp.Or(f.Finish, c.finish)
		case "system.message", "user.message", "assistant.message", "tool.message":
			if input == nil {
				input = []byte{'['}
			}
			input = appendEventMessage(comma(input), strings.TrimSuffix(kind, ".message"), e.Attributes, body)
		case "content.prompt":
			f.Input = cmp.Or(f.Input, get("gen_ai.prompt"))
		case "content.completion":
			f.Output = cmp.Or(f.Output, get("gen_ai.completion"))
		}
	}

	if f.Input == "" && input != nil {
		f.Input = string(append(input, ']'))
	}
	if f.Output == "" && choices != nil {
		chunked := slices.ContainsFunc(choices, func(c choice) bool { return c.finish != "" })
		f.Output = listOfChoices(choices, chunked)
	}
}

// appendEventMessage writes the message of an event. The message is in the attributes, or in the body
// that the event had as a log record.
func appendEventMessage(b []byte, role string, a Attributes, body string) []byte {
	b = appendMember(append(b, '{'), "role", role)
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

// choice is a message of an output, or a chunk of one.
type choice struct {
	message string // JSON
	finish  string // why the model stopped, "" if this is a chunk that others follow
}

// joined returns the messages of an output with the chunks of a stream joined. Every message of an
// output must tell why the model stopped; one that does not is a chunk, and the next belongs to it.
func joined(output string) string {
	n := 0
	for range elements(output) {
		n++
	}
	if n < 2 || !strings.Contains(output, `"finish_reason"`) || !isJSON(output) {
		return output
	}

	choices := make([]choice, 0, n)
	for e := range elements(output) {
		choices = append(choices, choice{e, memberText(e, "finish_reason")})
	}
	return listOfChoices(choices, true)
}

// listOfChoices returns choices as a list of messages. If there may be chunks, it joins them.
func listOfChoices(choices []choice, chunked bool) string {
	b := []byte{'['}
	for len(choices) > 0 {
		n := 1
		for chunked && n < len(choices) && choices[n-1].finish == "" {
			n++
		}
		b = appendJoined(comma(b), choices[:n])
		choices = choices[n:]
	}
	return string(append(b, ']'))
}

// appendJoined writes the message of some chunks: their parts in order, with neighbouring texts put
// together. Some streams end with the whole message instead of its last chunk.
func appendJoined(b []byte, chunks []choice) []byte {
	last := chunks[len(chunks)-1]
	if len(chunks) == 1 || isWhole(last, chunks[:len(chunks)-1]) {
		return append(b, last.message...)
	}

	b = appendMember(append(b, '{'), "role", cmp.Or(memberText(last.message, "role"), "assistant"))
	b = append(appendName(b, "parts"), '[')
	kind, joined := "", ""
	flush := func() {
		if joined != "" {
			b = append(appendMember(appendMember(append(comma(b), '{'), "type", kind), "content", joined), '}')
		}
		kind, joined = "", ""
	}

	for _, c := range chunks {
		for _, part := range parts(c.message) {
			k, content := textPart(part)
			if k != kind {
				flush()
			}
			if k == "" {
				b = append(comma(b), part...)
			}
			kind, joined = k, joined+content
		}
	}

	flush()
	b = append(b, ']')
	if last.finish != "" {
		b = appendMember(b, "finish_reason", last.finish)
	}
	return append(b, '}')
}

// isWhole reports whether a message has the text of all chunks before it.
func isWhole(last choice, chunks []choice) bool {
	var b strings.Builder
	answerOf := func(message string) string {
		c := readChat(message)
		return cmp.Or(c.last("assistant"), c.last("model"))
	}
	for _, c := range chunks {
		b.WriteString(answerOf(c.message))
	}
	return b.Len() > 0 && b.String() == answerOf(last.message)
}

// parts returns the parts of a message, each as JSON.
func parts(message string) (all []string) {
	v := member(message, "parts", "content")
	if inner := member(v, "parts"); inner != "" { // Gemini's content
		v = inner
	}
	if v != "" && v[0] != '[' {
		all = append(all, v)
	}
	return slices.AppendSeq(slices.AppendSeq(all, elements(v)), elements(member(message, "tool_calls")))
}

// textPart returns the kind and the content of a part that is a text or reasoning, "" for any other.
func textPart(part string) (kind, content string) {
	if part[0] == '"' {
		return "text", text(part)
	}

	kind, content = memberText(part, "type"), memberText(part, "content", "text")
	switch {
	case kind == "text" || kind == "reasoning":
		return kind, content
	case kind != "" || content == "":
		return "", ""
	case member(part, "thought") == "true":
		return "reasoning", content
	}
	return "text", content
}
