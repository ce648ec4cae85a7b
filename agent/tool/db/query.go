package db

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/actlog/actlog/agent/tool"
)

type statement struct {
	SQL        string `json:"sql" jsonschema:"one statement of Postgres; values are $1, $2, ..."`
	Parameters []any  `json:"parameters,omitempty" jsonschema:"the values of $1, $2, ...; lists and objects are JSON"`
}

// check returns the parameters, or why the statement cannot be run.
func (in statement) check() ([][]byte, error) {
	switch {
	case strings.TrimSpace(in.SQL) == "":
		return nil, errors.New("sql: it is empty")
	case len(in.SQL) > maxSQL:
		return nil, fmt.Errorf("sql: it has more than %d bytes", maxSQL)
	case strings.ContainsRune(in.SQL, 0):
		return nil, errors.New("sql: it has the character 0")
	}
	return parameters(in.Parameters)
}

// query runs a statement that reads. The transaction is read-only, and never committed.
func (d *database) query(ctx context.Context, in statement) (tool.Result, error) {
	values, err := in.check()
	if err != nil {
		return tool.Result{}, err
	}
	s, err := d.open(ctx, mode{"READ ONLY", d.Role})
	if err != nil {
		return tool.Result{}, err
	}
	defer s.close()

	t, err := d.rows(ctx, s, in.SQL, values)
	if err != nil {
		return tool.Result{}, err
	}
	return t.result(t.count())
}

var errNoRows = errors.New(
	"sql: db.query takes one statement that returns rows, such as SELECT, WITH, VALUES or EXPLAIN; this one returns none")

// rows runs a statement and reads its rows. One that returns none, such as COMMIT, SET, DO, COPY or LISTEN, is
// refused before it runs: Postgres says so when it has read the statement.
func (d *database) rows(ctx context.Context, s *session, sql string, values [][]byte) (*table, error) {
	prepared, err := s.conn.Prepare(ctx, "", sql, nil)
	if err != nil {
		return nil, readable(err, sql)
	}
	if len(prepared.Fields) == 0 {
		return nil, errNoRows
	}
	if len(values) != len(prepared.ParamOIDs) {
		return nil, countError(len(prepared.ParamOIDs), len(values))
	}

	t, err := d.read(ctx, s, s.conn.ExecPrepared(ctx, "", values, nil, nil))
	if err != nil {
		return nil, readable(err, sql)
	}
	return t, nil
}

func countError(want, got int) error {
	return fmt.Errorf("parameters: the statement has %d ($1, $2, ...), and there are %d", want, got)
}
