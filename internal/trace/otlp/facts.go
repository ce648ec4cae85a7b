package otlp

import (
	"cmp"
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
// does not say it. What is looked at for all spans of a trace comes first, side by side in memory.
type Facts struct {
	Class Class
	// likely says that this is an agent if it makes model or tool calls.
	likely bool
	// part says that this is a part of the tool call above. If it failed, so did the call.
	part bool
	// aside says that this is a call of a model that generates no text. It makes no row, but its cost counts.
	aside  bool
	Failed bool
	// ofGenAI says that the instrumentation is one for agents and models.
	ofGenAI bool
	// key is the name of an agent or a tool, see nameKey.
	key                string
	CallID, ResponseID string
	// delegate is the agent that works for a tool call, if the call names one.
	delegate           string
	Conversation, User string
	Tags               []string
	Agent, agentID     string
	calls              []callRequest // what the output asks for
	// logs is what log records say of the calls of other spans.
	logs []callLog

	Workflow                       string // the name of the plan
	AgentDescription, AgentVersion string
	Tool, Arguments, Result        string
	Model, Provider                string
	// System, Input and Output are JSON of messages, or text.
	System, Input, Output string
	Finish                string
	Usage                 Usage
	CostUSD               *float64
	FirstToken            int64 // nanoseconds since 1970

	ErrorKind, ErrorMessage string

	results     []callResult // what a span of class Skip knows of the calls of other spans
	thinkOutput string       // the output as the record shows it
	// request and answer are the input and the output as a text for people, of agents and of roots.
	// Of models there is only the answer.
	request, answer string
	texts           []string // see textKeys

	cuts      []cutText // of what Input, Output and others have
	truncated []string  // see [Span.Truncated]; in any order, and a name may occur several times
}

// callLog is what a log record says of a tool call, which it names by its id, or of a model call,
// which it names by nothing but its time.
type callLog struct {
	id      string // of the tool call; empty: this is of a model call
	request string // the id of the request of the model call, if it is known
	time    int64  // nanoseconds since 1970
	callFailure
	args, result string
	answer       string
	costUSD      *float64
}

// callFailure is whether and why a call failed.
type callFailure struct {
	failed        bool
	kind, message string
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
		{&f.Agent, &from.Agent}, {&f.agentID, &from.agentID}, {&f.delegate, &from.delegate},
		{&f.CallID, &from.CallID}, {&f.Arguments, &from.Arguments}, {&f.Result, &from.Result},
		{&f.Model, &from.Model}, {&f.Provider, &from.Provider}, {&f.System, &from.System},
		{&f.Input, &from.Input}, {&f.Finish, &from.Finish}, {&f.ResponseID, &from.ResponseID},
		{&f.Conversation, &from.Conversation}, {&f.User, &from.User},
	} {
		*gap.to = cmp.Or(*gap.to, *gap.from)
	}

	f.cuts = append(f.cuts, from.cuts...)
	f.truncated = append(f.truncated, from.truncated...)
	f.Usage.fill(from.Usage)
	f.CostUSD = cmp.Or(f.CostUSD, from.CostUSD)
	f.FirstToken = cmp.Or(f.FirstToken, from.FirstToken)

	if f.Output == "" || len(f.calls) == 0 && len(from.calls) > 0 { // some leave out the tool calls
		f.Output, f.thinkOutput = from.Output, from.thinkOutput
		f.answer = from.answer
	}
	if len(f.calls) == 0 {
		f.calls = from.calls
	}
	if f.Class == Tool {
		f.fail(from.failure())
	}
}

// asSent returns a text as it came, if it was cut.
func (f *Facts) asSent(s string) string {
	for _, c := range f.cuts {
		if c.whole == s {
			return c.sent
		}
	}
	return s
}

func (f *Facts) failure() callFailure { return callFailure{f.Failed, f.ErrorKind, f.ErrorMessage} }

// fail adds a failure to those of a call that has not failed so far.
func (f *Facts) fail(with callFailure) {
	if with.failed && !f.Failed {
		f.Failed = true
		f.ErrorKind, f.ErrorMessage = cmp.Or(with.kind, f.ErrorKind), cmp.Or(with.message, f.ErrorMessage)
	}
}

// fillFromLog fills gaps of a tool call from a log record.
func (f *Facts) fillFromLog(l *callLog) {
	if f.Arguments == "" {
		f.Arguments = l.args
		f.readDelegate()
	}
	f.Result = cmp.Or(f.Result, l.result)
	f.fail(l.callFailure)
}

// sameCall reports whether two nested spans of tool calls are one call.
func (f *Facts) sameCall(inner *Facts) bool {
	return f.key == inner.key && (f.CallID == "" || inner.CallID == "" || f.CallID == inner.CallID)
}

