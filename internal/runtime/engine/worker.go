package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/actlog/actlog/agent/limit"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/runstore"
)

// claimAtOnce bounds how many runs are claimed in one statement.
const claimAtOnce = 50

// Work claims runs and carries them until ctx ends. Then it lets them finish what they are doing, and
// hands back the rest, so that other workers go on with them at once. It returns when nothing is left.
// The error says that the worker could not be registered.
func (e *Engine) Work(ctx context.Context) error {
	w := &worker{
		engine: e, log: e.config.Logger, held: map[string]*holding{}, wake: make(chan struct{}, 1),
		short: make(chan struct{}, 1), excess: make(chan struct{}, 1),
		budgets: &budgets{log: e.config.Logger, used: e.metrics.budgetUsed},
	}
	return w.work(ctx)
}

// worker is a worker from its start to its end. It has another id after it lost its lease.
type worker struct {
	engine *Engine
	log    *slog.Logger
	wake   chan struct{}
	// A token is in short when a call waits for a limit, and in excess when the worker has more of one than it should.
	short, excess chan struct{}

	unsure time.Time // when a claim failed last: it may have claimed runs all the same
	// When the worker last looked for a run to carry alone that waits, and whether it makes room for one.
	sought     time.Time
	makingRoom bool
	places     placesSeen
	budgets    *budgets

	mu       sync.Mutex
	row      runstore.Worker
	grants   *grants             // of the present id
	beaten   time.Time           // when the last heartbeat that succeeded was sent
	held     map[string]*holding // by plan
	leased   context.Context     // ends with the lease
	endLease context.CancelCauseFunc
	carrying sync.WaitGroup
}

// holding is a run that the worker holds.
type holding struct {
	run    *Run
	cancel context.CancelCauseFunc
}

func (w *worker) work(ctx context.Context) error {
	// What goes on while the runs come to their ends.
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()

	if err := w.register(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}

	w.engine.lookAtModels(ctx) // before runs ask one that is away
	w.countBudgets(ctx)        // before runs begin
	var tasks sync.WaitGroup
	tasks.Go(func() { w.engine.store.ListenForRuns(inner, w.wake) })
	tasks.Go(func() { w.beat(inner) })
	tasks.Go(func() { w.shareLimits(inner) })

	tasks.Go(func() { w.watchBudgets(ctx) })
	tasks.Go(func() { w.engine.watch(ctx) })
	tasks.Go(func() { w.engine.watchModels(ctx) })
	tasks.Go(func() { w.engine.watchBulk(ctx) })
	tasks.Go(func() { w.engine.KeepTime(ctx) })

	w.claim(ctx)
	w.drain(inner)
	stop()
	tasks.Wait()
	return nil
}

// register registers the worker under a new id, until that succeeds.
func (w *worker) register(ctx context.Context) error {
	row := runstore.Worker{
		ID: "worker-" + uuid.Must(uuid.NewV7()).String(), Host: w.engine.host, Release: w.engine.config.Release,
		Provides: w.engine.provides(), Slots: w.engine.config.Slots,
	}
	for attempt := 0; ; attempt++ {
		sent := time.Now()
		row.Age = w.engine.age()
		now, err := w.engine.store.AddWorker(ctx, row, w.engine.config.Lease)
		if err == nil {
			w.engine.clock.set(sent, now)
			w.mu.Lock()
			w.row, w.beaten = row, sent
			w.grants = w.newGrants(row.ID)
			w.leased, w.endLease = context.WithCancelCause(context.WithoutCancel(ctx))
			w.mu.Unlock()
			w.log.Info("worker started", "worker", row.ID, "slots", row.Slots)
			return nil
		}

		if ctx.Err() == nil {
			w.log.Warn("a worker cannot be registered; it is tried again", "error", err)
		}
		if pg.Pause(ctx, pg.Backoff(attempt)) != nil {
			return fmt.Errorf("register a worker: %w", err)
		}
	}
}

