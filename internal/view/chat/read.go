package chat

import (
	"cmp"
	"strings"

	"github.com/actlog/actlog/internal/record/loosejson"
)

type reader struct {
	messages []Message
	bare     bool // the last message was made of parts without one
}

// add adds a message, if it says anything.
func (r *reader) add(m Message) {
	if r.bare = false; len(m.Parts) > 0 || m.Role != "" || m.Name != "" {
		r.messages = append(r.messages, m)
	}
}

// rest adds JSON that is not understood.
func (r *reader) rest(v string) {
	if v != "" {
		r.add(Message{Parts: []Part{{Kind: Other, Text: v}}})
	}
}

// value reads messages. The role is that of those that have none.
func (r *reader) value(v, role string, depth int) {
	switch {
	case depth > maxDepth:
		r.rest(v)
	case v[0] == '[':
		r.list(v, role, depth)
	case v[0] == '{':
		r.object(newObject(v), role, depth)
	case v == "null":
	default:
		r.add(Message{Role: role, Parts: []Part{{Text: text(v)}}})
	}
}

func (r *reader) list(v, role string, depth int) {
	all := elements(v)
	if len(all) == 2 && all[0][0] == '"' && all[1][0] == '"' { // a message that is written ["user", "..."]
		if role := cmp.Or(roles[text(all[0])], text(all[0])); role == "user" || role == "assistant" || role == "system" {
			r.add(Message{Role: role, Parts: []Part{{Text: text(all[1])}}})
			return
		}
	}

	for i, e := range all {
		if len(r.messages) >= maxMessages {
			r.rest("[" + strings.Join(all[i:], ",") + "]")
			return
		}
		r.value(e, role, depth+1)
	}
}

// wrappers are the names of what holds messages.
var wrappers = []string{
	"messages", "choices", "generations", "contents", "candidates", "message", "llm_request", "llm_response",
}

// roles maps the types and LangChain classes of messages to their roles.
var roles = map[string]string{
	"human": "user", "ai": "assistant", "system": "system", "tool": "tool",
	"HumanMessage": "user", "AIMessage": "assistant", "AIMessageChunk": "assistant", "SystemMessage": "system",
	"ToolMessage": "tool",
}

// object reads a message, a part of one, or an object that wraps messages.
func (r *reader) object(o *object, role string, depth int) {
	switch {
	case isObject(o.peek("kwargs")): // a LangChain object
		class := ""
		if id := o.peek("id"); strings.HasPrefix(id, "[") {
			for _, e := range elements(id) {
				class = text(e)
			}
		}
		r.object(newObject(o.take("kwargs")), cmp.Or(roles[class], role), depth+1)
		r.rest(o.rest())
		return
	case roles[text(o.peek("type"))] != "" && isObject(o.peek("data")): // the same, as messages_to_dict writes it
		r.object(newObject(o.take("data")), roles[text(o.take("type"))], depth+1)
		r.rest(o.rest())
		return
	case o.peek("content") != "" && isObject(o.peek("content")) && o.peek("role") == "" && o.peek("parts") == "" &&
		o.peek("type") == "":
		// Gemini's response
		r.value(o.take("content"), role, depth+1)
		r.rest(o.rest())
		return
	}

	wraps := false
	for _, name := range wrappers {
		if inner := o.take(name); inner != "" {
			r.value(inner, role, depth+1)
			wraps = true
		}
	}
	if wraps {
		r.rest(o.rest())
		return
	}
	r.message(o, role, depth)
}

