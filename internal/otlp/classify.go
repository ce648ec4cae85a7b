package otlp

import (
	"cmp"
	"slices"
	"strings"
)

// conventions are in the order in which they are asked. The first that knows a span's class decides
// it.
var conventions = []convention{
	adk, // first, because only it knows the spans that must not count
	langfuse,
	traceloop,
	openInference,
	genAI,
	vercel,
	genkit,
	claudeCode,
	springAI,
	pydanticAI,
	strands,
	spanNames,
	bareAttributes,
}

// classify returns what a span is and says. The convention that decided the class is read first, and
// the others fill gaps, because frameworks mix conventions.
func classify(s *Span) Facts {
	var f Facts
	var decided int
	if f.Class, decided = decide(s); decided >= 0 {
		conventions[decided].readInto(&f, s)
	}
	for i := range conventions {
		if i != decided {
			conventions[i].readInto(&f, s)
		}
	}
	f.complete(s)
	return f
}

// decide returns the class of a span and the index of the convention that decided it, -1 if none did.
func decide(s *Span) (class Class, decided int) {
	for i := range conventions {
		c := &conventions[i]
		if c.class != nil {
			class = c.class(s)
		} else if c.kind != "" {
			class = c.classes[s.Attributes.Get(c.kind)]
		}
		if class != Unclassified {
			return class, i
		}
	}
	return Unclassified, -1
}

func (c *convention) readInto(f *Facts, s *Span) {
	if c.read != nil && (c.prefixes == nil || slices.ContainsFunc(c.prefixes, s.Attributes.hasPrefix)) {
		c.read(s, f)
	}
}

// complete derives what no convention says by itself.
func (f *Facts) complete(s *Span) {
	f.Usage.complete()
	fill(&f.Conversation, s.Attributes, "session.id", "thread.id")
	fill(&f.User, s.Attributes, "user.id", "enduser.id")
	fill(&f.ErrorKind, s.Attributes, "error.type")
	f.Failed = f.Failed || s.Status == 2 || f.ErrorKind != ""
	for i := range slices.Backward(s.Events) {
		if e := &s.Events[i]; e.Name == "exception" {
			f.Failed = true
			fill(&f.ErrorKind, e.Attributes, "exception.type")
			fill(&f.ErrorMessage, e.Attributes, "exception.message")
			break
		}
	}
	if f.Failed {
		f.ErrorMessage = cmp.Or(s.StatusMessage, f.ErrorMessage, s.Attributes.first("error.message", "exception.message"), f.ErrorKind)
	}
	switch f.Class {
	case Agent:
		f.Agent = cmp.Or(f.Agent, strings.TrimPrefix(s.Name, "invoke_agent "))
	case Tool:
		f.Tool = cmp.Or(f.Tool, strings.TrimPrefix(s.Name, "execute_tool "))
		f.Result, f.Arguments = unquoted(f.Result), unquoted(f.Arguments)
	case Model:
		out := readChat(f.Output)
		if f.calls == nil {
			f.calls = out.calls()
		}
		f.Finish = cmp.Or(f.Finish, out.finish)
		f.thinkOutput = f.Output
		if s, ok := out.onlyText(); ok {
			f.thinkOutput = s
		}
	}
}

// bareAttributes is for spans that a single attribute identifies.
var bareAttributes = convention{class: func(s *Span) Class {
	a := s.Attributes
	switch {
	case a.first("gen_ai.tool.name", "gen_ai.tool.call.id") != "":
		return Tool
	case a.Get("llm.request.type") == "embedding", a.Get("llm.request.type") == "rerank":
		return Transparent
	case a.first("llm.request.type", "gen_ai.request.model", "gen_ai.response.model", "llm.model_name", "llm.request.model", "ai.model.id") != "":
		return Model
	}
	return Unclassified
}}

// spanNames is for spans that only their name identifies.
var spanNames = convention{class: func(s *Span) Class {
	switch name := s.Name; {
	case name == "call_llm":
		return Model
	case name == "execute_tool" || strings.HasPrefix(name, "execute_tool "):
		return Tool
	case name == "invoke_agent" || strings.HasPrefix(name, "invoke_agent "):
		return Agent
	case strings.HasSuffix(name, "_loop_cycle") || name == "turn":
		return Cycle
	}
	return Unclassified
}}
