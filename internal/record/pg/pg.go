// Package pg owns the connections to Postgres: the pool, the settings of a connection,
// transactions, retries, and the one translator of Postgres' errors.
package pg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// DB is a pool of connections to one database. It is safe for concurrent use.
type DB struct {
	*pgxpool.Pool
	direct  *pgx.ConnConfig // of connections beside the pool
	cluster *cluster
	log     *slog.Logger
	reads   chan struct{} // holds a token for each read; nil: there may be any number
	crowded *atomic.Int64 // when Postgres last refused a connection because there were too many, in Unix nanoseconds
}

// Config says which database to open, and how.
type Config struct {
	// URL is a postgres:// URL or a keyword/value string. Of several hosts, that of the primary is used.
	URL string
	// DirectURL leads to the same database if URL leads to a pooler of transactions: the connections that listen, or hold
	// a lock, go there. Then statements of the pool are not prepared for a session, unless the URL has a
	// default_query_exec_mode. Default: URL.
	DirectURL string
	// MaxConns bounds the connections of the pool.
	MaxConns int
	// Logger receives warnings about the database's settings.
	Logger *slog.Logger
	// Tracer sees every statement of the pool; nil for none.
	Tracer pgx.QueryTracer
}

var settings = map[string]string{
	"application_name":              "actlog",
	"client_min_messages":           "warning", // see dropUnsettled
	"default_transaction_isolation": "read committed",
	"jit":                           "off",                // compiling costs more than any of these statements
	"plan_cache_mode":               "force_generic_plan", // planning again costs more as well
	"enable_seqscan":                "off",                // a plan that was made while a table was small is kept,
	"enable_hashjoin":               "off",                // so rows are looked up by their keys,
	"enable_mergejoin":              "off",                // however few there are
	"enable_material":               "off",
	"lock_timeout":                  "2s", // a row that another session holds must not block other trees
	"TimeZone":                      "UTC",
	"DateStyle":                     "ISO, MDY", // the bounds of partitions are read as text
}

// Open connects and checks that the record can live in the database. The error wraps
// [record.ErrUnavailable] if Postgres does not answer.
func Open(ctx context.Context, config Config) (*DB, error) {
	pc, err := pgxpool.ParseConfig(config.URL)
	if err != nil {
		return nil, err // its text hides the password
	}

	pc.MaxConns = int32(config.MaxConns)
	prepare(pc.ConnConfig)
	direct := pc.ConnConfig.Copy()
	if config.DirectURL != "" {
		if direct, err = pgx.ParseConfig(config.DirectURL); err != nil {
			return nil, err
		}
		prepare(direct)
	}

	c := newCluster(direct, config.Logger)
	pc.ConnConfig.ValidateConnect, pc.ConnConfig.AfterConnect = c.admit, c.hold
	pc.ConnConfig.Tracer = config.Tracer
	if config.DirectURL == "" {
		pc.BeforeConnect = func(_ context.Context, config *pgx.ConnConfig) error {
			c.aim(config)
			return nil
		}
	} else if !strings.Contains(config.URL, "default_query_exec_mode") {
		pc.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}

	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, err
	}
	c.begin(pool.Reset)
	d := &DB{Pool: pool, direct: direct, cluster: c, log: config.Logger, crowded: new(atomic.Int64)}
	for _, check := range []func(context.Context) error{d.check, d.checkSettings, d.checkStandbys} {
		if err == nil {
			err = check(ctx)
		}
	}

	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// prepare sets what connections of all kinds have.
func prepare(config *pgx.ConnConfig) {
	config.ConnectTimeout = 5 * time.Second
	maps.Copy(config.RuntimeParams, settings)
	config.OnNotice = dropUnsettled
}

// Primary names the primary that connections lead to: its cluster and its timeline. Who has read from another server
// than the one before has another name before the answer arrives. It is empty before the first connection.
func (d *DB) Primary() string { return d.cluster.name() }

// AwaitTimeline waits until connections lead to the primary of a timeline, or of a later one, for a few seconds. Then
// the error is [record.ErrUnavailable].
func (d *DB) AwaitTimeline(ctx context.Context, timeline uint32) error {
	return d.cluster.await(ctx, timeline)
}

// CheckPrimary refuses a connection that is not of the pool to what is not the primary.
func (d *DB) CheckPrimary(ctx context.Context, conn *pgconn.PgConn) error {
	return d.cluster.check(ctx, conn)
}

// Close closes all connections of the pool, once they are given back.
func (d *DB) Close() {
	d.cluster.close()
	d.Pool.Close()
}