func (r *reader) message(o *object, role string, depth int) {
	kind := text(o.peek("type"))
	m := Message{Role: cmp.Or(text(o.take("role")), roles[kind], role)}
	bare := m.Role == ""
	if roles[kind] != "" || kind == "message" {
		o.take("type")
	}

	isPart := m.part(o, depth)
	if !isPart {
		callID, failed := text(o.take("tool_call_id", "toolCallId", "tool_use_id")), false
		m.Name = text(o.take("name"))
		m.content(o.take("content"), depth+1)
		m.content(o.take("parts"), depth+1)
		m.callsInText()
		if status := o.peek("status"); callID != "" && status != "" {
			failed = text(o.take("status")) == "error"
		}
		m.answer(callID, failed)

		m.calls(o.take("tool_calls", "toolCalls"))
		if more := o.peek("additional_kwargs"); isObject(more) { // where LangChain keeps what the provider said
			more := newObject(o.take("additional_kwargs"))
			m.calls(more.take("tool_calls"))
			m.other(more.rest())
		}
		if isObject(o.peek("function_call")) {
			m.call(o.take("function_call"))
		}
		bare = bare && len(m.Parts) == 0
	}

	m.other(o.rest())
	if bare && isPart && r.bare && len(r.messages[len(r.messages)-1].Parts) < maxParts { // parts in a list belong together
		last := &r.messages[len(r.messages)-1]
		last.Parts = append(last.Parts, m.Parts...)
		return
	}
	r.add(m)
	r.bare = bare && isPart
}

// callsInText makes the text of an answer that is a list of tool calls these calls.
func (m *Message) callsInText() {
	if m.Role != "assistant" && m.Role != "model" || len(m.Parts) != 1 || m.Parts[0].Kind != Text {
		return
	}

	list := strings.TrimSpace(m.Parts[0].Text)
	if !strings.HasPrefix(list, "[") || !loosejson.Valid(list) {
		return
	}

	all := elements(list)
	for _, e := range all {
		if !isObject(e) || !isCall(newObject(e)) {
			return
		}
	}
	if len(all) > 0 {
		m.Parts = nil
		m.calls(list)
	}
}

// isCall reports whether an object is a tool call: a function with its name and arguments.
func isCall(o *object) bool {
	if !isObject(o.peek("function")) {
		return false
	}
	function := newObject(o.peek("function"))
	return text(function.peek("name")) != "" && function.peek("arguments") != ""
}

// answer makes the texts of a message results of a tool call, if it answers one.
func (m *Message) answer(callID string, failed bool) {
	if callID == "" && m.Role != "tool" {
		return
	}

	answer := Part{Kind: Result, ID: callID, Name: m.Name, Failed: failed}
	found := false
	for i, p := range m.Parts {
		if p.Kind == Text {
			answer.Text, found = p.Text, true
			m.Parts[i] = answer
		}
	}
	if !found && callID != "" {
		m.Parts, found = append(m.Parts, answer), true
	}
	if found {
		m.Name = ""
	}
}

// content reads the content of a message: a text, a part, or a list of both.
func (m *Message) content(v string, depth int) {
	switch {
	case v == "":
	case depth > maxDepth:
		m.other(v)
	case v[0] == '[':
		m.each(v, func(e string) { m.content(e, depth+1) })
	case v[0] == '{':
		o := newObject(v)
		m.part(o, depth)
		m.other(o.rest())
	case v != "null":
		if s := text(v); s != "" {
			m.Parts = append(m.Parts, Part{Text: s})
		}
	}
}

// other adds JSON that is not understood.
func (m *Message) other(v string) {
	if v != "" {
		m.Parts = append(m.Parts, Part{Kind: Other, Text: v})
	}
}

