package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/record"
)

// Detail is dropped in two transactions a period. The first takes its partitions
// off their tables and notes the period: short, as it locks out everyone. The
// second counts the tool calls and drops what was taken off: long, and in
// nobody's way. Whatever interrupts them, the next round goes on from there.

// droppingPrefix marks a partition that was taken off its table.
const droppingPrefix = "dropping_"

// maxPartitions is how many partitions of a table may live: every read locks all.
const maxPartitions = 30

// period is a range of parts, from the first to before the last day.
type period struct {
	from, to time.Time
	children []child // partitions that hold it; none: the default ones do
}

type child struct{ table, name string }

func (p period) String() string {
	return p.from.Format(time.DateOnly) + " to " + p.to.AddDate(0, 0, -1).Format(time.DateOnly)
}

// keptPartitions is how many partitions of a table DetailDays keeps.
func (c Config) keptPartitions() int {
	return (c.DetailDays+c.PartitionDays-1)/c.PartitionDays + 1 + partitionsAhead
}

// dropDetail drops the cycles and tool calls of every period that has been over
// for so many days and has no live plan; 0: of none.
func (s *Store) dropDetail(ctx context.Context, days int) error {
	var errs []error
	if days > 0 {
		old, err := s.oldPeriods(ctx, days)
		errs = append(errs, err)
		for _, p := range old {
			if err := s.dropPeriod(ctx, p); err != nil {
				errs = append(errs, fmt.Errorf("the days %s: %w", p, err))
			}
		}
	}
	// What an earlier round, perhaps another server's, began.
	errs = append(errs, s.buryAll(ctx), s.sweepLateDetail(ctx))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("dropping detail: %w", err)
	}
	return nil
}

// oldPeriods lists the periods that have been over for so many days: those of
// partitions, then those whose rows are in a default partition.
func (s *Store) oldPeriods(ctx context.Context, days int) ([]period, error) {
	var all []period
	err := s.inTurn(ctx, func(tx pgx.Tx) error {
		var today time.Time
		if err := tx.QueryRow(ctx, "SELECT (now() AT TIME ZONE 'utc')::date").Scan(&today); err != nil {
			return err
		}
		// The last part may have been made with another period than the partition's.
		old := func(p period) bool {
			over := periodStart(p.to.AddDate(0, 0, -1), s.config.PartitionDays).AddDate(0, 0, s.config.PartitionDays)
			return !over.After(today.AddDate(0, 0, -days))
		}
		rows, err := tx.Query(ctx, `
			SELECT p.relname, c.relname, b.bounds[1]::date, b.bounds[2]::date
			FROM pg_inherits AS i
			JOIN pg_class AS p ON p.oid = i.inhparent
			JOIN pg_class AS c ON c.oid = i.inhrelid
			CROSS JOIN LATERAL regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \(''([0-9-]+)''\) TO \(''([0-9-]+)''\)') AS b (bounds)
			WHERE p.relnamespace = 'actlog'::regnamespace AND p.relname = ANY ($1) AND b.bounds IS NOT NULL
			ORDER BY 3, 4, p.relname DESC`, partitionedTables) // think-acts before tools, as writers go
		if err != nil {
			return err
		}
		var p period
		var c child
		_, err = pgx.ForEachRow(rows, []any{&c.table, &c.name, &p.from, &p.to}, func() error {
			if n := len(all); n > 0 && all[n-1].from.Equal(p.from) && all[n-1].to.Equal(p.to) {
				all[n-1].children = append(all[n-1].children, c)
			} else if old(p) {
				all = append(all, period{p.from, p.to, []child{c}})
			}
			return nil
		})
		if err != nil {
			return err
		}
		rows, err = tx.Query(ctx, `
			SELECT d.part FROM (SELECT part FROM actlog.think_act_record_default UNION SELECT part FROM actlog.act_tool_info_default) AS d
			WHERE NOT EXISTS (SELECT FROM actlog.dropped_detail AS x WHERE d.part >= x.from_day AND d.part < x.to_day)
			ORDER BY 1`)
		if err != nil {
			return err
		}
		_, err = pgx.ForEachRow(rows, []any{&p.from}, func() error {
			if p.to = p.from.AddDate(0, 0, 1); old(p) {
				all = append(all, period{from: p.from, to: p.to})
			}
			return nil
		})
		return err
	})
	return all, err
}

