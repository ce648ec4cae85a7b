// Package direct is the Recorder's Sink that writes to Postgres itself, without a
// server between: for agents that run beside the database.
package direct

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/record"
	"github.com/actlog/actlog/recorder"
)

// maxConns is enough for the writers and the upkeep; a Sink does not read.
const maxConns = 4

// Options of a Sink. nil and the zero value are ready to use.
type Options struct {
	// Migrate brings the schema up to date first, which takes the right to make
	// tables. Without it a database that is not migrated is an error; the command
	// "actlog migrate up" migrates it.
	Migrate bool
	// Logger gets what cannot be returned to a caller: writes that are tried
	// again, upkeep. Default: nothing is logged.
	Logger *slog.Logger
}

// Sink writes to Postgres. It is safe for concurrent use; writes at the same time
// share a transaction.
type Sink struct{ store *store.Store }

var _ recorder.Sink = (*Sink)(nil)

// Open connects to the database, a postgres:// URL or a keyword/value string,
// with at most 5 connections: one of them tells those who follow runs. The error wraps
// [record.ErrUnavailable] where Postgres does not answer.
func Open(ctx context.Context, databaseURL string, options *Options) (*Sink, error) {
	if options == nil {
		options = &Options{}
	}
	if databaseURL == "" { // the driver would take it for the local default, and migrate that
		return nil, errors.New("opening the direct sink: database URL is required")
	}
	if options.Migrate {
		if err := migrate(ctx, databaseURL, options.Logger); err != nil {
			return nil, fmt.Errorf("opening the direct sink: %w", err)
		}
	}
	s, err := store.Open(ctx, store.Config{DatabaseURL: databaseURL, Logger: options.Logger, MaxConns: maxConns})
	if err != nil {
		return nil, fmt.Errorf("opening the direct sink: %w", err)
	}
	return &Sink{store: s}, nil
}

func migrate(ctx context.Context, databaseURL string, log *slog.Logger) error {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	m, err := store.NewMigrator(ctx, databaseURL, log)
	if err != nil {
		return err
	}
	return errors.Join(m.Up(ctx), m.Close())
}

// Write implements [recorder.Sink]: it returns when the changes are committed. It
// tries again for 15 seconds where Postgres is away, then the error wraps
// [record.ErrUnavailable]; after Close it wraps [record.ErrClosed].
func (s *Sink) Write(ctx context.Context, changes []record.Change) (record.Result, error) {
	return s.store.Write(ctx, changes)
}

// Close commits what is still queued, then disconnects. When ctx ends first, what
// is left is answered with [record.ErrClosed]: nothing that was acknowledged is
// ever lost.
func (s *Sink) Close(ctx context.Context) error { return s.store.Close(ctx) }
