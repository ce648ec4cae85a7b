package otlp

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// chatMessage is a message to a model, or from one.
type chatMessage struct {
	role    string
	text    string
	thought bool // it holds reasoning besides
	calls   []callRequest
	results []callResult
}

// callRequest is a tool call that a model asked for.
type callRequest struct {
	id, name string
	args     string // JSON, or text
	key      string // see nameKey
}

type callResult struct {
	id, name string
	text     string
	failed   bool
	message  string // of the failure, if there is one of its own
}

type chat struct {
	messages []chatMessage
	finish   string                // the reason why the model stopped
	byID     map[string]callResult // the results by the id of their call, filled when first needed
}

const maxMessages = 10_000

// readChat reads the messages in the JSON of any provider or framework: a message, a list of them, a
// request, a response or a list of parts. It skips what it does not know. A text that is not JSON is
// one message.
func readChat(s string) chat {
	var c chat
	if s == "" {
		return c
	}

	if !isJSON(s) {
		if c, ok := readPython(s); ok {
			return c
		}
		c.messages = []chatMessage{{text: unquoted(s)}}
		return c
	}
	c.value(strings.TrimSpace(s), "", 0)
	return c
}

// readPython reads messages that are shown as Python does: {'role': 'assistant', 'text': "It's so."}.
func readPython(s string) (c chat, ok bool) {
	start := strings.TrimLeft(s, "[( \t\r\n")
	if !strings.HasPrefix(start, "{'") {
		return c, false
	}

	v := fromPython(s)
	if v == "" || !hasMessage(v, true, 0) {
		return c, false
	}
	c.value(v, "", 0)
	return c, len(c.messages) > 0
}

func (c *chat) calls() (all []callRequest) {
	for i := range c.messages {
		all = append(all, c.messages[i].calls...)
	}
	return all
}

// onlyText returns the text of a chat. It reports false if there is none, or anything else besides.
func (c *chat) onlyText() (string, bool) {
	var texts []string
	for i := range c.messages {
		m := &c.messages[i]
		if m.thought || len(m.calls) > 0 || len(m.results) > 0 {
			return "", false
		}
		if m.text != "" {
			texts = append(texts, m.text)
		}
	}
	return strings.Join(texts, "\n\n"), len(texts) > 0
}

// last returns the text of the last message that has this role or none.
func (c *chat) last(role string) string {
	for _, m := range slices.Backward(c.messages) {
		if m.text != "" && (m.role == role || m.role == "" && len(m.calls) == 0) {
			return m.text
		}
	}
	return ""
}

// request returns the text of the user's last message, or of the first of several that follow each
// other.
func (c *chat) request() (request string) {
	for _, m := range slices.Backward(c.messages) {
		switch {
		case m.role == "user" && m.text != "":
			request = m.text
		case request != "":
			return request
		case m.role == "" && m.text != "" && len(m.calls) == 0:
			return m.text
		}
	}
	return request
}

// lastCalls returns the last calls of a chat, and the results that follow them.
func (c *chat) lastCalls() (calls []callRequest, results []callResult) {
	for i := range c.messages {
		m := &c.messages[i]
		if len(m.calls) > 0 {
			if i > 0 && len(c.messages[i-1].calls) > 0 {
				calls = append(calls, m.calls...) // one message per call
			} else {
				calls, results = m.calls, nil
			}
		}
		results = append(results, m.results...)
	}
	return calls, results
}

func (c *chat) result(id string) (callResult, bool) {
	if c.byID == nil {
		c.byID = map[string]callResult{}
		for i := range c.messages {
			for _, r := range c.messages[i].results {
				c.byID[r.id] = r
			}
		}
	}
	r, ok := c.byID[id]
	return r, ok
}

func (c *chat) value(v, role string, depth int) {
	if depth > maxMessageDepth || v == "" {
		return
	}

	switch v[0] {
	case '[':
		if role, content, ok := pair(v); ok {
			c.add(chatMessage{role: role, text: content})
			return
		}
		for e := range elements(v) {
			if c.value(e, role, depth+1); len(c.messages) >= maxMessages {
				return
			}
		}
	case '{':
		c.object(v, role, depth+1)
	case '"':
		c.add(chatMessage{role: role, text: text(v)})
	}
}

