package store

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/actlog/actlog/internal/tree"
	"github.com/actlog/actlog/record"
)

// Cause is what a list says of the failures of a run.
type Cause struct {
	// Failed counts what failed by itself, see [tree.Failures]: of each kind of rows, among the last 50 that failed. What was
	// dropped for its age does not count.
	Failed int64
	// Failure is the cause as [tree.Cause] defines it; nil: nothing failed. Its nodes have no long texts.
	Failure *tree.Failure
	// Recovered reports that the run recovered from it.
	Recovered bool
}

// failedRow is a row of a tree in which something failed, as actlog.failed_rows returns it.
type failedRow struct {
	Kind         record.Kind   `json:"kind"`
	Plan         string        `json:"plan"`
	Parent       *string       `json:"parent"`
	Step         string        `json:"step"`
	Seq          int64         `json:"seq"`
	Call         *string       `json:"call"`
	Place        *int64        `json:"place"`
	Name         *string       `json:"name"`
	State        *record.State `json:"state"`
	ErrorKind    *string       `json:"error_kind"`
	ErrorMessage *string       `json:"error_message"`
	Began        *time.Time    `json:"began"` // the first attempt
	StartTime    *time.Time    `json:"start_time"`
	EndTime      *time.Time    `json:"end_time"`
}

// causeOf finds the cause of the failure of a run in the rows of its tree that failed and those above them.
func causeOf(root string, rows json.RawMessage) (c Cause, err error) {
	if rows == nil {
		return c, nil
	}
	var failed []failedRow
	if err := json.Unmarshal(rows, &failed); err != nil {
		return c, fmt.Errorf("read the failed rows of %s: %w", root, err)
	}
	n := new(nodes)
	cycles := map[failedCycle]bool{}
	for i := range failed {
		r := &failed[i]
		if r.Kind == record.KindThinkAct {
			cycles[failedCycle{r.Step, r.Seq}] = true
		}
		r.addTo(n, root)
	}
	for _, t := range n.calls { // of one that did not fail, nothing more is needed
		if key := (failedCycle{t.Record.StepID, t.Record.Seq}); !cycles[key] {
			cycles[key] = true
			n.cycles = append(n.cycles, &tree.Cycle{Record: record.ThinkAct{RootPlanID: root, StepID: key.step, Seq: key.seq}})
		}
	}
	p := n.build(root)
	if p == nil {
		return c, nil
	}
	tree.Nest(n.steps, n.cycles, n.calls)
	failures := tree.Failures(p)
	at, recovered := tree.Cause(failures)
	if at >= 0 {
		c = Cause{Failed: int64(len(failures)), Failure: &failures[at], Recovered: recovered}
	}
	return c, nil
}

type failedCycle struct {
	step string
	seq  int64
}

// addTo adds the row to those of its tree.
func (r *failedRow) addTo(n *nodes, root string) {
	for _, t := range []*time.Time{r.Began, r.StartTime, r.EndTime} {
		if t != nil {
			*t = t.UTC()
		}
	}
	var earlier []record.Attempt
	if r.Began != nil && (r.StartTime == nil || r.Began.Before(*r.StartTime)) {
		earlier = []record.Attempt{{StartTime: r.Began}}
	}
	switch r.Kind {
	case record.KindPlan:
		n.plans = append(n.plans, &planNode{Plan: tree.Plan{ParentStepID: r.Step, Record: record.Plan{
			RootPlanID: root, CurrentPlanID: r.Plan, ParentPlanID: r.Parent, ToolCallID: r.Call, Title: r.Name, State: r.State,
			ErrorKind: r.ErrorKind, ErrorMessage: r.ErrorMessage, StartTime: r.StartTime, EndTime: r.EndTime,
		}}})
	case record.KindAgentExecution:
		n.steps = append(n.steps, &tree.Step{PastAttempts: earlier, Record: record.AgentExecution{
			RootPlanID: root, PlanID: r.Plan, StepID: r.Step, StepIndex: r.Place, AgentName: r.Name, State: r.State,
			ErrorKind: r.ErrorKind, ErrorMessage: r.ErrorMessage, StartTime: r.StartTime, EndTime: r.EndTime,
		}})
	case record.KindThinkAct:
		n.cycles = append(n.cycles, &tree.Cycle{Record: record.ThinkAct{
			RootPlanID: root, StepID: r.Step, Seq: r.Seq, State: r.State,
			ErrorKind: r.ErrorKind, ErrorMessage: r.ErrorMessage, ThinkStartTime: r.StartTime, ThinkEndTime: r.EndTime,
		}})
	case record.KindActTool:
		n.calls = append(n.calls, &tree.ToolCall{PastAttempts: earlier, Record: record.ActTool{
			RootPlanID: root, StepID: r.Step, Seq: r.Seq, ToolCallID: *r.Call, CallIndex: r.Place, Name: r.Name, State: r.State,
			ErrorKind: r.ErrorKind, ErrorMessage: r.ErrorMessage, StartTime: r.StartTime, EndTime: r.EndTime,
		}})
	}
}
