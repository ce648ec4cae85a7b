// Package parts owns what the runs of a worker use: the models, tools, MCP servers and definitions of a
// configuration file, and those that the program itself has.
package parts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/redact"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
)

// Own is what a program has itself. What the configuration calls the same is hidden by it.
type Own struct {
	Models  map[string]model.Model
	Tools   []tool.Tool
	Servers map[string]tool.Server
	Agents  map[string]define.Agent
	// Workflows are those that are functions of the program.
	Workflows map[string]Workflow
	Policies  tool.Rules       // come before those of the configuration
	Redactor  *redact.Redactor // works beside that of the configuration; nil: there is none
}

// Workflow is a function of the program, with what it may use.
type Workflow struct {
	Flow define.Flow
	Run  workflow.Func
}

// Source returns the parts that are in force. It is safe for concurrent use.
type Source struct {
	log     *slog.Logger
	inForce atomic.Pointer[inForce]

	mu     sync.Mutex
	pool   tool.ServerPool // nil: no server was asked for yet
	closed bool
}

type inForce struct {
	current define.Configuration // nil: only what the program has
	own     Own
}

// NewSource returns a source without parts. log receives what runs and MCP servers have to say, without
// what must not be on record. The caller closes the source when no run uses its parts any more.
func NewSource(log *slog.Logger) *Source {
	s := &Source{}
	s.Set(nil, Own{})
	s.log = slog.New(redact.Handler(log.Handler(), s.Redact))
	return s
}

// Set puts parts in force, in place of those before. current may be nil, and is the caller's.
func (s *Source) Set(current define.Configuration, own Own) { s.inForce.Store(&inForce{current, own}) }

// Log returns the log for what runs do.
func (s *Source) Log() *slog.Logger { return s.log }

// Close ends the connections to MCP servers.
func (s *Source) Close() error {
	s.mu.Lock()
	s.closed = true
	pool := s.pool
	s.mu.Unlock()

	if pool == nil {
		return nil
	}
	return pool.Close()
}

// connections returns those to servers. The first server makes them.
func (s *Source) connections(first tool.Server) (tool.ServerPool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("the connections to MCP servers are closed")
	}

	if s.pool == nil {
		s.pool = first.NewPool(s.log)
	}
	return s.pool, nil
}

// Use returns the parts that are in force. The caller calls release when it no longer uses them.
func (s *Source) Use() (engine.Parts, func()) { return s.use() }

func (s *Source) use() (*parts, func()) {
	in := s.inForce.Load()
	p := &parts{own: in.own, connections: s.connections, configured: &define.Configured{}}
	release := func() {}
	if in.current != nil {
		// else it was closed: only what the program has is left
		if configured, done, err := in.current.Configured(); err == nil {
			p.configured, release = configured, done
		}
	}

	p.secrets = secretsOf(p.configured.Secrets, in.own.Servers)
	p.hide = replacerOf(p.secrets)
	return p, release
}

// Redact returns a text without what must not be on record.
func (s *Source) Redact(text string) string {
	p, release := s.Use()
	defer release()
	return p.Redact(text)
}

// Function returns the function of a workflow, if the program has it.
func (s *Source) Function(name string) (workflow.Func, bool) {
	w, ok := s.inForce.Load().own.Workflows[name]
	return w.Run, ok
}

// Metrics returns what is to be known of the configuration; nothing if there is none.
func (s *Source) Metrics() []prometheus.Collector {
	current := s.inForce.Load().current
	if current == nil {
		return nil
	}

	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "actlog_config_loaded_timestamp_seconds", Help: "When the configuration in force was loaded.",
		},
			func() float64 { return float64(current.Loads().Loaded.UnixMilli()) / 1000 }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "actlog_config_reloads_total", Help: "Reloads that put another configuration in force.",
		},
			func() float64 { return float64(current.Loads().Reloads) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "actlog_config_reload_failures_total", Help: "Reloads that failed; the configuration before stayed in force.",
		},
			func() float64 { return float64(current.Loads().Failures) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "actlog_config_stale", Help: "1 if the last reload failed: the file is not what is in force.",
		},
			func() float64 {
				if current.Loads().Stale {
					return 1
				}
				return 0
			}),
	}
}

type parts struct {
	configured  *define.Configured
	own         Own
	connections func(first tool.Server) (tool.ServerPool, error)
	secrets     []string          // are not to be on record
	hide        *strings.Replacer // replaces them
}

