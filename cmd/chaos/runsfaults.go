//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// runFault is a fault of the scenario runs. It returns what it did.
type runFault struct {
	name  string
	share int // how often it comes, of all shares
	do    func(h *house, ctx context.Context) (what string, err error)
}

func runFaults() []runFault {
	all := []runFault{
		{"kill", 20, (*house).killOne},
		{"plain kill", 8, (*house).killInPeace},
		{"stop", 24, (*house).stopOne},
		{"restart", 8, (*house).restartOne},
		{"postgres", 8, serverFault((*driver).killPostmaster)},
		{"backend", 4, serverFault((*driver).killBackend)},
		{"server", 8, serverFault((*driver).killServer)},
		{"network", 6, serverFault((*driver).breakNetwork)},
		{"outage", 3, (*house).outage},
		{"model", 8, (*house).modelAway},
	}

	if canStep && os.Geteuid() == 0 { // a worker hides its memory from other programs of its user
		all = append(all, runFault{"clock", 7, (*house).stepOne})
	}
	return all
}

// serverFault makes a fault of the other scenarios one of this one.
func serverFault(f fault) func(*house, context.Context) (string, error) {
	return func(h *house, ctx context.Context) (string, error) {
		what, from, err := f(h.server, ctx)
		if err != nil {
			return "", err
		}
		took, err := h.server.recovered(ctx, from)
		return fmt.Sprintf("%s; back after %.2fs", what, took.Seconds()), err
	}
}

// breakThings injects the faults.
func (h *house) breakThings(ctx context.Context) error {
	kinds := runFaults()

	// Each kind in its share, in random order, and at least once if there are enough.
	var order []int
	for len(order) < h.config.kills {
		var round []int
		for k, f := range kinds {
			for range f.share {
				round = append(round, k)
			}
		}
		h.rand.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })

		if len(order) == 0 {
			for k := range kinds {
				order = append(order, k)
			}
		}
		order = append(order, round...)
	}

	order = order[:h.config.kills]
	h.rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })

	end := time.Now().Add(h.config.duration)
	for n, k := range order {
		if time.Now().After(end) {
			h.say("the time is up after %d of %d faults", n, h.config.kills)
			break
		}

		pause(ctx, time.Duration(h.rand.IntN(int(h.config.between))))

		what, err := kinds[k].do(h, ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("fault %d, %s: %w", n+1, kinds[k].name, err)
		}
		h.faults[kinds[k].name]++
		h.say("%4d %-10s %s", n+1, kinds[k].name, what)
	}

	h.awaken(ctx)
	return ctx.Err()
}

func (h *house) killOne(context.Context) (string, error) {
	n, err := h.worker()
	if err != nil {
		return "", err
	}
	h.workers[n].kill()
	return "killed worker " + workerName(n), nil
}

// killInPeace kills a worker while nothing else is broken, to see how long its runs take to go on.
func (h *house) killInPeace(ctx context.Context) (string, error) {
	// Until nothing is stopped, and all workers have been in touch with Postgres for a lease.
	h.awaken(ctx)
	if !h.config.relaxed {
		pause(ctx, lease+2*time.Second)
	}
	n, err := h.worker()
	if err != nil {
		return "", err
	}

	held := map[string]int64{} // almost all: a run may be claimed meanwhile
	rows, err := h.db.Query(
		ctx, `SELECT r.plan_id, r.epoch FROM actlog.run AS r JOIN chaos.worker AS w USING (worker_id) WHERE w.name = $1`,
		workerName(n),
	)
	if err != nil {
		return "", err
	}
	defer rows.Close()

	for rows.Next() {
		var plan string
		var epoch int64
		if err := rows.Scan(&plan, &epoch); err != nil {
			return "", err
		}
		held[plan] = epoch
	}
	if rows.Err() != nil {
		return "", rows.Err()
	}

	at := time.Now()
	h.workers[n].kill()
	h.kills = append(h.kills, plainKill{at, held})
	if !h.config.relaxed {
		pause(ctx, takenOverIn+time.Second)
	}
	return fmt.Sprintf("killed worker %s, which held %d runs", workerName(n), len(held)), nil
}

// awaken waits until no worker is stopped, and the model is not away.
func (h *house) awaken(ctx context.Context) {
	for (h.stoppedNow() > 0 || h.gate.isAway()) && ctx.Err() == nil {
		pause(ctx, 50*time.Millisecond)
	}
}

// stopOne stops a worker for longer than its lease. Other faults come meanwhile.
func (h *house) stopOne(ctx context.Context) (string, error) {
	for h.stoppedNow() >= runWorkers-1 && ctx.Err() == nil {
		pause(ctx, 50*time.Millisecond)
	}
	n, err := h.worker()
	if err != nil {
		return "", err
	}

	length := h.server.between(stopsMin, stopsMax)
	h.mu.Lock()
	h.stopped[n] = true
	h.mu.Unlock()
	h.signalWorker(n, syscall.SIGSTOP)

	go func() {
		pause(ctx, length)
		h.signalWorker(n, syscall.SIGCONT)
		h.mu.Lock()
		delete(h.stopped, n)
		h.mu.Unlock()
	}()
	return fmt.Sprintf("stopped worker %s for %.1fs", workerName(n), length.Seconds()), nil
}

func (h *house) stoppedNow() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.stopped)
}

// restartOne asks a worker to stop. It is started again.
func (h *house) restartOne(context.Context) (string, error) {
	n, err := h.worker()
	if err != nil {
		return "", err
	}
	h.workers[n].restart()
	return "restarted worker " + workerName(n), nil
}

// stepOne steps the wall clock of a worker, forth or back.
func (h *house) stepOne(ctx context.Context) (string, error) {
	n, err := h.worker()
	if err != nil {
		return "", err
	}

	offset := h.server.between(-12*time.Hour, 12*time.Hour).Truncate(time.Second)
	for {
		err := stepWallClock(h.workers[n].pid(), offset)
		if err == nil {
			break
		}
		// It may be between two lives.
		if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH) || ctx.Err() != nil {
			return "", err
		}
		pause(ctx, restartDelay)
	}
	return fmt.Sprintf("stepped the clock of worker %s to %+.1fh", workerName(n), offset.Hours()), nil
}

// outage takes Postgres away. The first is the longest.
func (h *house) outage(ctx context.Context) (string, error) {
	length := h.server.between(lease, max(h.config.lasts/4, lease+time.Second))
	if h.faults["outage"] == 0 {
		length = h.config.lasts
	}
	how := "frozen"
	if h.rand.IntN(2) == 0 {
		how = "dead"
	}

	if err := h.server.takeAway(ctx, how, length); err != nil {
		return "", err
	}
	took, err := h.server.recovered(ctx, time.Now())
	return fmt.Sprintf("postgres was %s for %.1fs; back after %.2fs", how, length.Seconds(), took.Seconds()), err
}
