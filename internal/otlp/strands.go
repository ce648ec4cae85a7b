package otlp

import (
	"cmp"
	"strings"
)

// strands is Strands Agents: gen_ai.*, with all content in events, those of tool
// calls included.
var strands = convention{
	read: func(s *Span, f *Facts) {
		if f.Class != Tool {
			return
		}
		for i := range s.Events {
			a := s.Events[i].Attributes
			switch s.Events[i].Name {
			case "gen_ai.tool.message":
				f.Arguments = cmp.Or(f.Arguments, a.Get("content"))
				f.CallID = cmp.Or(f.CallID, a.Get("id"))
			case "gen_ai.choice":
				if f.Result == "" {
					f.Result = plain(strings.TrimSpace(a.Get("message")))
				}
			}
		}
		if status := s.Attributes.first("gen_ai.tool.status", "tool.status"); status == "error" {
			f.Failed = true
			f.ErrorMessage = cmp.Or(f.ErrorMessage, f.Result)
		}
	},
}
