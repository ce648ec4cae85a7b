package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/limit"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// shaky is a tool each of whose calls comes to the next of the ends of a plan: ok, failed, unknown, final or changed.
// After the plan it works.
type shaky struct {
	mu   sync.Mutex
	plan []string
	ids  []string
}

func (s *shaky) call(c tool.Call) (tool.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids = append(s.ids, c.ID)
	end := "ok"
	if len(s.plan) > 0 {
		end, s.plan = s.plan[0], s.plan[1:]
	}

	text := fmt.Sprintf("%s %d", end, len(s.ids))
	switch end {
	case "unknown":
		return tool.Result{}, fmt.Errorf("the connection broke: %w", tool.ErrUnknown)
	case "changed":
		return tool.Result{}, tool.ErrChanged
	case "failed", "final":
		return tool.Result{Text: text, Failed: true, Final: end == "final"}, nil
	}
	return tool.Result{Text: text}, nil
}

func (s *shaky) tool(p tool.Policy) tool.Tool {
	return tool.CallFunc("shaky", "May fail.", func(_ context.Context, c tool.Call, _ struct{}) (tool.Result, error) {
		return s.call(c)
	}, tool.WithPolicy(p))
}

// calls returns how often it was called.
func (s *shaky) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ids)
}

// attemptsOf returns how the attempts of a call ended, in their order.
func attemptsOf(c *tree.ToolCall) string {
	var ends []string
	for _, a := range c.PastAttempts {
		ends = append(ends, fmt.Sprint(a.State, ":", text(a.ErrorKind), ":", text(a.ErrorMessage)))
	}
	return strings.Join(append(ends,
		fmt.Sprint(*c.Record.State, ":", text(c.Record.ErrorKind), ":", text(c.Record.ErrorMessage))), "\n")
}

// firstCall returns the first call of a run; nil: it has none yet.
func firstCall(h *enginetest.House, id string) *tree.ToolCall {
	p := h.Plan(id)
	if len(p.Steps) == 0 {
		return nil
	}
	cycles := h.Step(p).Cycles
	if len(cycles) == 0 || len(cycles[0].ToolCalls) == 0 {
		return nil
	}
	return cycles[0].ToolCalls[0]
}

// soon is a policy by which calls that fail are made again at once.
func soon(tries int, on ...tool.FailureKind) *tool.Retries {
	return &tool.Retries{Tries: tries, From: time.Millisecond, Factor: 1, On: on}
}

// A call that failed is made again with the same id, as its next attempt, and each attempt stays on record. The model
// sees the last result. Neither do failures count as calls whose outcome is unknown, nor these as failures.
func TestRetry(t *testing.T) {
	t.Parallel()
	failed := func(n int) string { return fmt.Sprintf("FAILED:tool:failed %d", n) }
	const lost = "UNKNOWN:unknown:the connection broke: outcome unknown"
	for name, tt := range map[string]struct {
		plan   string
		policy tool.Policy
		want   []string
		result string
	}{
		"works in the end": {
			"failed failed", tool.Policy{Retry: soon(3)},
			[]string{failed(1), failed(2), "COMPLETED::"}, "ok 3",
		},
		"fails each time": {
			"failed failed failed", tool.Policy{Retry: soon(3), Writes: true},
			[]string{failed(1), failed(2), failed(3)}, "failed 3",
		},
		"without a policy": {"failed", tool.Policy{}, []string{failed(1)}, "failed 1"},
		"once":             {"failed", tool.Policy{Retry: soon(1)}, []string{failed(1)}, "failed 1"},
		"only after time-outs": {
			"failed", tool.Policy{Retry: soon(3, tool.OnTimeout)}, []string{failed(1)}, "failed 1",
		},
		"would fail again": {"final", tool.Policy{Retry: soon(3)}, []string{"FAILED:tool:final 1"}, "final 1"},
		"was approved otherwise": {
			"changed", tool.Policy{Retry: soon(3)}, []string{"FAILED:tool:" + tool.ErrChanged.Error()},
			tool.ErrChanged.Error(),
		},
		"an unknown outcome is none": {
			"failed unknown", tool.Policy{Retry: soon(9), Writes: true}, []string{failed(1), lost}, engine.UnknownText,
		},
		"both, each by its own count": {
			"unknown failed unknown failed unknown unknown ok",
			tool.Policy{Retry: soon(3), OnUnknown: tool.Retry},
			[]string{lost, failed(2), lost, failed(4), lost, lost, "COMPLETED::"}, "ok 7",
		},
		"failures end it": {
			"unknown failed unknown failed ok", tool.Policy{Retry: soon(2), OnUnknown: tool.Retry},
			[]string{lost, failed(2), lost, failed(4)}, "failed 4",
		},
		"unknown outcomes end it": {
			"unknown unknown failed unknown unknown unknown ok", tool.Policy{Retry: soon(9), OnUnknown: tool.Retry},
			[]string{lost, lost, failed(3), lost, lost, lost}, engine.UnknownText,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &shaky{plan: strings.Fields(tt.plan)}
			h := deploys(t, []tool.Tool{s.tool(tt.policy)}, "shaky", `{}`)
			h.Work(h.Engine)
			p := h.Await(h.Start("a", "Go.", func(r *engine.Request) { r.Limits = &engine.Limits{ToolCalls: 2} }),
				record.Completed) // with terminate

			cycle := h.Step(p).Cycles[0]
			made := cycle.ToolCalls[0]

			if got, want := attemptsOf(made), strings.Join(tt.want, "\n"); got != want {
				t.Errorf("attempts:\n%s\nwant:\n%s", got, want)
			}
			if text(made.Record.Result) != tt.result {
				t.Errorf("the result is %q, want %q", text(made.Record.Result), tt.result)
			}
			if ids := slices.Compact(slices.Clone(s.ids)); len(s.ids) != len(tt.want) || len(ids) != 1 ||
				ids[0] != made.Record.ToolCallID {
				t.Errorf("the tool was called as %q", s.ids)
			}

			for _, a := range made.PastAttempts {
				if a.StartTime == nil || a.EndTime == nil || a.EndTime.Before(*a.StartTime) {
					t.Errorf("attempt %d: from %v to %v", a.Number, a.StartTime, a.EndTime)
				}
			}
			if began, acts := made.Began(), cycle.Record.ActStartTime; began == nil || acts == nil || !acts.Equal(*began) {
				t.Errorf("the cycle acts from %v, its call from %v", acts, began)
			}
		})
	}
}

