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
	// key that every request must have, as bearer token or x-api-key; if empty, none is needed
	APIKey       string
	Seed         string           // goes into all ids, so that two runs of one script have different ids
	KeepRequests int              // how many of the newest requests Requests returns; default 1000
	MaxBody      int64            // maximum size of a request body in bytes; default 32 MiB
	Now          func() time.Time // the time in "created"; default time.Now

	// Around, if set, returns what a server serves in place of the script, such as errors for some time. A Handler
	// ignores it.
	Around func(script http.Handler) http.Handler
}

// Recorded is a request and how it was answered. A request to the Responses API or the Messages
// API is recorded as the equivalent chat completion request.
type Recorded struct {
	Request Request
	Body    json.RawMessage // the request as it was sent
	Scene   string          // "" if no scene matched
	Turn    int
	Status  int // HTTP status of the answer
}

// Handler serves a script at /v1/chat/completions, /v1/responses, /v1/messages, /v1/embeddings and
// /v1/models.
type Handler struct {
	script Script
	opts   Options

	mu       sync.Mutex
	happened map[string]int // errors and broken streams, by what it was and the digest of the conversation
	requests []Recorded
}

// NewHandler returns a handler that serves script. opts may be nil. NewHandler returns an error
// if the script is invalid.
func NewHandler(script Script, opts *Options) (*Handler, error) {
	if err := script.validate(); err != nil {
		return nil, err
	}

	h := &Handler{script: script, happened: map[string]int{}}
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

// ServeHTTP serves the endpoints. It answers all other requests with an error in the format
// of OpenAI.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if key := h.opts.APIKey; key != "" && r.Header.Get("Authorization") != "Bearer "+key &&
		r.Header.Get("X-Api-Key") != key {
		writeError(w, r, apiError{
			Status: http.StatusUnauthorized, Message: "Incorrect API key provided.", Code: "invalid_api_key",
		})
		return
	}

	method, serve := http.MethodPost, h.chat
	switch r.URL.Path {
	case "/v1/chat/completions":
	case "/v1/responses":
		serve = h.responses
	case messagesPath:
		serve = h.messages
	case "/v1/embeddings":
		serve = h.embeddings
	case "/v1/models":
		method, serve = http.MethodGet, h.models
	default:
		writeError(w, r, apiError{Status: http.StatusNotFound, Message: "Invalid URL (" + r.Method + " " + r.URL.Path + ")"})
		return
	}

	if r.Method != method {
		writeError(w, r, apiError{
			Status: http.StatusMethodNotAllowed, Message: "Not allowed to " + r.Method + " on " + r.URL.Path + ".",
		})
		return
	}
	serve(w, r)
}

// form is the body of a request in one of the APIs.
type form interface {
	// chat converts it to a chat completion request. param names the invalid field.
	chat() (req *Request, param string, err error)
}

func (h *Handler) chat(w http.ResponseWriter, r *http.Request) {
	var body Request
	h.answer(w, r, &body, func(answer *completion, turn Turn) {
		if turn.NoUsage {
			answer.Usage = nil
		}
		if body.Stream && !turn.Whole {
			writeStream(newStream(w, r, turn), answer, body.StreamOptions != nil && body.StreamOptions.IncludeUsage)
			return
		}
		writeJSON(w, http.StatusOK, answer)
	})
}

func (h *Handler) responses(w http.ResponseWriter, r *http.Request) {
	var body responsesRequest
	h.answer(w, r, &body, func(answer *completion, _ Turn) {
		writeJSON(w, http.StatusOK, answer.response(&body))
	})
}

func (h *Handler) messages(w http.ResponseWriter, r *http.Request) {
	var body messagesRequest
	h.answer(w, r, &body, func(answer *completion, turn Turn) {
		if body.Stream && !turn.Whole {
			answer.message().write(newStream(w, r, turn))
			return
		}
		writeJSON(w, http.StatusOK, answer.message())
	})
}

