package agenttest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/actlog/actlog/agent"
	"github.com/actlog/actlog/agent/agenttest"
	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/workflow"
)

// patientShop has a workflow and an agent that sleep, and wait for two events, of which one is not sent in time.
func patientShop(m model.Model, sleep time.Duration) agent.Parts {
	return agent.Parts{
		Models: map[string]model.Model{"default": m},
		Agents: map[string]agent.Agent{"clerk": {SystemPrompt: "You wait.", Tools: []string{"wait_for"}}},
		Workflows: map[string]agent.Workflow{"ship": {
			Run: func(ctx context.Context, f workflow.Facade, _ json.RawMessage, _ string) (any, error) {
				if err := f.Sleep(ctx, sleep); err != nil {
					return nil, err
				}
				if _, err := f.Event(ctx, "refused:7", time.Millisecond); !errors.Is(err, workflow.ErrTimedOut) {
					return nil, errors.Join(err, errors.New("the order was refused"))
				}
				return f.Event(ctx, "paid:7", 0)
			},
		}},
	}
}

// waits are what the clerk of the shop says.
func waits() model.Model {
	return agenttest.Model(
		agenttest.Call("wait_for", map[string]any{"seconds": 0.001}),
		agenttest.Call("wait_for", map[string]any{"event": "refused:7", "seconds": 0.001}),
		agenttest.Call("wait_for", map[string]any{"event": "paid:7"}),
		agenttest.Final("It is paid."))
}

// said returns parts whose workflow says what it got when it was paid.
func said(parts agent.Parts, result string) agent.Parts {
	w := parts.Workflows["ship"]
	before := w.Run
	w.Run = func(ctx context.Context, f workflow.Facade, in json.RawMessage, session string) (any, error) {
		got, err := before(ctx, f, in, session)
		return fmt.Sprintf("%s %s", result, got), err
	}
	parts.Workflows["ship"] = w
	return parts
}

// TestReplayWaits: a replay does not sleep, and gets the events on record.
func TestReplayWaits(t *testing.T) {
	t.Parallel()
	long := func(record []byte) []byte { // as if the run had slept for a day
		return bytes.ReplaceAll(record, []byte(`{\"seconds\":0.001}`), []byte(`{\"seconds\":86400}`))
	}

	for name, tt := range map[string]struct {
		job         agent.Job
		otherTime   []string // if the code sleeps for an hour
		otherResult []string // if it does something else after the last event
	}{
		"agent": {agent.Job{Work: agent.Request{Agent: "clerk", Request: "Ship it."}}, nil, nil},
		"flow": {
			agent.Job{Work: agent.Flow{Workflow: "ship", Input: 7}},
			[]string{`call: wait_for {"seconds":86400} -> wait_for {"seconds":3600}`},
			[]string{`plan: shipped {\"cups\":2} -> kept {\"cups\":2}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := agenttest.Database(t)
			if _, err := working(t, url, agent.Parts{}).Event(t.Context(), "paid:7", map[string]int{"cups": 2},
				agent.EventOptions{}); err != nil {
				t.Fatal(err)
			}

			records := long(recordOf(t, url, said(patientShop(waits(), time.Millisecond), "shipped"), tt.job, nil))
			if !bytes.Contains(records, []byte(`86400`)) || !bytes.Contains(records, []byte(`\"cups\"`)) {
				t.Fatalf("the run did not sleep, or got no event: %s", records)
			}
			same := said(patientShop(mute(t)["default"], 24*time.Hour), "shipped")
			if diff := agenttest.Replay(t, read(records), same); len(diff) > 0 {
				t.Errorf("diff = %s", show(diff))
			}

			hour := patientShop(mute(t)["default"], time.Hour)
			check(t, agenttest.Replay(t, read(records), hour), tt.otherTime)
			kept := said(patientShop(mute(t)["default"], 24*time.Hour), "kept")
			check(t, agenttest.Replay(t, read(records), kept), tt.otherResult)
		})
	}
}
