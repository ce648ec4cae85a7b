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

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// exported returns the export of a tree.
func exported(t testing.TB, s *store.Store, planID string) (changes []record.Change) {
	t.Helper()
	if err := s.Export(t.Context(), "", planID, func(c record.Change) error {
		changes = append(changes, c)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return changes
}

// storedRows returns the rows of a tree by table, with all columns except those that say when and
// in which order this database received them. A row whose revisions are all unknown counts as a
// row without revisions.
func storedRows(t testing.TB, s *store.Store, root string) map[string]string {
	t.Helper()
	rows := map[string]string{}
	for _, table := range []string{
		"plan_execution_record", "agent_execution_record", "think_act_record", "act_tool_info", "thought", "artifact",
		"source_reference", "wait_state",
	} {
		rows[table] = storetest.Query[string](t, s, fmt.Sprintf(`
			SELECT COALESCE(string_agg(r.text, E'\n' ORDER BY r.text COLLATE "C"), '') FROM (
				SELECT (to_jsonb(x) - ARRAY['id', 'part', 'first_seen_at', 'beat_at', 'exception', 'exception_at']
					|| jsonb_build_object('revs', CASE WHEN cardinality(array_remove(x.revs, NULL)) > 0 THEN x.revs END))::text AS text
				FROM actlog.%s AS x WHERE x.root_plan_id = $1
			) AS r`, table), root)
	}
	return rows
}

// drawChange draws a change of any kind.
func drawChange(rt *rapid.T, u testTree) record.Change {
	version := rapid.IntRange(0, 3).Draw(rt, "version")
	c := u.change(rt, func() int { return version })

	if kind := rapid.SampledFrom([]record.Kind{
		"", "", "", record.KindThought, record.KindArtifact, record.KindSource,
	}).Draw(rt, "beside"); kind != "" {
		c = record.New(kind)
		for _, f := range field.Fields(kind) {
			switch {
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

// TestExportRestoresTree checks that an export makes the same rows in another database, revisions
// included, and that it alters nothing in its own. A later change has the same effect on both.
func TestExportRestoresTree(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what the schema and rows of before become")
	t.Parallel()
	s, other := storetest.Open(t), store.CopyNew(storetest.Open(t))
	rapid.Check(t, func(rt *rapid.T) {
		u := testTree{record.NewPlanID()}
		for range rapid.IntRange(1, 15).Draw(rt, "changes") {
			storetest.Write(t, s, drawChange(rt, u))
		}
		want := storedRows(t, s, u.root)
		changes := exported(t, s, u.root)
		if diff := cmp.Diff(changes, exportedOnce(t, s, u.root)); diff != "" {
			rt.Fatalf("with contents once (-whole +put together):\n%s", diff)
		}

		check := func(what string, written *store.Store) {
			if diff := cmp.Diff(want, storedRows(t, written, u.root)); diff != "" {
				rt.Fatalf("%s (-want +got):\n%s", what, diff)
			}
		}

		storetest.Write(t, other, changes...)
		check("written to another database", other)
		storetest.Write(t, s, changes...)
		check("written to its own database", s)
		storetest.Write(t, other, changes...)
		check("written to another database again", other)

		later := drawChange(rt, u)
		storetest.Write(t, s, later)
		want = storedRows(t, s, u.root)
		storetest.Write(t, other, later)
		check("after a later change", other)
	})
}

// TestNewAttemptResetsRevisions checks that a new attempt drops the revisions of the fields that
// it resets, also if the change sets nothing but the attempt.
func TestNewAttemptResetsRevisions(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	step := record.AgentExecution{RootPlanID: "p", PlanID: "p", StepID: "s"}
	failed, again := step, step
	failed.ErrorKind, failed.Rev = new("kind"), new(int64(7))
	again.Attempt = new(int64(2))

	storetest.Write(t, s, &failed)
	storetest.Write(t, s, &again)
	if left := storetest.Query[int](t, s,
		"SELECT cardinality(array_remove(revs, NULL)) FROM actlog.agent_execution_record"); left != 1 {
		t.Errorf("%d revisions are left, want only that of the plan's id", left)
	}
}

// TestExport checks the changes of an export and their order. Any plan of a tree exports the whole
// tree. A cut text is exported longer than its limit, so that it is cut again.
func TestExport(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	long := strings.Repeat("é", record.MaxTextBytes/2) + "é"

	storetest.Write(t, s,
		&record.ActTool{
			RootPlanID: "z", StepID: "s", Seq: 2, ToolCallID: "t", Rev: new(int64(7)), SpanID: new("span"),
			Attempt: new(int64(3)), EndTime: at(4),
		},
		&record.Plan{RootPlanID: "z", CurrentPlanID: "a", ParentPlanID: new("z"), ToolCallID: new("t")},
		&record.Plan{RootPlanID: "z", CurrentPlanID: "z", Tags: []string{}, LastSeenAt: at(9), Exception: new("once")},
		&record.ThinkAct{RootPlanID: "z", StepID: "s", Seq: 1, ThinkInput: &long, CostUSD: new(0.1)},
		&record.Plan{RootPlanID: "another", CurrentPlanID: "another"})

	want := []record.Change{
		&record.Plan{RootPlanID: "z", CurrentPlanID: "z", Tags: []string{}, LastSeenAt: at(9)},
		&record.Plan{RootPlanID: "z", CurrentPlanID: "a", ParentPlanID: new("z"), ToolCallID: new("t")},
		&record.ThinkAct{
			RootPlanID: "z", StepID: "s", Seq: 1, ThinkInput: new(long[:record.MaxTextBytes] + "\U0010FFFF"),
			InputCharCount: new(int64(record.MaxTextBytes/2 + 1)), CostUSD: new(0.1),
		},
		&record.ThinkAct{RootPlanID: "z", StepID: "s", Seq: 2},
		&record.ActTool{
			RootPlanID: "z", StepID: "s", Seq: 2, ToolCallID: "t", Rev: new(int64(7)), SpanID: new("span"),
			Attempt: new(int64(3)), EndTime: at(4),
		},
	}
	for _, id := range []string{"z", "a"} {
		if got := exported(t, s, id); !cmp.Equal(want, got) { // a diff may be long
			b, _ := json.Marshal(got)
			t.Errorf("export of %s: %.2000s", id, b)
		}
		if got := exportedOnce(t, s, id); !cmp.Equal(want, got) {
			b, _ := json.Marshal(got)
			t.Errorf("export of %s with contents once: %.2000s", id, b)
		}
	}

	if err := s.Export(t.Context(), "", "unknown", func(record.Change) error {
		return nil
	}); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("export of an unknown plan: %v", err)
	}
}

// TestExportStopsWithReader checks that an export stops when its reader returns an error or its
// context ends, and that the connection can be used again.
func TestExportStopsWithReader(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, func(c *store.Config) { c.MaxConns, c.Writers = 2, 1 })
	text := strings.Repeat("x", 100_000)
	for i := range 100 {
		storetest.Write(t, s, &record.ThinkAct{RootPlanID: "p", StepID: "s", Seq: int64(i), ThinkInput: &text})
	}

	stop := errors.New("stop")
	for range 5 {
		n := 0
		err := s.Export(t.Context(), "", "p", func(record.Change) error {
			if n++; n == 5 {
				return stop
			}
			return nil
		})
		if !errors.Is(err, stop) || n != 5 {
			t.Errorf("after %d changes: %v", n, err)
		}

		ctx, cancel := context.WithCancel(t.Context())
		err = s.Export(ctx, "", "p", func(record.Change) error { cancel(); return nil })
		if !errors.Is(err, context.Canceled) || errors.Is(err, record.ErrUnavailable) {
			t.Errorf("cancelled: %v", err)
		}
	}

	if n := len(exported(t, s, "p")); n != 101 {
		t.Errorf("%d changes", n)
	}
}

// TestExportIsSnapshot checks that an export holds the tree as it was when the export began. Later
// writes are not in it, and deleted rows are.
func TestExportIsSnapshot(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	storetest.Write(t, s, &record.Plan{RootPlanID: "p", CurrentPlanID: "p"},
		&record.Thought{RootPlanID: "p", PlanID: "p", ThoughtID: "old"})

	var ids []string
	if err := s.Export(t.Context(), "", "p", func(c record.Change) error {
		if c.Kind() == record.KindPlan {
			storetest.Write(t, s, &record.Thought{RootPlanID: "p", PlanID: "p", ThoughtID: "new"})
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
		t.Errorf("exported ids (-want +got):\n%s", diff)
	}
}
