package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// measureRun measures the runtime: how soon a run begins, how many boundaries it passes, what it
// costs to wait, and to rebuild an agent from its rows. Models and tools answer at once, so that what
// is measured is the runtime.
func measureRun(ctx context.Context, b *bench) (figures []figure, err error) {
	if figures, err = measureAgents(ctx, b); err != nil {
		return nil, err
	}

	db, err := b.database(ctx, "run")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.drop()) }()
	s, err := db.store(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closing(s.Close)) }()

	for _, measure := range []func(context.Context, *bench, *database, *store.Store) ([]figure, error){
		measureClaims, measureBoundaries, measureCycle, measureRebuilding, measureWaiting, measureParked,
	} {
		more, err := measure(ctx, b, db, s)
		if err != nil {
			return nil, err
		}
		figures = append(figures, more...)
	}
	return figures, nil
}

// loop is an executor whose runs think and call tools a number of times.
type loop struct {
	cycles, calls int
	asks          bool                // a human first
	began, ended  func(planID string) // may be nil
	thinks        func()              // called by each call of the model; may be nil
	script        *script             // nil: short texts
}

// wants is what the loop asks the model for in each cycle.
func (l loop) wants() (calls []model.ToolCall) {
	for i := range l.calls {
		calls = append(calls, model.ToolCall{ID: strconv.Itoa(i), Name: "look", Arguments: `{"name":"main.go"}`})
	}
	return calls
}

// model returns the model of the loop, which answers after a time.
func (l loop) model(after time.Duration) quick {
	return quick{calls: l.wants(), after: after, thinks: l.thinks, script: l.script}
}

// tools returns the tools of the loop.
func (l loop) tools() *tool.Set {
	if l.script != nil {
		return l.script.tools
	}
	return look
}

// Kind implements [engine.Executor].
func (loop) Kind() string { return "loop" }

// Prepare implements [engine.Executor].
func (loop) Prepare(_ engine.Parts, r engine.Request) (engine.Prepared, error) {
	return engine.Prepared{Input: r.Input, Title: "A run of the benchmark"}, nil
}

// Advance implements [engine.Executor].
func (l loop) Advance(ctx context.Context, run *engine.Run) (engine.Result, error) {
	if l.began != nil {
		l.began(run.ID())
	}
	if l.asks {
		if _, err := run.Ask(ctx, "go on",
			engine.WaitInfo{Type: record.WaitActionValidation, Title: "Go on?", Subject: json.RawMessage(`{}`)}); err != nil {
			return engine.Result{}, err
		}
	}

	if l.ended != nil {
		defer l.ended(run.ID())
	}

	step, err := run.Step(ctx, 0, engine.StepInfo{Agent: "loop", Request: "Go on."})
	if err != nil {
		return engine.Result{}, err
	}
	m, err := run.Model("default")
	if err != nil {
		return engine.Result{}, err
	}

	t := engine.Thinking{Model: m, Tools: l.tools()}
	talk := []model.Message{model.System("You are measured."), model.User("Go on.")}
	for seq := range l.cycles {
		t.Messages = slices.Clone(talk)
		answer, err := step.Think(ctx, int64(seq), t)
		if err != nil {
			return engine.Result{}, err
		}
		results, err := step.Act(ctx, int64(seq), answer.Message.Calls(), t)
		if err != nil {
			return engine.Result{}, err
		}
		talk = append(talk, answer.Message, said(answer.Message.Calls(), results))
	}

	step.End("done", nil)
	return engine.Result{Summary: "done"}, nil
}

func said(calls []model.ToolCall, results []tool.Result) model.Message {
	all := make([]model.ToolResult, len(calls))
	for i, r := range results {
		all[i] = model.ToolResult{CallID: calls[i].ID, Name: calls[i].Name, Text: r.Text}
	}
	return model.Results(all...)
}

// look answers with short texts.
var look = looking(func(name string) string { return "package main // " + name })

// looking returns a set with one tool, which answers at once.
func looking(result func(name string) string) *tool.Set {
	set, err := tool.NewSet(tool.Func("look", "Looks.", func(_ context.Context, in struct {
		Name string `json:"name"`
	}) (string, error) {
		return result(in.Name), nil
	}))
	if err != nil {
		panic(err) // the tool is written above
	}
	return set
}

// quick is a model that asks for calls after a time.
type quick struct {
	calls  []model.ToolCall
	after  time.Duration
	thinks func()
	script *script
}

// Provider implements [model.Model].
func (quick) Provider() string { return "bench" }

