package db

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// session is a connection for one statement of a model, in a transaction.
type session struct {
	conn *pgconn.PgConn
	done func()
}

type mode struct {
	access string // "READ ONLY" or "READ WRITE"
	role   string // empty: that of the URL
}

// open opens a session. Who closes it leaves nothing of it behind: what was not committed is rolled back, and
// settings, locks and temporary tables end with the connection.
func (d *database) open(ctx context.Context, m mode) (*session, error) {
	select {
	case d.turns <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}

	conn, err := pgconn.ConnectConfig(ctx, d.config)
	if err != nil {
		<-d.turns
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
			return nil, fmt.Errorf("the database refuses the connection: %s (SQLSTATE %s); nothing was done",
				refused.Message, refused.Code)
		}
		return nil, errUnreachable
	}

	conn.Frontend().SetMaxBodyLen(maxMessage)
	s := &session{conn: conn, done: func() { <-d.turns }}
	if err := d.begin(ctx, s, m); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// begin begins the transaction, after a look at who the role is.
func (d *database) begin(ctx context.Context, s *session, m mode) error {
	if !d.AllowSuperuser {
		if err := s.checkRole(ctx); err != nil {
			return err
		}
	}

	quoted := make([]string, len(d.Schemas))
	for i, name := range d.Schemas {
		quoted[i] = pgx.Identifier{name}.Sanitize()
	}

	begin := []string{
		"BEGIN " + m.access,
		fmt.Sprintf("SET LOCAL statement_timeout = %d", d.Timeout.Milliseconds()),
		fmt.Sprintf("SET LOCAL lock_timeout = %d", d.Timeout.Milliseconds()),
		fmt.Sprintf("SET LOCAL idle_in_transaction_session_timeout = %d", (d.Timeout + slack).Milliseconds()),
		"SET LOCAL search_path = " + strings.Join(quoted, ", "),
	}
	if m.role != "" {
		begin = append(begin, "SET LOCAL ROLE "+pgx.Identifier{m.role}.Sanitize())
	}
	if _, err := s.conn.Exec(ctx, strings.Join(begin, "; ")).ReadAll(); err != nil {
		return fmt.Errorf("the transaction cannot begin: %w", readable(err, ""))
	}
	return nil
}

// powerful asks whether the role of the session is one that reaches the machine of the database, or can become one.
const powerful = `SELECT EXISTS (SELECT FROM pg_roles r
	WHERE (r.rolsuper OR r.rolname IN ('pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program'))
	AND pg_has_role(session_user, r.oid, 'MEMBER'))`

var errSuperuser = errors.New("the role with which the program connects to the database is a superuser, or may read " +
	"files or run programs on its server; that is not allowed, because a statement can take on its rights; " +
	"tell whoever runs the program")

// checkRole returns an error if the role of the session could reach more than the database. Another role that the
// transaction takes on changes nothing: a statement can go back to that of the session.
func (s *session) checkRole(ctx context.Context) error {
	r := s.conn.ExecParams(ctx, powerful, nil, nil, nil, nil).Read()
	if r.Err != nil {
		return readable(r.Err, "")
	}
	if len(r.Rows) != 1 || string(r.Rows[0][0]) != "f" {
		return errSuperuser
	}
	return nil
}

// inTransaction reports whether the transaction goes on: a statement of a model could have ended it.
func (s *session) inTransaction() bool { return s.conn.TxStatus() == 'T' }

// close ends the session. What was not committed is rolled back.
func (s *session) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = s.conn.Close(ctx) // the server rolls back what is left when the connection has gone
	s.done()
}

const closeTimeout = connectTimeout / 5
