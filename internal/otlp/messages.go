package otlp

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// A message is what was said to a model, or by it.
type chatMessage struct {
	role      string
	text      string
	thought   bool // it holds reasoning besides
	calls     []call
	responses []response
}

// A call is a tool call that a model asked for.
type call struct {
	id, name string
	args     string // JSON, or text
}

// A response is what came of a call.
type response struct {
	id, name string
	result   string
	failed   bool
	message  string // of the failure, where it says one
}

// chat is what a reader has made out.
type chat struct {
	messages []chatMessage
	finish   string
	byID     map[string]response // the responses, once asked for
}

// Bounds of what is read of one text.
const (
	maxMessages     = 10_000
	maxMessageDepth = 16
)

// readChat makes out the messages in the JSON of any provider or framework: a
// message, a list of them, a request, a response, a list of parts. What it does
// not know it passes over. A text that is no JSON is one message.
func readChat(s string) chat {
	var c chat
	if s == "" {
		return c
	}
	if !isJSON(s) {
		c.messages = []chatMessage{{text: unquoted(s)}}
		return c
	}
	c.value(strings.TrimSpace(s), "", 0)
	return c
}

// calls gives all calls of a chat in order.
func (c *chat) calls() (all []call) {
	for i := range c.messages {
		all = append(all, c.messages[i].calls...)
	}
	return all
}

// onlyText gives what was said, where nothing but text was.
func (c *chat) onlyText() (string, bool) {
	var texts []string
	for i := range c.messages {
		m := &c.messages[i]
		if m.thought || len(m.calls) > 0 || len(m.responses) > 0 {
			return "", false
		}
		if m.text != "" {
			texts = append(texts, m.text)
		}
	}
	return strings.Join(texts, "\n\n"), len(texts) > 0
}

// last gives the text of the last message of a role, or of none.
func (c *chat) last(role string) string {
	for _, m := range slices.Backward(c.messages) {
		if m.text != "" && (m.role == role || m.role == "" && len(m.calls) == 0) {
			return m.text
		}
	}
	return ""
}

// responses gives what stands behind the last calls of a chat, and those calls.
func (c *chat) answered() (calls []call, all []response) {
	for i := range c.messages {
		m := &c.messages[i]
		if len(m.calls) > 0 {
			if i > 0 && len(c.messages[i-1].calls) > 0 {
				calls = append(calls, m.calls...) // a message a call
			} else {
				calls, all = m.calls, nil
			}
		}
		all = append(all, m.responses...)
	}
	return calls, all
}

func (c *chat) value(v, role string, depth int) {
	if depth > maxMessageDepth || v == "" {
		return
	}
	switch v[0] {
	case '[':
		elements(v, func(e string) bool {
			c.value(e, role, depth+1)
			return len(c.messages) < maxMessages
		})
	case '{':
		c.object(v, role, depth+1)
	case '"':
		c.add(chatMessage{role: role, text: text(v)})
	}
}

func (c *chat) add(m chatMessage) {
	if len(c.messages) < maxMessages {
		c.messages = append(c.messages, m)
	}
}

// object reads a message, a part of one, or what wraps messages.
func (c *chat) object(v, role string, depth int) {
	var m chatMessage
	var inner []string
	var kwargs, data, content, parts, calls, callID, name, kind, constructor, status, more string
	members(v, func(key, value string) bool {
		switch key {
		case "messages", "choices", "generations", "contents", "candidates", "message", "llm_request", "llm_response":
			inner = append(inner, value)
		case "kwargs":
			kwargs = value
		case "data":
			data = value
		case "additional_kwargs":
			more = value
		case "id":
			constructor = value
		case "role":
			m.role = text(value)
		case "content":
			content = value
		case "parts":
			parts = value
		case "tool_calls", "toolCalls":
			calls = value
		case "tool_call_id", "toolCallId", "tool_use_id":
			callID = text(value)
		case "name":
			name = text(value)
		case "type":
			kind = text(value)
		case "status":
			status = text(value)
		case "finish_reason", "finishReason", "stop_reason", "stopReason":
			c.finish = cmp.Or(text(value), c.finish)
		case "generationInfo", "response_metadata":
			c.finish = cmp.Or(c.finish, text(member(value, "finish_reason", "stop_reason")))
		}
		return true
	})
	switch {
	case kwargs != "": // a LangChain object
		c.object(withRole(kwargs, constructor), role, depth+1)
		return
	case roles[kind] != "" && strings.HasPrefix(data, "{"): // the same, as messages_to_dict writes it
		c.object(data, roles[kind], depth+1)
		return
	case len(inner) > 0:
		for _, v := range inner {
			c.value(v, role, depth+1)
		}
		return
	}
	if m.role == "" {
		m.role = cmp.Or(roles[kind], role)
	}
	isPart := m.part(v, kind, depth)
	if !isPart && strings.HasPrefix(content, "{") && parts == "" && m.role == "" {
		c.value(content, role, depth+1) // Gemini's response: {"content": {"parts": ...}}
		return
	}
	if !isPart {
		m.content(content, depth)
		m.content(parts, depth)
	}
	if calls == "" || calls == "[]" {
		calls = member(more, "tool_calls")
	}
	elements(calls, func(e string) bool {
		m.part(e, "tool_call", depth+1)
		return true
	})
	if callID != "" && !isPart {
		m.responses = []response{{id: callID, name: name, result: m.text, failed: status == "error"}}
		m.text = ""
	} else if m.role == "tool" && !isPart && m.text != "" && len(m.responses) == 0 {
		m.responses = []response{{name: name, result: m.text, failed: status == "error"}}
		m.text = ""
	}
	m.calls = unique(m.calls)
	if m.text != "" || len(m.calls) > 0 || len(m.responses) > 0 || m.role != "" {
		c.add(m)
	}
}