// A time-out is a failure of its own kind. Of a tool that writes it is none: nobody knows whether it took effect.
func TestRetryAfterATimeout(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		policy tool.Policy
		made   int
		state  record.State
	}{
		"timeout":         {tool.Policy{Retry: soon(3, tool.OnTimeout)}, 3, record.Failed},
		"tool":            {tool.Policy{Retry: soon(3, tool.OnTool)}, 1, record.Failed},
		"timeout, writes": {tool.Policy{Retry: soon(3, tool.OnTimeout), Writes: true}, 1, record.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBlocker()
			tt.policy.Timeout = 20 * time.Millisecond
			h := blocking(t, b, tt.policy)
			h.Work(h.Engine)

			made := h.Step(h.Await(h.Start("worker", "Go."), record.Completed)).Cycles[0].ToolCalls[0].Record
			if *made.State != tt.state || text(made.ErrorKind) != "timeout" || len(b.begun) != tt.made {
				t.Errorf("the call is %s, %s, and was made %d times", *made.State, text(made.ErrorKind), len(b.begun))
			}
		})
	}
}

// A call that is never made is not made again: it has one attempt.
func TestNoRetryOfWhatIsNotMade(t *testing.T) {
	t.Parallel()
	for name, arguments := range map[string]string{"shaky": `{"more":1}`, "nobody": `{}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &shaky{}
			h := deploys(t, []tool.Tool{s.tool(tool.Policy{Retry: soon(3)})}, name, arguments)
			h.Work(h.Engine)

			made := h.Step(h.Await(h.Start("a", "Go."), record.Completed)).Cycles[0].ToolCalls[0]
			if *made.Record.State != record.Failed || len(made.PastAttempts) != 0 || s.calls() != 0 {
				t.Errorf("%d calls: %s", s.calls(), attemptsOf(made))
			}
		})
	}
}

// A human approves a call once, for all attempts that follow a failure. What the tool changed before it failed does not
// change what was approved: its digest is that of the preview.
func TestRetryIsApprovedOnce(t *testing.T) {
	t.Parallel()
	s := &shaky{plan: []string{"failed", "failed"}}
	var shown int
	var approved []string

	paying := tool.CallFunc("shaky", "May fail.", func(_ context.Context, c tool.Call, _ struct{}) (tool.Result, error) {
		approved = append(approved, c.Approved)
		return s.call(c)
	}, tool.WithPolicy(tool.Policy{Approval: true, Writes: true, Retry: soon(3)}),
		tool.WithTouches(func(context.Context, struct{}) ([]string, error) {
			return []string{fmt.Sprint("file ", s.calls())}, nil
		}),
		tool.WithPreview(func(context.Context, tool.Call, struct{}) (tool.Preview, error) {
			shown++
			return tool.NewPreview(tool.PreviewText, fmt.Sprint("attempt ", s.calls())), nil
		}))

	h := deploys(t, []tool.Tool{paying}, "shaky", `{}`)
	h.Work(h.Engine)
	id := h.Start("a", "Go.")
	h.Await(id, record.Waiting)
	if err := h.Decide(waitOf(t, h), record.Approved, "approve", ""); err != nil {
		t.Fatal(err)
	}

	made := h.Step(h.Ended(id)).Cycles[0].ToolCalls[0]
	digest := tool.NewPreview(tool.PreviewText, "attempt 0").Digest
	waits := storetest.Query[int](t, h.Store, "SELECT count(*) FROM actlog.wait_state")
	if *made.Record.State != record.Completed || waits != 1 || shown != 1 ||
		!slices.Equal(approved, []string{digest, digest, digest}) {
		t.Errorf("%d waits, %d previews, approved %q:\n%s", waits, shown, approved, attemptsOf(made))
	}
}

// Killed at any write, a run goes on with the attempt that it was at: the call fails as often as its policy says, not
// more often and not less.
func TestRetryKilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	want := enginetest.AtEveryWrite(t, func(t *testing.T, disturb func(*enginetest.House)) string {
		t.Helper()
		s := &shaky{plan: slices.Repeat([]string{"failed"}, 100)}
		h := deploys(t, []tool.Tool{s.tool(tool.Policy{
			Approval: true, OnUnknown: tool.Retry, Retry: soon(4),
		})}, "shaky", `{}`)
		disturb(h)

		ctx, cancel := context.WithCancel(t.Context())
		var answering sync.WaitGroup
		answering.Go(func() { answer(ctx, h) })
		defer func() { cancel(); answering.Wait() }()
		h.Work(h.Engine)
		made := h.Step(h.Await(h.Start("a", "Go."), record.Completed)).Cycles[0].ToolCalls[0]

		failures := strings.Count(attemptsOf(made), "FAILED:tool:")
		if n := len(made.PastAttempts) + 1; n > failures+1 || s.calls() < failures {
			t.Errorf("%d calls:\n%s", s.calls(), attemptsOf(made))
		}
		return fmt.Sprint(*made.Record.State, " after ", failures, " failures")
	}, func(t *testing.T, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("it is %s, not %s", got, want)
		}
	})

	if want != "FAILED after 4 failures" {
		t.Fatalf("undisturbed: %s", want)
	}
}

// A long pause keeps no worker. Another one goes on when it is over, and does not count again; a run that is paused
// meanwhile or stopped does not make the call.
func TestALongPauseHoldsNothing(t *testing.T) {
	t.Parallel()
	for name, control := range map[string]func(*testing.T, *enginetest.House, string){
		"goes on": func(*testing.T, *enginetest.House, string) {},
		"is paused": func(t *testing.T, h *enginetest.House, id string) {
			t.Helper()
			h.Await(id, record.Running)
			if err := h.Runs.Control(t.Context(), id, runstore.Pause, ""); err != nil {
				t.Fatal(err)
			}
			h.Await(id, record.Paused)
			if err := h.Runs.Control(t.Context(), id, runstore.Resume, ""); err != nil {
				t.Fatal(err)
			}
		},
		"is stopped": func(t *testing.T, h *enginetest.House, id string) {
			t.Helper()
			if err := h.Runs.Control(t.Context(), id, runstore.Stop, ""); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &shaky{plan: []string{"failed", "failed", "failed"}}
			h := deploys(t, []tool.Tool{s.tool(tool.Policy{Retry: &tool.Retries{Tries: 2, From: time.Hour}})}, "shaky", `{}`)
			stop := h.Work(h.Engine)
			id := h.Start("a", "Go.")

			parked := func() bool {
				return storetest.Query[bool](t, h.Store, `SELECT EXISTS (SELECT FROM actlog.run
					WHERE worker_id IS NULL AND due_at > now() + interval '59 minutes' AND due_at < now() + interval '61 minutes')`)
			}
			storetest.Until(t, "the run is parked", parked)
			if c := h.Step(h.Plan(id)).Cycles[0].ToolCalls[0]; attemptsOf(c) != "FAILED:tool:failed 1\nPENDING::" {
				t.Errorf("while it waits:\n%s", attemptsOf(c))
			}

			stop()
			h.Work(h.NewEngine(nil))
			control(t, h, id)
			if name == "is stopped" {
				made := h.Step(h.Ended(id)).Cycles[0].ToolCalls[0]
				if attemptsOf(made) != "FAILED:tool:failed 1\nCANCELLED::" || s.calls() != 1 {
					t.Errorf("%d calls:\n%s", s.calls(), attemptsOf(made))
				}
				return
			}

			storetest.Until(t, "the run is parked, once more", parked)
			if _, err := h.DB.Pool.Exec(t.Context(), `WITH past AS (
				UPDATE actlog.act_tool_info SET attempts = jsonb_set(attempts::jsonb, '{0,endTime}', to_jsonb(now() - interval '2 hours'))
				WHERE attempts IS NOT NULL) UPDATE actlog.run SET due_at = now()`); err != nil {
				t.Fatal(err)
			}
			made := h.Step(h.Await(id, record.Completed)).Cycles[0].ToolCalls[0]
			if len(made.PastAttempts) != 1 || text(made.Record.Result) != "failed 2" || s.calls() != 2 {
				t.Errorf("%d calls:\n%s", s.calls(), attemptsOf(made))
			}
		})
	}
}

// A short pause is over in the worker. It ends at once if the run is paused, which goes on with the next attempt.
func TestAShortPauseIsInterrupted(t *testing.T) {
	t.Parallel()
	s := &shaky{plan: []string{"failed"}}
	h := deploys(t, []tool.Tool{s.tool(tool.Policy{Retry: &tool.Retries{Tries: 2, From: 4 * time.Second}})}, "shaky", `{}`)
	h.Work(h.Engine)
	id := h.Start("a", "Go.")
	storetest.Until(t, "the call has failed", func() bool {
		c := firstCall(h, id)
		return c != nil && attemptsOf(c) == "FAILED:tool:failed 1\nPENDING::"
	})

	if err := h.Runs.Control(t.Context(), id, runstore.Pause, ""); err != nil {
		t.Fatal(err)
	}
	h.Await(id, record.Paused)
	if s.calls() != 1 {
		t.Fatalf("%d calls while the run is paused", s.calls())
	}

	if err := h.Runs.Control(t.Context(), id, runstore.Resume, ""); err != nil {
		t.Fatal(err)
	}
	made := h.Step(h.Await(id, record.Completed)).Cycles[0].ToolCalls[0]
	if len(made.PastAttempts) != 1 || *made.Record.State != record.Completed || s.calls() != 2 {
		t.Errorf("%d calls:\n%s", s.calls(), attemptsOf(made))
	}
}

// The limits of a rule bound all tools that it matches, in all runs of the worker. What waits for its turn has not
// begun, and does not begin any more when its run is stopped.
func TestRulesLimitCalls(t *testing.T) {
	t.Parallel()
	b := newBlocker()
	second := tool.Func("block2", "Blocks, too.", func(context.Context, struct{}) (string, error) {
		t.Error("the call was made that waited")
		return "", nil
	})

	h := build(t, []scriptmodel.Scene{
		{
			Name: "second", Match: scriptmodel.Match{System: "Second."},
			Turns: calls([]scriptmodel.ToolCall{call("block2", nil)}, terminate("done")),
		},
		{Name: "first", Turns: calls([]scriptmodel.ToolCall{call("block", nil)}, terminate("done"))},
	}, map[string]define.Definition{
		"first": {Tools: []string{"block"}}, "second": {SystemPrompt: "Second.", Tools: []string{"block2"}},
	}, []tool.Tool{b.tool(tool.Policy{}), second})
	h.Parts.Rules = tool.Rules{{Tools: "block*", Limits: limit.Limits{Concurrent: 1}}}

	h.Work(h.Engine)
	first := h.Start("first", "Go.")
	<-b.begun
	waits := h.Start("second", "Go.")
	storetest.Until(t, "the second call waits", func() bool { return firstCall(h, waits) != nil })
	if made := firstCall(h, waits).Record; *made.State != record.Pending || made.StartTime != nil {
		t.Errorf("the call that waits is %s since %v", *made.State, made.StartTime)
	}

	if err := h.Runs.Control(t.Context(), waits, runstore.Stop, ""); err != nil {
		t.Fatal(err)
	}
	h.Await(waits, record.Cancelled)
	third := h.Start("first", "Go.")
	close(b.free)
	h.Await(first, record.Completed)
	h.Await(third, record.Completed)
}
