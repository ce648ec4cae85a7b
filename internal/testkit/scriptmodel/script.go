// Package scriptmodel is a model that follows a script. It is an HTTP server on loopback that speaks
// the APIs of OpenAI (chat completions, responses) and Anthropic (messages), for tests, examples and
// the demo.
package scriptmodel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// Script says what the model answers. Serving does not change it, so several servers can share
// one script.
type Script struct {
	// Models are the names that GET /v1/models lists. Default: "scripted". A request may name
	// any model.
	Models []string `json:"models,omitempty"`

	// Delay is the delay of all turns that have none.
	Delay Duration `json:"delay,omitempty"`

	// Scenes are tried in order. The first one that matches the request answers it.
	Scenes []Scene `json:"scenes"`
}

// Scene is one conversation: turn n answers a request with n assistant messages. The position
// depends only on the request, so concurrent conversations, retries and restarts simply work.
type Scene struct {
	Name  string `json:"name"` // unique in its script
	Match Match  `json:"match"`
	Turns []Turn `json:"turns"`
}

// Match selects a scene. Every field that is set must match. An empty Match matches every
// request.
type Match struct {
	System string `json:"system,omitempty"` // part of the first system or developer message
	User   string `json:"user,omitempty"`   // part of the first user message
	Model  string `json:"model,omitempty"`  // the requested model
}

// Turn is one answer of the model.
type Turn struct {
	Content   string     `json:"content,omitempty"`
	ToolCalls []ToolCall `json:"toolCalls,omitempty"`

	// Refusal are the words of a model that refuses: in their own field of a chat completion; as a text otherwise, where
	// Anthropic has a reason of its own.
	Refusal string `json:"refusal,omitempty"`

	// Reasoning comes before the content: as reasoning_content of a chat completion, or as a
	// thinking block with a signature, which is checked when the block comes back.
	Reasoning string `json:"reasoning,omitempty"`

	// Usage is computed from the length of the texts if it is nil. With NoUsage, a chat completion
	// has none, as with some servers.
	Usage   *Usage `json:"usage,omitempty"`
	NoUsage bool   `json:"noUsage,omitempty"`

	// FinishReason is by default "tool_calls" if the turn has tool calls, else "stop".
	FinishReason string `json:"finishReason,omitempty"`

	// Delay is the time before the model answers or fails.
	Delay Duration `json:"delay,omitempty"`

	// ChunkDelay is the time between the events of a stream.
	ChunkDelay Duration `json:"chunkDelay,omitempty"`

	// Whole sends the answer in one piece even if the client asks for a stream, as some servers do.
	Whole bool `json:"whole,omitempty"`

	// Break ends the answer early, always or Break.Times times.
	Break *Break `json:"break,omitempty"`

	// Error is sent instead of the answer, always or Error.Times times.
	Error *Failure `json:"error,omitempty"`

	// Reply, if set, computes the turn from the request, so that an answer can quote the real
	// tool results. The turn that it returns must not have a Reply. If Reply returns an error,
	// the answer is a 500.
	Reply func(ctx context.Context, req *Request) (Turn, error) `json:"-"`
}

// ToolCall is a tool call of the model. Its id is derived from the conversation so far: the same
// conversation always has the same id.
type ToolCall struct {
	Name string `json:"name"`

	// Arguments is any JSON value; nil means {}. A string is sent unchanged, so that a script
	// can send invalid JSON.
	Arguments any `json:"arguments,omitempty"`
}

// Usage is the number of tokens of a turn. Prompt includes Cached (read from the cache) and
// CacheWrite, and Completion includes Reasoning.
type Usage struct {
	Prompt     int `json:"promptTokens"`
	Completion int `json:"completionTokens"`
	Cached     int `json:"cachedTokens,omitempty"`
	CacheWrite int `json:"cacheWriteTokens,omitempty"`
	Reasoning  int `json:"reasoningTokens,omitempty"`
}

// Failure is an HTTP error in the format of the API that the client uses.
type Failure struct {
	Status     int      `json:"status"` // 400 to 599
	Message    string   `json:"message,omitempty"`
	Type       string   `json:"type,omitempty"`       // by default what the API has for the status
	Code       string   `json:"code,omitempty"`       // only OpenAI's errors have one
	RetryAfter Duration `json:"retryAfter,omitempty"` // sent in whole seconds, rounded up

	// Times is how often a conversation gets the error before it gets the answer; 0 means
	// always. A conversation is identified by its messages, so equal conversations share a
	// count. The server counts nothing else, and it counts until it is closed.
	Times int `json:"times,omitempty"`
}