// roles are those that a type tells.
var roles = map[string]string{"human": "user", "ai": "assistant", "system": "system", "tool": "tool",
	"HumanMessage": "user", "AIMessage": "assistant", "AIMessageChunk": "assistant", "SystemMessage": "system", "ToolMessage": "tool"}

// withRole adds the role that the constructor of a LangChain message tells.
func withRole(kwargs, constructor string) string {
	class := ""
	elements(constructor, func(e string) bool { class = text(e); return true })
	if role := roles[class]; role != "" && member(kwargs, "role") == "" && strings.HasPrefix(kwargs, "{") {
		b := appendMember([]byte{'{'}, "role", role)
		if rest := strings.TrimSpace(kwargs[1:]); rest != "}" {
			b = append(b, ',')
			return string(append(b, rest...))
		}
		return string(append(b, '}'))
	}
	return kwargs
}

// content reads the content of a message: a text, a part, a list of both.
func (m *chatMessage) content(v string, depth int) {
	if v == "" || depth > maxMessageDepth {
		return
	}
	switch v[0] {
	case '"':
		m.say(text(v))
	case '[':
		elements(v, func(e string) bool {
			m.content(e, depth+1)
			return true
		})
	case '{':
		m.part(v, text(member(v, "type")), depth+1)
	}
}

func (m *chatMessage) say(s string) {
	if m.text != "" && s != "" {
		m.text += "\n"
	}
	m.text += s
}

// part reads a part of a message, and tells whether it is one that it knows.
func (m *chatMessage) part(v, kind string, depth int) bool {
	if depth > maxMessageDepth {
		return false
	}
	switch kind {
	case "text", "output_text", "input_text":
		m.say(text(member(v, "content", "text")))
		return true
	case "reasoning", "thinking", "redacted_thinking":
		m.thought = true
		return true
	case "tool_call", "tool-call", "function_call", "tool_use", "server_tool_use", "function":
		return m.call(v)
	case "tool_call_response", "tool-result", "tool_result", "function_call_output", "tool_response":
		m.respond(v, false)
		return true
	}
	known := false
	members(v, func(key, value string) bool {
		switch key {
		case "text":
			if kind == "" && strings.HasPrefix(value, `"`) {
				m.say(text(value))
				known = true
			}
		case "toolUse", "functionCall", "function_call", "toolRequest":
			known = m.call(value) || known
		case "toolResult", "functionResponse", "function_response", "toolResponse":
			m.respond(value, true)
			known = true
		case "toolName":
			if kind == "" {
				known = m.call(v) || known
			}
		}
		return true
	})
	return known
}

func (m *chatMessage) call(v string) bool {
	function := v
	if inner := member(v, "function"); strings.HasPrefix(inner, "{") {
		function = inner
	}
	k := call{
		id:   text(member(v, "call_id", "toolCallId", "toolUseId", "ref", "id")),
		name: text(member(function, "name", "toolName")),
		args: text(member(function, "arguments", "args", "input")),
	}
	if k.name == "" && k.id == "" {
		return false
	}
	m.calls = append(m.calls, k)
	return true
}

