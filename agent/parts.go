package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/redact"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/parts"
	"github.com/actlog/actlog/record"
)

// Parts are what runs are made of. The names mean what they mean in a configuration file.
type Parts struct {
	// Agents are known by their names. One is the tool agent.<name> of others.
	Agents map[string]Agent
	// Models are what [Agent.Model] names. An agent that names none has the model default.
	Models map[string]model.Model
	// Tools are Go functions ([tool.Func]), those of toolsets, or any others. An agent has those that it
	// names.
	Tools []tool.Tool
	// MCPServers are connected to when a run needs them. Their tools are called <server>-<tool>. See [mcp.Server].
	//
	// [mcp.Server]: https://pkg.go.dev/github.com/actlog/actlog/agent/mcp#Server
	MCPServers map[string]tool.Server
	// Workflows are functions that run agents, tools and other workflows. They are known by their names.
	Workflows map[string]Workflow
	// Policies change those of tools, by name patterns. The first that matches applies; those of the
	// configuration come last.
	Policies tool.Rules
	// Redact is what must neither go on record nor to a model: kinds and patterns as [redact.New] takes
	// them. The environment and headers of MCPServers, and the secrets of Config, are replaced without it;
	// API keys of the program's own Models are not known here.
	Redact []string
	// Config is a configuration file that the program has opened, with the names of its own tools in
	// its options ([config.Open]). What is in force in it counts beside what the program has: when the program loads
	// the file again, new runs have what is new. There can be one.
	Config Configuration
}

// Configuration is a configuration file that is open. [config.Open] returns one, and the program closes it.
//
// [config.Open]: https://pkg.go.dev/github.com/actlog/actlog/agent/config#Open
type Configuration interface {
	// Reload reads the file again. If that is not possible, the configuration before stays in force.
	Reload() error
	Close()
}

// Register adds parts. All of it is checked, and each mistake is in the error, with its field: a name that
// nothing has, a name that is there twice, a schema that is none. If there is one, nothing is registered.
// Agents may refer to each other and to what was registered before. Parts are registered before
// [Runtime.Work] is called.
func (r *Runtime) Register(p Parts) error {
	return r.during(func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.working {
			return errors.New("the work has begun")
		}
		return r.register(p)
	}, "register")
}

func (r *Runtime) register(p Parts) error {
	c := &registering{registered: r.own, redact: slices.Concat(r.redact, p.Redact), current: r.current}
	if err := c.use(p.Config); err != nil {
		return err
	}
	defer c.release()

	c.addModels(p.Models)
	c.addServers(p.MCPServers)
	c.addTools(p.Tools)
	c.addPolicies(p.Policies)
	c.redactor()
	c.addAgents(p.Agents)
	c.addWorkflows(p.Workflows)

	if err := errors.Join(c.errs...); err != nil {
		return err
	}

	r.own, r.redact = c.registered, c.redact
	r.current = c.current
	if r.current != nil {
		r.current.StoreVectors(r.store)
	}
	r.source.Set(r.current, r.own)
	return nil
}

// registering is what is registered when parts were added. It collects mistakes.
type registering struct {
	registered parts.Own
	redact     []string
	current    define.Configuration
	configured *define.Configured // what is in force of current
	release    func()
	errs       []error
}

