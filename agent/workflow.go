package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runs"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// Talk asks an agent to talk: over several turns, until it answers with a text instead of tool calls.
type Talk struct {
	Agent   string
	Message string // of the user
	// Messages come before Message; one of both is needed. The last message is the user's.
	Messages []workflow.Message
	// SystemPrompt replaces that of the agent.
	SystemPrompt string
	// SessionID is the session that the talk belongs to. An agent with IncludeHistory is told what was said
	// before in it, with tool calls; History does so for others. Without an id such a talk gets one of its own.
	SessionID string
	History   bool
	// Starter is who starts it, as in [Request]: the session is theirs.
	Starter string `json:",omitempty"`
	// IdempotencyKey makes it safe to repeat: the same talk with the same key is the same run.
	IdempotencyKey string
}

func (t Talk) request() (engine.Request, error) {
	return facadeRequest(t, t.SessionID, t.Starter, t.IdempotencyKey, workflow.Input{
		Agent: t.Agent, UserMessage: t.Message, Messages: t.Messages, SystemPrompt: t.SystemPrompt, ForceIncludeHistory: t.History,
	})
}

// Flow asks for a workflow, a simple or a custom one.
type Flow struct {
	Workflow       string
	Input          any // as JSON
	SessionID      string
	Starter        string `json:",omitempty"` // as in [Request]
	IdempotencyKey string
}

func facadeRequest(q any, session, starter, key string, input workflow.Input) (engine.Request, error) {
	r := engine.Request{Executor: "workflow", ConversationID: session, Starter: starter, IdempotencyKey: key}
	for field, text := range map[string]string{"sessionId": session, "starter": starter, "idempotencyKey": key} {
		if len(text) > record.MaxIDBytes || !storable(text) {
			return r, invalid(field, fmt.Sprintf("must be UTF-8 without NUL of at most %d bytes", record.MaxIDBytes))
		}
	}
	var err error
	if r.Input, err = json.Marshal(input); err != nil {
		return r, err
	}
	r.Body, err = json.Marshal(q)
	return r, err
}

// RunAgent runs an agent to its end. An agent that fails is no error: the status says so. The error is that of
// [Runtime.Start], or the cause of the end of ctx: then the run goes on.
func (r *Runtime) RunAgent(ctx context.Context, q Talk) (result workflow.AgentResult, err error) {
	return result, r.facade(ctx, &result, q.request, nil)
}

// StreamAgent is RunAgent, and calls on with what happens, one event after the other. An error of on ends the
// stream, and is returned; the run goes on.
func (r *Runtime) StreamAgent(ctx context.Context, q Talk, on func(kind string, data map[string]any) error) (result workflow.AgentResult, err error) {
	return result, r.facade(ctx, &result, q.request, on)
}

// RunWorkflow runs a simple or a custom workflow to its end, as RunAgent runs an agent.
func (r *Runtime) RunWorkflow(ctx context.Context, q Flow) (result workflow.Result, err error) {
	return result, r.facade(ctx, &result, func() (engine.Request, error) {
		in, err := json.Marshal(q.Input)
		if err != nil {
			return engine.Request{}, invalid("input", "cannot be written as JSON")
		}
		return facadeRequest(q, q.SessionID, q.Starter, q.IdempotencyKey, workflow.Input{Workflow: q.Workflow, Input: in})
	}, nil)
}

// facade starts a run, waits for its end and reads its result.
func (r *Runtime) facade(ctx context.Context, result any, request func() (engine.Request, error), on func(string, map[string]any) error) error {
	done, err := r.enter()
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	defer done()
	q, err := request()
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	started, err := r.engine.Start(ctx, q)
	if err != nil {
		return fmt.Errorf("run: %w", asField(err))
	}
	if on != nil {
		talk := runs.Talk{
			Watch: r.watch, Deltas: r.store.Deltas(), Reader: func() runs.TalkReader { return r.store.Reader }, RootPlanID: started.RootPlanID, PlanID: started.PlanID, Silence: time.Hour,
		}
		err = talk.Follow(ctx, func(e runs.Event) error {
			if e.Type == "" {
				return nil
			}
			return on(e.Type, e.Data)
		})
		if err != nil {
			return fmt.Errorf("stream run %s: %w", started.PlanID, err)
		}
	}
	d, err := r.ended(ctx, started)
	if err != nil {
		return fmt.Errorf("wait for run %s: %w", started.PlanID, err)
	}
	if d.Plan.Summary == nil {
		return fmt.Errorf("run %s is %s: %s", started.PlanID, d.State, orZero(d.Plan.ErrorMessage))
	}
	if err := json.Unmarshal([]byte(*d.Plan.Summary), result); err != nil {
		return fmt.Errorf("read the result of run %s: %w", started.PlanID, err)
	}
	return nil
}

// ended returns a run when it has ended. While Postgres is away, it waits.
func (r *Runtime) ended(ctx context.Context, run engine.Started) (d *runstore.RunDetail, err error) {
	for {
		err = r.watch.Wait(ctx, run.RootPlanID, func() (bool, error) {
			d, err = r.detail(ctx, run.PlanID)
			return err == nil && d.State.Terminal(), err
		})
		switch {
		case errors.Is(err, record.ErrUnavailable):
			if err := r.pause(ctx); err != nil {
				return nil, err
			}
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err == nil && !d.State.Terminal():
			return nil, record.ErrClosed
		default:
			return d, err
		}
	}
}
