package runs_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/runtime/runs"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// titles follows the titles of plans. "end" is the last one, and "oh" cannot be read.
func titles(t *testing.T) (s *store.Store, shared *runs.Shared[string], reads *atomic.Int64, end func()) {
	t.Helper()
	s, reads = storetest.OpenURL(t, pgtest.New(t).URL), new(atomic.Int64)
	w := runs.NewWatch(s.Feed())
	t.Cleanup(w.Close)
	return s, runs.NewShared(w, func(ctx context.Context, _, planID string) (string, bool, error) {
		reads.Add(1)
		row, err := s.Row(ctx, record.Key{Kind: record.KindPlan, Root: planID, ID: planID})
		if err != nil {
			return "", false, err
		}

		title := *row.(*record.Plan).Title
		if title == "oh" {
			return "", false, record.ErrUnavailable
		}
		return title, title == "end", nil
	}), reads, w.Close
}

func write(t *testing.T, s *store.Store, title string) {
	t.Helper()
	storetest.Write(t, s, &record.Plan{RootPlanID: "p", CurrentPlanID: "p", Title: &title})
}

// E19: however many follow a run, it is read once for each change. Who comes late gets the newest value, and who is
// slow the newest one only. Behind the last value all are done.
func TestShared(t *testing.T) {
	t.Parallel()
	s, shared, reads, _ := titles(t)
	write(t, s, "first")

	const many = 50
	var all []<-chan string
	for range many {
		values, stop := shared.Follow("p", "p")
		defer stop()
		if got := <-values; got != "first" {
			t.Fatalf("%q", got)
		}
		all = append(all, values)
	}

	before := reads.Load()
	write(t, s, "end")
	for _, values := range all {
		last := ""
		for value := range values {
			last = value
		}
		if last != "end" {
			t.Errorf("last = %q", last)
		}
	}

	if n := reads.Load() - before; n < 1 || n > 5 || before > 5 { // the feed wakes at its start, too
		t.Errorf("%d reads for %d who follow, then %d", before, many, n)
	}
}

// E19: a read that fails and the end of the server close what is followed. The last one who stops ends the reads.
func TestSharedIsClosed(t *testing.T) {
	t.Parallel()
	s, shared, reads, end := titles(t)
	write(t, s, "oh")
	values, stop := shared.Follow("p", "p")
	if _, open := <-values; open {
		t.Error("a value that could not be read")
	}
	stop()

	write(t, s, "first")
	values, stop = shared.Follow("p", "p")
	<-values
	stop()

	before := reads.Load()
	write(t, s, "second")
	values, stop = shared.Follow("p", "p")
	defer stop()
	if got := <-values; got != "second" || reads.Load() > before+2 {
		t.Errorf("%q after %d reads", got, reads.Load()-before)
	}

	end()
	for range values { // it is closed
	}
}
