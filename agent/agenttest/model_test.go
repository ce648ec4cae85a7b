package agenttest_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/agenttest"
	"github.com/actlog/actlog/agent/model"
)

// ask sends the model a conversation, and returns the answer with what was shown of it while it arrived.
func ask(t *testing.T, m model.Model, talk ...model.Message) (answer *model.Response, shown string, err error) {
	t.Helper()
	var text strings.Builder
	answer, err = m.Generate(t.Context(), model.Request{Messages: talk}, func(d model.Delta) {
		text.WriteString(d.Text + d.Tool + d.Arguments)
	})
	return answer, text.String(), err
}

// TestModel: the turns follow from the conversation, whoever asks and how often.
func TestModel(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("Take an umbrella. ", 5)
	m := agenttest.Model(
		agenttest.Together(agenttest.Text("I look."), agenttest.Call("weather", map[string]string{"city": "Oslo"}),
			agenttest.Call("news", `{"broken`)),
		agenttest.Text(long))

	talk := []model.Message{model.User("Rain?")}
	for range 2 {
		answer, shown, err := ask(t, m, talk...)
		if err != nil || answer.Finish != model.FinishToolCalls || answer.Message.Role != model.RoleAssistant {
			t.Fatalf("answer = %+v, %v", answer, err)
		}

		calls := answer.Message.Calls()
		if len(calls) != 2 || calls[0].ID == calls[1].ID || calls[1].Arguments != `{"broken` ||
			shown != `I look.weather{"city":"Oslo"}` {
			t.Errorf("calls = %+v, shown %q", calls, shown)
		}
		if *answer.Usage.Input == 0 || *answer.Usage.Output == 0 {
			t.Errorf("usage = %+v", answer.Usage)
		}
	}

	answer, _, err := ask(t, m, talk...)
	if err != nil {
		t.Fatal(err)
	}
	talk = append(talk, answer.Message, model.Results(model.ToolResult{CallID: "call_1_1", Text: "It rains."}))
	answer, shown, err := ask(t, m, talk...)
	if err != nil || answer.Message.Text() != long || answer.Finish != model.FinishStop || shown != long {
		t.Errorf("answer = %+v, %v, shown %q", answer, err, shown)
	}

	_, _, err = ask(t, m, append(talk, answer.Message, model.User("And?"))...)
	wantKind(t, err, model.KindInvalidRequest)
	if n := len(m.Requests()); n != 5 || m.Requests()[3].Messages[2].Parts[0].Result.Text != "It rains." {
		t.Errorf("%d requests", n)
	}
}

// TestModelFails: errors come once each, in each conversation.
func TestModelFails(t *testing.T) {
	t.Parallel()
	m := agenttest.Model(
		agenttest.Fail(model.KindRateLimit, "slow down"), agenttest.Fail(model.KindServer, "oops"), agenttest.Text("Yes."),
		agenttest.Fail(model.KindQuota, "nothing is left"))

	for _, question := range []string{"One?", "Two?"} {
		for _, kind := range []model.Kind{model.KindRateLimit, model.KindServer} {
			_, _, err := ask(t, m, model.User(question))
			wantKind(t, err, kind)
		}

		answer, _, err := ask(t, m, model.User(question))
		if err != nil || answer.Message.Text() != "Yes." {
			t.Fatalf("answer = %+v, %v", answer, err)
		}
		_, _, err = ask(t, m, model.User(question), answer.Message, model.User("More?"))
		wantKind(t, err, model.KindQuota)
	}
}

// TestModelOddTurns: a script that is wrong, and a context that has ended, are errors of a model.
func TestModelOddTurns(t *testing.T) {
	t.Parallel()
	for name, turn := range map[string]agenttest.Turn{
		"nothing":       {},
		"no JSON":       agenttest.Call("a", func() {}),
		"no answer":     agenttest.Func(func(context.Context, model.Request) (*model.Response, error) { return nil, nil }),
		"one of them":   agenttest.Together(agenttest.Text("a"), agenttest.Turn{}),
		"error in func": agenttest.Func(agenttest.Fail(model.KindInvalidRequest, "no").Answer),
	} {
		if _, _, err := ask(t, agenttest.Model(turn), model.User("Go.")); err == nil {
			t.Errorf("%s: no error", name)
		} else {
			wantKind(t, err, model.KindInvalidRequest)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := agenttest.Model(agenttest.Text("a")).Generate(ctx, model.Request{}, nil)
	if wantKind(t, err, model.KindCancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

func wantKind(t *testing.T, err error, kind model.Kind) {
	t.Helper()
	if failed, ok := errors.AsType[*model.Error](err); !ok || failed.Kind != kind {
		t.Errorf("err = %v, not of kind %s", err, kind)
	}
}
