package upkeep

import (
	"context"
	"fmt"
	"time"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/record"
)

// NotSeen is the error kind of what was interrupted because its process sent no sign of life
// any more.
const NotSeen = "not_seen"

// interruptDead marks what has not ended of the runs that sent signs of life and then none for
// longer than silent; 0: none. It writes no revision, and a state that settles little, so the
// true outcome of a run wins whenever it is written.
func (u *Upkeep) interruptDead(ctx context.Context, silent time.Duration) error {
	if silent == 0 {
		return nil
	}
	after := ""
	for {
		dead, err := u.queries.PlanUnseen(ctx, u.db, db.PlanUnseenParams{AfterID: after, UnseenSeconds: silent.Seconds()})
		if err != nil {
			return fmt.Errorf("look for dead runs: %w", err)
		}
		if len(dead) == 0 {
			return nil
		}
		roots, ended := make([]string, len(dead)), map[string]*time.Time{}
		for i, d := range dead {
			roots[i], ended[d.RootPlanID] = d.RootPlanID, new(d.LastSeenAt.Time)
		}
		if err := u.interrupt(ctx, roots, ended); err != nil {
			return fmt.Errorf("interrupt dead runs: %w", err)
		}
		u.counters.runsInterrupted.Add(uint64(len(roots)))
		u.log.Info("marked runs as interrupted: they sent no sign of life any more", "runs", len(roots), "first", roots[0])
		after = roots[len(roots)-1]
	}
}

func (u *Upkeep) interrupt(ctx context.Context, roots []string, ended map[string]*time.Time) error {
	rows, err := u.queries.PlanUnfinished(ctx, u.db, roots)
	if err != nil {
		return err
	}
	state, kind := new(record.Interrupted), new(NotSeen)
	var plans, below []record.Change
	for _, r := range rows {
		end := ended[r.RootPlanID]
		var attempt *int64
		if r.Attempt != nil {
			attempt = new(int64(*r.Attempt))
		}
		switch record.Kind(r.Kind) {
		case record.KindPlan:
			plans = append(plans, &record.Plan{RootPlanID: r.RootPlanID, CurrentPlanID: r.ID, State: state, ErrorKind: kind, EndTime: end})
		case record.KindAgentExecution:
			below = append(below, &record.AgentExecution{
				RootPlanID: r.RootPlanID, StepID: r.ID, PlanID: r.OtherID, Attempt: attempt, State: state, ErrorKind: kind, EndTime: end,
			})
		case record.KindThinkAct: // it is not known in which half it ended
			below = append(below, &record.ThinkAct{
				RootPlanID: r.RootPlanID, StepID: r.ID, Seq: int64(r.Seq), Attempt: attempt, State: state, ErrorKind: kind,
			})
		case record.KindActTool:
			below = append(below, &record.ActTool{
				RootPlanID: r.RootPlanID, StepID: r.ID, Seq: int64(r.Seq), ToolCallID: r.OtherID, Attempt: attempt, State: state, ErrorKind: kind, EndTime: end,
			})
		}
	}
	// Plans last: a tree is found again as long as one of them is live.
	for _, changes := range [][]record.Change{below, plans} {
		result, err := u.store.Write(ctx, changes)
		if err != nil {
			return err
		}
		if len(result.Rejected) > 0 { // else they would be found, and refused, again and again
			return result.Rejected[0].Err
		}
	}
	return nil
}