func (c *registering) wrong(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

// use takes the parts of the configuration that is in force. The caller calls release.
func (c *registering) use(added Configuration) (err error) {
	if added != nil {
		opened, ok := added.(define.Configuration)
		switch {
		case !ok:
			return errors.New("config: package agent/config has not opened it")
		case c.current != nil && opened != c.current:
			return errors.New("config: there is one already")
		}
		c.current = opened
	}

	c.configured, c.release = &define.Configured{}, func() {}
	if c.current != nil {
		if c.configured, c.release, err = c.current.Configured(); err != nil {
			return fmt.Errorf("config: %w", err)
		}
	}
	return nil
}

// add returns to with the entries of more. It records a mistake for a name that is not valid, or that is taken by an
// earlier entry or by the configuration file. An error of check begins with a colon, or with a dot and a field.
func add[T, C any](
	c *registering, section string, to, more map[string]T, configured map[string]C, check func(T) error,
) map[string]T {
	all := cloned(to)
	for _, name := range slices.Sorted(maps.Keys(more)) {
		_, twice := all[name]
		_, inFile := configured[name]
		err := check(more[name])
		switch {
		case tool.CheckName(name) != nil:
			c.wrong("%s.%s: a name has at most %d letters, digits, '_', '-' and '.'", section, name, tool.MaxNameBytes)
		case twice || inFile:
			c.wrong("%s.%s: there is one already", section, name)
		case err != nil:
			c.wrong("%s.%s%w", section, name, err)
		}
		all[name] = more[name]
	}
	return all
}

// cloned returns a copy of a map, which is never nil.
func cloned[T any](of map[string]T) map[string]T {
	all := make(map[string]T, len(of))
	maps.Copy(all, of)
	return all
}

func (c *registering) addModels(more map[string]model.Model) {
	check := func(m model.Model) error {
		if m == nil {
			return errors.New(": it is nil")
		}
		return nil
	}
	c.registered.Models = add(c, "models", c.registered.Models, more, c.configured.Models, check)

	known := slices.Sorted(maps.Keys(allOf(c.registered.Models, c.configured.Models)))
	for _, name := range slices.Sorted(maps.Keys(more)) {
		fallback := model.PatienceWith(more[name]).Fallback
		for i, other := range fallback {
			if problem := define.FallbackProblem(name, other, fallback[:i], known); problem != "" {
				c.wrong("models.%s.fallback[%d]: %s", name, i, problem)
			}
		}
	}
}

func (c *registering) addServers(more map[string]tool.Server) {
	check := func(s tool.Server) error {
		if s == nil {
			return errors.New(": it is nil")
		}
		if err := s.Check(); err != nil { // it begins with the field
			return fmt.Errorf(".%w", err)
		}
		return nil
	}
	c.registered.Servers = add(c, "mcpServers", c.registered.Servers, more, c.configured.Servers, check)

	for _, name := range slices.Sorted(maps.Keys(more)) {
		if err := tool.CheckServerName(name); err != nil && tool.CheckName(name) == nil { // else it was noted
			c.wrong("mcpServers.%s: %w", name, err)
		}
	}
}

func (c *registering) addTools(more []tool.Tool) {
	for i, t := range more {
		if t == nil {
			c.wrong("tools[%d]: it is nil", i)
			return
		}
	}

	c.registered.Tools = slices.Concat(c.registered.Tools, more)
	if _, err := tool.NewSet(slices.Concat(c.configured.Tools, c.registered.Tools)...); err != nil {
		c.wrong("tools: %w", err)
	}

	for _, t := range more {
		s := t.Spec()
		if slices.Contains(define.Everywhere, s.Name) {
			c.wrong("tools.%s: agents have a tool of this name", s.Name)
		}
		if err := checked(s.Policy, new(tool.Policy)); err != nil {
			c.wrong("tools.%s.policy.%w", s.Name, err)
		}
	}

	for server := range allOf(c.registered.Servers, c.configured.Servers) {
		for _, t := range c.registered.Tools {
			if name := t.Spec().Name; strings.HasPrefix(name, server+"-") {
				c.wrong("tools.%s: it could be the name of a tool of the MCP server %s", name, server)
			}
		}
	}
}

// checked returns what is wrong with a policy or a rule, with its field.
func checked(p any, read any) error {
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, read)
}

func (c *registering) addPolicies(more tool.Rules) {
	for i, rule := range more {
		if err := checked(rule, new(tool.Rule)); err != nil {
			c.wrong("policies[%d].%w", i, err)
		}
	}
	c.registered.Policies = slices.Concat(c.registered.Policies, more)
}

func (c *registering) redactor() {
	var err error
	if c.registered.Redactor, err = redact.New(c.redact...); err != nil {
		c.wrong("redact: %w", err)
	}
}