func (m *chatMessage) respond(v string, wrapped bool) {
	r := response{
		id:   text(member(v, "tool_use_id", "toolUseId", "toolCallId", "call_id", "ref", "id")),
		name: text(member(v, "name", "toolName")),
	}
	result := member(v, "response", "result", "output", "content")
	r.failed = member(v, "is_error", "isError") == "true" || text(member(v, "status")) == "error"
	r.result = plain(result)
	if message := member(result, "error"); wrapped && message != "" { // Gemini's way to say so
		r.failed, r.message = true, text(message)
	}
	m.responses = append(m.responses, r)
}

// plain gives the text of a result: of a list of text parts, their texts.
func plain(v string) string {
	if strings.HasPrefix(v, "{") || strings.HasPrefix(firstElement(v), "{") {
		var m chatMessage
		m.content(v, 0)
		if m.text != "" && len(m.calls) == 0 && len(m.responses) == 0 {
			return m.text
		}
	}
	return text(v)
}

// unique drops calls that stand twice, as where a framework keeps the provider's
// answer beside its own.
func unique(calls []call) []call {
	if len(calls) < 2 {
		return calls
	}
	seen := make(map[string]bool, len(calls))
	return slices.DeleteFunc(calls, func(k call) bool {
		twice := k.id != "" && seen[k.id]
		seen[k.id] = true
		return twice
	})
}

// flattened gives the messages that stand in attributes as prefix.N.role,
// prefix.N.content, prefix.N.tool_calls.M.name and so on, as JSON. The numbers
// only order: prefix.9999 makes no room for 9,998 others.
func flattened(a Attributes, prefix string) string {
	a = a.below(prefix)
	if len(a) == 0 {
		return ""
	}
	b := []byte{'['}
	for _, m := range blocks(a, len(prefix)) {
		b = appendFlattened(comma(b), m.attributes, m.behind)
	}
	return string(append(b, ']'))
}

// A block is the attributes with one number; behind is how much of their keys
// leads to it.
type block struct {
	n, behind  int
	attributes Attributes
}

// blocks cuts attributes into those of one number, which stands in their keys
// behind so many bytes.
func blocks(a Attributes, behind int) []block {
	var all []block
	for i := 0; i < len(a); {
		digits, _, _ := strings.Cut(a[i].Key[behind:], ".")
		j := i + 1
		for j < len(a) && strings.HasPrefix(a[j].Key[behind:], digits) && (len(a[j].Key) == behind+len(digits) || a[j].Key[behind+len(digits)] == '.') {
			j++
		}
		if n, err := strconv.ParseUint(digits, 10, 31); err == nil && len(a[i].Key) > behind+len(digits) {
			all = append(all, block{int(n), behind + len(digits) + 1, a[i:j]})
		}
		i = j
	}
	slices.SortStableFunc(all, func(x, y block) int { return cmp.Compare(x.n, y.n) })
	return all
}

func appendFlattened(b []byte, a Attributes, behind int) []byte {
	b = append(b, '{')
	get := func(name string) string { // it stands there with or without the prefix
		return cmp.Or(a.Get(a[0].Key[:behind]+"message."+name), a.Get(a[0].Key[:behind]+name))
	}
	for _, name := range []string{"role", "name", "tool_call_id", "reasoning", "content"} {
		if v := get(name); v != "" {
			b = appendMember(b, name, v)
		}
	}
	lists := func(name string) []block {
		for _, prefix := range []string{"message.", ""} {
			prefix = a[0].Key[:behind] + prefix + name + "."
			if items := a.below(prefix); len(items) > 0 {
				return blocks(items, len(prefix))
			}
		}
		return nil
	}
	if get("content") == "" { // some say it both ways
		var texts []string
		for _, part := range lists("contents") {
			prefix := part.attributes[0].Key[:part.behind]
			if s := part.attributes.first(prefix+"message_content.text", prefix+"text"); s != "" {
				texts = append(texts, s)
			}
		}
		if len(texts) > 0 {
			b = appendMember(b, "content", strings.Join(texts, "\n"))
		}
	}
	if calls := lists("tool_calls"); len(calls) > 0 {
		b = append(comma(b), `"tool_calls":[`...)
		for _, k := range calls {
			prefix := k.attributes[0].Key[:k.behind]
			b = append(comma(b), '{')
			for _, name := range []string{"id", "name", "arguments"} {
				if v := k.attributes.first(prefix+"tool_call."+name, prefix+"tool_call.function."+name, prefix+name, prefix+"function."+name); v != "" {
					b = appendMember(b, name, v)
				}
			}
			b = append(b, '}')
		}
		b = append(b, ']')
	}
	return append(b, '}')
}
