package upkeep

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/pg"
)

// dropSpans drops the spans of traces from which nothing has come for so many days. The traces
// go first, some at a time: a trace that comes back later finds rows whose spans are gone.
func (u *Upkeep) dropSpans(ctx context.Context, days int) error {
	err := untilDone(func() (more bool, err error) {
		n, err := u.queries.TraceForget(ctx, u.db, int32(days))
		return n > 0, err
	})
	if err != nil {
		return fmt.Errorf("forget traces: %w", err)
	}

	var names []string
	err = u.inTurn(ctx, taskRetention, func(tx pgx.Tx) (err error) {
		names, err = u.oldSpanPartitions(ctx, tx, days)
		return err
	})
	if err != nil {
		return fmt.Errorf("look for old spans: %w", err)
	}

	var errs []error
	for _, name := range names {
		errs = append(errs, pg.Wrap(u.dropSpansIn(ctx, name, days), "drop spans in %s", name))
	}
	return errors.Join(errs...)
}

// oldSpanPartitions returns the partitions with old spans only, and the default one if it has
// any.
func (u *Upkeep) oldSpanPartitions(ctx context.Context, tx pgx.Tx, days int) (names []string, err error) {
	today, err := u.queries.Today(ctx, tx)
	if err != nil {
		return nil, err
	}

	first := today.AddDate(0, 0, -days) // the first day that is kept
	partitions, err := listPartitions(ctx, tx, spanTable)
	if err != nil {
		return nil, err
	}
	for _, p := range partitions {
		if !p.To.After(first) {
			names = append(names, p.Name)
		}
	}

	var old bool
	err = tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM actlog."+spanTable+"_default WHERE part < $1::date)",
		first).Scan(&old)
	if old {
		names = append(names, spanTable+"_default")
	}
	return names, err
}

// dropSpansIn drops a partition of spans, or what is old in the default one. Spans of traces
// that still grow move to the present day.
func (u *Upkeep) dropSpansIn(ctx context.Context, name string, days int) error {
	return u.inTurn(ctx, taskRetention, func(tx pgx.Tx) error {
		drop, partition := "DROP TABLE actlog."+name, name != spanTable+"_default"
		locks := "actlog.otlp_trace" // writers lock traces before their spans
		if partition {
			attached, err := checkPartitions(ctx, tx, []string{name}, false)
			if err != nil || !attached {
				return err
			}
			locks += ", ONLY actlog." + spanTable + ", actlog." + name
		} else {
			drop = fmt.Sprintf("DELETE FROM actlog.%s WHERE part < (now() AT TIME ZONE 'utc')::date - %d", name, days)
		}

		for _, sql := range []string{
			lockTimeout, "LOCK TABLE " + locks + " IN ACCESS EXCLUSIVE MODE", "SET LOCAL statement_timeout = 0",
		} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}

		if _, err := tx.Exec(ctx, strings.ReplaceAll(db.SpanMove, "actlog."+spanTable+" AS s", "actlog."+name+" AS s"),
			days); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, drop); err != nil {
			return err
		}

		if partition {
			u.counters.partitionsDropped.Add(1)
		}
		return nil
	})
}
