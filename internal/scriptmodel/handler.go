package scriptmodel

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Options changes how a script is served. The zero value is usable.
type Options struct {
	APIKey       string           // key that every request must have, as bearer token or x-api-key; if empty, none is needed
	Seed         string           // goes into all ids, so that two runs of one script have different ids
	KeepRequests int              // how many of the newest requests Requests returns; default 1000
	MaxBody      int64            // maximum size of a request body in bytes; default 32 MiB
	Now          func() time.Time // the time in "created"; default time.Now
}

// Recorded is a request and how it was answered. A request to the Responses API or the Messages
// API is recorded as the equivalent chat completion request.
type Recorded struct {
	Request Request
	Scene   string // "" if no scene matched
	Turn    int
	Status  int // HTTP status of the answer
}

// Handler serves a script at /v1/chat/completions, /v1/responses, /v1/messages and /v1/models.
type Handler struct {
	script Script
	opts   Options

	mu       sync.Mutex
	failures map[string]int // number of errors served, by the digest of the conversation
	requests []Recorded
}

// NewHandler returns a handler that serves script. opts may be nil. NewHandler returns an error
// if the script is invalid.
func NewHandler(script Script, opts *Options) (*Handler, error) {
	if err := script.validate(); err != nil {
		return nil, err
	}
	h := &Handler{script: script, failures: map[string]int{}}
	if opts != nil {
		h.opts = *opts
	}
	h.opts.KeepRequests = cmp.Or(h.opts.KeepRequests, 1000)
	h.opts.MaxBody = cmp.Or(h.opts.MaxBody, 32<<20)
	if h.opts.Now == nil {
		h.opts.Now = time.Now
	}
	return h, nil
}

// Requests returns the newest requests that could be decoded, oldest first.
func (h *Handler) Requests() []Recorded {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.requests)
}

// ServeHTTP serves the four endpoints. It answers all other requests with an error in the format
// of OpenAI.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if key := h.opts.APIKey; key != "" && r.Header.Get("Authorization") != "Bearer "+key && r.Header.Get("X-Api-Key") != key {
		writeError(w, r, apiError{Status: http.StatusUnauthorized, Message: "Incorrect API key provided.", Code: "invalid_api_key"})
		return
	}
	method, serve := http.MethodPost, h.chat
	switch r.URL.Path {
	case "/v1/chat/completions":
	case "/v1/responses":
		serve = h.responses
	case messagesPath:
		serve = h.messages
	case "/v1/models":
		method, serve = http.MethodGet, h.models
	default:
		writeError(w, r, apiError{Status: http.StatusNotFound, Message: "Invalid URL (" + r.Method + " " + r.URL.Path + ")"})
		return
	}
	if r.Method != method {
		writeError(w, r, apiError{Status: http.StatusMethodNotAllowed, Message: "Not allowed to " + r.Method + " on " + r.URL.Path + "."})
		return
	}
	serve(w, r)
}

func (h *Handler) chat(w http.ResponseWriter, r *http.Request) {
	var req Request
	if problem := h.decode(w, r, &req); problem != nil {
		writeError(w, r, *problem)
		return
	}
	h.answer(w, r, &req, func(answer *completion) {
		if req.Stream {
			writeStream(w, answer, req.StreamOptions != nil && req.StreamOptions.IncludeUsage)
			return
		}
		writeJSON(w, http.StatusOK, answer)
	})
}

func (h *Handler) responses(w http.ResponseWriter, r *http.Request) {
	var body responsesRequest
	if problem := h.decode(w, r, &body); problem != nil {
		writeError(w, r, *problem)
		return
	}
	req, param, err := body.chat()
	if err != nil {
		writeError(w, r, apiError{Status: http.StatusBadRequest, Message: err.Error(), Param: param})
		return
	}
	h.answer(w, r, req, func(answer *completion) {
		writeJSON(w, http.StatusOK, answer.response(&body))
	})
}

func (h *Handler) messages(w http.ResponseWriter, r *http.Request) {
	var body messagesRequest
	if problem := h.decode(w, r, &body); problem != nil {
		writeError(w, r, *problem)
		return
	}
	req, param, err := body.chat()
	if err != nil {
		writeError(w, r, apiError{Status: http.StatusBadRequest, Message: err.Error(), Param: param})
		return
	}
	h.answer(w, r, req, func(answer *completion) {
		if body.Stream {
			answer.message().write(w)
			return
		}
		writeJSON(w, http.StatusOK, answer.message())
	})
}

