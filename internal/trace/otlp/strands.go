package otlp

import (
	"cmp"
	"strings"
	"time"
)

// strands is Strands Agents: gen_ai.*, with all content in events, also that of tool calls.
var strands = convention{
	read: func(s *Span, f *Facts) {
		if f.Class == Model && isStrands(s) { // it counts milliseconds where others count seconds
			f.FirstToken = cmp.Or(after(s, s.Attributes.Get("gen_ai.server.time_to_first_token"), time.Millisecond),
				f.FirstToken)
		}
		if f.Class != Tool {
			return
		}
		for i := range s.Events {
			a := s.Events[i].Attributes
			switch s.Events[i].Name {
			case "gen_ai.tool.message":
				fill(&f.Arguments, a, "content")
				fill(&f.CallID, a, "id")
			case "gen_ai.choice":
				if f.Result == "" {
					f.Result = plain(strings.TrimSpace(a.Get("message")))
				}
			}
		}
		if s.Attributes.First("gen_ai.tool.status", "tool.status") == "error" {
			f.Failed = true
			f.ErrorMessage = cmp.Or(f.ErrorMessage, f.Result)
		}
	},
}

func isStrands(s *Span) bool {
	return strings.HasPrefix(s.Scope.Name, "strands.") ||
		strings.HasPrefix(s.Attributes.First("gen_ai.provider.name", "gen_ai.system"), "strands")
}
