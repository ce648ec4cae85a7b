package record_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/actlog/actlog/record"
)

// rowsOf makes rows of changes, as whoever is told them does.
func rowsOf(t testing.TB, changes []record.Change) []*record.Row {
	t.Helper()
	rows := make([]*record.Row, len(changes))
	for i, c := range changes {
		r, err := record.NewRow(c)
		if err != nil {
			t.Fatalf("%s: %v", c.Kind(), err)
		}
		rows[i] = r
	}
	return rows
}

// TestChangesMakeTheRowAgain, in any order, also for what is told later; and where
// the row is known they change nothing.
func TestChangesMakeTheRowAgain(t *testing.T) {
	t.Parallel()
	for _, kind := range record.Kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				some := func(label string) *record.Row {
					r := draw(rt, kind)
					if rapid.Bool().Draw(rt, label) {
						r.Revs = nil
					}
					return r
				}
				rows := []*record.Row{}
				for range rapid.IntRange(1, 4).Draw(rt, "rows") {
					rows = append(rows, some("without revision"))
				}
				row, later := fold(rows...), some("later without revision")
				again := rowsOf(t, row.Changes())
				again = rapid.Permutation(again).Draw(rt, "order")
				same := func(law string, want, got *record.Row) {
					want, got = said(want), said(got)
					for _, r := range []*record.Row{want, got} {
						r.Cut = record.StillCut(r.Change, r.Cut)
						if len(r.Revs) > 0 && slices.Max(r.Revs) == record.NoRevision {
							r.Revs = nil
						}
					}
					if diff := cmp.Diff(want, got); diff != "" {
						rt.Fatalf("%s (-row +its changes):\n%s", law, diff)
					}
				}
				same("told anew", row, fold(again...))
				same("told where it is known", row, fold(slices.Insert(slices.Clone(again), 0, row)...))
				same("told something later", fold(row, later), fold(append(slices.Clone(again), later)...))
			})
		})
	}
}

// TestALongStringIsNotCut: one that begins like JSON and is none, but is not what a
// cut leaves.
func TestALongStringIsNotCut(t *testing.T) {
	t.Parallel()
	for _, n := range []int{record.MaxTextBytes / 6, record.MaxTextBytes/2 - 7, record.MaxTextBytes/2 + 1} {
		value, err := json.Marshal("[" + strings.Repeat("x", n-1))
		if err != nil {
			t.Fatal(err)
		}
		row, err := record.NewRow(&record.Artifact{RootPlanID: "p", PlanID: "p", Name: "a", Value: value})
		if err != nil {
			t.Fatal(err)
		}
		if len(row.Cut) > 0 {
			t.Errorf("a string of %d bytes: %v", n, row.Cut)
		}
	}
}

// TestWhatWasCutIsCutAgain at the same place, whatever it is.
func TestWhatWasCutIsCutAgain(t *testing.T) {
	t.Parallel()
	long := func(shift int, s string) *string {
		return new(strings.Repeat("-", shift) + strings.Repeat(s, record.MaxTextBytes/len(s)+1))
	}
	quoted := func(s string) json.RawMessage {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	plan := record.Plan{RootPlanID: "p", CurrentPlanID: "p"}
	cycle := record.ThinkAct{RootPlanID: "p", StepID: "s"}
	artifact := record.Artifact{RootPlanID: "p", PlanID: "p", Name: "a"}
	told := map[string]record.Change{}
	for shift := range 4 {
		for _, char := range []string{"x", "é", "日", "🔑"} {
			c := cycle
			c.ThinkInput, c.ThinkOutput, c.OutputCharCount = long(shift, char), long(shift, char), new(int64(7))
			told["cycle of "+char+strings.Repeat("-", shift)] = &c
			p := plan
			p.Name = new(strings.Repeat("-", shift) + strings.Repeat(char, 300))
			p.Tags = []string{"short", *p.Name}
			told["plan of "+char+strings.Repeat("-", shift)] = &p
		}
	}
	tags, metadata := plan, plan
	tags.Tags = slices.Repeat([]string{"t"}, record.MaxListItems+1)
	told["many tags"] = &tags
	metadata.Metadata = json.RawMessage(`{"a":` + string(quoted(*long(0, "x"))) + `}`)
	told["metadata"] = &metadata
	for name, value := range map[string]json.RawMessage{
		"a list": json.RawMessage(`[` + strings.Repeat(`"<&>",`, record.MaxTextBytes/6+1) + `1]`), "a text": quoted(*long(0, "\"\n")), "what must be escaped": quoted(*long(0, "<")),
	} {
		a := artifact
		a.Value = value
		told[name] = &a
	}
	for name, c := range told {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row := rowsOf(t, []record.Change{c})[0]
			if len(row.Cut) == 0 {
				t.Fatal("nothing was cut")
			}
			again := fold(rowsOf(t, row.Changes())...)
			if diff := cmp.Diff(row.Cut, again.Cut); diff != "" {
				t.Errorf("what was cut (-before +again):\n%s", diff)
			}
			for _, r := range []*record.Row{row, again} {
				if c, ok := r.Change.(*record.ThinkAct); ok { // told counts beat counted ones
					c.ThinkInputChars, c.InputCharCount = nil, or(c.InputCharCount, c.ThinkInputChars)
					c.ThinkOutputChars = nil
				}
			}
			if !cmp.Equal(row.Change, again.Change) { // their difference would be long
				t.Error("something else came of it")
			}
		})
	}
}

func or[T any](p, otherwise *T) *T {
	if p == nil {
		return otherwise
	}
	return p
}

// TestAWholeStringIsNotTakenForACutOne.
func TestAWholeStringIsNotTakenForACutOne(t *testing.T) {
	t.Parallel()
	for _, text := range []string{strings.Repeat("x", 1<<20), `{"a":"` + strings.Repeat("x", 1<<20) + `"}`, `{"a":`} {
		value, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, cut, err := record.Clean(&record.Artifact{RootPlanID: "p", PlanID: "p", Name: "a", Value: value}); err != nil || len(cut) > 0 {
			t.Errorf("%.10s: cut %q, %v", text, cut, err)
		}
	}
	if _, _, err := record.Clean(&record.Plan{RootPlanID: "p", CurrentPlanID: "p", Metadata: json.RawMessage(`"{\"a\":"`)}); err == nil {
		t.Error("a short string stands for an object")
	}
}

// TestLargeTextsAreToldApart: each change fits a request, however it is escaped.
func TestLargeTextsAreToldApart(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("\x01", record.MaxTextBytes)
	row := rowsOf(t, []record.Change{&record.ThinkAct{RootPlanID: "p", StepID: "s", Rev: new(int64(3)), State: new(record.Completed), ThinkInput: &text, ThinkOutput: &text, ActionDescription: &text, ActionResult: &text, ErrorMessage: &text}})[0]
	changes := row.Changes()
	if len(changes) != 3 {
		t.Errorf("%d changes", len(changes))
	}
	if diff := cmp.Diff(said(row), said(fold(rowsOf(t, changes)...))); diff != "" {
		t.Errorf("(-row +its changes):\n%.1000s", diff)
	}
}

func TestAStepWithoutItsPlanIsNotTold(t *testing.T) {
	t.Parallel()
	if c := record.Placeholder(&record.AgentExecution{RootPlanID: "p", StepID: "s"}).Changes(); len(c) != 0 {
		t.Errorf("told %v", c)
	}
	if c := record.Placeholder(&record.Plan{RootPlanID: "p", CurrentPlanID: "q"}).Changes(); len(c) != 1 {
		t.Errorf("a plan that is known by its id only is told in %d changes", len(c))
	}
}