// answer finds the answer to req and writes it, or an error.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, req *Request, write func(*completion)) {
	if param, err := req.validate(); err != nil {
		writeError(w, r, apiError{Status: http.StatusBadRequest, Message: err.Error(), Param: param})
		return
	}
	recorded := Recorded{Request: *req, Turn: req.Turn()}
	turn, conversation, problem := h.turn(r.Context(), req, &recorded)
	var answer *completion
	if problem == nil {
		var err error
		if answer, err = complete(req, turn, conversation, h.opts.Now()); err != nil {
			problem = &apiError{Status: http.StatusInternalServerError, Message: err.Error()}
		}
	}
	recorded.Status = http.StatusOK
	if problem != nil {
		recorded.Status = problem.Status
	}
	h.record(recorded)

	if !pause(r.Context(), time.Duration(turn.Delay)) {
		panic(http.ErrAbortHandler) // a plain return would send an empty 200
	}
	if problem != nil {
		writeError(w, r, *problem)
		return
	}
	write(answer)
}

// decode decodes the body into req.
func (h *Handler) decode(w http.ResponseWriter, r *http.Request, req any) *apiError {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.opts.MaxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return &apiError{Status: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf("The body is larger than %d bytes.", tooLarge.Limit)}
	}
	if err != nil {
		return &apiError{Status: http.StatusBadRequest, Message: "Read the body: " + err.Error()}
	}
	if err := json.Unmarshal(body, req); err != nil {
		return &apiError{Status: http.StatusBadRequest, Message: "We could not parse the JSON body of your request: " + err.Error()}
	}
	return nil
}

// turn returns the turn of the script that answers req and the digest of the conversation. It
// sets the scene in recorded. If it returns an error, the delay of the turn still applies.
func (h *Handler) turn(ctx context.Context, req *Request, recorded *Recorded) (Turn, string, *apiError) {
	i := slices.IndexFunc(h.script.Scenes, func(s Scene) bool { return s.Match.matches(req) })
	if i < 0 {
		return Turn{}, "", &apiError{Status: http.StatusBadRequest, Code: "script_no_scene", Message: fmt.Sprintf(
			"No scene of the script matches this request: model %q, system prompt %q, first user message %q.",
			req.Model, clip(req.System()), clip(req.Question()))}
	}
	scene := h.script.Scenes[i]
	recorded.Scene = scene.Name
	if recorded.Turn >= len(scene.Turns) {
		return Turn{}, "", &apiError{Status: http.StatusBadRequest, Code: "script_no_turn", Message: fmt.Sprintf(
			"Scene %q of the script has %d turns, and this request has %d assistant messages.", scene.Name, len(scene.Turns), recorded.Turn)}
	}
	turn := scene.Turns[recorded.Turn]
	turn.Delay = cmp.Or(turn.Delay, h.script.Delay)
	messages, _ := json.Marshal(req.Messages) // cannot fail: it was decoded from JSON
	conversation := digest(h.opts.Seed, scene.Name, string(messages))

	if turn.Error != nil && h.countFailure(turn.Error, conversation) {
		return turn, "", turn.Error.apiError()
	}
	if turn.Reply != nil {
		reply, err := turn.Reply(ctx, req)
		if err == nil {
			err = reply.validate()
		}
		if err == nil && reply.Reply != nil {
			err = errors.New("returned a turn with a Reply")
		}
		if err != nil {
			return turn, "", &apiError{Status: http.StatusInternalServerError, Message: fmt.Sprintf("Reply of scene %q, turn %d: %v", scene.Name, recorded.Turn, err)}
		}
		reply.Delay = cmp.Or(reply.Delay, turn.Delay)
		turn = reply
		if turn.Error != nil && h.countFailure(turn.Error, conversation) {
			return turn, "", turn.Error.apiError()
		}
	}
	return turn, conversation, nil
}

// countFailure reports whether the conversation still has to fail, and counts that failure.
func (h *Handler) countFailure(f *Failure, conversation string) bool {
	if f.Times == 0 {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failures[conversation] >= f.Times {
		return false
	}
	h.failures[conversation]++
	return true
}

func (h *Handler) record(r Recorded) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests = append(h.requests, r)
	if n := len(h.requests) - h.opts.KeepRequests; n > 0 {
		h.requests = slices.Delete(h.requests, 0, n)
	}
}

