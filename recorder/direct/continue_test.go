package direct_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
	"github.com/actlog/actlog/recorder"
	"github.com/actlog/actlog/recorder/direct"
)

// process is what one process holds of the run "p" below.
type process struct {
	ctx   context.Context
	rec   *recorder.Recorder
	sink  *direct.Sink
	now   time.Time
	plan  *recorder.Plan
	steps map[string]*recorder.Step
	cycle *recorder.Cycle // the last one
	calls map[string]*recorder.ToolCall
	sub   *recorder.Plan
}

func newProcess(ctx context.Context, url string) (*process, error) {
	sink, err := direct.Open(ctx, url, nil)
	if err != nil {
		return nil, err
	}
	p := &process{ctx: ctx, sink: sink, steps: map[string]*recorder.Step{}, calls: map[string]*recorder.ToolCall{}}
	p.rec = recorder.New(sink, recorder.Options{Project: "shop", Clock: func() time.Time { return p.now }})
	return p, nil
}

// in returns the context of a handle.
func (p *process) in(h interface{ Link() recorder.Link }) context.Context {
	return recorder.ContextWithLink(p.ctx, h.Link())
}

// piece is a part of a run, after which its process may be killed.
type piece struct {
	name string
	do   func(p *process) error
}

// pieces are a run with all kinds of records. The first one starts it.
var pieces = []piece{
	{"start the plan", func(p *process) (err error) {
		_, p.plan, err = p.rec.StartPlan(p.ctx,
			recorder.PlanInfo{ID: "p", Title: "Answer", ConversationID: "talk", Steps: []recorder.StepInfo{
				{ID: "s0", Requirement: "[READER] read"}, {ID: "s1", Requirement: "write"},
			}})
		for _, s := range p.plan.Steps() {
			p.steps[s.ID()] = s
		}
		return err
	}},
	{"start step 0", func(p *process) error { _, err := p.steps["s0"].Start(p.ctx); return err }},
	{"start cycle 0", startCycle("s0")},
	{"answer", func(p *process) error {
		err := p.cycle.EndThink(p.ctx, recorder.ThinkResult{
			Output: "both", Model: "m2", InputTokens: 9, Tools: []recorder.ToolInfo{
				{ID: "a", Name: "ask"}, {ID: "b", Name: "look"},
			},
		})
		for _, c := range p.cycle.Tools() {
			p.calls[c.ID()] = c
		}
		return err
	}},
	{"start call a", func(p *process) error { _, err := p.calls["a"].Start(p.ctx); return err }},
	{"start the sub-plan", func(p *process) (err error) {
		_, p.sub, err = p.rec.StartPlan(p.in(p.calls["a"]), recorder.PlanInfo{ID: "sub", Title: "Ask an expert"})
		return err
	}},
	{"a source, a thought", func(p *process) error {
		ctx := p.in(p.calls["a"])
		return errors.Join(p.plan.Source(ctx, recorder.SourceInfo{ID: "so", URI: "a.go"}),
			p.plan.Thought(ctx, recorder.ThoughtInfo{ID: "th", Content: "hm"}))
	}},
	{"end the sub-plan", func(p *process) error { return p.sub.End(p.ctx, recorder.PlanResult{Summary: "42"}) }},
	{"start call b", func(p *process) error { _, err := p.calls["b"].Start(p.ctx); return err }},
	{"end call a", endCall("a")},
	{"fail call b", func(p *process) error {
		if err := p.calls["b"].Fail(p.ctx, errBoom); err != errBoom {
			return err
		}
		return nil
	}},
	{"start call c", func(p *process) (err error) {
		_, p.calls["c"], err = p.cycle.StartTool(p.in(p.steps["s0"]), recorder.ToolInfo{ID: "c", Name: "write"})
		return err
	}},
	{"end call c", endCall("c")},
	{"end cycle 0", func(p *process) error { return p.cycle.End(p.ctx, recorder.CycleResult{ActionResult: "fine"}) }},
	{"start cycle 1", startCycle("s0")},
	{"close cycle 1", func(p *process) error { return p.cycle.Close(p.ctx) }},
	{"start cycle 2", startCycle("s0")},
	{"start call d", func(p *process) (err error) {
		_, p.calls["d"], err = p.cycle.StartTool(p.ctx, recorder.ToolInfo{ID: "d", Name: "write"})
		return err
	}},
	{"end cycle 2", func(p *process) error { return p.cycle.End(p.ctx, recorder.CycleResult{}) }},
	{"fail step 0", func(p *process) error { return p.steps["s0"].End(p.ctx, recorder.StepResult{Err: errBoom}) }},
	{"retry step 0", func(p *process) (err error) { _, p.steps["s0"], err = p.steps["s0"].Retry(p.ctx); return err }},
	{"start cycle 3", startCycle("s0")},
	{"end cycle 3", func(p *process) error { return p.cycle.End(p.ctx, recorder.CycleResult{}) }},
	{"end step 0", func(p *process) error { return p.steps["s0"].End(p.ctx, recorder.StepResult{Result: "read"}) }},
	{"start step 1 by its cycle", startCycle("s1")},
	{"end cycle 0 of step 1", func(p *process) error { return p.cycle.End(p.ctx, recorder.CycleResult{}) }},
	{"close step 1", func(p *process) error { return p.steps["s1"].Close(p.ctx) }},
	{"start a step that nobody planned", func(p *process) (err error) {
		_, p.steps["s2"], err = p.plan.StartStep(p.ctx, recorder.StepInfo{ID: "s2", Requirement: "check"})
		return err
	}},
	{"start a wait", func(p *process) error {
		_, err := p.plan.StartWait(p.in(p.steps["s2"]), recorder.WaitInfo{ID: "w", Title: "May I?"})
		return err
	}},
	{"decide it", func(p *process) error {
		return p.plan.OpenWait("w").Decide(p.ctx, recorder.WaitDecision{State: record.Approved})
	}},
	{"an artifact", func(p *process) error {
		return p.plan.Artifact(p.in(p.steps["s2"]), recorder.ArtifactInfo{Name: "report", Value: "done"})
	}},
	{"end step 2", func(p *process) error { return p.steps["s2"].End(p.ctx, recorder.StepResult{}) }},
	{"end the plan", func(p *process) error { return p.plan.End(p.ctx, recorder.PlanResult{Summary: "So it is."}) }},
}

