package agenttest_test

import (
	"bytes"
	"testing"

	"github.com/actlog/actlog/agent"
	"github.com/actlog/actlog/agent/agenttest"
	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
)

// TestReplayFallback: that another model answered is no difference, nor is it that none did.
func TestReplayFallback(t *testing.T) {
	t.Parallel()
	parts := func(first, second model.Model) agent.Parts {
		p := fragile(nil, nil, tool.Policy{})
		p.Models = map[string]model.Model{
			"default": model.Limit(model.WithPatience(first, model.Patience{Tries: 1, Fallback: []string{"second"}}),
				model.Limits{Concurrent: 1, PerMinute: 3}),
			"second": second,
		}
		return p
	}
	refuses := agenttest.Model(agenttest.Fail(model.KindAuth, "no key"), agenttest.Fail(model.KindAuth, "no key"))

	for name, second := range map[string]model.Model{
		"another answers": agenttest.Model(agenttest.Call("send", struct{}{}), agenttest.Final("Done.")),
		"none does":       agenttest.Model(agenttest.Fail(model.KindAuth, "no key, neither")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := agent.Job{Work: agent.Request{Agent: "a", Request: "Send it."}}
			records := recordOf(t, agenttest.Database(t), parts(refuses, second), job, nil)
			if name == "another answers" && !bytes.Contains(records, []byte(`"fallbackFrom":[{"model":"default"`)) {
				t.Errorf("no other model answered: %s", records)
			}

			m := mute(t)["default"]
			if diff := agenttest.Replay(t, read(records), unable(t, parts(m, m))); len(diff) > 0 {
				t.Errorf("diff = %s", show(diff))
			}
			changed := parts(m, m)
			changed.Agents["a"] = agent.Agent{SystemPrompt: "You are new.", Tools: []string{"send"}}
			if diff := agenttest.Replay(t, read(records), changed); len(diff) != 1 {
				t.Errorf("another prompt: %s", show(diff))
			}
		})
	}
}
