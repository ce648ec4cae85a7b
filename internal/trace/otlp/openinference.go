package otlp

import (
	"cmp"
	"slices"
	"strings"
)

// openInference is Arize's convention: openinference.span.kind, llm.*, input.value and output.value.
var openInference = convention{
	class: func(s *Span) Class {
		switch strings.ToUpper(s.Attributes.Get("openinference.span.kind")) {
		case "LLM":
			if isHelper(s) {
				return Transparent
			}
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
			if isAgentClass(s.Name) {
				return Agent
			}
			return Transparent
		case "RETRIEVER", "EMBEDDING", "RERANKER", "GUARDRAIL", "EVALUATOR", "PROMPT":
			return Transparent
		}
		return Unclassified
	},
	prefixes: []string{"openinference.", "llm.", "input.", "output."},
	read: func(s *Span, f *Facts) {
		a := s.Attributes
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
			f.likely = strings.EqualFold(a.Get("openinference.span.kind"), "CHAIN")
		case Transparent:
			f.Agent = cmp.Or(f.Agent, currentAgent(output), currentAgent(input))
		}

		f.Input, f.Output = cmp.Or(f.Input, input), cmp.Or(f.Output, output)
		fill(&f.Agent, a, "agent.name")
		if f.Class == Model && f.Agent == "" {
			f.Agent = langGraphAgent(a)
		}

		fill(&f.Model, a, "llm.model_name", "embedding.model_name")
		fill(&f.Provider, a, "llm.provider", "llm.system")
		if f.Class == Model && f.Provider == "" {
			f.Provider = memberText(a.Get("metadata"), "ls_provider") // LangChain's
		}
		fill(&f.Finish, a, "llm.finish_reason")

		usage := Usage{
			Input: countOf(a, "llm.token_count.prompt"), Output: countOf(a, "llm.token_count.completion"),
			CacheRead:  countOf(a, "llm.token_count.prompt_details.cache_read"),
			CacheWrite: countOf(a, "llm.token_count.prompt_details.cache_write"),
			Reasoning:  countOf(a, "llm.token_count.completion_details.reasoning"),
		}
		usage.addParts(a, "llm.token_count.prompt_details.")
		f.Usage.fill(usage)
		f.CostUSD = cmp.Or(f.CostUSD, money(a.Get("llm.cost.total")),
			sum(money(a.Get("llm.cost.prompt")), money(a.Get("llm.cost.completion"))))

		fill(&f.Conversation, a, "session.id")
		fill(&f.User, a, "user.id")
		if f.Tags == nil {
			f.Tags = list(a.Get("tag.tags"))
		}
		for i := range s.Events {
			if s.Events[i].Name == "First Token Stream Event" {
				f.FirstToken = cmp.Or(f.FirstToken, s.Events[i].Time)
			}
		}
	},
}

// isHelper reports whether a span is of a private method of a model's class that called no model. The
// instrumentation of LlamaIndex says LLM of every method of such a class.
func isHelper(s *Span) bool {
	method := s.Name[strings.LastIndexByte(s.Name, '.')+1:]
	return strings.HasPrefix(method, "_") && !s.Attributes.HasPrefix("llm.token_count.") &&
		!s.Attributes.HasPrefix("llm.output_messages.")
}

// isGraphNode reports whether a span is a node of a LangGraph and not an agent. The instrumentation
// calls every run an agent whose name contains that word, and nodes of graphs are often named so.
func isGraphNode(s *Span) bool {
	return strings.Contains(s.Scope.Name, "langchain") &&
		memberText(s.Attributes.Get("metadata"), "langgraph_node") == s.Name
}

// isAgentClass reports whether a span is named after a method that runs an agent: Agent.run,
// FunctionAgent.run. Some instrumentations say of such spans only that they are chains.
func isAgentClass(name string) bool {
	class := withoutMethod(name)
	return class != name && strings.HasSuffix(class, "Agent")
}

// currentAgent returns the name of the agent in an event of LlamaIndex's workflows, "" if there is none:
// AgentInput(input=[...], current_agent_name='planner'). The span that runs the agent does not have it.
func currentAgent(event string) string {
	const before = "current_agent_name='"
	i := strings.LastIndex(event, before)
	if i < 0 {
		return ""
	}

	name, _, ok := strings.Cut(event[i+len(before):], "'")
	if !ok {
		return "" // cut off
	}
	return name
}

// callsWithIDs returns the calls of some messages. Their ids may be missing in the attributes, but
// the provider's response in output.value often has them.
func callsWithIDs(messages, output string) []callRequest {
	c := readChat(messages)
	calls := c.calls()
	if !slices.ContainsFunc(calls, func(c callRequest) bool { return c.id == "" }) {
		return calls
	}

	response := readChat(output)
	full := response.calls()
	if !slices.EqualFunc(full, calls, func(a, b callRequest) bool { return a.name == b.name }) {
		return calls
	}
	for i := range calls {
		calls[i].id = full[i].id
	}
	return calls
}
