package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

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

// speaker says things to runs of a house, each once.
type speaker struct {
	h *enginetest.House
}

// say says something to a run. Said again, it is the same message.
func (s *speaker) say(ctx context.Context, planID, text string, set ...func(*engine.SayRequest)) error {
	r := engine.SayRequest{PlanID: planID, Text: text, IdempotencyKey: text, By: runstore.Who{Name: "ops", Claim: "Ann"}}
	for _, each := range set {
		each(&r)
	}
	_, err := s.h.Engine.Say(ctx, r)
	return err
}

func interrupts(r *engine.SayRequest) { r.When = engine.WhenInterrupt }

// tool returns a tool that says something to the run that calls it.
func (s *speaker) tool() tool.Tool {
	speak := func(ctx context.Context, c tool.Call, in nameArgument) (string, error) {
		return "said " + in.Name, s.say(ctx, c.PlanID, in.Name)
	}
	return tool.CallFunc("speak", "Says something.", speak, tool.WithPolicy(tool.Policy{OnUnknown: tool.Retry}))
}

// runOf returns the run that has not ended, of which there is one.
func (s *speaker) runOf(ctx context.Context) (planID string, err error) {
	err = s.h.DB.Pool.QueryRow(ctx, "SELECT plan_id FROM actlog.run WHERE NOT done AND depth = 0").Scan(&planID)
	return planID, err
}

// answers returns a turn that says something to the run while the model answers.
func (s *speaker) answers(turn scriptmodel.Turn, said string, set ...func(*engine.SayRequest)) scriptmodel.Turn {
	return scriptmodel.Turn{Reply: func(ctx context.Context, _ *scriptmodel.Request) (scriptmodel.Turn, error) {
		planID, err := s.runOf(ctx)
		if err == nil {
			err = s.say(ctx, planID, said, set...)
		}
		return turn, err
	}}
}

func toolTurn(calls ...scriptmodel.ToolCall) scriptmodel.Turn {
	return scriptmodel.Turn{ToolCalls: calls}
}

// messagesOf returns what each cycle of a step has read.
func messagesOf(t *testing.T, step *tree.Step) (all []string) {
	t.Helper()
	for _, c := range step.Cycles {
		var read []record.SteeringMessage
		if c.Record.Messages != nil {
			if err := json.Unmarshal(c.Record.Messages, &read); err != nil {
				t.Fatal(err)
			}
		}
		for _, m := range read {
			all = append(all, fmt.Sprintf("%d: %s: %s", c.Record.Seq, text(m.By), m.Text))
		}
	}
	return all
}

// said returns the messages to a run, each with its state.
func said(t *testing.T, h *enginetest.House, planID string) (all []string) {
	t.Helper()
	messages, err := h.Runs.Reader.SaidTo(t.Context(), planID, "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		all = append(all, m.State+" "+m.Text)
	}
	return all
}

// lastRequest returns the roles and texts of the last request to the model.
func lastRequest(h *enginetest.House) (all []string) {
	requests := h.Model.Requests()
	for _, m := range requests[len(requests)-1].Request.Messages {
		all = append(all, m.Role+" "+string(m.Content))
	}
	return all
}

// talker returns a house whose agent speaks to itself by a tool, and is spoken to while it answers for the first time.
func talker(t *testing.T) *enginetest.House {
	t.Helper()
	s := &speaker{}
	s.h = build(t, []scriptmodel.Scene{{Name: "root", Turns: []scriptmodel.Turn{
		toolTurn(call("speak", object{"name": "In French."})),
		s.answers(toolTurn(terminate("first answer")...), "And shorter."),
		toolTurn(terminate("second answer")...),
	}}}, map[string]define.Definition{"root": {SystemPrompt: "Root.", Tools: []string{"speak"}}}, []tool.Tool{s.tool()})
	return s.h
}

// TestMessagesAreRead checks that what is said while a tool works is read with the next call of the model, and that an
// agent that is done is asked once more if something was said meanwhile.
func TestMessagesAreRead(t *testing.T) {
	t.Parallel()
	h := talker(t)
	h.Work(h.Engine)
	id := h.Start("root", "Travel.")
	p := h.Await(id, record.Completed)
	if text(p.Record.Summary) != "second answer" {
		t.Errorf("the result is %q", text(p.Record.Summary))
	}

	step := h.Step(p)
	if got := messagesOf(t, step); !slices.Equal(got, []string{"1: Ann: In French.", "2: Ann: And shorter."}) {
		t.Errorf("read: %q", got)
	}
	if got := said(t, h, id); !slices.Equal(got, []string{"READ In French.", "READ And shorter."}) {
		t.Errorf("said: %q", got)
	}
	if input := text(step.Cycles[2].Record.ThinkInput); !strings.Contains(input, "And shorter.") ||
		strings.Contains(input, "In French.") {
		t.Errorf("the new input of the last cycle is %s", input)
	}

	got := lastRequest(h)[1:]
	want := []string{"user Travel.", "assistant ", "tool said In French.", "user In French.", "assistant ",
		"tool first answer", "user And shorter."}
	if !slices.Equal(got, want) {
		t.Errorf("the model was told %q, want %q", got, want)
	}
}

