package pg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/actlog/actlog/record"
)

const (
	// lookEvery is how often each host is asked whether it is the primary.
	lookEvery = time.Second
	// lookTimeout is how long a host may take to answer.
	lookTimeout = 2 * time.Second
	// lookAgain is how often the only host is asked on a new connection: its address may lead elsewhere now.
	lookAgain = 10 * time.Second
	// replacedFor is how long an address that once led to a primary may still lead to an older one.
	replacedFor = time.Minute
)

// Errors of a connection that is not used.
var (
	errStandby  = errors.New("this server is a standby")
	errReplaced = errors.New("another server has taken over from this one")
	errStranger = errors.New("this server is of another cluster")
)

// cluster knows the hosts of a URL and which of them is the primary: that of the highest timeline. A server that was
// replaced may answer for a while, so its connections are closed as soon as a higher timeline is seen, whatever they
// do. It is safe for concurrent use.
type cluster struct {
	log    *slog.Logger
	config *pgx.ConnConfig
	hosts  [][]pgconn.FallbackConfig // in the order of the URL; a host may have one way with TLS and one without

	mu      sync.Mutex
	primary claim     // of the highest timeline; zero: none was seen yet
	seen    time.Time // when it was last made
	host    int       // that made it
	conns   sockets
	reset   func()

	stop    context.CancelFunc
	looking sync.WaitGroup
}

// newCluster makes the connections of a config go to the primary.
func newCluster(config *pgx.ConnConfig, log *slog.Logger) *cluster {
	c := &cluster{log: log, config: config.Copy(), hosts: hostsOf(config), conns: sockets{}}
	config.ValidateConnect, config.AfterConnect = c.admit, c.hold
	return c
}

// hostsOf returns the hosts of a config, in their order, each with the ways to it.
func hostsOf(config *pgx.ConnConfig) (hosts [][]pgconn.FallbackConfig) {
	ways := []pgconn.FallbackConfig{{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig}}
	for _, f := range config.Fallbacks {
		ways = append(ways, *f)
	}

	for i, way := range ways {
		if i > 0 && way.Host == ways[i-1].Host && way.Port == ways[i-1].Port {
			hosts[len(hosts)-1] = append(hosts[len(hosts)-1], way)
		} else {
			hosts = append(hosts, []pgconn.FallbackConfig{way})
		}
	}
	return hosts
}

// name returns the cluster and the timeline of the primary; empty: none was seen yet.
func (c *cluster) name() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.primary.system + c.primary.timeline
}

// timeline returns that of the primary; 0 if none was seen yet.
func (c *cluster) timeline() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, _ := strconv.ParseUint(c.primary.timeline, 16, 32) // empty, or digits
	return uint32(n)
}

// await waits until the primary is of a timeline, or a later one, for as long as it takes to see that.
func (c *cluster) await(ctx context.Context, timeline uint32) error {
	for end := time.Now().Add(lookEvery + lookTimeout); c.timeline() < timeline; {
		if time.Now().After(end) {
			return fmt.Errorf("%w: the primary of timeline %d is not known yet", record.ErrUnavailable, timeline)
		}
		if err := Pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// check returns an error for a server that is not the primary, or has been replaced.
func (c *cluster) check(ctx context.Context, conn *pgconn.PgConn) error {
	s, err := ask(ctx, conn)
	if err != nil {
		return err
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case s.timeline == "":
		return errStandby
	case s.system != c.primary.system:
		return errStranger
	case s.timeline < c.primary.timeline:
		return errReplaced
	}
	return nil
}

// system identifies the cluster that the primary belongs to; empty: none was seen yet.
func (c *cluster) system() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.primary.system
}

// aim makes a connection try the primary first: a host that is stopped takes long to fail.
func (c *cluster) aim(config *pgx.ConnConfig) {
	c.mu.Lock()
	first := c.host
	c.mu.Unlock()
	through(config, slices.Concat(slices.Concat(c.hosts[first:first+1], c.hosts[:first], c.hosts[first+1:])...))
}

// through sets the ways of a connection, in the order in which they are tried.
func through(config *pgx.ConnConfig, ways []pgconn.FallbackConfig) {
	config.Host, config.Port = ways[0].Host, ways[0].Port
	config.TLSConfig = ways[0].TLSConfig
	config.Fallbacks = nil
	for i := range ways[1:] {
		config.Fallbacks = append(config.Fallbacks, &ways[i+1])
	}
}

// claim is what a server says of itself.
type claim struct {
	system   string // identifies the cluster
	timeline string // 8 hexadecimal digits; empty: it is a standby
}

func ask(ctx context.Context, conn *pgconn.PgConn) (s claim, err error) {
	results, err := conn.Exec(ctx, `SELECT (SELECT s.system_identifier FROM pg_control_system() AS s),
		CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END`).ReadAll()
	if err != nil {
		return s, err
	}
	row := results[0].Rows[0]
	return claim{string(row[0]), string(row[1])}, nil
}

// admit is called for each new connection. Its error makes the next host be tried.
func (c *cluster) admit(ctx context.Context, conn *pgconn.PgConn) error {
	s, err := ask(ctx, conn)
	if err != nil {
		return err
	}
	if err := c.see(s, -1); err != nil {
		return err
	}
	conn.CustomData()[claimKey] = s
	return nil
}

const claimKey = "actlog claim"

// hold is called for each connection that was admitted.
func (c *cluster) hold(_ context.Context, conn *pgconn.PgConn) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn.CustomData()[claimKey] != c.primary { // meanwhile
		return errReplaced
	}
	c.conns.add(conn)
	return nil
}

