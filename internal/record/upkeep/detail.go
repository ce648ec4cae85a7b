package upkeep

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/store"
)

// Detail is dropped in steps. First, a transaction for each period detaches its partitions from their tables and notes
// the period: it is short, because it locks everybody out. For each detached table, one more removes its texts from the
// search, and another counts the tool calls and drops the table: it is long, and blocks nobody. Then steps and waits
// lose what they copy from the calls. If one is interrupted, the next round goes on from there.

// droppingPrefix marks a partition that was detached.
const droppingPrefix = "dropping_"

// period is a range of parts, from its first day up to the day after its last.
type period struct {
	from, to time.Time
	children []child // the partitions that hold it; none: the default ones do
}

type child struct{ table, name string }

func (p period) String() string {
	return p.from.Format(time.DateOnly) + " to " + p.to.AddDate(0, 0, -1).Format(time.DateOnly)
}

func (p period) names() (names []string) {
	for _, c := range p.children {
		names = append(names, c.name)
	}
	return names
}

// dropDetail drops the cycles and tool calls of every period that has been over for so many
// days and has no live plan; 0: of none.
func (u *Upkeep) dropDetail(ctx context.Context, days int) error {
	var errs []error
	if days > 0 {
		old, err := u.oldPeriods(ctx, days)
		errs = append(errs, err)
		for _, p := range old {
			errs = append(errs, pg.Wrap(u.dropPeriod(ctx, p), "the days %s", p))
		}
	}

	// What an earlier round began, perhaps on another server.
	errs = append(errs, u.dropDetached(ctx), u.sweepLateDetail(ctx), u.forgetCopies(ctx))
	return pg.Wrap(errors.Join(errs...), "drop detail")
}

// oldPeriods lists the periods that have been over for so many days: those of partitions, then
// those whose rows are in a default partition.
func (u *Upkeep) oldPeriods(ctx context.Context, days int) (all []period, err error) {
	err = u.inTurn(ctx, taskRetention, func(tx pgx.Tx) error {
		today, err := u.queries.Today(ctx, tx)
		if err != nil {
			return err
		}

		// The last part may have been made with another period than the partition's.
		old := func(p period) bool {
			length := u.store.PartitionDays()
			over := store.PeriodStart(p.to.AddDate(0, 0, -1), length).AddDate(0, 0, length)
			return !over.After(today.AddDate(0, 0, -days))
		}

		partitions, err := listPartitions(ctx, tx, partitionedTables...)
		if err != nil {
			return err
		}
		for _, r := range partitions {
			p := period{r.From, r.To, []child{{r.Parent, r.Name}}}
			if n := len(all); n > 0 && all[n-1].from.Equal(p.from) && all[n-1].to.Equal(p.to) {
				all[n-1].children = append(all[n-1].children, p.children...)
			} else if old(p) {
				all = append(all, p)
			}
		}

		without, err := u.queries.PartitionDefaultDays(ctx, tx)
		for _, day := range without { // a partition of their own
			if p := (period{from: day, to: day.AddDate(0, 0, 1)}); old(p) {
				all = append(all, p)
			}
		}
		return err
	})
	return all, err
}

func (u *Upkeep) dropPeriod(ctx context.Context, p period) error {
	live, err := u.queries.PlanLive(ctx, u.db, db.PlanLiveParams{FromDay: p.from, ToDay: p.to})
	if err != nil {
		return fmt.Errorf("look for live plans: %w", err)
	}
	if len(live) > 0 {
		u.log.Warn("detail is kept beyond its days: plans have not ended", "days", p.String(), "plans", live)
		return nil
	}

	if err := u.dropRecent(ctx, p.to); err != nil {
		return err
	}
	// Links first, or trees would lack them until the last transaction.
	if err := u.saveLinks(ctx, u.db, callTable, p.from, p.to); err != nil {
		return err
	}

	if len(p.children) == 0 {
		return u.dropFromDefault(ctx, p)
	}

	if err := u.detach(ctx, p); err != nil {
		return fmt.Errorf("detach: %w", err)
	}
	for _, c := range p.children {
		if err := u.dropTable(ctx, droppingPrefix+c.name); err != nil {
			return err
		}
	}
	u.log.Info("dropped detail", "days", p.String())
	return nil
}

