package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"time"

	"github.com/actlog/actlog/agent/mcp"
	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/model/anthropic"
	"github.com/actlog/actlog/agent/model/openai"
	"github.com/actlog/actlog/agent/redact"
	"github.com/actlog/actlog/agent/sandbox"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/files"
	"github.com/actlog/actlog/agent/tool/git"
	"github.com/actlog/actlog/agent/tool/search"
	"github.com/actlog/actlog/agent/tool/tests"
	"github.com/actlog/actlog/internal/runtime/define"
)

// Parts are what runs need of a configuration. Close them when no run needs them any more.
type Parts struct {
	Config   *Config
	Models   map[string]model.Model // by their names in the configuration, within their limits
	Tools    []tool.Tool            // of the toolsets
	Redactor *redact.Redactor

	configured func() *define.Configured // a function, so that what prints by reflection does not reach the secrets
	folders    []io.Closer
	vectors    *search.Vectors // nil without an embedder
}

// Open makes the parts. It connects to nobody.
func (c *Config) Open() (*Parts, error) { return c.open(nil) }

// open makes the parts. Models that are configured as they were before are those of before, so that
// their limits hold for the runs of both. So is the embedder, with the vectors that it made.
func (c *Config) open(before *Parts) (*Parts, error) {
	p := &Parts{Config: c, Models: map[string]model.Model{}}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Models)) {
		m := c.Models[name]
		if before != nil && before.Models[name] != nil && reflect.DeepEqual(before.Config.Models[name], m) {
			p.Models[name] = before.Models[name]
			continue
		}

		opened, err := m.open()
		if err != nil {
			errs = append(errs, fmt.Errorf("models.%s: %w", name, err))
			continue
		}
		p.Models[name] = opened
	}

	var err error
	if p.Redactor, err = redact.New(c.Redact...); err != nil {
		errs = append(errs, fmt.Errorf("redact: %w", err))
	}

	if before != nil && before.vectors != nil && reflect.DeepEqual(before.Config.Embedder, c.Embedder) {
		p.vectors = before.vectors
	} else if c.Embedder != nil {
		embedder, err := c.Embedder.open()
		if err != nil {
			errs = append(errs, fmt.Errorf("embedder: %w", err))
		} else {
			p.vectors = search.NewVectors(embedder)
		}
	}

	remember := sandbox.Sandbox{Mode: sandbox.Off, Hide: c.hide} // so that no program runs once something of it has gone
	errs = append(errs, remember.Check(), p.openToolsets(c.Toolsets, c.hide))
	if err := errors.Join(errs...); err != nil {
		p.Close()
		return nil, err
	}

	in := p.forRuns()
	p.configured = func() *define.Configured { return in }
	return p, nil
}

func (p *Parts) forRuns() *define.Configured {
	c := p.Config
	in := &define.Configured{
		Models: map[string]define.Model{}, Tools: p.Tools, Servers: map[string]tool.Server{}, Defined: c.Defined,
		MaxTakeovers: c.Runs.MaxTakeovers, Concurrency: c.concurrency(), Redactor: p.Redactor, Secrets: c.secrets(),
	}

	for name, opened := range p.Models {
		m := c.Models[name]
		of := define.Model{Model: opened, Definition: m.Definition(name), MaxConcurrent: m.MaxConcurrent}
		of.Unpriced = m.Unpriced == allowUnpriced
		if u, err := url.Parse(m.BaseURL.Reveal()); err == nil {
			of.Host = u.Host // the rest of the address may be secret
		}
		in.Models[name] = of
	}

	for name, server := range p.Servers() {
		in.Servers[name] = server
	}
	return in
}

// concurrency returns how many runs go on at once, and what those of projects may spend.
func (c *Config) concurrency() define.Concurrency {
	all := define.Concurrency{
		Agents: map[string]int{}, Projects: map[string]int{}, PerOwner: c.Runs.MaxPerOwner, PerKey: c.Runs.MaxPerKey,
		Budgets: map[string]float64{},
	}
	for name, a := range c.Agents {
		all.Agents[name] = a.MaxRuns
	}
	for name, p := range c.Projects {
		all.Projects[name] = p.MaxRuns
		if p.BudgetUSDPerDay > 0 {
			all.Budgets[name] = p.BudgetUSDPerDay
		}
	}
	return all
}

// secrets returns the values that must not be on record.
func (c *Config) secrets() (all []string) {
	add := func(values iter.Seq[Value]) {
		for v := range values {
			if v.secret && !v.IsZero() {
				all = append(all, v.Reveal())
			}
		}
	}

	for _, m := range c.Models {
		add(slices.Values([]Value{m.APIKey}))
	}
	if c.Embedder != nil {
		add(slices.Values([]Value{c.Embedder.APIKey}))
	}
	for _, t := range c.Toolsets.Tests {
		add(maps.Values(t.Env))
	}
	for _, s := range c.MCPServers {
		add(maps.Values(s.Env))
		add(maps.Values(s.Headers))
	}

	return all
}

func (p *Parts) storeVectors(in define.VectorStore) {
	if p.vectors != nil {
		p.vectors.StoreIn(in)
	}
}

