package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// Started says which run a request started.
type Started struct {
	RootPlanID string
	PlanID     string
	Executor   string
	Before     bool // by an earlier request with the same idempotency key
}

// Watcher is told of texts as they arrive, and of how far calls have come. Its methods return at once.
type Watcher interface {
	// Delta is a piece of the text of a model's answer.
	Delta(rootPlanID, planID, stepID string, seq, attempt int64, text string)
	// Reset says that the pieces of an answer that came so far are void.
	Reset(rootPlanID, planID, stepID string, seq, attempt int64)
	// Answer is a piece of what an agent answers, which it says by the tool that ends its work.
	Answer(rootPlanID, planID, stepID string, seq, attempt int64, text string)
	// ResetAnswer says that the pieces of what the agent answers that came so far are void.
	ResetAnswer(rootPlanID, planID, stepID string, seq, attempt int64)
	// Progress is how far an attempt of a tool call of a cycle has come. It replaces what was said before.
	Progress(rootPlanID, planID, stepID string, seq int64, toolCallID string, attempt int64, p record.Progress)
}

// Config says what an engine works with. Zero values mean the defaults named here.
type Config struct {
	Store     *runstore.Store
	Executors []Executor
	// Parts returns the present parts. The caller calls release when it no longer uses them.
	Parts   func() (parts Parts, release func())
	Watcher Watcher // nil: nobody
	Logger  *slog.Logger
	Release string // of the program
	// Slots is how many runs a worker carries at once. Default 500. Most of them wait for a model.
	Slots int
	// Lease is how long the runs of a worker are its own after a heartbeat, which it sends each Beat. Default
	// [DefaultLease], and a fourth of the lease.
	Lease, Beat time.Duration
	// Scan is how often a worker looks for runs that it was not woken for. Default 0.25 s.
	Scan time.Duration
	// Drain is how long a worker that is to stop waits for what its runs are doing. Default 20 s.
	Drain time.Duration
	// MaxTakeovers is how many workers in a row a run may lose without a result put on record, if the parts do not say it.
	// Default 5.
	MaxTakeovers int
	// Write puts what a run did on record. Default: WriteRun of Store. Tests disturb it.
	Write func(context.Context, runstore.Lease, []record.Change, ...runstore.RunOp) error
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}

	c.Lease = cmp.Or(c.Lease, DefaultLease)
	c.Beat = cmp.Or(c.Beat, c.Lease/4)
	c.Scan = cmp.Or(c.Scan, 250*time.Millisecond)
	c.Drain = cmp.Or(c.Drain, 20*time.Second)

	c.Slots = cmp.Or(c.Slots, 500)
	c.MaxTakeovers = cmp.Or(c.MaxTakeovers, 5)

	if c.Write == nil && c.Store != nil {
		c.Write = c.Store.WriteRun
	}
	if c.Watcher == nil {
		c.Watcher = nobody{}
	}
	return c
}

type nobody struct{}

func (nobody) Delta(string, string, string, int64, int64, string) {}
func (nobody) Reset(string, string, string, int64, int64)         {}

func (nobody) Answer(string, string, string, int64, int64, string) {}
func (nobody) ResetAnswer(string, string, string, int64, int64)    {}

func (nobody) Progress(string, string, string, int64, string, int64, record.Progress) {}

// Engine starts and carries runs. It is safe for concurrent use.
type Engine struct {
	config    Config
	store     *runstore.Store
	executors map[string]Executor
	host      string
	metrics   *metrics
	clock     clock
	began     time.Time     // by the monotonic clock of this machine
	grace     time.Duration // see resultGrace
	models    models
	// progressEvery is how often the progress of a call is put on record, at most.
	progressEvery time.Duration
	timekeeper    timekeeper
}

// New returns an engine. It does nothing until [Engine.Start] or [Engine.Work] is called.
func New(c Config) (*Engine, error) {
	c = c.withDefaults()
	e := &Engine{
		config: c, store: c.Store, executors: map[string]Executor{}, metrics: newMetrics(), began: time.Now(),
		grace: resultGrace, progressEvery: progressWriteEvery,
	}
	for _, x := range c.Executors {
		if e.executors[x.Kind()] != nil {
			return nil, fmt.Errorf("two executors are of the kind %s", x.Kind())
		}
		e.executors[x.Kind()] = x
	}

	var err error
	if e.host, err = os.Hostname(); err != nil {
		e.host = "unknown"
	}
	return e, nil
}

// Start puts a run on record. A worker goes on with it. The error is a [*record.InvalidError] that
// names the field, wraps [record.ErrNotFound] if there is nothing of that name, or is one of
// [runstore.Store.StartRun].
func (e *Engine) Start(ctx context.Context, r Request) (Started, error) {
	run, begins, err := e.newRoot(ctx, r)
	if err != nil {
		return Started{}, err
	}

	return started(run, run.RequestSHA256, e.store.StartRun(ctx, run, begins))
}

// started returns which run a request with a hash started, now or before, or why none.
func started(run runstore.NewRun, requestSHA256 string, err error) (Started, error) {
	if before := new(runstore.StartedBeforeError); errors.As(err, &before) {
		if before.RequestSHA256 != requestSHA256 {
			return Started{}, BadInput("Idempotency-Key", "was used for another request")
		}
		return Started{RootPlanID: before.RootPlanID, PlanID: before.PlanID, Executor: before.Executor, Before: true}, nil
	}
	if err != nil {
		return Started{}, err
	}
	return Started{RootPlanID: run.RootPlanID, PlanID: run.PlanID, Executor: run.Executor}, nil
}

