package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/actlog/actlog/cmd/actlog/internal/terminal"
	"github.com/actlog/actlog/internal/runtime/decision"
	"github.com/actlog/actlog/internal/view/words"
	"github.com/actlog/actlog/record"
)

// waitView is what the commands read of a wait of a run: a form, or a decision about a subject.
type waitView struct {
	WaitID, PlanID, Type, State  string
	Title, FormDescription, Name string
	FormInputs, Parameters, Plan json.RawMessage
	Preview                      *decision.Preview
	Decisions, Files             []string
	AskedAt, ExpiresAt           *time.Time
	Decision, DecidedBy, By      string
}

// draw draws what the wait is about, whole: a human who approves has to see everything, and is told last what is not
// shown as it is.
func (w *waitView) draw(v *view) {
	defer func(width int) { v.width = width }(v.width)
	v.width = 0 // to wrap lines leaves out blanks where they end
	s := subject{view: v}
	v.line("", v.yellow(s.line(cmp.Or(w.Title, "A human is asked"))), v.faint(w.WaitID))

	if plan := planText(w.Plan); plan != "" {
		s.paragraph("  ", plan)
	} else {
		s.paragraph("  ", w.FormDescription)
		s.json("plan: ", w.Plan)
	}

	rest, texts := decision.TakeTexts(w.Parameters)
	s.json("", rest)
	for _, text := range texts {
		v.line("  ", s.line(text[0])+":")
		s.paragraph("    ", text[1])
	}

	if len(w.Files) > 0 {
		v.line("  ", "files: "+s.line(strings.Join(w.Files, ", ")))
	}
	if w.Preview != nil {
		v.line("  ", s.line(w.Preview.Label())+":")
		s.paragraph("    ", w.Preview.Text)
	}
	if w.ExpiresAt != nil {
		v.line("  ", v.faint("until "+w.ExpiresAt.Local().Format(time.DateTime)))
	}

	s.drawWarnings()
}

// planText returns all that a plan says, for people; empty: it is none.
func planText(raw json.RawMessage) string {
	p, ok := decision.ReadPlan(raw)
	if !ok {
		return ""
	}

	var b strings.Builder
	fmt.Fprintf(&b, "Goal: %s\nEstimated duration: %d s\n", p.Goal, p.EstimatedDuration)
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "%d. %s: %s (%s)\n", s.StepNumber, s.AgentType, s.Action, s.Justification)
		if s.ExpectedOutput != "" {
			fmt.Fprintf(&b, "   expected: %s\n", s.ExpectedOutput)
		}
		if len(s.Dependencies) > 0 {
			fmt.Fprintf(&b, "   needs: %s\n", strings.Trim(fmt.Sprint(s.Dependencies), "[]"))
		}
	}
	return b.String()
}

// maxSubject is how many characters of a text are shown.
const maxSubject = 20_000

// subject draws what is decided on, and counts what it does not show as it is.
type subject struct {
	view    *view
	escaped int // characters that cannot be seen, and are written as \uXXXX
	omitted int // of runs of blanks and of empty lines
	cut     int // after what is shown
	rows    int // of a terminal that it takes, about
}

const (
	// usualWidth and usualHeight are those of a terminal.
	usualWidth  = 80
	usualHeight = 24
)

var (
	// emptyLines and blanks are so many that they would push the text off the screen.
	emptyLines = regexp.MustCompile(`\n([ \t]*\n){4,}`)
	blanks     = regexp.MustCompile(`[ \t]{41,}`)
)

// shown returns a text as a human can judge it.
func (s *subject) shown(text string) string {
	text, escaped := terminal.Exact(text)
	s.escaped += escaped
	text = emptyLines.ReplaceAllStringFunc(text, func(run string) string {
		s.omitted += len(run)
		return "\n[… " + words.Plural(int64(strings.Count(run, "\n")-1), "empty line") + " …]\n"
	})
	text = blanks.ReplaceAllStringFunc(text, func(run string) string {
		s.omitted += len(run)
		return "[… " + words.Plural(int64(len(run)), "blank") + " …]"
	})

	all := []rune(text)
	more := len(all) - maxSubject
	if more <= 0 {
		return text
	}
	s.cut += more
	return string(all[:maxSubject]) + fmt.Sprintf("… and %s; --json shows all", words.Plural(int64(more), "character"))
}

// line returns a text as a piece of a line.
func (s *subject) line(text string) string {
	text = terminal.Line(s.shown(text))
	s.rows += columns(text) / usualWidth
	return text
}

// paragraph draws a text with all of its lines, unless it is empty.
func (s *subject) paragraph(prefix, text string) {
	for line := range strings.Lines(s.shown(text)) {
		s.rows += 1 + columns(line)/usualWidth
		s.view.line(prefix, strings.TrimSuffix(line, "\n"))
	}
}

// json draws JSON, unless there is none.
func (s *subject) json(label string, raw json.RawMessage) {
	if len(raw) == 0 || string(raw) == "null" {
		return
	}
	var pretty bytes.Buffer
	if json.Indent(&pretty, raw, "", "  ") != nil {
		return
	}
	s.paragraph("  ", label+pretty.String())
}

// drawWarnings says how many characters were escaped, left out or cut.
func (s *subject) drawWarnings() {
	var notes []string
	for _, note := range []struct {
		n    int
		what string
	}{
		{s.escaped, "that cannot be seen: shown as \\uXXXX"},
		{s.omitted, "of long runs of blanks and empty lines: left out"},
		{s.cut, "at the end of long texts: left out; --json shows all"},
	} {
		if note.n > 0 {
			notes = append(notes, words.Plural(int64(note.n), "character")+" "+note.what)
		}
	}

	if len(notes) > 0 {
		s.view.line("  ", s.view.yellow("Not shown as it is: "+strings.Join(notes, "; ")))
	}
	if s.rows > usualHeight {
		s.view.line(
			"  ", s.view.yellow("It takes about "+words.Plural(int64(s.rows), "line")+": scroll up to read all of it"),
		)
	}
}

