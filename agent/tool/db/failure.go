package db

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// maxMessage bounds a message of the server, which is a row as a rule.
const maxMessage = 64 << 20

// readable returns an error of Postgres for a model, with the place in the statement.
func readable(err error, sql string) error {
	if err == nil {
		return nil
	}
	if _, long := errors.AsType[*pgproto3.ExceededMaxBodyLenErr](err); long {
		return fmt.Errorf("a row has more than %d MiB; select less of it, for example left(column, 1000)", maxMessage>>20)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}

	failed, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return errors.New("the connection to the database broke; nothing was done")
	}

	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s (SQLSTATE %s)", failed.Severity, failed.Message, failed.Code)
	if near := nearTo(sql, int(failed.Position)); near != "" {
		fmt.Fprintf(&text, " at character %d, near %q", failed.Position, near)
	}
	for i, more := range []string{failed.Detail, failed.Hint, failed.Where} {
		if more != "" {
			fmt.Fprintf(&text, "\n%s: %s", []string{"DETAIL", "HINT", "CONTEXT"}[i], cutCell(more))
		}
	}

	if failed.Code == queryCanceled {
		text.WriteString("\nThe statement took too long; make it read less, for example by a condition on an index.")
	}
	return errors.New(text.String())
}

const queryCanceled = "57014"

// nearTo returns what stands at a character of a statement, which is counted from 1.
func nearTo(sql string, position int) string {
	const most = 30
	runes := []rune(sql)
	if position < 1 || position > len(runes) {
		return ""
	}
	return string(runes[position-1 : min(position-1+most, len(runes))])
}
