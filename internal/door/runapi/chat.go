package runapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/record"
)

// The chat API is what clients of OpenAI's Chat Completions speak: each completion is a run of an agent.

// agentModel begins the names of the models: agent/NAME is the agent NAME.
const agentModel = "agent/"

// chatIgnored are the parameters that change nothing: the agent's configuration decides, or they are about how the
// client is billed, cached or watched.
var chatIgnored = []string{
	"temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "seed",
	"max_tokens",
	"max_completion_tokens", "reasoning_effort", "verbosity", "service_tier", "store", "parallel_tool_calls",
	"prediction", "prompt_cache_key",
	"prompt_cache_retention", "safety_identifier", "logit_bias",
}

// chatRefused are the parameters that would change what a completion is, with the values by which they do not.
var chatRefused = map[string][]string{
	"n": {"1"}, "stop": {"[]"}, "tools": {"[]"}, "tool_choice": {`"none"`, `"auto"`}, "functions": {"[]"},
	"function_call": {`"none"`, `"auto"`},
	"logprobs":      {"false"}, "top_logprobs": {"0"}, "modalities": {`["text"]`}, "response_format": {`{"type":"text"}`},
	"audio": nil, "web_search_options": nil,
}

// chatRequest is what a completion is asked for.
type chatRequest struct {
	agent        string
	request      string
	history      []chatMessage
	userID       string
	tags         []string
	stream       bool
	includeUsage bool
}

// chatMessage is a message of the history, as the input of a run has it.
type chatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// readChat reads the body of a request for a completion. Its errors name the parameter.
func readChat(m members) (r chatRequest, err error) {
	known := slices.Concat([]string{"model", "messages", "stream", "stream_options", "user", "metadata"}, chatIgnored,
		slices.Collect(maps.Keys(chatRefused)))
	o := objectOf(m, "", known...)
	if o.err != nil {
		bad, _ := errors.AsType[*record.InvalidError](o.err)
		return r, invalid(bad.Field, "is not known here; leave it out")
	}
	for _, name := range slices.Sorted(maps.Keys(chatRefused)) {
		raw := string(m[name])
		if compact := strings.Join(strings.Fields(raw), ""); compact != "" && compact != "null" &&
			!slices.Contains(chatRefused[name], compact) {
			return r, invalid(name, "is not supported: the agent decides on its tools and its answer, which is one text. "+
				"Leave it out")
		}
	}

	if r.agent, err = chatAgent(o); err != nil {
		return r, err
	}

	o.value("stream", &r.stream, "true or false")
	options := &object{members: o.object("stream_options"), prefix: "stream_options."}
	options.value("include_usage", &r.includeUsage, "true or false")
	r.userID, r.tags = o.id("user"), chatTags(o)
	if err := errors.Join(o.err, options.err); err != nil {
		return r, err
	}
	r.request, r.history, err = chatMessages(o)
	return r, err
}

// chatAgent returns the agent that the member model names.
func chatAgent(o *object) (string, error) {
	model := o.id("model")
	name, isAgent := strings.CutPrefix(model, agentModel)
	switch {
	case o.err != nil:
		return "", o.err
	case model == "":
		return "", missing("model")
	case !isAgent || name == "":
		return "", &engine.UnknownError{Kind: "model", Name: model}
	}
	return name, nil
}

const maxChatMetadata = 16

// chatTags returns the entries of the member metadata as tags: name=value.
func chatTags(o *object) (tags []string) {
	var metadata map[string]string
	o.value("metadata", &metadata, "an object of texts")
	if len(metadata) > maxChatMetadata {
		o.fail("metadata", fmt.Sprintf("must not have over %d entries", maxChatMetadata))
	}

	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		tag := name + "=" + metadata[name]
		if len(tag) > record.MaxIDBytes || !httpd.Storable(tag) {
			o.fail("metadata", fmt.Sprintf("must have entries of at most %d bytes, name and value together, without NUL",
				record.MaxIDBytes-1))
		}
		tags = append(tags, tag)
	}
	return tags
}

const maxChatMessages = 1_000

