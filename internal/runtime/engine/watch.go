package engine

import (
	"context"
	"time"

	"github.com/actlog/actlog/internal/runtime/runstore"
)

// sighting is a heartbeat of another worker, as this one saw it first.
type sighting struct {
	lease time.Time // changes at each heartbeat
	at    time.Time // by the monotonic clock of this machine
}

// lookout knows which workers send heartbeats. A worker that sent none for a lease is dead, whatever the
// clocks show: only the time that passes here counts, without a gap in which the database could not be seen.
type lookout struct {
	seen map[string]sighting
}

// dead returns the holders that are dead. now is when the database was asked for the holders.
func (l *lookout) dead(holders []runstore.Holder, now time.Time, lease time.Duration) (dead []runstore.Holder) {
	seen := make(map[string]sighting, len(holders))
	for _, h := range holders {
		s, known := l.seen[h.WorkerID]
		if !known || !s.lease.Equal(h.LeaseUntil) {
			s = sighting{h.LeaseUntil, now}
		}
		seen[h.WorkerID] = s
		if h.Stopped || now.Sub(s.at) >= lease {
			dead = append(dead, h)
		}
	}

	l.seen = seen
	return dead
}

// blind forgets all workers: they could not send heartbeats either.
func (l *lookout) blind() { l.seen = nil }

// watch takes over the runs of workers that are dead, until ctx ends.
func (e *Engine) watch(ctx context.Context) {
	scan, lease := e.config.Scan, e.config.Lease
	var l lookout
	timer := time.NewTicker(scan)
	defer timer.Stop()

	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}

		limited, cancel := context.WithTimeout(ctx, lease/2)
		asked := time.Now()
		holders, err := e.store.Holders(limited)
		cancel()
		if err != nil {
			l.blind()
			continue
		}

		// The heartbeats of others are seen up to a scan late.
		for _, h := range l.dead(holders, asked, lease-scan) {
			n, err := e.store.Bury(ctx, h)
			if err != nil {
				e.config.Logger.Debug("the runs of a dead worker cannot be taken over; it is tried again", "worker", h.WorkerID,
					"error", err)
			}
			if n > 0 {
				e.metrics.takeovers.Add(float64(n))
				e.config.Logger.Warn("a worker is dead; its runs go on elsewhere", "worker", h.WorkerID, "runs", n)
			}
		}
	}
}
