// Package openai is the adapter to the Chat Completions API: of OpenAI, and with another base URL of
// vLLM, Ollama, LM Studio, OpenRouter and other servers that speak it.
//
// It speaks HTTP itself. docs/design.md has what the provider's own package costs.
package openai

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/model/internal/modelhttp"
)

// Config says which model to ask. Only Model is required.
type Config struct {
	Model  string // as the provider knows it, such as "gpt-5-mini"
	APIKey string // no key is sent if it is empty

	// BaseURL ends where /chat/completions or /embeddings begins, mostly with /v1. Default:
	// https://api.openai.com/v1.
	BaseURL string

	// Provider is the provider's name on record. Default: "openai". A model gets what another of the same
	// provider said in its raw form, so servers that differ in that have different names.
	Provider string

	// Timeout is how long to wait for the next byte. Default: 120 s.
	Timeout time.Duration

	// HTTPClient is used instead of one that all models share. Redirects are never followed.
	HTTPClient *http.Client
}

// Model implements [model.Model].
type Model struct {
	http   *modelhttp.Client
	openAI bool // whether OpenAI itself answers, which knows max_tokens by another name
}

// New returns a model. It sends nothing.
func New(config Config) (*Model, error) {
	client, err := connect(config, "/chat/completions")
	if err != nil {
		return nil, err
	}
	return &Model{http: client, openAI: config.BaseURL == "" || isOpenAI(config.BaseURL)}, nil
}

// connect returns a client for a path below the base URL.
func connect(config Config, path string) (*modelhttp.Client, error) {
	header := http.Header{}
	if config.APIKey != "" {
		header.Set("Authorization", "Bearer "+config.APIKey)
	}
	return modelhttp.New(modelhttp.Config{
		Source:  modelhttp.Source{Provider: cmp.Or(config.Provider, "openai"), Model: config.Model, Secret: config.APIKey},
		BaseURL: cmp.Or(config.BaseURL, "https://api.openai.com/v1"), Path: path, Header: header, Timeout: config.Timeout,
		HTTP: config.HTTPClient,
	})
}

// isOpenAI reports whether OpenAI's own models are at a URL.
func isOpenAI(base string) bool {
	u, err := url.Parse(base)
	return err == nil && (strings.HasSuffix("."+u.Hostname(), ".openai.com") ||
		strings.HasSuffix(u.Hostname(), ".azure.com"))
}

// Provider implements [model.Model].
func (m *Model) Provider() string { return m.http.Provider }

// Name implements [model.Model].
func (m *Model) Name() string { return m.http.Model }

// Generate implements [model.Model]. The answer is streamed, if the server can.
func (m *Model) Generate(ctx context.Context, req model.Request, onDelta func(model.Delta)) (*model.Response, error) {
	own, err := model.OwnNames(req.Tools)
	if err != nil {
		return nil, m.http.Invalid(err)
	}
	body, err := m.encode(req)
	if err != nil {
		return nil, m.http.Invalid(err)
	}

	answer := answer{source: m.http.Source, onDelta: onDelta}
	if err := m.http.Post(ctx, body, answer.read); err != nil {
		return nil, err
	}
	return answer.response(own)
}

func (m *Model) encode(req model.Request) (*request, error) {
	body := &request{
		Model: m.Name(), Messages: []any{}, Temperature: req.Temperature,
		Stream: true, StreamOptions: streamOptions{IncludeUsage: true},
	}
	if m.openAI {
		body.MaxCompletionTokens = req.MaxTokens
	} else {
		body.MaxTokens = req.MaxTokens // Ollama and LM Studio ignore the new name
	}

	for i, message := range req.Messages {
		messages, err := encodeMessage(message, m.Provider())
		if err != nil {
			return nil, fmt.Errorf("messages[%d]: %w", i, err)
		}
		body.Messages = append(body.Messages, messages...)
	}
	for _, t := range req.Tools {
		body.Tools = append(body.Tools, encodeTool(t))
	}

	if len(req.ResponseSchema) > 0 {
		body.ResponseFormat = encodeSchema(req.ResponseSchema)
	}
	return body, nil
}
