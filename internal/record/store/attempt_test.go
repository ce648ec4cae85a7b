package store_test

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
	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// attempted is what a row of any kind shows of its attempts.
type attempted struct {
	Past       []record.Attempt
	State      record.State
	Start, End *time.Time
	Error      *string
}

// attemptedKind makes changes to one row of a kind, and reads the row.
type attemptedKind struct {
	change func(root string, number int64, state record.State, start, end *time.Time, message, kind *string) record.Change
	read   func(t testing.TB, s *store.Store, root string) attempted
}

var attemptedKinds = map[record.Kind]attemptedKind{
	record.KindAgentExecution: {
		change: func(
			root string, number int64, state record.State, start, end *time.Time, message, kind *string,
		) record.Change {
			return &record.AgentExecution{
				RootPlanID: root, PlanID: root, StepID: root + "-s", Attempt: numbered(number), State: &state, StartTime: start,
				EndTime: end, ErrorMessage: message, ErrorKind: kind,
			}
		},
		read: func(t testing.TB, s *store.Store, root string) attempted {
			t.Helper()
			st := storetest.PlanTree(t, s, root).Steps[0]
			return attempted{st.PastAttempts, *st.Record.State, st.Record.StartTime, st.Record.EndTime, st.Record.ErrorMessage}
		},
	},
	record.KindThinkAct: {
		change: func(
			root string, number int64, state record.State, start, end *time.Time, message, kind *string,
		) record.Change {
			return &record.ThinkAct{
				RootPlanID: root, StepID: root + "-s", Seq: 3, Attempt: numbered(number), State: &state, ThinkStartTime: start,
				ActEndTime: end, ErrorMessage: message, ErrorKind: kind,
			}
		},
		read: func(t testing.TB, s *store.Store, root string) attempted {
			t.Helper()
			c := storetest.StepDetail(t, s, root+"-s").Cycles[0]
			return attempted{
				c.PastAttempts, *c.Record.State, c.Record.ThinkStartTime, c.Record.ActEndTime, c.Record.ErrorMessage,
			}
		},
	},
	record.KindActTool: {
		change: func(
			root string, number int64, state record.State, start, end *time.Time, message, kind *string,
		) record.Change {
			return &record.ActTool{
				RootPlanID: root, StepID: root + "-s", Seq: 3, ToolCallID: root + "-t", Attempt: numbered(number), State: &state,
				StartTime: start, EndTime: end, ErrorMessage: message, ErrorKind: kind,
			}
		},
		read: func(t testing.TB, s *store.Store, root string) attempted {
			t.Helper()
			c := storetest.StepDetail(t, s, root+"-s").Cycles[0].ToolCalls[0]
			return attempted{c.PastAttempts, *c.Record.State, c.Record.StartTime, c.Record.EndTime, c.Record.ErrorMessage}
		},
	},
}

// numbered leaves out the number of the first attempt, as clients do that know of no other.
func numbered(n int64) *int64 {
	if n == 1 {
		return nil
	}
	return &n
}

// N1: TestEveryAttemptStays checks that a retry erases nothing: whatever the order in which the
// changes of three attempts come, alone or together, the row shows the last attempt with its own
// times, and the others stay beside it.
func TestEveryAttemptStays(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what the schema and rows of before become")
	t.Parallel()
	url := pgtest.New(t).URL
	s, copying := store.AllShapes(storetest.OpenURL(t, url)), store.CopyNew(storetest.OpenURL(t, url))

	for kind, k := range attemptedKinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			failed := func(n int64, start, end int, message, kind string) record.Attempt {
				return record.Attempt{
					Number: n, State: record.Failed, StartTime: at(start), EndTime: at(end), ErrorMessage: &message, ErrorKind: &kind,
					Truncated: []string{},
				}
			}

			want := attempted{
				Past:  []record.Attempt{failed(1, 10, 20, "disk full", "io"), failed(2, 30, 35, "timed out", "timeout")},
				State: record.Completed, Start: at(40), End: at(44),
			}
			changes := func(root string) []record.Change {
				return []record.Change{
					k.change(root, 1, record.Running, at(10), nil, nil, nil),
					k.change(root, 1, record.Failed, nil, at(20), new("disk full"), new("io")),
					k.change(root, 2, record.Failed, at(30), at(35), new("timed out"), new("timeout")),
					k.change(root, 3, record.Running, at(40), nil, nil, nil),
					k.change(root, 3, record.Completed, nil, at(44), nil, nil),
				}
			}

			for i, order := range permutations(5) {
				for name, write := range map[string]func(...record.Change){
					"one by one": func(all ...record.Change) {
						for _, c := range all {
							storetest.Write(t, s, c)
						}
					},
					"together": func(all ...record.Change) { storetest.Write(t, copying, all...) },
					"in two halves": func(all ...record.Change) {
						storetest.Write(t, s, all[:2]...)
						storetest.Write(t, s, all[2:]...)
					},
				} {
					root := fmt.Sprintf("%s-%d-%s", kind, i, strings.ReplaceAll(name, " ", ""))
					all, shuffled := changes(root), []record.Change(nil)
					for _, j := range order {
						shuffled = append(shuffled, all[j])
					}

					write(shuffled...)
					if diff := cmp.Diff(want, k.read(t, s, root)); diff != "" {
						t.Fatalf("order = %v %s (-want +got):\n%s", order, name, diff)
					}
				}
			}
		})
	}
}

