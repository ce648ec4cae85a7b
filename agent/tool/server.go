package tool

import (
	"context"
	"fmt"
	"log/slog"
)

// Server has tools that are not in this process. An MCP server is one: see Server in package mcp. So only programs that
// name one are built with what it needs.
type Server interface {
	// Check returns an error that names the field if the server cannot be used.
	Check() error
	// Secrets are what it is given that must not be on record, such as its headers.
	Secrets() []string
	// NewPool returns a pool for servers of the same type. log gets what they write.
	NewPool(log *slog.Logger) ServerPool
}

// ServerPool has the connections of a process to servers. Its methods may be called at the same time.
type ServerPool interface {
	// Tools returns the tools of servers, by the names of the servers, after connecting to those that are not connected.
	Tools(ctx context.Context, servers map[string]Server) ([]Tool, error)
	// Close ends all connections. Tools fail from then on.
	Close() error
}

// maxServerName leaves room for the name of a tool in <server>-<tool>.
const maxServerName = MaxNameBytes - 10

// CheckServerName returns an error if a server cannot have this name: it is how the names of its tools begin.
func CheckServerName(name string) error {
	if name == "" || len(name) > maxServerName || CleanName(name) != name {
		return fmt.Errorf("the name of a server has at most %d letters, digits, '_' and '-'", maxServerName)
	}
	return nil
}
