package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// maxDepth is how deep runs may be nested, with the root.
const maxDepth = 10

// subRun is a tool whose calls are runs of their own.
type subRun struct {
	spec     tool.Spec
	executor Callable
	name     string
}

func (s subRun) Spec() tool.Spec { return s.spec }

func (s subRun) Call(context.Context, tool.Call) (tool.Result, error) {
	return tool.Result{}, errors.New("a sub-plan needs a run")
}

// callInRun starts the run of the call, which ends the call with its own end. Its id follows from that of
// the call, so it is started once.
func (s subRun) callInRun(ctx context.Context, c *calling) (tool.Result, error) {
	r := c.step.run
	if c.policy.Approval && c.row.StartTime == nil {
		if result, refused, err := c.approve(ctx); refused || err != nil {
			return result, err
		}
	}

	if *c.row.State == record.Running {
		return tool.Result{}, &parkedError{}
	}
	if r.run.Depth+1 >= maxDepth {
		return c.recordEnd(
			record.Failed, tool.Failure(fmt.Sprintf("Runs can be nested %d deep. Do it without %s.", maxDepth, s.spec.Name)),
			"depth",
		), nil
	}

	input, err := s.executor.Call(s.name, json.RawMessage(c.call.Arguments))
	var prepared Prepared
	if err == nil {
		prepared, err = r.engine.prepare(ctx, r.parts, Request{Executor: s.executor.Kind(), Name: s.name, Input: input})
	}
	if err != nil {
		return c.recordEnd(record.Failed, tool.BadArguments(err), "tool"), nil
	}
	prepared.Title, prepared.UserRequest = r.redact(prepared.Title), r.redact(prepared.UserRequest)

	left, err := r.remaining(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	child, plan, err := r.engine.newRun(ctx, r.parts, Request{Executor: s.executor.Kind(), Limits: left}, prepared,
		c.subPlanID())
	if err != nil {
		return tool.Result{}, err
	}

	child.RootPlanID, child.Owner = r.run.RootPlanID, r.run.Owner
	child.Depth, child.Priority = r.run.Depth+1, r.run.Priority
	child.Starter, child.Project = r.run.Starter, r.run.Project
	child.Parent = &runstore.ParentCall{
		PlanID: r.run.PlanID, StepID: c.step.id, Seq: c.seq, ToolCallID: c.row.ToolCallID, Attempt: c.row.Attempt,
	}
	plan.RootPlanID, plan.ParentPlanID = r.run.RootPlanID, &r.run.PlanID
	plan.ToolCallID = new(c.row.ToolCallID)
	plan.UserID, plan.Environment = r.plan.UserID, r.plan.Environment

	begin := c.change(record.Running)
	begin.StartTime = new(r.now())
	ops := append(r.fits(), runstore.Begin(child), runstore.GoesOn())
	if err := r.write(append(prepared.begin(r.parts, plan), begin), ops...); err != nil {
		return tool.Result{}, err
	}
	r.noteFits()
	c.keep(begin)
	return tool.Result{}, &parkedError{}
}

// subPlanID returns the id of the run that the call starts. Another attempt of the call starts another one.
func (c *calling) subPlanID() string {
	if id := playedIn(c.step.run.leased).subPlan(c.row.ToolCallID); id != "" {
		return id
	}
	if n := c.number(); n > 1 {
		return derive("subplan-", c.row.ToolCallID, n)
	}
	return derive("subplan-", c.row.ToolCallID)
}