// newRoot returns a root run that a request asks for, and what is on record of it from its start.
func (e *Engine) newRoot(ctx context.Context, r Request) (run runstore.NewRun, begins []record.Change, err error) {
	parts, release := e.config.Parts()
	defer release()
	p, err := e.prepare(ctx, parts, r)
	if err != nil {
		return run, nil, err
	}

	id := rootID(ctx)
	if p.UUID {
		id = uuid.Must(uuid.NewV7()).String()
	}
	run, plan, err := e.newRun(ctx, parts, r, p, id)
	if err != nil {
		return run, nil, err
	}

	run.RootPlanID, plan.RootPlanID = run.PlanID, run.PlanID
	run.Owner = cmp.Or(r.UserID, run.PlanID)
	run.Starter, run.Project = r.Starter, r.Project

	if r.IdempotencyKey != "" {
		run.IdempotencyKey, run.RequestSHA256 = r.IdempotencyKey, hash(r.Body)
	}
	run.Held, run.ConcurrencyKey = r.Held, r.ConcurrencyKey
	run.Priority = priorityOf(r)

	run.Asked, run.AgainOf = askedOf(r), r.AgainOf
	if r.ForkedFrom != "" {
		run.ForkedFrom, run.ForkedAt = r.ForkedFrom, r.ForkedAt
		plan.ForkedFrom = new("plan:" + url.PathEscape(r.ForkedFrom))
	}
	run.By = r.By
	run.StartAt, run.ExpiresAt = r.StartAt, r.ExpiresAt
	run.Schedule = r.Schedule
	return run, p.begin(parts, plan), nil
}

func (e *Engine) prepare(ctx context.Context, parts Parts, r Request) (Prepared, error) {
	executor := e.executors[r.Executor]
	if executor == nil {
		kinds := strings.Join(slices.Sorted(maps.Keys(e.executors)), ", ")
		return Prepared{}, BadInput("executor", "must be one of "+kinds)
	}

	if err := cmp.Or(r.Limits.check(), checkPlace(r)); err != nil {
		return Prepared{}, err
	}
	if err := r.checkTimes(); err != nil {
		return Prepared{}, err
	}

	if c, ok := executor.(Continuing); ok {
		if root, name := c.From(r); root != "" && !strings.Contains(root, "\x00") {
			var err error
			if r.From, err = e.store.RunArtifact(ctx, root, name); err != nil && !errors.Is(err, record.ErrNotFound) {
				return Prepared{}, err
			}
		}
	}

	p, err := executor.Prepare(parts, r)
	if err != nil {
		return p, err
	}

	p.Needs = slices.Compact(slices.Sorted(slices.Values(p.Needs)))
	for _, need := range p.Needs { // no worker is to be waited for that nobody has configured
		name, isModel := strings.CutPrefix(need, "model:")
		if _, known := parts.Model(name); isModel && !known {
			unknown := &UnknownError{Kind: "model", Name: name}
			for _, m := range Models(parts) {
				unknown.There = append(unknown.There, m.Name)
			}
			return p, unknown
		}
	}
	return p, nil
}

// begin returns what is on record of a run from its start. The caller has set the place of the plan.
func (p *Prepared) begin(parts Parts, plan *record.Plan) []record.Change {
	changes := []record.Change{plan}
	for _, a := range p.Artifacts {
		changes = append(changes, newArtifact(parts, plan.RootPlanID, plan.CurrentPlanID, a))
	}
	return changes
}

// newRun returns what is put on record of a run that begins, but for its place in a tree.
func (e *Engine) newRun(
	ctx context.Context, parts Parts, r Request, p Prepared, planID string,
) (runstore.NewRun, *record.Plan, error) {
	run := runstore.NewRun{Needs: append([]string{"executor:" + r.Executor}, p.Needs...)}
	run.PlanID, run.Executor = planID, r.Executor
	run.Name, run.Input = p.Name, p.Input
	run.Agent = p.Agent
	if p.Definition != nil {
		var err error
		redacted := json.RawMessage(parts.Redact(string(p.Definition))) // its prompts are for models and the record
		if run.Definition, err = e.store.Pin(ctx, r.Executor+"."+p.Name, r.Executor, redacted); err != nil {
			return run, nil, err
		}
	}

	limits := p.Limits.least(r.Limits)
	if !limits.none() {
		run.Limits = limits.json()
	}

	plan := &record.Plan{
		CurrentPlanID: planID, Executor: &r.Executor, State: new(record.Pending),
		Name: optional.Pointer(p.Name), Title: optional.Pointer(p.Title),
		UserRequest: optional.Pointer(p.UserRequest), ModelName: optional.Pointer(p.ModelName),
		Project: optional.Pointer(r.Project), UserID: optional.Pointer(r.UserID),
		ConversationID: optional.Pointer(cmp.Or(r.ConversationID, p.ConversationID)),
		Release:        optional.Pointer(e.config.Release), Tags: r.Tags,
		Metadata: p.Metadata,
	}
	return run, plan, nil
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// provides is what runs may need of this worker at the moment.
func (e *Engine) provides() []string {
	parts, release := e.config.Parts()
	defer release()
	all := append(slices.Clone(parts.Provides()), "tool:"+define.WaitForTool)
	for kind := range e.executors {
		all = append(all, "executor:"+kind)
	}

	if e.config.Release != "" { // for runs whose code differs on others
		all = append(all, "release:"+e.config.Release)
	}
	slices.Sort(all)
	return all
}

// age is how long the engine has been there, by the monotonic clock of this machine.
func (e *Engine) age() time.Duration { return time.Since(e.began) }

// Metrics returns what is to be known of the engine, and of the open runs of its database.
func (e *Engine) Metrics() []prometheus.Collector {
	return append(e.metrics.all, openRuns{e.store, e.config.Logger}, awayModels{e.store, e.config.Logger})
}