// detach detaches the partitions of a period from their tables and notes the period. From then
// on its roll-ups stay as they are, and late detail goes to the default partitions.
func (u *Upkeep) detach(ctx context.Context, p period) error {
	// The foreign keys go, or trees could not be deleted until the last transaction.
	locks, alter := []string{"actlog.agent_execution_record"}, []string{}
	for _, c := range p.children {
		table, name := "actlog."+c.table, "actlog."+c.name
		locks = append(locks, "ONLY "+table, table+"_default", name)
		alter = append(alter, "ALTER TABLE "+table+" DETACH PARTITION "+name)
	}

	return u.inTurn(ctx, taskRetention, func(tx pgx.Tx) error {
		attached, err := checkPartitions(ctx, tx, p.names(), true, partitionedTables...) // before anything is locked
		if err != nil || !attached {
			return err
		}

		for _, sql := range []string{
			lockTimeout,
			// Every writer begins with plans: one that waits there holds nothing.
			"LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE; LOCK TABLE " + strings.Join(locks, ", ") +
				" IN ACCESS EXCLUSIVE MODE",
			strings.Join(alter, "; "),
		} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}

		for _, c := range p.children {
			if err := rename(ctx, tx, c.name); err != nil {
				return err
			}
		}
		_, err = u.queries.DetailDropped(ctx, tx, db.DetailDroppedParams{FromDay: p.from, ToDay: p.to})
		return err
	})
}

// lockTimeout bounds the wait for all locks of a statement together, as store.LockPatience
// does for one: readers lock in another order.
const lockTimeout = "SET LOCAL statement_timeout = '900ms'"

// rename marks a detached partition and drops its foreign keys.
func rename(ctx context.Context, tx pgx.Tx, name string) error {
	keys, err := column[string](ctx, tx, db.PartitionForeignKeys, name)
	if err != nil {
		return err
	}

	table := pgx.Identifier{"actlog", name}.Sanitize()
	var sql strings.Builder
	for _, key := range keys {
		sql.WriteString("ALTER TABLE " + table + " DROP CONSTRAINT " + pgx.Identifier{key}.Sanitize() + ";")
	}
	sql.WriteString("ALTER TABLE " + table + " RENAME TO " + pgx.Identifier{droppingPrefix + name}.Sanitize())
	_, err = tx.Exec(ctx, sql.String())
	return err
}

func (u *Upkeep) dropDetached(ctx context.Context) error {
	left, err := column[string](ctx, u.db, db.PartitionDetached)
	errs := []error{err}
	for _, name := range left {
		errs = append(errs, u.dropTable(ctx, name))
	}
	return errors.Join(errs...)
}

// dropTable removes the texts of a detached partition from the search. Then it keeps its figures and drops it, in one
// transaction: figures are counted once. The search may have to be waited for, in vain: before the counting, which is
// long.
func (u *Upkeep) dropTable(ctx context.Context, name string) (err error) {
	defer func() { err = pg.Wrap(err, "drop %s", name) }()

	forgotten := false
	err = u.inTurnWith(ctx, name, func(tx pgx.Tx) (err error) {
		if !strings.HasPrefix(name, droppingPrefix+contentTable) {
			err = u.forgetFound(ctx, tx, "actlog."+name, time.Time{}, endOfTime)
		}
		forgotten = err == nil
		return err
	})
	if err != nil || !forgotten { // without an error, another server does it
		return err
	}

	dropped := false
	err = u.inTurnWith(ctx, name, func(tx pgx.Tx) error {
		if strings.HasPrefix(name, droppingPrefix+"act_tool_info") {
			if err := u.saveFigures(ctx, tx, "actlog."+name); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, "DROP TABLE actlog."+name); err != nil {
			return err
		}
		dropped = true
		return nil
	})
	if err == nil && dropped {
		u.counters.partitionsDropped.Add(1)
	}
	return err
}

