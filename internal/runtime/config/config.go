package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/actlog/actlog/agent/redact"
	"github.com/actlog/actlog/internal/record/nearest"
	"github.com/actlog/actlog/internal/runtime/define"
)

// Config is a whole configuration. Do not change it. Printed, logged, or written as JSON or YAML it
// shows no secrets.
type Config struct {
	Models     map[string]Model  `json:"models,omitempty"`
	Embedder   *Embedder         `json:"embedder,omitempty"`
	MCPServers map[string]Server `json:"mcpServers,omitempty"`
	Toolsets   Toolsets          `json:"toolsets,omitzero"`
	define.Defined
	Redact []string `json:"redact,omitempty"` // as [redact.New] takes them
	// Projects are what holds for the runs of projects.
	Projects map[string]Project `json:"projects,omitempty"`
	// Runs bounds all runs.
	Runs Runs `json:"runs,omitzero"`

	// Warnings are what may be a mistake, but need not be one: log them.
	Warnings []Problem `json:"-"`

	hide []string // absolute paths of what programs are not to reach
}

// Options of Load.
type Options struct {
	// Lookup returns variables of the environment. nil means os.LookupEnv.
	Lookup func(name string) (string, bool)
	// Tools are the names of tools that the program has itself. Agents may use them.
	Tools []string
	// Workflows are the names of workflows that the program has as functions.
	Workflows []string
	// Hide are files and folders that no tool of a folder and no program in a sandbox is to reach, such as the data
	// folder of the program, and its keys. The file of the configuration is always one.
	Hide []string
}

const maxFile = 4 << 20

// Load reads a configuration file. If there are mistakes in it, the error is of type *InvalidError and
// has all of them.
func Load(path string, o Options) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	defer f.Close()

	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(path, text, o)
}

// Parse is Load for the text of a file. The path is for messages, and relative folders in the text
// begin where the file is.
func Parse(path string, text []byte, o Options) (*Config, error) {
	f := &file{name: path, lookup: o.Lookup}
	if f.lookup == nil {
		f.lookup = os.LookupEnv
	}

	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("folder of the configuration: %w", err)
	}

	c := &Config{}
	for _, hidden := range append(slices.Clone(o.Hide), path) {
		if hidden, err = filepath.Abs(hidden); err != nil {
			return nil, fmt.Errorf("what is hidden from programs: %w", err)
		}
		c.hide = append(c.hide, hidden)
	}

	if len(text) > maxFile {
		f.problems = append(f.problems, Problem{File: path, Message: fmt.Sprintf("the file has more than %d bytes", maxFile)})
	} else if top, ok := f.parse(text); ok {
		c.read(top, dir, o)
	}

	if len(f.problems) > 0 {
		return nil, &InvalidError{Problems: byLine(f.problems)}
	}
	c.Warnings = byLine(f.warnings)
	return c, nil
}

func byLine(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	return problems
}

// read reads all sections: those first to which others refer.
func (c *Config) read(top node, dir string, o Options) {
	sections := map[string]node{}
	keep := fields{}
	for _, name := range []string{"models", "embedder", "mcpServers", "toolsets", "policies", "agents", "workflows",
		"plans", "roles", "orchestrator", "dag", "schedules", "redact", "projects", "runs"} {
		keep[name] = func(n node) { sections[name] = n }
	}
	top.object(keep)

	at := func(name string, read func(node)) {
		if n, ok := sections[name]; ok {
			read(n)
		}
	}
	at("toolsets", func(n node) { c.Toolsets = readToolsets(n, dir) })

	there := knownNames{
		models: keysOf(sections["models"]), servers: keysOf(sections["mcpServers"]), agents: keysOf(sections["agents"]),
		plans: keysOf(sections["plans"]), functions: o.Workflows,
	}
	there.workflows, there.custom = withClass(sections["workflows"])
	there.custom = append(there.custom, o.Workflows...)
	there.tools = slices.Concat(c.Toolsets.tools(), o.Tools, define.Everywhere)

	for _, name := range there.agents {
		there.tools = append(there.tools, "agent."+name)
	}
	for _, name := range there.plans {
		there.tools = append(there.tools, "plan."+name)
	}

	there.checkOffered(top)
	for _, name := range there.servers {
		there.tools = append(there.tools, name+"-*")
	}

	c.Models = section(sections["models"], "", func(name string, n node) Model {
		return readModel(n, name, there.models)
	})
	c.MCPServers = section(sections["mcpServers"], "", func(name string, n node) Server {
		return readServer(name, n, dir)
	})

	c.Agents = section(sections["agents"], "agent.", func(_ string, n node) define.Agent { return readAgent(n, there) })
	c.Workflows = section(sections["workflows"], "", func(_ string, n node) define.Workflow {
		return readWorkflow(n, there)
	})
	c.Plans = section(sections["plans"], "plan.", func(name string, n node) define.Plan {
		return readPlan(n, name, there)
	})
	c.Roles = section(sections["roles"], "", func(_ string, n node) define.Role { return readRole(n, there) })

	c.Schedules = section(sections["schedules"], "", func(name string, n node) define.Schedule {
		return readSchedule(n, name, there)
	})

	at("orchestrator", func(n node) { c.Orchestrator = new(readOrchestrator(n, there)) })
	at("dag", func(n node) {
		n.object(fields{"agents": func(n node) { c.Dag.Agents = n.references("agent", there.agents) }})
	})
	checkRings(sections["workflows"], c.Workflows)

	at("embedder", func(n node) { c.Embedder = readEmbedder(n) })
	at("policies", func(n node) { c.Policies = readPolicies(n, there.tools) })
	at("redact", func(n node) { c.Redact = n.redactions() })
	at("runs", func(n node) { c.Runs = readRuns(n) })
	c.Projects = section(sections["projects"], "", func(_ string, n node) Project { return readProject(n) })
}

// section reads a mapping from names.
func section[T any](n node, prefix string, read func(string, node) T) map[string]T {
	all := map[string]T{}
	n.entries(func(name string, n node) {
		n.checkName(prefix, name)
		all[name] = read(name, n)
	})
	return all
}

func (n node) redactions() (patterns []string) {
	for _, each := range n.list() {
		pattern := each.word()
		if pattern == "" {
			continue
		}

		if err := redact.Check(pattern); err != nil {
			if near := nearest.Name(pattern, redact.Kinds()); near != "" {
				each.problem("%v; did you mean %s?", err, near)
			} else {
				each.problem("%v", err)
			}
		}
		patterns = append(patterns, pattern)
	}
	return patterns
}

// MarshalYAML writes the same fields as JSON.
func (c Config) MarshalYAML() (any, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	return fields, json.Unmarshal(b, &fields)
}
