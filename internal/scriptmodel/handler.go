package scriptmodel

import (
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

// Options changes how a script is served; its zero value is fine.
type Options struct {
	APIKey       string           // bearer token that every request must carry; none is asked for when empty
	Seed         string           // mixed into all ids, so that two runs of one script get different ones
	KeepRequests int              // how many of the newest requests are kept for Requests; 1000 when 0
	MaxBody      int64            // bytes of a request body; 32 MiB when 0
	Now          func() time.Time // the time in "created"; time.Now when nil
}

// Recorded is a request that was served, and by what. One to the Responses API
// stands here as the chat completion request that it amounts to.
type Recorded struct {
	Request Request
	Scene   string // "" when no scene fitted
	Turn    int
	Status  int // HTTP status of the answer
}

// Handler serves a script at /v1/chat/completions, /v1/responses and /v1/models.
type Handler struct {
	script Script
	opts   Options

	mu       sync.Mutex
	failures map[string]int // how often a conversation was failed, by its digest
	requests []Recorded
}

// NewHandler returns a handler that serves script. opts may be nil. A script
// that says something impossible is an error.
func NewHandler(script Script, opts *Options) (*Handler, error) {
	if err := script.validate(); err != nil {
		return nil, err
	}
	h := &Handler{script: script, failures: map[string]int{}}
	if opts != nil {
		h.opts = *opts
	}
	if h.opts.KeepRequests == 0 {
		h.opts.KeepRequests = 1000
	}
	if h.opts.MaxBody == 0 {
		h.opts.MaxBody = 32 << 20
	}
	if h.opts.Now == nil {
		h.opts.Now = time.Now
	}
	return h, nil
}

// Requests are the newest requests that could be decoded, in the order they came in.
func (h *Handler) Requests() []Recorded {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.requests)
}

// ServeHTTP answers the three endpoints, and everything else with an error in OpenAI's shape.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.opts.APIKey != "" && r.Header.Get("Authorization") != "Bearer "+h.opts.APIKey {
		writeError(w, apiError{Status: http.StatusUnauthorized, Message: "Incorrect API key provided.", Code: "invalid_api_key"})
		return
	}
	switch path := r.URL.Path; {
	case r.Method == http.MethodPost && path == "/v1/chat/completions":
		h.chat(w, r)
	case r.Method == http.MethodPost && path == "/v1/responses":
		h.responses(w, r)
	case r.Method == http.MethodGet && path == "/v1/models":
		h.models(w)
	case path == "/v1/chat/completions" || path == "/v1/responses" || path == "/v1/models":
		writeError(w, apiError{Status: http.StatusMethodNotAllowed, Message: "Not allowed to " + r.Method + " on " + r.URL.Path + "."})
	default:
		writeError(w, apiError{Status: http.StatusNotFound, Message: "Invalid URL (" + r.Method + " " + r.URL.Path + ")"})
	}
}

func (h *Handler) chat(w http.ResponseWriter, r *http.Request) {
	var req Request
	if problem := h.decode(w, r, &req); problem != nil {
		writeError(w, *problem)
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
	var asked responsesRequest
	if problem := h.decode(w, r, &asked); problem != nil {
		writeError(w, *problem)
		return
	}
	req, param, err := asked.chat()
	if err != nil {
		writeError(w, apiError{Status: http.StatusBadRequest, Message: err.Error(), Param: param})
		return
	}
	h.answer(w, r, req, func(answer *completion) {
		writeJSON(w, http.StatusOK, answer.response(&asked))
	})
}

// answer finds the answer to req, and writes it or what is in its way.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, req *Request, write func(*completion)) {
	if param, err := req.validate(); err != nil {
		writeError(w, apiError{Status: http.StatusBadRequest, Message: err.Error(), Param: param})
		return
	}
	seen := Recorded{Request: *req, Turn: req.Turn()}
	turn, conversation, problem := h.turn(r.Context(), req, &seen)
	var answer *completion
	if problem == nil {
		var err error
		if answer, err = complete(req, turn, conversation, h.opts.Now()); err != nil {
			problem = &apiError{Status: http.StatusInternalServerError, Message: err.Error()}
		}
	}
	seen.Status = http.StatusOK
	if problem != nil {
		seen.Status = problem.Status
	}
	h.record(seen)

	if !pause(r.Context(), time.Duration(turn.Delay)) {
		panic(http.ErrAbortHandler) // a return would answer an empty 200
	}
	if problem != nil {
		writeError(w, *problem)
		return
	}
	write(answer)
}