func (s *Store) dropPeriod(ctx context.Context, p period) error {
	live, err := s.reads.PlanLive(ctx, s.pool, db.PlanLiveParams{FromDay: p.from, ToDay: p.to})
	if err != nil {
		return fmt.Errorf("looking for live plans: %w", err)
	}
	if len(live) > 0 {
		s.log.Warn("detail is kept beyond its days: plans have not ended", "days", p.String(), "plans", live)
		return nil
	}
	if len(p.children) == 0 {
		return s.dropFromDefault(ctx, p)
	}
	// Links first, or the tree would be without until the second transaction.
	if err := s.saveLinks(ctx, s.pool, "actlog.act_tool_info", p.from, p.to); err != nil {
		return err
	}
	if err := s.detach(ctx, p); err != nil {
		return fmt.Errorf("detaching: %w", err)
	}
	for _, c := range p.children {
		if err := s.bury(ctx, droppingPrefix+c.name); err != nil {
			return err
		}
	}
	s.log.Info("dropped detail", "days", p.String())
	return nil
}

// inTurn runs f in a transaction, unless another server is at it: then in none.
// Its locks give way to long reports: a statement that waits for one would hold
// up every writer behind it.
func (s *Store) inTurn(ctx context.Context, f func(pgx.Tx) error) error {
	return s.transact(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, giveWay+"; SET LOCAL datestyle = 'ISO'"); err != nil {
			return err
		}
		var mine bool
		if err := tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock(hashtext('actlog.retention'))").Scan(&mine); err != nil || !mine {
			return err
		}
		return f(tx)
	})
}

// detach takes the partitions of a period off their tables and notes the period,
// from when on roll-ups stay as they are. Late detail goes to the default ones.
func (s *Store) detach(ctx context.Context, p period) error {
	// The foreign keys go, or trees could not be deleted until the second transaction.
	locks, alter := []string{"actlog.agent_execution_record"}, []string{}
	for _, c := range p.children {
		table, name := "actlog."+c.table, "actlog."+c.name
		locks = append(locks, "ONLY "+table, table+"_default", name)
		alter = append(alter, "ALTER TABLE "+table+" DETACH PARTITION "+name)
	}
	return s.inTurn(ctx, func(tx pgx.Tx) error {
		var held int // not there any more, or not ours
		err := tx.QueryRow(ctx, `SELECT count(*) FROM pg_class WHERE relnamespace = 'actlog'::regnamespace
			AND relname = ANY ($1) AND relispartition`, p.names()).Scan(&held)
		if err != nil || held != len(p.children) {
			return err
		}
		var owned bool // before anything is locked
		err = tx.QueryRow(ctx, `SELECT bool_and(pg_has_role(relowner, 'USAGE')) AND has_schema_privilege('actlog', 'CREATE') FROM pg_class
			WHERE relnamespace = 'actlog'::regnamespace AND relname = ANY ($1)`, append(p.names(), partitionedTables...)).Scan(&owned)
		if err != nil {
			return err
		}
		if !owned {
			return errNotOwner
		}
		// Of all locks together, see giveWay: readers lock in another order.
		if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = '900ms'"); err != nil {
			return err
		}
		// Every writer begins with plans: who waits there holds nothing.
		lock := "LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE; LOCK TABLE " + strings.Join(locks, ", ") + " IN ACCESS EXCLUSIVE MODE"
		if _, err := tx.Exec(ctx, lock); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, strings.Join(alter, "; ")); err != nil {
			return err
		}
		for _, c := range p.children {
			var drop string
			err := tx.QueryRow(ctx, `SELECT COALESCE(string_agg(format('ALTER TABLE %s DROP CONSTRAINT %I;', conrelid::regclass, conname), ' '), '')
				FROM pg_constraint WHERE contype = 'f' AND conrelid = ('actlog.' || $1)::regclass`, c.name).Scan(&drop)
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, drop+"ALTER TABLE actlog."+c.name+" RENAME TO "+droppingPrefix+c.name); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, "INSERT INTO actlog.dropped_detail (from_day, to_day) VALUES ($1, $2)", p.from, p.to)
		return err
	})
}

func (p period) names() (names []string) {
	for _, c := range p.children {
		names = append(names, c.name)
	}
	return names
}

// errNotOwner says that only the owner of the tables may drop detail.
var errNotOwner = errors.New("not the owner of the tables")

