package store_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestStats checks what a store counts of writes that succeed or are refused.
func TestStats(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	storetest.Write(t, s,
		&record.Plan{RootPlanID: "p", CurrentPlanID: "p", Title: new("a")}, &record.Plan{
			RootPlanID: "p", CurrentPlanID: "p", Summary: new("b"),
		},
		&record.ActTool{RootPlanID: "p", StepID: "s", Seq: 0, ToolCallID: "t"}) // with its step and cycle
	if _, err := s.Write(t.Context(), []record.Change{&record.Plan{RootPlanID: "p"}}); err != nil {
		t.Fatal(err)
	}

	got := s.Stats()
	if got.BatchSeconds.Sum <= 0 || len(got.BatchSeconds.Counts) != len(got.BatchSeconds.Bounds)+1 ||
		got.BatchSeconds.Count != 1 {
		t.Errorf("histogram = %+v", got.BatchSeconds)
	}
	if got.Pool.Max != 4 || got.Pool.Acquired+got.Pool.Idle < 1 {
		t.Errorf("pool = %+v", got.Pool)
	}

	got.BatchSeconds, got.Pool = store.Histogram{}, store.PoolStats{}
	want := store.Stats{Batches: 1, Rows: 4, Folded: 1, Refused: 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestStatsOfAnOutage checks what a store counts while its database is away.
func TestStatsOfAnOutage(t *testing.T) {
	t.Parallel()
	o := storetest.NewOutage(t)
	s := storetest.OpenURL(t, o.DB.URL, storetest.Impatient)
	o.Begin(t)
	var changes []record.Change
	for _, id := range []string{"p0", "p1", "p2"} {
		changes = append(changes, &record.Plan{RootPlanID: id, CurrentPlanID: id})
	}

	for range 2 {
		if _, err := s.Write(t.Context(), changes); err == nil {
			t.Error("it was written during the outage")
		}
	}
	storetest.Until(t, "the queue is empty and an error is noted", func() bool {
		st := s.Stats()
		return st.QueueRows == 0 && !st.LastErrorAt.IsZero()
	})

	o.End(t)
	if st := s.Stats(); st.GivenUp != 6 || st.Batches != 0 {
		t.Errorf("st = %+v", st)
	}
}
