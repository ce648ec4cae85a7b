package otlp

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/actlog/actlog/record"
)

// Class says what a span is to the record.
type Class uint8

// The classes.
const (
	// Unclassified spans belong to no convention: HTTP, databases, whatever.
	Unclassified Class = iota
	// Transparent spans belong to one, and are no row: what is below them belongs
	// to what is above.
	Transparent
	// Agent is an agent at work.
	Agent
	// Model is a call of a model.
	Model
	// Tool is a tool call.
	Tool
	// Cycle is transparent, and wraps one model call with its tool calls.
	Cycle
	// Skip is no row, and nothing is below it; what it knows of tool calls is used.
	Skip
)

// Facts are what a span says, whichever convention it follows. A text is empty
// where it says nothing.
type Facts struct {
	Class Class

	Workflow                              string // what the plan is called
	Agent, AgentDescription, AgentVersion string
	Tool, CallID, Arguments, Result       string
	Model, Provider                       string
	// System, Input and Output are JSON of messages, or text.
	System, Input, Output string
	Finish                string
	Usage                 Usage
	CostUSD               *float64
	FirstToken            int64
	Conversation, User    string
	Tags                  []string

	Failed                  bool
	ErrorKind, ErrorMessage string

	// calls are those that the output asks for, responses what a skipped span
	// knows of the results of others.
	calls     []call
	responses []response
	thought   string // the output, as it is shown
}

// Usage counts tokens. Input includes what was read from and written to a cache.
type Usage struct {
	Input, Output, CacheRead, CacheWrite, Reasoning *int64
}

// A convention is one way to say things in attributes. class gives Unclassified
// for spans that are not of it; read adds what is not known yet. Either may be nil.
type convention struct {
	class func(*Span) Class
	read  func(*Span, *Facts)
}

// conventions stand in the order in which they are asked: the first that knows a
// span's class decides it.
var conventions = []convention{
	adk, // first, for it alone knows spans that must not count
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

// classify tells what a span is and says. The convention that decided the class
// is read first, the others fill gaps: frameworks mix them.
func classify(s *Span) Facts {
	var f Facts
	by := -1
	for i, c := range conventions {
		if c.class == nil {
			continue
		}
		if f.Class = c.class(s); f.Class != Unclassified {
			by = i
			break
		}
	}
	if by >= 0 && conventions[by].read != nil {
		conventions[by].read(s, &f)
	}
	for i, c := range conventions {
		if i != by && c.read != nil {
			c.read(s, &f)
		}
	}
	f.complete(s)
	return f
}

// complete derives what no convention says by itself.
func (f *Facts) complete(s *Span) {
	f.Usage.complete()
	f.Conversation = cmp.Or(f.Conversation, s.Attributes.first("session.id", "thread.id"))
	f.User = cmp.Or(f.User, s.Attributes.first("user.id", "enduser.id"))
	f.ErrorKind = cmp.Or(f.ErrorKind, s.Attributes.Get("error.type"))
	f.Failed = f.Failed || s.Status == 2 || f.ErrorKind != ""
	for i := range slices.Backward(s.Events) {
		if e := &s.Events[i]; e.Name == "exception" {
			f.Failed = true
			f.ErrorKind = cmp.Or(f.ErrorKind, e.Attributes.Get("exception.type"))
			f.ErrorMessage = cmp.Or(f.ErrorMessage, e.Attributes.Get("exception.message"))
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
		f.thought = f.Output
		if said, ok := out.onlyText(); ok {
			f.thought = said
		}
	}
}

// complete holds a usage together: where less was read in than came from a cache,
// the count left the cache out.
func (u *Usage) complete() {
	if u.Input == nil {
		return
	}
	if cached := orZero(u.CacheRead) + orZero(u.CacheWrite); cached > *u.Input {
		u.Input = new(*u.Input + cached)
	}
}

// addCache is for conventions whose input leaves out what a cache had to do with.
func (u *Usage) addCache() {
	if u.Input != nil {
		u.Input = new(*u.Input + orZero(u.CacheRead) + orZero(u.CacheWrite))
	}
}

func orZero(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// told tells whether anything was counted.
func (u *Usage) told() bool { return u.Input != nil || u.Output != nil }

// fill takes what another says of the same call, all of it or nothing: counts of
// two sources do not mix.
func (u *Usage) fill(from Usage) {
	if !u.told() {
		*u = from
	}
}

// fill sets a text that is not known yet to the first of some attributes.
func fill(to *string, a Attributes, keys ...string) {
	if *to == "" {
		*to = a.first(keys...)
	}
}

// count gives the first of some attributes that is a count.
func (a Attributes) count(keys ...string) *int64 {
	for _, key := range keys {
		if n := count(a.Get(key)); n != nil {
			return n
		}
	}
	return nil
}

// count reads a count, however it is written; nil where s is none that can be true.
func count(s string) *int64 {
	if s == "" {
		return nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || f != math.Trunc(f) || math.Abs(f) > record.MaxCount {
			return nil
		}
		n = int64(f)
	}
	if n < 0 || n > record.MaxCount {
		return nil
	}
	return &n
}

// money reads an amount of US dollars.
func money(s string) *float64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0 && f <= record.MaxCount) {
		return nil
	}
	return &f
}

// after gives the time so many units after a start, 0 where s is no number.
func after(start int64, s string, unit time.Duration) int64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || start == 0 || !(f >= 0 && f < 1e9) {
		return 0
	}
	return start + int64(f*float64(unit))
}

// list reads a list of texts: JSON, or one of them.
func list(s string) (all []string) {
	if !isJSON(s) {
		if s != "" {
			all = append(all, s)
		}
		return all
	}
	elements(s, func(e string) bool {
		all = append(all, text(e))
		return len(all) < record.MaxListItems
	})
	return all
}

// bareAttributes is for spans that give themselves away by one attribute.
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

// spanNames is for spans that give themselves away by their name alone.
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