// part reads a part of a message, as far as it is understood, and reports whether it is one.
func (m *Message) part(o *object, depth int) bool {
	kind := text(o.peek("type"))
	switch kind {
	case "text", "output_text", "input_text":
		return m.text(o, Text, "text", "content")
	case "reasoning", "thinking", "redacted_thinking":
		return m.text(o, Thought, "thinking", "text", "content", "reasoning")
	case "tool_call", "tool-call", "function_call", "tool_use", "server_tool_use", "function":
		o.take("type")
		m.callOf(o)
		return true
	case "tool_call_response", "tool-result", "tool_result", "function_call_output", "tool_response":
		o.take("type")
		m.resultOf(o, depth)
		return true
	case "":
	default:
		return false
	}

	if isString(o.peek("text")) {
		return m.text(o, Text, "text")
	}

	known := false
	for _, name := range []string{"toolUse", "functionCall", "function_call", "toolRequest", "call"} {
		if isObject(o.peek(name)) && o.peek("role") == "" && o.peek("content") == "" {
			m.call(o.take(name))
			known = true
		}
	}
	for _, name := range []string{"toolResult", "functionResponse", "function_response", "toolResponse", "result"} {
		if isObject(o.peek(name)) {
			inner := newObject(o.take(name))
			m.resultOf(inner, depth)
			m.other(inner.rest())
			known = true
		}
	}

	if !known && isCall(o) {
		m.callOf(o)
		known = true
	}
	if !known && o.peek("toolName") != "" && o.peek("content") == "" {
		m.callOf(o)
		known = true
	}
	return known
}

// text adds what the first of some members says that is a text.
func (m *Message) text(o *object, kind Kind, names ...string) bool {
	for _, name := range names {
		if isString(o.peek(name)) {
			o.take("type")
			m.Parts = append(m.Parts, Part{Kind: kind, Text: text(o.take(name))})
			return true
		}
	}
	return false
}

func (m *Message) calls(v string) {
	if !strings.HasPrefix(v, "[") {
		m.other(v)
		return
	}
	m.each(v, m.call)
}

// each calls a function for each element of an array. Beyond the limit, they are one part.
func (m *Message) each(v string, do func(e string)) {
	all := elements(v)
	for i, e := range all {
		if len(m.Parts) >= maxParts {
			m.other("[" + strings.Join(all[i:], ",") + "]")
			return
		}
		do(e)
	}
}

func (m *Message) call(v string) {
	if !isObject(v) {
		m.other(v)
		return
	}

	o := newObject(v)
	if text(o.peek("type")) == "function" || strings.HasPrefix(text(o.peek("type")), "tool") {
		o.take("type")
	}
	m.callOf(o)
	m.other(o.rest())
}

// callOf adds a tool call. One that the framework keeps beside the provider's own is there already.
func (m *Message) callOf(o *object) {
	function := o
	if inner := o.peek("function"); isObject(inner) {
		function = newObject(o.take("function"))
	}

	p := Part{
		Kind: Call,
		ID:   text(o.take("call_id", "toolCallId", "toolUseId", "ref", "id")),
		Name: text(function.take("name", "toolName")),
		Text: text(function.take("arguments", "args", "input")),
	}

	for _, known := range m.Parts {
		if known.Kind == Call && p.ID != "" && known.ID == p.ID && known.Name == p.Name &&
			compact(known.Text) == compact(p.Text) {
			return
		}
	}
	m.Parts = append(m.Parts, p)
	if function != o {
		m.other(function.rest())
	}
}

func (m *Message) resultOf(o *object, depth int) {
	p := Part{
		Kind: Result,
		ID:   text(o.take("tool_use_id", "toolUseId", "toolCallId", "callId", "call_id", "ref", "id")),
		Name: text(o.take("name", "toolName")),
	}

	content := o.take("response", "result", "output", "content", "text")
	var inner Message
	if strings.HasPrefix(content, "[") {
		inner.content(content, depth+1)
	}
	for i, each := range inner.Parts { // a list of texts is one
		if each.Kind != Text {
			p.Text = ""
			break
		}
		if p.Text += each.Text; i < len(inner.Parts)-1 {
			p.Text += "\n"
		}
	}

	p.Text = cmp.Or(p.Text, text(content))
	if failed := o.peek("is_error", "isError", "failed"); failed == "true" || failed == "false" {
		p.Failed = o.take("is_error", "isError", "failed") == "true"
	}
	if text(o.peek("status")) == "error" || text(o.peek("status")) == "success" {
		p.Failed = p.Failed || text(o.take("status")) == "error"
	}
	m.Parts = append(m.Parts, p)
}