func (c *registering) addAgents(more map[string]Agent) {
	before := allOf(c.registered.Agents, c.configured.Agents)
	known := define.Names{
		Models:  slices.Sorted(maps.Keys(allOf(c.registered.Models, c.configured.Models))),
		Servers: slices.Sorted(maps.Keys(allOf(c.registered.Servers, c.configured.Servers))),
	}

	writes := map[string]bool{}
	for _, t := range slices.Concat(c.registered.Tools, c.configured.Tools) {
		s := t.Spec()
		known.Tools = append(known.Tools, s.Name)
		writes[s.Name] = slices.Concat(c.registered.Policies, c.configured.Policies).Of(s).Writes
	}

	for name := range before {
		known.Tools = append(known.Tools, "agent."+name)
	}
	for name := range c.configured.Plans {
		known.Tools = append(known.Tools, "plan."+name)
	}

	defined := map[string]define.Agent{}
	for name, a := range more {
		defined[name] = a.definition()
	}
	defined, mistakes := define.CheckAgents(defined, known)
	c.errs = append(c.errs, mistakes...)

	for _, name := range slices.Sorted(maps.Keys(more)) {
		if before[name] {
			c.wrong("agents.%s: there is one already", name)
		}
		for _, t := range more[name].Tools {
			if writes[t] && more[name].ReadOnly {
				c.wrong("agents.%s.readOnly: must be false: the tool %s writes", name, t)
			}
		}
	}

	c.registered.Agents = cloned(c.registered.Agents)
	maps.Copy(c.registered.Agents, defined)
}

func (c *registering) addWorkflows(more map[string]Workflow) {
	c.registered.Workflows = cloned(c.registered.Workflows)
	for _, name := range slices.Sorted(maps.Keys(more)) {
		_, twice := c.registered.Workflows[name]
		switch {
		case strings.TrimSpace(name) == "" || len(name) > record.MaxIDBytes || !storable(name):
			// it may be a path with a class
			c.wrong("workflows.%q: a name has at most %d bytes, UTF-8 without NUL", name, record.MaxIDBytes)
		case twice:
			c.wrong("workflows.%s: there is one already", name)
		case more[name].Run == nil:
			c.wrong("workflows.%s.run: it is nil", name)
		}
		c.registered.Workflows[name] = more[name].definition()
	}

	for name, w := range c.configured.Workflows {
		if _, ok := c.registered.Workflows[w.Function()]; !ok && w.Function() != "" {
			c.wrong("workflows.%s: no function is registered as %s", name, w.Function())
		}
	}

	tools := map[string]bool{"form": true, "wait_for": true}
	for _, t := range slices.Concat(c.registered.Tools, c.configured.Tools) {
		tools[t.Spec().Name] = true
	}
	agents, servers := allOf(c.registered.Agents, c.configured.Agents), allOf(c.registered.Servers, c.configured.Servers)
	for name := range agents {
		tools["agent."+name] = true
	}

	for _, name := range slices.Sorted(maps.Keys(more)) {
		w := more[name]
		there := maps.Clone(tools)
		for _, server := range w.MCPServers {
			for _, name := range w.Tools {
				there[name] = there[name] || strings.HasPrefix(name, server+"-")
			}
		}

		for _, refers := range []struct {
			field, what string
			names       []string
			there       map[string]bool
		}{
			{"agents", "agent", w.Agents, agents}, {
				"workflows", "workflow", w.Workflows, allOf(c.registered.Workflows, c.configured.Workflows),
			},
			{"tools", "tool", w.Tools, there}, {"mcpServers", "MCP server", w.MCPServers, servers},
		} {
			for i, each := range refers.names {
				if !refers.there[each] {
					c.wrong("workflows.%s.%s[%d]: no %s is called %q", name, refers.field, i, refers.what, each)
				}
			}
		}
	}
}

// allOf returns the names in either map.
func allOf[A, B any](a map[string]A, b map[string]B) map[string]bool {
	all := map[string]bool{}
	for name := range a {
		all[name] = true
	}
	for name := range b {
		all[name] = true
	}
	return all
}
