//go:build linux

package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"syscall"
	"time"
)

// runFaults are the faults of the scenario of runs, by name. Each returns what it did.
var runFaults = map[string]func(f *fleet, ctx context.Context) (string, error){
	"kill":     (*fleet).killWorker,
	"kill all": (*fleet).killAll,
	"stop":     (*fleet).stopWorker,
	"term":     (*fleet).endWorker,
	"postgres": (*fleet).killPostgres,
	"backend":  (*fleet).killSession,
	"freeze":   (*fleet).freezePostgres,
	"server":   (*fleet).killDoor,
	"network":  (*fleet).breakLine,
}

func runFaultNames() []string { return slices.Sorted(maps.Keys(runFaults)) }

const (
	// lease is how long the runs of a worker are its own after its last heartbeat.
	lease = 3 * time.Second
	// beat is how often it sends one.
	beat = 750 * time.Millisecond
)

func (f *fleet) anyWorker() *server { return f.workers[f.rand.IntN(len(f.workers))] }

// killWorker kills a worker, and measures how long it takes until another goes on with one of its runs.
func (f *fleet) killWorker(ctx context.Context) (string, error) {
	before, err := f.takenOver(ctx)
	if err != nil {
		return "killed a worker", nil // the server is not back so far: nothing to measure
	}
	f.anyWorker().kill()
	killed := time.Now()
	for time.Since(killed) < 2*lease && ctx.Err() == nil {
		if now, err := f.takenOver(ctx); err == nil && now > before {
			took := time.Since(killed)
			if before = now; took < lease-beat {
				continue // of a worker that was lost before
			}
			f.takeover = append(f.takeover, took)
			return fmt.Sprintf("killed a worker; another went on after %.2fs", took.Seconds()), nil
		}
		pause(ctx, 20*time.Millisecond)
	}
	return "killed a worker, which held no run", nil
}

// takenOver returns how often the newest runs were taken over.
func (f *fleet) takenOver(ctx context.Context) (n int, err error) {
	var page struct{ Items []shownRun }
	status, err := f.request(ctx, http.MethodGet, "/api/v1/runs?limit=100", "", "", &page)
	if err != nil || status != http.StatusOK {
		return 0, fmt.Errorf("list the runs: status %d: %w", status, err)
	}
	for _, o := range page.Items {
		n += o.Takeovers
	}
	return n, nil
}

func (f *fleet) killAll(context.Context) (string, error) {
	for _, w := range f.workers {
		w.kill()
	}
	return "killed all workers", nil
}

// stopWorker stops a worker for longer than its lease, and wakes it. What it still writes must be refused.
func (f *fleet) stopWorker(ctx context.Context) (string, error) {
	w, length := f.anyWorker(), f.between(lease-beat, 3*lease)
	if err := w.signal(syscall.SIGSTOP); err != nil {
		return "", err
	}
	pause(ctx, length)
	return fmt.Sprintf("stopped a worker for %.1fs", length.Seconds()), w.signal(syscall.SIGCONT)
}

func (f *fleet) endWorker(context.Context) (string, error) {
	w := f.anyWorker()
	w.end()
	return "ended a worker with SIGTERM", nil
}

func (f *fleet) killPostgres(ctx context.Context) (string, error) {
	what, _, err := f.killPostmaster(ctx)
	return what, err
}

func (f *fleet) killSession(ctx context.Context) (string, error) {
	what, _, err := f.killBackend(ctx)
	return what, err
}

// freezePostgres stops Postgres: mostly for seconds, now and then for as long as an outage may last.
func (f *fleet) freezePostgres(ctx context.Context) (string, error) {
	length := f.between(300*time.Millisecond, 2*lease)
	if f.freezes++; f.freezes%6 == 0 {
		length = f.config.lasts
	}
	resume, err := f.pausePostgres(ctx)
	if err != nil {
		return "", err
	}
	pause(ctx, length)
	resume()
	return fmt.Sprintf("froze postgres for %.1fs", length.Seconds()), nil
}

func (f *fleet) killDoor(context.Context) (string, error) {
	f.server.kill()
	return "killed the server", nil
}

func (f *fleet) breakLine(ctx context.Context) (string, error) {
	what, _, err := f.breakNetwork(ctx)
	return what, err
}
