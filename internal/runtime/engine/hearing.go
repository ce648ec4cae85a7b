package engine

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// errInterrupted is why a model call was cancelled.
var errInterrupted = errors.New("a message interrupted the call of the model")

// hearing is what a run knows of what is said to it while it is carried.
type hearing struct {
	mu     sync.Mutex
	unread bool            // messages wait, as far as is known
	heard  map[string]bool // messages that were read here, or for which a model call was cancelled
	asking []*asking       // the model calls under way
	deaf   bool            // the run ends without reading what waits
}

// asking is a model call under way.
type asking struct {
	stepID string
	cancel context.CancelCauseFunc
}

// listen returns a context for a model call of a step that messages may interrupt. The caller calls stop when the call
// has ended. It returns its error: errInterrupted if a message cancelled it.
func (h *hearing) listen(ctx context.Context, stepID string) (_ context.Context, stop func(error) error) {
	ctx, cancel := context.WithCancelCause(ctx)
	mine := &asking{stepID, cancel}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asking = append(h.asking, mine)

	return ctx, func(err error) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.asking = slices.DeleteFunc(h.asking, func(other *asking) bool { return other == mine })
		cancel(nil)
		if err != nil && errors.Is(context.Cause(ctx), errInterrupted) {
			return errInterrupted
		}
		return err
	}
}

// hear notes what is said. A message that interrupts cancels a model call that can read it, once.
func (h *hearing) hear(w runstore.Wanted) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unread = h.unread || w.Unread
	for _, m := range w.Interrupts {
		at := slices.IndexFunc(h.asking, func(a *asking) bool { return m.StepID == "" || m.StepID == a.stepID })
		if at >= 0 && !h.heard[m.MessageID] {
			h.note(m.MessageID)
			h.asking[at].cancel(errInterrupted)
		}
	}
}

// noteHeard notes which messages were read.
func (h *hearing) noteHeard(read []record.SteeringMessage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range read {
		h.note(m.MessageID)
	}
}

func (h *hearing) note(messageID string) {
	if h.heard == nil {
		h.heard = map[string]bool{}
	}
	h.heard[messageID] = true
}

func (h *hearing) noteUnread(unread bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unread = unread
}

func (h *hearing) mayHaveUnread() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.unread
}

// setDeaf lets the run end although messages wait.
func (h *hearing) setDeaf() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deaf = true
}

func (h *hearing) isDeaf() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.deaf
}
