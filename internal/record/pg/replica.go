package pg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
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
	errTooFar   = fmt.Errorf("%w, too far", errBehind)
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
	// URL is a postgres:// URL or a keyword/value string. Of several hosts, those that are standbys are used, in any
	// order.
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

// Replica is one or more standbys of a database, for reads that need not see the latest. Whenever a connection is used,
// its server is asked how far it is: an address may lead to several. It is safe for concurrent use.
type Replica struct {
	db       *DB // the standbys
	config   ReplicaConfig
	primary  *DB
	marker   *marker
	standbys []*standby

	mu      sync.Mutex
	past    []sample // of the primary, oldest first
	conns   sockets
	used    bool // as was logged last
	noted   bool // whether it was
	stop    context.CancelFunc
	looking sync.WaitGroup
}

type standby struct {
	config  *pgx.ConnConfig // leads to it alone
	conn    *pgx.Conn       // to look at it, whatever the others do; nil: there is none
	address string          // of that, or of the last one
	lag     time.Duration   // at the last look
	err     error           // then; nil: it can be used
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

	r := &Replica{config: config, primary: primary, marker: &marker{db: primary}, conns: sockets{}}
	pc.MaxConns = int32(config.MaxConns)
	pc.ConnConfig.ConnectTimeout = replicaTimeout
	maps.Copy(pc.ConnConfig.RuntimeParams, settings)
	hosts := hostsOf(pc.ConnConfig)
	for _, ways := range hosts {
		s := &standby{config: pc.ConnConfig.Copy(), err: errAway}
		through(s.config, ways)
		r.standbys = append(r.standbys, s)
	}

	pc.ConnConfig.Tracer = config.Tracer
	pc.ConnConfig.ValidateConnect, pc.ConnConfig.AfterConnect = r.Admit, r.hold
	pc.BeforeConnect = func(_ context.Context, config *pgx.ConnConfig) error {
		shuffled := slices.Clone(hosts)
		rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		through(config, slices.Concat(shuffled...))
		return nil
	}
	pc.PrepareConn = r.prepare
	pc.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false } // prepare asks, and not for long

	pool, err := pgxpool.NewWithConfig(context.Background(), pc)
	if err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	r.db = &DB{Pool: pool, log: config.Logger, crowded: new(atomic.Int64)}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.sample(ctx)

	var first sync.WaitGroup
	for _, s := range r.standbys {
		first.Go(func() { r.look(ctx, s) })
	}
	first.Wait()
	r.note()

	every := func(do func()) {
		r.looking.Go(func() {
			for Pause(ctx, min(time.Second, config.Lag/4)) == nil {
				do()
			}
		})
	}
	every(func() { r.sample(ctx) })
	for _, s := range r.standbys {
		every(func() { r.look(ctx, s); r.note() })
	}
	return r, nil
}

// Close closes all connections, once they are given back.
func (r *Replica) Close() {
	r.stop()
	r.looking.Wait()
	for _, s := range r.standbys {
		CloseConn(s.conn)
	}
	r.db.Pool.Close()
}

// CheckPrimary refuses a connection to what is not the primary of the replica.
func (r *Replica) CheckPrimary(ctx context.Context, conn *pgconn.PgConn) error {
	return r.primary.CheckPrimary(ctx, conn)
}

// DB returns the connections. They are used with the context of [Replica.Use].
func (r *Replica) DB() *DB { return r.db }

// Mark returns a mark of the primary that has all that was committed before the call.
func (r *Replica) Mark(ctx context.Context) (Mark, error) {
	mark, _, err := r.marker.ask(ctx)
	return mark, err
}

// Standing returns by how much the replica was behind at most when it was last looked at; of several standbys, the
// best. The error is
// [ErrNotThere] if none is used.
func (r *Replica) Standing() (lag time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.standing()
}

func (r *Replica) standing() (lag time.Duration, err error) {
	best := slices.MinFunc(r.standbys, func(a, b *standby) int {
		rank := func(s *standby) int {
			return slices.Index([]bool{s.err == nil, errors.Is(s.err, errBehind), true}, true)
		}
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.lag, b.lag))
	})
	return best.lag, best.err
}

// Use returns the context for a read at the replica that sees all that is before a mark. The error is [ErrNotThere] if
// there is no use to try; reads with the context may have it, too.
func (r *Replica) Use(ctx context.Context, after Mark) (context.Context, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.standing(); err != nil {
		return nil, err
	}

	least, ok := r.least(time.Now())
	if !ok || after == Latest {
		return nil, errBehind
	}
	return context.WithValue(ctx, needsKey{}, needs{least, after}), nil
}