// inTurnWith is inTurn for dropping a detached partition, which is locked. It runs nothing if the partition is gone.
func (u *Upkeep) inTurnWith(ctx context.Context, name string, f func(pgx.Tx) error) error {
	return u.inTurn(ctx, taskRetention, func(tx pgx.Tx) error {
		var exists bool
		err := tx.QueryRow(ctx, "SELECT to_regclass('actlog.' || $1) IS NOT NULL", name).Scan(&exists)
		if err != nil || !exists {
			return err
		}
		if _, err := tx.Exec(ctx, "LOCK TABLE actlog."+name+" IN ACCESS EXCLUSIVE MODE"); err != nil {
			return err
		}
		return f(tx)
	})
}

// saveFigures counts the tool calls of a table and saves the links of sub-plans that they
// show.
func (u *Upkeep) saveFigures(ctx context.Context, tx pgx.Tx, table string) error {
	// Every row counts, so the whole table is read.
	if _, err := tx.Exec(
		ctx, "SET LOCAL enable_seqscan = on; SET LOCAL enable_hashjoin = on; SET LOCAL work_mem = '64MB'",
	); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, countCalls(table)); err != nil {
		return fmt.Errorf("count tool calls: %w", err)
	}

	var from, to *time.Time
	if err := tx.QueryRow(ctx, "SELECT min(part), max(part) + 1 FROM "+table).Scan(&from, &to); err != nil || from == nil {
		return err
	}
	return u.saveLinks(ctx, tx, table, *from, *to)
}

// dropFromDefault drops a part for which no partition was ever made.
func (u *Upkeep) dropFromDefault(ctx context.Context, p period) error {
	err := u.inTurn(ctx, taskRetention, func(tx pgx.Tx) error {
		noted, err := u.queries.DetailDropped(ctx, tx, db.DetailDroppedParams{FromDay: p.from, ToDay: p.to})
		if err != nil || noted == 0 { // another server was quicker
			return err
		}

		for _, table := range []string{callTable, cycleTable} {
			if err := u.forgetFound(ctx, tx, table+"_default", p.from, p.to); err != nil {
				return err
			}
		}

		if _, err := tx.Exec(ctx, "WITH gone AS (DELETE FROM actlog.act_tool_info_default WHERE part = $1 RETURNING *)"+
			countCalls("gone"), p.from); err != nil {
			return err
		}
		for _, table := range []string{"think_act_record", contentTable} {
			if _, err := tx.Exec(ctx, "DELETE FROM actlog."+table+"_default WHERE part = $1", p.from); err != nil {
				return err
			}
		}
		return nil
	})
	return pg.Wrap(err, "drop from the default partitions")
}

// sweepLateDetail removes cycles and tool calls that were written after their period was
// dropped. They are in no figure.
func (u *Upkeep) sweepLateDetail(ctx context.Context) error {
	for _, table := range partitionedTables {
		err := untilDone(func() (more bool, err error) {
			tag, err := u.db.Exec(ctx, `DELETE FROM actlog.`+table+`_default WHERE ctid = ANY (ARRAY(
				SELECT t.ctid FROM actlog.`+table+`_default AS t
				JOIN actlog.dropped_detail AS d ON t.part >= d.from_day AND t.part < d.to_day
				LIMIT 5000 FOR UPDATE OF t SKIP LOCKED))`)
			return tag.RowsAffected() > 0, err
		})
		if err != nil {
			return fmt.Errorf("sweep late detail: %w", err)
		}
	}
	return nil
}
