package config

import (
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/internal/runtime/define"
)

// Model is a model that agents ask.
type Model struct {
	Provider string `json:"provider"` // "openai" for all that speak Chat Completions, or "anthropic"
	Model    string `json:"model"`    // as the provider knows it
	BaseURL  Value  `json:"baseURL,omitzero"`
	APIKey   Value  `json:"apiKey,omitzero"`
	// Temperature is the provider's default if it is nil.
	Temperature *float64 `json:"temperature,omitempty"`
	// MaxTokens bounds an answer. 0 means the default of the provider.
	MaxTokens int64 `json:"maxTokens,omitempty"`
	// Cache keeps conversations in the cache of provider anthropic.
	Cache bool `json:"cache,omitempty"`
	// Timeout is how long to wait for the next byte. 0 means 120 s.
	Timeout define.Duration `json:"timeout,omitempty"`
	// MaxConcurrent bounds the requests at the same time, MaxPerMinute those that start within any 60
	// seconds, and TokensPerMinute the tokens that they use, over all workers. 0 means no limit.
	MaxConcurrent   int   `json:"maxConcurrent,omitempty"`
	MaxPerMinute    int   `json:"maxPerMinute,omitempty"`
	TokensPerMinute int64 `json:"tokensPerMinute,omitempty"`
	// Retry says how often to ask a model whose errors may pass, and how long to wait in between. Probe says how long to
	// wait between two requests to one that is away, and GiveUpAfter when a run fails that waits for it.
	Retry       Retry           `json:"retry,omitzero"`
	Probe       Backoff         `json:"probe,omitzero"`
	GiveUpAfter define.Duration `json:"giveUpAfter,omitempty"`
	// Fallback are the models that answer in its place if it does not, in their order.
	Fallback []string `json:"fallback,omitempty"`
	// Unpriced is "allow" if runs with a limit of cost may ask it without a price. Empty: they fail.
	Unpriced string `json:"unpriced,omitempty"`
}

const allowUnpriced = "allow"

// Backoff is how long to wait between tries: From at first, Factor times as long each time, and Most at most.
type Backoff struct {
	From   define.Duration `json:"from,omitempty"`
	Factor float64         `json:"factor,omitempty"`
	Most   define.Duration `json:"most,omitempty"`
}

// Retry is how often something is tried in all, and how long to wait in between.
type Retry struct {
	Tries int `json:"tries,omitempty"`
	Backoff
}

func (m Model) patience() model.Patience {
	return model.Patience{
		Tries: m.Retry.Tries, Retry: m.Retry.of(), Probe: m.Probe.of(), GiveUpAfter: time.Duration(m.GiveUpAfter),
		Fallback: m.Fallback,
	}
}

func (b Backoff) of() model.Backoff {
	return model.Backoff{From: time.Duration(b.From), Factor: b.Factor, Most: time.Duration(b.Most)}
}

const (
	maxTries  = 1000
	maxFactor = 100
)

// fields are those of a backoff in the file.
func (b *Backoff) fields() fields {
	return fields{
		"from":   func(n node) { b.From = n.duration() },
		"factor": func(n node) { b.Factor = n.number(1, maxFactor) },
		"most":   func(n node) { b.Most = n.duration() },
	}
}

func readRetry(n node) (r Retry) {
	known := r.fields()
	known["tries"] = func(n node) { r.Tries = int(n.positive(maxTries)) }
	r.check(n.object(known))
	return r
}

func readBackoff(n node) (b Backoff) {
	b.check(n.object(b.fields()))
	return b
}

func (b *Backoff) check(g given) {
	if b.Most > 0 && b.Most < b.From {
		g.at("most").problem("it is shorter than from")
	}
}

// Definition returns what definitions say of a model of a name.
func (m Model) Definition(name string) define.DefinitionModel {
	return define.DefinitionModel{
		Name: name, Provider: m.Provider, Model: m.Model, Temperature: m.Temperature, MaxTokens: m.MaxTokens,
	}
}

func readModel(n node, name string, models []string) Model {
	var m Model
	g := n.object(fields{
		"provider":        func(n node) { m.Provider = oneOf(n, "openai", "anthropic") },
		"model":           func(n node) { m.Model = n.word() },
		"baseURL":         func(n node) { m.BaseURL = n.url(false) },
		"apiKey":          func(n node) { m.APIKey = n.header() },
		"temperature":     func(n node) { m.Temperature = n.temperature() },
		"maxTokens":       func(n node) { m.MaxTokens = n.positive(math.MaxInt32) },
		"cache":           func(n node) { m.Cache = n.boolean() },
		"timeout":         func(n node) { m.Timeout = n.duration() },
		"maxConcurrent":   func(n node) { m.MaxConcurrent = int(n.positive(maxRequests)) },
		"maxPerMinute":    func(n node) { m.MaxPerMinute = int(n.positive(maxRequests)) },
		"tokensPerMinute": func(n node) { m.TokensPerMinute = n.positive(maxTokensPerMinute) },
		"retry":           func(n node) { m.Retry = readRetry(n) },
		"probe":           func(n node) { m.Probe = readBackoff(n) },
		"giveUpAfter":     func(n node) { m.GiveUpAfter = n.duration() },
		"fallback":        func(n node) { m.Fallback = readFallback(n, name, models) },
		"unpriced":        func(n node) { m.Unpriced = oneOf(n, allowUnpriced) },
	})

	g.require("provider", "model")
	if m.Cache && m.Provider == "openai" {
		g.at("cache").problem("only provider anthropic has it")
	}
	return m
}

// The most that limits of a model can be.
const (
	maxRequests        = 100_000
	maxTokensPerMinute = 1_000_000_000
)

// readFallback returns the models that answer in place of one.
func readFallback(n node, of string, models []string) (names []string) {
	for _, each := range n.list() {
		name := each.word()
		if name != "" {
			each.note(define.FallbackProblem(of, name, names, models))
		}
		names = append(names, name)
	}
	return names
}

func (n node) temperature() *float64 { return new(n.number(0, 2)) }

// url returns an address of HTTP. If it is empty, as a variable may be, it counts as not given. The problem does not
// have it: it may be secret.
func (n node) url(query bool) Value {
	v := n.value(false)
	if strings.TrimSpace(v.Reveal()) == "" {
		return Value{}
	}

	u, err := url.Parse(v.Reveal())
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		n.problem("want a URL of the form http://host/path or https://host/path")
	case u.User != nil:
		n.problem("a URL cannot have a user or password here: they would be shown")
	case u.Fragment != "" || u.RawQuery != "" && !query:
		n.problem("a URL cannot end in ?... or #... here")
	}
	return v
}

// Embedder is the model that makes vectors of texts, for toolset search.
type Embedder struct {
	Provider string          `json:"provider"` // "openai" for all that speak its API
	Model    string          `json:"model"`
	BaseURL  Value           `json:"baseURL,omitzero"`
	APIKey   Value           `json:"apiKey,omitzero"`
	Timeout  define.Duration `json:"timeout,omitempty"`
}

func readEmbedder(n node) *Embedder {
	var e Embedder
	n.object(fields{
		"provider": func(n node) { e.Provider = oneOf(n, "openai") },
		"model":    func(n node) { e.Model = n.word() },
		"baseURL":  func(n node) { e.BaseURL = n.url(false) },
		"apiKey":   func(n node) { e.APIKey = n.header() },
		"timeout":  func(n node) { e.Timeout = n.duration() },
	}).require("provider", "model")
	return &e
}
