package agenttest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/record"
)

// Difference is what the code of today does otherwise than a recorded run.
type Difference struct {
	// At is the row: cycle:STEP/SEQ for what a model is asked, call:STEP/SEQ/CALL for a call of a tool, its arguments or
	// its result, step:STEP for what an agent is asked for, plan:PLAN for the result of a run.
	At string
	// Recorded is what is on record there. Empty: today's code does something there that the run did not.
	Recorded string
	// Now is what today's code does. Empty: it does nothing there.
	Now string
}

// comparison compares what is on record with what was played. Both have the same ids.
type comparison struct {
	recorded, now *recording
	asked         map[string]string // by the calls that are not on record as asked for
	found         []Difference
}

func compare(recorded, now *recording, asked map[string]string) []Difference {
	c := &comparison{recorded: recorded, now: now, asked: asked}
	c.plan(recorded.root.CurrentPlanID)
	return c.found
}

func (c *comparison) differ(at, recorded, now string) {
	c.found = append(c.found, Difference{At: at, Recorded: recorded, Now: now})
}

// plan compares a run that is on record with what was played of it, if anything.
func (c *comparison) plan(id string) {
	recorded, now := c.recorded.plans[id], c.now.plans[id]
	if now == nil {
		return
	}

	for _, id := range union(c.recorded.stepsOf(id), c.now.stepsOf(id), stepID) {
		was, is := c.recorded.steps[id], c.now.steps[id]
		switch {
		case was != nil && is != nil:
			c.step(was, is)
		case was != nil && ended(now.State):
			c.differ(c.recorded.addressOf(was), c.recorded.sayStep(was), "")
		case is != nil && isComplete(recorded.State, recorded.ErrorKind):
			c.differ(c.now.addressOf(is), "", c.now.sayStep(is))
		}
	}

	if !ended(now.State) || !isComplete(recorded.State, recorded.ErrorKind) {
		return
	}
	was, is := sayPlan(recorded), sayPlan(now)
	if was != is {
		c.differ("plan:"+id, was, is)
	}
}

// step compares a step.
func (c *comparison) step(recorded, now *record.AgentExecution) {
	id := now.StepID
	if calls := isCall(recorded) && isCall(now); !calls { // else the call says the same
		was, is := c.recorded.sayStep(recorded), c.now.sayStep(now)
		if was != is {
			c.differ("step:"+id, was, is)
		}
		if optional.Value(recorded.AgentName) != optional.Value(now.AgentName) { // there is nothing to compare
			return
		}
	}

	for _, at := range union(c.recorded.cyclesOf(id), c.now.cyclesOf(id), cycleOf) {
		was, is := c.recorded.cycles[at], c.now.cycles[at]
		address := fmt.Sprintf("cycle:%s/%d", id, at.seq)
		switch {
		case was != nil && is != nil:
			if recorded, now := sayPrompt(was), sayPrompt(is); recorded != now {
				c.differ(address, recorded, now)
			}
			c.calls(was, is)
		case was != nil && ended(now.State):
			c.differ(address, sayPrompt(was), "")
		case is != nil && isComplete(recorded.State, recorded.ErrorKind):
			c.differ(address, "", sayPrompt(is))
		}
	}
}

// calls compares the calls of a cycle.
func (c *comparison) calls(recorded, now *record.ThinkAct) {
	was, is := c.recorded.callsOf(now.StepID, now.Seq), c.now.callsOf(now.StepID, now.Seq)
	for _, id := range union(was, is, callID) {
		was, is := c.recorded.calls[id], c.now.calls[id]
		switch {
		case was != nil && is != nil:
			c.call(was, is)
		case was != nil && ended(now.State):
			c.differ(callAt(was), sayCall(was), "")
		case is != nil && isComplete(recorded.State, recorded.ErrorKind):
			c.differ(callAt(is), "", sayCall(is))
		}
	}
}

// call compares a call, its result, and the run that it started.
func (c *comparison) call(recorded, now *record.ActTool) {
	at := callAt(now)
	if optional.Value(recorded.Name) != optional.Value(now.Name) ||
		!same(optional.Value(recorded.Parameters), optional.Value(now.Parameters)) {
		c.differ(at, sayCall(recorded), sayCall(now))
		return
	}
	if title := c.asked[now.ToolCallID]; title != "" {
		c.differ(at, "", title)
	}

	started := c.recorded.subPlan(now.ToolCallID)
	if started != nil && c.now.plans[started.CurrentPlanID] != nil {
		c.plan(started.CurrentPlanID)
		return
	}

	switch was, is := sayResult(recorded), sayResult(now); {
	case ended(now.State) && ended(recorded.State) && was != is:
		c.differ(at, was, is)
	case !ended(now.State) && ended(recorded.State) && c.recorded.made(recorded) == nil && now.StartTime != nil:
		c.differ(at, was, sayCall(now)) // it was refused, and is made now
	}
}

