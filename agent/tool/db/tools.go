package db

import (
	"github.com/actlog/actlog/agent/tool"
)

// Tools returns db.query, db.schema, and with Write db.execute. It connects to nobody: each call has a connection of
// its own. The error is an *OptionError.
func Tools(o Options) ([]tool.Tool, error) {
	d, err := newDatabase(o)
	if err != nil {
		return nil, err
	}

	reads := tool.WithPolicy(tool.Policy{OnUnknown: tool.Retry, Timeout: d.Timeout + slack})
	tools := []tool.Tool{
		tool.Func("db.query", "Runs one SQL statement that reads in a Postgres database and returns its rows. The "+
			"transaction is read-only. Values go into parameters, as $1, $2, ...; db.schema lists tables and columns.",
			d.query, reads),
		tool.Func("db.schema", "Lists the tables of the Postgres database that can be read, with columns, types and keys.",
			d.schema, reads),
	}
	if !d.Write {
		return tools, nil
	}

	policy := tool.Policy{Approval: true, Writes: true, Timeout: d.Timeout + slack}
	if d.Idempotency {
		policy.OnUnknown = tool.Retry
	}
	return append(tools, tool.CallFunc("db.execute", "Runs one SQL statement that changes the Postgres database, and "+
		"commits it. Values go into parameters, as $1, $2, ...", d.execute,
		tool.WithPolicy(policy), tool.WithTouches(d.touches), tool.WithPreview(d.preview), tool.WithVerify(d.verify))), nil
}