// see notes what a server says of itself; host is -1 if it is not known which it is. The error says why the server is
// of no use.
func (c *cluster) see(s claim, host int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch several := len(c.hosts) > 1; {
	case s.timeline == "":
		return errStandby
	// Where one address stands for whatever is the primary, what it leads to now is right, restored or not.
	case several && c.primary.system != "" && s.system != c.primary.system:
		return fmt.Errorf("%w: %s, not %s", errStranger, s.system, c.primary.system)
	case s.system == c.primary.system && s.timeline < c.primary.timeline && (several || time.Since(c.seen) < replacedFor):
		return errReplaced
	}

	before := c.primary
	c.primary, c.seen = s, time.Now()
	if host >= 0 {
		c.host = host
	}
	if before == (claim{}) || before == s {
		return nil
	}

	c.log.Warn("another server is the primary now", "timeline", s.timeline, "before", before.timeline)
	if c.reset != nil {
		c.reset() // first: nobody is given a connection that is about to be closed
	}
	c.conns.close("")
	return nil
}

// begin begins to ask all hosts who is the primary. Nobody can take over a socket of this machine. reset makes the pool
// give up its connections.
func (c *cluster) begin(reset func()) {
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.mu.Lock()
	c.reset = reset
	c.mu.Unlock()

	if len(c.hosts) == 1 && strings.HasPrefix(c.config.Host, "/") {
		return
	}

	for host, ways := range c.hosts {
		c.looking.Go(func() {
			config := c.config.Copy()
			through(config, ways)
			config.ValidateConnect, config.Tracer = nil, nil
			var conn *pgx.Conn
			defer func() { CloseConn(conn) }()

			for n := 1; Pause(ctx, lookEvery) == nil; n++ {
				if len(c.hosts) == 1 && n%int(lookAgain/lookEvery) == 0 {
					CloseConn(conn)
					conn = nil
				}
				if err := c.lookAt(ctx, config, &conn, host); err != nil && ctx.Err() == nil {
					c.log.Debug("a host is not the primary", "host", config.Host, "port", config.Port, "error", err)
				}
			}
		})
	}
}

func (c *cluster) lookAt(ctx context.Context, config *pgx.ConnConfig, conn **pgx.Conn, host int) (err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if *conn == nil {
		if *conn, err = pgx.ConnectConfig(ctx, config); err != nil {
			return err
		}
	}

	s, err := ask(ctx, (*conn).PgConn())
	if err != nil {
		CloseConn(*conn)
		*conn = nil
		return err
	}
	return c.see(s, host)
}

func (c *cluster) close() {
	c.stop()
	c.looking.Wait()
}

// CloseConn closes a connection, if there is one. That takes a second at most.
func CloseConn(conn *pgx.Conn) {
	if conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // nobody needs it any more
}
