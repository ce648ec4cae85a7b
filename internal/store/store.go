// Package store keeps the record in Postgres. It is the only package with SQL
// behind it: one way in, [Store.Write], and reads that are one statement each.
package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/record"
)

// Config says where the record is and how it is written. Zero values mean the
// defaults named here.
type Config struct {
	// DatabaseURL is a postgres:// URL or a keyword/value string. Required.
	DatabaseURL string
	// Logger gets what cannot be returned to a caller. Default: discarded.
	Logger *slog.Logger
	// MaxConns bounds the connections, writers included. Default 16. One more tells other
	// servers of changes; another listens, while someone follows them.
	MaxConns int
	// Writers is how many transactions write at once. Default 2.
	Writers int
	// QueueRows and QueueBytes bound what waits to be written; beyond them Write
	// waits. Default 20,000 rows, 64 MiB.
	QueueRows  int
	QueueBytes int
	// RetryFor is how long a write waits, in all, when Postgres is away, its disk is
	// full or a row is locked. Default 15 s.
	RetryFor time.Duration
	// Room tells before each transaction why the database's disk has no room for it;
	// nil: it has. Default: Postgres is asked by trying.
	Room func() error
	// PartitionDays is the period of a partition of the detail. Default 7.
	PartitionDays int
	// DetailDays is how long cycles and tool calls are kept after the period of
	// their partition; 0: for ever. Steps with their figures stay.
	DetailDays int
	// KeepDays is how long a whole tree is kept after it was first seen, once it
	// has ended; 0: for ever.
	KeepDays int
	// ChangeHours is how long rows of the change feed are kept. Default 24.
	ChangeHours int
	// InterruptAfter is for how long a run that tells lastSeenAt may tell no newer one,
	// by the clock of the database, before it is marked INTERRUPTED; 0: for ever.
	InterruptAfter time.Duration
	// Project gives the rows that the spans of a trace mean: a function of what the
	// chunks hold together, whose rows are of the root plan that the trace's id names.
	// nil: traces are not taken.
	Project func(traceID string, chunks [][]byte) ([]record.Change, error)
	// TraceDays is how long the spans of traces are kept after the last of them came.
	// Only a store that takes traces drops them. Default 3.
	TraceDays int
	// TraceQuiet is after how long without spans a trace is closed: what has not ended
	// in it is UNKNOWN from then on, until more comes. Default 10 min.
	TraceQuiet time.Duration
	// Tracer sees every statement, notifications apart; nil for none.
	Tracer pgx.QueryTracer
}

func (c Config) withDefaults() Config {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	def(&c.MaxConns, 16)
	def(&c.Writers, 2)
	def(&c.QueueRows, 20_000)
	def(&c.QueueBytes, 64<<20)
	def(&c.PartitionDays, 7)
	def(&c.ChangeHours, 24)
	def(&c.TraceDays, 3)
	if c.TraceQuiet == 0 {
		c.TraceQuiet = 10 * time.Minute
	}
	if c.RetryFor == 0 {
		c.RetryFor = 15 * time.Second
	}
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
	case c.DetailDays < 0 || c.KeepDays < 0 || c.ChangeHours < 0 || c.InterruptAfter < 0:
		return errors.New("detail days, keep days, change hours and interrupt after must not be negative")
	case c.TraceDays < 1 || c.TraceQuiet < time.Second:
		return errors.New("trace days must be at least 1, trace quiet at least a second")
	case c.QueueRows < maxBatchRows || c.QueueBytes < maxBatchBytes:
		return fmt.Errorf("the queue must hold a batch: %d rows, %d bytes", maxBatchRows, maxBatchBytes)
	}
	return nil
}

