// Package direct is the Recorder's Sink that writes to Postgres itself, without a server in
// between. It is for agents that run beside the database.
package direct

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/record"
	"github.com/actlog/actlog/recorder"
)

// maxConns is enough for writes and upkeep. A Sink does not read.
const maxConns = 4

// Options of [Open]. nil and the zero value are ready to use.
type Options struct {
	// Migrate brings the schema up to date first, which needs the right to create tables.
	// Without it a database that is not migrated is an error; the command "actlog migrate up"
	// migrates it.
	Migrate bool
	// Logger receives what no call can return: retried writes and upkeep. Default: nothing is
	// logged.
	Logger *slog.Logger
}

// Writer is an open store of records. Write returns after the changes are committed, as
// [recorder.Sink] describes.
type Writer interface {
	Write(ctx context.Context, changes []record.Change) (record.Result, error)
}

// Sink writes to Postgres. It is safe for concurrent use; writes at the same time share a
// transaction.
type Sink struct {
	writer Writer
	store  *store.Store // nil if the store is the caller's
	upkeep *upkeep.Upkeep
	closed atomic.Bool
}

var _ recorder.Sink = (*Sink)(nil)

// Open connects to the database, a postgres:// URL or a keyword/value string. It uses at most 5
// connections; one of them notifies the clients that follow runs. The error wraps
// [record.ErrUnavailable] if Postgres does not answer.
func Open(ctx context.Context, databaseURL string, options *Options) (*Sink, error) {
	if options == nil {
		options = &Options{}
	}
	if databaseURL == "" { // the driver would connect to its local default, and we would migrate that
		return nil, errors.New("open direct sink: database URL is required")
	}

	if options.Migrate {
		if err := migrate(ctx, databaseURL, options.Logger); err != nil {
			return nil, fmt.Errorf("open direct sink: %w", err)
		}
	}

	s, err := store.Open(ctx, store.Config{DatabaseURL: databaseURL, Logger: options.Logger, MaxConns: maxConns})
	if err != nil {
		return nil, fmt.Errorf("open direct sink: %w", err)
	}
	u, err := upkeep.Start(ctx, s, upkeep.Config{Logger: options.Logger})
	if err != nil {
		return nil, fmt.Errorf("open direct sink: %w", errors.Join(err, s.Close(ctx)))
	}
	return &Sink{writer: s, store: s, upkeep: u}, nil
}

// On returns a Sink that writes to a store which is open already, such as the one of a server
// in the same process. The store stays the caller's to close, after the Sink. On panics if w is
// nil.
func On(w Writer) *Sink {
	if w == nil {
		panic("direct: On needs a Writer")
	}
	return &Sink{writer: w}
}

func migrate(ctx context.Context, databaseURL string, log *slog.Logger) error {
	m, err := store.NewMigrator(ctx, databaseURL, cmp.Or(log, slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	return errors.Join(m.Up(ctx), m.Close())
}

// Write implements [recorder.Sink]: it returns after the changes are committed. While Postgres
// is away it tries again for 15 seconds; then the error wraps [record.ErrUnavailable]. After
// Close the error wraps [record.ErrClosed].
func (s *Sink) Write(ctx context.Context, changes []record.Change) (record.Result, error) {
	if s.closed.Load() {
		return record.Result{}, record.ErrClosed
	}
	return s.writer.Write(ctx, changes)
}

// Close commits what is still queued, then disconnects. If ctx ends first, the writes that
// remain get [record.ErrClosed]: nothing that was acknowledged is ever lost. For a Sink of [On]
// it only stops new writes; the store stays open.
func (s *Sink) Close(ctx context.Context) error {
	s.closed.Store(true)
	if s.store == nil {
		return nil
	}
	s.upkeep.Close()
	return s.store.Close(ctx)
}
