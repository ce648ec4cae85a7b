package otlp

import (
	"cmp"
	"strings"
	"time"
)

// openInference is Arize's convention: openinference.span.kind, llm.*, input.value
// and output.value.
var openInference = convention{
	class: func(s *Span) Class {
		switch strings.ToUpper(s.Attributes.Get("openinference.span.kind")) {
		case "LLM":
			return Model
		case "TOOL":
			return Tool
		case "AGENT":
			if isGraphNode(s) {
				return Transparent
			}
			return Agent
		case "CHAIN":
			if s.Name == "turn" {
				return Cycle
			}
			return Transparent
		case "RETRIEVER", "EMBEDDING", "RERANKER", "GUARDRAIL", "EVALUATOR", "PROMPT":
			return Transparent
		}
		return Unclassified
	},
	read: func(s *Span, f *Facts) {
		a := s.Attributes
		if !a.has("openinference.") && !a.has("llm.") && !a.has("input.") && !a.has("output.") {
			return
		}
		input, output := a.Get("input.value"), a.Get("output.value")
		switch f.Class {
		case Tool:
			readTool(s, f, input, output)
		case Model:
			if f.Input == "" {
				f.Input = flattened(a, "llm.input_messages.")
			}
			if f.Output == "" {
				f.Output = flattened(a, "llm.output_messages.")
				f.calls = callsWithIDs(f.Output, output)
			}
		case Agent:
			fill(&f.Agent, a, "agent.name", "graph.node.name", "graph.node.id")
		}
		if f.Input == "" {
			f.Input = input
		}
		if f.Output == "" {
			f.Output = output
		}
		fill(&f.Agent, a, "agent.name")
		fill(&f.Model, a, "llm.model_name", "embedding.model_name")
		fill(&f.Provider, a, "llm.provider", "llm.system")
		if f.Class == Model && f.Provider == "" {
			f.Provider = text(member(a.Get("metadata"), "ls_provider")) // LangChain's
		}
		fill(&f.Finish, a, "llm.finish_reason")
		f.Usage.fill(Usage{
			Input: a.count("llm.token_count.prompt"), Output: a.count("llm.token_count.completion"),
			CacheRead:  a.count("llm.token_count.prompt_details.cache_read"),
			CacheWrite: a.count("llm.token_count.prompt_details.cache_write"),
			Reasoning:  a.count("llm.token_count.completion_details.reasoning"),
		})
		if f.CostUSD == nil {
			f.CostUSD = money(a.Get("llm.cost.total"))
		}
		fill(&f.Conversation, a, "session.id")
		fill(&f.User, a, "user.id")
		if f.Tags == nil {
			f.Tags = list(a.Get("tag.tags"))
		}
		for i := range s.Events {
			if f.FirstToken == 0 && s.Events[i].Name == "First Token Stream Event" {
				f.FirstToken = after(s.Events[i].Time, "0", time.Second)
			}
		}
	},
}

// isGraphNode tells a node of a LangGraph from an agent: the instrumentation calls
// every run an agent whose name holds the word, and a graph's node is often named
// so.
func isGraphNode(s *Span) bool {
	return strings.Contains(s.Scope.Name, "langchain") && text(member(s.Attributes.Get("metadata"), "langgraph_node")) == s.Name
}

func readTool(s *Span, f *Facts, input, output string) {
	a := s.Attributes
	fill(&f.Tool, a, "tool.name")
	if f.Tool == "" && s.Attributes.Get("openinference.span.kind") != "" {
		f.Tool = s.Name
	}
	fill(&f.CallID, a, "tool.id", "tool_call.id")
	if f.Arguments == "" {
		f.Arguments = input
	}
	if f.Result != "" || output == "" {
		return
	}
	f.Result = output
	if strings.Contains(output, "tool_call_id") && isJSON(output) { // a LangChain message
		source := output
		if inner := member(output, "output"); strings.HasPrefix(inner, "{") {
			source = inner
		}
		var c chat
		c.value(source, "", 0)
		for _, m := range c.messages {
			if len(m.responses) > 0 {
				r := m.responses[0]
				f.Result, f.Failed = r.result, f.Failed || r.failed
				f.CallID = cmp.Or(f.CallID, r.id)
				return
			}
		}
	}
}

// callsWithIDs gives the calls of the messages in attributes. Where those lack
// ids, the provider's answer in output.value often has them.
func callsWithIDs(messages, output string) []call {
	c := readChat(messages)
	calls := c.calls()
	missing := false
	for _, k := range calls {
		missing = missing || k.id == ""
	}
	if !missing {
		return calls
	}
	answer := readChat(output)
	full := answer.calls()
	if len(full) != len(calls) {
		return calls
	}
	for i := range full {
		if full[i].name != calls[i].name {
			return calls
		}
	}
	for i := range calls {
		calls[i].id = full[i].id
	}
	return calls
}
