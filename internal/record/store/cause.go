package store

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/record"
)

// Cause is what a list says of the state of a run and of its failures, as [tree.Explain] finds it.
type Cause struct {
	// Failed counts the failures.
	Failed int64
	// Failure is the cause, without the rows above it and with the beginning of its message; nil: there is none, or it is
	// an open question.
	Failure *tree.Failure
	// Recovered reports that the run went on after it.
	Recovered bool
	// Asks is the open question that is the cause, without its form; nil: it is none. AskingTool is the tool whose call
	// asked.
	Asks       *record.Wait
	AskingTool *string
}

type storedCause struct {
	Failed    int64    `json:"failed"`
	Recovered bool     `json:"recovered"`
	Row       *treeRow `json:"row"` // nil: there is no cause
	Kind      *string  `json:"kind"`
	Message   *string  `json:"message"`
	Text      string   `json:"text"`
	Tool      *string  `json:"tool"`
}

// treeRow is a row of a tree, as actlog.cause_evidence returns it, whatever its kind and its state.
type treeRow struct {
	Kind         record.Kind   `json:"kind"`
	Plan         string        `json:"plan"`
	Parent       *string       `json:"parent"` // of a wait, its id
	Step         *string       `json:"step"`
	Seq          int64         `json:"seq"`
	Call         *string       `json:"call"`
	Place        *int64        `json:"place"`
	Name         *string       `json:"name"`
	Form         *string       `json:"form"`
	State        *record.State `json:"state"`
	ErrorKind    *string       `json:"error_kind"` // of a wait, its type
	ErrorMessage *string       `json:"error_message"`
	Began        *time.Time    `json:"began"` // the first attempt
	StartTime    *time.Time    `json:"start_time"`
	EndTime      *time.Time    `json:"end_time"`
	ForkedFrom   *string       `json:"forked_from"`
}

// causeOf returns the cause that is stored or, if there is none, finds it in the rows from which it follows.
func causeOf(root string, document, rows json.RawMessage) (c Cause, err error) {
	var k storedCause
	switch {
	case document != nil:
		err = json.Unmarshal(document, &k)
	case rows != nil:
		k, _, err = explain(root, rows)
	}
	if err != nil {
		return c, fmt.Errorf("read the cause of %s: %w", root, err)
	}

	c.Failed, c.Recovered = k.Failed, k.Recovered
	if k.Row == nil {
		return c, nil
	}

	n := k.Row.node(root)
	if n.Wait != nil && n.State() == record.Waiting {
		c.Asks, c.AskingTool = n.Wait, k.Tool
		return c, nil
	}
	c.Failure = tree.StoredFailure(n, k.Kind, k.Message, k.Tool, k.Text)
	return c, nil
}

// explain finds the cause in the rows of a tree. at is the row of the cause; its plan is that of its step.
func explain(root string, rows json.RawMessage) (k storedCause, at tree.Node, err error) {
	var some []treeRow
	if err := json.Unmarshal(rows, &some); err != nil {
		return k, at, err
	}

	n, byNode := new(nodes), map[tree.Node]*treeRow{}
	seen := map[record.Key]bool{}
	for i := range some {
		node := some[i].node(root)
		if key := node.Record().Key(); !seen[key] {
			seen[key] = true
			byNode[n.add(node)] = &some[i]
		}
	}

	p := n.whole(root)
	if p == nil {
		return k, at, nil
	}

	found := tree.Explain(p)
	k.Failed, k.Recovered = int64(len(found.Failures)), found.Recovered
	if f := found.Cause; f != nil {
		at = f.Node()
		row := *byNode[at]
		row.ErrorMessage = shortError(row.ErrorMessage)
		if at.Cycle != nil || at.Call != nil { // reports name the plan
			row.Plan = stepAbove(found.Path).Record.PlanID
		}

		k.Row, k.Kind = &row, f.Kind
		k.Message, k.Text = shortError(f.Message), f.Text()
		k.Tool = f.Tool
	}
	return k, at, nil
}