// union returns what two lists have, in their order.
func union[T any, K comparable](a, b []T, key func(T) K) (keys []K) {
	for _, v := range slices.Concat(a, b) {
		if k := key(v); !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	return keys
}

func stepID(s *record.AgentExecution) string { return s.StepID }
func cycleOf(c *record.ThinkAct) cycleAt     { return cycleAt{c.StepID, c.Seq} }
func callID(c *record.ActTool) string        { return c.ToolCallID }

func ended(s *record.State) bool { return s != nil && s.Terminal() }

// cutOff are the error kinds with which something ends that would have gone on.
var cutOff = []string{
	engine.LimitRounds, engine.LimitToolCalls, engine.LimitTokens, engine.LimitCost, engine.LimitTime,
	engine.LimitCostUnknown, "stopped", "worker_lost",
}

// isComplete reports whether something came to its own end. What comes after the end of the others is not on record.
func isComplete(s *record.State, errorKind *string) bool {
	kind := optional.Value(errorKind)
	failed := &model.Error{Kind: model.Kind(kind)}
	switch optional.Value(s) {
	case record.Completed, record.Skipped:
		return true
	case record.Failed:
		return !slices.Contains(cutOff, kind) && !failed.Retryable()
	}
	return false
}

// isCall reports whether a step is a call of a workflow, and not an agent.
func isCall(s *record.AgentExecution) bool { return s.AgentName == nil }

// addressOf returns the address of a step, or of the call that it is.
func (r *recording) addressOf(s *record.AgentExecution) string {
	if call := r.callOf(s); call != nil {
		return callAt(call)
	}
	return "step:" + s.StepID
}

// callOf returns the call that a step of a workflow is; nil: it is none.
func (r *recording) callOf(s *record.AgentExecution) *record.ActTool {
	if calls := r.callsOf(s.StepID, 0); isCall(s) && len(calls) == 1 {
		return calls[0]
	}
	return nil
}

func callAt(c *record.ActTool) string {
	return fmt.Sprintf("call:%s/%d/%s", c.StepID, c.Seq, c.ToolCallID)
}

func (r *recording) sayStep(s *record.AgentExecution) string {
	if call := r.callOf(s); call != nil {
		return sayCall(call)
	}
	return optional.Value(s.AgentName) + ": " + optional.Value(s.AgentRequest)
}

func sayCall(c *record.ActTool) string {
	return strings.TrimSpace(optional.Value(c.Name) + " " + optional.Value(c.Parameters))
}

func sayResult(c *record.ActTool) string {
	return fmt.Sprintf("%s: %s", optional.Value(c.State), optional.Value(c.Result))
}

func sayPlan(p *record.Plan) string {
	text := cmp.Or(optional.Value(p.ErrorMessage), optional.Value(p.Summary))
	return fmt.Sprintf("%s: %s", optional.Value(p.State), text)
}

// sayPrompt returns what a model was told in a cycle that it did not know before.
func sayPrompt(c *record.ThinkAct) string {
	messages := messagesOf(c)
	if messages == nil {
		return optional.Value(c.ThinkInput)
	}

	var lines []string
	for _, m := range messages {
		for _, p := range m.Parts {
			switch {
			case p.Call != nil:
				lines = append(lines, fmt.Sprintf("%s: calls %s %s", m.Role, p.Call.Name, p.Call.Arguments))
			case p.Result != nil:
				lines = append(lines, fmt.Sprintf("%s: %s: %s", m.Role, p.Result.Name, p.Result.Text))
			default:
				lines = append(lines, fmt.Sprintf("%s: %s", m.Role, p.Text))
			}
		}
	}
	return strings.Join(lines, "\n")
}

// messagesOf returns the messages of a prompt; nil if they cannot be read, or there are none.
func messagesOf(c *record.ThinkAct) (messages []model.Message) {
	if json.Unmarshal([]byte(optional.Value(c.ThinkInput)), &messages) != nil { // it was cut
		return nil
	}
	return messages
}
