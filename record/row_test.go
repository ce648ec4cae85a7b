package record_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/actlog/actlog/record"
)

// draw draws a row of a kind about one key, with a revision: few values of each
// field, so that rows contradict each other, and agree.
func draw(t *rapid.T, kind record.Kind) *record.Row {
	c := record.New(kind)
	for i := range record.Fields(kind) {
		f := &record.Fields(kind)[i]
		v := f.In(c)
		n := rapid.IntRange(0, 3).Draw(t, f.Name)
		switch {
		case f.Name == "rev":
			v.Set(reflect.ValueOf(new(int64(n))))
			continue
		case f.Name == "planId" && kind == record.KindAgentExecution:
			v.SetString(fmt.Sprint("p", n))
			continue
		case f.Key:
			if f.Type == record.Text {
				v.SetString("k")
			}
			continue
		case f.Rule == record.Follows || n == 0 || f.Name == "parentPlanId" || f.Name == "toolCallId" && kind == record.KindPlan:
			continue
		}
		set := func(value any) {
			p := reflect.New(v.Type().Elem())
			p.Elem().Set(reflect.ValueOf(value).Convert(v.Type().Elem()))
			v.Set(p)
		}
		switch {
		case f.Rule == record.Forward:
			set(rapid.SampledFrom(record.States(kind)).Draw(t, "state"))
		case f.Name == "type" && kind != record.KindArtifact:
			set(map[record.Kind][]string{record.KindThought: {"action", "error", "decision"}, record.KindSource: {"URL", "FILE", "CLASS"},
				record.KindWait: {"USER_INPUT", "PLAN_VALIDATION", "ACTION_VALIDATION"}}[kind][n-1])
		case f.Name == "formInputs":
			v.SetBytes(fmt.Appendf(nil, `[{"n":"%d"}]`, n))
		case f.Type == record.JSON:
			v.SetBytes(fmt.Appendf(nil, `{"n":%d}`, n))
		case f.Type == record.Texts:
			v.Set(reflect.ValueOf(slices.Repeat([]string{fmt.Sprint(n % 2)}, n)))
		case f.Type == record.Bool:
			set(n > 1)
		case f.Type == record.Int:
			set(int64(n))
		case f.Type == record.Float:
			set(float64(n) / 2)
		case f.Type == record.Time:
			set(time.Date(2026, 11, 20, 12, 0, n, 0, time.UTC))
		case n == 3 && f.Name == "name":
			set(strings.Repeat("x", 300)) // is cut
		default:
			set(fmt.Sprint("text ", n))
		}
	}
	r, err := record.NewRow(c)
	if err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	return r
}

// fold learns rows in turn.
func fold(rows ...*record.Row) *record.Row {
	out := rows[0].Clone()
	for _, r := range rows[1:] {
		out.Learn(r)
	}
	return out
}

// said is what a row says, which has no order.
func said(r *record.Row) *record.Row {
	r = r.Clone()
	reflect.ValueOf(r.Change).Elem().FieldByName("Rev").SetZero() // of the first that was told
	slices.Sort(r.Cut)
	if len(r.Cut) == 0 {
		r.Cut = nil
	}
	return r
}

// TestLearningHasNoOrder: with revisions, rows say the same in any order, told
// once or more often, one by one or in batches.
func TestLearningHasNoOrder(t *testing.T) {
	t.Parallel()
	for _, kind := range record.Kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				rows := []*record.Row{}
				for range rapid.IntRange(2, 5).Draw(t, "rows") {
					rows = append(rows, draw(t, kind))
				}
				want := said(fold(rows...))
				same := func(law string, got *record.Row) {
					if diff := cmp.Diff(want, said(got)); diff != "" {
						t.Fatalf("%s (-in turn +otherwise):\n%s", law, diff)
					}
				}
				same("in another order", fold(rapid.Permutation(rows).Draw(t, "order")...))
				same("twice", fold(slices.Concat(rows, rows)...))
				cut := rapid.IntRange(1, len(rows)-1).Draw(t, "cut")
				same("in two batches", fold(fold(rows[:cut]...), fold(rows[cut:]...)))
				same("known already", fold(fold(rows...), rapid.SampledFrom(rows).Draw(t, "again")))
				same("a placeholder first", fold(slices.Insert(slices.Clone(rows), 0, record.Placeholder(keyOf(rows[0])))...))
			})
		})
	}
}

// keyOf is a change that says no more than the key.
func keyOf(r *record.Row) record.Change {
	c := record.New(r.Change.Kind())
	for i := range record.Fields(c.Kind()) {
		if f := &record.Fields(c.Kind())[i]; f.Key {
			f.In(c).Set(f.In(r.Change))
		}
	}
	return c
}

// TestLearningLeavesTheOtherAlone: a row that was learnt may be learnt again.
func TestLearningLeavesTheOtherAlone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(record.Kinds).Draw(t, "kind")
		a, b := draw(t, kind), draw(t, kind)
		before := b.Clone()
		a.Clone().Learn(b)
		if diff := cmp.Diff(before, b); diff != "" {
			t.Fatalf("(-before +after):\n%s", diff)
		}
	})
}

func TestWithoutRevisionsTheLaterWins(t *testing.T) {
	t.Parallel()
	row := func(p record.Plan) *record.Row {
		p.RootPlanID, p.CurrentPlanID = "p", "p"
		r, err := record.NewRow(&p)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	got := fold(row(record.Plan{Title: new("z"), Summary: new("kept"), State: new(record.Failed)}), row(record.Plan{Title: new("a"), State: new(record.Running)}),
		row(record.Plan{State: new(record.Completed)}), row(record.Plan{State: new(record.Interrupted)}))
	want := row(record.Plan{Title: new("a"), Summary: new("kept"), State: new(record.Completed)})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
