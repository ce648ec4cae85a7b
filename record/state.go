package record

import "slices"

// State is what truly happened to a plan, a step, a cycle, a tool call or a wait. Status and
// completed follow from it.
type State string

// The states of plans, steps, cycles and tool calls.
const (
	Pending          State = "PENDING"
	Idle             State = "IDLE" // agent executions only: planned, not started
	Running          State = "RUNNING"
	Waiting          State = "WAITING"
	Paused           State = "PAUSED"
	AwaitingApproval State = "AWAITING_APPROVAL" // tool calls only
	Completed        State = "COMPLETED"
	Failed           State = "FAILED"
	Cancelled        State = "CANCELLED"
	Skipped          State = "SKIPPED"
	Blocked          State = "BLOCKED"
	Interrupted      State = "INTERRUPTED"
	Unknown          State = "UNKNOWN"
)

// The states that only waits reach. They begin as [Waiting].
const (
	Submitted State = "SUBMITTED"
	Accepted  State = "ACCEPTED"
	Modified  State = "MODIFIED"
	Approved  State = "APPROVED"
	Rejected  State = "REJECTED"
	TimedOut  State = "TIMED_OUT"
)

// NotSeen is the error kind of what a server marked INTERRUPTED because the process that ran it sent
// no sign of life any more. A later sign of life undoes the mark.
const NotSeen = "not_seen"

// Status is the three-valued view of a state that the executor API shows.
type Status string

// The statuses.
const (
	StatusIdle     Status = "IDLE"
	StatusRunning  Status = "RUNNING"
	StatusFinished Status = "FINISHED"
)

var states = func() map[Kind][]State {
	live := []State{Pending, Running, Waiting, Paused}
	terminal := []State{Completed, Failed, Cancelled, Skipped, Blocked, Interrupted, Unknown}
	with := func(extra ...State) []State { return slices.Concat(extra, live, terminal) }
	return map[Kind][]State{
		KindPlan:           with(),
		KindAgentExecution: with(Idle),
		KindThinkAct:       with(),
		KindActTool:        with(AwaitingApproval),
		KindWait:           {Waiting, Submitted, Accepted, Modified, Approved, Rejected, TimedOut, Cancelled},
	}
}()

// States returns the states of a kind; empty for kinds without states.
func States(k Kind) []State { return slices.Clone(states[k]) }

// InitialState is the state of a row of the kind for which none was set.
func InitialState(k Kind) State {
	switch k {
	case KindAgentExecution:
		return Idle
	case KindWait:
		return Waiting
	default:
		return Pending
	}
}

// Terminal reports whether the state is an end: only a higher attempt follows it.
func (s State) Terminal() bool { return s.Status() == StatusFinished }

// Status returns the view of the state that the executor API shows.
func (s State) Status() Status {
	switch s {
	case Pending, Idle:
		return StatusIdle
	case Running, Waiting, Paused, AwaitingApproval:
		return StatusRunning
	default:
		return StatusFinished
	}
}
