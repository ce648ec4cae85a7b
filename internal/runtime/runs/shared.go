package runs

import (
	"context"
	"sync"
)

// Shared lets all who follow the same run share what is read of it: it is read once whenever its tree changed,
// however many follow it.
type Shared[T any] struct {
	watch *Watch
	read  func(ctx context.Context, rootPlanID, planID string) (value T, last bool, err error)

	mu   sync.Mutex
	open map[string]*following[T] // by plan
}

// following is a run that somebody follows.
type following[T any] struct {
	cancel context.CancelFunc
	to     map[chan T]bool
	newest *T
}

// NewShared returns what follows runs with a watch. read returns what is told of a run, and whether that is the
// last of it.
func NewShared[T any](
	w *Watch, read func(ctx context.Context, rootPlanID, planID string) (value T, last bool, err error),
) *Shared[T] {
	return &Shared[T]{watch: w, read: read, open: map[string]*following[T]{}}
}

// Follow returns what has the newest value that was not received yet: values that come meanwhile replace each
// other. It is closed behind the last one, after a read that failed, and when the watch is closed. The caller
// calls stop.
func (s *Shared[T]) Follow(rootPlanID, planID string) (values <-chan T, stop func()) {
	to := make(chan T, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.open[planID]
	if f == nil {
		ctx, cancel := context.WithCancel(s.watch.ctx)
		f = &following[T]{cancel: cancel, to: map[chan T]bool{}}
		s.open[planID] = f
		s.watch.tasks.Go(func() { s.follow(ctx, f, rootPlanID, planID) })
	}

	f.to[to] = true
	if f.newest != nil {
		to <- *f.newest
	}
	return to, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if delete(f.to, to); len(f.to) == 0 {
			f.cancel()
			s.forget(planID, f)
		}
	}
}

// follow tells what is read of a run to those who follow it.
func (s *Shared[T]) follow(ctx context.Context, f *following[T], rootPlanID, planID string) {
	defer f.cancel()
	_ = s.watch.Wait(ctx, rootPlanID, func() (last bool, err error) {
		value, last, err := s.read(ctx, rootPlanID, planID)
		if err != nil {
			return false, err // it closes the channels
		}

		s.mu.Lock()
		defer s.mu.Unlock()
		f.newest = &value
		for to := range f.to {
			select {
			case <-to:
			default:
			}
			to <- value
		}
		return last, nil
	})

	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(planID, f)
	for to := range f.to {
		close(to)
	}
}

// forget makes the next one who follows the run begin again. The caller holds s.mu.
func (s *Shared[T]) forget(planID string, f *following[T]) {
	if s.open[planID] == f {
		delete(s.open, planID)
	}
}