// chatMessages returns the last message, which is the request, and those before it.
func chatMessages(o *object) (request string, history []chatMessage, err error) {
	var list []members
	o.value("messages", &list, "a list of messages")
	switch {
	case o.err != nil:
		return "", nil, o.err
	case len(list) == 0:
		return "", nil, missing("messages")
	case len(list) > maxChatMessages:
		return "", nil, invalid("messages", fmt.Sprintf("must not have over %d items", maxChatMessages))
	}

	for i, m := range list {
		message, err := readChatMessage(m, fmt.Sprintf("messages[%d]", i))
		if err != nil {
			return "", nil, err
		}
		if i == len(list)-1 {
			if message.Role != "user" || string(m["role"]) != `"user"` || message.Content == "" {
				return "", nil, invalid(fmt.Sprintf("messages[%d]", i),
					"must be of role user and have a text: the last message is what the agent is asked")
			}
			return message.Content, history, nil
		}
		if message.Content != "" { // as of an answer that was broken off
			history = append(history, message)
		}
	}
	return "", nil, missing("messages")
}

// readChatMessage reads a message. Instructions of the client are what its user says: those of the agent are in the
// configuration.
func readChatMessage(m members, at string) (message chatMessage, err error) {
	o := &object{members: m, prefix: at + "."}
	switch role := o.id("role"); role {
	case "user", "system", "developer":
		message.Role = "user"
	case "assistant":
		message.Role = role
	default:
		return message, invalid(at+".role", "must be user, assistant, system or developer: the tools of an agent are its own")
	}
	for _, name := range []string{"tool_calls", "function_call", "audio"} {
		if raw := string(m[name]); raw != "" && raw != "null" && raw != "[]" {
			return message, invalid(at+"."+name, "is not supported: the tools of an agent are its own. Leave it out")
		}
	}

	message.Content, err = chatContent(m["content"], at+".content")
	if refusal := o.text("refusal", maxBodyBytes); message.Content == "" {
		message.Content = refusal
	}
	if strings.TrimSpace(message.Content) == "" {
		message.Content = ""
	}
	return message, errors.Join(o.err, err)
}

// chatContent returns the text of a content: a text, or a list of parts that are texts.
func chatContent(raw json.RawMessage, at string) (text string, err error) {
	var parts []struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	}
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return "", nil
	case json.Unmarshal(raw, &text) == nil:
		return text, chatStorable(text, at)
	case json.Unmarshal(raw, &parts) != nil:
		return "", invalid(at, "must be a text, or a list of parts")
	}

	texts := make([]string, len(parts))
	for i, p := range parts {
		if p.Type != "text" && p.Type != "refusal" {
			return "", invalid(fmt.Sprintf("%s[%d]", at, i),
				"is of type "+shown(p.Type)+"; an agent takes parts of type text only")
		}
		texts[i] = p.Text + p.Refusal
	}
	text = strings.Join(texts, "\n")
	return text, chatStorable(text, at)
}

func chatStorable(text, at string) error {
	if !httpd.Storable(text) {
		return invalid(at, "must be without NUL")
	}
	return nil
}

// chatStart starts the run that a body asks for.
func (s *Server) chatStart(c echo.Context) (r chatRequest, started engine.Started, err error) {
	if !httpd.MayAct(c) {
		return r, started, errNoSession
	}

	_, m, err := s.readBody(c)
	if err != nil {
		return r, started, err
	}
	if r, err = readChat(m); err != nil {
		return r, started, err
	}
	key, err := idempotencyKey(c)
	if err != nil {
		return r, started, err
	}

	input, err := json.Marshal(map[string]any{"agent": r.agent, "request": r.request, "history": r.history})
	if err != nil {
		return r, started, err
	}

	delete(m, "stream") // how an answer is sent does not make it another
	delete(m, "stream_options")
	body, err := json.Marshal(m)
	if err != nil {
		return r, started, err
	}

	started, err = s.starter.Start(c.Request().Context(), engine.Request{
		Executor: "agent", Name: r.agent, Input: input, UserID: r.userID, Tags: r.tags, Starter: httpd.KeyOf(c),
		IdempotencyKey: key, Body: body,
	})
	if err == nil {
		c.Response().Header().Set("X-Actlog-Run", started.PlanID)
	}
	return r, started, err
}

// errNoSession refuses the session of the web page.
var errNoSession = httpd.Refused(http.StatusUnauthorized,
	"an API key is needed: send it as Authorization: Bearer KEY. A session of the web page is not enough")