// TestMessagesAtEveryWrite kills the worker at each write of a run that is sent messages. It comes to the same end:
// each message is read once, by the same cycle. Only if the answer is lost during which the second one was said, the
// model is asked for it again with both.
func TestMessagesAtEveryWrite(t *testing.T) {
	t.Parallel()
	want := enginetest.AtEveryWrite(t, func(t *testing.T, disturb func(*enginetest.House)) string {
		t.Helper()
		h := talker(t)
		disturb(h)
		h.Work(h.Engine)

		id := h.Start("root", "Travel.")
		p := h.Await(id, record.Completed)
		step := h.Step(p)
		for _, read := range messagesOf(t, step) {
			at, m, _ := strings.Cut(read, ": Ann: ")
			seq, err := strconv.Atoi(at)
			if err != nil || !strings.Contains(text(step.Cycles[seq].Record.ThinkInput), m) {
				t.Errorf("%q is not in the input of its cycle, %v", read, err)
			}
		}

		return strings.Join(slices.Concat(messagesOf(t, step), said(t, h, id), lastRequest(h)[1:]), "\n") +
			"\n" + text(p.Record.Summary)
	}, func(t *testing.T, got, want string) {
		t.Helper()
		both := "1: Ann: In French.\n1: Ann: And shorter.\nREAD In French.\nREAD And shorter.\nuser Travel.\nassistant \n" +
			"tool said In French.\nuser In French.\nuser And shorter.\nfirst answer"
		if got != want && got != both {
			t.Errorf("it came to another end:\n%s", got)
		}
	})
	if !strings.HasSuffix(want, "second answer") {
		t.Fatalf("undisturbed:\n%s", want)
	}
}

// interruptedHouse returns a house whose model does not answer before something interrupts it. What asked says is
// asked of the run before.
func interruptedHouse(t *testing.T, asked ...runstore.Action) *enginetest.House {
	t.Helper()
	s := &speaker{}
	s.h = build(t, []scriptmodel.Scene{{Name: "root", Turns: []scriptmodel.Turn{
		{Reply: func(ctx context.Context, req *scriptmodel.Request) (scriptmodel.Turn, error) {
			if req.Messages[len(req.Messages)-1].Content == "Stop that." {
				return toolTurn(terminate("interrupted answer")...), nil
			}
			planID, err := s.runOf(ctx)
			for _, action := range asked {
				err = errors.Join(err, s.h.Runs.Control(ctx, planID, action, ""))
			}
			if err == nil {
				err = s.say(ctx, planID, "Stop that.", interrupts)
			}

			if err == nil {
				<-ctx.Done()
				err = ctx.Err()
			}
			return scriptmodel.Turn{}, err
		}},
	}}}, map[string]define.Definition{"root": {SystemPrompt: "Root."}}, nil)
	return s.h
}

// TestMessageInterrupts checks that a message cancels the call of the model that is under way, and that the model is
// asked again with it, as another attempt.
func TestMessageInterrupts(t *testing.T) {
	t.Parallel()
	h := interruptedHouse(t)
	h.Work(h.Engine)
	id := h.Start("root", "Travel.")
	p := h.Await(id, record.Completed)
	step := h.Step(p)
	if len(step.Cycles) != 1 || text(p.Record.Summary) != "interrupted answer" {
		t.Fatalf("%d cycles, and the result %q", len(step.Cycles), text(p.Record.Summary))
	}

	c := step.Cycles[0]
	if len(c.PastAttempts) != 1 || c.PastAttempts[0].State != record.Cancelled || *c.Record.State != record.Completed {
		t.Errorf("the attempts before are %+v, and the last one is %s", c.PastAttempts, *c.Record.State)
	}

	if got := messagesOf(t, step); !slices.Equal(got, []string{"0: Ann: Stop that."}) {
		t.Errorf("read: %q", got)
	}
	if input := text(c.Record.ThinkInput); !strings.Contains(input, "Stop that.") {
		t.Errorf("the input is %s", input)
	}
}

// TestInterruptedAndPaused: of a run that is paused while a message interrupts its model, the attempt was interrupted,
// and no worker was lost.
func TestInterruptedAndPaused(t *testing.T) {
	t.Parallel()
	h := interruptedHouse(t, runstore.Pause)
	h.Work(h.Engine)
	id := h.Start("root", "Travel.")
	h.Await(id, record.Paused)
	if err := h.Runs.Control(t.Context(), id, runstore.Resume, ""); err != nil {
		t.Fatal(err)
	}

	c := h.Step(h.Await(id, record.Completed)).Cycles[0]
	if len(c.PastAttempts) != 1 || c.PastAttempts[0].State != record.Cancelled ||
		text(c.PastAttempts[0].ErrorKind) != "interrupted" {
		t.Errorf("the attempts before are %+v", c.PastAttempts)
	}
}

