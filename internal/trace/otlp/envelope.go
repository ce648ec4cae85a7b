package otlp

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// Many frameworks record the arguments and the result of a function in place of a text for people:
// {"args": [], "kwargs": {"city": "Oslo"}}, {"task": "..."}, {"result": "..."}. The functions below
// take out what is meant.

// maxEnvelopes bounds how many envelopes around a text are opened.
const maxEnvelopes = 8

// callArguments returns the arguments of a call without the envelope of a function that passes on any
// arguments, "" if there are none.
func callArguments(s string) string {
	s = unquoted(strings.TrimSpace(s))
	if isEmpty(s) && s != "{}" {
		return ""
	}
	if !strings.HasPrefix(s, "{") || !strings.Contains(s, `args"`) || !isJSON(s) {
		return s
	}

	var args, kwargs string
	others := false
	for key, value := range members(s) {
		switch key {
		case "args", "input_args":
			args = value
		case "kwargs", "input_kwargs":
			kwargs = value
		default:
			others = true
		}
	}

	both := strings.HasPrefix(args, "[") && strings.HasPrefix(kwargs, "{")
	alone := !others && (kwargs == "" && member(s, "input_args") != "" || args == "" && strings.HasPrefix(kwargs, "{"))

	switch {
	case !both && !alone:
		return s // a tool may call its own arguments so
	case isEmpty(args):
		return kwargs
	case !isEmpty(kwargs):
		return s
	case strings.HasPrefix(args, "[") && firstElement(args) != "" && compact(args) == "["+compact(firstElement(args))+"]":
		return text(firstElement(args))
	}
	return text(args)
}

// outcomeIn takes the result of a tool call out of what is around it. An object may also say whether the
// call failed, such as {"content": [{"type": "text", "text": "..."}], "isError": false}. The message is that
// of the failure; from {"error": "..."} it is of use only if the call failed.
func outcomeIn(s string) (result string, failed bool, message string) {
	s = resultOf(unquoted(s))
	if !strings.HasPrefix(s, "{") || !strings.Contains(s, `rror"`) || !isJSON(s) {
		return s, false, ""
	}

	switch member(s, "is_error", "isError") {
	case "false":
		return cmp.Or(returnedIn(s), s), false, ""
	case "true":
		s = cmp.Or(returnedIn(s), s)
		return s, true, s
	}
	e := member(s, "error")
	return s, false, cmp.Or(memberText(e, "message"), text(e))
}

// returnedIn returns what a call returned, of an object that also says whether it failed: a text, or
// JSON. It returns "" if there is nothing, or anything else that the object alone would tell.
func returnedIn(outcome string) string {
	returned, best := "", len(resultNames)
	for name, value := range members(outcome) {
		if i := slices.Index(resultNames, name); i >= 0 {
			if i < best && value != "null" {
				best, returned = i, value
			}
		} else if !outcomeNames[name] {
			return ""
		}
	}

	for part := range elements(returned) {
		if kind := memberText(part, "type"); kind != "" && kind != "text" { // an image
			return returned
		}
	}
	return plain(returned)
}

// resultNames are the names of what a call returned, and their order.
var resultNames = []string{"raw_output", "content", "blocks", "output", "result"}

// outcomeNames are the names of what is known of a call without its result, or is its result again.
var outcomeNames = map[string]bool{
	"is_error": true, "isError": true, "type": true, "id": true, "name": true, "tool_name": true, "raw_input": true,
	"call_id": true, "tool_call_id": true, "tool_use_id": true, "structuredContent": true, "_meta": true, "meta": true,
}

// isEmpty reports whether a text is JSON or Python without content.
func isEmpty(s string) bool {
	const longest = 16 // with some white space
	if len(s) > longest {
		return false
	}

	switch compact(s) {
	case "", "null", "None", "{}", "[]", "()", `""`:
		return true
	}
	return false
}

// requestIn returns what is asked for in the input of an agent or a function: the text, the user's
// message, or the member of an object that has a name for it. It returns "" if there is none, and for
// a text that is not for people.
func requestIn(input string) string { return openRequest(input, 0) }

func openRequest(s string, depth int) string {
	s = callArguments(s)
	if isEmpty(s) || depth > maxEnvelopes {
		return ""
	}

	c := readChat(s) // a text that is not JSON is a message
	if request := forPeople(c.request()); request != "" {
		return request
	}

	best, value := len(requestNames), ""
	for name, v := range members(s) {
		if i, ok := requestNames[nameKey(name)]; ok && i < best && v != "null" {
			best, value = i, v
		}
	}
	if value == "" && firstElement(s) != "" && compact(s) == "["+compact(firstElement(s))+"]" {
		value = firstElement(s)
	}
	return openRequest(text(value), depth+1)
}

// requestNames are the keys of the names that functions give to what they are asked, and their order.
var requestNames = ordered("task", "question", "query", "prompt", "request", "user_input", "user_message", "user_msg",
	"user_query",
	"user_prompt", "user_request", "input", "input_str", "input_text", "input_value", "inputs", "message", "new_message",
	"messages",
	"instruction", "instructions", "objective", "goal", "text", "content", "start_event", "data")

func ordered(names ...string) map[string]int {
	m := make(map[string]int, len(names))
	for i, name := range names {
		m[nameKey(name)] = i
	}
	return m
}

// answerIn returns the answer in the output of an agent or a function: the text, the assistant's last
// message, or the only member of an object if it has a name for it. It returns "" if there is none, and
// for a text that is not for people.
func answerIn(output string) string { return openAnswer(output, 0) }

func openAnswer(s string, depth int) string {
	s = unquoted(strings.TrimSpace(s))
	if isEmpty(s) || depth > maxEnvelopes {
		return ""
	}

	if c := readChat(s); len(c.messages) > 0 {
		for _, role := range []string{"assistant", "model"} {
			if answer := forPeople(c.last(role)); answer != "" {
				return answer
			}
		}
		return ""
	}

	name, inner := onlyMember(s)
	if _, ok := answerNames[nameKey(name)]; ok {
		return openAnswer(text(inner), depth+1)
	}
	return ""
}

var answerNames = ordered("result", "output", "answer", "response", "final_answer", "final_output", "return_value")

// forPeople returns s, or "" if it is how Python shows an object: ChatMessage(role='user', ...),
// id='1' source='user', StartEvent(), {'task': '...'}, <agents.Agent object at 0x7f>.
func forPeople(s string) string {
	if pythonObject.MatchString(s) {
		return ""
	}
	return s
}

// nameKey returns a name in a form in which case and separators make no difference: get_weather,
// getWeather and "Get weather" are one name.
func nameKey(name string) string {
	plain := true
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			plain = false
			break
		}
	}

	if plain {
		return name
	}

	key := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
	if key == "" {
		return name
	}
	return key
}

// withoutMethod returns the name of a span without the method that runs what it names: researcher of
// researcher.run.
func withoutMethod(name string) string {
	if i := strings.LastIndexByte(name, '.'); i > 0 && runMethods[name[i+1:]] {
		return name[:i]
	}
	return name
}

// runMethods are methods by which frameworks run agents, workflows and tools.
var runMethods = map[string]bool{
	"run": true, "arun": true, "run_async": true, "run_sync": true, "run_stream": true, "arun_stream": true,
	"forward": true, "aforward": true, "__call__": true, "__acall__": true, "call": true, "acall": true,
	"kickoff": true, "kickoff_async": true, "akickoff": true, "invoke": true, "ainvoke": true,
}