// Provides implements [engine.Parts].
func (p *parts) Provides() (all []string) {
	add := func(kind string, names ...string) {
		for _, name := range names {
			all = append(all, kind+":"+name)
		}
	}

	add("model", keysOf(p.own.Models, p.configured.Models)...)
	add("mcp", keysOf(p.own.Servers, p.configured.Servers)...)
	for _, t := range slices.Concat(p.own.Tools, p.configured.Tools) {
		add("tool", t.Spec().Name)
	}
	for _, kind := range []string{"agent", "plan"} {
		for _, name := range p.Names(kind) {
			add("tool", kind+"."+name)
		}
	}
	add("workflow", slices.Collect(maps.Keys(p.own.Workflows))...)

	slices.Sort(all)
	return slices.Compact(all)
}

// keysOf returns the keys of either map, in order.
func keysOf[A, B any](a map[string]A, b map[string]B) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Definition implements [engine.Parts]. The kinds are agent, role, plan, which is a template, those of
// workflows, and orchestrator and dag, of which there is one without a name. Each name is that of a role.
func (p *parts) Definition(kind, name string) (json.RawMessage, bool) {
	var d any
	ok := false
	switch kind {
	case "agent":
		d, ok = p.agent(name, func(*define.Agent) {})
	case "role":
		d, ok = p.role(name), true
	case "orchestrator":
		d, ok = p.orchestrator(), name == ""
	case "dag":
		d, ok = p.configured.Dag.Definition(p.agent), name == ""
	case "plan":
		var template define.Plan
		if template, ok = p.configured.Plans[name]; ok {
			d, ok = template.Definition(p.agent)
		}
	case string(define.SimpleStep):
		var w define.Workflow
		w, ok = p.configured.Workflows[name]
		d, ok = w, ok && w.Function() == ""
	case string(define.CustomStep):
		d, ok = p.custom(name)
	}

	if !ok {
		return nil, false
	}
	text, err := json.Marshal(d)
	return text, err == nil
}

// custom returns the definition of a workflow that is a function of the program: its own, or one of the configuration
// that names it.
func (p *parts) custom(name string) (definition any, ok bool) {
	function := p.configured.Workflows[name].Function()
	w, ok := p.own.Workflows[cmp.Or(function, name)]
	w.Flow.Policies, w.Flow.Function = p.Policies(), function
	return w.Flow, ok
}

// agent returns the definition of an agent of a name, after a change.
func (p *parts) agent(name string, change func(*define.Agent)) (define.Definition, bool) {
	a, ok := p.own.Agents[name]
	if !ok {
		if a, ok = p.configured.Agents[name]; !ok {
			return define.Definition{}, false
		}
	}
	change(&a)
	return a.Definition(name, p.ModelDefinition(a.Model), p.servers(), p.Policies()), true
}

func (p *parts) role(name string) define.Definition {
	r, ok := p.configured.Roles[name]
	if !ok {
		r = define.DefaultRole(name)
	}
	return r.Definition(name, p.ModelDefinition(r.Model), p.servers(), p.Policies())
}

func (p *parts) orchestrator() define.OrchestratorDefinition {
	o := p.configured.Orchestrator
	if o == nil {
		o = new(define.DefaultOrchestrator())
	}
	return o.Definition(p.ModelDefinition, p.servers(), p.Policies())
}

// ModelDefinition implements [engine.Parts].
func (p *parts) ModelDefinition(name string) define.DefinitionModel {
	if own := p.own.Models[name]; own != nil {
		return define.DefinitionModel{Name: name, Provider: own.Provider(), Model: own.Name()}
	}
	if m, ok := p.configured.Models[name]; ok {
		return m.Definition
	}
	return define.DefinitionModel{Name: name}
}

func (p *parts) servers() []string { return keysOf(p.own.Servers, p.configured.Servers) }

// Names implements [engine.Parts].
func (p *parts) Names(kind string) []string {
	switch kind {
	case "agent":
		return keysOf(p.own.Agents, p.configured.Agents)
	case "role":
		return slices.Sorted(maps.Keys(p.configured.Roles))
	case "plan":
		return slices.Sorted(maps.Keys(p.configured.Plans))
	case string(define.SimpleStep):
		return p.workflows(false)
	case string(define.CustomStep):
		names := slices.AppendSeq(p.workflows(true), maps.Keys(p.own.Workflows))
		slices.Sort(names)
		return slices.Compact(names)
	}
	return nil
}

