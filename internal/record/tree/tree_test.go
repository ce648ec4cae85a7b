package tree_test

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const root = "root"

func at(second int) *time.Time {
	return new(time.Date(2026, 11, 20, 12, 0, second, 0, time.UTC))
}

// row describes a plan or a step. Build changes its nodes, so each build gets new ones.
type row struct {
	step        bool
	id          string
	parent      string // of a plan: parentPlanId; of a step: its plan
	callStep    string // of a plan: the step of its tool call, if that is on record
	droppedStep string // of a plan: the step of its tool call, if retention dropped that call
	start, end  *time.Time
	index       *int64
	figures     tree.Figures
	state       record.State
	project     *string
	number      int64
}

func plan(id string) row { return row{id: id} }

func step(planID, id string) row { return row{step: true, id: id, parent: planID} }

func (r row) under(parent string) row       { r.parent = parent; return r }
func (r row) calledBy(stepID string) row    { r.callStep = stepID; return r }
func (r row) droppedCall(stepID string) row { r.droppedStep = stepID; return r }
func (r row) started(second int) row        { r.start = at(second); return r }
func (r row) at(index int64) row            { r.index = &index; return r }
func (r row) in(s record.State) row         { r.state = s; return r }

func nodes(rows []row) (plans []*tree.Plan, steps []*tree.Step) {
	for _, r := range rows {
		if r.step {
			steps = append(steps, &tree.Step{ID: r.number, Figures: r.figures, Record: record.AgentExecution{
				RootPlanID: root, StepID: r.id, PlanID: r.parent, StepIndex: r.index, StartTime: r.start, EndTime: r.end,
				State: new(r.state)}})
			continue
		}

		p := &tree.Plan{ID: r.number, ParentStepID: r.droppedStep, Record: record.Plan{
			RootPlanID: root, CurrentPlanID: r.id, StartTime: r.start, EndTime: r.end, State: new(r.state), Project: r.project}}
		if r.parent != "" {
			p.Record.ParentPlanID = new(r.parent)
		}
		if r.callStep != "" {
			p.ToolCall = &tree.ToolCall{Record: record.ActTool{RootPlanID: root, StepID: r.callStep}}
		}
		plans = append(plans, p)
	}
	return plans, steps
}

func build(requested string, rows ...row) *tree.Plan {
	plans, steps := nodes(rows)
	return tree.Build(requested, plans, steps)
}

// visit counts the plans and steps below p, and p itself.
func visit(p *tree.Plan, plans map[string]int, steps map[string]int) {
	plans[p.Record.CurrentPlanID]++
	if plans[p.Record.CurrentPlanID] > 1 {
		return // reported anyway; a cycle must not block the test
	}

	for _, s := range p.Steps {
		steps[s.Record.StepID]++
	}
	for c := range p.Children() {
		visit(c, plans, steps)
	}
}