// beat extends the lease until ctx ends. A worker that misses its own lease drops its runs: others may
// have taken them.
func (w *worker) beat(ctx context.Context) {
	for {
		w.mu.Lock()
		row, beaten := w.row, w.beaten
		w.mu.Unlock()
		if pg.Pause(ctx, min(w.engine.config.Beat, max(w.engine.config.Lease-time.Since(beaten), 0))) != nil {
			return
		}

		row.Provides, row.Age = w.engine.provides(), w.engine.age()
		sent := time.Now()
		limited, cancel := context.WithTimeout(ctx, max(w.engine.config.Lease-sent.Sub(beaten), time.Millisecond))
		now, wanted, err := w.engine.store.Beat(limited, row, w.below(), w.engine.config.Lease)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			w.mu.Lock()
			w.beaten, w.row.Provides = sent, row.Provides
			w.mu.Unlock()
			w.setClock(ctx, sent, now)
			w.apply(wanted)
		case errors.Is(err, runstore.ErrLeaseLost) || time.Since(beaten) >= w.engine.config.Lease:
			w.log.Warn("the worker lost its lease; others go on with its runs", "worker", row.ID, "error", err)
			w.engine.metrics.leasesLost.Inc()
			w.drop()
			if w.register(ctx) != nil {
				return
			}
		default:
			w.log.Debug("a heartbeat failed", "worker", row.ID, "error", err)
		}
	}
}

// clockStep is how far the clock of the database must be set back so that something is done about it. Less
// is the time that an answer takes.
const clockStep = time.Second

// setClock sets the clock of the engine. What was due before the clock of the database was set back is due.
func (w *worker) setClock(ctx context.Context, asked, now time.Time) {
	before := w.engine.clock.set(asked, now)
	if before.Sub(now) < clockStep {
		return
	}

	w.log.Warn("the clock of the database was set back", "by", before.Sub(now))
	if err := w.engine.store.ClockSetBack(ctx, before); err != nil {
		w.log.Warn("runs that were due may wait until the clock shows their time again", "error", err)
	}
}

func (w *worker) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endLease(runstore.ErrLeaseLost)
	clear(w.held) // under the next id they may be claimed again while these come to their ends
	w.row.ID = ""
}

// below returns the plans of the runs that are carried below others: they end with these.
func (w *worker) below() (plans []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for plan, h := range w.held {
		if h.run.run.Parent != nil {
			plans = append(plans, plan)
		}
	}
	return plans
}

// apply makes runs do what they are asked for.
func (w *worker) apply(wanted []runstore.Wanted) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, each := range wanted {
		h := w.held[each.PlanID]
		if h == nil || each.Epoch < h.run.lease.Epoch {
			continue
		}
		if each.Epoch > h.run.lease.Epoch { // another worker carries it
			h.run.stop(runstore.ErrLeaseLost)
			h.cancel(runstore.ErrLeaseLost)
			continue
		}

		h.run.hearing.hear(each)
		if h.run.heed(each.Desired); each.Desired == runstore.DesiredCancel {
			h.cancel(errStopped)
		}
	}
}

// claim claims runs and starts to carry them until ctx ends. They go on beyond that.
func (w *worker) claim(ctx context.Context) {
	for {
		for ctx.Err() == nil && w.claimSome(ctx) {
		}

		timer := time.NewTimer(w.engine.config.Scan)
		select {
		case <-ctx.Done():
		case <-w.wake:
			w.look(ctx)
		case <-timer.C:
		}
		timer.Stop()

		if ctx.Err() != nil {
			return
		}
	}
}

// look looks at once what runs are asked for.
func (w *worker) look(ctx context.Context) {
	w.mu.Lock()
	id, n := w.row.ID, len(w.held)
	w.mu.Unlock()
	if id == "" || n == 0 {
		return
	}

	if wanted, err := w.engine.store.Wanted(ctx, id, w.below()); err == nil { // else the next heartbeat brings it
		w.apply(wanted)
	}
}