func (m Model) open() (opened model.Model, err error) {
	switch m.Provider {
	case "anthropic":
		opened, err = anthropic.New(anthropic.Config{
			Model: m.Model, APIKey: m.APIKey.Reveal(), BaseURL: m.BaseURL.Reveal(), MaxTokens: m.MaxTokens, Cache: m.Cache,
			Timeout: time.Duration(m.Timeout),
		})
	default:
		opened, err = openai.New(openai.Config{
			Model: m.Model, APIKey: m.APIKey.Reveal(), BaseURL: m.BaseURL.Reveal(), Timeout: time.Duration(m.Timeout),
		})
	}

	if err != nil {
		return nil, err
	}
	limited := model.Limit(opened, model.Limits{
		Concurrent: m.MaxConcurrent, PerMinute: m.MaxPerMinute, TokensPerMinute: m.TokensPerMinute,
	})
	return model.WithPatience(limited, m.patience()), nil
}

func (e Embedder) open() (model.Embedder, error) {
	return openai.NewEmbedder(openai.Config{
		Model: e.Model, APIKey: e.APIKey.Reveal(), BaseURL: e.BaseURL.Reveal(), Timeout: time.Duration(e.Timeout),
	})
}

// open returns the options of the tools, with the secrets of the remotes.
func (g Git) open(hide []string) git.Options {
	options := git.Options{
		Write: g.EnableWrite, Name: g.Name, Email: g.Email, Allow: g.Allow, Hide: hide, Remotes: map[string]git.Remote{},
	}
	for name, m := range g.Remotes {
		options.Remotes[name] = m.open()
	}
	return options
}

// openRegistered opens a toolset that only some programs have, with what the file says about it. The values have their
// secrets.
func openRegistered(name string, hide []string, options map[string]any) (tool.Toolset, error) {
	b, err := json.Marshal(options)
	if err != nil {
		return nil, err
	}
	return tool.OpenToolset(name, tool.Opening{Options: b, Hide: hide})
}

func (p *Parts) openToolsets(t Toolsets, hide []string) error {
	var errs []error
	open := func(toolset string, there bool, open func() ([]tool.Tool, error)) {
		if !there {
			return
		}
		tools, err := open()
		if err != nil {
			errs = append(errs, fmt.Errorf("toolsets.%s: %w", toolset, err))
		}
		p.Tools = append(p.Tools, tools...)
	}
	// errors of opening a folder have its path, which may be secret
	add := func(toolset string, root Value, folder tool.Toolset, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("toolsets.%s: the folder %s cannot be opened", toolset, root))
			return
		}
		p.folders = append(p.folders, folder)
		p.Tools = append(p.Tools, folder.Tools()...)
	}

	if t.Files != nil {
		folder, err := files.Open(t.Files.Root.Reveal(), files.Options{
			Write: t.Files.EnableWrite, Allow: t.Files.Allow, Hide: hide,
		})
		add("files", t.Files.Root, folder, err)
	}

	open("git", t.Git != nil, func() ([]tool.Tool, error) {
		return git.Tools(t.Git.Root.Reveal(), t.Git.open(hide))
	})
	if t.Code != nil {
		opened, err := openRegistered("code", hide, map[string]any{
			"root": t.Code.Root.Reveal(), "enableWrite": t.Code.EnableWrite, "allow": t.Code.Allow,
		})
		if errors.Is(err, tool.ErrNoToolset) {
			errs = append(errs, fmt.Errorf("toolsets.code: %w", err))
		} else {
			add("code", t.Code.Root, opened, err)
		}
	}

	if t.Search != nil {
		folder, err := search.Open(t.Search.Root.Reveal(), search.Options{
			Vectors: p.vectors, MinScore: t.Search.MinScore, Patience: time.Duration(t.Search.Patience), Allow: t.Search.Allow,
			Hide: hide,
		})
		add("search", t.Search.Root, folder, err)
	}

	commands := make([]tests.Command, 0, len(t.Tests))
	for _, name := range slices.Sorted(maps.Keys(t.Tests)) {
		test := t.Tests[name]
		commands = append(commands, tests.Command{
			Name: name, Dir: test.Root.Reveal(), Arguments: test.Command, Format: test.Format, Report: test.Report,
			Env: revealAll(test.Env), Sandbox: test.Sandbox.open(hide),
		})
	}
	open("tests", true, func() ([]tool.Tool, error) { return tests.Tools(commands...) })

	open("http", t.HTTP != nil, t.HTTP.open)
	open("db", t.DB != nil, t.DB.open)
	open("shell", t.Shell != nil, func() ([]tool.Tool, error) { return t.Shell.open(hide) })
	open("docker", t.Docker != nil, t.Docker.open)
	return errors.Join(errs...)
}

// Servers returns the MCP servers as a pool wants them: the values have their secrets.
func (p *Parts) Servers() map[string]mcp.Server {
	servers := make(map[string]mcp.Server, len(p.Config.MCPServers))
	for name, s := range p.Config.MCPServers {
		open := s.open()
		open.Sandbox.Hide = p.Config.hide
		servers[name] = open
	}
	return servers
}

// Close gives the parts up. Tools fail from then on.
func (p *Parts) Close() {
	for _, folder := range p.folders {
		_ = folder.Close() // it was only opened to look up files in it: no data is lost
	}
}
