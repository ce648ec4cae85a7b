package upkeep

import (
	"context"
	"fmt"
	"time"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/store"
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
		var marked []string
		if err := u.store.InTx(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
			marked, err = u.interrupt(ctx, tx, roots, since, silent)
			return err
		}); err != nil {
			return fmt.Errorf("interrupt dead runs: %w", err)
		}
		if len(marked) > 0 {
			u.counters.runsInterrupted.Add(uint64(len(marked)))
			u.log.Info("marked runs as interrupted: they sent no sign of life any more", "runs", len(marked), "first", marked[0])
		}
		unseen.AfterID = roots[len(roots)-1]
	}
}

// interrupt marks those of some trees that are dead, and returns them. Trees to which somebody writes
// have their turn in the next round.
func (u *Upkeep) interrupt(ctx context.Context, tx *store.Tx, roots []string, since reading, silent time.Duration) (marked []string, err error) {
	free, err := u.queries.PlanLockFree(ctx, tx, roots)
	if err != nil || len(free) == 0 {
		return nil, err
	}
	// From here on these trees have no new heartbeats, so each is from before this reading.
	now, err := u.readClock(ctx, tx)
	if err != nil || !now.agrees(since, silent) {
		return nil, err
	}
	dead, err := u.queries.PlanUnseen(ctx, tx, db.PlanUnseenParams{Since: now.clock.Add(-silent), Until: now.clock, Among: free})
	if err != nil || len(dead) == 0 {
		return nil, err
	}
	save, ends := db.InterruptedSaveParams{}, map[string]*time.Time{}
	for _, d := range dead {
		save.RootPlanIds, save.EndTimes = append(save.RootPlanIds, d.RootPlanID), append(save.EndTimes, d.LastSeenAt.Time)
		ends[d.RootPlanID] = new(d.LastSeenAt.Time)
	}
	rows, err := u.queries.InterruptedSave(ctx, tx, save)
	if err != nil {
		return nil, err
	}
	changes := make([]record.Change, len(rows))
	for i, r := range rows {
		changes[i] = mark(r, ends[r.RootPlanID])
	}
	result, err := tx.Write(ctx, changes)
	if err == nil && len(result.Rejected) > 0 { // else they would be found, and refused, again and again
		err = result.Rejected[0].Err
	}
	return save.RootPlanIds, err
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
			RootPlanID: r.RootPlanID, StepID: r.StepID, PlanID: r.OtherID, Attempt: attempt, State: state, ErrorKind: kind, EndTime: end,
		}
	case record.KindThinkAct: // it is not known in which half it ended
		return &record.ThinkAct{
			RootPlanID: r.RootPlanID, StepID: r.StepID, Seq: int64(r.Seq), Attempt: attempt, State: state, ErrorKind: kind,
		}
	case record.KindActTool:
		return &record.ActTool{
			RootPlanID: r.RootPlanID, StepID: r.StepID, Seq: int64(r.Seq), ToolCallID: r.ID, Attempt: attempt, State: state, ErrorKind: kind, EndTime: end,
		}
	default:
		return &record.Plan{RootPlanID: r.RootPlanID, CurrentPlanID: r.ID, State: state, ErrorKind: kind, EndTime: end}
	}
}