// pair reads a message that is written ["user", "..."].
func pair(v string) (role, content string, ok bool) {
	n := 0
	for e := range elements(v) {
		switch n {
		case 0:
			role = cmp.Or(roles[text(e)], text(e))
			ok = e[0] == '"' && (role == "user" || role == "assistant" || role == "system")
		case 1:
			ok = ok && e[0] == '"'
			content = text(e)
		}

		if n++; !ok || n > 2 {
			return "", "", false
		}
	}
	return role, content, n == 2
}

func (c *chat) add(m chatMessage) {
	if len(c.messages) < maxMessages {
		c.messages = append(c.messages, m)
	}
}

// wrappers are the names of what holds messages.
var wrappers = map[string]bool{
	"messages": true, "choices": true, "generations": true, "contents": true, "candidates": true, "message": true,
	"llm_request":  true,
	"llm_response": true,
}

// object reads a message, a part of one, or an object that wraps messages. The role is that of
// messages that have none.
func (c *chat) object(v, role string, depth int) {
	var m chatMessage
	var inner []string
	var kwargs, data, content, parts, calls, callID, name, kind, constructor, status, more string
	for key, value := range members(v) {
		if wrappers[key] {
			inner = append(inner, value)
			continue
		}

		switch key {
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
			c.finish = cmp.Or(c.finish, memberText(value, "finish_reason", "stop_reason"))
		}
	}

	switch {
	case strings.HasPrefix(kwargs, "{"): // a LangChain object
		class := ""
		for e := range elements(constructor) {
			class = text(e)
		}
		c.object(kwargs, cmp.Or(roles[class], role), depth+1)
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
		m.callsInText()
	}

	if calls == "" || calls == "[]" {
		calls = member(more, "tool_calls")
	}
	for e := range elements(calls) {
		m.part(e, "tool_call", depth+1)
	}
	if !isPart && (callID != "" || m.role == "tool" && m.text != "" && len(m.results) == 0) {
		m.results = []callResult{{id: callID, name: name, text: m.text, failed: status == "error"}}
		m.text = ""
	}

	m.calls = unique(m.calls)
	if m.text != "" || len(m.calls) > 0 || len(m.results) > 0 || m.role != "" {
		c.add(m)
	}
}

// hasMessage reports whether a JSON value is a message or holds one. Among messages, an object is one that only has a
// content; a list that is asked for is among them.
func hasMessage(v string, among bool, depth int) bool {
	if depth > maxMessageDepth || v == "" {
		return false
	}

	switch v[0] {
	case '[':
		if _, _, ok := pair(v); ok {
			return true
		}
		for e := range elements(v) {
			if hasMessage(e, among, depth+1) {
				return true
			}
		}
	case '{':
		if depth == 0 {
			among = false
		}
		for key, value := range members(v) {
			if saysMessage(key, value, among) || hasMessage(value, wrappers[key], depth+1) {
				return true
			}
		}
	}
	return false
}

// saysMessage reports whether a member of an object says that this is a message, or a part of one.
func saysMessage(key, value string, among bool) bool {
	switch key {
	case "role":
		return knownRoles[text(value)]
	case "type":
		return roles[text(value)] != "" || textKinds[text(value)]
	case "id": // of a LangChain object
		class := ""
		for e := range elements(value) {
			class = text(e)
		}
		return roles[class] != ""
	case "parts":
		return among || strings.HasPrefix(value, "[{")
	case "content", "text":
		return among
	}
	return false
}

// knownRoles are the roles of messages in all forms.
var knownRoles = map[string]bool{
	"user": true, "assistant": true, "system": true, "developer": true, "tool": true, "model": true, "function": true,
	"human": true, "ai": true,
}

// textKinds are the types of parts that only messages have.
var textKinds = map[string]bool{
	"text": true, "input_text": true, "output_text": true, "tool_call": true, "tool-call": true, "tool_use": true,
	"tool_call_response": true,
	"tool_result":        true, "tool-result": true, "function_call_output": true, "image_url": true, "input_image": true,
}

// callsInText makes the text of an answer that is a list of tool calls these calls.
func (m *chatMessage) callsInText() {
	if m.role != "assistant" && m.role != "model" || !strings.HasPrefix(strings.TrimSpace(m.text), "[") ||
		!isJSON(m.text) {
		return
	}

	var asked chatMessage
	for e := range elements(m.text) {
		if !isCall(e) || !asked.addCall(e) {
			return
		}
	}
	if len(asked.calls) > 0 {
		m.text, m.calls = "", append(m.calls, asked.calls...)
	}
}