// mayAskFor reports whether a model call that is known to have made tool calls, or of which it is not
// known, may have asked for a tool.
func (f *Facts) mayAskFor(key string) bool {
	if len(f.calls) > 0 {
		return slices.ContainsFunc(f.calls, func(r callRequest) bool { return r.key == key })
	}
	return f.Finish == "" || asksForTools(f.Finish)
}

// asksForTools reports whether a model stopped for its tool calls.
func asksForTools(finish string) bool {
	return strings.HasPrefix(finish, "tool") || finish == "function_call"
}

// fill sets a text that is not known yet to the first of some attributes.
func fill(to *string, a Attributes, keys ...string) {
	if *to == "" {
		*to = a.First(keys...)
	}
}

// slack is how much earlier than it was a time may seem to be: many clients cut times to milliseconds.
const slack = int64(time.Millisecond)

// within returns a time if it is within a span, else 0. Times may be cut to milliseconds.
func within(s *Span, t int64) int64 {
	switch {
	case t == 0 || t < s.Start-slack || s.End != 0 && t > s.End+slack:
		return 0
	case s.End != 0:
		t = min(t, s.End)
	}
	return max(t, s.Start)
}

// ahead is how much earlier than a span a client may start to count a duration within it: on a busy
// machine, it starts the span some time after the request.
const ahead = int64(100 * time.Millisecond)

// after returns the time that is so many units after the start of a span, 0 if duration is not a number.
func after(s *Span, duration string, unit time.Duration) int64 {
	if s.Start == 0 || duration == "" {
		return 0
	}

	f, err := strconv.ParseFloat(duration, 64)
	if err != nil || !(f >= 0 && f < 1e9) {
		return 0
	}
	t := s.Start + int64(f*float64(unit))
	if s.End != 0 && t > s.End && t <= s.End+ahead {
		return s.End
	}
	return t
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

// agentName returns the name of an agent whose span has no other name than its own. LangGraph's spans
// are often named after a function; the metadata then has the node or the agent.
func agentName(s *Span, name string) string {
	if anyAgent[nameKey(name)] {
		name = cmp.Or(langGraphAgent(s.Attributes), name)
	}
	return withoutMethod(name)
}

// anyAgent are the keys of names that do not tell one agent from another.
var anyAgent = map[string]bool{
	"agent": true, "callagent": true, "runagent": true, "invokeagent": true, "executeagent": true, "agentnode": true,
	"agentexecutor": true, "agentstep": true, "theagent": true, "callmodel": true, "model": true, "langgraph": true,
}

// langGraphAgent returns the name in LangGraph's metadata of the agent that a span belongs to, "" if
// there is none: the node of the graph, unless any agent has such a node, else the graph's own name. A
// tool's own spans have the metadata of the agent that called it.
func langGraphAgent(a Attributes) string {
	get := func(name string) string {
		return cmp.Or(a.First("metadata."+name, "langsmith.metadata."+name, "traceloop.association.properties."+name),
			memberText(a.Get("metadata"), name))
	}

	node := get("langgraph_node")
	switch {
	case node == "tools":
		return ""
	case node != "" && !anyAgent[nameKey(node)]:
		return node
	}
	return get("lc_agent_name")
}

// readDelegate finds the agent that the arguments of a tool call name.
func (f *Facts) readDelegate() {
	delegate, best := "", len(delegateNames)
	for name, value := range members(f.Arguments) {
		if i, ok := delegateNames[nameKey(name)]; ok && i < best && value[0] == '"' {
			if s := text(value); s != "" && len(s) <= 100 && !strings.Contains(s, "\n") {
				best, delegate = i, s
			}
		}
	}
	f.delegate = cmp.Or(f.delegate, delegate)
}

// textKeys returns the keys of the first few arguments of a tool call that are texts, see nameKey. They
// are read when they are first needed.
func (f *Facts) textKeys() []string {
	const most = 16
	if f.texts != nil || f.Arguments == "" {
		return f.texts
	}

	f.texts = []string{}
	if !isJSON(f.Arguments) {
		f.texts = append(f.texts, nameKey(f.Arguments))
	}
	for _, value := range members(f.Arguments) {
		if len(f.texts) == most {
			break
		}
		if value[0] == '"' {
			f.texts = append(f.texts, nameKey(text(value)))
		}
	}
	return f.texts
}

// delegateNames are the keys of the names of arguments by which tools are told the agent to work for
// them, and their order.
var delegateNames = ordered("coworker", "subagent_type", "subagent", "subagent_name", "agent_name", "agent",
	"member_id", "member_name", "member",
	"assistant_name", "agent_id")

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
