package db

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/actlog/actlog/agent/tool"
)

// writable are the words with which statements begin that db.execute runs. Others end the transaction, change the
// session, or move files.
var writable = []string{
	"INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "SELECT", "TRUNCATE", "CREATE", "ALTER", "DROP", "COMMENT", "REFRESH",
}

// leading is what stands before the first word of a statement: space and comments. A comment in a comment is none that
// counts: such a statement is refused, because it begins with no word.
var leading = regexp.MustCompile(`(?s)\A(?:\s|--[^\n]*(?:\n|\z)|/\*.*?\*/)*([A-Za-z]*)`)

// kind returns the first word of a statement.
func kind(sql string) string { return strings.ToUpper(leading.FindStringSubmatch(sql)[1]) }

func (in statement) checkWrite() ([][]byte, error) {
	if word := kind(in.SQL); strings.TrimSpace(in.SQL) != "" && !slices.Contains(writable, word) {
		return nil, fmt.Errorf("sql: db.execute does not run %q; it takes one statement that begins with %s",
			word, strings.Join(writable, ", "))
	}
	return in.check()
}

// String shows the statement with its parameters.
func (in statement) String() string {
	text := strings.TrimSpace(in.SQL) + "\n"
	for i, v := range in.Parameters {
		b, err := json.Marshal(v)
		if err != nil {
			b = []byte("?")
		}
		text += fmt.Sprintf("-- $%d = %s\n", i+1, b)
	}
	return text
}

// approved returns what an approval of a statement is for.
func (d *database) approved(in statement) tool.Preview {
	text := in.String()
	if d.WriteRole != "" {
		text += fmt.Sprintf("-- as the role %q\n", d.WriteRole)
	}
	return tool.NewPreview(tool.PreviewStatement, text, d.WriteRole, d.config.Host, d.config.Database, in.SQL)
}

// preview shows a statement, and how many rows Postgres expects it to change. Nothing runs, no trigger and no
// lock of rows: Postgres only plans it. The estimate is no part of what is approved, because it may differ each time.
func (d *database) preview(ctx context.Context, _ tool.Call, in statement) (tool.Preview, error) {
	values, err := in.checkWrite()
	if err != nil {
		return tool.Preview{}, err
	}
	s, err := d.open(ctx, mode{"READ ONLY", d.WriteRole})
	if err != nil {
		return tool.Preview{}, err
	}
	defer s.close()

	p := d.approved(in)
	prepared, err := s.conn.Prepare(ctx, "", in.SQL, nil)
	if err != nil {
		return tool.Preview{}, readable(err, in.SQL)
	}
	if len(values) != len(prepared.ParamOIDs) {
		return tool.Preview{}, countError(len(prepared.ParamOIDs), len(values))
	}

	if slices.Contains([]string{"INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "SELECT"}, kind(in.SQL)) {
		rows, err := s.estimate(ctx, in.SQL, values)
		if err != nil {
			return tool.Preview{}, err
		}
		p.Text += fmt.Sprintf("-- Postgres expects %.0f rows (an estimate; it did not run)\n", rows)
	}
	return p, nil
}

// touches returns what a statement would change, as far as that is known without reading it: the database.
func (d *database) touches(context.Context, statement) ([]string, error) {
	return []string{"database " + d.config.Database}, nil
}

// estimate returns how many rows Postgres expects a statement to change, or to return.
func (s *session) estimate(ctx context.Context, sql string, values [][]byte) (float64, error) {
	r := s.conn.ExecParams(ctx, "EXPLAIN (FORMAT JSON) "+sql, values, nil, nil, nil).Read()
	if r.Err != nil {
		return 0, readable(r.Err, "EXPLAIN (FORMAT JSON) "+sql)
	}

	type node struct {
		Operation string  `json:"Operation"`
		Rows      float64 `json:"Plan Rows"`
		Plans     []struct {
			Rows float64 `json:"Plan Rows"`
		} `json:"Plans"`
	}

	var plans []struct{ Plan node }
	if len(r.Rows) != 1 || json.Unmarshal(r.Rows[0][0], &plans) != nil || len(plans) != 1 {
		return 0, nil
	}

	top := plans[0].Plan
	if top.Operation != "" && len(top.Plans) > 0 { // what changes rows returns none; the plan below has them
		return top.Plans[0].Rows, nil
	}
	return top.Rows, nil
}

// execute runs a statement that writes and commits it.
func (d *database) execute(ctx context.Context, call tool.Call, in statement) (tool.Result, error) {
	values, err := in.checkWrite()
	if err == nil {
		err = call.CheckApproved(d.approved(in))
	}
	if err != nil {
		return tool.Result{}, err
	}

	s, err := d.open(ctx, mode{"READ WRITE", d.WriteRole})
	if err != nil {
		return tool.Result{}, err
	}
	defer s.close()

	t, err := d.change(ctx, s, call, in.SQL, values)
	if err != nil {
		return tool.Result{}, err
	}
	if err := s.commit(ctx); err != nil {
		return tool.Result{}, err
	}
	return t.result(t.tag)
}

// change runs a statement that writes, and notes its call in the same transaction.
func (d *database) change(
	ctx context.Context, s *session, call tool.Call, sql string, values [][]byte,
) (*table, error) {
	prepared, err := s.conn.Prepare(ctx, "", sql, nil)
	if err != nil {
		return nil, readable(err, sql)
	}
	if len(values) != len(prepared.ParamOIDs) {
		return nil, countError(len(prepared.ParamOIDs), len(values))
	}

	r := s.conn.ExecPrepared(ctx, "", values, nil, nil)
	t := &table{}
	for _, f := range r.FieldDescriptions() {
		t.columns, t.oids = append(t.columns, cutCell(f.Name)), append(t.oids, f.DataTypeOID)
	}
	for r.NextRow() { // to the end: a statement that is not read to its end has not changed all
		if len(t.rows) < d.MaxRows && !t.more {
			t.add(r.Values(), d.MaxBytes)
		} else {
			t.more = true
		}
	}

	tag, err := r.Close()
	if err != nil {
		return nil, readable(err, sql)
	}
	if t.tag = tag.String(); !s.inTransaction() {
		return nil, errors.New("the statement ended its transaction; nothing else was done")
	}
	if d.Idempotency {
		return t, s.note(ctx, call.ID, t.tag)
	}
	return t, nil
}

// commit commits. The error is [tool.ErrUnknown] if nobody can say whether it did.
func (s *session) commit(ctx context.Context) error {
	results, err := s.conn.Exec(ctx, "COMMIT").ReadAll()
	if _, refused := errors.AsType[*pgconn.PgError](err); refused {
		return readable(err, "")
	}
	if err != nil {
		return fmt.Errorf("the connection to the database broke while the statement was committed: %w", tool.ErrUnknown)
	}

	if len(results) != 1 || results[0].CommandTag.String() != "COMMIT" {
		return errors.New("the database rolled the transaction back; nothing was done")
	}
	return nil
}
