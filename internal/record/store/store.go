// Package store keeps the record in Postgres: one way in, [Store.Write], and reads that are
// one statement each.
package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/internal/record/delta"
	"github.com/actlog/actlog/internal/record/feed"
	"github.com/actlog/actlog/internal/record/pg"
)

// DefaultRetryFor is how long a write waits in all, unless the configuration says otherwise.
const DefaultRetryFor = 15 * time.Second

// Config says where the record is and how it is written. Zero values mean the defaults named
// here.
type Config struct {
	// DatabaseURL is a postgres:// URL or a keyword/value string. Required.
	DatabaseURL string
	// DirectURL leads to the same database if DatabaseURL leads to a pooler of transactions. Default: DatabaseURL.
	DirectURL string
	// ReplicaURL leads to standbys of it, for [Store.Relaxed]. Default: there are none.
	ReplicaURL string
	// ReplicaLag is how far behind a standby may be to be used. Default 5 s.
	ReplicaLag time.Duration
	// Logger receives what cannot be returned to a caller. Default: nothing is logged.
	Logger *slog.Logger
	// MaxConns bounds the connections of the pool. Default 20. Reads use at most three quarters
	// of them, so writers always find one. Beside it, one connection notifies other servers, and
	// one listens while somebody follows the feed.
	MaxConns int
	// Writers is how many transactions write at once. Default 2.
	Writers int
	// QueueRows and QueueBytes bound what waits to be written. Beyond them Write waits.
	// Default 20,000 rows, 64 MiB.
	QueueRows  int
	QueueBytes int
	// RetryFor is how long a write waits in all if Postgres is away, its disk is full or a row
	// is locked. Default: DefaultRetryFor.
	RetryFor time.Duration
	// CheckRoom returns an error if the database's disk has no room for a transaction. Default: only
	// Postgres finds out.
	CheckRoom func() error
	// PartitionDays is the period of a partition of the detail. Default 7.
	PartitionDays int
	// Project returns a projection without spans. Default: the store takes no traces.
	Project func(traceID string) Projection
	// TraceQuiet is how long a trace may be silent before it is closed: what has not ended in
	// it is UNKNOWN from then on, until more spans come. Default 10 min.
	TraceQuiet time.Duration
	// Contents says how long texts are cut, to be kept once in a tree. Default: content.DefaultSizes.
	// Tests cut everything.
	Contents content.Sizes
	// Tracer sees every statement but notifications. Default: none.
	Tracer pgx.QueryTracer
}

func (c Config) withDefaults() Config {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.MaxConns = cmp.Or(c.MaxConns, 20)
	c.Writers = cmp.Or(c.Writers, 2)
	c.QueueRows = cmp.Or(c.QueueRows, 20_000)
	c.QueueBytes = cmp.Or(c.QueueBytes, 64<<20)

	c.PartitionDays = cmp.Or(c.PartitionDays, 7)
	c.Contents = cmp.Or(c.Contents, content.DefaultSizes)
	c.ReplicaLag = cmp.Or(c.ReplicaLag, 5*time.Second)
	c.TraceQuiet = cmp.Or(c.TraceQuiet, 10*time.Minute)
	c.RetryFor = cmp.Or(c.RetryFor, DefaultRetryFor)
	return c
}

func (c Config) validate() error {
	switch {
	case c.DatabaseURL == "":
		return errors.New("database URL is required")
	case c.Writers < 1 || c.Writers >= c.MaxConns:
		return fmt.Errorf("writers must be at least 1 and fewer than the %d connections, not %d", c.MaxConns, c.Writers)
	case c.PartitionDays < 1:
		return fmt.Errorf("partition days must be at least 1, not %d", c.PartitionDays)
	case c.ReplicaLag < LeastReplicaLag:
		return fmt.Errorf("replica lag must be at least %v", LeastReplicaLag)
	case c.TraceQuiet < time.Second:
		return errors.New("trace quiet must be at least a second")
	case c.QueueRows < maxBatchRows || c.QueueBytes < maxBatchBytes:
		return fmt.Errorf("the queue must hold a batch: %d rows, %d bytes", maxBatchRows, maxBatchBytes)
	}
	return nil
}

// LeastReplicaLag is the least Config.ReplicaLag: a standby is looked at four times as often.
const LeastReplicaLag = 100 * time.Millisecond

// Store is the record in one Postgres database. It is safe for concurrent use.
type Store struct {
	// What others call of these is called of the store.
	*prices
	*writer
	*tracer
	*Reader

	config     Config
	owned      *writer  // of the trees that have an owner
	replica    *replica // nil: there is none
	db         *pg.DB
	checks     *pg.DB // for [Store.Ready], which needs no key
	feed       *feed.Feed
	deltas     *delta.Deltas
	queries    *db.Queries
	stop       context.CancelFunc // of what runs beside the writers
	background sync.WaitGroup

	mu    sync.Mutex
	bells []*pg.Bell // see [Store.Bell]
}

// Open connects to a migrated database and starts the writers. The error wraps
// [record.ErrUnavailable] if Postgres does not answer.
func Open(ctx context.Context, config Config) (*Store, error) {
	config = config.withDefaults()
	s, err := open(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open the record: %w", err)
	}

	if err := s.prices.load(ctx); err != nil {
		config.Logger.Warn("read prices failed; no costs are computed until they can be read", "error", err)
	}

	s.writer.ladder.start(ctx)
	s.writer.start(config.Writers)
	s.owned.start(ownedWriters)
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.background.Go(func() { s.prices.follow(ctx) })
	if config.Project != nil {
		s.background.Go(func() { s.makeDue(ctx) })
	}
	return s, nil
}

