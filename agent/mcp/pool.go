package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/actlog/actlog/agent/tool"
)

// DefaultIdle is how long a connection that nobody uses is kept.
const DefaultIdle = 5 * time.Minute

// Options of a Pool.
type Options struct {
	// Logger gets what servers write to their standard error, and what is wrong with their tools.
	// nil means nowhere.
	Logger *slog.Logger
	// Idle is how long a connection that nobody uses is kept. 0 means DefaultIdle.
	Idle time.Duration
}

// Pool has the connections of a process to MCP servers. Its methods may be called at the same time.
type Pool struct {
	options Options

	mu          sync.Mutex
	connections map[string]*connection // by key of the configuration
	closed      bool
}

// NewPool returns a pool without connections. Close it at the end.
func NewPool(o Options) *Pool {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Idle = cmp.Or(o.Idle, DefaultIdle)
	return &Pool{options: o, connections: map[string]*connection{}}
}

// Tools returns the tools of servers, by the names of the servers, after connecting to those that are
// not connected. All errors are returned at once, and name the server. Two tools whose names are the
// same to a model are an error that names both.
//
// A tool whose schema cannot be used is left out and logged. So is one of a server a that is called like one
// of a server a-b.
func (p *Pool) Tools(ctx context.Context, servers map[string]Server) ([]tool.Tool, error) {
	names := slices.Sorted(maps.Keys(servers))
	found := make([][]remote, len(names))
	errs := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			if found[i], errs[i] = p.register(ctx, name, servers[name]); errs[i] != nil {
				errs[i] = fmt.Errorf("register MCP server %s: %w", name, errs[i])
			}
		})
	}
	all.Wait()

	var tools []tool.Tool
	byName := map[string]remote{}
	prefixes := make([]string, len(names))
	for i, name := range names {
		prefixes[i] = tool.CleanName(name)
	}

	for _, each := range slices.Concat(found...) {
		if of := tool.ServerOf(each.spec.Name, prefixes); of != tool.CleanName(each.spec.Server) {
			p.options.Logger.Warn("tool of an MCP server left out: its name belongs to another server", "server",
				each.spec.Server, "tool", each.spec.Name, "other", of)
			continue
		}
		if other, ok := byName[each.spec.Name]; ok {
			errs = append(errs, fmt.Errorf("tool %q of MCP server %s and tool %q of MCP server %s both have the name %s; "+
				"exclude one of them",
				tool.Cut(other.own, 100), other.spec.Server, tool.Cut(each.own, 100), each.spec.Server, each.spec.Name))
			continue
		}

		byName[each.spec.Name] = each
		tools = append(tools, each)
	}

	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return tools, nil
}

// register returns the tools of one server.
func (p *Pool) register(ctx context.Context, name string, s Server) ([]remote, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}

	s = s.withDefaults()
	ctx, cancel := context.WithTimeoutCause(ctx, s.RegisterTimeout, fmt.Errorf("no answer within %s", s.RegisterTimeout))
	defer cancel()
	c, err := p.connection(name, s)
	if err != nil {
		return nil, err
	}

	session, release, err := c.use(ctx)
	if err == nil {
		defer release()
		var tools []remote
		if tools, err = p.offered(ctx, name, s, c, session); err == nil {
			return tools, nil
		}
	}

	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return nil, err
}

func (p *Pool) offered(ctx context.Context, name string, s Server, c *connection, from *session) ([]remote, error) {
	listed, err := from.tools(ctx)
	if err != nil {
		return nil, err
	}

	var tools []remote
	for _, t := range listed {
		if slices.ContainsFunc(s.Exclude, func(pattern string) bool { return tool.Match(pattern, t.Name) }) {
			continue
		}

		r, err := newRemote(t, name, s, c)
		if err != nil {
			c.log.Warn("tool of an MCP server left out", "tool", tool.Cut(t.Name, 100), "err", err)
			continue
		}
		tools = append(tools, r)
	}
	return tools, nil
}

func (p *Pool) connection(name string, s Server) (*connection, error) {
	key, err := s.key()
	if err != nil {
		return nil, err
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}

	c := p.connections[key]
	if c == nil {
		c = newConnection(name, s, p.options.Logger, p.options.Idle)
		p.connections[key] = c
	}
	return c, nil
}

// Close ends all connections, and the calls that are being made: their outcome is unknown. Tools fail
// from then on.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	connections := slices.Collect(maps.Values(p.connections))
	p.mu.Unlock()

	var all sync.WaitGroup
	for _, c := range connections {
		all.Go(c.close)
	}
	all.Wait()
	return nil
}

var _ tool.Server = Server{}

// NewPool implements [tool.Server].
func (Server) NewPool(log *slog.Logger) tool.ServerPool { return pool{NewPool(Options{Logger: log})} }

// pool is a [Pool] that is given servers of any type.
type pool struct{ *Pool }

func (p pool) Tools(ctx context.Context, servers map[string]tool.Server) ([]tool.Tool, error) {
	ours := make(map[string]Server, len(servers))
	for name, s := range servers {
		switch s := s.(type) {
		case Server:
			ours[name] = s
		case *Server:
			ours[name] = *s
		default:
			return nil, fmt.Errorf("register server %s: it is a %T and no MCP server", name, s)
		}
	}
	return p.Pool.Tools(ctx, ours)
}