func permutations(n int) (all [][]int) {
	if n == 0 {
		return [][]int{nil}
	}

	for _, p := range permutations(n - 1) {
		for i := range n {
			all = append(all, slices.Insert(slices.Clone(p), i, n-1))
		}
	}
	return all
}

// N1: TestAttemptsInAnyOrder checks with contradicting changes to one row that the attempts, with their
// revisions, do not depend on order, split and repetition, and that merging in memory, merging in
// the database and copying make the same list.
func TestAttemptsInAnyOrder(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what is written in many orders")
	t.Parallel()
	url := pgtest.New(t).URL
	s, whole := store.AllShapes(storetest.OpenURL(t, url)), storetest.OpenURL(t, url)
	copying := store.CopyNew(storetest.OpenURL(t, url))
	store.WriteWhole(whole)

	for kind := range attemptedKinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				u, other := testTree{record.NewPlanID()}, testTree{record.NewPlanID()}
				var changes, moved []record.Change
				for range rapid.IntRange(2, 8).Draw(rt, "changes") {
					c := u.attempt(rt, kind)
					changes, moved = append(changes, c), append(moved, replaceRoot(c, u.root, other.root))
				}

				storetest.Write(t, rapid.SampledFrom([]*store.Store{whole, copying}).Draw(rt, "first by"), changes...)
				want := storetest.Dump(t, s, u.root) + keptAttempts(t, s, u.root)
				shuffled := rapid.Permutation(slices.Concat(moved, moved)).Draw(rt, "order")
				for len(shuffled) > 0 {
					n := min(rapid.IntRange(1, 3).Draw(rt, "cut"), len(shuffled))
					storetest.Write(t, rapid.SampledFrom([]*store.Store{s, s, whole, copying}).Draw(rt, "by"), shuffled[:n]...)
					shuffled = shuffled[n:]
				}

				if diff := cmp.Diff(want, storetest.Dump(t, s, other.root)+keptAttempts(t, s, other.root)); diff != "" {
					rt.Fatalf("the reads differ (-one write +shuffled):\n%s", diff)
				}
			})
		})
	}
	t.Cleanup(func() { storetest.CheckKept(t, s) })
}

// attempt draws a change of the one row of a kind: some of what belongs to an attempt, in one of
// several versions, and a revision.
func (u testTree) attempt(t *rapid.T, kind record.Kind) record.Change {
	c := attemptedKinds[kind].change(u.root, int64(rapid.IntRange(1, 3).Draw(t, "attempt")), "", nil, nil, nil, nil)
	version := rapid.IntRange(0, 4).Draw(t, "version")

	for _, f := range field.Fields(kind) {
		switch {
		case f.Role == field.Revision:
			f.In(c).Set(reflect.ValueOf(new(int64(rapid.IntRange(1, 3).Draw(t, "rev")))))
		case !f.Scoped:
		case rapid.Bool().Draw(t, f.Name):
			setField(f, c, version)
		default:
			f.In(c).SetZero()
		}
	}
	return c
}