// decode reads the body into a request.
func (h *Handler) decode(w http.ResponseWriter, r *http.Request, req any) *apiError {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.opts.MaxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return &apiError{Status: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf("The body is larger than %d bytes.", tooLarge.Limit)}
	}
	if err != nil {
		return &apiError{Status: http.StatusBadRequest, Message: "Reading the body: " + err.Error()}
	}
	if err := json.Unmarshal(body, req); err != nil {
		return &apiError{Status: http.StatusBadRequest, Message: "We could not parse the JSON body of your request: " + err.Error()}
	}
	return nil
}

// turn finds what the script says to req, together with the digest of the
// conversation, and notes the scene in seen. The turn's delay holds for its
// error too.
func (h *Handler) turn(ctx context.Context, req *Request, seen *Recorded) (Turn, string, *apiError) {
	at := slices.IndexFunc(h.script.Scenes, func(s Scene) bool { return s.Match.fits(req) })
	if at < 0 {
		return Turn{}, "", &apiError{Status: http.StatusBadRequest, Code: "script_no_scene", Message: fmt.Sprintf(
			"No scene of the script fits this request: model %q, system prompt %q, first user message %q.",
			req.Model, clip(req.System()), clip(req.Question()))}
	}
	scene := h.script.Scenes[at]
	seen.Scene = scene.Name
	if seen.Turn >= len(scene.Turns) {
		return Turn{}, "", &apiError{Status: http.StatusBadRequest, Code: "script_no_turn", Message: fmt.Sprintf(
			"Scene %q of the script has %d turns, and this request has %d assistant messages.", scene.Name, len(scene.Turns), seen.Turn)}
	}
	turn := scene.Turns[seen.Turn]
	if turn.Delay == 0 {
		turn.Delay = h.script.Delay
	}
	messages, _ := json.Marshal(req.Messages) // was decoded from JSON a moment ago
	conversation := digest(h.opts.Seed, scene.Name, string(messages))

	if turn.Error != nil && h.fails(turn.Error, conversation) {
		return turn, "", turn.Error.apiError()
	}
	if turn.Reply != nil {
		made, err := turn.Reply(ctx, req)
		if err == nil {
			err = made.validate()
		}
		if err == nil && made.Reply != nil {
			err = errors.New("returned a turn with a Reply")
		}
		if err != nil {
			return turn, "", &apiError{Status: http.StatusInternalServerError, Message: fmt.Sprintf("Reply of scene %q, turn %d: %v", scene.Name, seen.Turn, err)}
		}
		if made.Delay == 0 {
			made.Delay = turn.Delay
		}
		turn = made
		if turn.Error != nil && h.fails(turn.Error, conversation) {
			return turn, "", turn.Error.apiError()
		}
	}
	return turn, conversation, nil
}

// fails counts a failure of the conversation, unless it had them all.
func (h *Handler) fails(f *Failure, conversation string) bool {
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

func (h *Handler) record(seen Recorded) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests = append(h.requests, seen)
	if n := len(h.requests) - h.opts.KeepRequests; n > 0 {
		h.requests = slices.Delete(h.requests, 0, n)
	}
}

func (h *Handler) models(w http.ResponseWriter) {
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

// apiError is an error in OpenAI's shape, before it is written.
type apiError struct {
	Status     int
	Message    string
	Param      string
	Code       string
	RetryAfter time.Duration
}

func (f *Failure) apiError() *apiError {
	e := &apiError{Status: f.Status, Message: f.Message, RetryAfter: time.Duration(f.RetryAfter)}
	if e.Message == "" {
		e.Message = http.StatusText(f.Status)
	}
	if f.Status == http.StatusTooManyRequests {
		e.Code = "rate_limit_exceeded"
	}
	return e
}

func writeError(w http.ResponseWriter, e apiError) {
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
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64((e.RetryAfter+time.Second-1)/time.Second), 10))
	}
	writeJSON(w, e.Status, body)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client is gone, nobody to tell
}

// writeStream sends the answer as server-sent events. With usage every chunk
// has a usage field, null until a last chunk without choices.
func writeStream(w http.ResponseWriter, answer *completion, usage bool) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	out := http.NewResponseController(w)
	send := func(data []byte) bool {
		if _, err := fmt.Fprintf(w, "data: %s\n\n", data); err != nil {
			return false
		}
		return out.Flush() == nil
	}
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
		data, _ := json.Marshal(v) // strings and numbers only
		if !send(data) {
			return
		}
	}
	if usage {
		data, _ := json.Marshal(withUsage{completion: chunks[0], Choices: []choice{}, Usage: answer.Usage})
		if !send(data) {
			return
		}
	}
	send([]byte("[DONE]"))
}

// pause waits, and tells whether the request is still wanted.
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

// clip shortens a text that an error quotes.
func clip(s string) string {
	if r := []rune(s); len(r) > 120 {
		return string(r[:120]) + "…"
	}
	return s
}
