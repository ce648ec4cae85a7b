package pg

import (
	"context"
	"crypto/tls"
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

// ErrChanged means that another session changed what a transaction had read. Trying again
// helps.
var ErrChanged = errors.New("another session changed what was read")

// Translate turns the errors of pgx into those of package record. Nothing else does.
func Translate(err error) error {
	var connect *pgconn.ConnectError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrNoRows):
		return record.ErrNotFound
	case Crowded(err):
		return fmt.Errorf("%w: %w", record.ErrTooManyClients, err)
	case State(err) == "57P03":
		return fmt.Errorf("%w: %w", record.ErrStarting, err)
	case errors.As(err, &connect):
		return fmt.Errorf("%w: %w", record.ErrUnavailable, err)
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", record.ErrTooSlow, err)
	case Locked(err), Deadlocked(err):
		return fmt.Errorf("%w: %w", &record.LockedError{}, err)
	case State(err) == "53100":
		return fmt.Errorf("%w: %w", record.ErrDiskFull, err)
	case errors.Is(err, record.ErrDiskFull):
		return err
	case Transient(err):
		return fmt.Errorf("%w: %w", record.ErrUnavailable, err)
	}
	return err
}

// Wrap says in an error what was being done. There is none if err is nil.
func Wrap(err error, doing string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(doing+": %w", append(args, err)...)
}

// ConnectionLost reports whether the statement did not reach the server, or lost it.
func ConnectionLost(err error) bool {
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		strings.Contains(err.Error(), "conn closed") || shuttingDown(err)
}

// MayBeCommitted reports whether nobody knows if a transaction was committed that was sent: its connection was lost.
func MayBeCommitted(err error) bool {
	var connect *pgconn.ConnectError
	return err != nil && ConnectionLost(err) && !errors.As(err, &connect)
}

func shuttingDown(err error) bool {
	switch State(err) {
	case "57P01", "57P02", "57P03", "57P05", "25P03":
		return true
	}
	return false
}

// Transient reports whether the same transaction may succeed when it is tried again: a lost
// connection, a lost race, or a server that is short of something.
func Transient(err error) bool {
	if ConnectionLost(err) || errors.Is(err, puddle.ErrClosedPool) || errors.Is(err, record.ErrDiskFull) ||
		errors.Is(err, ErrChanged) {
		return true
	}

	switch code := State(err); {
	case code == "":
		return false
	case strings.HasPrefix(code, "08"), // connection
		strings.HasPrefix(code, "53"), // disk full, out of memory, too many connections
		strings.HasPrefix(code, "40"), // serialization failure, deadlock
		strings.HasPrefix(code, "58"), // I/O error
		Locked(err),
		code == "25006",                  // read-only: a standby that is being promoted
		code == "57014",                  // cancelled by an administrator
		code == "23502", code == "23503": // a parent was deleted in between; the next try makes it again
		return true
	}
	return false
}

// Absent reports whether Postgres is not there, or not ready, and may come by itself: nobody has to correct anything
// first.
func Absent(err error) bool {
	var certificate *tls.CertificateVerificationError
	if !errors.Is(err, record.ErrUnavailable) || errors.As(err, &certificate) {
		return false
	}

	switch State(err) {
	case "28P01", // wrong password
		"28000", // no such role, or it may not log in from here
		"3D000", // no such database
		"42501": // the role may not connect to the database
		return false
	}
	return true
}

// Crowded reports whether Postgres gave out no connection because there are as many as it, or the role, may have.
func Crowded(err error) bool { return State(err) == "53300" }

// Deadlocked reports whether Postgres ended the statement because two sessions waited for each other.
func Deadlocked(err error) bool { return State(err) == "40P01" }

// Locked reports whether another session holds what the statement needs.
func Locked(err error) bool { return State(err) == "55P03" }

// TimedOut reports whether Postgres cancelled the statement, as after its time-out.
func TimedOut(err error) bool { return State(err) == "57014" }

// Denied reports whether the role may not do that.
func Denied(err error) bool { return State(err) == "42501" }

// Refused reports whether Postgres will never accept the data.
func Refused(err error) bool {
	code := State(err)
	return strings.HasPrefix(code, "22") || strings.HasPrefix(code, "23") || strings.HasPrefix(code, "54")
}

// Refusal says why a single change was refused. Postgres' own words may quote data, so its
// details stay with the cause.
func Refusal(err error) *record.InvalidError {
	var pg *pgconn.PgError
	errors.As(err, &pg)
	return &record.InvalidError{Code: record.CodeInvalidValue, Field: pg.ColumnName,
		Reason: fmt.Sprintf("the database refused this record: %s (SQLSTATE %s)", pg.Message, pg.Code)}
}

// State returns the SQLSTATE of an error; empty if it has none.
func State(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}
