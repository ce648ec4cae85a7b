package agent_test

import (
	"testing"

	"github.com/actlog/actlog/agent"
	"github.com/actlog/actlog/agent/agenttest"
	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestTry: a program makes a model call again that another one recorded.
func TestTry(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	storetest.Write(t, storetest.OpenURL(t, db.URL), &record.ThinkAct{
		RootPlanID: "p", StepID: "s", ThinkInput: new("Hello."), ThinkOutput: new("Hi."), State: new(record.Completed),
	})
	a := open(t, db.URL)
	m := agenttest.Model(agenttest.Text("Good day."))
	register(t, a, agent.Parts{Models: map[string]model.Model{"default": m}})
	go func() { _ = a.Work(t.Context()) }()

	tried, err := a.Try(t.Context(), "p", "cycle:s/0", "default", agent.TryOptions{SystemPrompt: new("Be polite.")})
	if err != nil || tried.Before.Text != "Hi." || tried.After.Text != "Good day." || len(m.Requests()[0].Messages) != 2 {
		t.Errorf("it is %+v, %v", tried, err)
	}
	if _, err := a.Try(t.Context(), "p", "cycle:s/1", "default", agent.TryOptions{}); err == nil {
		t.Error("a cycle that is not on record is tried")
	}
}
