package store_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/actlog/actlog/internal/record/feed"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// rows reads all rows that a filter selects, by kind and key.
func rows(t *testing.T, s *store.Store, root string, f store.RowFilter) map[record.Key]store.Row {
	t.Helper()
	all := map[record.Key]store.Row{}
	for len(f.Kinds) > 0 {
		page, err := s.Rows(t.Context(), root, &f)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page {
			all[r.Record.Key()] = r
		}
	}
	return all
}

// cursor returns the present end of the change feed.
func cursor(t *testing.T, s *store.Store) (end string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	s.Feed().Follow(ctx, func(c feed.Changes) {
		if end = c.Cursor; end != "" {
			cancel()
		}
	})
	return end
}

// TestRowsOfATransaction checks that the transaction of a change in the feed selects exactly the
// rows that it wrote.
func TestRowsOfATransaction(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	storetest.Upkeep(t, s, upkeep.Config{}) // adds partitions
	root := record.NewPlanID()
	step := func(id string) *record.AgentExecution {
		return &record.AgentExecution{RootPlanID: root, PlanID: root, StepID: root + id, AgentName: new("a")}
	}

	storetest.Write(t, s, &record.Plan{RootPlanID: root, CurrentPlanID: root, State: new(record.Running)}, step("1"),
		step("2"),
		&record.ThinkAct{RootPlanID: root, StepID: root + "1", Seq: 0, ThinkInput: new("in"), InputTokens: new(int64(7))},
		&record.Wait{RootPlanID: root, PlanID: root, WaitID: "w"}, &record.Thought{
			RootPlanID: root, PlanID: root, ThoughtID: "t",
		},
		&record.Artifact{RootPlanID: root, PlanID: root, Name: "a", Value: []byte(`1`)},
		&record.Source{RootPlanID: root, PlanID: root, SourceID: "s"})

	all := rows(t, s, root, store.RowFilter{Kinds: record.Kinds})
	if len(all) != 8 {
		t.Errorf("%d rows", len(all))
	}
	if r := all[step("1").Key()]; r.RollUps == nil || r.RollUps.Figures.InputTokens != 7 || r.RollUps.LatestRound != 1 {
		t.Errorf("r.RollUps = %+v", r.RollUps)
	}
	if c := all[(&record.ThinkAct{RootPlanID: root, StepID: root +
		"1"}).Key()].Record.(*record.ThinkAct); *c.ThinkInput != "in" || *c.State != record.Pending {
		t.Errorf("c = %+v", c)
	}

	before := cursor(t, s)
	call := &record.ActTool{RootPlanID: root, StepID: root + "1", Seq: 3, ToolCallID: "c", Result: new("out")}
	storetest.Write(t, s, call)
	changes, err := s.Feed().Since(t.Context(), before, root)
	if err != nil {
		t.Fatal(err)
	}
	if len(changes) != 1 {
		t.Fatalf("%d changes", len(changes))
	}

	filter := store.RowFilter{XIDs: []uint32{changes[0].XID}, Kinds: changes[0].KindsWritten()}
	got := rows(t, s, root, filter)
	if len(got) != 3 || got[call.Key()].Record == nil || got[step("1").Key()].RollUps.Figures.ToolCalls != 1 {
		t.Errorf("slices.Collect(maps.Keys(got)) = %v", slices.Collect(maps.Keys(got)))
	}
	if filter.XIDs = []uint32{}; len(rows(t, s, root, filter)) != 0 {
		t.Error("rows of no transaction")
	}
}

// TestRowsAreOfOneMoment checks that what is written together is read together: a call is there with the answer that
// asks for it.
func TestRowsAreOfOneMoment(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	root := record.NewPlanID()
	const cycles = 300
	written := make(chan error, 1)
	go func() {
		for seq := range int64(cycles) {
			if _, err := s.Write(t.Context(), []record.Change{
				&record.ThinkAct{RootPlanID: root, StepID: root, Seq: seq, ThinkOutput: new("I look.")},
				&record.ActTool{RootPlanID: root, StepID: root, Seq: seq, ToolCallID: fmt.Sprint(seq)},
			}); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()

	for calls := 0; calls < cycles; {
		all := rows(t, s, root, store.RowFilter{Kinds: []record.Kind{record.KindThinkAct, record.KindActTool}})
		calls = 0
		for key := range all {
			if key.Kind != record.KindActTool {
				continue
			}
			calls++
			if _, ok := all[record.Key{Kind: record.KindThinkAct, Root: root, Parent: key.Parent, Seq: key.Seq}]; !ok {
				t.Fatalf("call %+v is there without its cycle", key)
			}
		}
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// TestRowsInPages checks that pages return every row once, of many rows and large ones.
func TestRowsInPages(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	storetest.Upkeep(t, s, upkeep.Config{}) // adds partitions
	root := record.NewPlanID()

	var changes []record.Change
	large := make([]byte, 200<<10)
	for i := range large {
		large[i] = 'x'
	}
	for i := range int64(1200) {
		c := &record.ThinkAct{RootPlanID: root, StepID: fmt.Sprint(root, i%7), Seq: i}
		if i%100 == 0 {
			c.ThinkInput = new(string(large))
		}
		changes = append(changes, c)
	}
	storetest.Write(t, s, changes...)

	f := store.RowFilter{Kinds: record.Kinds}
	seen, pages := map[record.Key]bool{}, 0
	for ; len(f.Kinds) > 0; pages++ {
		page, err := s.Rows(t.Context(), root, &f)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page {
			if seen[r.Record.Key()] {
				t.Fatalf("twice: %v", r.Record.Key())
			}
			seen[r.Record.Key()] = true
		}
	}

	if len(seen) != 1200+7+1 || pages < 6 {
		t.Errorf("%d rows in %d pages", len(seen), pages)
	}
}
