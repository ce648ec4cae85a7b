package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/record"
)

func TestWriteThenRead(t *testing.T) {
	t.Parallel()
	s := open(t)
	root := record.NewPlanID()
	write(t, s,
		&record.Plan{RootPlanID: root, CurrentPlanID: root, Title: new("Quarterly report"), State: new(record.Running), StartTime: at(1), Tags: []string{`a "quoted"`, `back\slash`, ""}},
		&record.AgentExecution{RootPlanID: root, PlanID: root, StepID: root + "-s1", StepIndex: new(int64(0)), AgentName: new("collector"), State: new(record.Running), StartTime: at(2)},
		&record.ThinkAct{RootPlanID: root, StepID: root + "-s1", Seq: 0, ThinkStartTime: at(2), ThinkEndTime: at(4), ThinkInput: new("héllo"), InputTokens: new(int64(10)), CostUSD: new(0.25)},
		&record.ActTool{RootPlanID: root, StepID: root + "-s1", Seq: 0, ToolCallID: root + "-t1", Name: new("fetch"), Parameters: new(`{"q":1}`), State: new(record.Failed), StartTime: at(4), EndTime: at(7), Metadata: json.RawMessage(`{ "b":1, "a":2 }`)},
		&record.Plan{RootPlanID: root, CurrentPlanID: root + "-p2", ParentPlanID: &root, ToolCallID: new(root + "-t1"), StartTime: at(5)},
	)
	p := planTree(t, s, root)
	if got := p.Record.Tags; !slices.Equal(got, []string{`a "quoted"`, `back\slash`, ""}) {
		t.Errorf("tags = %q", got)
	}
	if len(p.Steps) != 1 || len(p.Steps[0].SubPlans) != 1 {
		t.Fatalf("tree = %+v", p)
	}
	f := p.Figures
	if f.ModelCalls != 1 || f.ToolCalls != 1 || f.Failures != 1 || f.InputTokens != 10 || *f.CostUSD != 0.25 || f.ThinkMs != 2000 || f.ToolMs != 3000 {
		t.Errorf("figures = %+v", f)
	}
	st := stepDetail(t, s, root+"-s1")
	if n := len(st.Cycles); n != 1 {
		t.Fatalf("%d cycles", n)
	}
	if c := st.Cycles[0].Record; *c.InputCharCount != 5 || c.OutputCharCount != nil {
		t.Errorf("counts of characters = %v, %v", *c.InputCharCount, c.OutputCharCount)
	}
	if m := string(st.Cycles[0].ToolCalls[0].Record.Metadata); m != `{"b":1,"a":2}` {
		t.Errorf("metadata = %s", m)
	}
	if *st.LatestToolName != "fetch" || *st.LatestToolArgs != `{"q":1}` || st.LatestRound != 1 {
		t.Errorf("latest = %v %v %d", *st.LatestToolName, *st.LatestToolArgs, st.LatestRound)
	}
}

// universe is a small tree about which random changes are told, so that they
// meet, contradict each other and come before their parents.
type universe struct{ root string }

func (u universe) id(prefix string, n int) string { return fmt.Sprintf("%s-%s%d", u.root, prefix, n) }

// change draws a change. The value of a field is a function of its key and of
// version, so that changes of one version never contradict each other.
func (u universe) change(t *rapid.T, version func() int) record.Change {
	k := rapid.SampledFrom([]record.Kind{record.KindPlan, record.KindPlan, record.KindAgentExecution, record.KindAgentExecution,
		record.KindThinkAct, record.KindThinkAct, record.KindActTool, record.KindActTool, record.KindWait}).Draw(t, "kind")
	n := rapid.IntRange(0, 2)
	c := record.New(k)
	v := version()
	for i := range record.Fields(k) {
		f := &record.Fields(k)[i]
		if f.Key || f.Name == "rev" || !f.Told() || f.Name == "planId" || !rapid.Bool().Draw(t, f.Name) {
			continue
		}
		setField(f, c, v)
	}
	switch c := c.(type) {
	case *record.Plan:
		c.RootPlanID, c.CurrentPlanID = u.root, u.root
		c.ParentPlanID, c.ToolCallID, c.Exception = nil, nil, nil
		if p := n.Draw(t, "plan"); p > 0 {
			c.CurrentPlanID = u.id("p", p)
			if rapid.Bool().Draw(t, "link") {
				c.ParentPlanID, c.ToolCallID = new(u.id("p", 3-p)), new(u.id("t", (p+v)%3))
			}
		}
	case *record.AgentExecution:
		s := n.Draw(t, "step")
		c.RootPlanID, c.StepID, c.PlanID = u.root, u.id("s", s), u.id("p", 1+(s+v)%2)
	case *record.ThinkAct:
		c.RootPlanID, c.StepID, c.Seq = u.root, u.id("s", n.Draw(t, "step")), int64(n.Draw(t, "seq"))
	case *record.ActTool:
		tool := n.Draw(t, "tool")
		c.RootPlanID, c.StepID, c.Seq, c.ToolCallID = u.root, u.id("s", tool), int64(tool%2), u.id("t", tool)
	case *record.Wait:
		c.RootPlanID, c.PlanID, c.WaitID = u.root, u.root, u.id("w", n.Draw(t, "wait"))
	}
	return c
}