// check refuses databases that the record cannot live in.
func (d *DB) check(ctx context.Context) error {
	var version int
	var encoding string
	var noLZ4 bool // texts are compressed with it, and this server lacks it
	err := d.QueryRow(ctx, `SELECT current_setting('server_version_num')::integer, current_setting('server_encoding'),
		EXISTS (SELECT FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid WHERE c.relnamespace = to_regnamespace('actlog') AND a.attcompression = 'l')
		AND NOT EXISTS (SELECT FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals))`).Scan(&version, &encoding, &noLZ4)

	switch {
	case err != nil:
		return Translate(err)
	case version < 140000:
		return fmt.Errorf("PostgreSQL 14 or newer is needed, this is %d", version/10000)
	case noLZ4:
		return errors.New("texts of this record are compressed with lz4, and this Postgres was built without it: run it " +
			"with server binaries that have it, such as those of Debian")
	}
	return CheckEncoding(encoding)
}

// CheckEncoding refuses an encoding of a database that cannot hold every text.
func CheckEncoding(encoding string) error {
	if encoding != "UTF8" {
		return fmt.Errorf(
			"the database is encoded in %s; it must be UTF8 (create it with ENCODING 'UTF8' TEMPLATE template0)", encoding,
		)
	}
	return nil
}

// checkSettings warns if a pooler drops settings: reads would become slow, and writers would
// wait for each other. A pooler may change the name.
func (d *DB) checkSettings(ctx context.Context) error {
	names := slices.Sorted(maps.Keys(settings))
	values := make([]string, len(names))
	for i, name := range names {
		values[i] = settings[name]
	}

	var lost []string
	err := d.QueryRow(ctx, `SELECT COALESCE(array_agg(name ORDER BY name), '{}') FROM unnest($1::text[], $2::text[]) AS s (name, value)
		WHERE name <> 'application_name' AND current_setting(name) <> value`, names, values).Scan(&lost)
	if len(lost) > 0 {
		d.log.Warn(
			"settings of the connection did not reach the database, as with a pooler in between: set them for the role",
			"settings", lost,
		)
	}
	return Translate(err)
}

// Standing is what the primary says of itself and its standbys.
type Standing struct {
	Timeline int64
	Standbys int
	// Lag is how long the standby that is the furthest behind has not shown what was committed. It is not known to every
	// role.
	Lag *time.Duration
	// Alone says that a commit waits for no standby.
	Alone bool
}

// Standing asks the primary.
func (d *DB) Standing(ctx context.Context) (s Standing, err error) {
	return Read(ctx, d, func() (s Standing, err error) {
		var lag *float64
		// Of a standby that is not behind, the lag is null; so is all of it for a role that may not see it.
		err = d.QueryRow(ctx, `SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint, count(*)::integer,
			max(CASE WHEN r.state IS NOT NULL THEN COALESCE(extract(epoch FROM r.replay_lag), 0) END)::float8,
			current_setting('synchronous_standby_names') = '' OR current_setting('synchronous_commit') IN ('off', 'local')
			FROM pg_stat_replication AS r WHERE r.state IS DISTINCT FROM 'backup'`).Scan(&s.Timeline, &s.Standbys, &lag, &s.Alone)
		if lag != nil {
			s.Lag = new(time.Duration(*lag * float64(time.Second)))
		}
		return s, err
	})
}

// checkStandbys warns if a failover may lose what was acknowledged.
func (d *DB) checkStandbys(ctx context.Context) error {
	s, err := d.Standing(ctx)
	if err == nil && s.Standbys > 0 && s.Alone {
		d.log.Warn("Postgres has standbys, but a commit waits for none of them, so a failover may lose writes that were "+
			"acknowledged: set synchronous_standby_names, and leave synchronous_commit on",
			"standbys", s.Standbys)
	}
	return err
}

// Connect opens a connection beside the pool. It is not traced.
func (d *DB) Connect(ctx context.Context) (*pgx.Conn, error) {
	config := d.direct.Copy()
	d.cluster.aim(config)
	return pgx.ConnectConfig(ctx, config)
}

// ConnectPatient is Connect with statements that wait for locks as long as it takes.
func (d *DB) ConnectPatient(ctx context.Context) (*pgx.Conn, error) {
	config := d.direct.Copy()
	d.cluster.aim(config)
	config.RuntimeParams["lock_timeout"] = "0"
	return pgx.ConnectConfig(ctx, config)
}

