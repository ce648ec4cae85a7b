package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

type showCmd struct {
	Plan string `arg:"" help:"Id of a plan, root or not."`
	Step string `help:"Show the cycles of this step of it instead." placeholder:"STEP"`
	JSON bool   `help:"Print what the API gives, as JSON."`
	serverFlags
}

// Run implements the command.
func (c *showCmd) Run(ctx context.Context, e *env) error {
	client, err := newClient(c.serverFlags)
	if err != nil {
		return err
	}
	p, err := client.plan(ctx, c.Plan)
	if err != nil {
		return err
	}
	view := &view{w: e.stdout, colour: hasColour(e.stdout), now: time.Now()}
	switch {
	case c.Step != "" && !holdsStep(p, c.Step):
		return fmt.Errorf("step %s %w in plan %s", c.Step, errNotOnRecord, c.Plan)
	case c.JSON && c.Step != "":
		return client.copy(ctx, e.stdout, "step "+c.Step, stepPath(c.Step))
	case c.JSON:
		return client.copy(ctx, e.stdout, "plan "+c.Plan, planPath(c.Plan))
	case c.Step == "":
		view.plan(p)
		return view.err
	}
	st, err := client.step(ctx, c.Step)
	if err != nil {
		return err
	}
	view.step(st)
	return view.err
}

func holdsStep(p *planView, id string) bool {
	for _, st := range p.AgentExecutionSequence {
		if st.StepID == id {
			return true
		}
		for _, sub := range st.SubPlanExecutionRecords {
			if holdsStep(sub, id) {
				return true
			}
		}
	}
	for _, sub := range p.SubPlanExecutionRecords {
		if holdsStep(sub, id) {
			return true
		}
	}
	return false
}

// view draws plans and steps as text. lines counts what it drew.
type view struct {
	w      io.Writer
	colour bool
	brief  bool // without figures
	now    time.Time
	lines  int
	err    error
}

func (v *view) line(prefix string, parts ...string) {
	var told []string
	for _, p := range parts {
		if p != "" {
			told = append(told, p)
		}
	}
	v.lines++
	if _, err := fmt.Fprintln(v.w, prefix+strings.Join(told, "  ")); err != nil && v.err == nil {
		v.err = err
	}
}

// plan draws a plan with all beneath it.
func (v *view) plan(p *planView) {
	v.line("", v.bold(p.CurrentPlanID), v.state(p.State), v.figures(p.Total), inferred(p))
	if title := cmp.Or(p.Title, p.UserRequest); title != "" {
		v.line("", shorten(title, 100))
	}
	if p.ErrorMessage != "" {
		v.line("", v.red(shorten(p.ErrorMessage, 100)))
	}
	if w := p.UserInputWaitState; w != nil {
		v.line("", v.yellow("waits for "+strings.ToLower(strings.ReplaceAll(clean(w.Type), "_", " "))+":"), shorten(w.Title, 100))
		if w.FormDescription != "" {
			v.line("", shorten(w.FormDescription, 100))
		}
	}
	if p.LastSeenAt != nil && !p.Completed {
		v.line("", v.faint("last sign of life "+duration(max(v.now.Sub(*p.LastSeenAt), 0).Round(time.Second))+" ago"))
	}
	v.children("", p)
}

func (v *view) children(indent string, p *planView) {
	n := len(p.AgentExecutionSequence) + len(p.SubPlanExecutionRecords)
	for i, st := range p.AgentExecutionSequence {
		branch, under := branches(i == n-1)
		attempt := ""
		if st.Attempt > 1 {
			attempt = "attempt " + strconv.Itoa(st.Attempt)
		}
		v.line(indent+branch, v.bold(cmp.Or(st.AgentName, "(unnamed agent)")), v.state(st.State), v.figures(st.Figures), attempt, v.faint(st.StepID))
		if st.ErrorMessage != "" {
			v.line(indent+under, v.red(shorten(st.ErrorMessage, 100)))
		}
		for j, sub := range st.SubPlanExecutionRecords {
			v.subPlan(indent+under, sub, j == len(st.SubPlanExecutionRecords)-1)
		}
	}
	for i, sub := range p.SubPlanExecutionRecords {
		v.subPlan(indent, sub, len(p.AgentExecutionSequence)+i == n-1)
	}
}

func (v *view) subPlan(indent string, p *planView, last bool) {
	branch, under := branches(last)
	tool := ""
	if p.ParentActToolCall != nil {
		tool = clean(p.ParentActToolCall.Name) + ":"
	}
	title := cmp.Or(p.Title, p.UserRequest, p.CurrentPlanID)
	v.line(indent+branch, tool, shorten(title, 70), v.state(p.State), v.figures(p.Total), inferred(p))
	if p.ErrorMessage != "" {
		v.line(indent+under, v.red(shorten(p.ErrorMessage, 100)))
	}
	v.children(indent+under, p)
}

func branches(last bool) (branch, under string) {
	if last {
		return "└─ ", "   "
	}
	return "├─ ", "│  "
}