// claimSome claims some runs. It reports whether there may be more.
func (w *worker) claimSome(ctx context.Context) bool {
	w.mu.Lock()
	row, held := w.row, slices.Collect(maps.Keys(w.held))
	w.mu.Unlock()
	if row.ID == "" {
		return false
	}

	limited, cancel := context.WithTimeout(ctx, w.engine.config.Lease)
	defer cancel()
	// Nobody carries a run whose claim had an answer that was lost. What a claim was about to do is done within a
	// lease, or the lease is lost.
	if !w.unsure.IsZero() {
		now := time.Now()
		if err := w.engine.store.HandBack(limited, row.ID, held); err != nil {
			w.log.Debug("runs may be held that nobody carries", "worker", row.ID, "error", err)
			return false
		}
		if now.Sub(w.unsure) > w.engine.config.Lease {
			w.unsure = time.Time{}
		}
	}

	loneAt := w.engine.loneAt()
	if w.carriesAlone(loneAt) {
		return false
	}

	most := w.budgets.within(w.engine.concurrency())
	if err := w.places.look(limited, w.engine.store, row.Provides, most); err != nil { // the next claim tries it again
		w.log.Debug("runs may wait for places that are free", "worker", row.ID, "error", err)
	}
	claim := func(runs int, alone bool) (claimed int, more, ok bool) {
		all, more, err := w.engine.store.Claim(limited, runstore.Claim{
			WorkerID: row.ID, Release: row.Release, Provides: row.Provides, Runs: runs, LoneAt: loneAt, Alone: alone,
			Most: most,
		})
		if err != nil {
			w.log.Debug("claim failed", "worker", row.ID, "error", err)
			w.unsure = time.Now()
			return 0, false, false
		}
		for _, c := range all {
			w.hold(c)
		}
		return len(all), more, true
	}

	if len(held) == 0 && loneAt > 0 {
		if n, _, ok := claim(1, true); n > 0 || !ok {
			return false
		}
		w.makingRoom = false
	}

	n := min(w.engine.config.Slots-len(held), claimAtOnce)
	if w.makesRoom(limited, row, loneAt) || n <= 0 {
		return false
	}
	_, more, _ := claim(n, false)
	return more
}

// concurrency returns how many root runs go on at once, as this worker is configured now.
func (e *Engine) concurrency() define.Concurrency {
	parts, release := e.config.Parts()
	defer release()
	return parts.Concurrency()
}

// loneAt returns how many workers in a row a run must have lost to be carried alone, by a worker that carries nothing
// else. If that worker is lost, too, the run is to blame, and fails. It is negative if no run is carried alone.
func (e *Engine) loneAt() int {
	parts, release := e.config.Parts()
	defer release()
	if loneAt := e.maxTakeovers(parts) - 1; loneAt > 0 {
		return loneAt
	}
	return -1
}

// carriesAlone reports whether the worker carries a run alone. Once that puts a result on record, it is one like
// others, and so is one that was claimed to be stopped or paused.
func (w *worker) carriesAlone(loneAt int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.held {
		if h.run.suspect() == loneAt && h.run.run.Desired == runstore.DesiredRun {
			return true
		}
	}
	return false
}

// makesRoom reports whether the worker claims nothing, so that it can take a run alone that no other worker took. It
// hands its own runs back at their next boundaries, and goes on so until it is empty, however long their calls take,
// or until another worker took the run.
func (w *worker) makesRoom(ctx context.Context, row runstore.Worker, loneAt int) bool {
	lease := w.engine.config.Lease
	if loneAt < 0 || time.Since(w.sought) < lease {
		return w.makingRoom
	}

	w.sought = time.Now()
	waits, err := w.engine.store.SuspectWaits(ctx, row.ID, loneAt, 2*lease)
	if err != nil {
		w.log.Debug("a run to carry alone may wait", "worker", row.ID, "error", err)
		return w.makingRoom
	}

	if waits && !w.makingRoom {
		w.log.Info("the worker lets go of its runs, to carry one alone that lost its workers", "worker", row.ID)
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, h := range w.held {
			h.run.stop(errReleased)
		}
	}
	w.makingRoom = waits
	return waits
}

func (w *worker) hold(c runstore.Claimed) {
	e := w.engine
	e.metrics.claims.WithLabelValues(c.Executor).Inc()
	w.mu.Lock()
	if w.row.ID != c.Lease.WorkerID { // the lease was lost meanwhile
		w.mu.Unlock()
		return
	}

	ctx, cancel := context.WithCancelCause(w.leased)
	h := &holding{run: e.newHandle(w.leased, c, w.grants, w.log), cancel: cancel}
	w.held[c.PlanID] = h
	w.mu.Unlock()
	h.run.heed(c.Desired)

	w.carrying.Go(func() {
		defer cancel(nil)
		e.metrics.carried.Inc()
		defer e.metrics.carried.Dec()
		e.carry(ctx, h.run)

		w.mu.Lock()
		if w.held[c.PlanID] == h {
			delete(w.held, c.PlanID)
		}
		w.mu.Unlock()

		select { // there is a free slot
		case w.wake <- struct{}{}:
		default:
		}
	})
}