// outline returns the shape of a tree: plan[step(sub-plans) ...](sub-plans). A "?" follows a
// plan whose place is inferred.
func outline(p *tree.Plan) string {
	list := func(plans []*tree.Plan) (s string) {
		for i, c := range plans {
			if i > 0 {
				s += " "
			}
			s += outline(c)
		}
		if s != "" {
			s = "(" + s + ")"
		}
		return s
	}

	s := p.Record.CurrentPlanID
	if p.Link == tree.LinkInferred {
		s += "?"
	}
	for i, st := range p.Steps {
		s += map[bool]string{true: "[", false: " "}[i == 0] + st.Record.StepID + list(st.SubPlans)
	}
	if len(p.Steps) > 0 {
		s += "]"
	}
	return s + list(p.SubPlans)
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		rows []row
		want string
	}{
		{"only a root", []row{plan(root)}, "root"},
		{"steps by index, nulls last; then start, nulls last; then id", []row{
			plan(root), step(root, "g"), step(root, "f"), step(root, "e").started(2), step(root, "d").started(1),
			step(root, "c").at(1), step(root, "b").at(1).started(9), step(root, "a").at(1).started(8), step(root, "z").at(0),
		}, "root[z a b c d e f g]"},
		{"sub-plans of one call by start, nulls last; then id", []row{
			plan(root), step(root, "s"), plan("d").under(root).calledBy("s"), plan("c").under(root).calledBy("s"),
			plan("b").under(root).calledBy("s").started(2), plan("a").under(root).calledBy("s").started(3),
		}, "root[s(b a c d)]"},
		{"the tool call decides, not parentPlanId", []row{
			plan(root), step(root, "s"), plan("p").under("q").calledBy("s"), plan("q").under(root).calledBy("s"), step("q", "t"),
		}, "root[s(p q[t])]"},
		{"sub-plans of sub-plans", []row{
			plan(root), step(root, "s"), plan("p").under(root).calledBy("s"), step("p", "t"), plan("q").under("p").calledBy("t"),
		}, "root[s(p[t(q)])]"},
		{"a step of an unknown plan goes under the root", []row{plan(root), step("lost", "s")}, "root[s]"},
		{
			"a sub-plan called by a step of an unknown plan",
			[]row{plan(root), step("lost", "s"), plan("p").under("lost").calledBy("s")}, "root[s(p)]",
		},
		{"the tool call was dropped, its step is known", []row{
			plan(root), step(root, "s").started(1), step(root, "t").started(2),
			plan("p").under(root).droppedCall("s").started(3),
		}, "root[s(p) t]"},
		{"inferred: the step that started last before it", []row{
			plan(root), step(root, "a").at(0).started(5), step(root, "b").at(1).started(3), step(root, "c").at(2).started(9),
			step(root, "d").at(3),
			plan("p").under(root).started(6),
		}, "root[a(p?) b c d]"},
		{"inferred: a step that started at the same time", []row{
			plan(root), step(root, "a").at(0).started(5), step(root, "b").at(1).started(6), plan("p").under(root).started(6),
		}, "root[a b(p?)]"},
		{"inferred: the first step if all started later", []row{
			plan(root), step(root, "a").at(0).started(5), step(root, "b").at(1).started(4), plan("p").under(root).started(3),
		}, "root[a(p?) b]"},
		{"inferred: the first step if the plan has no start", []row{
			plan(root), step(root, "a").at(0).started(5), step(root, "b").at(1).started(6), plan("p").under(root),
		}, "root[a(p?) b]"},
		{"inferred: the first step if no step has a start", []row{
			plan(root), step(root, "a").at(0), step(root, "b").at(1), plan("p").under(root).started(6),
		}, "root[a(p?) b]"},
		{
			"inferred: the parent itself if it has no steps", []row{plan(root), plan("p").under("q"), plan("q").under(root)},
			"root(q?(p?))",
		},
		{
			"inferred: the tool call's step is not on record",
			[]row{plan(root), step(root, "s"), plan("p").under(root).calledBy("lost")}, "root[s(p?)]",
		},
		{
			"no parent: under the root, not under a step", []row{plan(root), step(root, "s").started(1), plan("p").started(2)},
			"root[s](p?)",
		},
		{
			"the parent is not on record: under the root, not under a step",
			[]row{plan(root), step(root, "s").started(1), plan("p").under("lost").started(2)}, "root[s](p?)",
		},
		{"its own parent", []row{plan(root), plan("p").under("p"), step("p", "s")}, "root(p?[s])"},
		{"called by its own step", []row{plan(root), plan("p").under(root).calledBy("s"), step("p", "s")}, "root(p?[s])"},
		{"a cycle of three is cut at its first plan", []row{
			plan(root), plan("a").started(3).calledBy("sc"), plan("b").started(2).calledBy("sa"),
			plan("c").started(1).calledBy("sb"),
			step("a", "sa"), step("b", "sb"), step("c", "sc"), plan("tail").started(0).calledBy("sa"),
		}, "root(c?[sc(a[sa(tail b[sb])])])"},
		{
			"the links of the root are ignored",
			[]row{plan(root).under("p").calledBy("s"), step(root, "s"), plan("p").calledBy("s")}, "root[s(p)]",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := outline(build(root, tt.rows...)); got != tt.want {
				t.Errorf("outline(build(root, tt.rows...)):\n%s, want\n%s", got, tt.want)
			}
		})
	}
}

