package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/actlog/actlog/internal/decision"
	"github.com/actlog/actlog/internal/words"
	"github.com/actlog/actlog/record"
)

// waitView is what the commands read of a wait of a run: a form, or a decision about a subject.
type waitView struct {
	WaitID, PlanID, Type, State  string
	Title, FormDescription, Name string
	FormInputs, Parameters, Plan json.RawMessage
	Decisions, Files             []string
	AskedAt, ExpiresAt           *time.Time
	Decision, DecidedBy, By      string
}

// maxSubject is how many characters of a subject are shown.
const maxSubject = 20_000

// draw draws what the wait is about, whole: a human who approves has to see everything.
func (w *waitView) draw(v *view) {
	v.line("", v.yellow(cmp.Or(words.Clean(w.Title), "A human is asked")), v.faint(w.WaitID))
	if plan := planText(w.Plan); plan != "" {
		v.paragraph("  ", clipped(plan))
	} else {
		v.paragraph("  ", w.FormDescription)
		v.subject("plan: ", w.Plan)
	}
	rest, texts := decision.Apart(w.Parameters)
	v.subject("", rest)
	for _, text := range texts {
		v.line("  ", words.Clean(text[0])+":")
		v.paragraph("    ", clipped(text[1]))
	}
	if len(w.Files) > 0 {
		v.line("  ", "files: "+joined(w.Files))
	}
	if w.ExpiresAt != nil {
		v.line("  ", v.faint("until "+w.ExpiresAt.Local().Format(time.DateTime)))
	}
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

// clipped returns a text as far as it is shown.
func clipped(s string) string {
	text := []rune(s)
	more := len(text) - maxSubject
	if more <= 0 {
		return s
	}
	return string(text[:maxSubject]) + fmt.Sprintf("… and %s; --json shows all", words.Plural(int64(more), "character"))
}

// subject draws JSON, unless there is none.
func (v *view) subject(label string, raw json.RawMessage) {
	if len(raw) == 0 || string(raw) == "null" {
		return
	}
	var pretty bytes.Buffer
	if json.Indent(&pretty, raw, "", "  ") != nil {
		return
	}
	v.paragraph("  ", label+clipped(pretty.String()))
}

// paragraph draws a text with all of its lines, unless it is empty.
func (v *view) paragraph(prefix, text string) {
	for line := range strings.Lines(visible(text)) {
		v.line(prefix, strings.TrimSuffix(line, "\n"))
	}
}

// row is the wait as a line of a table.
func (w waitView) row() string {
	return strings.Join([]string{words.Clean(w.WaitID), words.Clean(strings.Join(w.Decisions, ", ")), words.Shorten(cmp.Or(w.Title, w.FormDescription), 100)}, "\t")
}

const waitsHeader = "WAIT\tDECISION\tTITLE"

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
	_, err = d.about().About(&record.Wait{Type: new(record.WaitType(w.Type)), FormInputs: w.FormInputs, Subject: subject})
	if bad, ok := errors.AsType[*record.InvalidError](err); ok {
		return usageError(words.Clean(bad.Field) + " " + words.Clean(bad.Reason))
	}
	return err
}

func (d decide) about() decision.Decision {
	out := decision.Decision{Decision: d.Decision, Text: d.Text, Claim: d.By, Values: map[string]json.RawMessage{}}
	for name, value := range d.Values {
		out.Values[name], _ = json.Marshal(value) // a text: it cannot fail
	}
	return out
}

// answer sends a decision about a wait of a run. A [lateError] means that somebody else was faster, that
// the wait has expired, or that the run has ended.
func (c *client) answer(ctx context.Context, planID, waitID string, d decide) (json.RawMessage, error) {
	var answered json.RawMessage
	err := c.post(ctx, "answer "+waitID, runPath(planID)+"/waits/"+url.PathEscape(waitID), nil, d, &answered)
	return answered, err
}
