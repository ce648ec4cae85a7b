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
			f.Usage.fill(readUsage(a.Get(p + "usage_details")))
			f.CostUSD = cmp.Or(f.CostUSD, langfuseCost(a.Get(p+"cost_details")))
			if t, err := time.Parse(time.RFC3339Nano, unquoted(a.Get(p+"completion_start_time"))); err == nil &&
				f.FirstToken == 0 {
				f.FirstToken = t.UnixNano()
			}
		}

		if f.aside {
			f.CostUSD = cmp.Or(f.CostUSD, langfuseCost(a.Get(p+"cost_details")))
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

// langfuseCost returns the total of the costs of a call, which may have any parts.
func langfuseCost(details string) (cost *float64) {
	if total := money(memberText(details, "total")); total != nil {
		return total
	}
	for _, part := range members(details) {
		cost = sum(cost, money(text(part)))
	}
	return cost
}
