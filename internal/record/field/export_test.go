package field_test

import (
	stdcmp "cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/record"
)

// newRows makes a row of each change.
func newRows(t testing.TB, changes []record.Change) []*field.Row {
	t.Helper()
	rows := make([]*field.Row, len(changes))
	for i, c := range changes {
		rows[i] = newRow(t, c)
	}
	return rows
}

func mustJSON(t testing.TB, s string) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestChangesRestoreRow checks that the changes of a row make the same row in any order, that
// they alter nothing if the row is on record, and that a later change has the same effect on
// both.
func TestChangesRestoreRow(t *testing.T) {
	t.Parallel()
	for _, kind := range record.Kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				drawSome := func(label string) *field.Row {
					r := drawRow(rt, kind)
					if rapid.Bool().Draw(rt, label) {
						r.Revs = nil
					}
					return r
				}

				rows := []*field.Row{}
				for range rapid.IntRange(1, 4).Draw(rt, "rows") {
					rows = append(rows, drawSome("without revision"))
				}
				row, later := fold(rows...), drawSome("later without revision")
				exported := newRows(t, row.Changes())
				exported = rapid.Permutation(exported).Draw(rt, "order")

				check := func(how string, want, got *field.Row) {
					want, got = normalized(want), normalized(got)
					for _, r := range []*field.Row{want, got} {
						r.Cut = field.StillCut(r.Change, r.Cut)
						if len(r.Revs) > 0 && slices.Max(r.Revs) == field.NoRevision {
							r.Revs = nil
						}
					}
					if diff := cmp.Diff(want, got); diff != "" {
						rt.Fatalf("%s (-row +its changes):\n%s", how, diff)
					}
				}

				check("nothing on record", row, fold(exported...))
				check("the row on record", row, fold(slices.Insert(slices.Clone(exported), 0, row)...))
				check("a later change", fold(row, later), fold(append(slices.Clone(exported), later)...))
			})
		})
	}
}

// TestLongStringIsNotCut checks that a long string does not count as cut JSON only because it
// begins like a list.
func TestLongStringIsNotCut(t *testing.T) {
	t.Parallel()
	for _, n := range []int{record.MaxTextBytes / 6, record.MaxTextBytes/2 - 7, record.MaxTextBytes/2 + 1} {
		value := mustJSON(t, "["+strings.Repeat("x", n-1))
		row := newRow(t, &record.Artifact{RootPlanID: "p", PlanID: "p", Name: "a", Value: value})
		if len(row.Cut) > 0 {
			t.Errorf("a string of %d bytes: cut %q", n, row.Cut)
		}
	}
}

