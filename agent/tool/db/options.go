package db

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Options are which database the tools use, and how.
type Options struct {
	// URL of the database, with the credentials. It is shown to nobody.
	URL string
	// Role is the role that db.query and db.schema take on; empty: that of the URL.
	Role string
	// Write adds db.execute. Its statements have the role WriteRole; empty: that of the URL.
	Write     bool
	WriteRole string
	// Schemas are where names without a schema are looked up, and what db.schema shows. Empty: public.
	Schemas []string
	// MaxRows bounds the rows of a result. 0: DefaultMaxRows; at most MaxRows.
	MaxRows int
	// MaxBytes bounds the text of a result. 0: DefaultMaxBytes; at most MaxBytes.
	MaxBytes int
	// Timeout bounds a statement. 0: DefaultTimeout.
	Timeout time.Duration
	// Idempotency keeps the ids of calls of db.execute in the table actlog_tool.call of the database, in the transaction
	// of the statement. So it is known after a crash whether a call took effect. The role of the URL makes the table.
	Idempotency bool
	// AllowSuperuser lets the role of the URL be one that may read files and run programs on the server of the database.
	AllowSuperuser bool
}

// Bounds of results.
const (
	DefaultMaxRows  = 200
	MaxRows         = 1000
	DefaultMaxBytes = 32 << 10
	MaxBytes        = 60 << 10
	DefaultTimeout  = 10 * time.Second
)

// OptionError says which field of Options is wrong. It does not have the URL.
type OptionError struct {
	Field   string // as in the configuration: url, maxRows, ...
	Message string
}

func (e *OptionError) Error() string { return e.Field + ": " + e.Message }

// Check returns an *OptionError if something is wrong.
func (o Options) Check() error {
	_, err := newDatabase(o)
	return err
}

type database struct {
	Options
	config *pgconn.Config
	turns  chan struct{} // one for each connection that may be open
}

const maxConnections = 4

func newDatabase(o Options) (*database, error) {
	switch {
	case o.MaxRows < 0 || o.MaxRows > MaxRows:
		return nil, &OptionError{"maxRows", fmt.Sprintf("want 1 to %d", MaxRows)}
	case o.MaxBytes < 0 || o.MaxBytes > MaxBytes:
		return nil, &OptionError{"maxBytes", fmt.Sprintf("want 1 to %d", MaxBytes)}
	case o.WriteRole != "" && !o.Write:
		return nil, &OptionError{"writeRole", "it needs enableWrite: true"}
	case o.Idempotency && !o.Write:
		return nil, &OptionError{"idempotency", "it needs enableWrite: true"}
	}

	config, err := pgconn.ParseConfig(o.URL)
	if o.URL == "" || err != nil {
		return nil, &OptionError{"url", "it is no URL of a Postgres database"} // the error has parts of it
	}

	o.MaxRows, o.MaxBytes = cmp.Or(o.MaxRows, DefaultMaxRows), cmp.Or(o.MaxBytes, DefaultMaxBytes)
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if len(o.Schemas) == 0 {
		o.Schemas = []string{"public"}
	}

	config.ConnectTimeout = connectTimeout
	config.RuntimeParams["application_name"] = "actlog db tool"
	return &database{Options: o, config: config, turns: make(chan struct{}, maxConnections)}, nil
}

const connectTimeout = 10 * time.Second

// slack is what a call may take besides its statement.
const slack = connectTimeout + 5*time.Second

var errUnreachable = errors.New("the database cannot be reached now; nothing was done")
