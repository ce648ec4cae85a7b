package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// joiner returns what puts texts together as a reader does, and fails if a content is missing.
func joiner(t testing.TB, texts content.Texts) func(*field.Field, []content.Hash) (string, error) {
	t.Helper()
	return func(_ *field.Field, parts []content.Hash) (string, error) {
		for _, hash := range parts {
			c, ok := texts[hash]
			for _, piece := range c.Pieces {
				_, has := texts[piece]
				ok = ok && has
			}
			if !ok {
				t.Errorf("content %s is missing", hash)
			}
		}
		return texts.Text(parts), nil
	}
}

// exportedOnce is exported with contents once, whose texts are put together.
func exportedOnce(t *testing.T, s *store.Store, planID string) (changes []record.Change) {
	t.Helper()
	texts := content.Texts{}
	var root string

	err := s.ExportOnce(t.Context(), "", planID, func(of string, c content.Content) error {
		if _, again := texts[c.Hash]; again {
			t.Errorf("content %s comes again", c.Hash)
		}
		for _, piece := range c.Pieces {
			if has, ok := texts[piece]; !ok || has.Pieces != nil {
				t.Errorf("page %s comes before its piece %s", c.Hash, piece)
			}
		}

		texts.Add(c)
		root = of
		return nil
	}, func(c record.Change) error {
		if len(texts) > 0 && root != c.Key().Root {
			t.Errorf("contents are of %q", root)
		}
		changes = append(changes, c)
		return field.JoinTexts(c, joiner(t, texts))
	})
	if err != nil {
		t.Fatal(err)
	}
	return changes
}

// takenOnce takes a step with contents once.
type takenOnce struct {
	contents []content.Content
	step     *tree.Step
	cycles   []*tree.Cycle
}

func (o *takenOnce) TakeContent(c content.Content) error {
	if o.step != nil {
		return errors.New("a content comes behind the step")
	}
	o.contents = append(o.contents, c)
	return nil
}

func (o *takenOnce) TakeStep(st *tree.Step) error { o.step = st; return nil }

func (o *takenOnce) TakeCycle(c *tree.Cycle) error { o.cycles = append(o.cycles, c); return nil }

func (o *takenOnce) TakeToolCall(call *tree.ToolCall) error {
	last := o.cycles[len(o.cycles)-1]
	last.ToolCalls = append(last.ToolCalls, call)
	return nil
}

// TestContentsOnce: whatever a text is cut into, a reader who puts it together has the same as one who reads it whole.
func TestContentsOnce(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what the schema and rows of before become")
	t.Parallel()
	for name, sizes := range map[string]func(*store.Config){
		"small": func(*store.Config) {}, "default": defaultSizes, "uncut": uncut,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := storetest.Open(t, sizes)
			storetest.Write(t, s, turns("r", "s", 12, 7_000)...) // of more than 16 pieces
			long := strings.Repeat("é", record.MaxTextBytes/2)

			storetest.Write(t, s,
				&record.ThinkAct{RootPlanID: "r", StepID: "s", Seq: 12, ThinkOutput: new("without a prompt")},
				&record.ThinkAct{RootPlanID: "r", StepID: "s", Seq: 13, ThinkInput: new("")},
				&record.ThinkAct{RootPlanID: "r", StepID: "s", Seq: 14, ThinkInput: new("short")},
				&record.ActTool{RootPlanID: "r", StepID: "s", Seq: 14, ToolCallID: "t"},
				&record.ThinkAct{RootPlanID: "r", StepID: "s", Seq: 15, ThinkInput: new(long + "é")},
				&record.ThinkAct{RootPlanID: "r", StepID: "s", Seq: 16, ThinkInput: new(long + "é")},
				&record.ThinkAct{RootPlanID: "r", StepID: "cut", Seq: 0, ThinkInput: new(long + "é"), Rev: new(int64(1))})

			storetest.Write(t, s, // it is not cut any more
				&record.ThinkAct{
					RootPlanID: "r", StepID: "s", Seq: 16, ThinkInput: new(strings.Repeat("shorter ", 2_000)), Rev: new(int64(1)),
				},
				&record.ThinkAct{RootPlanID: "r", StepID: "cut", Seq: 0, ThinkInput: &long, Rev: new(int64(2))})

			for _, id := range []string{"s", "cut"} {
				want := storetest.StepDetail(t, s, id)
				whole, contents, err := s.StepDetailOnce(t.Context(), "", id)
				if err != nil {
					t.Fatal(err)
				}

				var rows takenOnce
				if err := s.StepRowsOnce(t.Context(), "", id, &rows); err != nil {
					t.Fatal(err)
				}
				rows.step.Cycles = rows.cycles
				if !cmp.Equal(contents, rows.contents) {
					t.Errorf("%s: %d contents, %d row by row", id, len(contents), len(rows.contents))
				}

				texts := content.Texts{}
				for i, c := range contents {
					if i > 0 && bytes.Compare(contents[i-1].Hash[:], c.Hash[:]) >= 0 {
						t.Errorf("content %s is not in order", c.Hash)
					}
					texts.Add(c)
				}
				if (len(contents) == 0) != (name == "uncut") {
					t.Errorf("%d contents", len(contents))
				}

				for _, got := range []*tree.Step{whole, rows.step} {
					for _, c := range got.Cycles {
						if c.Record.ThinkInput != nil && c.Record.ThinkInputParts != nil {
							t.Errorf("cycle %d has text and parts", c.Record.Seq)
						}
						if err := field.JoinTexts(&c.Record, joiner(t, texts)); err != nil {
							t.Fatal(err)
						}
					}
					if !cmp.Equal(want, got) {
						t.Errorf("%s: put together, it is another step: %s", id, firstDifference(want, got))
					}
				}
			}

			if !cmp.Equal(exported(t, s, "r"), exportedOnce(t, s, "r")) {
				t.Error("put together, it is another export")
			}
		})
	}
}

// firstDifference says in which cycle two steps differ, without their texts.
func firstDifference(a, b *tree.Step) string {
	if len(a.Cycles) != len(b.Cycles) {
		return fmt.Sprintf("%d cycles, %d", len(a.Cycles), len(b.Cycles))
	}

	for i := range a.Cycles {
		if !cmp.Equal(a.Cycles[i], b.Cycles[i]) {
			return fmt.Sprintf("cycle %d, cut %v, %v", i, a.Cycles[i].Truncated, b.Cycles[i].Truncated)
		}
	}
	return "the step itself"
}

// TestContentsOnceRefused: an error of the reader ends the reading, and is its error.
func TestContentsOnceRefused(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	storetest.Write(t, s, turns("r", "s", 3, 2_000)...)
	refused := errors.New("refused")
	if err := s.StepRowsOnce(t.Context(), "", "s", refusing{new(takenOnce), refused}); !errors.Is(err, refused) {
		t.Errorf("of a step: %v", err)
	}

	err := s.ExportOnce(t.Context(), "", "r", func(string, content.Content) error {
		return refused
	}, func(record.Change) error { return nil })
	if !errors.Is(err, refused) {
		t.Errorf("of an export: %v", err)
	}
	if err := s.StepRowsOnce(t.Context(), "", "nothing", new(takenOnce)); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("of nothing: %v", err)
	}
}

type refusing struct {
	*takenOnce
	err error
}

func (r refusing) TakeContent(content.Content) error { return r.err }
