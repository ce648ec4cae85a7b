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
	loggedSpans,
	codex,
	langfuse,
	traceloop,
	openInference,
	langSmith,
	laminar,
	liteLLM,
	genAI,
	sentry,
	vercel,
	genkit,
	claudeCode,
	springAI,
	pydanticAI,
	strands,
	mlflow,
	spanNames,
	bareAttributes,
	koog, // last, for what nothing else says what it is
}

// classify returns what a span is and says. The convention that decided the class is read first, and
// the others fill gaps, because frameworks mix conventions.
func classify(s *Span) Facts {
	truncated := s.Truncated
	s, cuts := mend(s)
	f := Facts{cuts: slices.Clip(cuts), truncated: slices.Clip(truncated)}

	var decided int
	f.Class, decided = decide(s)
	f.aside = f.Class == Transparent && isAsideSpan(s)
	if decided >= 0 {
		conventions[decided].readInto(&f, s)
	}
	for i := range conventions {
		if i != decided {
			conventions[i].readInto(&f, s)
		}
	}

	f.complete(s)
	f.ofGenAI = isOfGenAI(s, f.Class) || isChain(s)
	return f
}

// decide returns the class of a span and the index of the convention that decided it, -1 if none did.
func decide(s *Span) (class Class, decided int) {
	if isAside(s.Attributes.Get("gen_ai.operation.name")) || isAside(s.Attributes.Get("llm.request.type")) {
		return Transparent, -1
	}

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
	if c.read != nil && (c.prefixes == nil || slices.ContainsFunc(c.prefixes, s.Attributes.HasPrefix)) {
		c.read(s, f)
	}
}

// complete derives what no convention says by itself.
func (f *Facts) complete(s *Span) {
	f.Usage.complete()
	f.FirstToken = within(s, f.FirstToken)
	f.readParties(s)
	fill(&f.ErrorKind, s.Attributes, "error.type")
	f.Failed = f.Failed || s.Status == 2 || f.ErrorKind != ""

	for i := range slices.Backward(s.Events) {
		if e := &s.Events[i]; e.Name == "exception" || strings.HasSuffix(e.Name, ".exception") {
			f.Failed = true
			fill(&f.ErrorKind, e.Attributes, "exception.type")
			fill(&f.ErrorMessage, e.Attributes, "exception.message")
			break
		}
	}

	if f.Class == Tool {
		result, failed, message := outcomeIn(f.Result)
		f.Result = result
		f.fail(callFailure{failed: failed, message: message})
		f.ErrorMessage = cmp.Or(f.ErrorMessage, message)
	}
	if f.Failed {
		message := s.StatusMessage
		if message == f.ErrorKind {
			message = "" // it says nothing besides
		}
		f.ErrorMessage = cmp.Or(message, f.ErrorMessage, s.Attributes.First("error.message", "exception.message"),
			f.ErrorKind)
	}

	if f.Class <= Agent && asksForTools(f.Finish) { // what an agent says before a tool call is no answer
		f.Output = ""
	}
	if f.Class == Agent || !validID(s.ParentID, 16) && f.Class < Agent {
		f.request, f.answer = requestIn(f.Input), answerIn(f.Output)
	}

	switch f.Class {
	case Agent:
		if f.Agent == "" || f.Agent == s.Name {
			f.Agent = f.nameOfSpan(s)
		}
		f.key = nameKey(f.Agent)
	case Tool:
		f.Tool = cmp.Or(f.Tool, strings.TrimPrefix(s.Name, "execute_tool "))
		if f.Tool == s.Name {
			f.Tool = withoutMethod(s.Name)
		}
		f.Arguments, f.Result = callArguments(f.asSent(f.Arguments)), f.asSent(f.Result)
		f.key = nameKey(strings.TrimPrefix(f.Tool, "tools/call "))
		f.readDelegate()
	case Model:
		out := readChat(f.Output)
		if f.onlyPrepares(&out) {
			f.Class = Transparent
			return
		}
		if f.calls == nil {
			f.calls = out.calls()
		}

		f.Finish = cmp.Or(f.Finish, out.finish)
		f.thinkOutput = f.asSent(f.Output)
		if s, ok := out.onlyText(); ok {
			f.thinkOutput = s
		}
		f.answer = cmp.Or(out.last("assistant"), out.last("model"))
		for i := range f.calls {
			f.calls[i].key = nameKey(f.calls[i].name)
		}
	}
}

// nameOfSpan returns the name of an agent that its span does not say: what it invokes, else the agent's id. The name of
// the span may be another in each run.
func (f *Facts) nameOfSpan(s *Span) string {
	if named, ok := strings.CutPrefix(s.Name, "invoke_agent "); ok && named != f.Conversation {
		return agentName(s, named)
	}
	if f.agentID != "" {
		return f.agentID
	}
	return agentName(s, s.Name)
}

// onlyPrepares reports whether what seems to be a model call only made the messages for one: its
// output is a request, and nothing shows that a model was called.
func (f *Facts) onlyPrepares(out *chat) bool {
	if f.Usage.known() || f.Finish != "" || f.ResponseID != "" || len(out.messages) == 0 ||
		member(f.Output, "messages") == "" {
		return false
	}
	last := out.messages[len(out.messages)-1].role
	return last == "user" || last == "system" || last == "developer" || last == "tool"
}
