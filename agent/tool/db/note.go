package db

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/actlog/actlog/agent/tool"
)

// makeNotes makes the table of the calls that took effect.
const makeNotes = `CREATE SCHEMA IF NOT EXISTS actlog_tool;
CREATE TABLE IF NOT EXISTS actlog_tool.call (
	id text PRIMARY KEY, command text NOT NULL, at timestamptz NOT NULL DEFAULT now());`

// backToSession takes the role of the session on again. What the statement left to be done at the end of the
// transaction is done before, with the rights that the statement had, and names mean what Postgres means by them.
const backToSession = "SET CONSTRAINTS ALL IMMEDIATE; RESET ROLE; SET LOCAL search_path = pg_catalog"

const (
	uniqueViolation = "23505"
	undefinedTable  = "42P01"
	undefinedSchema = "3F000"
)

// note notes that a call took effect, in its transaction. A call that is noted already did: then the transaction
// must not be committed.
func (s *session) note(ctx context.Context, id, command string) error {
	if _, err := s.conn.Exec(ctx, backToSession).ReadAll(); err != nil {
		return readable(err, "")
	}

	there := s.conn.ExecParams(ctx, "SELECT to_regclass('actlog_tool.call') IS NOT NULL", nil, nil, nil, nil).Read()
	if there.Err != nil {
		return readable(there.Err, "")
	}
	if string(there.Rows[0][0]) != "t" {
		if _, err := s.conn.Exec(ctx, makeNotes).ReadAll(); err != nil {
			return fmt.Errorf("actlog_tool.call, the table of the calls that took effect, cannot be made; "+
				"nothing was done: %w", readable(err, ""))
		}
	}

	values := [][]byte{[]byte(id), []byte(command)}
	r := s.conn.ExecParams(ctx, "INSERT INTO actlog_tool.call (id, command) VALUES ($1, $2)", values, nil, nil, nil).Read()
	if failed, ok := errors.AsType[*pgconn.PgError](r.Err); ok && failed.Code == uniqueViolation {
		return errors.New("this very call took effect before; it was not made again")
	}
	if r.Err != nil {
		return fmt.Errorf("the call cannot be noted in actlog_tool.call; nothing was done: %w", readable(r.Err, ""))
	}
	return nil
}

func (d *database) verify(ctx context.Context, call tool.Call, _ statement) (tool.Result, bool, error) {
	if !d.Idempotency {
		return tool.Result{}, false, nil
	}

	s, err := d.open(ctx, mode{access: "READ ONLY"})
	if err != nil {
		return tool.Result{}, false, err
	}
	defer s.close()

	const noted = "SELECT command FROM actlog_tool.call WHERE id = $1"
	r := s.conn.ExecParams(ctx, noted, [][]byte{[]byte(call.ID)}, nil, nil, nil).Read()
	failed, ok := errors.AsType[*pgconn.PgError](r.Err)
	if ok && (failed.Code == undefinedTable || failed.Code == undefinedSchema) {
		return tool.Result{}, false, nil
	}

	if r.Err != nil {
		return tool.Result{}, false, readable(r.Err, "")
	}
	if len(r.Rows) == 0 {
		return tool.Result{}, false, nil
	}
	result, err := (&table{tag: string(r.Rows[0][0])}).result(string(r.Rows[0][0]))
	return result, err == nil, err
}