// setField tells a field a value that depends on its name and the version.
func setField(f *record.Field, c record.Change, version int) {
	v := f.In(c)
	set := func(value any) {
		p := reflect.New(v.Type().Elem())
		p.Elem().Set(reflect.ValueOf(value).Convert(v.Type().Elem()))
		v.Set(p)
	}
	switch {
	case f.Rule == record.Forward:
		states := record.States(c.Kind())
		set(states[(version*5)%len(states)])
	case f.Name == "type" && c.Kind() == record.KindWait:
		set([]record.WaitType{record.WaitUserInput, record.WaitPlanValidation}[version%2])
	case f.Name == "formInputs":
		v.SetBytes([]byte(fmt.Sprintf(`[{"label":"%d"}]`, version)))
	case f.Type == record.JSON:
		v.SetBytes([]byte(fmt.Sprintf(`{"v":%d}`, version)))
	case f.Type == record.Texts:
		v.Set(reflect.ValueOf([]string{fmt.Sprint(version), "x"}))
	case f.Type == record.Time:
		set(at(len(f.Name) + version).UTC())
	case f.Type == record.Int:
		set(int64(1 + version))
	case f.Type == record.Float:
		set(float64(version) / 3) // Postgres keeps 15 digits
	default:
		set(fmt.Sprintf("%s %d", f.Name, version))
	}
}

// TestAnyOrderAnySplitAnyRepetition holds Write to its promise: whatever the
// order, the cuts between calls and the repetitions, the reads say the same; and
// whether a statement is of a few columns or of all of them, or rows are copied.
func TestAnyOrderAnySplitAnyRepetition(t *testing.T) {
	t.Parallel()
	url := newDB(t)
	s, whole, copying := store.AllShapes(openURL(t, url)), openURL(t, url), store.CopyNew(openURL(t, url))
	store.WriteWhole(whole)
	store.DoubtNothing(s)
	for name, tell := range map[string]func(*rapid.T, record.Change, universe) record.Change{
		"not contradicting": func(rt *rapid.T, _ record.Change, u universe) record.Change {
			return u.change(rt, func() int { return 1 })
		},
		"contradicting, with rev": func(rt *rapid.T, _ record.Change, u universe) record.Change {
			c := u.change(rt, func() int { return rapid.IntRange(0, 3).Draw(rt, "version") })
			reflect.ValueOf(c).Elem().FieldByName("Rev").Set(reflect.ValueOf(new(int64(rapid.IntRange(1, 4).Draw(rt, "rev")))))
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				u := universe{record.NewPlanID()}
				var changes []record.Change
				for range rapid.IntRange(1, 12).Draw(rt, "changes") {
					changes = append(changes, tell(rt, nil, u))
				}
				write(t, rapid.SampledFrom([]*store.Store{whole, copying}).Draw(rt, "first by"), changes...)
				want := dump(t, s, u.root)

				other := universe{record.NewPlanID()}
				moved := make([]record.Change, len(changes))
				for i, c := range changes {
					moved[i] = replaceRoot(c, u.root, other.root)
				}
				shuffled := rapid.Permutation(slices.Concat(moved, moved)).Draw(rt, "order")
				for len(shuffled) > 0 {
					n := rapid.IntRange(1, len(shuffled)).Draw(rt, "cut")
					write(t, rapid.SampledFrom([]*store.Store{s, s, whole, copying}).Draw(rt, "by"), shuffled[:n]...)
					shuffled = shuffled[n:]
				}
				if diff := cmp.Diff(want, dump(t, s, other.root)); diff != "" {
					rt.Fatalf("another order says something else (-one write +shuffled):\n%s", diff)
				}
			})
		})
	}
}