// buryAll drops what was taken off the tables and is still there.
func (s *Store) buryAll(ctx context.Context) error {
	rows, err := s.pool.Query(ctx, `SELECT relname::text FROM pg_class
		WHERE relnamespace = 'actlog'::regnamespace AND relkind = 'r' AND relname LIKE 'dropping\_%' AND pg_has_role(relowner, 'USAGE') ORDER BY 1`)
	if err != nil {
		return err
	}
	left, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range left {
		errs = append(errs, s.bury(ctx, name))
	}
	return errors.Join(errs...)
}

// bury keeps what is worth it of a partition that was taken off its table, and
// drops it, in one transaction: figures are counted once.
func (s *Store) bury(ctx context.Context, name string) error {
	dropped := false
	err := s.inTurn(ctx, func(tx pgx.Tx) error {
		var there bool
		if err := tx.QueryRow(ctx, "SELECT to_regclass('actlog.' || $1) IS NOT NULL", name).Scan(&there); err != nil || !there {
			return err
		}
		if _, err := tx.Exec(ctx, "LOCK TABLE actlog."+name+" IN ACCESS EXCLUSIVE MODE"); err != nil {
			return err
		}
		if strings.HasPrefix(name, droppingPrefix+"act_tool_info") {
			// Every row counts, so tables are gone through.
			if _, err := tx.Exec(ctx, "SET LOCAL enable_seqscan = on; SET LOCAL work_mem = '64MB'"); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, sqlToolDaily("actlog."+name)); err != nil {
				return fmt.Errorf("counting tool calls: %w", err)
			}
			var from, to *time.Time
			if err := tx.QueryRow(ctx, "SELECT min(part), max(part) + 1 FROM actlog."+name).Scan(&from, &to); err != nil {
				return err
			}
			if from != nil {
				if err := s.saveLinks(ctx, tx, "actlog."+name, *from, *to); err != nil {
					return err
				}
			}
		}
		if _, err := tx.Exec(ctx, "DROP TABLE actlog."+name); err != nil {
			return err
		}
		dropped = true
		return nil
	})
	if err != nil {
		return fmt.Errorf("dropping %s: %w", name, err)
	}
	if dropped {
		s.counters.partitionsDropped.Add(1)
	}
	return nil
}

// dropFromDefault drops a part that no partition was ever made for.
func (s *Store) dropFromDefault(ctx context.Context, p period) error {
	if err := s.saveLinks(ctx, s.pool, "actlog.act_tool_info", p.from, p.to); err != nil {
		return err
	}
	err := s.inTurn(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, "INSERT INTO actlog.dropped_detail (from_day, to_day) VALUES ($1, $2) ON CONFLICT DO NOTHING", p.from, p.to)
		if err != nil || tag.RowsAffected() == 0 { // another server was quicker
			return err
		}
		if _, err := tx.Exec(ctx, "WITH gone AS (DELETE FROM actlog.act_tool_info_default WHERE part = $1 RETURNING *)"+sqlToolDaily("gone"), p.from); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "DELETE FROM actlog.think_act_record_default WHERE part = $1", p.from)
		return err
	})
	if err != nil {
		return fmt.Errorf("dropping from the default partitions: %w", err)
	}
	return nil
}

// sweepLateDetail removes cycles and tool calls that were told after their period
// was dropped. They are in no figure.
func (s *Store) sweepLateDetail(ctx context.Context) error {
	for _, table := range partitionedTables {
		for more := true; more; {
			tag, err := s.pool.Exec(ctx, `DELETE FROM actlog.`+table+`_default WHERE ctid = ANY (ARRAY(
				SELECT t.ctid FROM actlog.`+table+`_default AS t
				JOIN actlog.dropped_detail AS d ON t.part >= d.from_day AND t.part < d.to_day
				LIMIT 5000 FOR UPDATE OF t SKIP LOCKED))`)
			if err != nil {
				return fmt.Errorf("sweeping late detail: %w", err)
			}
			more = tag.RowsAffected() > 0
		}
	}
	return nil
}

// linkPage is how many sub-plans get their links in one statement.
const linkPage = 1000