// Store is the record in one Postgres database. It is safe for concurrent use.
type Store struct {
	config Config
	log    *slog.Logger
	pool   *pgxpool.Pool
	reads  *db.Queries
	queue  *queue

	prices     atomic.Pointer[priceList]
	statements statements
	places     places
	// As the constants say, but in tests.
	manyRows     int
	maxProjected int64
	traceWriters chan struct{} // a token for each transaction

	counters counters
	// Warnings of what may go on for long.
	retryLogged, heldLogged, followLogged seldom
	// grown holds a token when the change feed grew and no one was told.
	grown chan struct{}

	// writing is cancelled when Close can no longer wait for the writers.
	writing       context.Context
	cancelWriting context.CancelFunc
	// upkeep ends with Close.
	upkeep       context.Context
	cancelUpkeep context.CancelFunc
	goroutines   sync.WaitGroup
}

// Open connects to a migrated database and starts the writers. It returns
// [record.ErrUnavailable] when Postgres does not answer.
func Open(ctx context.Context, config Config) (*Store, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("opening the record: %w", err)
	}
	pc, err := poolConfig(config)
	if err != nil {
		return nil, fmt.Errorf("opening the record: %w", err)
	}
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("opening the record: %w", err)
	}
	s := &Store{config: config, log: config.Logger, pool: pool, reads: db.New(), queue: newQueue(config.QueueRows, config.QueueBytes, config.RetryFor), grown: make(chan struct{}, 1)}
	s.statements.fewRows, s.statements.maxShapes, s.places.doubtFor, s.manyRows, s.maxProjected = fewRows, maxShapes, doubtFor, manyRows, maxProjected
	s.traceWriters = make(chan struct{}, max(1, config.MaxConns/traceShare))
	if err := s.check(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("opening the record: %w", err)
	}
	if n := config.keptPartitions(); config.DetailDays > 0 && n > maxPartitions {
		s.log.Warn("these settings keep more partitions than Postgres reads fast: set --detail-days lower",
			"DetailDays", config.DetailDays, "PartitionDays", config.PartitionDays, "partitions", n, "most", maxPartitions)
	}
	s.writing, s.cancelWriting = context.WithCancel(context.WithoutCancel(ctx))
	s.upkeep, s.cancelUpkeep = context.WithCancel(context.WithoutCancel(ctx))
	if err := s.loadPrices(ctx); err != nil {
		s.log.Warn("costs are not computed until prices can be read", "error", err)
	}
	s.goroutines.Go(s.keepPrices)
	done := s.addPartitions(ctx)
	s.goroutines.Go(func() { s.keepPartitions(done) })
	s.goroutines.Go(s.keepUp)
	if config.Project != nil {
		s.goroutines.Go(s.keepTraces)
	}
	s.goroutines.Go(s.notify)
	for range config.Writers {
		s.goroutines.Go(s.writeQueue)
	}
	s.goroutines.Go(s.writeHeld)
	return s, nil
}

// settings are those of each connection.
var settings = map[string]string{
	"application_name":              "actlog",
	"default_transaction_isolation": "read committed",
	"jit":                           "off",                // compiling costs more than any of these statements
	"plan_cache_mode":               "force_generic_plan", // and so does planning anew
	"enable_seqscan":                "off",                // a plan that was made while a table was small is kept
	"lock_timeout":                  "2s",                 // a row that someone holds must not hold up other trees
	"TimeZone":                      "UTC",
}

func poolConfig(config Config) (*pgxpool.Config, error) {
	pc, err := pgxpool.ParseConfig(config.DatabaseURL)
	if err != nil {
		return nil, err // its text hides the password
	}
	pc.MaxConns = int32(config.MaxConns)
	pc.ConnConfig.Tracer = config.Tracer
	pc.ConnConfig.ConnectTimeout = 5 * time.Second
	maps.Copy(pc.ConnConfig.RuntimeParams, settings)
	return pc, nil
}

