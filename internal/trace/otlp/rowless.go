package otlp

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/actlog/actlog/internal/record/field"
)

// Reason says why something that was sent made no row.
type Reason string

// The reasons.
const (
	// NotUnderstood spans look like an agent's, but no convention knows them.
	NotUnderstood Reason = "not_understood"
	// Rejected spans cannot be kept.
	Rejected Reason = "rejected"
	// NoSpan is of log records that name no span.
	NoSpan Reason = "no_span"
	// NoRow spans are known, and have no row of their own.
	NoRow Reason = "no_row"
	// Unrelated spans are of HTTP requests, databases and so on.
	Unrelated Reason = "unrelated"
)

// Rowless is a kind of spans, or of log records, that make no row. Its texts are short.
type Rowless struct {
	Reason Reason
	Scope  string // the name of the instrumentation
	// Attribute is the one that says the kind: openinference.span.kind and so on. If it is empty,
	// the kind is that of OpenTelemetry: INTERNAL, CLIENT and so on, and "" for a log record.
	Attribute, Kind string
}

// Example is how many there are of a kind, and what one of them looks like.
type Example struct {
	Count int
	// Attributes are the names of its attributes in order, at most [MaxExampleNames] of them.
	Attributes []string
}

// Tally counts what makes no row.
type Tally map[Rowless]*Example

const (
	// MaxExampleNames bounds the names of an [Example].
	MaxExampleNames = 50
	// maxExampleBytes bounds each name, and each text of a [Rowless].
	maxExampleBytes = 100
	// maxKinds bounds a tally. Further kinds are counted together, without their texts.
	maxKinds = 200
)

// addSpan counts a span if it makes no row.
func (t Tally) addSpan(s *Span) {
	class, _ := decide(s)
	if class.makesRow() {
		return
	}

	k := Rowless{Reason: NoRow, Scope: s.Scope.Name}
	var isAgents bool
	k.Attribute, k.Kind, isAgents = kind(s)
	if class == Unclassified {
		k.Reason = Unrelated
		switch {
		case isCodex(s): // of its own code
			k.Reason = NoRow
		case isAgents || looksLikeAgents(s):
			k.Reason = NotUnderstood
		}
	}

	if e := t.add(k); e != nil {
		for i := range s.Attributes {
			e.name(s.Attributes[i].Key)
		}
	}
}

// addLog counts a log record. Its kind is the name of the event that it is.
func (t Tally) addLog(scope string, l plog.LogRecord) {
	k := Rowless{Reason: NoSpan, Scope: scope, Kind: clean(l.EventName())}
	if name, ok := l.Attributes().Get(eventName); ok && k.Kind == "" {
		k.Kind = clean(name.Str())
	}
	if k.Kind != "" {
		k.Attribute = eventName
	}
	t.addOther(k, l.Attributes())
}

// addOther counts what is no span, or a rejected one.
func (t Tally) addOther(k Rowless, attributes pcommon.Map) {
	if e := t.add(k); e != nil {
		for key := range attributes.All() {
			e.name(clean(key))
		}
		slices.Sort(e.Attributes)
	}
}

// add counts one of a kind. If it is the first, it returns the example, to be filled.
func (t Tally) add(k Rowless) *Example {
	k.Scope = field.Shorten(k.Scope, maxExampleBytes)
	k.Attribute = field.Shorten(k.Attribute, maxExampleBytes)
	k.Kind = field.Shorten(k.Kind, maxExampleBytes)

	if e := t[k]; e != nil {
		e.Count++
		return nil
	}
	if len(t) >= maxKinds {
		rest := Rowless{Reason: k.Reason}
		if t[rest] == nil {
			t[rest] = &Example{}
		}
		t[rest].Count++
		return nil
	}

	// The texts may be parts of longer ones, which the tally must not keep.
	k.Scope, k.Attribute = strings.Clone(k.Scope), strings.Clone(k.Attribute)
	k.Kind = strings.Clone(k.Kind)
	e := &Example{Count: 1}
	t[k] = e
	return e
}

func (e *Example) name(key string) {
	if len(e.Attributes) < MaxExampleNames {
		e.Attributes = append(e.Attributes, strings.Clone(field.Shorten(key, maxExampleBytes)))
	}
}

// warning returns what to say about a body of so many spans if none of them is known to any
// convention, and some look like an agent's, else "".
func (t Tally) warning(spans int) string {
	var first *Rowless
	for k, e := range t {
		switch k.Reason {
		case NotUnderstood:
			if first == nil || k.compare(first) < 0 {
				first = &k
			}
		case Unrelated:
		default:
			return ""
		}
		spans -= e.Count
	}

	if first == nil || spans > 0 {
		return ""
	}
	return fmt.Sprintf("the spans were kept, but none of them is understood: they look like an agent's, and follow no "+
		"convention that is known here (instrumentation %q, kind %q); GET %s lists what arrived and is not shown",
		first.Scope, first.Kind, RowlessPath)
}