// TestInterruptsAtEveryWrite kills the worker at each write of a run that is interrupted.
func TestInterruptsAtEveryWrite(t *testing.T) {
	t.Parallel()
	want := enginetest.AtEveryWrite(t, func(t *testing.T, disturb func(*enginetest.House)) string {
		t.Helper()
		h := interruptedHouse(t)
		disturb(h)
		h.Work(h.Engine)
		id := h.Start("root", "Travel.")
		p := h.Await(id, record.Completed)
		return fmt.Sprint(messagesOf(t, h.Step(p)), said(t, h, id), len(h.Step(p).Cycles), text(p.Record.Summary))
	}, func(t *testing.T, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("it came to another end: %s", got)
		}
	})
	if !strings.Contains(want, "interrupted answer") {
		t.Fatalf("undisturbed: %s", want)
	}
}

// TestMessagesRaceWithTheEnd says things to runs until they have ended: what was accepted was read.
func TestMessagesRaceWithTheEnd(t *testing.T) {
	t.Parallel()
	h := build(t, []scriptmodel.Scene{{Name: "root", Turns: slices.Repeat([]scriptmodel.Turn{
		toolTurn(terminate("answer")...)}, 500)}},
		map[string]define.Definition{"root": {SystemPrompt: "Root."}}, nil)
	h.Work(h.Engine)

	var accepted atomic.Int64
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			id := h.Start("root", fmt.Sprint("Travel ", n))

			for i := range 100 {
				_, err := h.Engine.Say(t.Context(), engine.SayRequest{PlanID: id, Text: fmt.Sprint("More ", i)})
				if errors.Is(err, runstore.ErrEnded) {
					break
				}

				if err != nil && !errors.Is(err, runstore.ErrManyUnread) {
					t.Error(err)
				}
				accepted.Add(1)
			}

			h.Await(id, record.Completed)
			for i, m := range said(t, h, id) {
				if m != fmt.Sprintf("READ More %d", i) {
					t.Errorf("run %s: message %d is %s", id, i, m)
				}
			}
		})
	}
	all.Wait()
	if accepted.Load() == 0 {
		t.Error("nothing was said before a run had ended")
	}
}

// TestMessagesThatAreRefused checks what is said to whom it cannot be said.
func TestMessagesThatAreRefused(t *testing.T) {
	t.Parallel()
	h := talker(t)
	h.Parts.Secret = "hunter2"

	id := h.Start("root", "Travel.")
	for _, bad := range []struct {
		field string
		r     engine.SayRequest
	}{
		{"text", engine.SayRequest{PlanID: id, Text: " \n"}},
		{"text", engine.SayRequest{PlanID: id, Text: strings.Repeat("x", engine.MaxMessageBytes+1)}},
		{"when", engine.SayRequest{PlanID: id, Text: "x", When: "later"}},
		{"to", engine.SayRequest{PlanID: id, Text: "x", To: "step-none"}},
	} {
		_, err := h.Engine.Say(t.Context(), bad.r)
		if invalid, ok := errors.AsType[*record.InvalidError](err); !ok || invalid.Field != bad.field {
			t.Errorf("%+v: %v, want an error of %s", bad.r, err, bad.field)
		}
	}

	_, err := h.Engine.Say(t.Context(), engine.SayRequest{PlanID: "none", Text: "x"})
	if !errors.Is(err, record.ErrNotFound) {
		t.Errorf("to no run: %v", err)
	}

	secret := engine.SayRequest{PlanID: id, Text: "It is hunter2.\x00", IdempotencyKey: "k"}
	first, err := h.Engine.Say(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(first.Text, "hunter2") || strings.Contains(first.Text, "\x00") {
		t.Errorf("on record is %q", first.Text)
	}

	again, err := h.Engine.Say(t.Context(), secret)
	if err != nil || again.MessageID != first.MessageID {
		t.Errorf("said again: %+v, %v", again, err)
	}
	_, err = h.Engine.Say(t.Context(), engine.SayRequest{PlanID: id, Text: "x", IdempotencyKey: "k", Body: []byte("x")})
	if !errors.Is(err, runstore.ErrKeyUsed) {
		t.Errorf("another message with the key: %v", err)
	}

	if err := h.Runs.Control(t.Context(), id, runstore.Stop, ""); err != nil {
		t.Fatal(err)
	}
	h.Work(h.Engine)
	h.Await(id, record.Cancelled)
	if got := said(t, h, id); len(got) != 1 || !strings.HasPrefix(got[0], "UNREAD ") {
		t.Errorf("after the run was stopped: %q", got)
	}

	_, err = h.Engine.Say(t.Context(), engine.SayRequest{PlanID: id, Text: "x"})
	if !errors.Is(err, runstore.ErrEnded) {
		t.Errorf("to a run that has ended: %v", err)
	}
	if unread := storetest.Query[int](t, h.Store, "SELECT unread FROM actlog.run WHERE plan_id = $1", id); unread != 0 {
		t.Errorf("%d messages are counted", unread)
	}
}
