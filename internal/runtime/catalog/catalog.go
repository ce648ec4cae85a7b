// Package catalog owns what can be run: the agents, tools and models of this server's configuration, and what the live
// workers of the database say that they have. Nothing in it is secret.
package catalog

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor"
	"github.com/actlog/actlog/internal/runtime/runstore"
)

// Source has what this server is configured with.
type Source interface {
	// Use returns the present parts. The caller calls release when it no longer uses them.
	Use() (parts engine.Parts, release func())
	// Rules are the policies of the configuration.
	Rules() tool.Rules
	// Model returns the host that a model of the configuration is asked at, empty for its provider's own, and how many
	// requests at the same time it takes; 0: any number.
	Model(name string) (host string, maxConcurrent int)
}

// Store is the record as the catalog reads it.
type Store interface {
	LiveWorkers(ctx context.Context) ([]runstore.LiveWorker, error)
	Definitions(ctx context.Context, ids, hashes []string) (map[string]runstore.DefinitionVersion, error)
	Priced(provider, model string, at time.Time) bool
}

// Catalog knows what can be run. It is safe for concurrent use.
type Catalog struct {
	source Source
	store  Store
}

// New returns the catalog of a server.
func New(source Source, s Store) *Catalog { return &Catalog{source, s} }

// Agent is an agent that can be run.
type Agent struct {
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Model       *engine.ModelInfo `json:"model"` // nil: not known here
	Tools       []string          `json:"tools"` // names and patterns
	MCPServers  []string          `json:"mcpServers"`
	SubAgents   []string          `json:"subAgents"`
	MaxSteps    int               `json:"maxSteps"` // 0: the default
	EnableWrite bool              `json:"enableWrite"`
	Limits      define.Limits     `json:"limits"`
	Version     *int              `json:"version"` // nil: no run has had this definition
	SHA256      *string           `json:"sha256"`
	Configured  bool              `json:"configured"` // on this server, which can start it
	Workers     int               `json:"workers"`    // live ones that have it
}

// agentKind begins the ids of the definitions of agents, and what workers call them.
const agentKind = "agent."

// Agents returns the agents, by name: those of the configuration, and those that live workers have. Of the latter it
// knows what the newest run of them was given.
func (c *Catalog) Agents(ctx context.Context) ([]Agent, error) {
	workers, err := c.store.LiveWorkers(ctx)
	if err != nil {
		return nil, err
	}

	bodies, hashes := c.definitions()
	ids := slices.Collect(maps.Keys(bodies))
	on := map[string]int{}
	for _, w := range workers {
		for _, thing := range w.Provides {
			if id, ok := strings.CutPrefix(thing, "tool:"); ok && strings.HasPrefix(id, agentKind) {
				on[id]++
				ids = append(ids, id)
			}
		}
	}

	known, err := c.store.Definitions(ctx, ids, slices.Collect(maps.Values(hashes)))
	if err != nil {
		return nil, err
	}

	slices.Sort(ids)
	all := []Agent{}
	for _, id := range slices.Compact(ids) {
		pinned, isPinned := known[id]
		body, configured := bodies[id]
		hash := hashes[id]
		if !configured {
			body, hash = pinned.Body, pinned.SHA256
		}

		a := agentOf(strings.TrimPrefix(id, agentKind), body)
		a.Configured, a.Workers = configured, on[id]
		if hash != "" {
			a.SHA256 = &hash
		}
		if isPinned && pinned.SHA256 == hash {
			a.Version = &pinned.Version
		}
		all = append(all, a)
	}
	return all, nil
}

// definitions returns the definitions of the agents of the configuration, as runs pin them, and their hashes, by id.
func (c *Catalog) definitions() (bodies map[string]json.RawMessage, hashes map[string]string) {
	parts, release := c.source.Use()
	defer release()

	bodies, hashes = map[string]json.RawMessage{}, map[string]string{}
	for _, name := range parts.Names("agent") {
		if body, ok := parts.Definition("agent", name); ok {
			clean := json.RawMessage(parts.Redact(string(body)))
			sum := sha256.Sum256(clean)
			bodies[agentKind+name], hashes[agentKind+name] = clean, hex.EncodeToString(sum[:])
		}
	}
	return bodies, hashes
}

// agentOf returns what a definition says of an agent. Without one only its name is known.
func agentOf(name string, body json.RawMessage) Agent {
	a := Agent{Name: name, Tools: []string{}, MCPServers: []string{}, SubAgents: []string{}}
	var d define.Definition
	if body == nil || json.Unmarshal(body, &d) != nil {
		return a
	}

	a.Description, a.MaxSteps = d.Description, d.MaxSteps
	a.EnableWrite, a.Limits = d.EnableWrite, d.Limits
	a.Model = &engine.ModelInfo{Name: d.Model.Name, Provider: d.Model.Provider, Model: d.Model.Model}
	a.MCPServers = append(a.MCPServers, d.MCPServers...)

	for _, pattern := range d.Tools {
		if sub, ok := strings.CutPrefix(pattern, agentKind); ok {
			a.SubAgents = append(a.SubAgents, sub)
		} else {
			a.Tools = append(a.Tools, pattern)
		}
	}
	return a
}

// Tool is a tool of the configuration.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"` // of its arguments
	Policy      tool.Policy     `json:"policy"` // as agents have it that have no rules of their own
	Toolset     string          `json:"toolset"`
	UsedBy      []string        `json:"usedBy"` // see users
}

// Server is an MCP server of the configuration, whose tools are asked for when a run needs them.
type Server struct {
	Name   string   `json:"name"`
	UsedBy []string `json:"usedBy"`
}