// workflows returns the names of those workflows of the configuration that are functions, or of the others, in order.
func (p *parts) workflows(functions bool) (names []string) {
	for name, w := range p.configured.Workflows {
		if (w.Function() != "") == functions {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Model implements [engine.Parts].
func (p *parts) Model(name string) (model.Model, bool) {
	if m, ok := p.own.Models[name]; ok {
		return m, true
	}
	m, ok := p.configured.Models[name]
	return m.Model, ok
}

// Tools implements [engine.Parts].
func (p *parts) Tools(ctx context.Context, servers []string) ([]tool.Tool, error) {
	all := slices.Concat(p.own.Tools, p.configured.Tools)
	if len(servers) == 0 {
		return all, nil
	}

	known, wanted := map[string]tool.Server{}, map[string]tool.Server{}
	maps.Copy(known, p.configured.Servers)
	maps.Copy(known, p.own.Servers)

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

	connections, err := p.connections(wanted[servers[0]])
	if err != nil {
		return nil, err
	}
	remote, err := connections.Tools(ctx, wanted)
	if err != nil {
		return nil, err
	}

	others := slices.Collect(maps.Keys(known))
	for _, t := range remote {
		if s := t.Spec(); tool.ServerOf(s.Name, others) == s.Server { // else a server took a name of another's
			all = append(all, t)
		}
	}
	return all, nil
}

// Policies implements [engine.Parts].
func (p *parts) Policies() tool.Rules {
	return slices.Concat(p.own.Policies, p.configured.Policies)
}

// Schedules implements [engine.Parts].
func (p *parts) Schedules() map[string]define.Schedule { return p.configured.Schedules }

// MaxTakeovers implements [engine.Parts].
func (p *parts) MaxTakeovers() int { return p.configured.MaxTakeovers }

// Concurrency implements [engine.Parts].
func (p *parts) Concurrency() define.Concurrency {
	c := p.configured.Concurrency
	c.Agents = maps.Clone(c.Agents)
	for name, a := range p.own.Agents {
		if c.Agents == nil {
			c.Agents = map[string]int{}
		}
		c.Agents[name] = a.MaxRuns
	}
	return c
}

// Unpriced implements [engine.Parts].
func (p *parts) Unpriced() (models []string) {
	for _, m := range p.configured.Models {
		if m.Unpriced {
			models = append(models, m.Definition.Model)
		}
	}
	return models
}

// Redact implements [engine.Parts].
func (p *parts) Redact(text string) string {
	if p.hide != nil {
		text = p.hide.Replace(text)
	}

	for _, r := range []*redact.Redactor{p.own.Redactor, p.configured.Redactor} {
		switch {
		case r == nil:
		case looksLikeJSON(text):
			clean, _ := r.JSON([]byte(text))
			text = string(clean)
		default:
			text, _ = r.Text(text)
		}
	}
	return text
}

// Settling implements [engine.Parts].
func (p *parts) Settling() func(text string) int {
	own, configured := p.own.Redactor.Settling(), p.configured.Redactor.Settling()
	upTo := 0
	return func(text string) int {
		end := min(own(text), configured(text))
		for _, secret := range p.secrets {
			for n := min(len(secret)-1, len(text)-upTo); n > 0; n-- {
				if strings.HasSuffix(text, secret[:n]) {
					end = min(end, len(text)-n)
					break
				}
			}
		}

		upTo = end
		return end
	}
}

// looksLikeJSON reports whether a text is an object or a list of JSON.
func looksLikeJSON(text string) bool {
	trimmed := strings.TrimSpace(text)
	return len(trimmed) > 1 && (trimmed[0] == '{' || trimmed[0] == '[') && json.Valid([]byte(trimmed))
}

// minSecret is the length from which a secret of the configuration is recognised in texts. Shorter ones
// are words.
const minSecret = 8

// secretsOf returns the secrets of a configuration, and those of the servers of a program.
func secretsOf(configured []string, own map[string]tool.Server) []string {
	all := slices.Clone(configured)
	for _, s := range own {
		all = append(all, s.Secrets()...)
	}
	return slices.DeleteFunc(all, func(secret string) bool { return len(secret) < minSecret })
}

// replacerOf returns what replaces secrets; nil: there are none.
func replacerOf(secrets []string) *strings.Replacer {
	if len(secrets) == 0 {
		return nil
	}
	var pairs []string
	for _, secret := range secrets {
		pairs = append(pairs, secret, "[secret]")
	}
	return strings.NewReplacer(pairs...)
}