var errBoom = errors.New("boom")

func startCycle(step string) func(*process) error {
	return func(p *process) (err error) {
		p.cycle, err = p.steps[step].StartCycle(p.ctx, recorder.CycleInfo{
			ThinkInput: "what now?", Provider: "acme", Model: "m1",
		})
		return err
	}
}

func endCall(id string) func(*process) error {
	return func(p *process) error { return p.calls[id].End(p.in(p.calls[id]), recorder.ToolResult{Result: "done"}) }
}

// work does pieces from..to, each at its own time.
func (p *process) work(from, to int) error {
	for i, piece := range pieces[from:to] {
		p.now = time.Date(2026, 11, 20, 12, 0, from+i, 0, time.UTC)
		if err := piece.do(p); err != nil {
			return fmt.Errorf("%s: %w", piece.name, err)
		}
	}
	return nil
}

// open opens all that is on record of the run, as a runtime does that continues it.
func (p *process) open(t *testing.T, s *store.Store) {
	t.Helper()
	at := func(t *time.Time) time.Time {
		if t == nil {
			return time.Time{}
		}
		return *t
	}

	on := storetest.PlanTree(t, s, "p")
	link := recorder.Link{RootPlanID: "p", PlanID: "p", Project: *on.Record.Project}
	var ctx context.Context
	ctx, p.plan = p.rec.ContinuePlan(p.ctx, recorder.PlanRef{
		Link: link, ConversationID: *on.Record.ConversationID, StartTime: at(on.Record.StartTime),
		NextIndex: int64(len(on.Steps)),
	})

	for _, step := range on.Steps {
		detail := storetest.StepDetail(t, s, step.Record.StepID)
		stepCtx, handle := p.plan.OpenStep(ctx, recorder.StepRef{
			ID: step.Record.StepID, Attempt: attempt(step.Record.Attempt), NextSeq: int64(len(detail.Cycles)),
			Idle: *step.Record.State == record.Idle, StartTime: at(step.Record.StartTime),
		})
		p.steps[handle.ID()] = handle
		for _, c := range detail.Cycles {
			p.cycle = handle.OpenCycle(recorder.CycleRef{
				Seq: c.Record.Seq, Attempt: attempt(c.Record.Attempt), Provider: *c.Record.Provider,
				NextCall:       int64(len(c.ToolCalls)),
				ThinkStartTime: at(c.Record.ThinkStartTime), ThinkEndTime: at(c.Record.ThinkEndTime),
				ActStartTime: at(c.Record.ActStartTime),
			})
			for _, call := range c.ToolCalls {
				_, p.calls[call.Record.ToolCallID] = p.cycle.OpenTool(stepCtx, recorder.ToolRef{
					ID: call.Record.ToolCallID, Attempt: attempt(call.Record.Attempt),
					Pending: *call.Record.State == record.Pending, StartTime: at(call.Record.StartTime),
				})
			}
		}

		for _, sub := range step.SubPlans {
			_, p.sub = p.rec.ContinuePlan(ctx, recorder.PlanRef{
				Link: recorder.Link{RootPlanID: "p", PlanID: sub.Record.CurrentPlanID}, StartTime: at(sub.Record.StartTime),
			})
		}
	}
}

