package orchestrator_test

import (
	"context"
	"maps"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// midway is a house whose run stands in the second of three steps: in its model call, in its tool or before its
// approval.
type midway struct {
	*house
	id   string
	free func() // lets the model or the tool go on

	mu   sync.Mutex
	made map[string]int // calls of tools
	dead atomic.Bool    // the worker that began: nothing that it writes arrives
	stop func()         // ends it
}

// model, inTool and approval are the places in a step.
const (
	model    = "model"
	inTool   = "tool"
	approval = "approval"
)

func stopMidway(t *testing.T, place string) *midway {
	t.Helper()
	begun, goOn := make(chan struct{}, 1), make(chan struct{})
	m := &midway{made: map[string]int{}, free: sync.OnceFunc(func() { close(goOn) })}
	t.Cleanup(m.free)
	hold := func(ctx context.Context, at string) {
		if at != place {
			return
		}
		begun <- struct{}{}
		select {
		case <-goOn:
		case <-ctx.Done():
		}
	}

	action := "git.work"
	if place == approval {
		action = "git.commit"
	}
	have := []tool.Tool{
		tool.Func("search.searchCode", "Searches code.", func(context.Context, query) (string, error) {
			m.count("search")
			return "found", nil
		}),
		tool.Func("git.work", "Works.", func(ctx context.Context, _ query) (string, error) {
			m.count("work")
			hold(ctx, inTool)
			return "worked", ctx.Err()
		}, tool.WithPolicy(tool.Policy{Writes: true})),
		tool.Func("git.commit", "Commits.", func(context.Context, query) (string, error) {
			m.count("work")
			return "worked", nil
		},
			tool.WithPolicy(tool.Policy{Writes: true, Approval: true})),
		tool.Func("git.log", "Shows commits.", func(context.Context, query) (string, error) {
			m.count("log")
			return "one", nil
		}),
	}

	chosen := calls(action, query{"A"})[0]
	m.house = build(t, definition(nil),
		scenes([]scriptmodel.Turn{
			says(plan(step(1, "RAG_SEARCH", "Search"), step(2, "GIT", "Work"), step(3, "GIT", "Log"))),
		}, map[string][]scriptmodel.Turn{
			"Search": calls("search.searchCode", query{"A"}), "Log": calls("git.log", query{"A"}),
			"Work": {{Reply: func(ctx context.Context, _ *scriptmodel.Request) (scriptmodel.Turn, error) {
				m.count("model")
				hold(ctx, model)
				return chosen, nil
			}}, repeats},
		}), have)

	m.stop = m.Work(m.NewEngine(func(c *engine.Config) {
		c.Drain = time.Millisecond
		c.Write = func(ctx context.Context, l runstore.Lease, changes []record.Change, ops ...runstore.RunOp) error {
			if m.dead.Load() {
				return runstore.ErrLeaseLost
			}
			return c.Store.WriteRun(ctx, l, changes, ops...)
		}
	}))

	m.id = m.start(object{"request": "Do it"})
	storetest.Until(t, "the plan waits", func() bool { return len(m.Waits()) == 1 })
	m.decide(m.Waits()[0], accept)
	if place == approval {
		storetest.Until(t, "the action waits", func() bool {
			w := m.Waits()
			return len(w) == 1 && *w[0].Type == record.WaitActionValidation
		})
		m.Await(m.id, record.Waiting)
	} else {
		<-begun
	}
	return m
}

func (m *midway) count(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.made[what]++
}

func (m *midway) counted() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.made)
}

func (m *midway) ask(a runstore.Action) {
	m.T.Helper()
	if err := m.control(m.id, a); err != nil {
		m.T.Fatal(err)
	}
}

// kill kills the worker that began, and another one takes its place at once.
func (m *midway) kill() {
	m.T.Helper()
	m.dead.Store(true)
	m.stop()
	if _, err := m.DB.Pool.Exec(m.T.Context(),
		"UPDATE actlog.run SET worker_id = NULL, due_at = now() WHERE plan_id = $1 AND NOT done", m.id); err != nil {
		m.T.Fatal(err)
	}
	m.Work(m.NewEngine(nil))
}