// Name implements [model.Model].
func (quick) Name() string { return "quick" }

// Generate implements [model.Model].
func (q quick) Generate(ctx context.Context, _ model.Request, _ func(model.Delta)) (*model.Response, error) {
	if q.thinks != nil {
		q.thinks()
	}
	if q.after > 0 {
		if err := pg.Pause(ctx, q.after); err != nil {
			return nil, err
		}
	}

	text := "I look."
	if q.script != nil {
		text = q.script.answer()
	}
	m := model.Message{Role: model.RoleAssistant, Parts: []model.Part{{Text: text}}}
	for _, call := range q.calls {
		m.Parts = append(m.Parts, model.Part{Call: &call})
	}
	return &model.Response{
		Message: m, Finish: model.FinishToolCalls, Usage: model.Usage{Input: new(int64(1500)), Output: new(int64(150))},
	}, nil
}

// benchParts are the parts of the runs.
type benchParts struct {
	model model.Model
	tools *tool.Set
}

// Provides implements [engine.Parts].
func (benchParts) Provides() []string { return nil }

// Definition implements [engine.Parts].
func (benchParts) Definition(string, string) (json.RawMessage, bool) { return nil, false }

// Model implements [engine.Parts].
func (p benchParts) Model(string) (model.Model, bool) { return p.model, true }

// Tools implements [engine.Parts].
func (p benchParts) Tools(context.Context, []string) ([]tool.Tool, error) {
	return p.tools.Tools(), nil
}

// Names implements [engine.Parts].
func (benchParts) Names(string) []string { return nil }

// Redact implements [engine.Parts].
func (benchParts) Redact(text string) string { return text }

// Settling implements [engine.Parts].
func (benchParts) Settling() func(string) int { return func(text string) int { return len(text) } }

// Schedules implements [engine.Parts].
func (benchParts) Schedules() map[string]define.Schedule { return nil }

// MaxTakeovers implements [engine.Parts].
func (benchParts) MaxTakeovers() int { return 0 }

// Unpriced implements [engine.Parts].
func (benchParts) Unpriced() []string { return nil }

// ModelDefinition implements [engine.Parts].
func (benchParts) ModelDefinition(name string) define.DefinitionModel {
	return define.DefinitionModel{Name: name}
}

// Concurrency implements [engine.Parts].
func (benchParts) Concurrency() define.Concurrency { return define.Concurrency{} }

func (benchParts) Policies() tool.Rules { return nil }

// working is an engine with a worker.
type working struct {
	*engine.Engine
	stop func() error
}

func work(ctx context.Context, s *store.Store, l loop, after time.Duration) (*working, error) {
	e, err := engine.New(engine.Config{
		Store: runstore.New(s), Executors: []engine.Executor{l}, Slots: 2_000,
		Parts: func() (engine.Parts, func()) { return benchParts{l.model(after), l.tools()}, func() {} },
	})
	if err != nil {
		return nil, err
	}

	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- e.Work(ctx) }()
	return &working{e, func() error { cancel(); return <-done }}, nil
}

func (w *working) start(ctx context.Context) (string, error) {
	started, err := w.Start(ctx, engine.Request{Executor: "loop", Input: json.RawMessage(`{}`)})
	return started.PlanID, err
}

// writes returns how often runs were put on record.
func (w *working) writes() (float64, error) { return w.counted("actlog_run_writes_total") }

// counted returns the value of a counter of the engine, of all labels together.
func (w *working) counted(name string) (n float64, err error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(w.Metrics()...)
	families, err := registry.Gather()
	if err != nil {
		return 0, err
	}

	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			n += m.GetCounter().GetValue()
		}
	}
	return n, nil
}