// RowlessPath is where the API lists what made no row.
const RowlessPath = "/api/v1/otlp/unknown"

func (k *Rowless) compare(to *Rowless) int {
	return cmp.Or(strings.Compare(k.Scope, to.Scope), strings.Compare(k.Attribute, to.Attribute),
		strings.Compare(k.Kind, to.Kind))
}

// otelKinds are the kinds of spans of OpenTelemetry.
var otelKinds = []string{"UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"}

func otelKind(kind int32) string {
	if kind < 0 || int(kind) >= len(otelKinds) {
		return otelKinds[0]
	}
	return otelKinds[kind]
}

// kind returns what a span says it is. isAgents reports that only an agent's span says that.
func kind(s *Span) (attribute, value string, isAgents bool) {
	for _, key := range kindAttributes {
		if value = s.Attributes.Get(key); value != "" {
			return key, unquoted(value), true
		}
	}

	for _, a := range s.Attributes {
		if saysKind(a.Key) && len(a.Value.Text) <= maxExampleBytes && hasWord(a.Value.Text, isAgentKind) {
			return a.Key, unquoted(a.Value.Text), true
		}
	}
	return "", otelKind(s.Kind), false
}

// kindAttributes say what a span is, in one of the conventions.
var kindAttributes = func() []string {
	// where code decides
	keys := []string{"openinference.span.kind", "ai.operationId", "genkit:metadata:subtype", "lmnr.span.type"}
	for i := range conventions {
		if conventions[i].kind != "" {
			keys = append(keys, conventions[i].kind)
		}
	}
	return keys
}()

// saysKind reports whether an attribute says what a span is in any convention, known or not: its name
// ends like x.span.kind, x.spanType or x.run_type.
func saysKind(key string) bool {
	key = strings.ToLower(key)
	of, ok := strings.CutSuffix(key, "kind")
	if !ok {
		of, ok = strings.CutSuffix(key, "type")
	}
	of = strings.TrimRight(of, "._-:")
	return ok && (strings.HasSuffix(of, "span") || strings.HasSuffix(of, "observation") || strings.HasSuffix(of, "run") ||
		strings.HasSuffix(of, "event"))
}

// isAgentKind reports whether a word is the kind of a span of an agent, a model or a tool.
func isAgentKind(word string) bool {
	switch word {
	case "chain", "chat", "embedding", "generation", "model", "retriever":
		return true
	}
	return isAgentWord(word)
}

// isAgentWord reports whether a word of a name says that the name is about agents. Names of
// frameworks and providers do.
func isAgentWord(word string) bool {
	switch word {
	case "ai", "genai", "mcp", "completion", "completions", "prompt", "prompts", "tokens", "tool", "tools",
		"anthropic", "bedrock", "claude", "cohere", "dspy", "gemini", "groq", "haystack", "langchain", "langfuse",
		"langgraph", "langsmith", "litellm", "llamaindex",
		"mistral", "mistralai", "mlflow", "ollama", "openai", "openinference", "openllmetry", "strands", "traceloop",
		"vertexai":
		return true
	}
	return strings.HasPrefix(word, "llm") || strings.Contains(word, "agent")
}

// plainPrefixes are the beginnings of attributes of HTTP requests, databases and so on.
var plainPrefixes = []string{"http.", "url.", "user_agent.", "db.", "rpc.", "messaging.", "faas.", "graphql."}

// looksLikeAgents reports whether a span that no convention knows is about an agent. It looks at the
// names of its attributes, at its own and at that of its scope. A request, a query or a message is
// often one of an agent, and about it only if an attribute has a prefix that says so.
func looksLikeAgents(s *Span) bool {
	isPlain := slices.ContainsFunc(plainPrefixes, s.Attributes.HasPrefix)
	for i := range s.Attributes {
		name := s.Attributes[i].Key
		if isPlain {
			prefix, _, ok := strings.Cut(name, ".")
			if name = prefix; !ok || slices.Contains(plainPrefixes, prefix+".") {
				continue
			}
		}

		if hasWord(name, isAgentWord) {
			return true
		}
	}
	return !isPlain && (hasWord(s.Scope.Name, isAgentWord) || hasWord(s.Name, isAgentWord))
}

// hasWord reports whether any word of a name, in lower case, is one that is looked for.
func hasWord(name string, is func(string) bool) bool {
	for word := range words(name) {
		if is(word) {
			return true
		}
	}
	return false
}