func inferred(p *planView) string {
	if p.Link == "inferred" {
		return "(place inferred)"
	}
	return ""
}

// figures says in a few words what was done.
func (v *view) figures(f figuresView) string {
	if v.brief {
		return ""
	}
	var out []string
	if f.DurationMs != nil {
		out = append(out, duration(time.Duration(*f.DurationMs)*time.Millisecond))
	}
	for _, count := range []struct {
		n   int64
		one string
	}{{f.ModelCalls, "model call"}, {f.ToolCalls, "tool call"}, {f.Failures, "failure"}} {
		if count.n > 0 {
			out = append(out, plural(count.n, count.one))
		}
	}
	if f.InputTokens+f.OutputTokens > 0 {
		out = append(out, grouped(f.InputTokens)+" → "+grouped(f.OutputTokens)+" tokens")
	}
	if f.CostUSD != nil {
		out = append(out, dollars(*f.CostUSD))
	}
	return strings.Join(out, ", ")
}

// dollars shows an amount to a hundredth of a cent.
func dollars(usd float64) string {
	if usd > 0 && usd < 0.0001 {
		return "<$0.0001"
	}
	return "$" + strconv.FormatFloat(usd, 'f', 4, 64)
}

// step draws a step with its cycles and tool calls.
func (v *view) step(st *stepView) {
	v.line("", v.bold(cmp.Or(st.AgentName, st.StepID)), v.state(st.State), v.figures(st.Figures))
	if st.AgentRequest != "" {
		v.line("", "asked:   "+shorten(st.AgentRequest, 110))
	}
	for _, c := range st.ThinkActSteps {
		took, tokens := "", ""
		if c.ThinkStartTime != nil && c.ThinkEndTime != nil {
			took = duration(c.ThinkEndTime.Sub(*c.ThinkStartTime))
		}
		if c.InputTokens+c.OutputTokens > 0 {
			tokens = fmt.Sprintf("%s → %s tokens", grouped(c.InputTokens), grouped(c.OutputTokens))
		}
		v.line("", "")
		v.line("", v.bold("#"+strconv.Itoa(c.Seq)), v.state(c.State), clean(c.ModelName), took, tokens, clean(c.FinishReason))
		if c.ThinkInput != "" {
			v.line("   ", "in:      "+shorten(c.ThinkInput, 100)+"  "+v.faint("("+grouped(c.InputCharCount)+" characters)"))
		}
		if c.ThinkOutput != "" {
			v.line("   ", "thought: "+shorten(c.ThinkOutput, 110))
		}
		if c.ErrorMessage != "" {
			v.line("   ", v.red(shorten(c.ErrorMessage, 110)))
		}
		for _, t := range c.ActToolInfoList {
			took := ""
			if t.StartTime != nil && t.EndTime != nil {
				took = duration(t.EndTime.Sub(*t.StartTime))
			}
			v.line("   ", v.bold(t.Name), shorten(t.Parameters, 80), v.state(t.State), took)
			if t.ErrorMessage != "" {
				v.line("      ", v.red(shorten(t.ErrorMessage, 100)))
			} else if t.Result != "" {
				v.line("      ", shorten(t.Result, 110))
			}
		}
	}
	if st.ErrorMessage != "" {
		v.line("", v.red("error:   "+shorten(st.ErrorMessage, 110)))
	}
	if st.Result != "" {
		v.line("", "")
		v.line("", "result:  "+shorten(st.Result, 400))
	}
}

// shorten gives the beginning of a text on one line, fit for a terminal: what was
// recorded may hold anything, control sequences included.
func shorten(s string, limit int) string {
	var b strings.Builder
	n, space := 0, false
	for _, r := range s {
		if unicode.IsSpace(r) || unicode.IsControl(r) || !unicode.IsPrint(r) {
			space = b.Len() > 0
			continue
		}
		if n++; n > limit {
			b.WriteRune('…')
			break
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(r)
	}
	return b.String()
}

func duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// plural counts things.
func plural(n int64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(n) + " " + one + "s"
}

// grouped writes a number with commas.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func (v *view) state(s string) string {
	switch s = clean(s); s {
	case "COMPLETED":
		return v.paint("32", s)
	case "FAILED", "INTERRUPTED", "CANCELLED", "BLOCKED", "UNKNOWN":
		return v.red(s)
	case "RUNNING", "WAITING", "PAUSED", "AWAITING_APPROVAL":
		return v.yellow(s)
	}
	return v.faint(s)
}

func (v *view) bold(s string) string   { return v.paint("1", clean(s)) }
func (v *view) red(s string) string    { return v.paint("31", s) }
func (v *view) yellow(s string) string { return v.paint("33", s) }
func (v *view) faint(s string) string  { return v.paint("2", clean(s)) }

func (v *view) paint(code, s string) string {
	if !v.colour || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// clean is shorten for what must not be cut.
func clean(s string) string { return shorten(s, utf8.RuneCountInString(s)) }
