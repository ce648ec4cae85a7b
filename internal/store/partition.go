package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/record"
)

// partitionedTables hold the detail. Their partitions go in step.
var partitionedTables = []string{"think_act_record", "act_tool_info"}

// spanTable holds the spans of traces, in a partition a day.
const spanTable = "otlp_span"

// movedKinds are those of the rows in them.
var movedKinds = []string{string(record.KindThinkAct), string(record.KindActTool)}

// partitionsAhead is how many periods beyond the present one have partitions, so
// that a server may be down or unable for that long.
const partitionsAhead = 2

// keepPartitions makes partitions ahead of time for as long as the store is open.
func (s *Store) keepPartitions(done bool) {
	for {
		wait := time.Hour
		if !done {
			wait = time.Minute
		}
		if pause(s.upkeep, wait) != nil {
			return
		}
		done = s.addPartitions(s.upkeep)
	}
}

// addPartitions tells whether it is done, or worth another try: its lock gives
// way to long reports. Until then it costs nothing but the default partitions'
// catching the rows.
func (s *Store) addPartitions(ctx context.Context) (done bool) {
	added, until, err := s.tryAddPartitions(ctx)
	if !until.IsZero() {
		s.counters.partitionsUntil.Store(until.Unix())
	}
	switch {
	case err == nil:
		s.counters.partitionsAdded.Add(uint64(added))
		return true
	case errors.Is(err, context.Canceled):
		return true
	case sqlState(err) == "42501" && until.After(time.Now()): // whoever may will
		s.log.Debug("not allowed to add partitions", "error", err)
		return true
	case sqlState(err) == "42501":
		s.log.Warn("not allowed to add partitions, and no one else did; the default ones catch what comes", "error", err)
		return true
	}
	s.counters.upkeepFailures.Add(1)
	s.log.Warn("partitions were not added; the default ones catch what comes", "error", err)
	return false
}

// giveWay has a lock of upkeep wait no longer than Postgres does before it looks
// for a deadlock (1 s), and might choose a reader or a writer to end it.
const giveWay = "SET LOCAL lock_timeout = '900ms'"

// tryAddPartitions also tells until when all tables have partitions, as far as it
// came to know.
func (s *Store) tryAddPartitions(ctx context.Context) (added int, until time.Time, err error) {
	var before, after time.Time
	err = s.transact(ctx, func(tx pgx.Tx) error {
		// A statement that waits for this lock would hold up every writer behind it.
		// Bounds are read back as text, so their style is settled.
		if _, err := tx.Exec(ctx, giveWay+"; SET LOCAL datestyle = 'ISO'"); err != nil {
			return err
		}
		if before, err = partitionedUntil(ctx, tx); err != nil {
			return err
		}
		var mine bool
		if err := tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock(hashtext('actlog.add_partition'))").Scan(&mine); err != nil || !mine {
			after = before
			return err
		}
		for _, table := range partitionedTables {
			n, err := addMissing(ctx, tx, table, s.config.PartitionDays)
			if err != nil {
				return fmt.Errorf("adding partitions of %s: %w", table, err)
			}
			added += n
		}
		n, err := addMissing(ctx, tx, spanTable, 1)
		if err != nil {
			return fmt.Errorf("adding partitions of %s: %w", spanTable, err)
		}
		added += n
		after, err = partitionedUntil(ctx, tx)
		return err
	})
	if err != nil {
		return 0, before, err
	}
	return added, after, nil
}

// sqlNewest is the day at which the newest partition of a table ends.
const sqlNewest = `
	SELECT COALESCE(max(substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''([0-9-]+)''\)')::date), DATE '0001-01-01')
	FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
	WHERE i.inhparent = format('actlog.%I', t)::regclass`

func partitionedUntil(ctx context.Context, tx pgx.Tx) (until time.Time, err error) {
	err = tx.QueryRow(ctx, "SELECT min(("+sqlNewest+")) FROM unnest($1::text[]) AS t", partitionedTables).Scan(&until)
	return until, err
}

// addMissing continues a table's partitions from the newest one, or from the
// present period where there is none or a gap, until enough lie ahead. A changed
// period thus never makes two partitions overlap.
func addMissing(ctx context.Context, tx pgx.Tx, table string, days int) (added int, err error) {
	var today, newest time.Time
	err = tx.QueryRow(ctx, "SELECT (now() AT TIME ZONE 'utc')::date, ("+sqlNewest+") FROM CAST($1 AS text) AS t", table).Scan(&today, &newest)
	if err != nil {
		return 0, err
	}
	from := periodStart(today, days)
	if newest.After(from) {
		from = newest
	}
	for end := periodStart(today, days).AddDate(0, 0, days*(partitionsAhead+1)); from.Before(end); {
		to := periodStart(from, days).AddDate(0, 0, days)
		if _, err := tx.Exec(ctx, "SELECT actlog.add_partition($1, $2, $3)", table, from, to); err != nil {
			return added, err
		}
		if slices.Contains(partitionedTables, table) {
			// What was in the default partition is written anew, see the change feed.
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

// periodStart is the first day of the period that a day lies in. Periods of a
// week begin on Mondays. The statement of plans counts in the same way.
func periodStart(day time.Time, days int) time.Time {
	epoch := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	since := int(day.Sub(epoch).Hours() / 24)
	return day.AddDate(0, 0, -(since % days))
}