// TestCutValuesAreCutAgain checks that the changes of a row with cut values are cut at the same
// place.
func TestCutValuesAreCutAgain(t *testing.T) {
	t.Parallel()
	long := func(shift int, s string) *string {
		return new(strings.Repeat("-", shift) + strings.Repeat(s, record.MaxTextBytes/len(s)+1))
	}
	plan := record.Plan{RootPlanID: "p", CurrentPlanID: "p"}
	cycle := record.ThinkAct{RootPlanID: "p", StepID: "s"}
	artifact := record.Artifact{RootPlanID: "p", PlanID: "p", Name: "a"}
	changes := map[string]record.Change{}

	for shift := range 4 {
		for _, char := range []string{"x", "é", "日", "🔑"} {
			c := cycle
			c.ThinkInput, c.ThinkOutput = long(shift, char), long(shift, char)
			c.OutputCharCount = new(int64(7))
			changes["cycle of "+char+strings.Repeat("-", shift)] = &c

			p := plan
			p.Name = new(strings.Repeat("-", shift) + strings.Repeat(char, 300))
			p.Tags = []string{"short", *p.Name}
			changes["plan of "+char+strings.Repeat("-", shift)] = &p
		}
	}

	tags, metadata := plan, plan
	tags.Tags = slices.Repeat([]string{"t"}, record.MaxListItems+1)
	changes["many tags"] = &tags
	metadata.Metadata = json.RawMessage(`{"a":` + string(mustJSON(t, *long(0, "x"))) + `}`)
	changes["metadata"] = &metadata
	for name, value := range map[string]json.RawMessage{
		"a list": json.RawMessage(`[` + strings.Repeat(`"<&>",`, record.MaxTextBytes/6+1) + `1]`),
		"a text": mustJSON(t, *long(0, "\"\n")), "escaped characters": mustJSON(t, *long(0, "<")),
	} {
		a := artifact
		a.Value = value
		changes[name] = &a
	}

	for name, c := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row := newRow(t, c)
			if len(row.Cut) == 0 {
				t.Fatal("nothing was cut")
			}

			restored := fold(newRows(t, row.Changes())...)
			if diff := cmp.Diff(row.Cut, restored.Cut); diff != "" {
				t.Errorf("names of cut fields (-row +its changes):\n%s", diff)
			}

			for _, r := range []*field.Row{row, restored} {
				if c, ok := r.Change.(*record.ThinkAct); ok { // a count that was sent wins
					c.ThinkInputChars, c.InputCharCount = nil, stdcmp.Or(c.InputCharCount, c.ThinkInputChars)
					c.ThinkOutputChars = nil
				}
			}
			if !cmp.Equal(row.Change, restored.Change) { // a diff would be long
				t.Error("its changes make another row")
			}
		})
	}
}

// TestWholeStringIsNotTakenForCut checks that a text that was never cut does not count as cut
// JSON, and that a field for objects refuses a string that is not cut JSON.
func TestWholeStringIsNotTakenForCut(t *testing.T) {
	t.Parallel()
	for _, text := range []string{strings.Repeat("x", 1<<20), `{"a":"` + strings.Repeat("x", 1<<20) + `"}`, `{"a":`} {
		value := mustJSON(t, text)
		if _, cut, err := field.Clean(&record.Artifact{RootPlanID: "p", PlanID: "p", Name: "a", Value: value}); err != nil ||
			len(cut) > 0 {
			t.Errorf("%.10s: cut %q, %v", text, cut, err)
		}
	}

	if _, _, err := field.Clean(&record.Plan{
		RootPlanID: "p", CurrentPlanID: "p", Metadata: json.RawMessage(`"{\"a\":"`),
	}); err == nil {
		t.Error("a short string was accepted in place of an object")
	}
}

// TestLargeTextsAreSplit checks that large texts are exported in several changes, so that each
// change fits a request even if every character is escaped.
func TestLargeTextsAreSplit(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("\x01", record.MaxTextBytes)
	row := newRow(t, &record.ThinkAct{
		RootPlanID: "p", StepID: "s", Rev: new(int64(3)), State: new(record.Completed), ThinkInput: &text,
		ThinkOutput: &text, ActionDescription: &text, ActionResult: &text, ErrorMessage: &text,
	})

	changes := row.Changes()
	if len(changes) != 3 {
		t.Errorf("%d changes", len(changes))
	}
	if diff := cmp.Diff(normalized(row), normalized(fold(newRows(t, changes)...))); diff != "" {
		t.Errorf("(-row +its changes):\n%.1000s", diff)
	}
}

// TestStepWithoutPlanIsNotExported checks that a step whose plan is unknown has no change, and
// that a plan of which only the id is known has one.
func TestStepWithoutPlanIsNotExported(t *testing.T) {
	t.Parallel()
	if c := (&field.Row{Change: &record.AgentExecution{RootPlanID: "p", StepID: "s"}}).Changes(); len(c) != 0 {
		t.Errorf("changes of the step: %v", c)
	}
	if c := (&field.Row{Change: &record.Plan{RootPlanID: "p", CurrentPlanID: "q"}}).Changes(); len(c) != 1 {
		t.Errorf("the plan has %d changes", len(c))
	}
}
