// Package parts owns what the runs of a worker use: the models, tools, MCP servers and definitions of a
// configuration file, and those that the program itself has.
package parts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/actlog/actlog/agent/config"
	"github.com/actlog/actlog/agent/mcp"
	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/redact"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/engine"
)

// Own is what a program has itself. What the configuration calls the same is hidden by it.
type Own struct {
	Models map[string]model.Model
	Tools  []tool.Tool
	Agents map[string]config.Definition
}

// Source returns the parts that are in force. It is safe for concurrent use.
type Source struct {
	current *config.Current // nil: only what the program has
	own     Own
	pool    *mcp.Pool
}

// NewSource returns a source. current may be nil. The pool is the caller's.
func NewSource(current *config.Current, own Own, pool *mcp.Pool) *Source {
	return &Source{current: current, own: own, pool: pool}
}

// Use returns the parts that are in force. The caller calls release when it no longer uses them.
func (s *Source) Use() (engine.Parts, func()) {
	p := &parts{own: s.own, pool: s.pool, configured: &config.Parts{Config: &config.Config{}}}
	if s.current == nil {
		return p, func() {}
	}
	configured, release, err := s.current.Use()
	if err != nil { // it was closed: there is nothing left to run
		return p, func() {}
	}
	p.configured = configured
	p.secrets = secretsOf(configured.Config)
	return p, release
}

// Metrics returns what is to be known of the configuration; nothing if there is none.
func (s *Source) Metrics() []prometheus.Collector {
	if s.current == nil {
		return nil
	}
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "actlog_config_loaded_timestamp_seconds", Help: "When the configuration in force was loaded."},
			func() float64 { return float64(s.current.Stats().Loaded.UnixMilli()) / 1000 }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "actlog_config_reloads_total", Help: "Reloads that put another configuration in force."},
			func() float64 { return float64(s.current.Stats().Reloads) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "actlog_config_reload_failures_total", Help: "Reloads that failed; the configuration before stayed in force."},
			func() float64 { return float64(s.current.Stats().Failures) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "actlog_config_stale", Help: "1 if the last reload failed: the file is not what is in force."},
			func() float64 {
				if s.current.Stats().Stale {
					return 1
				}
				return 0
			}),
	}
}

type parts struct {
	configured *config.Parts
	own        Own
	pool       *mcp.Pool
	secrets    *strings.Replacer // nil: none
}

// Provides implements [engine.Parts].
func (p *parts) Provides() (all []string) {
	for _, name := range slices.Concat(slices.Collect(maps.Keys(p.own.Models)), slices.Collect(maps.Keys(p.configured.Models))) {
		all = append(all, "model:"+name)
	}
	for _, t := range slices.Concat(p.own.Tools, p.configured.Tools) {
		all = append(all, "tool:"+t.Spec().Name)
	}
	for name := range p.configured.Config.MCPServers {
		all = append(all, "mcp:"+name)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Definition implements [engine.Parts].
func (p *parts) Definition(kind, name string) (json.RawMessage, bool) {
	if kind != "agent" {
		return nil, false
	}
	d, ok := p.own.Agents[name]
	if !ok {
		if d, ok = p.configured.Config.Definition(name); !ok {
			return nil, false
		}
	}
	text, _, err := d.JSON()
	return text, err == nil
}

// Names implements [engine.Parts].
func (p *parts) Names(kind string) []string {
	if kind != "agent" {
		return nil
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(p.own.Agents)), maps.Keys(p.configured.Config.Agents))
	slices.Sort(names)
	return slices.Compact(names)
}

// Model implements [engine.Parts].
func (p *parts) Model(name string) (model.Model, bool) {
	if m, ok := p.own.Models[name]; ok {
		return m, true
	}
	m, ok := p.configured.Models[name]
	return m, ok
}

// Tools implements [engine.Parts].
func (p *parts) Tools(ctx context.Context, servers []string) ([]tool.Tool, error) {
	all := slices.Concat(p.own.Tools, p.configured.Tools)
	if len(servers) == 0 {
		return all, nil
	}
	known, wanted := p.configured.Servers(), map[string]mcp.Server{}
	var errs []error
	for _, name := range servers {
		s, ok := known[name]
		if !ok {
			errs = append(errs, fmt.Errorf("there is no MCP server %q any more", name))
		}
		wanted[name] = s
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	remote, err := p.pool.Tools(ctx, wanted)
	if err != nil {
		return nil, err
	}
	return append(all, remote...), nil
}

// Redact implements [engine.Parts].
func (p *parts) Redact(text string) string {
	if p.secrets != nil {
		text = p.secrets.Replace(text)
	}
	if looksLikeJSON(text) {
		clean, _ := p.redactor().JSON([]byte(text))
		return string(clean)
	}
	clean, _ := p.redactor().Text(text)
	return clean
}

func (p *parts) redactor() *redact.Redactor { return p.configured.Redactor }

// looksLikeJSON reports whether a text is an object or a list of JSON.
func looksLikeJSON(text string) bool {
	trimmed := strings.TrimSpace(text)
	return len(trimmed) > 1 && (trimmed[0] == '{' || trimmed[0] == '[') && json.Valid([]byte(trimmed))
}

// minSecret is the length from which a secret of the configuration is recognised in texts. Shorter ones
// are words.
const minSecret = 8

// secretsOf returns what replaces the secrets of a configuration.
func secretsOf(c *config.Config) *strings.Replacer {
	var pairs []string
	add := func(values ...config.Value) {
		for _, v := range values {
			if text := v.Reveal(); len(text) >= minSecret && v.String() != text {
				pairs = append(pairs, text, "[secret]")
			}
		}
	}
	for _, m := range c.Models {
		add(m.APIKey)
	}
	if c.Embedder != nil {
		add(c.Embedder.APIKey)
	}
	for _, s := range c.MCPServers {
		add(slices.Collect(maps.Values(s.Env))...)
		add(slices.Collect(maps.Values(s.Headers))...)
	}
	if pairs == nil {
		return nil
	}
	return strings.NewReplacer(pairs...)
}