// Tools returns the tools of the configuration, and the MCP servers that have others, by name.
func (c *Catalog) Tools(ctx context.Context) (tools []Tool, servers []Server, err error) {
	parts, release := c.source.Use()
	defer release()
	all, err := parts.Tools(ctx, nil)
	if err != nil {
		return nil, nil, err
	}

	usedBy, servedTo := map[string][]string{}, map[string][]string{}
	for _, u := range users(parts) {
		for _, t := range u.Select(all) {
			usedBy[t.Spec().Name] = append(usedBy[t.Spec().Name], u.name)
		}
		for _, server := range u.MCPServers {
			servedTo[server] = append(servedTo[server], u.name)
		}
	}

	tools, servers = []Tool{}, []Server{}
	rules := c.source.Rules()
	for _, t := range all {
		s := t.Spec()
		toolset, _, _ := strings.Cut(s.Name, ".")
		tools = append(tools,
			Tool{s.Name, s.Description, s.Schema, rules.Of(s), toolset, append([]string{}, usedBy[s.Name]...)})
	}

	for _, name := range engine.Provided(parts, "mcp") {
		servers = append(servers, Server{name, append([]string{}, servedTo[name]...)})
	}
	slices.SortFunc(tools, func(a, b Tool) int { return cmp.Compare(a.Name, b.Name) })
	return tools, servers, nil
}

// user is something of the configuration that uses tools.
type user struct {
	name string
	define.Definition
}

// users returns the agents, the agents of the orchestrator, as orchestrator.GIT, and the roles, as role.DATA.
func users(parts engine.Parts) (all []user) {
	named := func(kind, prefix string) {
		for _, name := range parts.Names(kind) {
			var d define.Definition
			if body, ok := parts.Definition(kind, name); ok && json.Unmarshal(body, &d) == nil {
				all = append(all, user{prefix + name, d})
			}
		}
	}

	named("agent", "")
	var o define.OrchestratorDefinition
	if body, ok := parts.Definition("orchestrator", ""); ok && json.Unmarshal(body, &o) == nil {
		for _, d := range o.Agents {
			all = append(all, user{"orchestrator." + d.Agent, d})
		}
	}
	named("role", "role.")
	return all
}

// Model is a model that runs can use.
type Model struct {
	Name          string `json:"name"` // in the configuration
	Provider      string `json:"provider"`
	Model         string `json:"model"`
	Host          string `json:"host"` // empty: the provider's own
	Priced        bool   `json:"priced"`
	MaxConcurrent int    `json:"maxConcurrent"` // requests at the same time; 0: any number
	Configured    bool   `json:"configured"`    // on this server
	Workers       int    `json:"workers"`
}

// Models returns the models of the configuration, and those that live workers have, by name. Of the latter only the
// name is known.
func (c *Catalog) Models(ctx context.Context) ([]Model, error) {
	on, err := c.provided(ctx, "model:")
	if err != nil {
		return nil, err
	}

	parts, release := c.source.Use()
	defer release()
	all := []Model{}
	for _, m := range engine.Models(parts) {
		host, most := c.source.Model(m.Name)
		all = append(all, Model{m.Name, m.Provider, m.Model, host, c.store.Priced(m.Provider, m.Model, time.Now()), most,
			true, len(on[m.Name])})
		delete(on, m.Name)
	}
	for name, workers := range on {
		all = append(all, Model{Name: name, Workers: len(workers)})
	}

	slices.SortFunc(all, func(a, b Model) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// Executor is a way to run something.
type Executor struct {
	Kind        string          `json:"kind"`
	Definitions []string        `json:"definitions"` // of this server, which a run can name
	InputSchema json.RawMessage `json:"inputSchema"` // of the member input; null: not known
	Workers     []ExecutorAt    `json:"workers"`     // live ones that have it
}

// ExecutorAt is a live worker.
type ExecutorAt struct {
	ID        string    `json:"id"`
	Host      string    `json:"host"`
	Release   string    `json:"release"`
	Slots     int       `json:"slots"` // runs that it carries at once
	StartedAt time.Time `json:"startedAt"`
}

// Executors returns the executors, by kind, and the live workers that have them.
func (c *Catalog) Executors(ctx context.Context) ([]Executor, error) {
	on, err := c.provided(ctx, "executor:")
	if err != nil {
		return nil, err
	}

	named := map[string][]string{}
	parts, release := c.source.Use()
	defer release()
	for _, s := range executor.Startables(parts) {
		if s.Name != "" {
			named[s.Executor] = append(named[s.Executor], s.Name)
		}
	}

	kinds := slices.AppendSeq(executor.Kinds(), maps.Keys(on))
	slices.Sort(kinds)
	all := []Executor{}
	for _, kind := range slices.Compact(kinds) {
		e := Executor{kind, append([]string{}, named[kind]...), executor.About(kind).Schema, []ExecutorAt{}}
		for _, w := range on[kind] {
			e.Workers = append(e.Workers, ExecutorAt{w.ID, w.Host, w.Release, w.Slots, w.StartedAt})
		}
		all = append(all, e)
	}
	return all, nil
}

// provided returns the live workers that have things of a kind, by the names of these.
func (c *Catalog) provided(ctx context.Context, kind string) (map[string][]runstore.LiveWorker, error) {
	workers, err := c.store.LiveWorkers(ctx)
	if err != nil {
		return nil, err
	}

	on := map[string][]runstore.LiveWorker{}
	for _, w := range workers {
		for _, thing := range w.Provides {
			if name, ok := strings.CutPrefix(thing, kind); ok {
				on[name] = append(on[name], w)
			}
		}
	}
	return on, nil
}
