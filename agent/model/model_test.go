package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/actlog/actlog/agent/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestJSON: what is kept of a conversation says the same when it is read again, to the byte.
func TestJSON(t *testing.T) {
	t.Parallel()

	for _, row := range []struct {
		name  string
		value any
		into  func() any
		want  string
	}{
		{"answer with calls", &model.Response{
			ID: "msg_1", Model: "m-1-2026",
			Message: model.Message{
				Role: model.RoleAssistant,
				Parts: []model.Part{
					{Text: "I <look> & see\u2028."}, {
						Call: &model.ToolCall{ID: "c1", Name: "files.read_file", Arguments: `{"path": "a`},
					},
				},
				Provider: "anthropic",
				Raw: json.RawMessage(
					`{"role":"assistant","content":[{"type":"thinking","signature":"a+/=","n":12345678901234567890}]}`,
				),
			},
			Finish: model.FinishToolCalls, Usage: model.Usage{
				Input: new(int64(0)), Output: new(int64(7)), CacheRead: new(int64(3)),
			},
		}, func() any { return new(model.Response) },
			`{"id":"msg_1","model":"m-1-2026","message":{"role":"assistant","parts":[{"text":"I \u003clook\u003e \u0026 see\u2028."},` +
				`{"call":{"id":"c1","name":"files.read_file","arguments":"{\"path\": \"a"}}],"provider":"anthropic",` +
				`"raw":{"role":"assistant","content":[{"type":"thinking","signature":"a+/=","n":12345678901234567890}]}},` +
				`"finish":"tool_calls","usage":{"inputTokens":0,"outputTokens":7,"cacheReadInputTokens":3}}`},
		{"results", new(model.Results(model.ToolResult{CallID: "c1", Name: "files.read_file"},
			model.ToolResult{CallID: "c2", Name: "form", Text: "no", Failed: true})),
			func() any { return new(model.Message) },
			`{"role":"tool","parts":[{"result":{"callId":"c1","name":"files.read_file","text":""}},{"result":{"callId":"c2","name":"form","text":"no","failed":true}}]}`},
		{"user", new(model.User("hello")), func() any {
			return new(model.Message)
		}, `{"role":"user","parts":[{"text":"hello"}]}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			first, err := json.Marshal(row.value)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row.want, string(first)); diff != "" {
				t.Errorf("first (-want +got):\n%s", diff)
			}

			again := row.into()
			if err := json.Unmarshal(first, again); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row.value, again); diff != "" {
				t.Errorf("again (-want +got):\n%s", diff)
			}
			if second, err := json.Marshal(again); err != nil || string(second) != string(first) {
				t.Errorf("json.Marshal(again) = %v, %s", err, second)
			}
		})
	}
}

func TestMessageParts(t *testing.T) {
	t.Parallel()
	m := model.Message{
		Parts: []model.Part{{Text: "a"}, {Call: &model.ToolCall{ID: "1"}}, {Text: "b"}, {Call: &model.ToolCall{ID: "2"}}},
	}
	if calls := m.Calls(); m.Text() != "ab" || len(calls) != 2 || calls[1].ID != "2" {
		t.Errorf("text %q, calls %v", m.Text(), calls)
	}
}

// B31: errors that pass are tried again after 2, 4, 8 .. 60 s.
func TestPause(t *testing.T) {
	t.Parallel()
	rateLimit := &model.Error{Kind: model.KindRateLimit}

	for _, row := range []struct {
		err     error
		attempt int
		want    time.Duration
		again   bool
	}{
		{rateLimit, 2, 2 * time.Second, true},
		{fmt.Errorf("think: %w", rateLimit), 3, 4 * time.Second, true},
		{&model.Error{Kind: model.KindOverloaded}, 4, 8 * time.Second, true},
		{&model.Error{Kind: model.KindTimeout}, 5, 16 * time.Second, true},
		{&model.Error{Kind: model.KindNetwork}, 6, 32 * time.Second, true},
		{&model.Error{Kind: model.KindServer}, 7, time.Minute, true},
		{rateLimit, 1_000_000, time.Minute, true},
		{rateLimit, 0, 2 * time.Second, true},
		{&model.Error{Kind: model.KindRateLimit, RetryAfter: 3 * time.Second}, 2, 3 * time.Second, true},
		{&model.Error{Kind: model.KindRateLimit, RetryAfter: 3 * time.Second}, 3, 4 * time.Second, true},
		{&model.Error{Kind: model.KindOverloaded, RetryAfter: 5 * time.Minute}, 9, 5 * time.Minute, true},
		{&model.Error{Kind: model.KindQuota}, 2, 0, false},
		{&model.Error{Kind: model.KindAuth}, 2, 0, false},
		{&model.Error{Kind: model.KindNotFound}, 2, 0, false},
		{&model.Error{Kind: model.KindInvalidRequest, RetryAfter: time.Second}, 2, 0, false},
		{&model.Error{Kind: model.KindContextLength}, 2, 0, false},
		{&model.Error{Kind: model.KindContentFilter}, 2, 0, false},
		{&model.Error{Kind: model.KindCancelled}, 2, 0, false},
		{errors.New("another"), 2, 0, false},
		{nil, 2, 0, false},
	} {
		if got, again := model.Pause(row.err, row.attempt); got != row.want || again != row.again {
			t.Errorf("before attempt %d after %v: %s, %v", row.attempt, row.err, got, again)
		}
	}
}

func TestErrorText(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"openai m-1: rate_limit (status 429): slow down": &model.Error{
			Kind: model.KindRateLimit, Provider: "openai", Model: "m-1", Status: 429, Message: "slow down",
		},
		"cancelled: context canceled": &model.Error{
			Kind: model.KindCancelled, Message: context.Canceled.Error(), Err: context.Canceled,
		},
		"anthropic m-2: network: the answer ended before it was complete: EOF": &model.Error{
			Kind: model.KindNetwork, Provider: "anthropic", Model: "m-2",
			Message: "the answer ended before it was complete: EOF",
		},
	} {
		if err.Error() != want {
			t.Errorf("err = %q, want %q", err, want)
		}
	}

	if err := error(&model.Error{Kind: model.KindCancelled, Err: context.Canceled}); !errors.Is(err, context.Canceled) {
		t.Error("the cause is not in the error")
	}
}

func TestToolNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"files.read_file": "files-read_file", "agent.researcher": "agent-researcher", "form": "form",
		"search-Look up/é": "search-Look_up__", "a.b.c": "a-b-c",
	} {
		if got := model.OfferedName(name); got != want {
			t.Errorf("%q is offered as %q, want %q", name, got, want)
		}
	}

	own, err := model.OwnNames([]model.ToolSpec{{Name: "files.read_file"}, {Name: "everything-echo"}})
	if diff := cmp.Diff(map[string]string{"files-read_file": "files.read_file", "everything-echo": "everything-echo"},
		own); diff != "" || err != nil {
		t.Errorf("model.OwnNames = %v %s", err, diff)
	}

	for _, names := range [][2]string{{"files.read", "files-read"}, {"form", "form"}, {"a b", "a_b"}} {
		_, err := model.OwnNames([]model.ToolSpec{{Name: names[0]}, {Name: "other"}, {Name: names[1]}})
		want := fmt.Sprintf("tools %q and %q would both be offered as %q", names[0], names[1], model.OfferedName(names[0]))
		if err == nil || err.Error() != want {
			t.Errorf("model.OwnNames = %v, want %s", err, want)
		}
	}
}

// stub is a model whose requests take a while.
type stub struct {
	takes   time.Duration
	started chan string // the text of each request that started
}

func (s *stub) Provider() string { return "stub" }
func (s *stub) Name() string     { return "s-1" }

func (s *stub) Generate(ctx context.Context, req model.Request, _ func(model.Delta)) (*model.Response, error) {
	s.started <- req.Messages[0].Text()
	time.Sleep(s.takes) // fake time, in a bubble
	return &model.Response{}, ctx.Err()
}

// TestLimit starts six requests a second apart. Time is fake.
func TestLimit(t *testing.T) {
	t.Parallel()

	for _, row := range []struct {
		name   string
		limits model.Limits
		takes  time.Duration
		cancel int   // this request is given up after 10 s
		want   []int // the second in which each starts; -1: never
	}{
		{"none", model.Limits{}, time.Hour, -1, []int{0, 1, 2, 3, 4, 5}},
		{"one at a time", model.Limits{Concurrent: 1}, 20 * time.Second, -1, []int{0, 20, 40, 60, 80, 100}},
		{"two at a time", model.Limits{Concurrent: 2}, 20 * time.Second, -1, []int{0, 1, 20, 21, 40, 41}},
		{"two a minute", model.Limits{PerMinute: 2}, time.Millisecond, -1, []int{0, 1, 60, 61, 120, 121}},
		{"both", model.Limits{Concurrent: 1, PerMinute: 2}, 40 * time.Second, -1, []int{0, 40, 80, 120, 160, 200}},
		{
			"one is given up while it waits for a slot", model.Limits{Concurrent: 1}, 20 * time.Second, 1,
			[]int{0, -1, 20, 40, 60, 80},
		},
		{
			"one is given up while it waits in line", model.Limits{Concurrent: 1}, 20 * time.Second, 2,
			[]int{0, 20, -1, 40, 60, 80},
		},
		{
			"one is given up while it waits for the minute", model.Limits{PerMinute: 2}, time.Millisecond, 2,
			[]int{0, 1, -1, 60, 61, 120},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &stub{takes: row.takes, started: make(chan string, len(row.want))}
				m := model.Limit(s, row.limits)
				if m.Name() != "s-1" || m.Provider() != "stub" {
					t.Errorf("%s of %s", m.Name(), m.Provider())
				}

				begin := time.Now()
				got := make([]int, len(row.want))
				for i := range got {
					got[i] = -1
					go func() {
						ctx := t.Context()
						if i == row.cancel {
							var stop context.CancelFunc
							ctx, stop = context.WithTimeout(ctx, 10*time.Second)
							defer stop()
						}

						_, err := m.Generate(ctx, model.Request{Messages: []model.Message{model.User(fmt.Sprint(i))}}, nil)
						var failed *model.Error
						if i == row.cancel {
							if !errors.As(err, &failed) || failed.Kind != model.KindCancelled || !errors.Is(err, context.DeadlineExceeded) {
								t.Errorf("given up: %v", err)
							}
						} else if err != nil {
							t.Error(err)
						}
					}()
					synctest.Wait()
					collect(s.started, got, begin)
					time.Sleep(time.Second)
				}

				for range 200 {
					synctest.Wait()
					collect(s.started, got, begin)
					time.Sleep(time.Second)
				}
				if diff := cmp.Diff(row.want, got); diff != "" {
					t.Errorf("make([]int, len(row.want)) (-want +got):\n%s", diff)
				}
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

// collect notes the second in which requests started.
func collect(started <-chan string, seconds []int, begin time.Time) {
	for {
		select {
		case text := <-started:
			var i int
			_, _ = fmt.Sscan(text, &i)
			seconds[i] = int(time.Since(begin) / time.Second)
		default:
			return
		}
	}
}

// TestUnlimited: a model has its limits whichever way round it got them and its patience, and loses only them.
func TestUnlimited(t *testing.T) {
	t.Parallel()
	limits, patience := model.Limits{Concurrent: 2, PerMinute: 30}, model.Patience{Tries: 3, Fallback: []string{"b"}}
	for name, m := range map[string]model.Model{
		"limits first":   model.WithPatience(model.Limit(&stub{}, limits), patience),
		"patience first": model.Limit(model.WithPatience(&stub{}, patience), limits),
	} {
		without, got := model.Unlimited(m)
		if got != limits {
			t.Errorf("%s: %+v", name, got)
		}
		if p := model.PatienceWith(without); p.Tries != 3 || len(p.Fallback) != 1 {
			t.Errorf("%s: without limits it has the patience %+v", name, p)
		}
		if _, still := model.Unlimited(without); still != (model.Limits{}) {
			t.Errorf("%s: it still has %+v", name, still)
		}
	}
}