// replaceRoot tells the same about another tree.
func replaceRoot(c record.Change, from, to string) record.Change {
	out := record.New(c.Kind())
	reflect.ValueOf(out).Elem().Set(reflect.ValueOf(c).Elem())
	for i := range record.Fields(c.Kind()) {
		f := &record.Fields(c.Kind())[i]
		text, ok := f.Text(out)
		if !ok {
			continue
		}
		v := f.In(out)
		text = strings.ReplaceAll(text, from, to)
		if v.Kind() == reflect.Pointer {
			p := reflect.New(v.Type().Elem())
			p.Elem().SetString(text)
			v.Set(p)
		} else {
			v.SetString(text)
		}
	}
	return out
}

func TestARepeatWritesNothing(t *testing.T) {
	t.Parallel()
	t.Run("merged", func(t *testing.T) {
		t.Parallel()
		repeatWritesNothing(t, open(t))
	})
	t.Run("copied at first", func(t *testing.T) {
		t.Parallel()
		repeatWritesNothing(t, store.CopyNew(open(t)))
	})
}

func repeatWritesNothing(t *testing.T, s *store.Store) {
	t.Helper()
	root := record.NewPlanID()
	changes := []record.Change{
		&record.Plan{RootPlanID: root, CurrentPlanID: root, Rev: new(int64(5)), Title: new("x"), State: new(record.Running), StartTime: at(1), Tags: []string{"a"}, Metadata: json.RawMessage(`{}`)},
		&record.AgentExecution{RootPlanID: root, PlanID: root, StepID: root + "s", Attempt: new(int64(2)), EndTime: at(3), State: new(record.Failed)},
		&record.ThinkAct{RootPlanID: root, StepID: root + "s", Seq: 1, ThinkInput: new(strings.Repeat("x", record.MaxTextBytes+1)), CostUSD: new(2.0 / 3)},
		&record.ActTool{RootPlanID: root, StepID: root + "s", Seq: 1, ToolCallID: "t", Name: new("n"), EndTime: at(3)},
		&record.Wait{RootPlanID: root, PlanID: root, WaitID: "w", Title: new("t")},
	}
	write(t, s, changes...)
	versions := func() (all []string) {
		for _, table := range []string{"plan_execution_record", "agent_execution_record", "think_act_record", "act_tool_info", "wait_state"} {
			all = append(all, query[string](t, s, "SELECT string_agg(xmin::text, ',' ORDER BY id) FROM actlog."+table))
		}
		return all
	}
	before := versions()
	write(t, s, changes...)
	if diff := cmp.Diff(before, versions()); diff != "" {
		t.Errorf("rows were written anew (-before +after):\n%s", diff)
	}
}

