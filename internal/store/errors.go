package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"github.com/actlog/actlog/record"
)

// ErrNotMigrated says that the database lacks migrations of this version.
var ErrNotMigrated = errors.New("database is not migrated: run actlog migrate up")

// ErrDiskFull says that the database has no room for more. It wraps
// [record.ErrUnavailable]: writes go on when there is room.
var ErrDiskFull = fmt.Errorf("%w: the database's disk is full", record.ErrUnavailable)

// errChanged says that another session changed what a transaction had read: it is tried
// again.
var errChanged = errors.New("another session changed what was read")

// LockedError says that another session of the database holds a row of a plan's
// tree. It wraps [record.ErrUnavailable]: writes go on when it lets go.
type LockedError struct {
	// RootPlanID is the plan; empty where it is not known which.
	RootPlanID string
}

func (e *LockedError) Error() string {
	if e.RootPlanID == "" {
		return "what is asked for is locked by another session of the database"
	}
	return fmt.Sprintf("a row of plan %s is locked by another session of the database", e.RootPlanID)
}

// Unwrap gives [record.ErrUnavailable].
func (e *LockedError) Unwrap() error { return record.ErrUnavailable }

// translate turns what pgx says into the errors of package record. It is the only
// place that does.
func translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrNoRows):
		return record.ErrNotFound
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		if connectionLost(err) { // the driver's own time-out, not the caller's
			return fmt.Errorf("%w: %w", record.ErrUnavailable, err)
		}
		return err
	case locked(err):
		return fmt.Errorf("%w: %w", &LockedError{}, err)
	case sqlState(err) == "53100":
		return fmt.Errorf("%w: %w", ErrDiskFull, err)
	case errors.Is(err, ErrDiskFull):
		return err
	case transient(err):
		return fmt.Errorf("%w: %w", record.ErrUnavailable, err)
	}
	return err
}

// connectionLost is true where the statement met no server, or lost it.
func connectionLost(err error) bool {
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		strings.Contains(err.Error(), "conn closed") || shuttingDown(err)
}

// transient is true where the same transaction may succeed when it is tried
// again: a lost connection, a lost race, or a server short of something.
func transient(err error) bool {
	if connectionLost(err) || errors.Is(err, puddle.ErrClosedPool) || errors.Is(err, ErrDiskFull) || errors.Is(err, errChanged) {
		return true
	}
	switch code := sqlState(err); {
	case code == "":
		return false
	case strings.HasPrefix(code, "08"), // connection
		strings.HasPrefix(code, "53"), // disk full, out of memory, too many connections
		strings.HasPrefix(code, "40"), // serialization failure, deadlock
		strings.HasPrefix(code, "58"), // I/O error
		locked(err),
		code == "25006",                  // read-only: a standby that is being promoted
		code == "57014",                  // cancelled by an administrator
		code == "23502", code == "23503": // a parent was deleted in between; it is made anew
		return true
	}
	return false
}

// locked is true where someone holds what the statement needs.
func locked(err error) bool { return sqlState(err) == "55P03" }

func shuttingDown(err error) bool {
	switch sqlState(err) {
	case "57P01", "57P02", "57P03", "57P05", "25P03":
		return true
	}
	return false
}

// notHeld is true where a tree is not where it was taken to be, or a cycle not on record:
// see PlanHold and [upsert.Shape].
func notHeld(err error) bool { return sqlState(err) == "22012" }

// copyError is why rows could not be copied. Merged they may be put on record, or it is
// known which of them cannot.
type copyError struct{ error }

func (e *copyError) Unwrap() error { return e.error }

func notCopied(err error) bool {
	var c *copyError
	return errors.As(err, &c)
}

// refused is true where Postgres will never take the data, however often.
func refused(err error) bool {
	code := sqlState(err)
	return strings.HasPrefix(code, "22") || strings.HasPrefix(code, "23") || strings.HasPrefix(code, "54")
}

func sqlState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// refusal says why a single change was refused. Postgres' own words may quote
// data, so they stay with the cause.
func refusal(err error) *record.InvalidError {
	var pg *pgconn.PgError
	errors.As(err, &pg)
	return &record.InvalidError{Code: record.CodeInvalidValue, Field: pg.ColumnName,
		Reason: fmt.Sprintf("the database refused this record: %s (SQLSTATE %s)", pg.Message, pg.Code)}
}
