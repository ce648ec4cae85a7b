//go:build !unix

package embedpg

import (
	"context"
	"fmt"
	"os"
	"runtime"
)

var errNoUnix = fmt.Errorf("%w: %s has no private Postgres; name a database", ErrNoPostgres, runtime.GOOS)

// Server is none on this system.
type Server struct{}

// Start returns an error that wraps [ErrNoPostgres].
func Start(context.Context, Config) (*Server, error) { return nil, errNoUnix }

// StartTemp returns an error that wraps [ErrNoPostgres].
func StartTemp(context.Context, Config) (*Server, error) { return nil, errNoUnix }

// Made returns false.
func Made(string) (bool, error) { return false, nil }

// RunningURL returns an error that wraps [os.ErrNotExist].
func RunningURL(string) (string, error) { return "", fmt.Errorf("%w: %w", os.ErrNotExist, errNoUnix) }

// URL returns nothing.
func (*Server) URL() string { return "" }

// Version returns nothing.
func (*Server) Version() string { return "" }

// PID returns 0.
func (*Server) PID() int { return 0 }

// Restarts returns 0.
func (*Server) Restarts() int { return 0 }

// Room returns nil.
func (*Server) Room() error { return nil }

// Close does nothing.
func (*Server) Close(context.Context) error { return nil }