// readConns is how many connections reads may take at once: writers always find one.
func (c Config) readConns() int { return c.MaxConns - max(c.Writers, c.MaxConns/4) }

func open(ctx context.Context, config Config) (*Store, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}

	d, err := pg.Open(ctx, pg.Config{
		URL: config.DatabaseURL, DirectURL: config.DirectURL, MaxConns: config.MaxConns, Logger: config.Logger,
		Tracer: config.Tracer,
	})
	if err != nil {
		return nil, err
	}
	if err := checkMigrated(ctx, d); err != nil {
		d.Close()
		return nil, err
	}

	log, queries := config.Logger, db.New()
	tuning, counters := defaultTuning(), new(counters)
	reads := d.ForReads(config.readConns())

	s := &Store{
		config: config, db: d, checks: d.ForReads(1), feed: feed.Start(d, reads, log), deltas: delta.New(d, log),
		queries: queries,
	}

	s.prices = &prices{db: d, queries: queries, log: log}
	s.Reader = &Reader{db: reads, queries: queries, partitionDays: config.PartitionDays}

	sender := &sender{
		db: d, feed: s.feed, tuning: tuning, counters: counters, checkRoom: config.CheckRoom,
		statements: newStatements(tuning, config.PartitionDays),
		places:     &places{tuning: tuning, partitionDays: config.PartitionDays}, searchMemory: newSearchMemory(),
		contents: newContents(config.Contents),
	}
	s.writer = &writer{
		sender: sender, ladder: &ladder{counters: counters, log: log},
		prices: s.prices, queue: newQueue(config.QueueRows, config.QueueBytes, config.RetryFor), log: log,
	}

	s.owned = &writer{
		sender: sender, ladder: s.writer.ladder, prices: s.prices, log: log, ofOwners: true, lockTimeout: ownedTimeout,
		queue: newQueue(config.QueueRows, config.QueueBytes, config.RetryFor),
	}
	s.owned.queue.batchBytes, s.owned.queue.writers = ownedBytes, ownedWriters
	s.tracer = &tracer{
		writer: s.writer, queries: queries, project: config.Project, quiet: config.TraceQuiet, retryFor: config.RetryFor,
		turns: make(chan struct{}, max(1, config.MaxConns/traceShare)),
	}

	s.replica, err = newReplica(d, s.Reader, pg.ReplicaConfig{
		URL: config.ReplicaURL, MaxConns: config.MaxConns, Lag: config.ReplicaLag, Logger: config.Logger,
		Tracer: config.Tracer,
	})
	if err != nil {
		d.Close()
		return nil, err
	}
	return s, nil
}

// Close lets the queue run empty, then disconnects. When ctx ends first, what is still queued
// is answered with [record.ErrClosed].
func (s *Store) Close(ctx context.Context) error {
	s.stop()
	err := errors.Join(s.owned.close(ctx), s.writer.close(ctx))
	s.writer.ladder.stop()
	s.background.Wait()

	s.feed.Close()
	s.deltas.Close()
	for _, bell := range s.bells {
		bell.Close()
	}
	s.replica.close()
	s.db.Close()
	return err
}

// Standing is how the primary stands with its standbys.
type Standing struct {
	pg.Standing
	Replica *ReplicaStats // nil: there is none
	// Crowded: the database gives out no more connections. Those that are held are enough for this answer.
	Crowded bool
}

// Ready reports whether the database answers and every migration is applied, and how it stands with its standbys. The
// error is [record.ErrUnavailable] or [ErrNotMigrated] if not.
func (s *Store) Ready(ctx context.Context) (Standing, error) {
	if _, err := pg.Read(ctx, s.checks, func() (struct{}, error) {
		return struct{}{}, checkMigrated(ctx, s.checks)
	}); err != nil {
		return Standing{}, err
	}

	standing, err := s.checks.Standing(ctx)
	out := Standing{Standing: standing, Crowded: s.db.Crowded()}
	if s.replica != nil {
		out.Replica = new(s.replica.stats())
	}
	return out, err
}

// DB returns the store's connections.
func (s *Store) DB() *pg.DB { return s.db }

// Feed returns the change feed of the record.
func (s *Store) Feed() *feed.Feed { return s.feed }

// Deltas returns the texts of models' answers that are arriving. They are not on record.
func (s *Store) Deltas() *delta.Deltas { return s.deltas }

// Bell returns a bell for those who use the database beside the record. It is closed with the store, and is not to be
// asked for later.
func (s *Store) Bell(channel string) *pg.Bell {
	bell := pg.NewBell(s.db, channel, s.config.Logger)

	s.mu.Lock()
	defer s.mu.Unlock()
	s.bells = append(s.bells, bell)
	return bell
}

// RetryFor is how long a write waits in all, see [Config].
func (s *Store) RetryFor() time.Duration { return s.config.RetryFor }

// PartitionDays is the period of a partition of the detail.
func (s *Store) PartitionDays() int { return s.config.PartitionDays }

// Stats returns a snapshot, without asking the database. It is cheap.
func (s *Store) Stats() Stats {
	st, pool := s.sender.counters.stats(), s.db.Stat()
	st.GivenUp = s.queue.givenUp.Load() + s.owned.queue.givenUp.Load()
	st.Replica = s.replica.stats()
	st.QueueRows, st.QueueBytes, st.QueueWaiting = s.queue.size()
	rows, bytes, waiting := s.owned.queue.size()
	st.QueueRows += rows
	st.QueueBytes += bytes
	st.QueueWaiting += waiting

	st.Pool = PoolStats{
		Acquired: int(pool.AcquiredConns()), Idle: int(pool.IdleConns()), Max: int(pool.MaxConns()),
		Waits: pool.EmptyAcquireCount(), WaitDuration: pool.AcquireDuration(),
	}
	return st
}