func TestRequestedPlan(t *testing.T) {
	t.Parallel()
	rows := []row{plan(root), step(root, "s"), plan("p").calledBy("s"), step("p", "t"), plan("q").calledBy("t")}

	if got, want := outline(build("p", rows...)), "p[t(q)]"; got != want {
		t.Errorf("got %s for a sub-plan, want its subtree %s", got, want)
	}
	if p := build("unknown", rows...); p != nil {
		t.Errorf("got %s for an unknown plan", outline(p))
	}
	if p := build("p", plan("p")); p != nil {
		t.Errorf("got %s for a plan without its root", outline(p))
	}
}

func TestProjectIsInherited(t *testing.T) {
	t.Parallel()
	r := plan(root)
	own, none := plan("own"), plan("none")
	r.project, own.project = new("of the root"), new("its own")

	for id, want := range map[string]string{"own": "its own", "none": "of the root"} {
		if got := build(id, r, own, none).Record.Project; got == nil || *got != want {
			t.Errorf("project of %s = %v, want %s", id, got, want)
		}
	}
}

func TestFiguresAndTotals(t *testing.T) {
	t.Parallel()
	r, s := plan(root), step(root, "s")
	p, u := plan("p").under(root).calledBy("s"), step("p", "u")
	r.start, r.end = at(1), at(9)
	s.figures = tree.Figures{ModelCalls: 1, InputTokens: 10, ThinkMs: 5}
	u.figures = tree.Figures{ModelCalls: 2, Failures: 1, CostUSD: new(0.5)}
	u.start = at(4)

	got := build(root, r, s, p, u)
	if diff := gocmp.Diff(tree.Figures{ModelCalls: 1, InputTokens: 10, ThinkMs: 5, DurationMs: new(int64(8000))},
		got.Figures); diff != "" {
		t.Errorf("figures of the root itself (-want +got):\n%s", diff)
	}

	// The duration is that of the root, whatever the durations below it are.
	want := tree.Figures{
		ModelCalls: 3, Failures: 1, InputTokens: 10, ThinkMs: 5, CostUSD: new(0.5), DurationMs: new(int64(8000)),
	}
	if diff := gocmp.Diff(want, got.Total); diff != "" {
		t.Errorf("total (-want +got):\n%s", diff)
	}

	sub := got.Steps[0].SubPlans[0]
	if sub.Figures.DurationMs != nil || sub.Steps[0].Figures.DurationMs != nil {
		t.Error("a plan or a step that has not ended has a duration")
	}
}

func TestCurrentStepIndex(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		plan  record.State
		steps []record.State
		want  int
	}{
		{record.Pending, nil, 0},
		{record.Completed, nil, 0},
		{record.Completed, []record.State{record.Running, record.Idle, record.Completed}, 2},
		{record.Unknown, []record.State{record.Running, record.Idle}, 1},
		{record.Running, []record.State{record.Completed, record.Idle, record.Running, record.Running}, 2},
		{record.Running, []record.State{record.Completed, record.Waiting, record.Running}, 1},
		{record.Waiting, []record.State{record.Completed, record.Idle, record.Idle}, 1},
		{record.Running, []record.State{record.Completed, record.Failed}, 1},
		{record.Paused, []record.State{record.Skipped, record.Pending}, 1},
		{record.Running, []record.State{record.Idle}, 0},
	} {
		rows := []row{plan(root).in(tt.plan)}
		for i, s := range tt.steps {
			rows = append(rows, step(root, fmt.Sprint(i)).at(int64(i)).in(s))
		}
		if got := build(root, rows...).CurrentStepIndex(); got != tt.want {
			t.Errorf("%s with steps %v: %d, want %d", tt.plan, tt.steps, got, tt.want)
		}
	}
}