func (h *Handler) models(w http.ResponseWriter, _ *http.Request) {
	type model struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Created int64  `json:"created"`
		OwnedBy string `json:"owned_by"`
	}
	names := h.script.Models
	if len(names) == 0 {
		names = []string{"scripted"}
	}
	list := struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{Object: "list"}
	for _, name := range names {
		list.Data = append(list.Data, model{ID: name, Object: "model", Created: h.opts.Now().Unix(), OwnedBy: "script"})
	}
	writeJSON(w, http.StatusOK, list)
}

// apiError becomes an error in the format of OpenAI or Anthropic.
type apiError struct {
	Status     int
	Message    string
	Param      string
	Code       string
	RetryAfter time.Duration
}

func (f *Failure) apiError() *apiError {
	message := cmp.Or(f.Message, http.StatusText(f.Status))
	e := &apiError{Status: f.Status, Message: message, RetryAfter: time.Duration(f.RetryAfter)}
	if f.Status == http.StatusTooManyRequests {
		e.Code = "rate_limit_exceeded"
	}
	return e
}

// messagesPath is the only path with errors in the format of Anthropic.
const messagesPath = "/v1/messages"

func writeError(w http.ResponseWriter, r *http.Request, e apiError) {
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64((e.RetryAfter+time.Second-1)/time.Second), 10))
	}
	if r.URL.Path == messagesPath {
		writeJSON(w, e.Status, e.anthropic())
		return
	}
	writeJSON(w, e.Status, e.openAI())
}

func (e apiError) openAI() any {
	type wire struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	body := struct {
		Error wire `json:"error"`
	}{wire{Message: e.Message, Type: "invalid_request_error"}}
	switch {
	case e.Status == http.StatusTooManyRequests:
		body.Error.Type = "requests"
	case e.Status >= 500:
		body.Error.Type = "server_error"
	}
	if e.Param != "" {
		body.Error.Param = &e.Param
	}
	if e.Code != "" {
		body.Error.Code = &e.Code
	}
	return body
}

var anthropicErrors = map[int]string{
	http.StatusUnauthorized: "authentication_error", http.StatusForbidden: "permission_error", http.StatusNotFound: "not_found_error",
	http.StatusRequestEntityTooLarge: "request_too_large", http.StatusTooManyRequests: "rate_limit_error", 529: "overloaded_error",
}

func (e apiError) anthropic() any {
	type wire struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	kind := "invalid_request_error"
	if e.Status >= 500 {
		kind = "api_error"
	}
	message := e.Message
	if e.Param != "" {
		message = e.Param + ": " + message
	}
	return struct {
		Type  string `json:"type"`
		Error wire   `json:"error"`
	}{"error", wire{cmp.Or(anthropicErrors[e.Status], kind), message}}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // an error means that the client is gone
}

// startStream starts server-sent events. What it returns sends one of them, with a name if there is
// one, and reports whether the client still listens.
func startStream(w http.ResponseWriter) func(name string, data []byte) bool {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	out := http.NewResponseController(w)
	return func(name string, data []byte) bool {
		event := fmt.Sprintf("data: %s\n\n", data)
		if name != "" {
			event = "event: " + name + "\n" + event
		}
		_, err := io.WriteString(w, event)
		return err == nil && out.Flush() == nil
	}
}

// writeStream sends the answer as server-sent events. With usage, every chunk has a usage field:
// null, except in an extra last chunk without choices.
func writeStream(w http.ResponseWriter, answer *completion, usage bool) {
	send := startStream(w)
	type withUsage struct {
		completion
		Choices []choice `json:"choices"`
		Usage   any      `json:"usage"`
	}
	chunks := answer.chunks()
	for _, chunk := range chunks {
		var v any = chunk
		if usage {
			v = withUsage{completion: chunk, Choices: chunk.Choices}
		}
		data, _ := json.Marshal(v) // cannot fail: only strings and numbers
		if !send("", data) {
			return
		}
	}
	if usage {
		data, _ := json.Marshal(withUsage{completion: chunks[0], Choices: []choice{}, Usage: answer.Usage})
		if !send("", data) {
			return
		}
	}
	send("", []byte("[DONE]"))
}

// pause waits for d. It reports false if the request was cancelled.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// clip shortens a text for an error message.
func clip(s string) string {
	if r := []rune(s); len(r) > 120 {
		return string(r[:120]) + "…"
	}
	return s
}
