package web

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/decision"
	"github.com/actlog/actlog/record"
)

// readWait adds the texts of a question for reading: what is asked, and all of what is decided on.
func (v *runView) readWait(w *record.Wait) {
	d := v.detail
	d.text(&passage{id: "title", label: "question", text: optional.Value(w.Title)})
	subject := decision.SubjectOf(w)
	if plan, ok := decision.ReadPlan(subject.Plan); ok {
		d.plan = &plan
	}

	// it says the same as the plan
	d.text(&passage{
		id: "formDescription", label: "explanation", text: optional.Value(w.FormDescription), aside: d.plan != nil,
	})
	d.text(&passage{id: "subject/name", label: "tool", text: optional.Value(subject.Name), exact: true})
	d.text(&passage{id: "subject/parameters", label: "parameters", text: jsonUnlessNull(subject.Parameters), exact: true})
	_, texts := decision.TakeTexts(subject.Parameters)
	for i, text := range texts {
		d.text(&passage{
			id: fmt.Sprint("subject/parameters/", i), label: "parameter", about: text[0], text: text[1], exact: true,
		})
	}

	d.text(&passage{id: "subject/files", label: "files", text: strings.Join(subject.Files, "\n"), exact: true})
	if p := subject.Preview; p != nil {
		d.text(&passage{id: "subject/preview", label: "preview", about: p.Kind + ", sha256 " + p.SHA256, text: p.Text,
			exact: true})
	}
	known := d.plan != nil || subject.Name != nil || jsonUnlessNull(subject.Parameters) != "" || len(subject.Files) > 0
	d.text(&passage{id: "subject", label: "what it is about", text: string(w.Subject), aside: known, exact: true})

	v.readForm(w)
	d.text(&passage{id: "decision", label: "answer", text: optional.Value(w.Decision)})
	d.text(&passage{id: "decisionText", label: "remark", text: optional.Value(w.DecisionText)})
}

// readForm adds the fields of a form with their answers. One that can be answered here is a form, and no text.
func (v *runView) readForm(w *record.Wait) {
	d := v.detail
	form, err := decision.ReadForm(w.FormInputs)
	if len(w.FormInputs) == 0 {
		return
	}

	for i, field := range form {
		if value := field["value"]; value != "" && err == nil && optional.Value(w.State) != record.Waiting {
			d.text(&passage{id: fmt.Sprint("formInputs/", i), label: "answer", about: field["label"], text: value})
		}
	}

	d.text(&passage{
		id: "formInputs", label: "form", text: string(w.FormInputs), aside: d.answer != nil ||
			optional.Value(w.State) != record.Waiting,
	})
}

// jsonUnlessNull returns JSON as a text; empty if it is null.
func jsonUnlessNull(raw []byte) string {
	if string(raw) == "null" {
		return ""
	}
	return string(raw)
}

// exactly returns a text in which characters that show nothing, or turn others around, are seen: what is decided on
// must not look like something else.
func exactly(text string) string {
	if strings.IndexFunc(text, hides) < 0 {
		return text
	}

	var b strings.Builder
	for _, r := range text {
		switch {
		case !hides(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func hides(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }
