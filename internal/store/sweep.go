package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/record"
)

// NotSeen is the error kind of what was interrupted because its process gave no
// sign of life any more.
const NotSeen = "not_seen"

// keepUp does what Upkeep does for as long as the store is open: each hour, and
// after a minute where something failed; dead runs are looked for each minute, or
// more often where InterruptAfter is shorter.
func (s *Store) keepUp() {
	often := time.Minute
	if after := s.config.InterruptAfter; after > 0 {
		often = max(time.Second, min(often, after/2))
	}
	if s.config.DetailDays == 0 && s.config.KeepDays == 0 && s.config.InterruptAfter == 0 {
		if pause(s.upkeep, often) != nil {
			return
		}
	}
	// Who was away, or could not write, has missed signs of life: no run is dead
	// before its process had the time to give another.
	listening := time.Now()
	var due time.Time
	for {
		now := time.Now()
		var err error
		if listening = latest(listening, s.counters.failedAt()); now.Sub(listening) >= s.config.InterruptAfter {
			err = s.interruptDead(s.upkeep, s.config.InterruptAfter)
		}
		if !now.Before(due) {
			err = errors.Join(err, s.tidy(s.upkeep))
			if due = now.Add(time.Hour); err != nil {
				due = now.Add(time.Minute)
			}
		}
		switch {
		case s.upkeep.Err() != nil:
			return
		case err != nil:
			s.counters.upkeepFailures.Add(1)
			s.log.Warn("upkeep is tried again later", "error", err)
			listening = time.Now()
		}
		asleep := time.Now().Round(0) // by the wall clock: the other one sleeps, too
		if pause(s.upkeep, often) != nil {
			return
		}
		if time.Since(asleep) > 2*often {
			listening = time.Now()
		}
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Upkeep does at once what an open store does each hour by itself: it marks dead
// runs as interrupted, drops detail, spans and trees that are too old, and
// sweeps the change feed. Several servers may do it at the same time; each part
// is then done by one of them.
func (s *Store) Upkeep(ctx context.Context) error {
	if err := errors.Join(s.interruptDead(ctx, s.config.InterruptAfter), s.tidy(ctx)); err != nil {
		return fmt.Errorf("upkeep: %w", translate(err))
	}
	return nil
}

// tidy removes what is too old.
func (s *Store) tidy(ctx context.Context) error {
	done := []error{
		s.dropDetail(ctx, s.config.DetailDays), s.deleteOutdated(ctx, s.config.KeepDays), s.sweepChanges(ctx, s.config.ChangeHours),
	}
	if s.config.Project != nil { // others were not told how long spans are kept
		done = append(done, s.dropSpans(ctx, s.config.TraceDays))
	}
	var errs []error
	for _, err := range done {
		if errors.Is(err, errNotOwner) || sqlState(err) == "42501" { // whoever may will
			s.log.Debug("not allowed to do some upkeep", "error", err)
			err = nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (s *Store) sweepChanges(ctx context.Context, hours int) error {
	for {
		n, err := s.reads.ChangeSweep(ctx, s.pool, int32(hours))
		if err != nil {
			return fmt.Errorf("sweeping the change feed: %w", err)
		}
		if n == 0 {
			return nil
		}
	}
}

// interruptDead marks what has not ended of the runs that gave signs of life and
// then none for longer than that; 0: none. It tells no revision and a state that
// settles little, so what truly came of them still wins whenever it is told.
func (s *Store) interruptDead(ctx context.Context, silent time.Duration) error {
	if silent == 0 {
		return nil
	}
	after := ""
	for {
		dead, err := s.reads.PlanUnseen(ctx, s.pool, db.PlanUnseenParams{AfterID: after, UnseenSeconds: silent.Seconds()})
		if err != nil {
			return fmt.Errorf("looking for dead runs: %w", err)
		}
		if len(dead) == 0 {
			return nil
		}
		roots, ended := make([]string, len(dead)), map[string]*time.Time{}
		for i, d := range dead {
			roots[i], ended[d.RootPlanID] = d.RootPlanID, new(d.LastSeenAt.Time)
		}
		if err := s.interrupt(ctx, roots, ended); err != nil {
			return fmt.Errorf("interrupting dead runs: %w", err)
		}
		s.counters.runsInterrupted.Add(uint64(len(roots)))
		s.log.Info("interrupted runs that gave no sign of life any more", "runs", len(roots), "first", roots[0])
		after = roots[len(roots)-1]
	}
}

func (s *Store) interrupt(ctx context.Context, roots []string, ended map[string]*time.Time) error {
	rows, err := s.reads.PlanUnfinished(ctx, s.pool, roots)
	if err != nil {
		return err
	}
	state, kind := new(record.Interrupted), new(NotSeen)
	var plans, beneath []record.Change
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
			beneath = append(beneath, &record.AgentExecution{
				RootPlanID: r.RootPlanID, StepID: r.ID, PlanID: r.OtherID, Attempt: attempt, State: state, ErrorKind: kind, EndTime: end,
			})
		case record.KindThinkAct: // when which of its halves ended is not known
			beneath = append(beneath, &record.ThinkAct{
				RootPlanID: r.RootPlanID, StepID: r.ID, Seq: int64(r.Seq), Attempt: attempt, State: state, ErrorKind: kind,
			})
		case record.KindActTool:
			beneath = append(beneath, &record.ActTool{
				RootPlanID: r.RootPlanID, StepID: r.ID, Seq: int64(r.Seq), ToolCallID: r.OtherID, Attempt: attempt, State: state, ErrorKind: kind, EndTime: end,
			})
		}
	}
	// Plans last: a tree is found again for as long as one of them is live.
	for _, changes := range [][]record.Change{beneath, plans} {
		result, err := s.Write(ctx, changes)
		if err != nil {
			return err
		}
		if len(result.Rejected) > 0 { // they would be found, and refused, again and again
			return result.Rejected[0].Err
		}
	}
	return nil
}