// answer decodes the request into body, finds the answer to it, and writes that, or an error.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, body form, write func(*completion, Turn)) {
	sent, problem := h.decode(w, r, body)
	if problem != nil {
		writeError(w, r, *problem)
		return
	}

	req, param, err := body.chat()
	if err == nil {
		param, err = req.validate()
	}
	if err != nil {
		writeError(w, r, apiError{Status: http.StatusBadRequest, Message: err.Error(), Param: param})
		return
	}

	recorded := Recorded{Request: *req, Body: sent, Turn: req.Turn()}
	turn, conversation, problem := h.turn(r.Context(), req, &recorded)
	var answer *completion
	if problem == nil {
		if answer, err = complete(req, turn, conversation, h.opts.Now()); err != nil {
			problem = &apiError{Status: http.StatusInternalServerError, Message: err.Error()}
		}
	}

	early := turn.Break // what ends the answer before its first byte
	if req.Stream && !turn.Whole {
		early = nil
	}
	if problem == nil && early != nil && early.Error != nil {
		problem = early.Error.apiError()
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
	if early != nil {
		early.away(r.Context())
	}
	write(answer, turn)
}

// decode decodes the body into req, and returns the body.
func (h *Handler) decode(w http.ResponseWriter, r *http.Request, req any) ([]byte, *apiError) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.opts.MaxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, &apiError{
			Status: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf("The body is larger than %d bytes.", tooLarge.Limit),
		}
	}
	if err != nil {
		return nil, &apiError{Status: http.StatusBadRequest, Message: "Read the body: " + err.Error()}
	}

	if err := json.Unmarshal(body, req); err != nil {
		return nil, &apiError{
			Status: http.StatusBadRequest, Message: "We could not parse the JSON body of your request: " + err.Error(),
		}
	}
	return body, nil
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
			"Scene %q of the script has %d turns, and this request has %d assistant messages.", scene.Name, len(scene.Turns),
			recorded.Turn)}
	}

	turn := scene.Turns[recorded.Turn]
	turn.Delay = cmp.Or(turn.Delay, h.script.Delay)
	messages, _ := json.Marshal(req.Messages) // cannot fail: it was decoded from JSON
	conversation := digest(h.opts.Seed, scene.Name, string(messages))

	if turn.Error != nil && h.due(turn.Error.Times, "error "+conversation) {
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
			return turn, "", &apiError{
				Status:  http.StatusInternalServerError,
				Message: fmt.Sprintf("Reply of scene %q, turn %d: %v", scene.Name, recorded.Turn, err),
			}
		}

		reply.Delay = cmp.Or(reply.Delay, turn.Delay)
		turn = reply
		if turn.Error != nil && h.due(turn.Error.Times, "error "+conversation) {
			return turn, "", turn.Error.apiError()
		}
	}
	if turn.Break != nil && !h.due(turn.Break.Times, "break "+conversation) {
		turn.Break = nil
	}
	return turn, conversation, nil
}

// due reports whether something still has to happen that happens a number of times, or always if
// that is 0. If so, it counts that.
func (h *Handler) due(times int, what string) bool {
	if times == 0 {
		return true
	}

	h.mu.Lock()
	defer h.mu.Unlock()
	if h.happened[what] >= times {
		return false
	}
	h.happened[what]++
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
	Type       string // by default it follows from the status
	Code       string
	RetryAfter time.Duration
}

func (f *Failure) apiError() *apiError {
	message := cmp.Or(f.Message, http.StatusText(f.Status))
	e := &apiError{Status: f.Status, Message: message, Type: f.Type, Code: f.Code, RetryAfter: time.Duration(f.RetryAfter)}
	if f.Status == http.StatusTooManyRequests && f.Code == "" {
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
	writeJSON(w, e.Status, e.body(r))
}

// body returns the error in the format of the API that r uses.
func (e apiError) body(r *http.Request) any {
	if r.URL.Path == messagesPath {
		return e.anthropic()
	}
	return e.openAI()
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

	body.Error.Type = cmp.Or(e.Type, body.Error.Type)
	if e.Param != "" {
		body.Error.Param = &e.Param
	}
	if e.Code != "" {
		body.Error.Code = &e.Code
	}
	return body
}

var anthropicErrors = map[int]string{
	http.StatusUnauthorized: "authentication_error", http.StatusForbidden: "permission_error",
	http.StatusNotFound:              "not_found_error",
	http.StatusRequestEntityTooLarge: "request_too_large", http.StatusTooManyRequests: "rate_limit_error",
	529: "overloaded_error",
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
	}{"error", wire{cmp.Or(e.Type, anthropicErrors[e.Status], kind), message}}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // an error means that the client is gone
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
