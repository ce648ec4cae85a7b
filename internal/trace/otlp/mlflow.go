package otlp

import (
	"cmp"
	"strings"
)

// mlflow is MLflow's own attributes, mlflow.*. Each value is JSON, a text too.
var mlflow = convention{
	class: func(s *Span) Class {
		switch unquoted(s.Attributes.Get("mlflow.spanType")) {
		case "":
			return Unclassified
		case "AGENT":
			return Agent
		case "CHAT_MODEL", "LLM":
			return Model
		case "TOOL":
			return Tool
		}
		return Transparent // those of MLflow and of the program
	},
	prefixes: []string{"mlflow."},
	read: func(s *Span, f *Facts) {
		a := s.Attributes
		get := func(key string) string { return text(a.Get(key)) }
		input, output := get("mlflow.spanInputs"), get("mlflow.spanOutputs")

		switch f.Class {
		case Agent:
			f.Agent = cmp.Or(f.Agent, s.Name)
			f.likely = get("mlflow.openai.agent_run_root") == "true" // a span of the agent itself is below or beside it
		case Tool:
			f.Tool = cmp.Or(f.Tool, s.Name)
			readTool(s, f, input, output)
		case Model:
			f.Model = cmp.Or(f.Model, memberText(output, "model"), get("mlflow.llm.model"))
			f.Provider = cmp.Or(f.Provider, get("mlflow.llm.provider"), providerFormats[get("mlflow.message.format")])
			f.ResponseID = cmp.Or(f.ResponseID, memberText(output, "id"))
			f.Finish = cmp.Or(f.Finish, memberText(firstElement(member(output, "choices")), "finish_reason"),
				memberText(output, "stop_reason"))

			// The response counts more than MLflow takes from it.
			usage := readUsage(member(output, "usage", "usage_metadata", "usageMetadata"))
			if usage.known() {
				f.Usage = usage
			}
			usage = readUsage(get("mlflow.chat.tokenUsage"))
			if get("mlflow.message.format") == "anthropic" { // it adds up what Anthropic counts without the cache
				usage.addCache()
			}
			f.Usage.fill(usage)
			f.CostUSD = cmp.Or(f.CostUSD, money(memberText(get("mlflow.llm.cost"), "total_cost")))

			f.System = cmp.Or(f.System, memberText(input, "system", "instructions"))
			f.Input = cmp.Or(f.Input, memberText(input, "messages", "contents", "input"))
			f.Output = cmp.Or(f.Output, answers(member(output, "choices", "candidates")), member(output, "output"))
		case Transparent:
			if kind := get("mlflow.spanType"); kind == "WORKFLOW" {
				f.Workflow = cmp.Or(f.Workflow, strings.TrimSpace(s.Name))
			}
		}

		if f.aside {
			f.CostUSD = cmp.Or(f.CostUSD, money(memberText(get("mlflow.llm.cost"), "total_cost")))
		}
		f.Input, f.Output = cmp.Or(f.Input, input), cmp.Or(f.Output, output)
		f.Conversation = cmp.Or(f.Conversation, unquoted(a.Get("mlflow.trace.session")))
		f.User = cmp.Or(f.User, unquoted(a.Get("mlflow.trace.user")))
	},
}

// providerFormats are the formats of messages that are named after the provider who made them. The
// others are those of frameworks.
var providerFormats = map[string]string{
	"openai": "openai", "anthropic": "anthropic", "gemini": "gemini", "groq": "groq", "mistral": "mistral",
	"bedrock": "bedrock",
}