func TestGoodRecordsBesideBadOnesAreCommitted(t *testing.T) {
	t.Parallel()
	s := open(t)
	root := record.NewPlanID()
	long := strings.Repeat("x", 300)
	result, err := s.Write(t.Context(), []record.Change{
		&record.Plan{RootPlanID: root, CurrentPlanID: root, Title: new("good")},
		&record.Plan{RootPlanID: long, CurrentPlanID: long},
		&record.Plan{RootPlanID: root},
		&record.Plan{RootPlanID: root, CurrentPlanID: root, State: new(record.State("DONE"))},
		&record.Plan{RootPlanID: root, CurrentPlanID: root, ParentPlanID: new("p"), ToolCallID: new("t")},
		&record.ThinkAct{RootPlanID: root, StepID: "s", Seq: -1},
		&record.AgentExecution{RootPlanID: root, StepID: "s"},
		&record.ThinkAct{RootPlanID: root, StepID: root + "s", Seq: 0, ThinkInput: new("nul\x00 and \xff\xfe")},
	})
	if err != nil {
		t.Fatal(err)
	}
	type refused struct {
		Index int
		Code  record.Code
		Field string
	}
	var got []refused
	for _, r := range result.Rejected {
		got = append(got, refused{r.Index, r.Err.Code, r.Err.Field})
	}
	want := []refused{
		{1, record.CodeInvalidValue, "rootPlanId"},
		{2, record.CodeMissingField, "currentPlanId"},
		{3, record.CodeInvalidValue, "state"},
		{4, record.CodeInvalidRelation, "rootPlanId"},
		{5, record.CodeInvalidValue, "seq"},
		{6, record.CodeMissingField, "planId"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
	if result.Accepted != 2 {
		t.Errorf("accepted %d", result.Accepted)
	}
	if p := planTree(t, s, root); *p.Record.Title != "good" {
		t.Errorf("plan = %+v", p.Record)
	}
	if in := *stepDetail(t, s, root+"s").Cycles[0].Record.ThinkInput; in != "nul\uFFFD and \uFFFD" {
		t.Errorf("think input = %q", in)
	}
}

// TestTheDatabaseRefusesOne meets a refusal that no check foresaw: the batch is
// taken apart until the record at fault stands alone.
func TestTheDatabaseRefusesOne(t *testing.T) {
	t.Parallel()
	s := open(t)
	exec(t, s, "ALTER TABLE actlog.plan_execution_record ADD CONSTRAINT unforeseen CHECK (title <> 'bad')")
	t.Cleanup(func() { exec(t, s, "ALTER TABLE actlog.plan_execution_record DROP CONSTRAINT unforeseen") })
	root := record.NewPlanID()
	var changes []record.Change
	for i := range 50 {
		title := "good"
		if i == 17 || i == 33 {
			title = "bad"
		}
		id := fmt.Sprintf("%s-%d", root, i/2) // two changes a plan
		changes = append(changes, &record.Plan{RootPlanID: id, CurrentPlanID: id, Title: &title, Summary: new("s")})
	}
	result, err := s.Write(t.Context(), changes)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Rejected) != 2 || result.Rejected[0].Index != 17 || result.Rejected[1].Index != 33 || result.Accepted != 48 {
		t.Fatalf("result = %+v", result)
	}
	for i := range 25 {
		if p := planTree(t, s, fmt.Sprintf("%s-%d", root, i)); *p.Record.Title != "good" {
			t.Errorf("plan %d = %q", i, *p.Record.Title)
		}
	}
}

// TestConcurrentWriters has a hundred writers tell of one plan, its steps and
// each other's cycles at once, through two stores: no deadlock, no lost field.
func TestConcurrentWriters(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	stores := []*store.Store{openURL(t, db), store.CopyNew(openURL(t, db))}
	root := record.NewPlanID()
	const writers, rounds = 100, 5
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for r := range rounds {
				step := fmt.Sprintf("%s-s%d", root, (w+r)%10)
				result, err := stores[w%2].Write(t.Context(), []record.Change{
					&record.ActTool{RootPlanID: root, StepID: step, Seq: int64(r), ToolCallID: fmt.Sprintf("%s-t%d-%d", root, w, r), Name: new("tool"), State: new(record.Completed)},
					&record.ThinkAct{RootPlanID: root, StepID: step, Seq: int64(r), InputTokens: new(int64(1)), State: new(record.Completed)},
					&record.AgentExecution{RootPlanID: root, PlanID: fmt.Sprintf("%s-p%d", root, (w+r)%10), StepID: step, AgentName: new("a")},
					&record.Plan{RootPlanID: root, CurrentPlanID: fmt.Sprintf("%s-p%d", root, (w+r+1)%10), Title: new("t")},
					&record.Plan{RootPlanID: root, CurrentPlanID: root, State: new(record.Running)},
				})
				if err != nil || len(result.Rejected) > 0 {
					t.Errorf("writer %d: %v %v", w, result, err)
				}
			}
		})
	}
	wg.Wait()
	p := planTree(t, stores[0], root)
	if p.Total.ToolCalls != writers*rounds || p.Total.ModelCalls != 10*rounds || p.Total.InputTokens != 10*rounds {
		t.Errorf("total = %+v", p.Total)
	}
	var steps int
	for c := range p.Children() {
		steps += len(c.Steps)
		if *c.Record.Title != "t" {
			t.Errorf("plan %s lost its title", c.Record.CurrentPlanID)
		}
	}
	if steps != 10 {
		t.Errorf("%d steps", steps)
	}
	if n := query[int64](t, stores[0], "SELECT sum(deadlocks)::bigint FROM pg_stat_database WHERE datname = current_database()"); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

