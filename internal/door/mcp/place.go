package mcp

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/view/outline"
	"github.com/actlog/actlog/internal/view/words"
)

const (
	// nameChars is how much of a name is shown in a list, and briefChars how much of an error.
	nameChars  = 120
	briefChars = 300
	// maxPath is how many rows of a path are shown.
	maxPath = 40
)

// place is a row of a run: a plan, a step, a cycle, a tool call or a wait.
type place struct {
	At    string `json:"at,omitempty"`
	Kind  string `json:"kind"`
	Name  string `json:"name,omitempty"`
	State string `json:"state,omitempty"`
}

func placeOf(r *outline.Row) place {
	name := words.Shorten(r.Name(), nameChars)
	if r.Cycle != nil {
		name = cycleName(r.Cycle.Record.Seq)
	}
	return place{r.At, string(r.Key().Kind), name, string(r.Shown())}
}

// cycleName is what people call a cycle. They count from 1.
func cycleName(seq int64) string { return "cycle " + strconv.FormatInt(seq+1, 10) }

// pathTo returns the rows above a row. Of a long path, a place without an address says how many are left out after the
// first one.
func pathTo(o *outline.Outline, row int) []place {
	path := []place{}
	above := o.Path(o.Rows[row].Parent)
	left := max(0, len(above)-maxPath)
	for i, at := range above {
		switch {
		case i == 1 && left > 0:
			path = append(path, place{Kind: "gap", Name: words.Plural(int64(left), "row") + " left out"})
		case i >= 1 && i <= left:
		default:
			path = append(path, placeOf(&o.Rows[at]))
		}
	}
	return path
}

// findRow returns the row of an address; the first one of an empty address.
func findRow(o *outline.Outline, argument, at string) (row int, err error) {
	if at == "" {
		return 0, nil
	}

	row, ok := o.Find(at)
	if !ok {
		return 0, httpd.BadField(argument,
			"must be the address (at) of a row of this run, as read_run, failures and search return it")
	}
	return row, nil
}

// span is when something went on.
type span struct {
	Began      *time.Time `json:"began,omitempty"`
	Ended      *time.Time `json:"ended,omitempty"`
	DurationMs *int64     `json:"durationMs,omitempty"`
}

func spanOf(r *outline.Row) span {
	var s span
	s.Began, s.Ended = r.Times()
	s.DurationMs = tree.Duration(s.Began, s.Ended)
	return s
}

// figures are what calls cost.
type figures struct {
	ModelCalls   int64    `json:"modelCalls,omitempty"`
	ToolCalls    int64    `json:"toolCalls,omitempty"`
	InputTokens  int64    `json:"inputTokens,omitempty"`
	OutputTokens int64    `json:"outputTokens,omitempty"`
	CostUSD      *float64 `json:"costUsd,omitempty"`
}

func figuresOf(f *tree.Figures) figures {
	return figures{f.ModelCalls, f.ToolCalls, f.InputTokens, f.OutputTokens, f.CostUSD}
}

// errorText says what is wrong with a row; empty: nothing is known.
func errorText(kind, message *string) string {
	return strings.Trim(optional.Value(kind)+": "+optional.Value(message), ": ")
}

// errorOf is the beginning of errorText, in one line.
func errorOf(kind, message *string) string {
	return words.Shorten(errorText(kind, message), briefChars)
}

// errorLine is the kind of an error, and the line that says what happened.
func errorLine(f *tree.Failure) string {
	kind, text := optional.Value(f.Kind), f.Text()
	if kind != "" && text != "" {
		return kind + ": " + text
	}
	return kind + text
}

// passage is a text of a row, or a part of it.
type passage struct {
	Field string `json:"field"`
	Text  string `json:"text"`
	// Chars is how long the whole text is, in characters.
	Chars int `json:"chars"`
	// Offset is where the passage begins, and Next where what follows does; nil: nothing follows.
	Offset int  `json:"offset,omitempty"`
	Next   *int `json:"nextOffset,omitempty"`
	// Truncated: the text was too long for the record, which has its beginning.
	Truncated bool `json:"truncated,omitempty"`
}

// cutPassage returns so many characters of a text, from an offset on, as long as there is room for them.
func cutPassage(field, text string, offset, most int, left *room) passage {
	p := passage{Field: field, Chars: utf8.RuneCountInString(text), Offset: offset}
	from, to := len(text), len(text)
	n := 0
	for i, r := range text {
		if n == offset {
			from = i
		}
		if n >= offset {
			if *left -= room(encoded(r)); n == offset+most || *left < 0 {
				to = i
				p.Next = new(n)
				break
			}
		}
		n++
	}

	p.Text = text[min(from, to):to]
	return p
}

// encoded is how many bytes a character takes in JSON.
func encoded(r rune) int {
	switch {
	case r < ' ':
		return len(`\u0000`)
	case r == '"' || r == '\\':
		return len(`\"`)
	}
	return utf8.RuneLen(r)
}

// clip returns the beginning of a text.
func clip(text string, most int, left *room) string {
	p := cutPassage("", text, 0, most, left)
	if p.Next != nil {
		return p.Text + "…"
	}
	return p.Text
}