func attempt(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// onRecord is all of the run that is on record.
type onRecord struct {
	Tree  *tree.Plan
	Steps []*tree.Step
	Sub   *tree.Plan
}

func read(t *testing.T, s *store.Store) onRecord {
	t.Helper()
	all := onRecord{Tree: storetest.PlanTree(t, s, "p"), Sub: storetest.PlanTree(t, s, "sub")}
	for _, step := range all.Tree.Steps {
		all.Steps = append(all.Steps, storetest.StepDetail(t, s, step.Record.StepID))
	}
	return all
}

// apart leaves out what differs between two runs: row ids, revisions and signs of life.
var apart = cmp.FilterPath(func(p cmp.Path) bool {
	switch p.Last().String() {
	case ".ID", ".Rev", ".LastSeenAt":
		return true
	}
	return false
}, cmp.Ignore())

// asRunner makes the test binary a process that does the first half of the pieces.
const asRunner = "ACTLOG_DIRECT_TEST_DATABASE"

func runHalf(url string) error {
	p, err := newProcess(context.Background(), url)
	if err == nil {
		err = p.work(0, len(pieces)/2)
	}
	fmt.Println(err)
	_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed
	return err
}

// A run that is killed and continued through opened handles has the same record as one that was
// not: with a kill -9 in the middle, and with a new process for each piece.
func TestContinuedRun(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T) (url string, reader *store.Store) {
		t.Helper()
		url = pgtest.New(t).URL
		return url, storetest.OpenURL(t, url)
	}

	// run does pieces from..to in a process of its own.
	run := func(t *testing.T, url string, reader *store.Store, from, to int) {
		t.Helper()
		p, err := newProcess(t.Context(), url)
		ok(t, err)
		defer func() { ok(t, p.sink.Close(context.Background())) }()
		if from > 0 {
			p.open(t, reader)
		}
		ok(t, p.work(from, to))
	}

	url, reader := begin(t)
	run(t, url, reader, 0, len(pieces))
	want := read(t, reader)
	if len(want.Steps) != 3 || len(want.Steps[0].Cycles) != 4 || *want.Tree.Record.State != record.Completed {
		t.Fatalf("the run is %+v", want.Tree)
	}

	t.Run("killed in the middle", func(t *testing.T) {
		t.Parallel()
		url, reader := begin(t)
		runner := exec.CommandContext(t.Context(), os.Args[0])
		runner.Env = append(os.Environ(), asRunner+"="+url)
		in, err := runner.StdinPipe()
		ok(t, err)
		defer in.Close()

		out, err := runner.StdoutPipe()
		ok(t, err)
		ok(t, runner.Start())
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "<nil>\n" {
			t.Fatalf("the runner says %q, %v", line, err)
		}

		ok(t, runner.Process.Kill())
		_ = runner.Wait() // it was killed
		run(t, url, reader, len(pieces)/2, len(pieces))
		if diff := cmp.Diff(want, read(t, reader), apart); diff != "" {
			t.Errorf("read(reader) (-want +got):\n%s", diff)
		}
	})

	t.Run("a process for each piece", func(t *testing.T) {
		t.Parallel()
		url, reader := begin(t)
		for i := range pieces {
			run(t, url, reader, i, i+1)
		}
		if diff := cmp.Diff(want, read(t, reader), apart); diff != "" {
			t.Errorf("read(reader) (-want +got):\n%s", diff)
		}
	})
}