// N1: TestDurationOfLastAttempt checks that a duration counts from the start of the last attempt,
// and is unknown if that attempt reported none. Another attempt does not move the step, or the
// start of its plan.
func TestDurationOfLastAttempt(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	step := func(id string, attempt int64, start, end *time.Time) *record.AgentExecution {
		return &record.AgentExecution{
			RootPlanID: "p", PlanID: "p", StepID: id, Attempt: numbered(attempt), StartTime: start, EndTime: end,
		}
	}

	storetest.Write(t, s,
		&record.Plan{RootPlanID: "p", CurrentPlanID: "p", StartTime: at(1), State: new(record.Completed)},
		step("a", 1, at(2), at(3)), step("b", 1, at(4), at(5)), step("c", 1, at(6), at(7)),
		step("a", 2, at(20), at(24)), step("b", 2, nil, at(30)),
		&record.ThinkAct{RootPlanID: "p", StepID: "c", Seq: 0, ThinkStartTime: at(6), ThinkEndTime: at(16)},
		&record.ThinkAct{
			RootPlanID: "p", StepID: "c", Seq: 0, Attempt: new(int64(2)), ThinkStartTime: at(20), ThinkEndTime: at(21),
		},
		&record.ActTool{
			RootPlanID: "p", StepID: "c", Seq: 0, ToolCallID: "t1", Name: new("first"), Result: new("1"), StartTime: at(6),
			EndTime: at(16),
		},
		&record.ActTool{
			RootPlanID: "p", StepID: "c", Seq: 0, ToolCallID: "t2", Name: new("second"), Result: new("2"), StartTime: at(7),
			EndTime: at(8),
		},
		&record.ActTool{
			RootPlanID: "p", StepID: "c", Seq: 0, ToolCallID: "t1", Attempt: new(int64(2)), StartTime: at(20), EndTime: at(22),
		},
	)

	p := storetest.PlanTree(t, s, "p")
	var ids []string
	var took []int64
	for _, st := range p.Steps {
		ids = append(ids, st.Record.StepID)
		ms := int64(-1)
		if st.Figures.DurationMs != nil {
			ms = *st.Figures.DurationMs
		}
		took = append(took, ms)
	}

	if !slices.Equal(ids, []string{"a", "b", "c"}) || !slices.Equal(took, []int64{4000, -1, 1000}) {
		t.Errorf("steps %q took %v ms", ids, took)
	}
	if !p.Record.StartTime.Equal(*at(1)) {
		t.Errorf("the plan began at %v", p.Record.StartTime)
	}

	st := storetest.StepDetail(t, s, "c")
	if f := st.Figures; f.ThinkMs != 1000 || f.ToolMs != 3000 || *st.LatestToolName != "second" ||
		*p.StructureResult != "2" {
		t.Errorf("think %d ms, tools %d ms, latest %s, result %s", f.ThinkMs, f.ToolMs, *st.LatestToolName,
			*p.StructureResult)
	}

	var calls []string
	for _, call := range st.Cycles[0].ToolCalls {
		calls = append(calls, call.Record.ToolCallID)
	}
	if !slices.Equal(calls, []string{"t1", "t2"}) {
		t.Errorf("calls %q", calls)
	}
}

// N1: TestLateChangeOfEarlierAttempt checks that a late change of an earlier attempt is written
// and appears in the feed, that its repetition writes nothing, and that what was never attempted
// again keeps no list.
func TestLateChangeOfEarlierAttempt(t *testing.T) {
	t.Parallel()
	for kind, k := range attemptedKinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := storetest.Open(t)
			table := fieldsql.TableOf(kind).Name
			version := func() string { return storetest.Query[string](t, s, "SELECT xmin::text FROM actlog."+table) }
			list := func() *string { return storetest.Query[*string](t, s, "SELECT attempts::text FROM actlog."+table) }

			storetest.Write(t, s, k.change("p", 1, record.Running, at(1), nil, nil, nil))
			storetest.Write(t, s, k.change("p", 1, record.Failed, nil, at(2), nil, nil))
			if got := list(); got != nil {
				t.Errorf("attempts before a retry: %s", *got)
			}

			storetest.Write(t, s, k.change("p", 3, record.Completed, at(5), at(6), nil, nil))
			for _, late := range []record.Change{
				k.change("p", 1, record.Failed, nil, at(3), new("late"), nil), // alone, it names no attempt
				k.change("p", 2, record.Cancelled, at(4), nil, nil, nil),
			} {
				before := version()
				storetest.Write(t, s, late)
				after := version()
				if after == before {
					t.Errorf("a late change was not written")
				}
				if storetest.Query[int](t, s, "SELECT count(*) FROM actlog.change WHERE xmin::text = $1", after) != 1 {
					t.Errorf("the feed does not have the late change")
				}

				storetest.Write(t, s, late)
				if version() != after {
					t.Errorf("a repetition was written")
				}
			}

			got := k.read(t, s, "p")
			want := []record.Attempt{
				{
					Number: 1, State: record.Failed, StartTime: at(1), EndTime: at(3), ErrorMessage: new("late"),
					Truncated: []string{},
				},
				{Number: 2, State: record.Cancelled, StartTime: at(4), Truncated: []string{}},
			}
			if diff := cmp.Diff(want, got.Past); diff != "" || got.State != record.Completed || got.Error != nil {
				t.Errorf("row %+v, attempts (-want +got):\n%s", got, diff)
			}
		})
	}
}

