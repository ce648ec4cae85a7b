package upkeep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/record"
)

// partitionedTables hold the detail. Their partitions are added and dropped together.
var partitionedTables = []string{"think_act_record", "act_tool_info", contentTable}

// contentTable holds what long texts are kept in. Its rows are not in the feed.
const contentTable = "content"

// spanTable holds the spans of traces, in one partition per day.
const spanTable = "otlp_span"

// movedKinds are those of the rows in the partitioned tables.
var movedKinds = []string{string(record.KindThinkAct), string(record.KindActTool)}

const (
	// partitionsAhead is how many periods beyond the present one have partitions: a server may
	// be down, or unable, for that long.
	partitionsAhead = 2
	// maxPartitions is how many partitions of a table may live: every read locks all of them.
	maxPartitions = 30
)

// keptPartitions is how many partitions of a table DetailDays keeps.
func (u *Upkeep) keptPartitions() int {
	days := u.store.PartitionDays()
	return (u.config.DetailDays+days-1)/days + 1 + partitionsAhead
}

// maintainPartitions adds partitions ahead of time, until ctx ends.
func (u *Upkeep) maintainPartitions(ctx context.Context, done bool) {
	for {
		wait := time.Hour
		if !done {
			wait = time.Minute
		}

		if pg.Pause(ctx, wait) != nil {
			return
		}
		done = u.addPartitions(ctx)
	}
}

// addPartitions reports whether it is done. If not, another try may help: its lock gives way
// to long reports. Until then the default partitions receive the rows.
func (u *Upkeep) addPartitions(ctx context.Context) (done bool) {
	added, until, err := u.tryAddPartitions(ctx)
	if !until.IsZero() {
		u.counters.partitionsUntil.Store(until.Unix())
	}

	switch {
	case err == nil:
		u.counters.partitionsAdded.Add(uint64(added))
		return true
	case errors.Is(err, context.Canceled):
		return true
	case pg.Denied(err) && until.After(time.Now()): // a server that may will add them
		u.log.Debug("not allowed to add partitions", "error", err)
		return true
	case pg.Denied(err):
		u.log.Warn("not allowed to add partitions, and no other server did; the default ones receive the rows", "error", err)
		return true
	}

	u.counters.failures.Add(1)
	u.log.Warn("add partitions failed; the default ones receive the rows", "error", err)
	return false
}

// tryAddPartitions also returns until when all tables of the detail have partitions, as far
// as it is known.
func (u *Upkeep) tryAddPartitions(ctx context.Context) (added int, until time.Time, err error) {
	if until, err = partitionedUntil(ctx, u.db); err != nil {
		return 0, until, err
	}

	after := until
	err = u.inTurn(ctx, taskPartitions, func(tx pgx.Tx) error {
		for _, table := range append(slices.Clone(partitionedTables), spanTable) {
			days := u.store.PartitionDays()
			if table == spanTable {
				days = 1
			}
			n, err := u.addMissing(ctx, tx, table, days)
			if err != nil {
				return fmt.Errorf("add partitions of %s: %w", table, err)
			}
			added += n
		}

		after, err = partitionedUntil(ctx, tx)
		return err
	})
	if err != nil {
		return 0, until, err
	}
	return added, after, nil
}

// partitionedUntil is the day on which the partitions of the detail end.
func partitionedUntil(ctx context.Context, conn db.DBTX) (until time.Time, err error) {
	for i, table := range partitionedTables {
		end, err := newestEnd(ctx, conn, table)
		if err != nil {
			return until, err
		}
		if i == 0 || end.Before(until) {
			until = end
		}
	}
	return until, nil
}

// newestEnd is the day on which the newest partition of a table ends; the year 1 if there is
// none.
func newestEnd(ctx context.Context, conn db.DBTX, table string) (end time.Time, err error) {
	partitions, err := listPartitions(ctx, conn, table)
	end = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, p := range partitions {
		if p.To.After(end) {
			end = p.To
		}
	}
	return end, err
}

// addMissing continues a table's partitions from the newest one, or from the present period if
// there is none or a gap, until enough lie ahead. So partitions never overlap if the period
// is changed.
func (u *Upkeep) addMissing(ctx context.Context, tx pgx.Tx, table string, days int) (added int, err error) {
	today, err := u.queries.Today(ctx, tx)
	if err != nil {
		return 0, err
	}
	newest, err := newestEnd(ctx, tx, table)
	if err != nil {
		return 0, err
	}

	from := store.PeriodStart(today, days)
	if newest.After(from) {
		from = newest
	}
	for end := store.PeriodStart(today, days).AddDate(0, 0, days*(partitionsAhead+1)); from.Before(end); {
		to := store.PeriodStart(from, days).AddDate(0, 0, days)
		if err := u.queries.PartitionAdd(ctx, tx,
			db.PartitionAddParams{Parent: table, FromDay: from, ToDay: to}); err != nil {
			return added, err
		}

		if slices.Contains(partitionedTables, table) && table != contentTable {
			// Rows that were in the default partition are written again, see package feed.
			if _, err := tx.Exec(ctx, `INSERT INTO actlog.change (root_plan_id, kinds)
				SELECT DISTINCT root_plan_id, $1::text[] FROM actlog.`+table+" WHERE part >= $2 AND part < $3", movedKinds, from, to); err != nil {
				return added, err
			}
		}

		from = to
		added++
	}
	return added, nil
}

// partition is a partition of a table, from a day up to the day after its last.
type partition struct {
	Parent, Name string
	From, To     time.Time
}

// listPartitions returns the partitions of tables but the default ones, by their days.
func listPartitions(ctx context.Context, conn db.DBTX, tables ...string) ([]partition, error) {
	rows, err := conn.Query(ctx, db.PartitionList, tables)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[partition])
}

// checkPartitions reports whether all of some tables are partitions: another server may have
// been quicker. The error is errNotOwner if the role does not own them and others, or may not
// rename them although that is wanted.
func checkPartitions(
	ctx context.Context, tx pgx.Tx, names []string, renames bool, others ...string,
) (attached bool, err error) {
	var n int
	if err := tx.QueryRow(ctx, db.PartitionAttached, names).Scan(&n); err != nil || n != len(names) {
		return false, err
	}

	var owned bool
	if err := tx.QueryRow(ctx, db.PartitionOwned, renames,
		append(slices.Clone(names), others...)).Scan(&owned); err != nil {
		return false, err
	}
	if !owned {
		return false, errNotOwner
	}
	return true, nil
}

func column[T any](ctx context.Context, conn db.DBTX, sql string, args ...any) ([]T, error) {
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[T])
}
