package upkeep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/record"
)

// interruptDead marks what has not ended of the runs that sent signs of life and then none for as
// long as silent, by the clock of the database. It writes no revision, and a state that settles
// little, so the true outcome of a run wins whenever it is written. A sign of life undoes the mark.
// If the clock does not agree with since, nothing is marked.
func (u *Upkeep) interruptDead(ctx context.Context, since reading, silent time.Duration) error {
	clock := since.clock.Add(u.now().Sub(since.at))
	unseen := db.PlanUnseenParams{Since: clock.Add(-silent), Until: clock}
	for {
		page, err := u.queries.PlanUnseen(ctx, u.db, unseen)
		if err != nil {
			return fmt.Errorf("look for dead runs: %w", err)
		}
		if len(page) == 0 {
			return nil
		}

		roots := make([]string, len(page))
		for i, p := range page {
			roots[i] = p.RootPlanID
		}
		unseen.AfterID = roots[len(roots)-1]
		if err := u.interruptPage(ctx, roots, since, silent); err != nil {
			return fmt.Errorf("interrupt dead runs: %w", err)
		}
	}
}

// interruptPage marks those of some trees that are dead, in one transaction. A tree that cannot be
// marked does not keep the others from it.
func (u *Upkeep) interruptPage(ctx context.Context, roots []string, since reading, silent time.Duration) error {
	var marked []string
	err := u.store.InTx(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		marked, err = u.interrupt(ctx, tx, roots, since, silent)
		return err
	})

	var refused *refusedError
	if errors.As(err, &refused) {
		u.log.Warn("a silent run cannot be marked as interrupted", "plan", refused.root, "error", refused.err)
		return u.interruptPage(ctx, slices.DeleteFunc(roots, func(r string) bool { return r == refused.root }), since, silent)
	}

	if err == nil && len(marked) > 0 {
		u.counters.runsInterrupted.Add(uint64(len(marked)))
		u.log.Info("marked runs as interrupted: they sent no sign of life any more", "runs", len(marked), "first", marked[0])
	}
	return err
}

type refusedError struct {
	root string
	err  error
}

func (e *refusedError) Error() string { return fmt.Sprintf("mark plan %s: %v", e.root, e.err) }

// interrupt marks those of some trees that are dead, and returns them. Trees to which somebody writes
// have their turn in the next round.
func (u *Upkeep) interrupt(
	ctx context.Context, tx *store.Tx, roots []string, since reading, silent time.Duration,
) (marked []string, err error) {
	free, err := u.queries.PlanLockFree(ctx, tx, roots)
	if err != nil || len(free) == 0 {
		return nil, err
	}

	// From here on these trees have no new heartbeats, so each is from before this reading.
	now, err := u.readClock(ctx, tx)
	if err != nil || !now.agrees(since, silent) {
		return nil, err
	}
	dead, err := u.queries.PlanUnseen(ctx, tx, db.PlanUnseenParams{
		Since: now.clock.Add(-silent), Until: now.clock, Among: free,
	})
	if err != nil || len(dead) == 0 {
		return nil, err
	}

	marked = make([]string, len(dead))
	ends, endOf := make([]*time.Time, len(dead)), map[string]*time.Time{}
	for i, d := range dead {
		marked[i], ends[i] = d.RootPlanID, end(d.LastSeenAt)
		endOf[d.RootPlanID] = ends[i]
	}

	found, err := tx.Query(ctx, db.InterruptedSave, marked, ends)
	if err != nil {
		return nil, err
	}
	rows, err := pgx.CollectRows(found, pgx.RowToStructByPos[db.InterruptedSaveRow])
	if err != nil {
		return nil, err
	}

	changes := make([]record.Change, len(rows))
	for i, r := range rows {
		changes[i] = mark(r, endOf[r.RootPlanID])
	}
	result, err := tx.Mark(ctx, changes)
	if err == nil && len(result.Rejected) > 0 { // else it would be found, and refused, again and again
		r := result.Rejected[0]
		err = &refusedError{changes[r.Index].Key().Root, r.Err}
	}
	return marked, err
}

// end is when a run ended that was last seen at some time.
func end(lastSeen pgtype.Timestamptz) *time.Time {
	if !lastSeen.Valid {
		return nil
	}
	return &lastSeen.Time
}

// mark is the change that interrupts a row.
func mark(r db.InterruptedSaveRow, end *time.Time) record.Change {
	state, kind := new(record.Interrupted), new(record.NotSeen)
	var attempt *int64
	if r.Attempt != nil {
		attempt = new(int64(*r.Attempt))
	}

	switch record.Kind(r.Kind) {
	case record.KindAgentExecution:
		return &record.AgentExecution{
			RootPlanID: r.RootPlanID, StepID: r.StepID, PlanID: r.OtherID, Attempt: attempt, State: state, ErrorKind: kind,
			EndTime: end,
		}
	case record.KindThinkAct: // it is not known in which half it ended
		return &record.ThinkAct{
			RootPlanID: r.RootPlanID, StepID: r.StepID, Seq: int64(r.Seq), Attempt: attempt, State: state, ErrorKind: kind,
		}
	case record.KindActTool:
		return &record.ActTool{
			RootPlanID: r.RootPlanID, StepID: r.StepID, Seq: int64(r.Seq), ToolCallID: r.ID, Attempt: attempt, State: state,
			ErrorKind: kind, EndTime: end,
		}
	default:
		return &record.Plan{RootPlanID: r.RootPlanID, CurrentPlanID: r.ID, State: state, ErrorKind: kind, EndTime: end}
	}
}