// isCall reports whether an object is a tool call: a function with its name and arguments.
func isCall(v string) bool {
	function := member(v, "function")
	return memberText(function, "name") != "" && member(function, "arguments") != ""
}

// roles maps the types and LangChain classes of messages to their roles.
var roles = map[string]string{"human": "user", "ai": "assistant", "system": "system", "tool": "tool",
	"HumanMessage": "user", "AIMessage": "assistant", "AIMessageChunk": "assistant", "SystemMessage": "system",
	"ToolMessage": "tool"}

// content reads the content of a message: a text, a part, or a list of both.
func (m *chatMessage) content(v string, depth int) {
	if v == "" || depth > maxMessageDepth {
		return
	}

	switch v[0] {
	case '"':
		m.addText(text(v))
	case '[':
		for e := range elements(v) {
			m.content(e, depth+1)
		}
	case '{':
		m.part(v, memberText(v, "type"), depth+1)
	}
}

func (m *chatMessage) addText(s string) {
	if m.text != "" && s != "" {
		m.text += "\n"
	}
	m.text += s
}

// part reads a part of a message, and reports whether it is of a known kind.
func (m *chatMessage) part(v, kind string, depth int) bool {
	if depth > maxMessageDepth {
		return false
	}

	switch kind {
	case "text", "output_text", "input_text":
		m.addText(memberText(v, "content", "text"))
		return true
	case "reasoning", "thinking", "redacted_thinking":
		m.thought = true
		return true
	case "tool_call", "tool-call", "function_call", "tool_use", "server_tool_use", "function":
		return m.addCall(v)
	case "tool_call_response", "tool-result", "tool_result", "function_call_output", "tool_response":
		m.addResult(v, false)
		return true
	}

	known := false
	for key, value := range members(v) {
		switch key {
		case "text":
			if kind == "" && strings.HasPrefix(value, `"`) {
				m.addText(text(value))
				known = true
			}
		case "function":
			if kind == "" && isCall(v) {
				known = m.addCall(v) || known
			}
		case "toolUse", "functionCall", "function_call", "toolRequest":
			known = m.addCall(value) || known
		case "toolResult", "functionResponse", "function_response", "toolResponse":
			m.addResult(value, true)
			known = true
		case "toolName":
			if kind == "" {
				known = m.addCall(v) || known
			}
		}
	}
	return known
}

func (m *chatMessage) addCall(v string) bool {
	function := v
	if inner := member(v, "function"); strings.HasPrefix(inner, "{") {
		function = inner
	}

	call := callRequest{
		id:   memberText(v, "call_id", "toolCallId", "toolUseId", "ref", "id"),
		name: memberText(function, "name", "toolName"),
		args: memberText(function, "arguments", "args", "input"),
	}
	if call.name == "" && call.id == "" {
		return false
	}
	m.calls = append(m.calls, call)
	return true
}

func (m *chatMessage) addResult(v string, wrapped bool) {
	content := member(v, "response", "result", "output", "content")
	r := callResult{
		id:     memberText(v, "tool_use_id", "toolUseId", "toolCallId", "call_id", "ref", "id"),
		name:   memberText(v, "name", "toolName"),
		text:   resultOf(plain(content)),
		failed: member(v, "is_error", "isError") == "true" || memberText(v, "status") == "error",
	}

	if message := member(content, "error"); wrapped && message != "" { // how Gemini reports a failure
		r.failed, r.message = true, text(message)
	}
	m.results = append(m.results, r)
}

// resultOf returns the result of a tool call without {"result": ...} around it.
func resultOf(s string) string {
	if name, inner := onlyMember(s); name == "result" && isJSON(s) {
		return text(inner)
	}
	return s
}

// answers returns the messages of a list of choices or candidates, "" if there are none.
func answers(choices string) string {
	b := []byte{'['}
	for c := range elements(choices) {
		if m := member(c, "message", "content"); strings.HasPrefix(m, "{") {
			b = append(comma(b), m...)
		}
	}
	if len(b) == 1 {
		return ""
	}
	return string(append(b, ']'))
}