// C9, C10: a pause in the middle of a step lets the call under way end, and the run is PAUSED before what comes next.
// When it is resumed, what remains is done, and nothing again; also when its worker was killed in between.
func TestPauseMidway(t *testing.T) {
	t.Parallel()
	for _, place := range []string{model, inTool, approval} {
		for _, killed := range []string{"", " killed"} {
			t.Run(place+killed, func(t *testing.T) {
				t.Parallel()
				m := stopMidway(t, place)
				m.ask(runstore.Pause)
				if place != approval && killed == "" {
					m.free()
				}
				if killed != "" {
					m.kill() // before the call under way has ended: nobody knows how it does
				}

				p := m.Await(m.id, record.Paused)
				m.free()
				if story := m.story(p); !strings.Contains(story, "step 0 RAG_SEARCH COMPLETED: found") ||
					strings.Contains(story, "step 2 ") {
					t.Errorf("when it is paused:\n%s", story)
				}
				before := m.counted()
				if place == model && before["work"] > 0 || before["log"] > 0 {
					t.Errorf("it went on although it was to pause: %v", before)
				}

				m.ask(runstore.Resume)
				p = m.ended(m.id, accept)
				want := map[string]int{"search": 1, "model": 1, "work": 1, "log": 1}
				if place == model && killed != "" {
					want["model"] = 2 // its first answer was lost
				}
				if diff := cmp.Diff(want, m.counted()); diff != "" {
					t.Errorf("calls: %s\n%s", diff, m.story(p))
				}

				end := "COMPLETED \nAnswer to "
				if place == inTool && killed != "" {
					end = "FAILED 1 of 3 steps failed.\nAnswer to " // nobody knows how the call ended
				}
				if story := m.story(p); !strings.HasPrefix(story, end) || !strings.Contains(story, "step 2 GIT COMPLETED: one") {
					t.Errorf("story = %v", story)
				}
			})
		}
	}
}

// C9, C10: who cancels in the middle of a step, or of a pause, has the run CANCELLED at once: no step begins any more,
// of a call that was under way nobody knows how it ended, and no wait is open.
func TestCancelMidway(t *testing.T) {
	t.Parallel()
	for _, place := range []string{model, inTool, approval} {
		for _, first := range []runstore.Action{runstore.Stop, runstore.Pause} {
			t.Run(place+" "+string(first), func(t *testing.T) {
				t.Parallel()
				m := stopMidway(t, place)
				if first == runstore.Pause {
					m.ask(runstore.Pause)
					m.free()
					m.Await(m.id, record.Paused)
				}

				m.ask(runstore.Stop)
				p := m.Ended(m.id) // although the call under way has not ended
				story := m.story(p)
				if *p.Record.State != record.Cancelled || text(p.Record.ErrorKind) != "stopped" ||
					strings.Contains(story, "step 2 ") || m.counted()["log"] > 0 || strings.Contains(story, "RUNNING") ||
					len(m.Waits()) > 0 {
					t.Errorf("story = %v", story)
				}

				if unknown := strings.Contains(story, "git.work UNKNOWN"); unknown != (place == inTool && first == runstore.Stop) {
					t.Errorf("story = %v", story)
				}
				if err := m.control(m.id, runstore.Resume); err == nil {
					t.Error("it was resumed")
				}
			})
		}
	}
}

// C9: who pauses a run again and again, at whatever place, holds it back and no more.
func TestPausedAgainAndAgain(t *testing.T) {
	t.Parallel()
	all, as := journey()
	var effects sync.Map
	h := build(t, definition(sixSteps), all, tools(func(id, _ string) {
		if _, twice := effects.LoadOrStore(id, true); twice {
			t.Error("an effect twice")
		}
	}))

	h.Work(h.Engine)
	id := h.start(object{"request": "Do it"})
	pauses, most := 0, 30
	if pgtest.Nightly() {
		most = math.MaxInt
	}
	for p := h.Plan(id); !p.Record.State.Terminal(); p = h.Plan(id) {
		if pauses < most && h.control(id, runstore.Pause) == nil {
			storetest.Until(t, "it is paused or has ended", func() bool {
				s := *h.Plan(id).Record.State
				return s == record.Paused || s.Terminal()
			})
			pauses++
		}

		_ = h.control(id, runstore.Resume)
		for _, w := range h.Waits() {
			h.decide(w, as)
		}
	}

	if story := h.story(h.Plan(id)); !strings.HasPrefix(story, "FAILED 1 of 6 steps failed.\nAnswer to ") || pauses < 3 {
		t.Errorf("%d pauses\n%s", pauses, story)
	}
}