// drawFields draws what the fields of a form ask for.
func (w *waitView) drawFields(v *view) {
	if w.Type != string(record.WaitUserInput) {
		return
	}

	form, err := decision.ReadForm(w.FormInputs)
	if err != nil {
		return
	}

	for _, field := range form {
		v.line("  ", "field "+strings.TrimSuffix(fieldQuestion(field), ": "))
	}
}

func waitsFor(kind string) string {
	return "waits for " + strings.ToLower(strings.ReplaceAll(words.Clean(kind), "_", " ")) + ":"
}

// mostAsking is how many plans of a tree are asked what they wait for.
const mostAsking = 20

// openWaits returns what a plan and those below it wait for, with what is to be decided on.
func (c *client) openWaits(ctx context.Context, p *planView) (waits []waitView, err error) {
	if p.UserInputWaitState == nil {
		return nil, nil
	}

	if p.Executor != "" { // it may be one of the runtime, which knows them all
		if r, _, err := c.readRun(ctx, p.RootPlanID); err == nil {
			waits = p.waitsBelow(r.Waits)
		}
		if len(waits) > 0 {
			return waits, nil
		}
	}

	for _, asking := range p.asking() {
		var page struct {
			Items []struct {
				waitView
				Subject struct {
					Parameters, Plan json.RawMessage
					Files            []string
					Preview          *decision.Preview
				}
			}
		}

		path := withQuery(planPath(asking.CurrentPlanID)+"/waits", url.Values{"root": {p.RootPlanID}, "limit": {"500"}})
		if err := c.get(ctx, named("waits of plan", asking.CurrentPlanID), path, &page); err != nil {
			return waits, err
		}
		for i := range page.Items {
			w := &page.Items[i]
			w.Parameters, w.Plan = w.Subject.Parameters, w.Subject.Plan
			w.Files, w.Preview = w.Subject.Files, w.Subject.Preview
			if w.State == string(record.Waiting) {
				waits = append(waits, w.waitView)
			}
		}
	}

	return waits, nil
}

// waitsBelow returns those of the waits of a run that are of a plan, or of one below it that is shown.
func (p *planView) waitsBelow(all []waitView) []waitView {
	if p.CurrentPlanID == p.RootPlanID {
		return all
	}

	shown := map[string]bool{}
	for _, of := range p.allPlans(nil) {
		shown[of.CurrentPlanID] = true
	}
	return slices.DeleteFunc(all, func(w waitView) bool { return !shown[w.PlanID] })
}

// asking returns the plans of a tree that may wait: those that have not ended first.
func (p *planView) asking() []*planView {
	all := p.allPlans(nil)
	slices.SortStableFunc(all, func(a, b *planView) int {
		switch {
		case a.Completed == b.Completed:
			return 0
		case b.Completed:
			return -1
		}
		return 1
	})
	return all[:min(len(all), mostAsking)]
}

func (p *planView) allPlans(found []*planView) []*planView {
	found = append(found, p)
	for _, sub := range p.SubPlanExecutionRecords {
		found = sub.allPlans(found)
	}
	for _, st := range p.AgentExecutionSequence {
		for _, sub := range st.SubPlanExecutionRecords {
			found = sub.allPlans(found)
		}
	}
	return found
}

// waits draws what a plan waits for, each whole, and what may be decided.
func (v *view) waits(waits []waitView) {
	for i := range waits {
		w := &waits[i]
		v.line("", v.yellow(waitsFor(w.Type)))
		w.draw(v)
		w.drawFields(v)
		if len(w.Decisions) > 0 {
			v.line("  ", "decisions: "+words.Clean(strings.Join(w.Decisions, ", ")))
		}
	}
}

// decide is what a human decided about a wait, as the server takes it.
type decide struct {
	Decision string            `json:"decision"`
	Values   map[string]string `json:"values,omitempty"`
	Text     string            `json:"text,omitempty"`
	By       string            `json:"by,omitempty"`
}

// check returns what is wrong with a decision before it is sent. The error names the member or the field.
func (w *waitView) check(d decide) error {
	subject, err := json.Marshal(map[string][]string{"decisions": w.Decisions})
	if err != nil {
		return err
	}
	values := map[string]json.RawMessage{}
	for name, value := range d.Values {
		values[name], _ = json.Marshal(value) // a text: it cannot fail
	}

	decided := decision.Decision{Decision: d.Decision, Text: d.Text, Claim: d.By, Values: values}
	_, err = decided.About(&record.Wait{
		Type: new(record.WaitType(w.Type)), FormInputs: w.FormInputs, Subject: subject,
	})
	if bad, ok := errors.AsType[*record.InvalidError](err); ok {
		return usageError(words.Clean(bad.Field) + " " + words.Clean(bad.Reason))
	}
	return err
}

// answer sends a decision about a wait of a run. A [lateError] means that somebody else was faster, that
// the wait has expired, or that the run has ended.
func (c *client) answer(ctx context.Context, planID, waitID string, d decide) (json.RawMessage, error) {
	var answered json.RawMessage
	err := c.post(ctx, named("answer", waitID), runPath(planID)+"/waits/"+url.PathEscape(waitID), nil, d, &answered)
	return answered, err
}