func stepAbove(path []tree.Node) *tree.Step {
	for _, n := range slices.Backward(path) {
		if n.Step != nil {
			return n.Step
		}
	}
	return new(tree.Step)
}

func shortError(s *string) *string {
	if s == nil {
		return nil
	}
	return new(tree.Beginning(*s, titleChars))
}

func (r *treeRow) node(root string) tree.Node {
	for _, t := range []*time.Time{r.Began, r.StartTime, r.EndTime} {
		if t != nil {
			*t = t.UTC()
		}
	}

	var earlier []record.Attempt
	if r.Began != nil && (r.StartTime == nil || r.Began.Before(*r.StartTime)) {
		earlier = []record.Attempt{{StartTime: r.Began}}
	}

	step := optional.Value(r.Step)
	switch r.Kind {
	case record.KindAgentExecution:
		return tree.Node{Step: &tree.Step{PastAttempts: earlier, Record: record.AgentExecution{
			RootPlanID: root, PlanID: r.Plan, StepID: step, StepIndex: r.Place, AgentName: r.Name, State: r.State,
			ErrorKind: r.ErrorKind, ErrorMessage: r.ErrorMessage, StartTime: r.StartTime, EndTime: r.EndTime,
			ForkedFrom: r.ForkedFrom,
		}}}
	case record.KindThinkAct:
		return tree.Node{Cycle: &tree.Cycle{Record: record.ThinkAct{
			RootPlanID: root, StepID: step, Seq: r.Seq, State: r.State,
			ErrorKind: r.ErrorKind, ErrorMessage: r.ErrorMessage, ThinkStartTime: r.StartTime, ThinkEndTime: r.EndTime,
			ForkedFrom: r.ForkedFrom,
		}}}
	case record.KindActTool:
		return tree.Node{Call: &tree.ToolCall{PastAttempts: earlier, Record: record.ActTool{
			RootPlanID: root, StepID: step, Seq: r.Seq, ToolCallID: optional.Value(r.Call), CallIndex: r.Place, Name: r.Name,
			State:     r.State,
			ErrorKind: r.ErrorKind, ErrorMessage: r.ErrorMessage, StartTime: r.StartTime, EndTime: r.EndTime,
			ForkedFrom: r.ForkedFrom,
		}}}
	case record.KindWait:
		return tree.Node{Wait: &record.Wait{
			RootPlanID: root, PlanID: r.Plan, WaitID: optional.Value(r.Parent), StepID: r.Step, ToolCallID: r.Call,
			Type:  (*record.WaitType)(r.ErrorKind),
			Title: r.Name, FormDescription: r.Form, State: r.State, StartTime: r.StartTime, EndTime: r.EndTime,
		}}
	default:
		return tree.Node{Plan: &tree.Plan{ParentStepID: step, Record: record.Plan{
			RootPlanID: root, CurrentPlanID: r.Plan, ParentPlanID: r.Parent, ToolCallID: r.Call, Title: r.Name, State: r.State,
			ErrorKind: r.ErrorKind, ErrorMessage: r.ErrorMessage, StartTime: r.StartTime, EndTime: r.EndTime,
			ForkedFrom: r.ForkedFrom,
		}}}
	}
}

// add adds a row, and returns it as it is among the others.
func (n *nodes) add(row tree.Node) tree.Node {
	switch {
	case row.Plan != nil:
		p := &planNode{Plan: *row.Plan}
		n.plans = append(n.plans, p)
		return tree.Node{Plan: &p.Plan}
	case row.Step != nil:
		n.steps = append(n.steps, row.Step)
	case row.Cycle != nil:
		n.cycles = append(n.cycles, row.Cycle)
	case row.Call != nil:
		n.calls = append(n.calls, row.Call)
	case row.Wait != nil:
		n.waits = append(n.waits, row.Wait)
	}
	return row
}
