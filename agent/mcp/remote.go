package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/actlog/actlog/agent/tool"
)

// remote is a tool of a server.
type remote struct {
	spec       tool.Spec
	own        string // the server's name for it
	connection *connection
	check      func() func(arguments json.RawMessage) error // by its schema, which is read once
}

func (r remote) Spec() tool.Spec { return r.spec }

// CheckArguments implements [tool.ArgumentChecker].
func (r remote) CheckArguments(arguments json.RawMessage) error { return r.check()(arguments) }

// Prepare connects to the server if it must.
func (r remote) Prepare(ctx context.Context) error {
	_, release, err := r.connection.use(ctx)
	if err != nil {
		return r.unreachable(err)
	}
	release()
	return nil
}

func (r remote) unreachable(err error) error {
	return fmt.Errorf("MCP server %s cannot be reached: %w", r.spec.Server, err)
}

func (r remote) Call(ctx context.Context, call tool.Call) (tool.Result, error) {
	arguments, err := tool.Canonical(call.Arguments)
	if err != nil {
		return tool.BadArguments(err), nil
	}
	call.Arguments = arguments

	if ask := call.Ask; ask != nil {
		call.Ask = func(ctx context.Context, q tool.Question) (tool.Answer, error) {
			q.From = r.spec.Server
			return ask(ctx, q)
		}
	}

	for again := false; ; again = true {
		s, release, err := r.connection.use(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return tool.Result{}, err
			}
			return tool.Failure(r.unreachable(err).Error()), nil
		}

		result, err := s.call(ctx, r.own, call)
		release()
		if !errors.Is(err, errRefused) {
			if err != nil && ctx.Err() == nil {
				err = fmt.Errorf("MCP server %s: %w", r.spec.Server, err)
			}
			return result, err
		}

		// The session has ended, for example because the server was started again.
		r.connection.drop(s)
		if again {
			return tool.Failure(r.unreachable(err).Error()), nil
		}
	}
}

// Bounds of what a server says of a tool, in bytes.
const (
	maxDescription = 8 << 10
	maxSchema      = 128 << 10
)

// newRemote returns a tool of a server, or an error if it cannot be offered to a model.
func newRemote(t *sdk.Tool, server string, s Server, c *connection) (remote, error) {
	schema := schemaText(t)
	if len(schema) > maxSchema {
		return remote{}, fmt.Errorf("its input schema has more than %d bytes", maxSchema)
	}
	if err := tool.CheckSchema(schema); err != nil {
		return remote{}, err
	}
	if t.Name == "" {
		return remote{}, errors.New("it has no name")
	}

	check := sync.OnceValue(func() func(json.RawMessage) error { return tool.SchemaCheck(schema) })
	return remote{own: t.Name, connection: c, check: check, spec: tool.Spec{
		Name:        nameOf(server, t.Name),
		Description: tool.Cut(t.Description, maxDescription),
		Schema:      schema,
		Policy:      policyOf(t, s),
		Server:      server,
		Untrusted:   !s.Trusted,
		Destructive: saysDestructive(t),
	}}, nil
}

// nameOf returns "<server>-<tool>" with "_" for characters that a provider refuses. The end of a name
// that is too long is replaced by a hash of the whole.
func nameOf(server, own string) string {
	name := tool.CleanName(server) + "-" + tool.CleanName(own)
	if len(name) <= tool.MaxNameBytes {
		return name
	}
	hash := fmt.Sprintf("_%x", sha256.Sum256([]byte(server+"\x00"+own)))[:9]
	return name[:tool.MaxNameBytes-len(hash)] + hash
}

// policyOf returns the policy of a tool. A human approves each call to a server that is not trusted, whatever it
// says of its tools. Of one that is trusted, the hints count that it gives.
func policyOf(t *sdk.Tool, s Server) tool.Policy {
	if !s.Trusted {
		return tool.Policy{Writes: true, Approval: true, Timeout: s.Timeout}
	}

	hints := cmp.Or(t.Annotations, &sdk.ToolAnnotations{})
	p := tool.Policy{Writes: !hints.ReadOnlyHint, Timeout: s.Timeout}
	p.Approval = p.Writes && saysDestructive(t)
	if hints.ReadOnlyHint || hints.IdempotentHint {
		p.OnUnknown = tool.Retry
	}
	return p
}

// saysDestructive reports whether a server itself calls a tool destructive.
func saysDestructive(t *sdk.Tool) bool {
	return t.Annotations != nil && t.Annotations.DestructiveHint != nil && *t.Annotations.DestructiveHint
}