func TestStatesGoForward(t *testing.T) {
	t.Parallel()
	s := open(t)
	state := func(tells ...record.State) record.State {
		root := record.NewPlanID()
		for _, st := range tells {
			write(t, s, &record.Plan{RootPlanID: root, CurrentPlanID: root, State: &st})
		}
		return *planTree(t, s, root).Record.State
	}
	for _, tt := range []struct {
		tells []record.State
		want  record.State
	}{
		{[]record.State{record.Running, record.Waiting, record.Running}, record.Running},
		{[]record.State{record.Completed, record.Running}, record.Completed},
		{[]record.State{record.Unknown, record.Interrupted}, record.Interrupted},
		{[]record.State{record.Interrupted, record.Unknown}, record.Interrupted},
		{[]record.State{record.Interrupted, record.Completed}, record.Completed}, // a late truth wins
		{[]record.State{record.Failed, record.Completed}, record.Completed},
	} {
		if got := state(tt.tells...); got != tt.want {
			t.Errorf("%v gives %s, want %s", tt.tells, got, tt.want)
		}
	}
}

func TestAHigherAttemptReopens(t *testing.T) {
	t.Parallel()
	s := open(t)
	root := record.NewPlanID()
	tell := func(a record.AgentExecution) {
		a.RootPlanID, a.PlanID, a.StepID = root, root, root+"s"
		write(t, s, &a)
	}
	tell(record.AgentExecution{State: new(record.Failed), EndTime: at(9), ErrorMessage: new("broke"), Result: new("half")})
	tell(record.AgentExecution{Attempt: new(int64(2)), State: new(record.Running)})
	got := stepDetail(t, s, root+"s").Record
	if *got.State != record.Running || got.EndTime != nil || got.ErrorMessage != nil || *got.Result != "half" || *got.Attempt != 2 {
		t.Errorf("after the second attempt began: %+v", got)
	}
	tell(record.AgentExecution{Attempt: new(int64(1)), State: new(record.Failed), ErrorMessage: new("late")})
	tell(record.AgentExecution{State: new(record.Cancelled), EndTime: at(20)}) // of the first, too
	tell(record.AgentExecution{Attempt: new(int64(2)), State: new(record.Completed), EndTime: at(12)})
	got = stepDetail(t, s, root+"s").Record
	if *got.State != record.Completed || !got.EndTime.Equal(*at(12)) || got.ErrorMessage != nil {
		t.Errorf("after it ended: %+v", got)
	}
}

func TestCutTexts(t *testing.T) {
	t.Parallel()
	s := open(t)
	root := record.NewPlanID()
	long := strings.Repeat("é", record.MaxTextBytes/2) + "é"
	write(t, s, &record.ThinkAct{RootPlanID: root, StepID: root + "s", Seq: 0, ThinkInput: &long, ThinkOutput: new("short")})
	c := stepDetail(t, s, root+"s").Cycles[0]
	if got := *c.Record.ThinkInput; len(got) != record.MaxTextBytes || !strings.HasPrefix(long, got) {
		t.Errorf("kept %d bytes", len(got))
	}
	if !slices.Equal(c.Truncated, []string{"thinkInput"}) {
		t.Errorf("truncated = %q", c.Truncated)
	}
	if *c.Record.InputCharCount != record.MaxTextBytes/2+1 {
		t.Errorf("counted %d characters", *c.Record.InputCharCount)
	}
	write(t, s, &record.ThinkAct{RootPlanID: root, StepID: root + "s", Seq: 0, ThinkInput: new("told anew"), InputCharCount: new(int64(3))})
	c = stepDetail(t, s, root+"s").Cycles[0]
	if len(c.Truncated) != 0 || *c.Record.InputCharCount != 3 {
		t.Errorf("told anew: truncated = %q, %d characters", c.Truncated, *c.Record.InputCharCount)
	}
}

func TestInferredCallsAreMarked(t *testing.T) {
	t.Parallel()
	s := open(t)
	root := record.NewPlanID()
	call := func(id string) *record.ActTool {
		return &record.ActTool{RootPlanID: root, StepID: root + "s", Seq: 0, ToolCallID: root + id, Name: new(id)}
	}
	inferred := call("a")
	inferred.Inferred = new(true)
	write(t, s, inferred, call("b"))
	write(t, s, call("a")) // says nothing of it
	calls := stepDetail(t, s, root+"s").Cycles[0].ToolCalls
	if len(calls) != 2 || !calls[0].Inferred || calls[1].Inferred {
		t.Fatalf("%+v", calls)
	}
	made := call("a")
	made.Inferred = new(false)
	write(t, s, made)
	if calls = stepDetail(t, s, root+"s").Cycles[0].ToolCalls; calls[0].Inferred {
		t.Error("a call that was made is still inferred")
	}
}