// Break says how an answer ends before it is complete. An answer that is not a stream ends before its
// first byte.
type Break struct {
	// After is the number of events that are sent before.
	After int `json:"after,omitempty"`

	// Then is "cut" to close the connection, which is the default, "hang" to be silent until the
	// client leaves, or "end" to end the stream as if it were complete.
	Then string `json:"then,omitempty"`

	// Error, if set, is sent as an event before the end. Its status is not sent then, but is that
	// of the answer if it is not a stream.
	Error *Failure `json:"error,omitempty"`

	// Times is how often a conversation breaks, as in Failure.
	Times int `json:"times,omitempty"`
}

// Duration is a time.Duration that is text in JSON, such as "300ms".
type Duration time.Duration

// MarshalText writes the duration as time.Duration does.
func (d Duration) MarshalText() ([]byte, error) {
	return []byte(time.Duration(d).String()), nil
}

// UnmarshalText reads what time.ParseDuration reads.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// Parse reads a script from JSON. Unknown fields are errors, because a misspelled field would
// otherwise be ignored.
func Parse(data []byte) (Script, error) {
	var script Script
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	dec.UseNumber()
	if err := dec.Decode(&script); err != nil {
		return Script{}, fmt.Errorf("script: %w", err)
	}

	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Script{}, errors.New("script: more text after the JSON value")
	}
	return script, script.validate()
}

// Load reads a script from a JSON file.
func Load(name string) (Script, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return Script{}, fmt.Errorf("script: %w", err)
	}
	return Parse(data)
}

var finishReasons = []string{"", "stop", "tool_calls", "length", "content_filter", "refusal"}

func (s Script) validate() error {
	if len(s.Scenes) == 0 {
		return errors.New("script: no scenes")
	}
	if s.Delay < 0 {
		return errors.New("script: negative delay")
	}

	names := map[string]bool{}
	for _, scene := range s.Scenes {
		if scene.Name == "" || names[scene.Name] {
			return fmt.Errorf("script: scene name %q is empty or used twice", scene.Name)
		}
		names[scene.Name] = true

		if len(scene.Turns) == 0 {
			return fmt.Errorf("script: scene %q has no turns", scene.Name)
		}
		for i, turn := range scene.Turns {
			if err := turn.validate(); err != nil {
				return fmt.Errorf("script: scene %q, turn %d: %w", scene.Name, i, err)
			}
		}
	}
	return nil
}

func (t Turn) validate() error {
	// such as length without a word
	answers := t.Content != "" || len(t.ToolCalls) > 0 || t.Refusal != "" || t.FinishReason != ""
	switch {
	case t.Reply != nil && answers:
		return errors.New("has both a Reply and an answer")
	case !answers && t.Reply == nil && (t.Error == nil || t.Error.Times > 0):
		return errors.New("has neither content nor tool calls")
	case !slices.Contains(finishReasons, t.FinishReason):
		return fmt.Errorf("unknown finish reason %q", t.FinishReason)
	case t.Delay < 0 || t.ChunkDelay < 0:
		return errors.New("negative delay")
	}

	for _, call := range t.ToolCalls {
		if call.Name == "" {
			return errors.New("tool call without a name")
		}
		if _, err := call.arguments(); err != nil {
			return fmt.Errorf("arguments of %s: %w", call.Name, err)
		}
	}

	if b := t.Break; b != nil {
		if b.After < 0 || b.Times < 0 || !slices.Contains([]string{"", "cut", "hang", "end"}, b.Then) {
			return fmt.Errorf("break with after %d, then %q, times %d", b.After, b.Then, b.Times)
		}
		if err := b.Error.validate(); err != nil {
			return err
		}
	}
	return t.Error.validate()
}

func (f *Failure) validate() error {
	if f != nil && (f.Status < 400 || f.Status > 599 || f.Times < 0 || f.RetryAfter < 0) {
		return fmt.Errorf("error with status %d, times %d, retryAfter %s", f.Status, f.Times, time.Duration(f.RetryAfter))
	}
	return nil
}

func (c ToolCall) arguments() (string, error) {
	switch v := c.Arguments.(type) {
	case nil:
		return "{}", nil
	case string:
		return v, nil
	default:
		b, err := json.Marshal(v)
		return string(b), err
	}
}

// matches reports whether the scene can answer req.
func (m Match) matches(req *Request) bool {
	return strings.Contains(req.System(), m.System) &&
		strings.Contains(req.Question(), m.User) &&
		(m.Model == "" || m.Model == req.Model)
}
