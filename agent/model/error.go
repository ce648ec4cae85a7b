package model

import (
	"errors"
	"fmt"
	"time"
)

// Kind says what went wrong with a request.
type Kind string

// The kinds of errors. The first five pass: another try may succeed.
const (
	KindRateLimit  Kind = "rate_limit" // too many requests or tokens in a time
	KindOverloaded Kind = "overloaded" // the provider has no room for this request now
	KindTimeout    Kind = "timeout"    // nothing came for too long
	KindNetwork    Kind = "network"    // the connection failed, or was cut before the answer was complete
	KindServer     Kind = "server"     // the provider failed, or its answer makes no sense

	KindQuota          Kind = "quota"           // nothing is left to pay with
	KindAuth           Kind = "auth"            // the key is wrong, or may not do this
	KindNotFound       Kind = "not_found"       // no such model or URL
	KindInvalidRequest Kind = "invalid_request" // the provider refuses the request as it is
	KindContextLength  Kind = "context_length"  // the conversation is too long for the model
	KindContentFilter  Kind = "content_filter"  // the provider refuses what the request says
	KindCancelled      Kind = "cancelled"       // the caller's context ended
)

// Error is the error of a request.
type Error struct {
	Kind     Kind
	Provider string
	Model    string
	Message  string // what the provider says, or what happened
	Status   int    // of HTTP; 0 if there was no answer, or the error came within it

	// RetryAfter is how long the provider asks to wait. 0 if it does not say.
	RetryAfter time.Duration

	// Err is the cause, if it is not the provider's answer.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	text := string(e.Kind)
	if e.Status != 0 {
		text = fmt.Sprintf("%s (status %d)", e.Kind, e.Status)
	}
	if e.Provider != "" {
		text = fmt.Sprintf("%s %s: %s", e.Provider, e.Model, text)
	}
	return text + ": " + e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Retryable reports whether another try may succeed.
func (e *Error) Retryable() bool {
	switch e.Kind {
	case KindRateLimit, KindOverloaded, KindTimeout, KindNetwork, KindServer:
		return true
	}
	return false
}

// Answered reports whether the provider was there, and refused this request for what it says.
func (e *Error) Answered() bool {
	switch e.Kind {
	case KindInvalidRequest, KindContextLength, KindContentFilter:
		return true
	}
	return false
}

// FallsBack reports whether another model may answer instead: the request was not refused for what it says, and its
// caller still wants an answer.
func (e *Error) FallsBack() bool { return !e.Answered() && e.Kind != KindCancelled }

// Pause returns how long to wait before attempt, of which the first is 1, when the attempt before it
// ended with err: 2, 4, 8 seconds and so on, up to 60, or what the provider asks for if that is
// longer. It reports false if err does not pass by waiting. How often to try is up to the caller.
func Pause(err error, attempt int) (time.Duration, bool) {
	var failed *Error
	if !errors.As(err, &failed) || !failed.Retryable() {
		return 0, false
	}

	return max(defaultPatience.Retry.After(attempt-1), failed.RetryAfter), true
}