func TestWriteToAClosedStore(t *testing.T) {
	t.Parallel()
	s := openClosed(t)
	_, err := s.Write(t.Context(), []record.Change{&record.Plan{RootPlanID: "p", CurrentPlanID: "p"}})
	if !errors.Is(err, record.ErrClosed) {
		t.Errorf("error = %v", err)
	}
}

// TestClockSkewCostsNoRow: ends before beginnings are what clocks say.
func TestClockSkewCostsNoRow(t *testing.T) {
	t.Parallel()
	s := open(t)
	root := record.NewPlanID()
	write(t, s, &record.Plan{RootPlanID: root, CurrentPlanID: root, StartTime: at(9), EndTime: at(1)},
		&record.ThinkAct{RootPlanID: root, StepID: root + "s", Seq: 0, ThinkStartTime: at(9), ThinkEndTime: at(1)})
	if p := planTree(t, s, root); *p.Figures.DurationMs != -8000 || p.Figures.ThinkMs != 0 {
		t.Errorf("figures = %+v", p.Figures)
	}
}

// TestLargeWritesKeepTheirOrder: a write is cut into several transactions, which
// may be committed in any order; what is said about one row may not.
func TestLargeWritesKeepTheirOrder(t *testing.T) {
	t.Parallel()
	s := open(t)
	text := func(n int) *string { return new(strings.Repeat("x", n)) }
	for range 8 {
		root := record.NewPlanID()
		write(t, s,
			&record.Plan{RootPlanID: root, CurrentPlanID: root, Title: new("first"), Summary: text(3_900_000)},
			&record.AgentExecution{RootPlanID: root, PlanID: root, StepID: root + "-s", Result: text(3_900_000)},
			&record.Plan{RootPlanID: root, CurrentPlanID: root, Title: new("second"), UserRequest: text(3_000_000)})
		if got := *planTree(t, s, root).Record.Title; got != "second" {
			t.Fatalf("the title is that of the %s telling", got)
		}
	}
}

// TestWhatIsKnownWasDeleted by another server: what is told beneath it is on record
// all the same, under placeholders.
func TestWhatIsKnownWasDeleted(t *testing.T) {
	t.Parallel()
	url := newDB(t)
	s, other := openURL(t, url, patient), openURL(t, url)
	call := func(id string) *record.ActTool {
		return &record.ActTool{RootPlanID: "r", StepID: "s", Seq: 0, ToolCallID: id, Name: new("n")}
	}
	for _, told := range []record.Change{
		call("a"), title("r", "t"), &record.AgentExecution{RootPlanID: "r", PlanID: "r-sub", StepID: "s"},
		&record.Thought{RootPlanID: "r", PlanID: "r-sub", ThoughtID: "x"}, &record.Wait{RootPlanID: "r", PlanID: "r", WaitID: "w"},
	} {
		write(t, s, call("a"), &record.AgentExecution{RootPlanID: "r", PlanID: "r-sub", StepID: "s"}) // now they are known
		if err := other.DeletePlan(t.Context(), "r"); err != nil {
			t.Fatal(err)
		}
		write(t, s, told)
		if got := *planTree(t, s, "r"); got.Record.CurrentPlanID != "r" {
			t.Errorf("after %T: %+v", told, got.Record)
		}
		if err := other.DeletePlan(t.Context(), "r"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFiguresOfTwoWriters at once: whoever rolls a step up last has seen what the
// other wrote, though nobody told of the step itself.
func TestFiguresOfTwoWriters(t *testing.T) {
	t.Parallel()
	url := newDB(t)
	stores := []*store.Store{openURL(t, url, patient), openURL(t, url, patient)}
	const steps = 200
	for _, s := range stores { // both know the steps from here on
		var told []record.Change
		for n := range steps {
			told = append(told, &record.AgentExecution{RootPlanID: "r", PlanID: "r", StepID: fmt.Sprint("s", n)})
		}
		write(t, s, told...)
	}
	for n := range steps {
		var wg sync.WaitGroup
		for w, s := range stores {
			wg.Go(func() {
				write(t, s, &record.ActTool{RootPlanID: "r", StepID: fmt.Sprint("s", n), Seq: int64(w), ToolCallID: fmt.Sprint("t", w), Name: new("n")})
			})
		}
		wg.Wait()
	}
	if wrong := query[int](t, stores[0], "SELECT count(*) FROM actlog.agent_execution_record WHERE tool_calls IS DISTINCT FROM 2"); wrong > 0 {
		t.Errorf("the figures of %d of %d steps are wrong", wrong, steps)
	}
}
