package engine_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/git"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/record"
)

// approved lets a house work until a run of its agent has ended. All that it wants to do is approved.
func approved(t *testing.T, h *enginetest.House) *tree.Step {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var answering sync.WaitGroup
	answering.Go(func() { answer(ctx, h) })
	defer func() { cancel(); answering.Wait() }()
	h.Work(h.Engine)
	return h.Step(h.Await(h.Start("a", "Work."), record.Completed))
}

// judge returns how each call ended and how often it took effect, and complains about what must not be.
func (one hand) judge(t *testing.T, g grip, st *tree.Step) string {
	t.Helper()
	var b strings.Builder
	effects := g.effects()
	for i, cycle := range st.Cycles[:len(g.turns)] {
		made := cycle.ToolCalls[0]
		state, attempts := *made.Record.State, len(made.PastAttempts)+1
		line := fmt.Sprintf("%s %s, effects: %d", text(made.Record.Name), state, effects[i])
		fmt.Fprintln(&b, line)

		most := 1
		if one.repeats {
			most = attempts
		}
		known := state == record.Completed && effects[i] >= 1
		lost := state == record.Unknown && !one.sure && !one.repeats
		if effects[i] < 0 || effects[i] > most || !known && !lost {
			t.Errorf("%s in attempt %d: %s", line, attempts, text(made.Record.Result))
		}
	}
	return b.String()
}

// Whenever the worker is killed, no call of a toolset takes effect twice, and what is on record of it is true: it is
// COMPLETED if the tool can tell, and else UNKNOWN.
func TestHandsKilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	for _, each := range hands {
		t.Run(each.name, func(t *testing.T) {
			t.Parallel()
			want := enginetest.AtEveryWrite(t, func(t *testing.T, disturb func(*enginetest.House)) string {
				t.Helper()
				g := each.make(t)
				h := g.house(t)
				disturb(h)
				return each.judge(t, g, approved(t, h))
			}, func(*testing.T, string, string) {})
			if strings.Contains(want, string(record.Unknown)) || strings.Contains(want, "effects: 0") {
				t.Errorf("undisturbed:\n%s", want)
			}
		})
	}
}

// killedBeforeResult lets the worker of a house be killed when it writes the result of the nth call that worked, after
// others did something.
func killedBeforeResult(h *enginetest.House, nth int, others func()) {
	var results atomic.Int64
	var dead atomic.Pointer[runstore.Lease]
	h.Engine = h.NewEngine(func(c *engine.Config) {
		c.Write = func(ctx context.Context, l runstore.Lease, changes []record.Change, ops ...runstore.RunOp) error {
			if lost := dead.Load(); lost != nil && *lost == l {
				return runstore.ErrLeaseLost
			}

			for _, each := range changes {
				made, ok := each.(*record.ActTool)
				if !ok || made.State == nil || *made.State != record.Completed || results.Add(1) != int64(nth) {
					continue
				}

				others()
				dead.Store(&l)
				const free = "UPDATE actlog.run SET worker_id = NULL, due_at = now() WHERE plan_id = $1"
				if _, err := h.DB.Pool.Exec(context.WithoutCancel(ctx), free, l.PlanID); err != nil {
					h.T.Error(err)
				}
				return runstore.ErrLeaseLost
			}
			return c.Store.WriteRun(ctx, l, changes, ops...)
		}
	})
}

// If somebody else changes the same before it is seen what became of a call, the call is not made again, with and
// without approvals, and nobody is told that nothing was done.
func TestOthersChangeWhatACallChanged(t *testing.T) {
	t.Parallel()
	for _, each := range hands {
		for name, rule := range map[string]tool.Rule{
			"approved": {Tools: "none"}, "without approval": {Tools: "*", Approval: new(false), Timeout: new(5 * time.Minute)},
		} {
			t.Run(each.name+", "+name, func(t *testing.T) {
				t.Parallel()
				g := each.make(t)
				if g.others == nil {
					t.Skip("nobody else can")
				}

				h := g.house(t, rule)
				killedBeforeResult(h, len(g.turns), g.others)
				st := approved(t, h)
				last := len(g.turns) - 1
				made := st.Cycles[last].ToolCalls[0].Record
				if n := g.effects()[last]; n != 1 || *made.State != record.Unknown {
					t.Errorf("%s is %s, effects: %d: %s", text(made.Name), *made.State, n, text(made.Result))
				}
			})
		}
	}
}

// slowGit is a git that does what it is told, and the first time that it commits does not end.
const slowGit = `#!/bin/sh
REAL "$@"
code=$?
for each; do
	if [ "$each" = commit ] && mkdir MARK 2>/dev/null; then sleep 600; fi
done
exit $code
`

// A call of git that runs out of time after it took effect is not failed: its outcome is unknown, and then found.
func TestGitTimesOutAfterItsEffect(t *testing.T) {
	real, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	bin := t.TempDir()
	slow := strings.NewReplacer("REAL", real, "MARK", filepath.Join(bin, "mark")).Replace(slowGit)
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte(slow), 0o755); err != nil {
		t.Fatal(err)
	}

	p := placeWith(t, map[string]string{"a.txt": "a\n"})
	gitIn(t, p.dir, "init", "--quiet", "--initial-branch=main")
	gitIn(t, p.dir, "commit", "--quiet", "--allow-empty", "-m", "First")
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	tools, err := git.Tools(p.dir, git.Options{Write: true, Name: "Ada", Email: "ada@example.org"})
	if err != nil {
		t.Fatal(err)
	}

	short := tool.Rules{{Tools: "git.commit", Approval: new(false), Timeout: new(3 * time.Second)}}
	h := build(t, []scriptmodel.Scene{{Name: "s", Turns: calls(
		one("git.commit", object{"message": "Add a", "files": []string{"a.txt"}}), terminate("done"),
	)}}, map[string]define.Definition{"a": {Tools: []string{"git.*"}, Policies: short}}, tools)

	made := approved(t, h).Cycles[0].ToolCalls[0]
	if *made.Record.State != record.Completed || len(made.PastAttempts) == 0 {
		t.Errorf("%s after %d attempts: %s", *made.Record.State, len(made.PastAttempts), text(made.Record.Result))
	}
	for _, past := range made.PastAttempts {
		if past.State != record.Unknown || text(past.ErrorKind) != "timeout" {
			t.Errorf("an attempt before: %+v", past)
		}
	}
	if log := gitIn(t, p.dir, "log", "--format=%s"); log != "Add a\nFirst" {
		t.Errorf("log = %q", log)
	}
}
