package pg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/actlog/actlog/record"
)

// Reasons why a read is not made at a replica. All wrap ErrNotThere.
var (
	ErrNotThere = errors.New("the replica is not used")
	errAway     = fmt.Errorf("%w: it does not answer", ErrNotThere)
	errBehind   = fmt.Errorf("%w: it is behind", ErrNotThere)
	errPromoted = fmt.Errorf("%w: it is a primary", ErrNotThere)
)

const (
	// replicaPatience is how long a read waits for a replica to get what it needs.
	replicaPatience = 100 * time.Millisecond
	// replicaTimeout is how long a replica may take to connect, or to say where it is.
	replicaTimeout = time.Second
)

// ReplicaConfig says which standbys to read at.
type ReplicaConfig struct {
	// URL is a postgres:// URL or a keyword/value string. Of several hosts, those that are standbys are used, in any order.
	URL string
	// MaxConns bounds the connections.
	MaxConns int
	// Lag is how far behind a standby may be.
	Lag time.Duration
	// Logger is informed when the replica is used no more, and when it is again.
	Logger *slog.Logger
	// Tracer sees every statement; nil for none.
	Tracer pgx.QueryTracer
}

// Replica is one or more standbys of a database, for reads that need not see the latest. Whenever a connection is used, its server is asked how far
// it is: an address may lead to several. It is safe for concurrent use.
type Replica struct {
	db     *DB // the standbys
	config ReplicaConfig
	system func() string // identifies the cluster
	marker *marker

	mu      sync.Mutex
	past    []sample // of the primary, oldest first
	looked  bool
	found   error // at the last look; nil: it can be used
	lag     time.Duration
	stop    context.CancelFunc
	looking sync.WaitGroup
}

// sample is where the primary was, at a time or later.
type sample struct {
	at   time.Time
	mark Mark
}

// OpenReplica returns the replica of a primary. It may be away: then the primary is read until it is there.
func OpenReplica(primary *DB, config ReplicaConfig) (*Replica, error) {
	pc, err := pgxpool.ParseConfig(config.URL)
	if err != nil {
		return nil, fmt.Errorf("replica: %w", err) // its text hides the password
	}
	r := &Replica{config: config, system: primary.cluster.system, marker: &marker{db: primary}, found: errAway}
	pc.MaxConns = int32(config.MaxConns)
	pc.ConnConfig.Tracer = config.Tracer
	pc.ConnConfig.ConnectTimeout = replicaTimeout
	pc.ConnConfig.ValidateConnect = r.Admit
	maps.Copy(pc.ConnConfig.RuntimeParams, settings)
	hosts := hostsOf(pc.ConnConfig)
	pc.BeforeConnect = func(_ context.Context, config *pgx.ConnConfig) error {
		shuffled := slices.Clone(hosts)
		rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		through(config, slices.Concat(shuffled...))
		return nil
	}
	pc.PrepareConn = r.prepare
	pool, err := pgxpool.NewWithConfig(context.Background(), pc)
	if err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	r.db = &DB{Pool: pool, log: config.Logger}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.look(ctx)
	r.looking.Go(func() {
		for Pause(ctx, min(time.Second, config.Lag/4)) == nil {
			r.look(ctx)
		}
	})
	return r, nil
}

// Close closes all connections, once they are given back.
func (r *Replica) Close() {
	r.stop()
	r.looking.Wait()
	r.db.Pool.Close()
}

// DB returns the connections. They are used with the context of [Replica.Use].
func (r *Replica) DB() *DB { return r.db }

// Mark returns a mark of the primary that has all that was committed before the call.
func (r *Replica) Mark(ctx context.Context) (Mark, error) {
	mark, _, err := r.marker.ask(ctx)
	return mark, err
}

// Standing returns by how much the replica was behind at most when it was last looked at. The error is [ErrNotThere] if it is not used.
func (r *Replica) Standing() (lag time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lag, r.found
}

// Use returns the context for a read at the replica that sees all that is before a mark. The error is [ErrNotThere] if there is no use to try;
// reads with the context may have it, too.
func (r *Replica) Use(ctx context.Context, after Mark) (context.Context, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.found != nil {
		return nil, r.found
	}
	least, ok := r.least(time.Now())
	if !ok {
		return nil, errBehind
	}
	return context.WithValue(ctx, needsKey{}, needs{least, after}), nil
}

// Fresh checks a connection to a standby that is not of the pool, with the context of [Replica.Use].
func (r *Replica) Fresh(ctx context.Context, conn *pgconn.PgConn) error {
	_, err := r.fresh(ctx, conn)
	return err
}

// needs are what a standby must have for a read.
type needs []Mark

func (n needs) in(m Mark) bool {
	return !slices.ContainsFunc(n, func(need Mark) bool { return !m.Has(need) })
}