// forest draws plans and steps with arbitrary links: to related plans, to themselves, in
// cycles, to missing plans.
func forest(rt *rapid.T) []row {
	plans := rapid.IntRange(0, 12).Draw(rt, "plans")
	steps := rapid.IntRange(0, 16).Draw(rt, "steps")
	planID := rapid.Custom(func(rt *rapid.T) string {
		n := rapid.IntRange(-2, plans).Draw(rt, "plan")
		switch n {
		case -2:
			return "lost"
		case -1:
			return root
		}
		return fmt.Sprintf("p%d", n)
	})
	stepID := rapid.Custom(func(rt *rapid.T) string {
		return fmt.Sprintf("s%d", rapid.IntRange(0, steps).Draw(rt, "step"))
	})

	maybe := func(g *rapid.Generator[string], label string) string {
		if rapid.Bool().Draw(rt, label) {
			return g.Draw(rt, label)
		}
		return ""
	}
	moment := rapid.Custom(func(rt *rapid.T) *time.Time {
		if n := rapid.IntRange(-2, 5).Draw(rt, "second"); n >= 0 {
			return at(n)
		}
		return nil
	})

	rows := []row{plan(root)}
	for i := range plans {
		r := plan(fmt.Sprintf("p%d", i)).under(maybe(planID, "parent")).calledBy(maybe(stepID,
			"call")).droppedCall(maybe(stepID, "dropped"))
		r.start, r.end = moment.Draw(rt, "start"), moment.Draw(rt, "end")
		rows = append(rows, r)
	}

	count := rapid.Int64Range(0, 1<<40)
	for i := range steps {
		r := step(planID.Draw(rt, "of"), fmt.Sprintf("s%d", i))
		r.start, r.end = moment.Draw(rt, "start"), moment.Draw(rt, "end")
		if rapid.Bool().Draw(rt, "indexed") {
			r = r.at(rapid.Int64Range(0, 3).Draw(rt, "index"))
		}

		v := reflect.ValueOf(&r.figures).Elem()
		for f := range v.NumField() {
			if v.Field(f).Kind() == reflect.Int64 {
				v.Field(f).SetInt(count.Draw(rt, v.Type().Field(f).Name))
			}
		}
		if rapid.Bool().Draw(rt, "priced") {
			r.figures.CostUSD = new(rapid.Float64Range(0, 100).Draw(rt, "cost"))
		}
		rows = append(rows, r)
	}

	for i := range rows {
		rows[i].number = int64(i)
		rows[i].state = record.Running
	}
	return rows
}

// check checks what must hold for every tree.
func check(p *tree.Plan, rows []row) error {
	plans, steps := map[string]int{}, map[string]int{}
	visit(p, plans, steps)
	for _, r := range rows {
		if n := plans[r.id]; !r.step && n != 1 {
			return fmt.Errorf("plan %s appears %d times", r.id, n)
		}
		if n := steps[r.id]; r.step && n != 1 {
			return fmt.Errorf("step %s appears %d times", r.id, n)
		}
	}

	_, err := checkPlan(p)
	return err
}

