package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/actlog/actlog/cmd/actlog/internal/terminal"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/view/words"
	"github.com/actlog/actlog/record"
)

type showCmd struct {
	Plan     string `arg:"" help:"Id of a plan, root or not."`
	Step     string `help:"Show the cycles of this step instead. It may be of any plan in the tree of PLAN." placeholder:"STEP" xor:"what"`
	Search   string `help:"Show the texts of the plan that have this one instead: requests, prompts, answers, arguments, results, errors, ..." placeholder:"TEXT" xor:"what"`
	MaxDepth int    `help:"How many levels of sub-plans to show, at most 2000; with --json 20000." default:"50" placeholder:"LEVELS"`
	JSON     bool   `help:"Print the answer of the API, as JSON."`
	rootFlag
	serverFlags
}

// maxShownDepth bounds the levels of a tree that is drawn: encoding/json reads 10,000 levels of
// JSON, and a plan takes four.
const maxShownDepth = 2000

func (c *showCmd) Run(ctx context.Context, e *env, client *client) error {
	most := maxShownDepth
	if c.JSON {
		most = tree.MaxDepth
	}
	if c.MaxDepth < 0 || c.MaxDepth > most {
		return usageError(fmt.Sprintf("--max-depth %d: must be from 0 to %d", c.MaxDepth, most))
	}
	if err := client.whole(ctx, &c.Plan, &c.Root); err != nil {
		return err
	}

	view := newView(e.stdout).wrapping()
	query := c.query()
	if c.Step != "" {
		return c.showStep(ctx, e, client, view, query)
	}
	if c.Search != "" {
		return c.showFound(ctx, e, client, view, query)
	}

	query.Set("maxDepth", strconv.Itoa(c.MaxDepth))
	if c.JSON {
		return client.print(ctx, e.stdout, named("plan", c.Plan), withQuery(planPath(c.Plan), query))
	}

	p, err := client.plan(ctx, c.Plan, query)
	if err != nil {
		return err
	}
	view.title(p)

	waits, err := client.openWaits(ctx, p)
	if err != nil {
		view.failure("", "what it waits for could not be read: ", err.Error(), 200)
	}
	view.waits(waits)
	view.silence(p)

	if p.State != "PENDING" {
		view.cause(client.failures(ctx, p))
	}
	view.rest(p)
	return view.err
}

func (c *showCmd) showStep(ctx context.Context, e *env, client *client, view *view, query url.Values) error {
	query.Set("maxDepth", "0")
	p, err := client.plan(ctx, c.Plan, query)
	if err != nil {
		return err
	}

	what := named("step", c.Step) + " in the tree of " + named("plan", c.Plan)
	read := func(step string) ([]byte, error) {
		return client.read(ctx, what, withQuery(stepPath(step), rootFlag{Root: p.RootPlanID}.query()))
	}

	body, err := read(c.Step)
	if errors.Is(err, errNotOnRecord) { // it may be shortened
		step, short := client.wholeStep(ctx, p.RootPlanID, c.Step)
		switch {
		case short != nil:
			err = short
		case step != "":
			body, err = read(step)
		}
	}
	if err != nil {
		return err
	}

	if c.JSON {
		return printJSON(e.stdout, body)
	}

	var st stepView
	if err := json.Unmarshal(body, &st); err != nil {
		return fmt.Errorf("%s: %w (is there an Actlog server at %s?)", what, err, client.base)
	}

	of := p
	if st.PlanID != p.CurrentPlanID {
		if of, err = client.plan(ctx, st.PlanID, url.Values{"root": {p.RootPlanID}, "maxDepth": {"0"}}); err != nil {
			return err
		}
	}

	view.top = p.State
	view.step(&st, of)
	view.alsoUnder(p)
	return view.err
}

// view draws plans and steps as text.
type view struct {
	w      io.Writer
	colour bool
	width  int    // at which lines are wrapped; 0: they are not
	top    string // the state of the plan that is shown
	now    time.Time
	steps  map[string]string // ids of steps, as they are shown
	lines  int               // that were drawn
	err    error             // the first error of w
}

// newView returns a view that draws on w, in colours if that is a terminal.
func newView(w io.Writer) *view {
	v := &view{w: w, colour: hasColour(w), now: time.Now()}
	if v.colour {
		v.w = terminal.Coloured(w)
	}
	return v
}

// wrapping makes the view wrap its lines at the width of the terminal.
func (v *view) wrapping() *view {
	v.width = widthOf(v.w)
	return v
}

// line draws a line of the parts that are not empty.
func (v *view) line(prefix string, parts ...string) {
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	v.hanging(prefix, "  ", strings.Join(parts, "  "))
}