// saveLinks notes on every sub-plan of some parts which step it hangs under, as
// PlanTree finds it through the tool calls in a table. Plans are locked in the
// order of the writers.
func (s *Store) saveLinks(ctx context.Context, conn db.DBTX, table string, from, to time.Time) error {
	for part := from; part.Before(to); part = part.AddDate(0, 0, 1) {
		root, plan := "", ""
		for more := true; more; {
			var pages int
			var lastRoot, lastPlan *string
			err := conn.QueryRow(ctx, `
				WITH page AS MATERIALIZED (
					SELECT p.root_plan_id, p.current_plan_id, p.tool_call_id, p.part
					FROM actlog.plan_execution_record AS p
					WHERE p.part = $1 AND p.tool_call_id IS NOT NULL AND (p.root_plan_id, p.current_plan_id) > ($2, $3)
					ORDER BY p.root_plan_id, p.current_plan_id
					LIMIT $4
				),
				link AS MATERIALIZED (
					SELECT page.root_plan_id, page.current_plan_id, t.step_id
					FROM page
					CROSS JOIN LATERAL (
						SELECT c.step_id
						FROM `+table+` AS c
						JOIN actlog.agent_execution_record AS a ON a.root_plan_id = c.root_plan_id AND a.step_id = c.step_id
						WHERE c.root_plan_id = page.root_plan_id AND c.tool_call_id = page.tool_call_id AND c.part = page.part
						ORDER BY a.start_time NULLS LAST, a.step_id, c.seq
						LIMIT 1
					) AS t
				),
				told AS MATERIALIZED (
					SELECT p.root_plan_id, p.current_plan_id, link.step_id
					FROM link
					JOIN actlog.plan_execution_record AS p ON p.root_plan_id = link.root_plan_id AND p.current_plan_id = link.current_plan_id
					WHERE p.parent_step_id IS DISTINCT FROM link.step_id
					ORDER BY p.root_plan_id, p.current_plan_id
					FOR NO KEY UPDATE OF p
				),
				saved AS (
					UPDATE actlog.plan_execution_record AS p
					SET parent_step_id = told.step_id
					FROM told
					WHERE p.root_plan_id = told.root_plan_id AND p.current_plan_id = told.current_plan_id
				),
				fed AS (
					INSERT INTO actlog.change (root_plan_id, kinds) SELECT DISTINCT root_plan_id, '{plan}'::text[] FROM told
				)
				SELECT count(*), (array_agg(root_plan_id ORDER BY root_plan_id DESC, current_plan_id DESC))[1],
					(array_agg(current_plan_id ORDER BY root_plan_id DESC, current_plan_id DESC))[1]
				FROM page`, part, root, plan, linkPage).Scan(&pages, &lastRoot, &lastPlan)
			if err != nil {
				return fmt.Errorf("saving the links of sub-plans: %w", err)
			}
			if more = pages == linkPage; more {
				root, plan = *lastRoot, *lastPlan
			}
		}
	}
	return nil
}

// sqlToolDaily adds the tool calls in a table to their daily figures. Calls of
// trees that were deleted meanwhile are in none.
func sqlToolDaily(table string) string {
	return `
		INSERT INTO actlog.tool_daily AS d (day, tool_name, server_name, project, calls, failures, total_ms, histogram)
		SELECT x.day, x.tool_name, x.server_name, x.project, sum(x.calls), sum(x.failures), COALESCE(sum(x.ms), 0),
			actlog.histogram(array_agg(x.bucket), array_agg(x.calls::bigint))
		FROM (
			SELECT s.day, s.tool_name, s.server_name, COALESCE(p.project, r.project, 'default') AS project, s.bucket,
				sum(s.calls) AS calls, sum(s.failures) AS failures, sum(s.ms) AS ms
			FROM (
				SELECT c.root_plan_id, c.step_id, c.day, c.tool_name, c.server_name, actlog.duration_bucket(c.ms) AS bucket,
					count(*) AS calls, count(*) FILTER (WHERE c.failed) AS failures, sum(c.ms) AS ms
				FROM (
					SELECT t.root_plan_id, t.step_id, COALESCE(t.name, '') AS tool_name, COALESCE(t.server_name, '') AS server_name,
						COALESCE((COALESCE(t.start_time, t.end_time) AT TIME ZONE 'utc')::date, t.part) AS day, t.state = 'FAILED' AS failed,
						CASE WHEN t.start_time IS NOT NULL AND t.end_time IS NOT NULL
							THEN GREATEST(0, round(1000 * extract(epoch FROM t.end_time - t.start_time)))::bigint END AS ms
					FROM ` + table + ` AS t
				) AS c
				GROUP BY 1, 2, 3, 4, 5, 6
			) AS s
			JOIN actlog.agent_execution_record AS a ON a.root_plan_id = s.root_plan_id AND a.step_id = s.step_id
			JOIN actlog.plan_execution_record AS p ON p.root_plan_id = a.root_plan_id AND p.current_plan_id = a.shown_plan_id
			JOIN actlog.plan_execution_record AS r ON r.root_plan_id = a.root_plan_id AND r.current_plan_id = a.root_plan_id
			GROUP BY 1, 2, 3, 4, 5
		) AS x
		GROUP BY 1, 2, 3, 4
		ORDER BY 1, 2, 3, 4
		ON CONFLICT (day, tool_name, server_name, project) DO UPDATE SET
			calls = d.calls + excluded.calls,
			failures = d.failures + excluded.failures,
			total_ms = d.total_ms + excluded.total_ms,
			histogram = actlog.add_histograms(d.histogram, excluded.histogram)`
}