// checkPlan computes the sums below a plan independently of Build.
func checkPlan(p *tree.Plan) (sum map[string]float64, err error) {
	if !slices.IsSortedFunc(p.Steps, func(a, b *tree.Step) int {
		return cmp.Or(nullsLast(a.Record.StepIndex, b.Record.StepIndex),
			nullsLast(unix(a.Record.StartTime), unix(b.Record.StartTime)), cmp.Compare(a.Record.StepID, b.Record.StepID))
	}) {
		return nil, fmt.Errorf("steps of %s are out of order", p.Record.CurrentPlanID)
	}

	sum = map[string]float64{}
	lists := [][]*tree.Plan{p.SubPlans}
	for _, s := range p.Steps {
		add(sum, &s.Figures)
		lists = append(lists, s.SubPlans)
	}
	if err := compare(sum, &p.Figures); err != nil {
		return nil, fmt.Errorf("figures of %s: %w", p.Record.CurrentPlanID, err)
	}

	for _, list := range lists {
		if !slices.IsSortedFunc(list, func(a, b *tree.Plan) int {
			return cmp.Or(nullsLast(unix(a.Record.StartTime), unix(b.Record.StartTime)),
				cmp.Compare(a.Record.CurrentPlanID, b.Record.CurrentPlanID))
		}) {
			return nil, fmt.Errorf("sub-plans of %s are out of order", p.Record.CurrentPlanID)
		}

		for _, c := range list {
			if c.Link == "" {
				return nil, fmt.Errorf("%s has no link", c.Record.CurrentPlanID)
			}
			below, err := checkPlan(c)
			if err != nil {
				return nil, err
			}
			for name, n := range below {
				sum[name] += n
			}
		}
	}

	if err := compare(sum, &p.Total); err != nil {
		return nil, fmt.Errorf("total of %s: %w", p.Record.CurrentPlanID, err)
	}
	return sum, nil
}

// add sums up figures by name. The sums stay below 2^53, so a float64 is exact.
func add(sum map[string]float64, f *tree.Figures) {
	v := reflect.ValueOf(f).Elem()
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Int64 {
			sum[v.Type().Field(i).Name] += float64(v.Field(i).Int())
		}
	}

	if f.CostUSD != nil {
		sum["CostUSD"] += *f.CostUSD
		sum["priced"]++
	}
}

func compare(want map[string]float64, f *tree.Figures) error {
	got := map[string]float64{}
	add(got, f)
	if (want["priced"] > 0) != (f.CostUSD != nil) || math.Abs(want["CostUSD"]-got["CostUSD"]) > 1e-9 {
		return fmt.Errorf("cost is %v, want %v", got["CostUSD"], want["CostUSD"])
	}

	for name := range want {
		if name != "CostUSD" && name != "priced" && want[name] != got[name] {
			return fmt.Errorf("%s is %v, want %v", name, got[name], want[name])
		}
	}
	return nil
}

func unix(t *time.Time) *int64 {
	if t == nil {
		return nil
	}
	return new(t.UnixNano())
}

func nullsLast(a, b *int64) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return cmp.Compare(*a, *b)
}

func TestAnyLinks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		rows := forest(rt)
		p := build(root, rows...)
		if err := check(p, rows); err != nil {
			rt.Fatalf("%v in %s", err, outline(p))
		}
	})
}

func TestOrderOfRowsDoesNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		rows := forest(rt)
		requested := rows[rapid.IntRange(0, len(rows)-1).Draw(rt, "requested")].id
		want := build(requested, rows...)
		if diff := gocmp.Diff(want, build(requested, rapid.Permutation(rows).Draw(rt, "order")...)); diff != "" {
			rt.Fatalf("another order of rows makes another tree (-first +second):\n%s", diff)
		}
	})
}

// chain returns plans of which each was started by a tool call of the next. The root is last.
func chain(levels int) []row {
	var rows []row
	for i := levels - 1; i >= 0; i-- {
		p, s := plan(fmt.Sprint(i)), step(fmt.Sprint(i), fmt.Sprintf("s%d", i))
		if i == 0 {
			p, s = plan(root), step(root, "s0")
		} else {
			p = p.calledBy(fmt.Sprintf("s%d", i-1))
		}

		s.figures.ModelCalls = 1
		rows = append(rows, p, s)
	}
	return rows
}