// plain returns the text of a result. For a list of text parts these are their texts.
func plain(v string) string {
	if strings.HasPrefix(v, "{") || strings.HasPrefix(firstElement(v), "{") {
		var m chatMessage
		m.content(v, 0)
		if m.text != "" && len(m.calls) == 0 && len(m.results) == 0 {
			return m.text
		}
	}
	return text(v)
}

// unique removes calls with an id that occurred before: some frameworks keep the provider's answer
// beside their own.
func unique(calls []callRequest) []callRequest {
	if len(calls) < 2 {
		return calls
	}
	seen := make(map[string]bool, len(calls))
	return slices.DeleteFunc(calls, func(c callRequest) bool {
		twice := c.id != "" && seen[c.id]
		seen[c.id] = true
		return twice
	})
}

// flattened returns the messages in the attributes prefix.N.role, prefix.N.content,
// prefix.N.tool_calls.M.name and so on as JSON, "" if there are none. The numbers only give the
// order: prefix.9999 does not make 9,998 other messages.
func flattened(a Attributes, prefix string) string {
	if !a.HasPrefix(prefix) {
		return ""
	}
	b := []byte{'['}
	for _, m := range numbered(a, prefix) {
		b = m.appendMessage(comma(b))
	}
	return string(append(b, ']'))
}

// block is the attributes whose keys have the same number.
type block struct {
	Attributes
	n      int
	prefix string // of their keys, up to and including the number
}

// get returns the first text of some attributes, by their names after the prefix.
func (m *block) get(names ...string) string {
	for _, name := range names {
		if s := m.Get(m.prefix + name); s != "" {
			return s
		}
	}
	return ""
}

// isParts reports whether the content of a message is a list of parts with a text among them, such as one beside an
// image.
func isParts(content string) bool {
	if !strings.HasPrefix(content, "[{") || !isJSON(content) {
		return false
	}

	hasText := false
	for part := range elements(content) {
		switch kind := memberText(part, "type"); kind {
		case "text", "input_text", "output_text":
			hasText = true
		case "image", "image_url", "input_image", "audio", "input_audio", "file", "input_file", "document", "blob", "uri":
		default:
			return false
		}
	}
	return hasText
}

// numbered returns the attributes prefix.N.*, one block for each N, in the order of N.
func numbered(a Attributes, prefix string) (all []block) {
	for a = a.WithPrefix(prefix); len(a) > 0; {
		digits, _, nested := strings.Cut(a[0].Key[len(prefix):], ".")
		if !nested {
			a = a[1:]
			continue
		}

		m := block{prefix: a[0].Key[:len(prefix)+len(digits)+1]}
		m.Attributes = a.WithPrefix(m.prefix)
		if n, err := strconv.ParseUint(digits, 10, 31); err == nil {
			m.n = int(n)
			all = append(all, m)
		}
		a = a[len(m.Attributes):]
	}
	slices.SortStableFunc(all, func(x, y block) int { return cmp.Compare(x.n, y.n) })
	return all
}

// appendMessage writes a message. Each of its attributes may have "message." before its name.
func (m *block) appendMessage(b []byte) []byte {
	b = append(b, '{')
	for _, name := range []string{"role", "name", "tool_call_id", "reasoning", "content"} {
		switch v := m.get("message."+name, name); {
		case v == "":
		case name == "content" && isParts(v):
			b = appendRaw(b, name, v)
		default:
			b = appendMember(b, name, v)
		}
	}

	list := func(name string) []block {
		if prefix := m.prefix + "message." + name + "."; m.HasPrefix(prefix) {
			return numbered(m.Attributes, prefix)
		}
		return numbered(m.Attributes, m.prefix+name+".")
	}

	if m.get("message.content", "content") == "" { // some instrumentations write both
		var texts []string
		for _, part := range list("contents") {
			if s := part.get("message_content.text", "text"); s != "" {
				texts = append(texts, s)
			}
		}
		if len(texts) > 0 {
			b = appendMember(b, "content", strings.Join(texts, "\n"))
		}
	}

	if calls := list("tool_calls"); len(calls) > 0 {
		b = append(appendName(b, "tool_calls"), '[')
		for _, call := range calls {
			b = append(comma(b), '{')
			for _, name := range []string{"id", "name", "arguments"} {
				if v := call.get("tool_call."+name, "tool_call.function."+name, name, "function."+name); v != "" {
					b = appendMember(b, name, v)
				}
			}
			b = append(b, '}')
		}
		b = append(b, ']')
	}
	return append(b, '}')
}
