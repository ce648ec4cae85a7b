// Package report owns SQL that others write: one statement at a time on the views of schema report, as a role that may
// read these and nothing else.
//
// To set the role within a session of the server would be no bound: a statement may set it back. So each statement has
// a connection of its own, which logged in as that role and is closed afterwards. Nothing of a session is left: no
// settings, no locks, no temporary tables. The transaction is read-only and never committed.
package report

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/record"
)

const (
	// maxMessage bounds a message of Postgres, in bytes: a row, for example.
	maxMessage = 1 << 20
	// grace is how much longer than Postgres we wait for the end of a statement.
	grace = 2 * time.Second
	// closing is how long the end of a connection may take.
	closing = time.Second
)

// ErrOversized means that a row has more bytes than are read of one.
var ErrOversized = errors.New("a row of the result has more than 1 MiB")

// UnsafeError says why a role is not used: it may do more than read the reports, or less.
type UnsafeError struct{ Reasons []string }

func (e *UnsafeError) Error() string {
	return "the role for reports is not used, because it " + strings.Join(e.Reasons, ", and ")
}

// StatementError is what Postgres says is wrong with a statement. It says nothing that the role may not see.
type StatementError struct {
	Message, Hint string
	State         string // the SQLSTATE
	Position      int    // of the character at fault, from 1; 0: not known
}

func (e *StatementError) Error() string {
	text := e.Message
	if e.Position > 0 {
		text += fmt.Sprintf(" (at character %d)", e.Position)
	}
	if e.Hint != "" {
		text += ". Hint: " + e.Hint
	}
	return text
}

// TimedOut reports whether the statement was ended because it took too long.
func (e *StatementError) TimedOut() bool { return e.State == "57014" }

// Reports answers questions in SQL. It is safe for concurrent use. It holds no connection between them.
type Reports struct {
	config *pgconn.Config
	// at is where the role logs in to read at the replica, if there is one.
	at      *pgconn.Config
	replica *pg.Replica
}

// Open returns the reports of a database that the role of the URL may read. The error is an [*UnsafeError] if that may
// do more. A database that does not answer is logged, and asked again for each statement.
func Open(ctx context.Context, url string, log *slog.Logger) (*Reports, error) {
	config, err := pgconn.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("reports: %w", err) // its text hides the password
	}
	config.ConnectTimeout = 5 * time.Second
	config.MaxProtocolMessageBodyLen = maxMessage
	config.RuntimeParams["application_name"] = "actlog sql"
	r := &Reports{config: config}

	c, err := r.connect(ctx)
	if err == nil {
		locks, err := c.texts(ctx, mayLock)
		if len(locks) > 0 {
			log.Warn("the role for reports may take advisory locks, and so make the server wait: docs/mcp.md has statements " +
				"that take them from it")
		}
		return r, errors.Join(err, c.close())
	}

	if unsafe := new(UnsafeError); errors.As(err, &unsafe) || ctx.Err() != nil {
		return nil, err
	}
	log.Warn("the reports cannot be read yet", "error", err)
	return r, nil
}

// connection is one of a single statement.
type connection struct{ *pgconn.PgConn }

// ReadAt makes the role read at the hosts of a replica while that can be used, and else at the primary, whatever else
// its URL names.
func (r *Reports) ReadAt(replica *pg.Replica, url string) error {
	hosts, err := pgconn.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("replica for reports: %w", err)
	}

	r.at, r.replica = r.config.Copy(), replica
	r.at.Host, r.at.Port = hosts.Host, hosts.Port
	r.at.TLSConfig, r.at.Fallbacks = hosts.TLSConfig, hosts.Fallbacks
	r.at.ConnectTimeout, r.at.ValidateConnect = time.Second, replica.Admit
	r.config.ValidateConnect = replica.CheckPrimary
	return nil
}

// connect logs in, and checks the role: what it may do can have changed.
func (r *Reports) connect(ctx context.Context) (connection, error) { return connectTo(ctx, r.config) }

// connectToReplica is connect at the replica, if there is one that has what is before a mark.
func (r *Reports) connectToReplica(ctx context.Context, after pg.Mark) (c connection, err error) {
	if r.replica == nil {
		return c, pg.ErrNotThere
	}

	if ctx, err = r.replica.Use(ctx, after); err != nil {
		return c, err
	}
	if c, err = connectTo(ctx, r.at); err != nil {
		return c, err
	}
	if err = r.replica.Fresh(ctx, c.PgConn); err != nil {
		err = errors.Join(err, c.close())
	}
	return c, err
}

func connectTo(ctx context.Context, config *pgconn.Config) (c connection, err error) {
	if c.PgConn, err = pgconn.ConnectConfig(ctx, config); err != nil {
		return c, fmt.Errorf("log in to read reports: %w", pg.Translate(err))
	}

	reasons, err := c.texts(ctx, roleFaults)
	if err == nil && len(reasons) > 0 {
		err = &UnsafeError{reasons}
	}
	if err != nil {
		return c, errors.Join(err, c.close())
	}
	return c, nil
}

// close ends the connection, and with it all that the statement left. Postgres rolls its transaction back. Of a
// connection that broke off, pgx ends the statement, and reads what is still on its way: not for long.
func (c connection) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()

	err := c.Close(ctx)
	select {
	case <-c.CleanupDone():
	case <-ctx.Done():
		c.drop()
	}
	return pg.Wrap(err, "close the connection of a report")
}

// drop closes the connection without reading what is on its way.
func (c connection) drop() { _ = c.Conn().Close() }

func (c connection) texts(ctx context.Context, sql string, args ...string) (all []string, err error) {
	rows, err := c.read(ctx, sql, args...)
	for _, row := range rows {
		all = append(all, string(row[0]))
	}
	return all, err
}

// read returns the rows of a statement of ours, as texts.
func (c connection) read(ctx context.Context, sql string, args ...string) (rows [][][]byte, err error) {
	values := make([][]byte, len(args))
	for i, arg := range args {
		values[i] = []byte(arg)
	}
	result := c.ExecParams(ctx, sql, values, nil, nil, nil).Read()
	return result.Rows, pg.Translate(result.Err)
}

// transaction begins the transaction of a statement, which may take so long.
func (c connection) transaction(ctx context.Context, limit time.Duration) error {
	return pg.Translate(c.Exec(ctx, fmt.Sprintf(`BEGIN READ ONLY;
SET LOCAL statement_timeout = %d; SET LOCAL lock_timeout = '2s'; SET LOCAL idle_in_transaction_session_timeout = '1min';
SET LOCAL work_mem = '32MB'; SET LOCAL jit = off; SET LOCAL max_parallel_workers_per_gather = 0;
SET LOCAL search_path = report; SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO, MDY'; SET LOCAL IntervalStyle = 'postgres'; SET LOCAL bytea_output = 'hex'`,
		limit.Milliseconds())).Close())
}

// refusal turns an error of a statement that others wrote into one that says what is wrong with it.
func refusal(err error) error {
	var said *pgconn.PgError
	if errors.As(err, &said) && !pg.ConnectionLost(err) {
		return &StatementError{Message: said.Message, Hint: said.Hint, State: said.Code, Position: int(said.Position)}
	}
	if err = pg.Translate(err); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, record.ErrTooSlow) {
		err = fmt.Errorf("read a report: %w", err)
	}
	return err
}
