package engine

import (
	"time"

	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// closing ends the open rows of a run when the run ends.
type closing struct {
	run    *Run
	state  record.State // of the run
	why    *RunError    // nil: it was completed
	at     time.Time
	acting map[cycleAt]bool // cycles whose calls have not all ended: whether one of them had begun
}

type cycleAt struct {
	step string
	seq  int64
}

// changes returns the changes that end what is live.
func (c *closing) changes(live []runstore.Live) (all []record.Change) {
	c.acting = map[cycleAt]bool{}
	for _, row := range live {
		if row.Kind == record.KindActTool {
			at := cycleAt{row.StepID, row.Seq}
			c.acting[at] = c.acting[at] || row.State == record.Running
		}
	}

	for _, row := range live {
		state, why := c.ending(row)
		all = append(all, c.endOf(row, state, why))
	}
	return all
}

// ending returns how a row ends, and why if that is an error. What is below the run is cancelled with it.
func (c *closing) ending(row runstore.Live) (record.State, *RunError) {
	if row.Kind == record.KindActTool {
		return c.endingOfCall(row), nil
	}
	if row.Kind == record.KindWait {
		return record.Cancelled, nil
	}
	if row.PlanID != c.run.run.PlanID || c.state == record.Cancelled {
		if c.state == record.Cancelled {
			return record.Cancelled, c.why
		}
		return record.Cancelled, nil
	}

	begun, acts := c.acting[cycleAt{row.StepID, row.Seq}]
	switch {
	case row.Kind == record.KindThinkAct && !row.Thinks && row.State != record.Pending &&
		(!acts || c.why == nil && !begun):
		return record.Completed, nil
	case c.why == nil: // the run was completed without it
		return record.Cancelled, nil
	}
	return c.state, c.why
}

// endingOfCall returns how a call ends. Of one that had begun nobody can say how it ended, but a run that it started is
// stopped.
func (c *closing) endingOfCall(row runstore.Live) record.State {
	switch {
	case row.State == record.Running && !row.Starts:
		return record.Unknown
	case row.State == record.Pending && c.state != record.Cancelled && row.PlanID == c.run.run.PlanID:
		return record.Skipped
	}
	return record.Cancelled
}

// endOf returns the change that ends a row in a state.
func (c *closing) endOf(row runstore.Live, state record.State, cause *RunError) record.Change {
	rootID := c.run.run.RootPlanID
	var kind, message *string
	if cause != nil {
		kind, message = optional.Pointer(cause.Kind), optional.Pointer(c.run.redact(cause.Message))
	}

	switch row.Kind {
	case record.KindPlan:
		return &record.Plan{
			RootPlanID: rootID, CurrentPlanID: row.PlanID, Attempt: row.Attempt, State: &state, EndTime: &c.at,
			ErrorKind: kind, ErrorMessage: message,
		}
	case record.KindAgentExecution:
		return &record.AgentExecution{
			RootPlanID: rootID, PlanID: row.PlanID, StepID: row.StepID, Attempt: row.Attempt, State: &state, EndTime: &c.at,
			ErrorKind: kind, ErrorMessage: message,
		}
	case record.KindThinkAct:
		cycle := &record.ThinkAct{
			RootPlanID: rootID, StepID: row.StepID, Seq: row.Seq, Attempt: row.Attempt, State: &state, ErrorKind: kind,
			ErrorMessage: message,
		}
		if row.Thinks { // otherwise the model call has ended already
			cycle.ThinkEndTime = &c.at
		}
		return cycle
	case record.KindActTool: // without an error: the step and the plan have the cause
		return &record.ActTool{
			RootPlanID: rootID, StepID: row.StepID, Seq: row.Seq, ToolCallID: row.ID, Attempt: row.Attempt, State: &state,
			EndTime: &c.at,
		}
	}
	return &record.Wait{RootPlanID: rootID, PlanID: row.PlanID, WaitID: row.ID, State: &state, EndTime: &c.at}
}