// drain lets the runs finish what they are doing, and hands back what is left.
func (w *worker) drain(ctx context.Context) {
	each := func(f func(*holding)) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, h := range w.held {
			f(h)
		}
	}
	each(func(h *holding) { h.run.stop(errReleased) })

	done := make(chan struct{})
	go func() {
		w.carrying.Wait()
		close(done)
	}()

	timer := time.NewTimer(w.engine.config.Drain)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		each(func(h *holding) { h.cancel(errReleased) })
		timer.Reset(w.engine.config.Lease)
		select {
		case <-done:
		case <-timer.C: // Postgres is away: what is left is taken over when the lease is over
			w.mu.Lock()
			w.endLease(runstore.ErrLeaseLost)
			w.mu.Unlock()
			<-done
		}
	}

	w.mu.Lock()
	id, g := w.row.ID, w.grants
	w.endLease(nil)
	w.mu.Unlock()
	if id == "" {
		return
	}

	limited, cancel := context.WithTimeout(ctx, w.engine.config.Lease)
	defer cancel()
	if _, err := g.ask(limited, w.engine.store, true); err != nil {
		w.log.Debug("what the worker has of limits counts until it is forgotten", "worker", id, "error", err)
	}
	if err := w.engine.store.StopWorker(limited, id); err != nil {
		w.log.Warn("a worker could not hand back its runs; others take them when its lease is over", "worker", id, "error",
			err)
		return
	}
	w.log.Info("worker stopped", "worker", id)
}

// grantsEvery is how often a worker that has something says how much of it it needs. What it does not need, others have
// after that time.
const grantsEvery = time.Second

// newGrants returns those of a worker with an id. The caller holds w.mu.
func (w *worker) newGrants(workerID string) *grants {
	g := &grants{workerID: workerID, scan: w.engine.config.Scan, limiters: map[string]*limit.Limiter{}}
	g.valid = func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.row.ID == workerID && time.Since(w.beaten) < w.engine.config.Lease
	}
	g.changed = func(excess bool) {
		if excess {
			pg.Signal(w.excess)
		} else {
			pg.Signal(w.short)
		}
	}
	return g
}

// shareLimits asks for as much of the limits as the worker needs, until ctx ends.
func (w *worker) shareLimits(ctx context.Context) {
	var gone departed
	timer := time.NewTimer(0)
	defer timer.Stop()

	for {
		w.mu.Lock()
		g := w.grants
		w.mu.Unlock()

		limited, cancel := context.WithTimeout(ctx, w.engine.config.Lease)
		asked, err := g.ask(limited, w.engine.store, false)
		if err == nil && asked {
			w.engine.metrics.grantRounds.Inc()
			err = gone.look(limited, w.engine.store)
		}

		cancel()
		if err != nil && ctx.Err() == nil { // it asks again
			w.log.Debug("the worker goes on with the parts of limits that it has", "worker", g.workerID, "error", err)
		}

		// Whoever waits asks at fixed times, however many calls join it.
		short := w.short
		timer.Stop()
		switch {
		case g.waits() || err != nil:
			short = nil
			timer.Reset(w.engine.config.Scan)
		case asked:
			timer.Reset(grantsEvery)
		}

		select {
		case <-ctx.Done():
			return
		case <-w.excess:
		case <-short:
		case <-timer.C:
		}
	}
}

// watchBudgets counts what is spent until ctx ends.
func (w *worker) watchBudgets(ctx context.Context) {
	for pg.Pause(ctx, budgetEvery) == nil {
		w.countBudgets(ctx)
	}
}

// countBudgets counts what is spent. The worker claims at once if other runs may begin now.
func (w *worker) countBudgets(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, w.engine.config.Lease)
	defer cancel()

	changed, err := w.budgets.count(limited, w.engine.store, w.engine.concurrency().Budgets)
	switch {
	case changed:
		pg.Signal(w.wake)
	case err != nil && ctx.Err() == nil: // it counts again
		w.log.Debug("what projects have spent could not be counted", "error", err)
	}
}
