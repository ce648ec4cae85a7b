package codereader

import (
	"bytes"
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
	maxRetryAfter = 5 * time.Minute // who is told to wait longer gives up
	maxAnswer     = 16 << 20        // bytes of a model's answer
)

// ModelConfig says which model is asked, and how patiently.
type ModelConfig struct {
	BaseURL string // of an OpenAI-compatible API, with its /v1; OpenAI's when empty
	APIKey  string // sent as a bearer token; none is sent when empty
	Model   string // gpt-4.1-mini when empty

	Tries   int           // how often one call is tried at most; 6 when 0
	Timeout time.Duration // for one try; 5 minutes when 0

	HTTPClient *http.Client                                     // http.DefaultClient when nil
	Sleep      func(ctx context.Context, d time.Duration) error // waits between tries, for tests to replace
	Logger     *slog.Logger                                     // tells of tries that came to nothing; silent when nil
}

// ModelConfigFromEnv reads OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL.
func ModelConfigFromEnv(getenv func(string) string) ModelConfig {
	return ModelConfig{
		BaseURL: getenv("OPENAI_BASE_URL"),
		APIKey:  getenv("OPENAI_API_KEY"),
		Model:   getenv("OPENAI_MODEL"),
	}
}

// Model asks a model over the chat completions API. It is safe for concurrent use.
type Model struct {
	config ModelConfig
}

// NewModel checks the configuration; nothing is sent yet.
func NewModel(config ModelConfig) (*Model, error) {
	if config.BaseURL == "" {
		config.BaseURL = defaultBaseURL
	}
	config.BaseURL = strings.TrimRight(config.BaseURL, "/")
	if u, err := url.Parse(config.BaseURL); err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("base URL of the model: %q is no http or https URL", config.BaseURL)
	}
	if config.Model == "" {
		config.Model = defaultModel
	}
	if config.Tries <= 0 {
		config.Tries = 6
	}
	if config.Timeout <= 0 {
		config.Timeout = 5 * time.Minute
	}
	if config.HTTPClient == nil {
		config.HTTPClient = http.DefaultClient
	}
	if config.Sleep == nil {
		config.Sleep = sleep
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	return &Model{config: config}, nil
}

// Name is the name of the model that is asked for.
func (m *Model) Name() string { return m.config.Model }

// ChatRequest is one model call: the conversation so far, and the tools on offer.
type ChatRequest struct {
	Model    string    `json:"model"` // filled in by Chat when empty
	Messages []Message `json:"messages"`
	Tools    []ToolDef `json:"tools,omitempty"`
}

// Message is one entry of the conversation. Role is system, user, assistant or tool.
type Message struct {
	Role       string     `json:"role"`
	Content    string     `json:"content,omitempty"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`   // of an assistant
	ToolCallID string     `json:"tool_call_id,omitempty"` // of a tool: the call it answers
}

// ToolCall is a tool call the model asks for.
type ToolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function FunctionCall `json:"function"`
}

// FunctionCall names the tool. Arguments should be JSON; models do not always manage.
type FunctionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// ToolDef is a tool as the model is told of it.
type ToolDef struct {
	Type     string      `json:"type"`
	Function FunctionDef `json:"function"`
}

// FunctionDef describes a tool; Parameters is a JSON Schema.
type FunctionDef struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// ChatResponse is the model's answer. Chat returns it with at least one choice.
type ChatResponse struct {
	ID      string   `json:"id"`
	Model   string   `json:"model"`
	Choices []Choice `json:"choices"`
	Usage   Usage    `json:"usage"`
}

// Choice is one answer; FinishReason is stop, tool_calls, length or content_filter.
type Choice struct {
	Message      Message `json:"message"`
	FinishReason string  `json:"finish_reason"`
}

// Usage is what a call cost, in tokens. Cached are part of the prompt,
// reasoning tokens part of the completion.
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

// APIError is an error that the model's API answered with.
type APIError struct {
	Status     int // HTTP status
	Message    string
	Code       string        // such as rate_limit_exceeded; may be empty
	RetryAfter time.Duration // as the API asks for; 0 when it does not
}

// Error gives the status and the API's message.
func (e *APIError) Error() string {
	return fmt.Sprintf("HTTP %d: %s", e.Status, e.Message)
}

// errAnswer marks a 200 that cannot be used: asking again would cost again.
var errAnswer = errors.New("unusable answer")

// Chat makes one model call. Rate limits, server errors and network errors are
// tried again, after 2, 4, 8 ... 60 seconds or what the API asks for; what the
// API refuses comes back as an *APIError. It ends at once when ctx does.
func (m *Model) Chat(ctx context.Context, req ChatRequest) (*ChatResponse, error) {
	if req.Model == "" {
		req.Model = m.config.Model
	}
	body, err := json.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("asking the model: %w", err)
	}
	for try := 1; ; try++ {
		resp, err := m.post(ctx, body)
		if err == nil {
			return resp, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("asking the model: %w", context.Cause(ctx))
		}
		wait, again := nextTry(err, try)
		if !again || try == m.config.Tries {
			return nil, fmt.Errorf("asking the model, try %d: %w", try, err)
		}
		m.config.Logger.WarnContext(ctx, "model call comes to nothing", "try", try, "wait", wait, "error", err)
		if err := m.config.Sleep(ctx, wait); err != nil {
			return nil, fmt.Errorf("asking the model: %w", err)
		}
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
		return nil, fmt.Errorf("reading the answer: %w", err)
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
	var shape struct {
		Error struct {
			Message string `json:"message"`
			Code    any    `json:"code"` // text with OpenAI, a number with some others
		} `json:"error"`
	}
	if json.Unmarshal(body, &shape) == nil && shape.Error.Message != "" {
		e.Message = shape.Error.Message
		if shape.Error.Code != nil {
			e.Code = fmt.Sprint(shape.Error.Code)
		}
	}
	after := resp.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(after); err == nil && seconds > 0 {
		e.RetryAfter = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(after); err == nil {
		e.RetryAfter = max(0, time.Until(at))
	}
	return e
}

// nextTry tells whether another try makes sense, and when.
func nextTry(err error, try int) (time.Duration, bool) {
	wait := min(maxBackOff, time.Second<<min(try, 6))
	var refused *APIError
	switch {
	case errors.Is(err, errAnswer):
		return 0, false
	case !errors.As(err, &refused): // the network
		return wait, true
	case refused.Code == "insufficient_quota": // a 429 that no waiting mends
		return 0, false
	case refused.Status != http.StatusTooManyRequests && refused.Status < 500:
		return 0, false
	case refused.RetryAfter > 0:
		return refused.RetryAfter, refused.RetryAfter <= maxRetryAfter
	default:
		return wait, true
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
