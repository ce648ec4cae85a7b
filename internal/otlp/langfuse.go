package otlp

import (
	"cmp"
	"time"
)

// langfuse is what Langfuse's SDKs add to spans.
var langfuse = convention{
	class: func(s *Span) Class {
		switch s.Attributes.Get("langfuse.observation.type") {
		case "generation":
			return Model
		case "agent":
			return Agent
		case "tool":
			return Tool
		case "span", "event", "chain", "retriever", "embedding", "evaluator", "guardrail":
			return Transparent
		}
		return Unclassified
	},
	read: func(s *Span, f *Facts) {
		a := s.Attributes
		if !a.has("langfuse.") {
			return
		}
		const p = "langfuse.observation."
		input, output := a.Get(p+"input"), a.Get(p+"output")
		switch f.Class {
		case Agent:
			f.Agent = cmp.Or(f.Agent, s.Name)
		case Tool:
			f.Tool = cmp.Or(f.Tool, s.Name)
			f.Arguments = cmp.Or(f.Arguments, input)
			readTool(s, f, "", output)
		case Model:
			fill(&f.Model, a, p+"model.name")
			if usage := a.Get(p + "usage_details"); usage != "" {
				n := func(names ...string) *int64 { return count(text(member(usage, names...))) }
				u := Usage{
					Input: n("input", "input_tokens", "prompt_tokens"), Output: n("output", "output_tokens", "completion_tokens"),
					CacheRead:  n("cache_read_input_tokens", "input_cached_tokens", "input_cache_read"),
					CacheWrite: n("cache_creation_input_tokens", "input_cache_creation"),
					Reasoning:  n("output_reasoning_tokens", "reasoning_tokens"),
				}
				u.addCache()
				f.Usage.fill(u)
			}
			if f.CostUSD == nil {
				f.CostUSD = money(text(member(a.Get(p+"cost_details"), "total")))
			}
			if t, err := time.Parse(time.RFC3339Nano, unquoted(a.Get(p+"completion_start_time"))); err == nil && f.FirstToken == 0 {
				f.FirstToken = t.UnixNano()
			}
		}
		f.Input, f.Output = cmp.Or(f.Input, input), cmp.Or(f.Output, output)
		fill(&f.Workflow, a, "langfuse.trace.name")
		fill(&f.Conversation, a, "langfuse.session.id")
		fill(&f.User, a, "langfuse.user.id")
		if f.Tags == nil {
			f.Tags = list(a.Get("langfuse.trace.tags"))
		}
		if a.Get(p+"level") == "ERROR" {
			f.Failed = true
			fill(&f.ErrorMessage, a, p+"status_message")
		}
	},
}
