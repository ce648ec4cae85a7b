package modelhttp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/actlog/actlog/agent/model"
)

// Source is the model whose errors these are.
type Source struct {
	Provider string
	Model    string
	Secret   string // the API key: it is cut out of every error
}

func (s Source) failed(kind model.Kind, message string, err error) *model.Error {
	if len(s.Secret) >= minSecret && strings.Contains(message, s.Secret) {
		message, err = strings.ReplaceAll(message, s.Secret, "***"), nil
	}
	return &model.Error{Kind: kind, Provider: s.Provider, Model: s.Model, Message: clip(message), Err: err}
}

const (
	maxMessage = 2000 // bytes of the message of an error
	minSecret  = 8    // bytes: a shorter key protects nothing, and may be part of a word
)

func clip(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxMessage {
		return s
	}

	end := maxMessage
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

// refused is the error of an answer with a status of failure.
func (s Source) refused(resp *http.Response, body []byte) error {
	refused := parse(body)
	message := cmp.Or(refused.message, http.StatusText(resp.StatusCode), "no message")
	e := s.failed(kindOf(resp.StatusCode, refused), message, nil)
	e.Status, e.RetryAfter = resp.StatusCode, retryAfter(resp.Header)
	return e
}

// Failed is the error of an answer that says in one of its events that it failed.
func (s Source) Failed(event []byte) error {
	refused := parse(event)
	status := 0
	for _, word := range refused.words {
		if n, err := strconv.Atoi(word); err == nil && n >= 400 && n <= 599 {
			status = n
		}
	}
	return s.failed(kindOf(status, refused), cmp.Or(refused.message, "the answer is an error without a message"), nil)
}

// refusal is what the body of an error says: the message, and the types and codes beside it.
type refusal struct {
	message string
	words   []string
}

// parse reads the bodies of errors that providers send, in an object "error", beside it, or as text.
func parse(body []byte) refusal {
	var object struct {
		Error   json.RawMessage `json:"error"`
		Message json.RawMessage `json:"message"`
		Detail  json.RawMessage `json:"detail"`
		Type    json.RawMessage `json:"type"`
		Code    json.RawMessage `json:"code"`
	}

	if json.Unmarshal(body, &object) != nil {
		return refusal{message: string(bytes.TrimSpace(body))}
	}
	if bytes.HasPrefix(object.Error, []byte("{")) {
		return parse(object.Error)
	}

	refused := refusal{message: cmp.Or(text(object.Error), text(object.Message), text(object.Detail))}
	for _, word := range []json.RawMessage{object.Type, object.Code} {
		if w := text(word); w != "" {
			refused.words = append(refused.words, w)
		}
	}
	return refused
}

// text returns a string as it is, null as nothing, and other values as JSON.
func text(value json.RawMessage) string {
	var s string
	if json.Unmarshal(value, &s) != nil {
		return string(value)
	}
	return s
}

// kinds are the types and codes of errors that say more than the status.
var kinds = map[string]model.Kind{
	"insufficient_quota": model.KindQuota, "billing_error": model.KindQuota, "billing_not_active": model.KindQuota,
	"billing_hard_limit_reached": model.KindQuota,
	"rate_limit_exceeded":        model.KindRateLimit, "rate_limit_error": model.KindRateLimit,
	"overloaded_error": model.KindOverloaded,
	"timeout_error":    model.KindTimeout,
	"invalid_api_key":  model.KindAuth, "authentication_error": model.KindAuth, "permission_error": model.KindAuth,
	"model_not_found": model.KindNotFound, "not_found_error": model.KindNotFound,
	"context_length_exceeded": model.KindContextLength, "exceed_context_size_error": model.KindContextLength,
	"request_too_large":        model.KindContextLength,
	"content_policy_violation": model.KindContentFilter, "responsibleaipolicyviolation": model.KindContentFilter,
}

// tooLong are words of servers that have no code for a conversation that is too long.
var tooLong = []string{
	"maximum context length", "context length", "context window", "context size", "prompt is too long",
}

// kindsOfStatus are what a status says by itself; 0: there is none.
var kindsOfStatus = map[int]model.Kind{
	0: model.KindServer, http.StatusConflict: model.KindServer,
	http.StatusUnauthorized: model.KindAuth, http.StatusForbidden: model.KindAuth,
	http.StatusPaymentRequired: model.KindQuota,
	http.StatusNotFound:        model.KindNotFound,
	http.StatusRequestTimeout:  model.KindTimeout, http.StatusGatewayTimeout: model.KindTimeout,
	http.StatusRequestEntityTooLarge: model.KindContextLength,
	http.StatusTooManyRequests:       model.KindRateLimit,
	http.StatusServiceUnavailable:    model.KindOverloaded, 529: model.KindOverloaded,
	http.StatusNotImplemented: model.KindInvalidRequest, http.StatusHTTPVersionNotSupported: model.KindInvalidRequest,
}

// kindOf returns the kind of an error. Without a status, it came within an answer.
func kindOf(status int, refused refusal) model.Kind {
	for _, word := range refused.words {
		if kind, ok := kinds[strings.ToLower(word)]; ok {
			return kind
		}
		if model.FinishOf(word) == model.FinishContentFilter {
			return model.KindContentFilter
		}
	}

	refuses := status == http.StatusBadRequest || status == http.StatusUnprocessableEntity || status == 0 &&
		slices.Contains(refused.words, "invalid_request_error")
	if refuses {
		message := strings.ToLower(refused.message)
		if slices.ContainsFunc(tooLong, func(words string) bool { return strings.Contains(message, words) }) {
			return model.KindContextLength
		}
		return model.KindInvalidRequest
	}

	if kind, ok := kindsOfStatus[status]; ok {
		return kind
	}
	if status >= 500 {
		return model.KindServer
	}
	return model.KindInvalidRequest
}

// retryAfter reads how long to wait: in milliseconds as OpenAI says it, in seconds, or until a time.
func retryAfter(h http.Header) time.Duration {
	for _, said := range []struct {
		header string
		unit   time.Duration
	}{{"Retry-After-Ms", time.Millisecond}, {"Retry-After", time.Second}} {
		if n, err := strconv.ParseFloat(h.Get(said.header), 64); err == nil && n > 0 &&
			n < float64(math.MaxInt64/time.Second) {
			return time.Duration(n * float64(said.unit))
		}
	}

	at, err := http.ParseTime(h.Get("Retry-After"))
	if err != nil {
		return 0
	}
	return max(time.Until(at), 0)
}

// Unreadable is the error of an event that is not what the API promises.
func (s Source) Unreadable(event []byte, err error) error {
	return s.failed(model.KindServer, fmt.Sprintf("the answer cannot be read: %v in %s", err, event), err)
}

// Incomplete is the error of an answer that ended too early.
func (s Source) Incomplete() error {
	return s.failed(model.KindNetwork, "the answer ended before it was complete", io.ErrUnexpectedEOF)
}

// Invalid is the error of a request that cannot be sent.
func (s Source) Invalid(err error) error {
	return s.failed(model.KindInvalidRequest, err.Error(), err)
}