func TestAnyDepth(t *testing.T) {
	t.Parallel()
	const levels = 10_000
	p := build(root, chain(levels)...)
	if p.Total.ModelCalls != levels {
		t.Errorf("total = %+v", p.Total)
	}

	depth := 0
	for ; len(p.Steps[0].SubPlans) == 1; p = p.Steps[0].SubPlans[0] {
		depth++
	}
	if depth != levels-1 {
		t.Errorf("depth = %d", depth)
	}
}

// TestManyCycles would not end if the search for cycles were quadratic in the number of
// plans: one cycle of many plans, many plans that lead into it, and many cycles of one plan.
func TestManyCycles(t *testing.T) {
	t.Parallel()
	const n = 10_000
	rows := []row{plan(root)}
	for i := range n {
		rows = append(rows, plan(fmt.Sprintf("cycle%06d", i)).under(fmt.Sprintf("cycle%06d", (i+1)%n)),
			plan(fmt.Sprintf("tail%06d", i)).under(fmt.Sprintf("cycle%06d", i)),
			plan(fmt.Sprintf("self%06d", i)).under(fmt.Sprintf("self%06d", i)))
	}

	p := build(root, rows...)
	if err := check(p, rows); err != nil {
		t.Error(err)
	}
	if len(p.SubPlans) != n+1 || p.SubPlans[0].Record.CurrentPlanID != "cycle000000" {
		t.Errorf("%d plans are under the root, first %s", len(p.SubPlans), p.SubPlans[0].Record.CurrentPlanID)
	}
}

// FuzzBuild reads every four bytes as a row: its kind and its links.
func FuzzBuild(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 1, 1, 1, 1, 1, 0, 0})
	f.Add([]byte{0, 2, 0, 9, 0, 1, 2, 8, 3, 0, 1, 1, 7, 255, 255, 255})

	f.Fuzz(func(t *testing.T, data []byte) {
		rows := []row{plan(root)}
		id := func(prefix string, b byte) string {
			if b%16 == 0 {
				return root
			}
			return fmt.Sprintf("%s%d", prefix, b%16)
		}

		seen := map[string]bool{root: true}
		for ; len(data) >= 4; data = data[4:] {
			kind, own := data[0], data[1]
			a, b := data[2], data[3]
			r := plan(id("p", own))
			if kind&1 != 0 {
				r = step(id("p", a), id("s", own)+"s")
			} else {
				if kind&2 != 0 {
					r = r.under(id("p", a))
				}
				if kind&4 != 0 {
					r = r.calledBy(id("s", b) + "s")
				}
				if kind&8 != 0 {
					r = r.droppedCall(id("s", b>>4) + "s")
				}
			}

			if kind&16 != 0 {
				r = r.started(int(b))
			}
			if kind&32 != 0 {
				r = r.at(int64(a))
			}

			r.figures.ModelCalls = int64(own)
			if !seen[r.id] { // keys are unique
				seen[r.id] = true
				rows = append(rows, r)
			}
		}

		p := build(root, rows...)
		if err := check(p, rows); err != nil {
			t.Fatalf("%v in %s", err, outline(p))
		}

		slices.Reverse(rows)
		if diff := gocmp.Diff(p, build(root, rows...)); diff != "" {
			t.Fatalf("the reverse order of rows makes another tree (-first +second):\n%s", diff)
		}
	})
}

// BenchmarkBuild nests 10,000 steps of 1,000 plans.
func BenchmarkBuild(b *testing.B) {
	rows := []row{plan(root)}
	for i := range 10_000 {
		planID := root
		if n := i / 10; n > 0 {
			planID = fmt.Sprintf("p%d", n)
			if i%10 == 0 {
				rows = append(rows, plan(planID).under(root).calledBy(fmt.Sprintf("s%d", n-1)).started(n))
			}
		}
		rows = append(rows, step(planID, fmt.Sprintf("s%d", i)).at(int64(i%10)).started(i))
	}

	for b.Loop() {
		b.StopTimer()
		plans, steps := nodes(rows)
		b.StartTimer()
		if tree.Build(root, plans, steps) == nil {
			b.Fatal("no tree")
		}
	}
}

