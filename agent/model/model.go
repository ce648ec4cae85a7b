// Package model is the port to language models: a request, the answer, its errors, and limits. It
// knows no provider. Packages openai and anthropic below it do.
package model

import (
	"context"
	"encoding/json"
)

// Model answers requests. Its methods can be called concurrently.
type Model interface {
	// Provider returns the name of the provider, such as "openai". A message that a model said
	// carries it, see [Message.Raw].
	Provider() string

	// Name returns the name of the model, as the provider knows it.
	Name() string

	// Generate sends one request, once: who wants another try asks [Pause] and calls again.
	// onDelta receives the answer as it arrives. It is called in order, before
	// Generate returns, and may be nil. An answer is complete: a stream that is cut is an error.
	// Errors are of type [*Error].
	Generate(ctx context.Context, req Request, onDelta func(Delta)) (*Response, error)
}

// Request is what a model is asked.
type Request struct {
	Messages []Message  `json:"messages"`
	Tools    []ToolSpec `json:"tools,omitempty"`

	// ResponseSchema is a JSON schema of type object. If it is set, the text of the answer is JSON
	// that fits it. Providers do not enforce every keyword, so check the answer.
	ResponseSchema json.RawMessage `json:"responseSchema,omitempty"`

	// Temperature is the provider's default if it is nil. Some models refuse any other.
	Temperature *float64 `json:"temperature,omitempty"`

	// MaxTokens bounds the answer, with its reasoning. 0 means the default of the model.
	MaxTokens int64 `json:"maxTokens,omitempty"`
}

// ToolSpec is a tool that the model may call. Schema is the JSON schema of its arguments, of type
// object; nil means that it has none.
type ToolSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
}

// Delta is a piece of the answer.
type Delta struct {
	// Text is a piece of its text; empty: it is one of a call.
	Text string
	// Tool is the tool that the first call of the answer calls, and Arguments a piece of its arguments. What the other
	// calls say arrives with the whole answer.
	Tool, Arguments string
}

// Response is a whole answer.
type Response struct {
	ID      string  `json:"id,omitempty"`    // the provider's id of the answer
	Model   string  `json:"model,omitempty"` // the model that answered, such as one version of it
	Message Message `json:"message"`
	Finish  Finish  `json:"finish"`
	Usage   Usage   `json:"usage"`
}

// Usage counts tokens as package record does: Input includes CacheRead and CacheWrite, CacheWrite
// includes CacheWrite1h, Output includes Reasoning. What the provider does not say is nil.
type Usage struct {
	Input      *int64 `json:"inputTokens,omitempty"`
	Output     *int64 `json:"outputTokens,omitempty"`
	CacheRead  *int64 `json:"cacheReadInputTokens,omitempty"`
	CacheWrite *int64 `json:"cacheCreationInputTokens,omitempty"`
	// CacheWrite1h is what the cache keeps for an hour.
	CacheWrite1h *int64 `json:"cacheCreation1hInputTokens,omitempty"`
	Reasoning    *int64 `json:"reasoningTokens,omitempty"`
}