// N1: TestAttemptsAreBounded checks that the attempts with the highest numbers are kept, and that
// errors are cut at a character boundary, in memory as in the database.
func TestAttemptsAreBounded(t *testing.T) {
	t.Parallel()
	s := store.AllShapes(storetest.Open(t))
	k := attemptedKinds[record.KindAgentExecution]
	attempts := func(root string, order ...int64) (all []record.Change) {
		for _, n := range order {
			all = append(all, k.change(root, n, record.Failed, nil, nil, new(fmt.Sprint("error ", n)), nil))
		}
		return all
	}

	var up []int64
	for n := range int64(record.MaxPastAttempts + 20) {
		up = append(up, n+1)
	}
	down := slices.Clone(up)
	slices.Reverse(down)

	storetest.Write(t, s, attempts("up", up...)...)
	storetest.Write(t, s, attempts("down", down...)...)
	storetest.Write(t, s, attempts("halves", up[500:]...)...)
	storetest.Write(t, s, attempts("halves", up[:600]...)...)
	for _, n := range []int64{1020, 3, 1021, 1, 20} {
		storetest.Write(t, s, attempts("up", n)...)
		storetest.Write(t, s, attempts("down", n)...)
		storetest.Write(t, s, attempts("halves", n)...)
	}

	want := k.read(t, s, "up").Past
	if len(want) != record.MaxPastAttempts || want[0].Number != 21 || *want[999].ErrorMessage != "error 1020" {
		t.Errorf("%d attempts from %d on", len(want), want[0].Number)
	}
	for _, root := range []string{"down", "halves"} {
		if diff := cmp.Diff(want, k.read(t, s, root).Past); diff != "" {
			t.Errorf("%s (-up +%[1]s):\n%s", root, diff)
		}
	}

	for i, char := range []string{"x", "é", "日", "🔑"} {
		message := strings.Repeat("-", 3) + strings.Repeat(char, record.MaxAttemptTextBytes)
		first := k.change("", 1, record.Failed, nil, nil, &message, nil)
		again := k.change("", 2, record.Completed, nil, nil, nil, nil)
		var got []record.Attempt
		for j, order := range [][]record.Change{{first, again}, {again, first}} {
			for _, folded := range []bool{true, false} {
				root := fmt.Sprint("cut", i, j, folded)
				for _, c := range order {
					c := c.(*record.AgentExecution)
					c.RootPlanID, c.PlanID = root, root
					c.StepID = root + "-s"
				}

				if folded {
					storetest.Write(t, s, order...)
				} else {
					storetest.Write(t, s, order[0])
					storetest.Write(t, s, order[1])
					storetest.Write(t, s, first)
				}
				got = append(got, k.read(t, s, root).Past...)
			}
		}

		for _, a := range got {
			cut := *a.ErrorMessage
			if n := len(cut); n > record.MaxAttemptTextBytes || n < record.MaxAttemptTextBytes-3 ||
				!strings.HasPrefix(message, cut) || !slices.Equal(a.Truncated, []string{"errorMessage"}) {
				t.Errorf("%s: %d bytes, truncated %q", char, n, a.Truncated)
			}
		}
		if len(got) != 4 {
			t.Errorf("%s: %d attempts", char, len(got))
		}
	}
}

// TestManyAttemptsStaySmall checks how large a row becomes that each attempt writes again and each tree
// carries: 2 MiB of errors at most. The last attempt keeps its whole error, here and elsewhere.
//
// N1: every attempt stays on record.
func TestManyAttemptsStaySmall(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	const attempts = 30
	message := func(n int) string { return strings.Repeat(fmt.Sprint(n, " "), 10_000) }

	for n := 1; n <= attempts; n++ {
		storetest.Write(t, s, &record.AgentExecution{
			RootPlanID: "p", PlanID: "p", StepID: "s", Attempt: new(int64(n)), State: new(record.Failed),
			ErrorMessage: new(message(n)),
		})
	}

	if n := storetest.Query[int](t, s,
		"SELECT octet_length(attempts::text) FROM actlog.agent_execution_record"); n > attempts*(2<<10+200) {
		t.Errorf("%d attempts take %d bytes", attempts, n)
	}
	if st := storetest.StepDetail(t, s, "s"); *st.Record.ErrorMessage != message(attempts) ||
		len(st.PastAttempts) != attempts-1 {
		t.Errorf("an error of %d bytes, %d earlier attempts", len(*st.Record.ErrorMessage), len(st.PastAttempts))
	}
}
