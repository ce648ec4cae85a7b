package workflow_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// asksFor is a step that asks for a version, and pays by it.
func asksFor(n int) one {
	return func(ctx context.Context, f workflow.Facade) (any, error) {
		version, err := f.Version(ctx, "fee", n)
		if err != nil || version == 0 {
			return version, err
		}
		return f.CallTool(ctx, "pay", object{"text": fmt.Sprint("fee ", version)})
	}
}

// TestVersion checks that old and new code go on with the same record.
func TestVersion(t *testing.T) {
	t.Parallel()
	ship := tools("ship", object{"text": "A"})
	for name, tt := range map[string]struct {
		was, is []one
		effects string
	}{
		"it comes there first": {[]one{asks}, []one{asks, asksFor(2)}, "pay fee 2"},
		"it is on record": {
			[]one{asksFor(1), asks}, []one{asksFor(2), asks, asksFor(2)}, "pay fee 1, pay fee 1",
		},
		"a later one is on record":  {[]one{asksFor(2), asks}, []one{asksFor(1), asks}, "pay fee 2"},
		"the record passed without": {[]one{ship, asks, ship}, []one{ship, asksFor(1), asks, ship}, "ship A, ship A"},
		"and later in the same run": {[]one{asks, ship}, []one{asksFor(1), asks, asksFor(1), ship}, "ship A"},
		"where the record stopped":  {[]one{ship, asks}, []one{ship, asks, asksFor(3)}, "ship A, pay fee 3"},
		"asked for and then no longer": {
			[]one{asksFor(1), asks}, []one{tools("pay", object{"text": "fee 1"}), asks}, "pay fee 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := builds(t)
			stop := h.work("1", doing(tt.was...))
			id := h.start()
			h.Await(id, record.Waiting)
			stop()

			tt.is = append(tt.is, asks) // and once more by another worker, from the record
			stop = h.work("2", doing(tt.is...))
			h.answers()
			storetest.Until(t, "it asks again", func() bool {
				return storetest.Query[int64](t, h.Store, "SELECT count(*) FROM actlog.wait_state") == 2
			})
			h.Await(id, record.Waiting)
			stop()

			h.work("3", doing(tt.is...))
			h.answers()
			h.Await(id, record.Completed)
			if h.done() != tt.effects {
				t.Errorf("effects: %s, want %s", h.done(), tt.effects)
			}
		})
	}
}

// TestVersionIsOnRecord checks that a version is a thought, which reads and exports have, and that bad ones are
// refused.
func TestVersionIsOnRecord(t *testing.T) {
	t.Parallel()
	h := builds(t)
	h.work("1", doing(asksFor(4)))
	id := h.start()
	h.Await(id, record.Completed)

	var thoughts []string
	err := h.Store.EachAttached(t.Context(), record.KindThought, id, id, func(c record.Change) {
		thoughts = append(thoughts, fmt.Sprint(*c.(*record.Thought).Type, ": ", text(c.(*record.Thought).Content)))
	})
	if err != nil || strings.Join(thoughts, "; ") != "decision: Version 4 of fee." {
		t.Errorf("thoughts: %q, %v", thoughts, err)
	}

	other := builds(t)
	other.work("1", doing(asksFor(-1)))
	if p := other.Ended(other.start()); *p.Record.State != record.Failed ||
		!strings.Contains(text(p.Record.ErrorMessage), `version -1 of "fee" needs a name, and a number of 1 or more`) {
		t.Errorf("it is %s: %s", *p.Record.State, text(p.Record.ErrorMessage))
	}
}