// belowBranch is what stands below the branch of a tree.
var belowBranch = strings.NewReplacer("├─ ", "│  ", "└─ ", "   ")

// hanging draws a line. Where it is wrapped, what follows stands below it, further to the right.
func (v *view) hanging(prefix, hang, line string) {
	lines := []string{prefix + line}
	if v.width > 0 {
		lines = wrapped(prefix, line, belowBranch.Replace(prefix)+hang, v.width)
	}
	for _, line := range lines {
		v.whole("", line)
	}
}

// whole draws a line that is not wrapped: a command that was copied from two lines would be two commands.
func (v *view) whole(prefix, line string) {
	v.lines++
	_, err := fmt.Fprintln(v.w, prefix+line)
	v.err = cmp.Or(v.err, err)
}

// text draws a line of a text and its label, unless the text is empty.
func (v *view) text(prefix, label, text string, limit int) {
	if text != "" {
		v.hanging(prefix, strings.Repeat(" ", columns(label)), label+words.Shorten(text, limit))
	}
}

// failure draws an error message like text, in red.
func (v *view) failure(prefix, label, message string, limit int) {
	if message != "" {
		v.hanging(prefix, strings.Repeat(" ", columns(label)), v.red(label+words.Shorten(message, limit)))
	}
}

// maxShownText bounds a title, a request or an error in a tree, in characters.
const maxShownText = 300

// plan draws a plan and everything below it.
func (v *view) plan(p *planView) {
	v.head(p)
	v.rest(p)
}

// head draws a plan without what is below it.
func (v *view) head(p *planView) {
	v.title(p)
	if w := p.UserInputWaitState; w != nil {
		v.line("", v.yellow(waitsFor(w.Type)), words.Shorten(w.Title, 100))
		v.text("", "", w.FormDescription, 100)
	}
	v.silence(p)
}

// title draws what a plan is, its state and its error. What is drawn next is below it.
func (v *view) title(p *planView) {
	v.top = p.State
	v.line("", v.bold(p.CurrentPlanID), v.planState(p.State, p.Placeholder), v.figures(p.Total), inferred(p),
		v.copy(p.copied))
	v.text("", "", cmp.Or(p.Title, p.UserRequest), maxShownText)
	v.failure("", "", p.ErrorMessage, maxShownText)
}

// silence draws for how long a plan that has not ended gave no sign of life.
func (v *view) silence(p *planView) {
	if silent := silence(p.LastSignOfLife, v.now); silent != "" {
		v.line("", v.faint("last sign of life "+silent+" ago"))
	}
}

// cause draws why a plan ended as it did: what failed, and the way to it.
func (v *view) cause(f *failuresView, err error) {
	if err != nil {
		v.failure("", "the cause could not be read: ", err.Error(), 200)
		return
	}
	if len(f.Items) == 0 || f.Cause != f.Items[0].At {
		return // nothing failed, what did was recovered, or the run waits for an answer, which is said above
	}

	what := "cause:"
	if f.Recovered {
		what = "first failure, recovered:"
	}
	first := &f.Items[0]
	v.line("", v.bold(what), v.bold(first.name()), v.red(first.brief()))

	var path []string
	for _, p := range first.Path {
		path = append(path, p.name())
	}
	v.line("  ", v.faint(strings.Join(append(path, first.name()), " › ")))
}

func (v *view) rest(p *planView) {
	v.steps = shortIDs(p.stepIDs())
	v.children("", p)
	v.omitted(p.Omitted)
	v.alsoUnder(p)
}

// omitted draws which plans below the requested one are not drawn.
func (v *view) omitted(o *omittedView) {
	if o == nil {
		return
	}

	are := " are"
	if o.Plans == 1 {
		are = " is"
	}
	v.line("", words.Plural(o.Plans, "plan")+" below"+are+
		" not shown; use actlog show with a larger --max-depth, or with one of these ids: "+joined(o.PlanIDs))
}

// alsoUnder draws which other root plans have a plan of the requested id.
func (v *view) alsoUnder(p *planView) {
	if len(p.AlsoUnder) > 0 {
		v.line("", "plan "+words.Clean(p.CurrentPlanID)+" is shown under root plan "+words.Clean(p.RootPlanID)+
			"; it is also under these, which --root chooses: "+joined(p.AlsoUnder))
	}
}

