package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestEarlierCycles: the cycles before one come whole and in order, with what was asked and answered alone, and take
// room once.
func TestEarlierCycles(t *testing.T) {
	t.Parallel()
	for name, sizes := range map[string]func(*store.Config){
		"small": func(*store.Config) {}, "default": defaultSizes, "uncut": uncut,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := storetest.Open(t, sizes)
			all := turns("r", "s", 12, 7_000)
			storetest.Write(t, s, all...)
			storetest.Write(t, s, &record.ThinkAct{RootPlanID: "r", StepID: "other", Seq: 3, ThinkInput: new("of another step")})

			size := int64(0)
			read := func(before int64) (got []record.Change) {
				size = 0
				err := s.Within(func(n int64) error {
					size += n
					return nil
				}).EarlierCycles(t.Context(), "r", "s", before, func(c *record.ThinkAct) error {
					if c.InputCharCount == nil {
						t.Errorf("cycle %d has no count of its input", c.Seq)
					}

					c.InputCharCount = nil // is counted by the store
					got = append(got, c)
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				return got
			}

			for _, before := range []int64{0, 1, 11} {
				if got := read(before); !cmp.Equal(all[:before], append([]record.Change{}, got...)) {
					t.Errorf("before %d: %d cycles", before, len(got))
				}
			}
			if whole := int64(11 * 12 / 2 * 7_000); name == "uncut" && size < whole || name == "default" && size > whole/2 {
				t.Errorf("it takes %d bytes of %d", size, whole)
			}

			refused := errors.New("refused")
			if err := s.EarlierCycles(t.Context(), "r", "s", 5, func(*record.ThinkAct) error {
				return refused
			}); !errors.Is(err, refused) {
				t.Error(err)
			}
			if err := s.Within(func(int64) error {
				return refused
			}).EarlierCycles(t.Context(), "r", "s", 11, func(*record.ThinkAct) error { return nil }); !errors.Is(err, refused) {
				t.Error(err)
			}
		})
	}
}

// TestDetail: a cycle is read with its calls and with what was asked in the one before it, other rows alone. Rows take
// room.
func TestDetail(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	cycle := func(step string, seq int64, input string) *record.ThinkAct {
		return &record.ThinkAct{
			RootPlanID: "p", StepID: step, Seq: seq, ThinkInput: &input, ThinkOutput: new("out " + input), ModelName: new("m"),
			Message: []byte(`{"a":1}`),
		}
	}
	call := func(step string, seq int64, id string) *record.ActTool {
		return &record.ActTool{RootPlanID: "p", StepID: step, Seq: seq, ToolCallID: id, Parameters: new("in " + id)}
	}

	storetest.Write(t, s,
		&record.Plan{RootPlanID: "p", CurrentPlanID: "p"}, &record.AgentExecution{
			RootPlanID: "p", PlanID: "p", StepID: "s", AgentRequest: new("go"),
		},
		cycle("s", 0, "zero"), cycle("s", 1, "one"), cycle("s", 4, "four"), cycle("other", 3, "three"),
		call("s", 1, "a"), call("s", 4, "b"), call("s", 4, "c"), call("other", 4, "d"),
		&record.ActTool{
			RootPlanID: "p", StepID: "s", Seq: 4, ToolCallID: "long", Parameters: new(strings.Repeat("ä", 3_000)),
			Metadata: []byte(`{"a":1}`),
		},
		&record.Wait{RootPlanID: "p", PlanID: "p", WaitID: "w", Title: new("Really?")})

	key := func(kind record.Kind, parent string, seq int64, id string) record.Key {
		return record.Key{Kind: kind, Root: "p", Parent: parent, Seq: seq, ID: id}
	}
	d, err := s.Within(nil).Detail(t.Context(), key(record.KindThinkAct, "s", 4, ""))
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Record.(*record.ThinkAct); got.Seq != 4 || *got.ThinkInput != "four" || *got.ModelName != "m" {
		t.Errorf("%+v", got)
	}

	want := &record.ThinkAct{
		RootPlanID: "p", StepID: "s", Seq: 1, ThinkInput: new("one"), ThinkOutput: new("out one"), Message: []byte(`{"a":1}`),
	}
	if diff := cmp.Diff(want, d.Before); diff != "" {
		t.Errorf("d.Before (-want +got):\n%s", diff)
	}

	var calls []string
	for _, c := range d.Calls {
		call := c.Record.(*record.ActTool)
		if call.ToolCallID == "long" {
			*call.Parameters = fmt.Sprint(utf8.RuneCountInString(*call.Parameters), call.Metadata == nil)
		}
		calls = append(calls, call.ToolCallID+" "+*call.Parameters)
	}
	if slices.Sort(calls); !slices.Equal(calls, []string{"b in b", "c in c", "long 2001 true"}) {
		t.Errorf("calls = %q", calls)
	}

	if d, err := s.Within(nil).Detail(t.Context(), key(record.KindThinkAct, "s", 0, "")); err != nil || d.Before != nil ||
		d.Calls != nil {
		t.Errorf("Detail = %+v, %v", d, err)
	}
	for _, k := range []record.Key{
		key(record.KindPlan, "", 0, "p"), key(record.KindAgentExecution, "", 0, "s"), key(record.KindActTool, "s", 4, "b"),
		key(record.KindWait, "p", 0, "w"),
	} {
		if d, err := s.Within(nil).Detail(t.Context(), k); err != nil || d.Record.Key() != k || d.Calls != nil || d.ID == 0 {
			t.Errorf("%+v: %+v, %v", k, d, err)
		}
		k.Parent, k.ID = "none", "none"
		if _, err := s.Within(nil).Detail(t.Context(), k); !errors.Is(err, record.ErrNotFound) {
			t.Errorf("%+v: %v", k, err)
		}
	}

	full := errors.New("full")
	storetest.Write(t, s, &record.ThinkAct{
		RootPlanID: "p", StepID: "s", Seq: 0, ThinkInput: new(string(make([]byte, 100_000))),
	})
	if _, err := s.Within(func(int64) error {
		return full
	}).Detail(t.Context(), key(record.KindThinkAct, "s", 1, "")); !errors.Is(err, full) {
		t.Errorf("without room: %v", err)
	}
}