// TestTooDeep checks that plans below the maximum depth are placed under the root.
func TestTooDeep(t *testing.T) {
	t.Parallel()
	const levels = maxDepthForTest + 10
	id := func(n int) string { return fmt.Sprintf("p%06d", n) }
	plans := []*tree.Plan{{Record: record.Plan{RootPlanID: id(0), CurrentPlanID: id(0), State: new(record.Running)}}}
	for n := 1; n <= levels; n++ {
		plans = append(plans, &tree.Plan{Record: record.Plan{
			RootPlanID: id(0), CurrentPlanID: id(n), ParentPlanID: new(id(n - 1)), ToolCallID: new("t"),
			State: new(record.Running),
		}})
	}

	root := tree.Build(id(0), plans, nil)
	var depths []int
	for child := range root.Children() {
		depth := 0
		for p := child; p != nil; depth++ {
			next := (*tree.Plan)(nil)
			for c := range p.Children() {
				next = c
			}
			p = next
		}
		depths = append(depths, depth)
	}

	if want := []int{maxDepthForTest, 10}; !slices.Equal(depths, want) {
		t.Errorf("chains under the root of %d plans, want %d", depths, want)
	}
}

const maxDepthForTest = 20_000

// TestPlanningIsFirst: W5: what an orchestrator planned stands behind the step in which it did, although that has the
// last index. It is the current step only while none that it planned is. Other executors, and other agents, keep the
// order of their indexes.
func TestPlanningIsFirst(t *testing.T) {
	t.Parallel()
	built := func(executor, last string, states ...record.State) *tree.Plan {
		p := &tree.Plan{
			Record: record.Plan{RootPlanID: root, CurrentPlanID: root, Executor: &executor, State: new(record.Running)},
		}
		steps := []*tree.Step{
			{
				Record: record.AgentExecution{
					RootPlanID: root, PlanID: root, StepID: "own", StepIndex: new(int64(10)), AgentName: &last,
					State: new(record.Running), StartTime: at(0),
				},
			},
		}

		for i, s := range states {
			steps = append(steps, &tree.Step{Record: record.AgentExecution{
				RootPlanID: root, PlanID: root, StepID: fmt.Sprint(i), StepIndex: new(int64(i)), AgentName: new("SEARCH"),
				State: &s, StartTime: at(i + 1),
			}})
		}
		return tree.Build(root, []*tree.Plan{p}, steps)
	}
	ids := func(p *tree.Plan) (all []string) {
		for _, s := range p.Steps {
			all = append(all, s.Record.StepID)
		}
		return all
	}

	for _, tt := range []struct {
		executor, last string
		states         []record.State
		want           []string
		current        int
	}{
		{"orchestrator", "ORCHESTRATOR", nil, []string{"own"}, 0},
		{
			"orchestrator", "ORCHESTRATOR", []record.State{record.Completed, record.Running, record.Idle},
			[]string{"own", "0", "1", "2"}, 2,
		},
		{"orchestrator", "ORCHESTRATOR", []record.State{record.Completed, record.Completed}, []string{"own", "0", "1"}, 0},
		{"orchestrator", "other", []record.State{record.Completed, record.Running}, []string{"0", "1", "own"}, 1},
		{"agent", "ORCHESTRATOR", []record.State{record.Completed, record.Running}, []string{"0", "1", "own"}, 1},
	} {
		p := built(tt.executor, tt.last, tt.states...)
		if diff := gocmp.Diff(tt.want, ids(p)); diff != "" || p.CurrentStepIndex() != tt.current {
			t.Errorf("%s %s %v: current %d, want %d; -want +got:\n%s", tt.executor, tt.last, tt.states, p.CurrentStepIndex(),
				tt.current, diff)
		}
	}
}