// Transact runs f in a transaction of several round trips. The transaction ends if this
// program, or the network to it, is silent between two of them: what it locks must not stay
// locked. Within a round trip, only TCP keepalives notice that.
func (d *DB) Transact(ctx context.Context, f func(pgx.Tx) error) error {
	begin := pgx.TxOptions{BeginQuery: "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '1min'"}
	return pgx.BeginTxFunc(ctx, d.Pool, begin, f)
}

// dropUnsettled closes a connection whose commit gave up to wait for a standby, because an administrator cancelled the
// wait. Postgres calls that a success, with a warning. Here the write fails, and is tried again.
func dropUnsettled(conn *pgconn.PgConn, n *pgconn.Notice) {
	if n.Routine != "SyncRepWaitForLSN" { // the message is in the language of the server
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = conn.Close(ctx) // at once
}

// Settle returns when all that was committed before is where a commit has to be, such as on a standby. What finds its
// work done by a write that was given up has not waited for that.
func (d *DB) Settle(ctx context.Context) error {
	_, err := d.Exec(ctx, "SELECT pg_logical_emit_message(true, 'actlog', '')") // writes, so its commit waits
	return Translate(err)
}

// Send runs a batch in one round trip. Unless it begins a transaction, it is one.
func (d *DB) Send(ctx context.Context, q *pgx.Batch) error { return d.SendBatch(ctx, q).Close() }

// ForReads returns the same database for at most n reads at once. The other connections of the
// pool are always there for writers.
func (d *DB) ForReads(n int) *DB {
	return &DB{
		Pool: d.Pool, direct: d.direct, cluster: d.cluster, log: d.log, reads: make(chan struct{}, n), crowded: d.crowded,
	}
}

// enter waits until one more read may begin. The caller calls leave when it is over.
func (d *DB) enter(ctx context.Context) (leave func(), err error) {
	if d.reads == nil {
		return func() {}, nil
	}
	select {
	case d.reads <- struct{}{}:
		return func() { <-d.reads }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ReadTx runs f in a transaction in which all reads are of one moment. It is not made again after a deadlock, as [Read]
// is: f may have passed on what it has read.
func ReadTx(ctx context.Context, d *DB, f func(pgx.Tx) error) error {
	leave, err := d.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()

	tx, err := retry(ctx, d, func() (pgx.Tx, error) {
		return d.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // there is nothing to keep
	return f(tx)
}

// Read runs a read, and again if that may help: after a restart of Postgres the pool still holds connections to the old
// one, Postgres may have no connection to give while others of the pool are about to be free, and of two sessions that
// wait for each other one gives way.
func Read[T any](ctx context.Context, d *DB, query func() (T, error)) (T, error) {
	leave, err := d.enter(ctx)
	if err != nil {
		return *new(T), err
	}
	defer leave()
	return retry(ctx, d, query)
}

const (
	// crowdedPatience is how long a read waits for a connection of the pool while Postgres gives out no others.
	crowdedPatience = 10 * time.Second
	// deadlockTries is how often a read is tried that Postgres ended because of a deadlock.
	deadlockTries = 5
)

func retry[T any](ctx context.Context, d *DB, query func() (T, error)) (T, error) {
	var crowded error // the last refusal of a connection
	reset := false
	began := time.Now()

	for attempt := 0; ; attempt++ {
		v, err := query()
		switch {
		case err == nil:
			return v, nil
		case Crowded(err):
			crowded = err
			d.crowded.Store(time.Now().UnixNano())
			if time.Since(began) < crowdedPatience && d.awaitIdle(ctx, attempt) == nil {
				continue
			}
		case ctx.Err() != nil && crowded != nil:
			err = crowded // which is why there was no time left
		case ctx.Err() != nil:
			return v, err // the caller's own end, which looks like a time-out of the network
		case ConnectionLost(err) && !reset:
			reset = true
			d.Reset() // the other connections are likely dead, too
			continue
		case Deadlocked(err) && attempt < deadlockTries && Pause(ctx, Backoff(attempt)) == nil:
			continue
		}
		return v, Translate(err)
	}
}

// awaitIdle waits until a connection of the pool is idle. After a while it returns in any case, because Postgres may
// have one again.
func (d *DB) awaitIdle(ctx context.Context, attempt int) error {
	for end := time.Now().Add(Backoff(attempt + 3)); time.Now().Before(end); {
		if err := Pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
		if d.Stat().IdleConns() > 0 {
			return nil
		}
	}
	return nil
}

// Crowded reports whether Postgres refused a connection within the last ten seconds because there were too many.
func (d *DB) Crowded() bool {
	return time.Now().UnixNano()-d.crowded.Load() < int64(10*time.Second)
}
