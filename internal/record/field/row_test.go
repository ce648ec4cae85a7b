package field_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/record"
)

func newRow(t rapid.TB, c record.Change) *field.Row {
	t.Helper()
	r, err := field.NewRow(c)
	if err != nil {
		t.Fatalf("%s: %v", c.Kind(), err)
	}
	return r
}

// drawRow draws a row of a kind, with a revision. All rows of a kind have the same key. A field
// has few values, so that some rows contradict each other and some agree.
func drawRow(t *rapid.T, kind record.Kind) *field.Row {
	c := record.New(kind)
	for _, f := range field.Fields(kind) {
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
			if f.Type == field.Text {
				v.SetString("k")
			}
			continue
		case f.Rule == field.Follows || n == 0 || f.Name == "parentPlanId" || f.Name == "toolCallId" &&
			kind == record.KindPlan:
			continue
		}

		set := func(value any) {
			p := reflect.New(v.Type().Elem())
			p.Elem().Set(reflect.ValueOf(value).Convert(v.Type().Elem()))
			v.Set(p)
		}

		switch {
		case f.Rule == field.Forward:
			set(rapid.SampledFrom(record.States(kind)).Draw(t, "state"))
		case f.Name == "type" && kind != record.KindArtifact:
			set(map[record.Kind][]string{record.KindThought: {"action", "error", "decision"},
				record.KindSource: {"URL", "FILE", "CLASS"},
				record.KindWait:   {"USER_INPUT", "PLAN_VALIDATION", "ACTION_VALIDATION"}}[kind][n-1])
		case f.Name == "formInputs", f.Name == "messages":
			v.SetBytes(fmt.Appendf(nil, `[{"n":"%d"}]`, n))
		case f.Name == "startedBy":
			v.SetBytes(fmt.Appendf(nil, `{"planId":"p%d"}`, n))
		case f.Type == field.JSON:
			v.SetBytes(fmt.Appendf(nil, `{"n":%d}`, n))
		case f.Type == field.Texts:
			v.Set(reflect.ValueOf(slices.Repeat([]string{fmt.Sprint(n % 2)}, n)))
		case f.Type == field.Bool:
			set(n > 1)
		case f.Type == field.Int:
			set(int64(n))
		case f.Type == field.Float:
			set(float64(n) / 4)
		case f.Type == field.Time:
			set(time.Date(2026, 11, 20, 12, 0, n, 0, time.UTC))
		case f.Name == "traceId":
			set(fmt.Sprintf("%032x", n))
		case n == 3 && f.Name == "name":
			set(strings.Repeat("x", 300)) // too long, so it is cut
		default:
			set(fmt.Sprint("text ", n))
		}
	}
	return newRow(t, c)
}

// fold makes one row of several. Each row learns the next one.
func fold(rows ...*field.Row) *field.Row {
	out := rows[0].Clone()
	for _, r := range rows[1:] {
		out.Learn(r)
	}
	return out
}

// normalized returns a copy of a row without what depends on the order of its changes.
func normalized(r *field.Row) *field.Row {
	r = r.Clone()
	reflect.ValueOf(r.Change).Elem().FieldByName("Rev").SetZero() // it is that of the first change
	slices.Sort(r.Cut)
	if len(r.Cut) == 0 {
		r.Cut = nil
	}

	for i, p := range r.Past {
		r.Past[i] = normalized(p)
		if len(p.Revs) > 0 && slices.Max(p.Revs) == field.NoRevision {
			r.Past[i].Revs = nil
		}
	}
	return r
}

// TestLearnInAnyOrder checks that changes with revisions make the same row in any order, also
// if they are repeated, and whether they come one by one or in batches.
func TestLearnInAnyOrder(t *testing.T) {
	t.Parallel()
	for _, kind := range record.Kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				rows := []*field.Row{}
				for range rapid.IntRange(2, 5).Draw(t, "rows") {
					rows = append(rows, drawRow(t, kind))
				}
				want := normalized(fold(rows...))

				check := func(how string, got *field.Row) {
					if diff := cmp.Diff(want, normalized(got)); diff != "" {
						t.Fatalf("%s (-once, in order +%[1]s):\n%s", how, diff)
					}
				}

				check("in another order", fold(rapid.Permutation(rows).Draw(t, "order")...))
				check("twice", fold(slices.Concat(rows, rows)...))
				cut := rapid.IntRange(1, len(rows)-1).Draw(t, "cut")
				check("in two batches", fold(fold(rows[:cut]...), fold(rows[cut:]...)))
				check("one repeated", fold(fold(rows...), rapid.SampledFrom(rows).Draw(t, "again")))
				check("after a placeholder", fold(slices.Insert(slices.Clone(rows), 0, &field.Row{Change: keyOf(rows[0])})...))
			})
		})
	}
}

// keyOf returns a change that sets only the key of a row.
func keyOf(r *field.Row) record.Change {
	c := record.New(r.Change.Kind())
	for _, f := range field.Fields(c.Kind()) {
		if f.Key {
			f.In(c).Set(f.In(r.Change))
		}
	}
	return c
}

// TestLearnKeepsArgument checks that Learn does not alter the row that is learned.
func TestLearnKeepsArgument(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(record.Kinds).Draw(t, "kind")
		a, b := drawRow(t, kind), drawRow(t, kind)
		before := b.Clone()
		a.Clone().Learn(b)

		if diff := cmp.Diff(before, b); diff != "" {
			t.Fatalf("(-before +after):\n%s", diff)
		}
	})
}

// TestLaterWinsWithoutRevisions checks that the later value wins if changes have no revision.
// A more final state wins in any order.
func TestLaterWinsWithoutRevisions(t *testing.T) {
	t.Parallel()
	row := func(p record.Plan) *field.Row {
		p.RootPlanID, p.CurrentPlanID = "p", "p"
		return newRow(t, &p)
	}

	got := fold(row(record.Plan{Title: new("z"), Summary: new("kept"), State: new(record.Failed)}),
		row(record.Plan{Title: new("a"), State: new(record.Running)}),
		row(record.Plan{State: new(record.Completed)}), row(record.Plan{State: new(record.Interrupted)}))
	want := row(record.Plan{Title: new("a"), Summary: new("kept"), State: new(record.Completed)})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
