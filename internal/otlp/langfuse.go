package otlp

import (
	"cmp"
	"time"
)

// langfuse is what Langfuse's SDKs add to spans.
var langfuse = convention{
	kind: "langfuse.observation.type",
	classes: map[string]Class{
		"generation": Model, "agent": Agent, "tool": Tool,
		"span": Transparent, "event": Transparent, "chain": Transparent, "retriever": Transparent,
		"embedding": Transparent, "evaluator": Transparent, "guardrail": Transparent,
	},
	prefixes: []string{"langfuse."},
	read: func(s *Span, f *Facts) {
		a := s.Attributes
		const p = "langfuse.observation."
		input, output := a.Get(p+"input"), a.Get(p+"output")
		switch f.Class {
		case Agent:
			f.Agent = cmp.Or(f.Agent, s.Name)
		case Tool:
			f.Tool = cmp.Or(f.Tool, s.Name)
			readTool(s, f, input, output)
		case Model:
			fill(&f.Model, a, p+"model.name")
			if usage := a.Get(p + "usage_details"); usage != "" {
				u := Usage{
					Input:      memberCount(usage, "input", "input_tokens", "prompt_tokens"),
					Output:     memberCount(usage, "output", "output_tokens", "completion_tokens"),
					CacheRead:  memberCount(usage, "cache_read_input_tokens", "input_cached_tokens", "input_cache_read"),
					CacheWrite: memberCount(usage, "cache_creation_input_tokens", "input_cache_creation"),
					Reasoning:  memberCount(usage, "output_reasoning_tokens", "reasoning_tokens"),
				}
				u.addCache()
				f.Usage.fill(u)
			}
			f.CostUSD = cmp.Or(f.CostUSD, money(memberText(a.Get(p+"cost_details"), "total")))
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
