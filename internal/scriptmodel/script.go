// Package scriptmodel is a model that follows a script, as an OpenAI-compatible
// HTTP server on loopback: for tests, examples and the demo.
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

// Script says what the model answers. It is not changed by serving it, so one
// script may feed several servers.
type Script struct {
	// Models are the names that GET /v1/models lists; "scripted" when empty.
	// A request may name any model.
	Models []string `json:"models,omitempty"`

	// Delay is how long every turn thinks that has no delay of its own.
	Delay Duration `json:"delay,omitempty"`

	// Scenes are tried in order; the first whose Match fits answers.
	Scenes []Scene `json:"scenes"`
}

// Scene is one conversation: turn n answers the request that has n assistant
// messages in it. The position is read from the request alone, so concurrent
// conversations, retries and restarts of either side need no care.
type Scene struct {
	Name  string `json:"name"` // unique in its script
	Match Match  `json:"match"`
	Turns []Turn `json:"turns"`
}

// Match selects a scene. Every field that is set must hold; an empty Match fits
// every request.
type Match struct {
	System string `json:"system,omitempty"` // is contained in the first system or developer message
	User   string `json:"user,omitempty"`   // is contained in the first user message
	Model  string `json:"model,omitempty"`  // is the name of the model asked for
}

// Turn is one answer of the model.
type Turn struct {
	Content   string     `json:"content,omitempty"`
	ToolCalls []ToolCall `json:"toolCalls,omitempty"`

	// Usage is computed from the length of the texts when nil.
	Usage *Usage `json:"usage,omitempty"`

	// FinishReason is "tool_calls" or "stop", as the turn has tool calls or not, when empty.
	FinishReason string `json:"finishReason,omitempty"`

	// Delay is how long the model thinks before it answers or fails.
	Delay Duration `json:"delay,omitempty"`

	// Error is served instead of the answer, for ever or Error.Times times.
	Error *Failure `json:"error,omitempty"`

	// Reply, when set, makes the turn from the request, so that an answer can
	// quote what the tools truly returned. The turn it returns may not have a
	// Reply. Its error is served as a 500.
	Reply func(ctx context.Context, req *Request) (Turn, error) `json:"-"`
}

// ToolCall is a tool call the model asks for. Its id is made from the
// conversation so far: the same conversation always gets the same id.
type ToolCall struct {
	Name string `json:"name"`

	// Arguments is any JSON value; nil stands for {}. A string is sent as it
	// is, so that a script can send arguments that are not JSON.
	Arguments any `json:"arguments,omitempty"`
}

// Usage is what a turn costs, in tokens. Cached are part of Prompt, Reasoning
// are part of Completion.
type Usage struct {
	Prompt     int `json:"promptTokens"`
	Completion int `json:"completionTokens"`
	Cached     int `json:"cachedTokens,omitempty"`
	Reasoning  int `json:"reasoningTokens,omitempty"`
}

// Failure is an HTTP error in OpenAI's shape.
type Failure struct {
	Status     int      `json:"status"` // 400 to 599
	Message    string   `json:"message,omitempty"`
	RetryAfter Duration `json:"retryAfter,omitempty"` // sent in whole seconds, rounded up

	// Times is how often one conversation is failed before it gets the turn's
	// answer; 0 is for ever. This is the only thing a server counts. A
	// conversation is known by its messages, so equal ones share a count, and
	// the count lasts as long as the server.
	Times int `json:"times,omitempty"`
}

// Duration is a time.Duration that is written as text in JSON: "300ms".
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

// Parse reads a script from JSON. Unknown fields are errors, because a
// misspelt one would otherwise give a script that does something else.
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

var finishReasons = []string{"", "stop", "tool_calls", "length", "content_filter"}

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
	says := t.Content != "" || len(t.ToolCalls) > 0
	switch {
	case t.Reply != nil && says:
		return errors.New("has both a Reply and an answer")
	case !says && t.Reply == nil && (t.Error == nil || t.Error.Times > 0):
		return errors.New("has neither content nor tool calls")
	case !slices.Contains(finishReasons, t.FinishReason):
		return fmt.Errorf("unknown finish reason %q", t.FinishReason)
	case t.Delay < 0:
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
	if f := t.Error; f != nil && (f.Status < 400 || f.Status > 599 || f.Times < 0 || f.RetryAfter < 0) {
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

// fits tells whether the scene is the one that answers req.
func (m Match) fits(req *Request) bool {
	return strings.Contains(req.System(), m.System) &&
		strings.Contains(req.Question(), m.User) &&
		(m.Model == "" || m.Model == req.Model)
}