// check refuses databases that the record cannot live in.
func (s *Store) check(ctx context.Context) error {
	var version int
	var encoding string
	var noLZ4 bool // here, but in the texts; a migration chose it where it was there
	err := s.pool.QueryRow(ctx, `SELECT current_setting('server_version_num')::integer, current_setting('server_encoding'),
		EXISTS (SELECT FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid WHERE c.relnamespace = to_regnamespace('actlog') AND a.attcompression = 'l')
		AND NOT EXISTS (SELECT FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals))`).Scan(&version, &encoding, &noLZ4)
	switch {
	case err != nil:
		return translate(err)
	case version < 140000:
		return fmt.Errorf("PostgreSQL 14 or newer is needed, this is %d", version/10000)
	case noLZ4:
		return errors.New("texts of this record are compressed with lz4, and this Postgres was built without it: run it with server binaries that have it, such as those of Debian")
	case encoding != "UTF8":
		return fmt.Errorf("the database is encoded in %s; it must be UTF8 (create it with ENCODING 'UTF8' TEMPLATE template0)", encoding)
	}
	if err := s.checkSettings(ctx); err != nil {
		return err
	}
	return s.Ready(ctx)
}

// checkSettings warns where a pooler in between keeps settings to itself: reads
// would grow slow, and writers wait for each other. Names it may well add to.
func (s *Store) checkSettings(ctx context.Context) error {
	names := slices.Sorted(maps.Keys(settings))
	values := make([]string, len(names))
	for i, name := range names {
		values[i] = settings[name]
	}
	var lost []string
	err := s.pool.QueryRow(ctx, `SELECT COALESCE(array_agg(name ORDER BY name), '{}') FROM unnest($1::text[], $2::text[]) AS s (name, value)
		WHERE name <> 'application_name' AND current_setting(name) <> value`, names, values).Scan(&lost)
	if len(lost) > 0 {
		s.log.Warn("settings of the connection did not reach the database, as with a pooler in between: set them for the role", "settings", lost)
	}
	return translate(err)
}

// Ready tells whether the database answers and every migration is applied:
// [record.ErrUnavailable] or [ErrNotMigrated] if not.
func (s *Store) Ready(ctx context.Context) error {
	version, err := appliedVersion(ctx, s.pool)
	if err != nil {
		return err
	}
	if version < newestVersion {
		return fmt.Errorf("%w: at version %d of %d", ErrNotMigrated, version, newestVersion)
	}
	return nil
}

// room tells why there is none for a transaction.
func (s *Store) room() error {
	if s.config.Room == nil {
		return nil
	}
	if err := s.config.Room(); err != nil {
		s.counters.lastError.Store(time.Now().UnixNano())
		return fmt.Errorf("%w: %w", ErrDiskFull, err)
	}
	return nil
}

// Close lets the queue run empty, then disconnects. When ctx ends first, what is
// still queued is answered with [record.ErrClosed].
func (s *Store) Close(ctx context.Context) error {
	s.cancelUpkeep()
	s.queue.close()
	done := make(chan struct{})
	go func() {
		s.goroutines.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = fmt.Errorf("closing the record: %w", ctx.Err())
		s.cancelWriting()
		<-done
	}
	s.cancelWriting()
	s.pool.Close()
	return err
}

// transact runs f in a transaction of several round trips. What it locks must not stay
// locked when this program or the network to it falls silent between two of them. Within
// one, while Postgres reads on, only the keepalives of TCP find that out.
func (s *Store) transact(ctx context.Context, f func(pgx.Tx) error) error {
	begin := pgx.TxOptions{BeginQuery: "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '1min'"}
	return pgx.BeginTxFunc(ctx, s.pool, begin, f)
}

// read runs a read, once more when the connection turned out to be dead: after
// Postgres was restarted, a pool still holds connections to the old one.
func read[T any](ctx context.Context, s *Store, query func(db.DBTX) (T, error)) (T, error) {
	v, err := query(s.pool)
	if err != nil && ctx.Err() == nil && connectionLost(err) {
		s.pool.Reset() // the others are likely dead, too
		v, err = query(s.pool)
	}
	if err != nil && ctx.Err() != nil {
		return v, err // the caller's own end, which looks like a time-out of the network
	}
	return v, translate(err)
}