// Fresh checks a connection to a standby that is not of the pool, with the context of [Replica.Use].
func (r *Replica) Fresh(ctx context.Context, conn *pgconn.PgConn) error {
	needed, _ := ctx.Value(needsKey{}).(needs)
	for end := time.Now().Add(replicaPatience); ; {
		at, err := r.positionOf(ctx, conn)
		switch {
		case err != nil:
			return err
		case !at.Has(needed.least):
			return errTooFar
		case at.Has(needed.after):
			return nil
		case time.Now().After(end):
			return errBehind
		}

		if err := Pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

// needs are what a standby must have for a read: what keeps it from being too far behind, at once, and what the reader
// wrote.
type needs struct{ least, after Mark }

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

// Admit refuses a new connection to what is no standby of the primary, or too far behind; then the next host is tried.
func (r *Replica) Admit(ctx context.Context, conn *pgconn.PgConn) error {
	at, err := r.positionOf(ctx, conn)
	if err != nil {
		return err
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	if least, ok := r.least(time.Now()); !ok || !at.Has(least) {
		return errTooFar
	}
	return nil
}

// hold is called for each connection of the pool that was admitted.
func (r *Replica) hold(_ context.Context, conn *pgconn.PgConn) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns.add(conn)
	return nil
}

// prepare is called for each connection that is to be used. Instead of one to a standby that is too far behind, the
// pool tries another.
func (r *Replica) prepare(ctx context.Context, conn *pgx.Conn) (usable bool, err error) {
	switch err := r.Fresh(ctx, conn.PgConn()); {
	case errors.Is(err, errTooFar):
		return false, nil
	case errors.Is(err, errBehind):
		return true, err
	default:
		return err == nil, err
	}
}

// positionOf asks a standby what it has. Its timeline may be known late, at the next checkpoint, to a role that may not
// see its receiver.
func (r *Replica) positionOf(ctx context.Context, conn *pgconn.PgConn) (m Mark, err error) {
	ctx, cancel := context.WithTimeout(ctx, replicaTimeout)
	defer cancel()
	results, err := conn.Exec(ctx, `SELECT (SELECT system_identifier FROM pg_control_system()), upper(
		to_hex(GREATEST((SELECT timeline_id FROM pg_control_checkpoint()), (SELECT received_tli FROM pg_stat_wal_receiver))) || '-' ||
		CASE WHEN pg_is_in_recovery() THEN to_hex((pg_last_wal_replay_lsn() - '0/0')::bigint) END)`).ReadAll()
	if err != nil {
		return m, fmt.Errorf("%w: %w", errAway, err)
	}

	switch system, mark := string(results[0].Rows[0][0]), results[0].Rows[0][1]; {
	case mark == nil:
		return m, errPromoted
	case system != r.primary.cluster.system():
		return m, fmt.Errorf("%w: %w", ErrNotThere, errStranger)
	default:
		return ParseMark(string(mark))
	}
}

func (r *Replica) sample(ctx context.Context) {
	began := time.Now()
	_, mark, err := r.marker.ask(ctx)
	if err != nil {
		return // then every standby is too far behind, after a while
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	r.past = append(r.past, sample{began, mark})
	for len(r.past) > 1 && began.Sub(r.past[0].at) > 2*r.config.Lag {
		r.past = r.past[1:]
	}
}

// look finds how far behind a standby is. What is read at one that does not answer fails.
func (r *Replica) look(ctx context.Context, s *standby) {
	at, err := r.lookAt(ctx, s)
	if ctx.Err() != nil {
		return
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if s.err, s.lag = err, 0; err == nil {
		s.lag = r.behind(now, at)
		if least, ok := r.least(now); !ok || !at.Has(least) {
			s.err = errTooFar
		}
	}
	if errors.Is(err, errAway) && s.address != "" {
		r.conns.close(s.address)
	}
}

// note logs whether the replica is used, if that has changed.
func (r *Replica) note() {
	r.mu.Lock()
	defer r.mu.Unlock()
	lag, err := r.standing()
	used := err == nil

	switch {
	case used == r.used && r.noted:
	case used:
		r.config.Logger.Info("reads are made at the replica", "lag", lag)
	default:
		r.config.Logger.Warn("reads are not made at the replica", "error", err)
	}
	r.used, r.noted = used, true
}

func (r *Replica) lookAt(ctx context.Context, s *standby) (m Mark, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*replicaTimeout)
	defer cancel()
	if s.conn == nil {
		if s.conn, err = pgx.ConnectConfig(ctx, s.config); err != nil {
			return m, fmt.Errorf("%w: %w", errAway, err)
		}
		s.address = addressOf(s.conn.PgConn())
	}

	if m, err = r.positionOf(ctx, s.conn.PgConn()); err != nil {
		CloseConn(s.conn)
		s.conn = nil
	}
	return m, err
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

// Elsewhere reports whether a read that failed at a replica may succeed at the primary: the replica is away or behind,
// had to end the read to follow the primary, or lacks what is new.
func Elsewhere(err error) bool {
	return errors.Is(err, ErrNotThere) || errors.Is(err, record.ErrUnavailable) || errors.Is(err, record.ErrNotFound) ||
		Transient(err)
}