type needsKey struct{}

// least returns what a standby has that is not too far behind: the oldest sample that is young enough.
func (r *Replica) least(now time.Time) (Mark, bool) {
	for _, s := range r.past {
		if now.Sub(s.at) <= r.config.Lag {
			return s.mark, true
		}
	}
	return Mark{}, false
}

// Admit refuses a new connection to what is no standby of the primary; then the next host is tried.
func (r *Replica) Admit(ctx context.Context, conn *pgconn.PgConn) error {
	c, err := ask(ctx, conn)
	switch {
	case err != nil:
		return err
	case c.timeline != "":
		return errPromoted
	case c.system != r.system():
		return fmt.Errorf("%w: %w", ErrNotThere, errStranger)
	}
	return nil
}

// prepare is called for each connection that is to be used.
func (r *Replica) prepare(ctx context.Context, conn *pgx.Conn) (usable bool, err error) {
	return r.fresh(ctx, conn.PgConn())
}

// fresh waits until a standby has what a read needs, but not for long.
func (r *Replica) fresh(ctx context.Context, conn *pgconn.PgConn) (usable bool, err error) {
	need, _ := ctx.Value(needsKey{}).(needs)
	for end := time.Now().Add(replicaPatience); ; {
		at, err := positionOf(ctx, conn)
		switch {
		case err != nil:
			return false, err
		case need.in(at):
			return true, nil
		case time.Now().After(end):
			return true, errBehind
		}
		if err := Pause(ctx, 5*time.Millisecond); err != nil {
			return true, err
		}
	}
}

// positionOf asks a standby what it has. Its timeline may be known late, at the next checkpoint, to a role that may not see its receiver.
func positionOf(ctx context.Context, conn *pgconn.PgConn) (m Mark, err error) {
	ctx, cancel := context.WithTimeout(ctx, replicaTimeout)
	defer cancel()
	results, err := conn.Exec(ctx, `SELECT upper(
		to_hex(GREATEST((SELECT timeline_id FROM pg_control_checkpoint()), (SELECT received_tli FROM pg_stat_wal_receiver))) || '-' ||
		CASE WHEN pg_is_in_recovery() THEN to_hex((pg_last_wal_replay_lsn() - '0/0')::bigint) END)`).ReadAll()
	if err != nil {
		return m, fmt.Errorf("%w: %w", errAway, err)
	}
	mark := results[0].Rows[0][0]
	if mark == nil {
		return m, errPromoted
	}
	return ParseMark(string(mark))
}

// look finds where the primary is and how far behind the replica is.
func (r *Replica) look(ctx context.Context) {
	began := time.Now()
	_, mark, markErr := r.marker.ask(ctx)
	if markErr == nil {
		r.mu.Lock()
		r.past = append(r.past, sample{began, mark})
		for len(r.past) > 1 && began.Sub(r.past[0].at) > 2*r.config.Lag {
			r.past = r.past[1:]
		}
		r.mu.Unlock()
	}
	at, err := r.position(ctx)
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now, before, first := time.Now(), r.found, !r.looked
	r.found, r.looked = err, true
	if err == nil {
		r.lag = r.behind(now, at)
		if least, ok := r.least(now); !ok || !at.Has(least) {
			r.found = errBehind
		}
	}
	switch {
	case r.found != nil && (before == nil || first):
		r.config.Logger.Warn("reads are not made at the replica", "error", r.found)
	case r.found == nil && before != nil:
		r.config.Logger.Info("reads are made at the replica", "lag", r.lag)
	}
}

// position asks one of the standbys.
func (r *Replica) position(ctx context.Context) (m Mark, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*replicaTimeout)
	defer cancel()
	conn, err := r.db.Acquire(ctx)
	if err != nil {
		if !errors.Is(err, ErrNotThere) {
			err = fmt.Errorf("%w: %w", errAway, err)
		}
		return m, err
	}
	defer conn.Release()
	return positionOf(ctx, conn.Conn().PgConn())
}

// behind returns since when a standby lacks something, at most; as long as there are samples, if it lacks all of them.
func (r *Replica) behind(now time.Time, at Mark) time.Duration {
	for _, s := range slices.Backward(r.past) {
		if at.Has(s.mark) {
			return now.Sub(s.at)
		}
	}
	if len(r.past) == 0 {
		return 0
	}
	return now.Sub(r.past[0].at)
}

// Elsewhere reports whether a read that failed at a replica may succeed at the primary: the replica is away or behind, had to end the read
// to follow the primary, or lacks what is new.
func Elsewhere(err error) bool {
	return errors.Is(err, ErrNotThere) || errors.Is(err, record.ErrUnavailable) || errors.Is(err, record.ErrNotFound) || Transient(err)
}