func (v *view) children(indent string, p *planView) {
	n := len(p.AgentExecutionSequence) + len(p.SubPlanExecutionRecords)
	for i, st := range p.AgentExecutionSequence {
		branch, under := branches(i == n-1)
		name, _ := st.name(p)
		v.line(indent+branch, v.bold(cmp.Or(name, "(unnamed agent)")), v.stateBelow(st.State), v.figures(st.Figures),
			st.number(), v.faint(cmp.Or(v.steps[st.StepID], st.StepID)), v.copy(st.copied))
		v.pastAttempts(indent+under, st.attempted)
		v.failure(indent+under, "", st.ErrorMessage, maxShownText)
		for j, sub := range st.SubPlanExecutionRecords {
			v.subPlan(indent+under, sub, j == len(st.SubPlanExecutionRecords)-1)
		}
	}

	for i, sub := range p.SubPlanExecutionRecords {
		v.subPlan(indent, sub, len(p.AgentExecutionSequence)+i == n-1)
	}
}

// copy says which row of another run a row is a copy of. Its figures are those of that run.
func (v *view) copy(c copied) string {
	if c.ForkedFrom == "" {
		return ""
	}
	return v.faint("copy of " + words.Shorten(c.ForkedFrom, maxShownText))
}

// number is empty for the first attempt.
func (a attempted) number() string {
	if a.Attempt <= 1 {
		return ""
	}
	return "attempt " + strconv.Itoa(a.Attempt)
}

// pastAttempts draws a line for each attempt before the current one.
func (v *view) pastAttempts(prefix string, a attempted) {
	for _, past := range a.Attempts {
		if past.Attempt < a.Attempt {
			first, _, _ := strings.Cut(past.ErrorMessage, "\n")
			v.line(prefix, "attempt "+strconv.Itoa(past.Attempt), v.state(past.State), words.Took(past.StartTime, past.EndTime),
				words.Clean(past.ErrorKind), v.red(words.Shorten(first, 100)))
		}
	}
}

func (v *view) subPlan(indent string, p *planView, last bool) {
	branch, under := branches(last)
	tool := ""
	if p.ParentActToolCall != nil {
		tool = words.Clean(p.ParentActToolCall.Name) + ":"
	}

	title := cmp.Or(p.Title, p.UserRequest, p.CurrentPlanID)
	v.line(indent+branch, tool, words.Shorten(title, 70), v.planState(v.shown(p.State), p.Placeholder),
		v.figures(p.Total), inferred(p), v.copy(p.copied))
	v.failure(indent+under, "", p.ErrorMessage, maxShownText)
	v.children(indent+under, p)
}

func branches(last bool) (branch, under string) {
	if last {
		return "└─ ", "   "
	}
	return "├─ ", "│  "
}

func inferred(p *planView) string {
	if p.Link == tree.LinkInferred {
		return "(place inferred)"
	}
	return ""
}

// figures summarises what was done, in a few words.
func (v *view) figures(f figuresView) string {
	out := []string{f.took()}
	for _, count := range []struct {
		n   int64
		one string
	}{{f.ModelCalls, "model call"}, {f.ToolCalls, "tool call"}, {f.Failures, "failure"}} {
		if count.n > 0 {
			out = append(out, words.Plural(count.n, count.one))
		}
	}

	out = append(out, words.Tokens(f.InputTokens, f.OutputTokens))
	if f.CostUSD != nil {
		out = append(out, words.Dollars(*f.CostUSD))
	}
	return strings.Join(slices.DeleteFunc(out, func(s string) bool { return s == "" }), ", ")
}

func (v *view) planState(s string, placeholder bool) string {
	if placeholder {
		return v.faint(shownState(s, placeholder))
	}
	return v.state(s)
}

// shownState is the state of a plan. A placeholder is in none: nothing was ever recorded of it.
func shownState(s string, placeholder bool) string {
	if placeholder {
		return "(placeholder)"
	}
	return words.Clean(s)
}

// shown is the state in which something below the plan is shown. Of a placeholder it is not known whether it has ended.
func (v *view) shown(s string) string {
	if v.top == "" {
		return s
	}
	return string(tree.ShownState(record.State(v.top), record.State(s)))
}

func (v *view) stateBelow(s string) string { return v.state(v.shown(s)) }

func (v *view) state(s string) string {
	switch s = words.Clean(s); s {
	case "COMPLETED":
		return v.paint("32", s)
	case "FAILED", "INTERRUPTED", "CANCELLED", "BLOCKED", "UNKNOWN":
		return v.red(s)
	case "RUNNING", "WAITING", "PAUSED", "AWAITING_APPROVAL":
		return v.yellow(s)
	}
	return v.faint(s)
}

func (v *view) bold(s string) string   { return v.paint("1", words.Clean(s)) }
func (v *view) red(s string) string    { return v.paint("31", s) }
func (v *view) yellow(s string) string { return v.paint("33", s) }
func (v *view) faint(s string) string  { return v.paint("2", words.Clean(s)) }

// exact is faint for what is to be typed: its spaces stay as they are.
func (v *view) exact(s string) string { return v.paint("2", s) }

func (v *view) paint(code, s string) string {
	if s = terminal.Line(s); !v.colour || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}
