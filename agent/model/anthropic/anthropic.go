// Package anthropic is the adapter to Anthropic's Messages API.
//
// It speaks HTTP itself. docs/design.md has what the provider's own package costs.
package anthropic

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/model/internal/modelhttp"
)

// Config says which model to ask. Only Model is required.
type Config struct {
	Model  string // as the provider knows it, such as "claude-sonnet-5"
	APIKey string // no key is sent if it is empty

	// BaseURL ends where /v1/messages begins. Default: https://api.anthropic.com.
	BaseURL string

	// Provider is the provider's name on record. Default: "anthropic". A model gets what another of the same
	// provider said in its raw form, so servers that differ in that have different names.
	Provider string

	// MaxTokens bounds the answer where the request does not, because the API wants a bound.
	// Default: 16384.
	MaxTokens int64

	// Cache keeps the conversation in the provider's cache for five minutes, up to its last message.
	// Writing costs a quarter more than plain input, reading a tenth of it.
	Cache bool

	// Timeout is how long to wait for the next byte. Default: 120 s.
	Timeout time.Duration

	// HTTPClient is used instead of one that all models share. Redirects are never followed.
	HTTPClient *http.Client
}

// Model implements [model.Model].
type Model struct {
	http      *modelhttp.Client
	maxTokens int64
	cache     bool
}

// New returns a model. It sends nothing.
func New(config Config) (*Model, error) {
	provider := cmp.Or(config.Provider, "anthropic")
	header := http.Header{"Anthropic-Version": {"2023-06-01"}}
	if config.APIKey != "" {
		header.Set("X-Api-Key", config.APIKey)
	}

	client, err := modelhttp.New(modelhttp.Config{
		Source:  modelhttp.Source{Provider: provider, Model: config.Model, Secret: config.APIKey},
		BaseURL: cmp.Or(config.BaseURL, "https://api.anthropic.com"), Path: "/v1/messages",
		Header: header, Timeout: config.Timeout, HTTP: config.HTTPClient,
	})
	if err != nil {
		return nil, err
	}

	if config.MaxTokens < 0 {
		return nil, fmt.Errorf("%s: maximum of tokens of model %s is negative", provider, config.Model)
	}
	return &Model{http: client, maxTokens: cmp.Or(config.MaxTokens, 16_384), cache: config.Cache}, nil
}

// Provider implements [model.Model].
func (m *Model) Provider() string { return m.http.Provider }

// Name implements [model.Model].
func (m *Model) Name() string { return m.http.Model }

// Generate implements [model.Model]. The answer is streamed.
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
		Model: m.Name(), MaxTokens: cmp.Or(req.MaxTokens, m.maxTokens), Messages: []message{},
		Temperature: req.Temperature, Stream: true,
	}
	if m.cache {
		body.CacheControl = &typed{Type: "ephemeral"}
	}

	for i, message := range req.Messages {
		if err := body.add(message, m.Provider()); err != nil {
			return nil, fmt.Errorf("messages[%d]: %w", i, err)
		}
	}
	for _, t := range req.Tools {
		body.Tools = append(body.Tools, encodeTool(t))
	}

	if len(req.ResponseSchema) > 0 {
		schema, err := enforceable(req.ResponseSchema)
		if err != nil {
			return nil, fmt.Errorf("responseSchema: %w", err)
		}
		body.OutputConfig = &outputConfig{Format: format{Type: "json_schema", Schema: schema}}
	}
	return body, nil
}
