package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/record"
)

// told reads what was told of a tree.
func told(t testing.TB, s *store.Store, planID string) (changes []record.Change) {
	t.Helper()
	if err := s.Told(t.Context(), planID, func(c record.Change) error {
		changes = append(changes, c)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return changes
}

// tables gives every row of a tree with all of its columns, but those that say
// when and in which order this database heard of it. Revisions of which none is
// known are none.
func tables(t testing.TB, s *store.Store, root string) map[string]string {
	t.Helper()
	rows := map[string]string{}
	for _, table := range []string{"plan_execution_record", "agent_execution_record", "think_act_record", "act_tool_info", "thought", "artifact", "source_reference", "wait_state"} {
		rows[table] = query[string](t, s, fmt.Sprintf(`
			SELECT COALESCE(string_agg(r.text, E'\n' ORDER BY r.text COLLATE "C"), '') FROM (
				SELECT (to_jsonb(x) - ARRAY['id', 'part', 'first_seen_at', 'beat_at', 'exception', 'exception_at']
					|| jsonb_build_object('revs', CASE WHEN cardinality(array_remove(x.revs, NULL)) > 0 THEN x.revs END))::text AS text
				FROM actlog.%s AS x WHERE x.root_plan_id = $1
			) AS r`, table), root)
	}
	return rows
}

// anything draws a change of whatever kind.
func anything(rt *rapid.T, u universe) record.Change {
	version := rapid.IntRange(0, 3).Draw(rt, "version")
	c := u.change(rt, func() int { return version })
	if kind := rapid.SampledFrom([]record.Kind{"", "", "", record.KindThought, record.KindArtifact, record.KindSource}).Draw(rt, "beside"); kind != "" {
		c = record.New(kind)
		for i := range record.Fields(kind) {
			switch f := &record.Fields(kind)[i]; {
			case f.Key:
				f.In(c).SetString(u.id("p", 1))
			case f.Name == "type" && kind == record.KindThought:
				f.In(c).Set(reflect.ValueOf(new(record.ThoughtDecision)))
			case f.Name == "type" && kind == record.KindSource:
				f.In(c).Set(reflect.ValueOf(new(record.SourceURL)))
			case f.Name != "rev" && rapid.Bool().Draw(rt, f.Name):
				setField(f, c, version)
			}
		}
		reflect.ValueOf(c).Elem().FieldByName("RootPlanID").SetString(u.root)
	}
	if rev := rapid.IntRange(0, 3).Draw(rt, "rev"); rev > 0 {
		reflect.ValueOf(c).Elem().FieldByName("Rev").Set(reflect.ValueOf(new(int64(rev))))
	}
	return c
}

// TestWhatWasToldMakesTheTreeAgain: told to another database, it gives the same
// rows, revisions included; told to its own, it writes nothing; and what is told
// later finds both alike.
func TestWhatWasToldMakesTheTreeAgain(t *testing.T) {
	t.Parallel()
	s, other := open(t), store.CopyNew(open(t))
	rapid.Check(t, func(rt *rapid.T) {
		u := universe{record.NewPlanID()}
		for range rapid.IntRange(1, 15).Draw(rt, "changes") {
			write(t, s, anything(rt, u))
		}
		want := tables(t, s, u.root)
		changes := told(t, s, u.root)
		same := func(law string, of *store.Store) {
			if diff := cmp.Diff(want, tables(t, of, u.root)); diff != "" {
				rt.Fatalf("%s (-before +after):\n%s", law, diff)
			}
		}
		write(t, other, changes...)
		same("told to another database", other)
		write(t, s, changes...)
		same("told to its own", s)
		write(t, other, changes...)
		same("told to another database again", other)
		later := anything(rt, u)
		write(t, s, later)
		want = tables(t, s, u.root)
		write(t, other, later)
		same("something else told later", other)
	})
}

// TestANewAttemptForgetsRevisions of what starts anew with it, also where it is told
// alone.
func TestANewAttemptForgetsRevisions(t *testing.T) {
	t.Parallel()
	s := open(t)
	step := record.AgentExecution{RootPlanID: "p", PlanID: "p", StepID: "s"}
	failed, again := step, step
	failed.ErrorKind, failed.Rev = new("kind"), new(int64(7))
	again.Attempt = new(int64(2))
	write(t, s, &failed)
	write(t, s, &again)
	if left := query[int](t, s, "SELECT cardinality(array_remove(revs, NULL)) FROM actlog.agent_execution_record"); left != 1 {
		t.Errorf("%d revisions are left, not that of the plan's id only", left)
	}
}

func TestToldOfATree(t *testing.T) {
	t.Parallel()
	s := open(t)
	long := strings.Repeat("é", record.MaxTextBytes/2) + "é"
	write(t, s,
		&record.ActTool{RootPlanID: "z", StepID: "s", Seq: 2, ToolCallID: "t", Rev: new(int64(7)), SpanID: new("span"), Attempt: new(int64(3)), EndTime: at(4)},
		&record.Plan{RootPlanID: "z", CurrentPlanID: "a", ParentPlanID: new("z"), ToolCallID: new("t")},
		&record.Plan{RootPlanID: "z", CurrentPlanID: "z", Tags: []string{}, LastSeenAt: at(9), Exception: new("once")},
		&record.ThinkAct{RootPlanID: "z", StepID: "s", Seq: 1, ThinkInput: &long, CostUSD: new(0.1)},
		&record.Plan{RootPlanID: "another", CurrentPlanID: "another"})
	want := []record.Change{
		&record.Plan{RootPlanID: "z", CurrentPlanID: "z", Tags: []string{}, LastSeenAt: at(9)},
		&record.Plan{RootPlanID: "z", CurrentPlanID: "a", ParentPlanID: new("z"), ToolCallID: new("t")},
		&record.ThinkAct{RootPlanID: "z", StepID: "s", Seq: 1, ThinkInput: new(long[:record.MaxTextBytes] + "\U0010FFFF"), InputCharCount: new(int64(record.MaxTextBytes/2 + 1)), CostUSD: new(0.1)},
		&record.ThinkAct{RootPlanID: "z", StepID: "s", Seq: 2},
		&record.ActTool{RootPlanID: "z", StepID: "s", Seq: 2, ToolCallID: "t", Rev: new(int64(7)), SpanID: new("span"), Attempt: new(int64(3)), EndTime: at(4)},
	}
	for _, id := range []string{"z", "a"} {
		if got := told(t, s, id); !cmp.Equal(want, got) { // their difference may be long
			b, _ := json.Marshal(got)
			t.Errorf("told of %s: %.2000s", id, b)
		}
	}
	if err := s.Told(t.Context(), "nobody", func(record.Change) error { return nil }); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("of no one: %v", err)
	}
}

// TestToldEndsWhenItsReaderDoes, and the store goes on.
func TestToldEndsWhenItsReaderDoes(t *testing.T) {
	t.Parallel()
	s := open(t, func(c *store.Config) { c.MaxConns, c.Writers = 2, 1 })
	text := strings.Repeat("x", 100_000)
	for i := range 100 {
		write(t, s, &record.ThinkAct{RootPlanID: "p", StepID: "s", Seq: int64(i), ThinkInput: &text})
	}
	enough := errors.New("enough")
	for range 5 {
		n := 0
		err := s.Told(t.Context(), "p", func(record.Change) error {
			if n++; n == 5 {
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) || n != 5 {
			t.Errorf("after %d: %v", n, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		err = s.Told(ctx, "p", func(record.Change) error { cancel(); return nil })
		if !errors.Is(err, context.Canceled) || errors.Is(err, record.ErrUnavailable) {
			t.Errorf("cancelled: %v", err)
		}
	}
	if n := len(told(t, s, "p")); n != 101 {
		t.Errorf("%d changes", n)
	}
}

// TestToldIsOfOneMoment: what is written meanwhile is not in it, and what is
// deleted is.
func TestToldIsOfOneMoment(t *testing.T) {
	t.Parallel()
	s := open(t)
	write(t, s, &record.Plan{RootPlanID: "p", CurrentPlanID: "p"}, &record.Thought{RootPlanID: "p", PlanID: "p", ThoughtID: "old"})
	var ids []string
	if err := s.Told(t.Context(), "p", func(c record.Change) error {
		if c.Kind() == record.KindPlan {
			write(t, s, &record.Thought{RootPlanID: "p", PlanID: "p", ThoughtID: "new"})
			if err := s.DeletePlan(t.Context(), "p"); err != nil {
				t.Error(err)
			}
		}
		ids = append(ids, c.Key().ID)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"p", "old"}, ids); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
