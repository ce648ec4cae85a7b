package agenttest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent"
	"github.com/actlog/actlog/agent/agenttest"
	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/record"
)

// fragile is an agent and a workflow whose tool does not do what it is asked.
func fragile(m model.Model, outcome error, p tool.Policy) agent.Parts {
	send := tool.Func("send", "Sends.", func(context.Context, struct{}) (string, error) {
		return "", outcome
	}, tool.WithPolicy(p))

	return agent.Parts{
		Models: map[string]model.Model{"default": m}, Tools: []tool.Tool{send},
		Agents: map[string]agent.Agent{"a": {Tools: []string{"send"}}},
		Workflows: map[string]agent.Workflow{"w": {
			Tools: []string{"send"},
			Run: func(ctx context.Context, f workflow.Facade, _ json.RawMessage, _ string) (any, error) {
				return f.CallTool(ctx, "send", struct{}{})
			},
		}},
	}
}

// TestReplayOutcomes: calls that failed, whose outcome is unknown, that were rejected or decided by a person, models
// that failed, and limits: the same code does the same.
func TestReplayOutcomes(t *testing.T) {
	t.Parallel()
	sends := agenttest.Model(agenttest.Call("send", struct{}{}), agenttest.Final("Done."))
	asks := agent.Job{Work: agent.Request{Agent: "a", Request: "Send it."}}
	flows := agent.Job{Work: agent.Flow{Workflow: "w", Input: "it"}}
	decides := func(decision string) func(agent.Wait) agent.Decision {
		return func(agent.Wait) agent.Decision {
			return agent.Decision{Decision: decision, By: "ada", Text: "as I said"}
		}
	}

	for name, tt := range map[string]struct {
		job     agent.Job
		model   model.Model
		outcome error
		policy  tool.Policy
		decide  func(agent.Wait) agent.Decision
	}{
		"failed, and tried again": {asks, sends, errors.New("no"), tool.Policy{Retry: &tool.Retries{Tries: 2, From: 1}}, nil},
		"unknown":                 {asks, sends, tool.ErrUnknown, tool.Policy{}, nil},
		"unknown and done":        {asks, sends, tool.ErrUnknown, tool.Policy{OnUnknown: tool.Ask}, decides(agent.Done)},
		"unknown and skipped":     {asks, sends, tool.ErrUnknown, tool.Policy{OnUnknown: tool.Ask}, decides(agent.Skip)},
		"rejected":                {asks, sends, nil, tool.Policy{Approval: true}, decides(agent.Reject)},
		"waits for ever":          {asks, sends, nil, tool.Policy{Approval: true}, nil},
		"flow: failed":            {flows, sends, errors.New("no"), tool.Policy{}, nil},
		"flow: done":              {flows, sends, tool.ErrUnknown, tool.Policy{}, decides(agent.Done)},
		"flow: skipped":           {flows, sends, tool.ErrUnknown, tool.Policy{}, decides(agent.Skip)},
		"flow: rejected":          {flows, sends, nil, tool.Policy{Approval: true}, decides(agent.Reject)},
		"model failed": {
			asks, agenttest.Model(agenttest.Fail(model.KindContentFilter, "not that")), nil, tool.Policy{}, nil,
		},
		"model refused": {asks, agenttest.Model(agenttest.Func(
			func(context.Context, model.Request) (*model.Response, error) {
				return &model.Response{Finish: model.FinishRefusal}, nil
			})), nil, tool.Policy{}, nil},
		"limit": {
			agent.Job{Work: asks.Work, Limits: agent.Limits{Rounds: 1}}, sends, nil, tool.Policy{}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			records := recordOf(t, agenttest.Database(t), fragile(tt.model, tt.outcome, tt.policy), tt.job, tt.decide)
			same := unable(t, fragile(mute(t)["default"], nil, tt.policy))
			if diff := agenttest.Replay(t, read(records), same); len(diff) > 0 {
				t.Errorf("diff = %s", show(diff))
			}
		})
	}
}

