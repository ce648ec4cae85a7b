package dag_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/dag"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// E9, E17: an execution that is paused in the middle of a wave: what is under way ends, no other node begins. When it
// is resumed, what remains is done, and no node that has completed is asked again, also by the next worker when the
// first was killed after the pause. One that is stopped meanwhile ends at once.
func TestControlsInMidWave(t *testing.T) {
	t.Parallel()
	for _, scheduling := range []string{"waves", "eager"} {
		for _, then := range []string{"resumed", "killed", "stopped"} {
			t.Run(scheduling+" "+then, func(t *testing.T) {
				t.Parallel()
				midWave(t, scheduling, then)
			})
		}
	}
}

// midWave pauses the diamond while n1 has completed and n2 and n3 are under way.
func midWave(t *testing.T, scheduling, then string) {
	t.Helper()
	var mu sync.Mutex
	asked := map[string]int{}
	begun, goOn := make(chan string, 10), make(chan struct{})
	free := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(free)

	at := func(name string, holds bool) scriptmodel.Scene {
		return scene(`"`+name+`"`, replies(func(ctx context.Context, _ *scriptmodel.Request) (string, error) {
			mu.Lock()
			asked[name]++
			mu.Unlock()
			if holds {
				begun <- name
				select {
				case <-goOn:
				case <-ctx.Done():
				}
			}
			return "found " + name, nil
		}))
	}
	h := enginetest.Build(t, enginetest.Plans{
		Scenes: []scriptmodel.Scene{
			planned(diamond), at("Context", false), at("X", false), at("Y", true), at("Z", true), at("Sum", false),
		},
		Executors: []engine.Executor{dag.Executor{}},
	})

	var dead atomic.Bool
	stop := h.Work(h.NewEngine(func(c *engine.Config) {
		c.Drain = time.Millisecond
		c.Write = func(ctx context.Context, l runstore.Lease, changes []record.Change, ops ...runstore.RunOp) error {
			if dead.Load() {
				return runstore.ErrLeaseLost
			}
			return c.Store.WriteRun(ctx, l, changes, ops...)
		}
	}))
	control := func(id string, a runstore.Action) {
		t.Helper()
		if err := h.Runs.Control(t.Context(), id, a, "ann"); err != nil {
			t.Fatal(err)
		}
	}

	id := start(h, object{"prompt": "Go.", "scheduling": scheduling})
	<-begun
	<-begun
	storetest.Until(t, "n1 has completed", func() bool { return states(h.Plan(id))["n1"] == "COMPLETED found X" })
	control(id, runstore.Pause)
	if then == "killed" {
		dead.Store(true)
		stop()
		if _, err := h.DB.Pool.Exec(t.Context(),
			"UPDATE actlog.run SET worker_id = NULL, due_at = now() WHERE plan_id = $1 AND NOT done", id); err != nil {
			t.Fatal(err)
		}
		h.Work(h.NewEngine(nil))
	} else {
		free()
	}

	p := h.Await(id, record.Paused)
	free()
	if s := states(p); s["n0"] != "COMPLETED found Context" || s["n1"] != "COMPLETED found X" || s["n4"] != "" {
		t.Errorf("when it is paused: %v", s)
	}

	want := map[string]int{"Context": 1, "X": 1, "Y": 1, "Z": 1, "Sum": 1}
	if then == "stopped" {
		control(id, runstore.Stop)
		p = h.Ended(id)
		delete(want, "Sum")
		if *p.Record.State != record.Cancelled || states(p)["n2"] != "COMPLETED found Y" {
			t.Errorf("%s: %v", *p.Record.State, states(p))
		}
	} else {
		control(id, runstore.Resume)
		p = h.Ended(id)
		if *p.Record.State != record.Completed || text(p.Record.Summary) != "found Sum" {
			t.Errorf("%s: %v", *p.Record.State, states(p))
		}
	}
	if then == "killed" {
		want["Y"], want["Z"] = 2, 2 // their first answers were lost
	}

	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("nodes were asked: %s\n%s", diff, strings.Join(logOf(h, id), "\n"))
	}
}