// runs starts a number of runs at once and waits until they have ended.
func (w *working) runs(ctx context.Context, n int, ended <-chan string) error {
	const counter = "actlog_run_ended_total" // counts those whose end is committed
	before, err := w.counted(counter)
	if err != nil {
		return err
	}

	var all sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		all.Go(func() { _, errs[i] = w.start(ctx) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}

	for range n {
		select {
		case <-ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}

	for {
		now, err := w.counted(counter)
		if err != nil || now >= before+float64(n) {
			return err
		}
		if err := pg.Pause(ctx, 200*time.Microsecond); err != nil {
			return err
		}
	}
}

// measureClaims measures how long a run waits for a worker that has nothing to do.
func measureClaims(ctx context.Context, b *bench, _ *database, s *store.Store) (_ []figure, err error) {
	began := make(chan time.Time, 1)
	w, err := work(ctx, s, loop{began: func(string) { began <- time.Now() }}, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()

	var took []float64
	for range b.n(300, 20) {
		if _, err := w.start(ctx); err != nil {
			return nil, err
		}
		committed := time.Now()
		select {
		case at := <-began:
			took = append(took, ms(max(at.Sub(committed), 0)))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}

	slices.Sort(took)
	return []figure{
		alone("from commit to begin, median", "ms", []float64{took[len(took)/2]}, nil),
		alone("from commit to begin, p95", "ms", []float64{took[len(took)*95/100]}, atMost(20)),
	}, nil
}

// measureBoundaries measures how many boundaries 100 runs at once pass in a second: what is committed
// before something begins, or after it ended; and the processor time of one.
func measureBoundaries(ctx context.Context, b *bench, db *database, s *store.Store) (_ []figure, err error) {
	const runs = 100
	ended := make(chan string, runs)
	w, err := work(ctx, s, loop{cycles: 10, calls: 2, ended: func(id string) { ended <- id }}, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()

	var times, shares []float64
	rates, _, err := b.byTurns(ctx, func(ctx context.Context) (float64, error) {
		before, err := w.writes()
		if err != nil {
			return 0, err
		}
		used, err := db.cost(ctx, b, 0)
		if err != nil {
			return 0, err
		}

		start := time.Now()
		for range b.n(4, 1) {
			if err := w.runs(ctx, runs, ended); err != nil {
				return 0, err
			}
		}
		took := time.Since(start).Seconds()

		after, err := w.writes()
		if err != nil {
			return 0, err
		}
		usedAfter, err := db.cost(ctx, b, 0)
		if err != nil {
			return 0, err
		}

		used = usedAfter.since(used)
		all := used.worker + used.postgres
		times = append(times, ms(all)/(after-before))
		shares = append(shares, used.postgres.Seconds()/all.Seconds())
		return (after - before) / took, err
	}, nil)
	if err != nil {
		return nil, err
	}

	return []figure{
		alone("boundaries a second, 100 runs", "", rates, atLeast(1500)),
		alone("processor time of a boundary", "ms", times, nil),
		alone("share of Postgres in it", "", shares, nil),
	}, nil
}

// measureCycle measures what the runtime costs a run that is alone: a cycle with two calls, against the
// same loop without a record.
func measureCycle(ctx context.Context, b *bench, _ *database, s *store.Store) (_ []figure, err error) {
	l := loop{cycles: 10, calls: 2}
	ended := make(chan string, 1)
	l.ended = func(id string) { ended <- id }
	w, err := work(ctx, s, l, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()

	ours, baseline, err := b.byTurns(ctx,
		func(ctx context.Context) (float64, error) {
			n := b.n(20, 2)
			start := time.Now()
			for range n {
				if err := w.runs(ctx, 1, ended); err != nil {
					return 0, err
				}
			}
			return ms(time.Since(start)) / float64(n*l.cycles), nil
		},
		func(ctx context.Context) (float64, error) {
			n := b.n(200, 2)
			start := time.Now()
			for range n {
				if err := l.bare(ctx); err != nil {
					return 0, err
				}
			}
			return ms(time.Since(start)) / float64(n*l.cycles), nil
		})
	if err != nil {
		return nil, err
	}

	return []figure{against("a cycle with two calls", "ms", ours, baseline, "without a record", nil)}, nil
}

// bare does what a run does, without a record.
func (l loop) bare(ctx context.Context) error {
	m := l.model(0)
	talk := []model.Message{model.System("You are measured."), model.User("Go on.")}
	for range l.cycles {
		answer, err := m.Generate(ctx, model.Request{Messages: talk}, nil)
		if err != nil {
			return err
		}

		var results []tool.Result
		for _, call := range answer.Message.Calls() {
			t, _ := l.tools().Get(call.Name)
			result, err := tool.Do(ctx, t, tool.Policy{}, tool.Call{ID: call.ID, Arguments: json.RawMessage(call.Arguments)}, 0)
			if err != nil {
				return err
			}
			results = append(results, result)
		}
		talk = append(talk, answer.Message, said(answer.Message.Calls(), results))
	}
	return nil
}

// measureRebuilding measures how long it takes until an agent of 100 cycles with three calls each has
// what it needs to go on.
func measureRebuilding(ctx context.Context, b *bench, db *database, s *store.Store) (_ []figure, err error) {
	began, ended := make(chan time.Time, 1), make(chan string, 1)
	w, err := work(ctx, s, loop{cycles: b.n(100, 3), calls: 3, began: func(string) {
		began <- time.Now()
	}, ended: func(id string) { ended <- id }}, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()

	id, err := w.start(ctx)
	if err != nil {
		return nil, err
	}
	<-began
	<-ended

	took, _, err := b.byTurns(ctx, func(ctx context.Context) (float64, error) {
		for reset := int64(0); reset == 0; {
			tag, err := db.pool.Exec(ctx, "UPDATE actlog.run SET done = false, due_at = now() WHERE plan_id = $1 AND done", id)
			if err != nil {
				return 0, err
			}
			reset = tag.RowsAffected()
		}
		start := <-began
		<-ended
		return ms(time.Since(start)), nil
	}, nil)
	if err != nil {
		return nil, err
	}

	return []figure{alone("rebuild 100 cycles with 3 calls", "ms", took, atMost(50))}, nil
}

// measureWaiting measures the memory of a worker whose runs all wait for their model.
func measureWaiting(ctx context.Context, b *bench, _ *database, s *store.Store) (_ []figure, err error) {
	n := b.n(1_000, 20)
	ended := make(chan string, n)
	w, err := work(ctx, s, loop{cycles: 3, calls: 1, ended: func(id string) { ended <- id }}, time.Second)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()

	debug.FreeOSMemory() // what was measured before is not counted
	var most float64
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		for pg.Pause(watching, 50*time.Millisecond) == nil {
			if mib, err := private(); err == nil {
				most = max(most, mib)
			}
		}
	})

	start := time.Now()
	err = w.runs(ctx, n, ended)
	took := time.Since(start)
	stop()
	watch.Wait()
	if err != nil {
		return nil, err
	}

	return []figure{
		alone(fmt.Sprintf("%d runs that wait for a model, memory with the client", n), "MiB", []float64{most}, atMost(100)),
		alone("the same, 3 cycles of 1 s", "s", []float64{took.Seconds()}, nil),
	}, nil
}

// measureParked measures what runs cost that wait for a human: memory and goroutines of the worker,
// and how soon another run begins beside them.
func measureParked(ctx context.Context, b *bench, db *database, s *store.Store) (_ []figure, err error) {
	n := b.n(10_000, 50)
	began := make(chan time.Time, n)
	w, err := work(ctx, s, loop{asks: true, began: func(string) { began <- time.Now() }}, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()

	held := func() (bytes, goroutines float64) {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc), float64(runtime.NumGoroutine())
	}

	parked := func(want int) error {
		for {
			var waiting int
			err := db.pool.QueryRow(ctx, "SELECT count(*) FROM actlog.run AS r WHERE r.executor = 'loop' AND NOT r.done AND "+
				"r.worker_id IS NULL AND r.due_at IS NULL").Scan(&waiting)
			if err != nil || waiting == want {
				return err
			}
			if err := pg.Pause(ctx, 20*time.Millisecond); err != nil {
				return err
			}
		}
	}

	baseline := func() (took float64, err error) {
		start := time.Now()
		if _, err := w.start(ctx); err != nil {
			return 0, err
		}
		return ms((<-began).Sub(start)), nil
	}

	if _, err := baseline(); err != nil { // so that everything is warm
		return nil, err
	}
	if err := parked(1); err != nil {
		return nil, err
	}

	bytes, goroutines := held()
	for left := n; left > 0; left -= 100 {
		some := min(left, 100)
		errs := make([]error, some)
		var all sync.WaitGroup
		for i := range some {
			all.Go(func() { _, errs[i] = w.start(ctx) })
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
	}

	for range n {
		<-began
	}
	if err := parked(n + 1); err != nil {
		return nil, err
	}
	moreBytes, moreGoroutines := held()

	var took []float64
	for i := range b.n(50, 3) {
		one, err := baseline()
		if err != nil {
			return nil, err
		}
		took = append(took, one)
		if err := parked(n + 2 + i); err != nil {
			return nil, err
		}
	}

	return []figure{
		alone(fmt.Sprintf("%d runs that wait for a human, memory of the worker", n), "MiB",
			[]float64{(moreBytes - bytes) / (1 << 20)}, atMost(5)),
		alone("the same, goroutines", "", []float64{moreGoroutines - goroutines}, atMost(5)),
		alone("from start to begin beside them", "ms", took, nil),
	}, nil
}

// private returns the memory of this process that is its own: not the pages of the program's file, which the system
// takes back when it needs them.
func private() (mib float64, err error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}

	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kib / 1024, err
		}
	}
	return 0, errors.New("no RssAnon")
}
