package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// shiftClock puts the clock of the database forward for the stores that are opened from now on. Later it can be put
// forward again: they share it.
func shiftClock(h *enginetest.House, by time.Duration) {
	h.T.Helper()
	sql(h, "CREATE SCHEMA shifted")
	sql(h, "CREATE TABLE shifted.clock (ahead interval)")
	sql(h, "INSERT INTO shifted.clock VALUES ($1)", by)

	// For the sessions that come, this function is now().
	sql(h, `CREATE FUNCTION shifted.now() RETURNS timestamptz LANGUAGE sql STABLE AS $$
		SELECT pg_catalog.now() + ahead FROM shifted.clock $$`)
	sql(h, `DO $$ BEGIN
		EXECUTE format('ALTER DATABASE %I SET search_path = shifted, pg_catalog', current_database());
	END $$`)
}

// TestWrongClock carries a run on a worker whose clock is hours away from that of Postgres. Limits of
// time, the time of questions, and when a form looks again whether it can be shown, go by Postgres.
func TestWrongClock(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{12 * time.Hour, -12 * time.Hour} {
		t.Run(fmt.Sprint(ahead), func(t *testing.T) {
			t.Parallel()
			h := build(t, []scriptmodel.Scene{
				{Name: "child", Match: scriptmodel.Match{System: "Child."}, Turns: calls(
					[]scriptmodel.ToolCall{
						call("form", object{"title": "City?", "inputs": []object{{"label": "City", "name": "city"}}}),
					}, terminate("child answer"))},
				{Name: "root", Match: scriptmodel.Match{System: "Root."}, Turns: calls(
					[]scriptmodel.ToolCall{
						call("agent.child", object{"request": "Ask."}), call("agent.child", object{"request": "Ask, too."}),
					}, terminate("root answer"))},
			}, map[string]define.Definition{
				"root":  {SystemPrompt: "Root.", Tools: []string{"agent.child"}},
				"child": {SystemPrompt: "Child.", Tools: []string{"form"}, WaitTimeout: define.Duration(time.Hour)},
			}, nil)

			shiftClock(h, -ahead)
			h.Store = storetest.OpenURL(t, h.DB.URL)
			h.Runs = runstore.New(h.Store)
			h.Engine = h.NewEngine(nil)

			ctx, cancel := context.WithCancel(t.Context())
			var answering sync.WaitGroup
			answering.Go(func() { answer(ctx, h) })
			defer func() { cancel(); answering.Wait() }()
			h.Work(h.Engine)
			h.Await(h.Start("root", "Travel.", func(r *engine.Request) {
				r.Limits = &engine.Limits{Seconds: 3600}
			}), record.Completed)
		})
	}
}
