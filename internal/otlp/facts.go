package otlp

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/actlog/actlog/record"
)

// Class says what a span is to the record.
type Class uint8

// The classes.
const (
	// Unclassified spans belong to no convention: HTTP requests, database queries and so on.
	Unclassified Class = iota
	// Transparent spans belong to one but make no row. What is below them belongs to what is above.
	Transparent
	// Agent is an agent at work.
	Agent
	// Model is a model call.
	Model
	// Tool is a tool call.
	Tool
	// Cycle is transparent, and wraps one model call and its tool calls.
	Cycle
	// Skip makes no row and has nothing below it. Its results of tool calls are used.
	Skip
)

func (c Class) makesRow() bool { return c == Agent || c == Model || c == Tool }

// Facts are what a span says, in the same terms for all conventions. A text is empty if the span
// does not say it.
type Facts struct {
	Class Class

	Workflow                              string // the name of the plan
	Agent, AgentDescription, AgentVersion string
	Tool, CallID, Arguments, Result       string
	Model, Provider, ResponseID           string
	// System, Input and Output are JSON of messages, or text.
	System, Input, Output string
	Finish                string
	Usage                 Usage
	CostUSD               *float64
	FirstToken            int64 // nanoseconds since 1970
	Conversation, User    string
	Tags                  []string

	Failed                  bool
	ErrorKind, ErrorMessage string

	calls       []callRequest // what the output asks for
	results     []callResult  // what a span of class Skip knows of the calls of other spans
	thinkOutput string        // the output as the record shows it
}

// convention is one way to describe agents, models and tools in spans. Any field may be empty.
type convention struct {
	// kind is the attribute whose values have the classes.
	kind    string
	classes map[string]Class
	// class is for what a table cannot say. It returns Unclassified for a span of another convention.
	class func(*Span) Class
	// prefixes limit read to spans that have an attribute with one of them.
	prefixes []string
	// read adds what is not known yet.
	read func(*Span, *Facts)
}

// fillFrom fills gaps from another span of the same call.
func (f *Facts) fillFrom(from *Facts) {
	for _, gap := range []struct{ to, from *string }{
		{&f.Agent, &from.Agent}, {&f.CallID, &from.CallID}, {&f.Arguments, &from.Arguments}, {&f.Result, &from.Result},
		{&f.Model, &from.Model}, {&f.Provider, &from.Provider}, {&f.System, &from.System}, {&f.Input, &from.Input}, {&f.Finish, &from.Finish}, {&f.ResponseID, &from.ResponseID},
		{&f.Conversation, &from.Conversation}, {&f.User, &from.User},
	} {
		*gap.to = cmp.Or(*gap.to, *gap.from)
	}
	f.Usage.fill(from.Usage)
	f.CostUSD = cmp.Or(f.CostUSD, from.CostUSD)
	f.FirstToken = cmp.Or(f.FirstToken, from.FirstToken)
	if f.Output == "" {
		f.Output, f.thinkOutput = from.Output, from.thinkOutput
	}
	if len(f.calls) == 0 {
		f.calls = from.calls
	}
}

// sameCall reports whether two nested spans of tool calls are one call.
func (f *Facts) sameCall(inner *Facts) bool {
	trim := func(s string) string { return strings.TrimPrefix(s, "tools/call ") }
	return trim(f.Tool) == trim(inner.Tool) && (f.CallID == "" || inner.CallID == "" || f.CallID == inner.CallID)
}

// fill sets a text that is not known yet to the first of some attributes.
func fill(to *string, a Attributes, keys ...string) {
	if *to == "" {
		*to = a.first(keys...)
	}
}

// count returns the first of some attributes that is a count.
func (a Attributes) count(keys ...string) *int64 {
	for _, key := range keys {
		if n := count(a.Get(key)); n != nil {
			return n
		}
	}
	return nil
}

// count reads a count in any notation. It returns nil if s is none, or is out of range.
func count(s string) *int64 {
	if s == "" {
		return nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != math.Trunc(f) || !(f >= 0 && f <= record.MaxCount) {
		return nil
	}
	return new(int64(f))
}

// money reads an amount of US dollars. It returns nil if s is none.
func money(s string) *float64 {
	if s == "" {
		return nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0 && f <= record.MaxCount) {
		return nil
	}
	return &f
}

// sum adds amounts, nil if none is known.
func sum(amounts ...*float64) (all *float64) {
	for _, a := range amounts {
		switch {
		case all == nil:
			all = a
		case a != nil:
			all = new(*all + *a)
		}
	}
	return all
}

// after returns the time that is so many units after a start, 0 if s is not a number.
func after(start int64, s string, unit time.Duration) int64 {
	if start == 0 || s == "" {
		return 0
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0 && f < 1e9) {
		return 0
	}
	return start + int64(f*float64(unit))
}

// list reads a list of texts from a JSON array, or from a single text.
func list(s string) (all []string) {
	if s != "" && !isJSON(s) {
		return []string{s}
	}
	for e := range elements(s) {
		if all = append(all, text(e)); len(all) >= record.MaxListItems {
			break
		}
	}
	return all
}

// readTool reads the span of a tool call of a convention whose attributes for input and output are the
// same for all spans.
func readTool(s *Span, f *Facts, input, output string) {
	a := s.Attributes
	fill(&f.Tool, a, "tool.name")
	if f.Tool == "" && a.Get("openinference.span.kind") != "" {
		f.Tool = s.Name
	}
	fill(&f.CallID, a, "tool.id", "tool_call.id")
	f.Arguments = cmp.Or(f.Arguments, input)
	if f.Result != "" || output == "" {
		return
	}
	f.Result = output
	if strings.Contains(output, "tool_call_id") && isJSON(output) { // a LangChain message
		if inner := member(output, "output"); strings.HasPrefix(inner, "{") {
			output = inner
		}
		var c chat
		c.value(output, "", 0)
		for _, m := range c.messages {
			if len(m.results) > 0 {
				r := m.results[0]
				f.Result, f.Failed = r.text, f.Failed || r.failed
				f.CallID = cmp.Or(f.CallID, r.id)
				return
			}
		}
	}
}
