package codereader

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	defaultBaseURL = "https://api.openai.com/v1"
	defaultModel   = "gpt-4.1-mini"

	maxBackOff    = time.Minute
	maxRetryAfter = 5 * time.Minute // if the API asks to wait longer, the call fails
	maxAnswer     = 16 << 20        // size of an answer in bytes
)

// ModelConfig says which model to call, and how.
type ModelConfig struct {
	BaseURL string // of an OpenAI-compatible API, with /v1; default: that of OpenAI
	APIKey  string // sent as a bearer token, unless it is empty
	Model   string // default gpt-4.1-mini

	Tries   int           // maximum number of tries of one call; default 6
	Timeout time.Duration // of one try; default 5 minutes

	HTTPClient *http.Client                                     // default http.DefaultClient
	Sleep      func(ctx context.Context, d time.Duration) error // waits between tries; tests replace it
	Logger     *slog.Logger                                     // logs failed tries; default: discard
}

// ModelConfigFromEnv reads OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL.
func ModelConfigFromEnv(getenv func(string) string) ModelConfig {
	return ModelConfig{
		BaseURL: getenv("OPENAI_BASE_URL"),
		APIKey:  getenv("OPENAI_API_KEY"),
		Model:   getenv("OPENAI_MODEL"),
	}
}

// Model calls a model over the chat completions API. It is safe for concurrent use.
type Model struct {
	config ModelConfig
}

// NewModel checks the configuration. It sends nothing.
func NewModel(config ModelConfig) (*Model, error) {
	config.BaseURL = strings.TrimRight(cmp.Or(config.BaseURL, defaultBaseURL), "/")
	if u, err := url.Parse(config.BaseURL); err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("base URL of the model: %q is not an http or https URL", config.BaseURL)
	}
	config.Model = cmp.Or(config.Model, defaultModel)
	config.Tries = cmp.Or(max(0, config.Tries), 6)
	config.Timeout = cmp.Or(max(0, config.Timeout), 5*time.Minute)
	config.HTTPClient = cmp.Or(config.HTTPClient, http.DefaultClient)
	config.Logger = cmp.Or(config.Logger, slog.New(slog.DiscardHandler))
	if config.Sleep == nil {
		config.Sleep = sleep
	}
	return &Model{config: config}, nil
}

// Name returns the name of the model.
func (m *Model) Name() string { return m.config.Model }

// ChatRequest is one model call: the conversation so far and the tools that the model may call.
type ChatRequest struct {
	Model    string    `json:"model"` // default: the model of the configuration
	Messages []Message `json:"messages"`
	Tools    []ToolDef `json:"tools,omitempty"`
}

// Message is one entry of the conversation. Role is system, user, assistant or tool.
type Message struct {
	Role       string     `json:"role"`
	Content    string     `json:"content,omitempty"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`   // of an assistant
	ToolCallID string     `json:"tool_call_id,omitempty"` // of a tool: the call with this result
}

// ToolCall is a tool call of the model.
type ToolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function FunctionCall `json:"function"`
}

// FunctionCall names the tool. Arguments should be JSON, but models sometimes send invalid JSON.
type FunctionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// ToolDef is a tool that the model may call.
type ToolDef struct {
	Type     string      `json:"type"`
	Function FunctionDef `json:"function"`
}

// FunctionDef describes a tool. Parameters is a JSON Schema.
type FunctionDef struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// ChatResponse is the answer of the model. Chat returns it with at least one choice.
type ChatResponse struct {
	ID      string   `json:"id"`
	Model   string   `json:"model"`
	Choices []Choice `json:"choices"`
	Usage   Usage    `json:"usage"`
}

// Choice is one answer. FinishReason is stop, tool_calls, length or content_filter.
type Choice struct {
	Message      Message `json:"message"`
	FinishReason string  `json:"finish_reason"`
}