// TestReplayRetried: of a run that was retried, what counts is how it went in the end.
func TestReplayRetried(t *testing.T) {
	t.Parallel()
	broken := true
	parts := func(m model.Model) agent.Parts {
		p := fragile(m, nil, tool.Policy{})
		w := p.Workflows["w"]
		before := w.Run
		w.Run = func(ctx context.Context, f workflow.Facade, in json.RawMessage, session string) (any, error) {
			if broken {
				return nil, errors.New("a bug")
			}
			return before(ctx, f, in, session)
		}
		p.Workflows["w"] = w
		return p
	}

	url := agenttest.Database(t)
	a := working(t, url, parts(agenttest.Model()))
	id, err := a.Start(t.Context(), agent.Job{Work: agent.Flow{Workflow: "w", Input: 7}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Wait(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	failed := export(t, url, id)

	broken = false
	if err := a.Retry(t.Context(), id, agent.RetryOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Wait(t.Context(), id); err != nil {
		t.Fatal(err)
	}

	now := unable(t, parts(mute(t)["default"]))
	if diff := agenttest.Replay(t, read(export(t, url, id)), now); len(diff) > 0 {
		t.Errorf("diff = %s", show(diff))
	}
	check(t, agenttest.Replay(t, read(failed), now), []string{"call:  -> send {}"})
}

// TestReplayContentsOnce: an export whose long texts are there once is played like a whole one.
func TestReplayContentsOnce(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("All that a clerk has to know, and more. ", 2000)
	parts := func(m model.Model, prompt string) agent.Parts {
		p := fragile(m, nil, tool.Policy{})
		p.Agents["a"] = agent.Agent{SystemPrompt: prompt, Tools: []string{"send"}}
		return p
	}

	url := agenttest.Database(t)
	script := agenttest.Model(agenttest.Call("send", struct{}{}), agenttest.Final("Done."))
	whole := recordOf(t, url, parts(script, long), agent.Job{Work: agent.Request{Agent: "a", Request: "Send it."}}, nil)
	once := exportOnce(t, url, whole)
	if bytes.Count(once, []byte(`"kind":"content"`)) == 0 {
		t.Fatalf("the export has no contents: %.200s", once)
	}

	if diff := agenttest.Replay(t, read(once), parts(mute(t)["default"], long)); len(diff) > 0 {
		t.Errorf("diff = %s", show(diff))
	}
	check(t, agenttest.Replay(t, read(once), parts(mute(t)["default"], long+"!")), []string{"cycle: and more. -> more. !"})
}

// exportOnce returns the export of a run with contents once.
func exportOnce(t *testing.T, url string, whole []byte) []byte {
	t.Helper()
	line, _, _ := bytes.Cut(whole, []byte("\n"))
	first, err := wire.Decode(line)
	if err != nil {
		t.Fatal(err)
	}

	s, err := store.Open(t.Context(), store.Config{DatabaseURL: url, MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(context.Background()) }()

	var out bytes.Buffer
	write := func(line []byte, err error) error {
		if err == nil {
			_, err = out.Write(append(line, '\n'))
		}
		return err
	}
	id := first.Key().Root
	if err := s.ExportOnce(t.Context(), id, id, func(root string, c content.Content) error {
		return write(wire.EncodeContent(wire.Content{RootPlanID: root, Content: c}))
	}, func(c record.Change) error { return write(wire.EncodeOnce(c)) }); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// failing is a test that notes how it failed.
type failing struct {
	testing.TB
	why string
}

type failed struct{}

func (f *failing) Helper() {}
func (f *failing) Fatalf(format string, args ...any) {
	f.why = fmt.Sprintf(format, args...)
	panic(failed{})
}

// TestReplayRefuses: what cannot be played fails the test, with a reason.
func TestReplayRefuses(t *testing.T) {
	t.Parallel()
	run := `{"kind":"plan","rootPlanId":"p","currentPlanId":"p","executor":"agent","name":"a","userRequest":"Go."}`
	other := strings.ReplaceAll(run, `"p"`, `"q"`)
	parts := fragile(mute(t)["default"], nil, tool.Policy{})

	for _, tt := range []struct{ name, records, want string }{
		{"nothing", "", "there is no run in it"},
		{"no JSON", "plan-7\n", "line 1 is no record of an export"},
		{"no record", run + "\n{}\n", "line 2 is no record of an export"},
		{"a part that is missing", run + "\n" + `{"kind":"thinkAct","rootPlanId":"p","stepId":"s","seq":0,"thinkInputParts":["` +
			strings.Repeat("00", 16) + `"]}`, "line 2"},
		{"two runs", run + "\n" + other, "there are two runs"},
		{"another executor", strings.Replace(run, `"agent"`, `"dag"`, 1), `it is of the executor "dag"`},
		{"an agent that is not there", strings.Replace(run, `"a"`, `"b"`, 1), `no agent is called "b"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := &failing{TB: t}
			func() {
				defer func() {
					if p := recover(); p != nil && p != (failed{}) {
						panic(p)
					}
				}()
				agenttest.Replay(f, strings.NewReader(tt.records), parts)
			}()
			if !strings.Contains(f.why, tt.want) {
				t.Errorf("it failed with %q, not %q", f.why, tt.want)
			}
		})
	}
}

var update = flag.Bool("update", false, "record the run of the examples again")

// TestRecorded: the run of the examples is one of the present version.
func TestRecorded(t *testing.T) {
	t.Parallel()
	const file = "testdata/order-7.ndjson"
	if *update {
		script := agenttest.Model(agenttest.Call("find", map[string]int{"number": 7}), agenttest.Final("Two cups."))
		job := agent.Job{Work: agent.Request{Agent: "clerk", Request: "What is order 7?"}}
		if err := os.WriteFile(file, recordOf(t, agenttest.Database(t), clerk(script), job, nil), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	diff := agenttest.Replay(t, strings.NewReader(readFile(t, file)), clerk(mute(t)["default"]))
	if len(diff) > 0 {
		t.Errorf("run the test with -update: %s", show(diff))
	}
}