// dropSpans drops the spans of traces from which nothing has come for so many days.
// The traces go first, some at a time: what comes of one later finds its rows made of
// spans that are no more.
func (s *Store) dropSpans(ctx context.Context, days int) error {
	for {
		n, err := s.reads.TraceForget(ctx, s.pool, int32(days))
		if err != nil {
			return fmt.Errorf("forgetting traces: %w", err)
		}
		if n == 0 {
			break
		}
	}
	var names []string
	err := s.inTurn(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT c.relname::text
			FROM pg_inherits AS i
			JOIN pg_class AS c ON c.oid = i.inhrelid
			WHERE i.inhparent = ('actlog.' || $1::text)::regclass AND COALESCE(
				substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''([0-9-]+)''\)')::date <= (now() AT TIME ZONE 'utc')::date - $2::integer,
				EXISTS (SELECT FROM actlog.otlp_span_default AS s WHERE s.part < (now() AT TIME ZONE 'utc')::date - $2::integer))
			ORDER BY 1`, spanTable, days)
		if err != nil {
			return err
		}
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return fmt.Errorf("looking for old spans: %w", err)
	}
	var errs []error
	for _, name := range names {
		if err := s.dropSpansIn(ctx, name, days); err != nil {
			errs = append(errs, fmt.Errorf("dropping spans in %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// dropSpansIn drops a partition of spans, or what is old in the default one. Those of
// traces that still grow move on to the present day.
func (s *Store) dropSpansIn(ctx context.Context, name string, days int) error {
	return s.inTurn(ctx, func(tx pgx.Tx) error {
		drop, partition := "DROP TABLE actlog."+name, name != spanTable+"_default"
		locks := "actlog.otlp_trace" // as who writes to traces, before their spans
		if partition {
			var owned *bool
			err := tx.QueryRow(ctx, `SELECT bool_and(pg_has_role(relowner, 'USAGE')) FROM pg_class
				WHERE relnamespace = 'actlog'::regnamespace AND relname = $1 AND relispartition`, name).Scan(&owned)
			switch {
			case err != nil || owned == nil: // another server was quicker
				return err
			case !*owned:
				return errNotOwner
			}
			locks += ", ONLY actlog." + spanTable + ", actlog." + name
		} else {
			drop = fmt.Sprintf("DELETE FROM actlog.%s WHERE part < (now() AT TIME ZONE 'utc')::date - %d", name, days)
		}
		for _, sql := range []string{
			"SET LOCAL statement_timeout = '900ms'", // of all locks together, see giveWay
			"LOCK TABLE " + locks + " IN ACCESS EXCLUSIVE MODE",
			"SET LOCAL statement_timeout = 0",
			fmt.Sprintf(`
				WITH moved AS (
					UPDATE actlog.otlp_trace AS t
					SET part = (now() AT TIME ZONE 'utc')::date
					FROM actlog.otlp_trace AS old
					WHERE old.trace_id = t.trace_id AND t.part < (now() AT TIME ZONE 'utc')::date - %d
						AND EXISTS (SELECT FROM actlog.%s AS s WHERE s.trace_id = t.trace_id AND s.part = t.part)
					RETURNING t.trace_id, old.part AS from_part, t.part
				)
				INSERT INTO actlog.otlp_span (trace_id, part, id, spans)
				SELECT s.trace_id, moved.part, s.id, s.spans
				FROM moved JOIN actlog.%[2]s AS s ON s.trace_id = moved.trace_id AND s.part = moved.from_part`, days, name),
			drop,
		} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		if partition {
			s.counters.partitionsDropped.Add(1)
		}
		return nil
	})
}

// DeletePlan deletes the whole tree of a root plan, live or not, and nothing
// else. What is told about it later makes it anew, as a placeholder.
// [record.ErrNotFound] where there is no such plan; an [*record.InvalidError]
// where it is a sub-plan; [record.ErrUnavailable] after RetryFor.
func (s *Store) DeletePlan(ctx context.Context, rootPlanID string) error {
	root, err := read(ctx, s, func(conn db.DBTX) (string, error) { return s.reads.PlanRootOf(ctx, conn, rootPlanID) })
	if err != nil {
		return fmt.Errorf("deleting plan %s: %w", rootPlanID, err)
	}
	if root != rootPlanID {
		return fmt.Errorf("deleting plan %s: %w", rootPlanID, &record.InvalidError{
			Code: record.CodeInvalidRelation, Field: "planId", Reason: fmt.Sprintf("is a sub-plan of %s; delete its root", root),
		})
	}
	deadline := time.Now().Add(s.config.RetryFor)
	for attempt := 0; ; attempt++ {
		deleted, err := s.deleteTrees(ctx, []string{rootPlanID})
		switch {
		case err == nil && deleted == 0 && attempt == 0: // someone else did, a moment ago
			return fmt.Errorf("deleting plan %s: %w", rootPlanID, record.ErrNotFound)
		case err == nil:
			return nil
		case ctx.Err() == nil && transient(err) && time.Now().Before(deadline):
			if pause(ctx, backoff(attempt)) == nil {
				continue
			}
		case locked(err):
			err = &LockedError{RootPlanID: rootPlanID}
		}
		return fmt.Errorf("deleting plan %s: %w", rootPlanID, translate(err))
	}
}

// deleteTrees deletes trees in one transaction and tells how many there were.
func (s *Store) deleteTrees(ctx context.Context, roots []string) (deleted int, err error) {
	err = s.transact(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, giveWay); err != nil {
			return err
		}
		found, err := s.reads.TreeRoots(ctx, tx, roots)
		if err != nil || len(found) == 0 {
			return err
		}
		there, parts, kinds := []string{}, []time.Time{}, []string{}
		for _, f := range found {
			there = append(there, f.RootPlanID)
			kinds = append(kinds, Deleted)
			if !slices.ContainsFunc(parts, f.Part.Equal) {
				parts = append(parts, f.Part)
			}
		}
		var q pgx.Batch
		q.Queue(db.TreeDeleteSpans, there)
		q.Queue(db.TreeDeleteTraces, there)
		q.Queue(db.TreeDeleteActTools, there, parts)
		q.Queue(db.TreeDeleteThinkActs, there, parts)
		for _, sql := range []string{
			db.TreeDeleteThoughts, db.TreeDeleteArtifacts, db.TreeDeleteSources, db.TreeDeleteWaits, db.TreeDeleteAgentExecutions, db.TreeDeletePlans,
		} {
			q.Queue(sql, there)
		}
		q.Queue(db.ChangeAppend, there, kinds)
		deleted = len(there)
		return tx.SendBatch(ctx, &q).Close()
	})
	if err != nil {
		return 0, err
	}
	s.changed()
	s.counters.treesDeleted.Add(uint64(deleted))
	return deleted, nil
}

// deleteOutdated deletes the trees that ended and were first seen more than so
// many days ago; 0: none. One that someone is writing to has its turn in the next
// round.
func (s *Store) deleteOutdated(ctx context.Context, days int) error {
	if days == 0 {
		return nil
	}
	after := db.PlanOutdatedParams{KeepDays: int32(days)}
	total := 0
	for {
		page, err := s.reads.PlanOutdated(ctx, s.pool, after)
		if err != nil {
			return fmt.Errorf("deleting old plans: %w", err)
		}
		if len(page) == 0 {
			if total > 0 {
				s.log.Info("deleted old plans", "trees", total)
			}
			return nil
		}
		roots := make([]string, len(page))
		for i, p := range page {
			roots[i] = p.RootPlanID
		}
		n, err := s.deleteTrees(ctx, roots)
		if locked(err) { // not together, then one by one
			n, err = s.deleteSingly(ctx, roots)
		}
		if err != nil {
			return fmt.Errorf("deleting old plans: %w", err)
		}
		total += n
		after.AfterTime, after.AfterID = page[len(page)-1].FirstSeenAt, page[len(page)-1].RootPlanID
	}
}

func (s *Store) deleteSingly(ctx context.Context, roots []string) (deleted int, err error) {
	for _, root := range roots {
		n, err := s.deleteTrees(ctx, []string{root})
		if err != nil && !locked(err) {
			return deleted, err
		}
		deleted += n
	}
	return deleted, nil
}