// Usage is the number of tokens of a call. PromptTokens includes cached tokens, and
// CompletionTokens includes reasoning tokens.
type Usage struct {
	PromptTokens        int `json:"prompt_tokens"`
	CompletionTokens    int `json:"completion_tokens"`
	TotalTokens         int `json:"total_tokens"`
	PromptTokensDetails struct {
		CachedTokens int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionTokensDetails struct {
		ReasoningTokens int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// APIError is an error response of the API.
type APIError struct {
	Status     int // HTTP status
	Message    string
	Code       string        // such as rate_limit_exceeded; may be empty
	RetryAfter time.Duration // how long the API asks to wait, or 0
}

// Error returns the status and the message of the API.
func (e *APIError) Error() string {
	return fmt.Sprintf("HTTP %d: %s", e.Status, e.Message)
}

// errAnswer marks a 200 that cannot be used. It is not retried, because a retry costs money.
var errAnswer = errors.New("unusable answer")

// Chat makes one model call. It retries rate limits, server errors and network errors after
// 2, 4, 8 ... 60 seconds, or after the time that the API asks for. If the API rejects the call,
// the error is an *APIError. Chat returns as soon as ctx ends.
func (m *Model) Chat(ctx context.Context, req ChatRequest) (*ChatResponse, error) {
	req.Model = cmp.Or(req.Model, m.config.Model)
	body, err := json.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("call the model: %w", err)
	}
	for try := 1; ; try++ {
		resp, err := m.post(ctx, body)
		if err == nil {
			return resp, nil
		}
		wait, retry := nextTry(err, try)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		} else if retry && try < m.config.Tries {
			m.config.Logger.WarnContext(ctx, "model call failed", "try", try, "wait", wait, "error", err)
			if err = m.config.Sleep(ctx, wait); err == nil {
				continue
			}
		}
		return nil, fmt.Errorf("call the model, try %d: %w", try, err)
	}
}

// post makes one try.
func (m *Model) post(ctx context.Context, body []byte) (*ChatResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, m.config.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.config.BaseURL+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if m.config.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+m.config.APIKey)
	}
	resp, err := m.config.HTTPClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, newAPIError(resp, answer)
	}
	var chat ChatResponse
	if err := json.Unmarshal(answer, &chat); err != nil {
		return nil, fmt.Errorf("%w: %w", errAnswer, err)
	}
	if len(chat.Choices) == 0 {
		return nil, fmt.Errorf("%w: no choices", errAnswer)
	}
	return &chat, nil
}

func newAPIError(resp *http.Response, body []byte) *APIError {
	e := &APIError{Status: resp.StatusCode, Message: clip(strings.TrimSpace(string(body)), 300)}
	var answer struct {
		Error struct {
			Message string `json:"message"`
			Code    any    `json:"code"` // OpenAI sends text, some others a number
		} `json:"error"`
	}
	if json.Unmarshal(body, &answer) == nil && answer.Error.Message != "" {
		e.Message = answer.Error.Message
		if answer.Error.Code != nil {
			e.Code = fmt.Sprint(answer.Error.Code)
		}
	}
	after := resp.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(after); err == nil && seconds > 0 {
		e.RetryAfter = time.Duration(seconds) * time.Second
	} else if date, err := http.ParseTime(after); err == nil {
		e.RetryAfter = max(0, time.Until(date))
	}
	return e
}

// nextTry reports whether to retry, and after which time.
func nextTry(err error, try int) (time.Duration, bool) {
	wait := min(maxBackOff, time.Second<<min(try, 6))
	var apiErr *APIError
	switch {
	case errors.Is(err, errAnswer):
		return 0, false
	case !errors.As(err, &apiErr): // a network error
		return wait, true
	case apiErr.Code == "insufficient_quota": // a 429, but waiting does not help
		return 0, false
	case apiErr.Status != http.StatusTooManyRequests && apiErr.Status < 500:
		return 0, false
	case apiErr.RetryAfter > 0:
		return apiErr.RetryAfter, apiErr.RetryAfter <= maxRetryAfter
	default:
		return wait, true
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
