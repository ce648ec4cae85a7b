package files

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

type editLinesArguments struct {
	Path      string `json:"path" jsonschema:"file, relative to the top folder"`
	StartLine int    `json:"start_line" jsonschema:"first line to replace, from 1"`
	EndLine   int    `json:"end_line" jsonschema:"last line to replace; start_line - 1 puts the text before start_line and replaces nothing"`
	Text      string `json:"text" jsonschema:"what the lines are replaced with: whole lines; empty deletes them"`
	OldText   string `json:"old_text,omitempty" jsonschema:"the lines as they are now, without their numbers: the check that the numbers are right"`
	FirstLine string `json:"first_line,omitempty" jsonschema:"instead of old_text, the first of the lines as it is now; to put text before a line, that line"`
	LastLine  string `json:"last_line,omitempty" jsonschema:"besides first_line, the last of the lines as it is now"`
}

func (in editLinesArguments) check() error {
	switch {
	case in.StartLine < 1:
		return errors.New("start_line: lines are counted from 1")
	case in.EndLine < in.StartLine-1:
		return errors.New("end_line: it is before start_line")
	}
	return nil
}

// checked returns an error if nothing says what the lines are now, so that wrong numbers would change others.
func (in editLinesArguments) checked() error {
	switch {
	case in.OldText == "" && in.FirstLine == "":
		return errors.New("old_text: give the lines as they are now, or first_line and last_line, so that wrong numbers " +
			"change nothing")
	case in.OldText == "" && in.LastLine == "" && in.EndLine > in.StartLine:
		return errors.New("last_line: give the last of the lines as it is now, besides first_line")
	}
	return nil
}

func (in editLinesArguments) summary(at string) string {
	if in.EndLine < in.StartLine {
		return fmt.Sprintf("Added %s before line %d of %s", count(len(splitLines(in.Text)), "line", "lines"), in.StartLine,
			at)
	}
	if in.EndLine == in.StartLine {
		return fmt.Sprintf("Edited line %d of %s", in.StartLine, at)
	}
	return fmt.Sprintf("Edited lines %d to %d of %s", in.StartLine, in.EndLine, at)
}

func (f *Folder) editLines(_ context.Context, in editLinesArguments) (change, error) {
	if err := in.check(); err != nil {
		return change{}, err
	}
	at, before, info, err := f.text(in.Path)
	if err != nil {
		return change{}, err
	}
	old := splitLines(before)
	if err := in.fits(at, old); err != nil {
		return change{}, err
	}

	after := strings.Join(old[:in.StartLine-1], "") + in.text(old) + strings.Join(old[in.EndLine:], "")
	if after == before {
		return change{}, errors.New("text: it is the same as the lines that are there")
	}
	return f.replacing(at, []byte(before), []byte(after), info, in.summary(at))
}

// fits returns an error if the lines of a file are not those that are meant. It says what is there instead.
func (in editLinesArguments) fits(at string, old []string) error {
	if in.StartLine > len(old)+1 || in.EndLine > len(old) {
		return fmt.Errorf("end_line: %s has only %s", at, count(len(old), "line", "lines"))
	}
	meant := old[in.StartLine-1 : in.EndLine]
	if in.EndLine < in.StartLine && in.StartLine <= len(old) { // the text is put before this one
		meant = old[in.StartLine-1 : in.StartLine]
	}

	if len(meant) == 0 { // at the end, nothing is there to compare
		return nil
	}
	if err := in.checked(); err != nil {
		return err
	}

	switch {
	case in.OldText != "" && plainLines(in.OldText) != plainLines(strings.Join(meant, "")):
		return in.other(at, "old_text", in.OldText, old)
	case in.FirstLine != "" && plainLines(in.FirstLine) != plainLines(meant[0]):
		return in.other(at, "first_line", in.FirstLine, old)
	case in.LastLine != "" && plainLines(in.LastLine) != plainLines(meant[len(meant)-1]):
		return in.other(at, "last_line", in.LastLine, old)
	}
	return nil
}

// other returns the error of a check that failed, with what is there, and where what was meant is.
func (in editLinesArguments) other(at, argument, meant string, old []string) error {
	content := strings.Join(old, "")
	first := max(in.StartLine-2, 1)
	there := showLines(old, first, min(in.EndLine+2, first+maxNear))

	where := ""
	if places := wholeLines(old, splitLines(meant)); len(places) > 0 {
		where = fmt.Sprintf("; it is at line %s", strings.Join(places, ", "))
	} else if argument == "old_text" {
		where = nearest(content, meant)
	}
	return fmt.Errorf("%s: the lines of %s are others, so nothing was changed%s. Around line %d there is:\n%s", argument,
		at, where, in.StartLine, there)
}

// text returns the new lines as they are written: they end as the lines of the file do.
func (in editLinesArguments) text(old []string) string {
	last := ""
	if len(old) > 0 {
		last = old[len(old)-1]
	}
	text, newline := in.Text, "\n"
	if len(old) > 0 && strings.HasSuffix(old[0], "\r\n") {
		newline = "\r\n"
		text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", newline)
	}

	switch complete := strings.HasSuffix(text, newline); {
	case text == "" || complete:
		return text
	case in.EndLine < len(old) || strings.HasSuffix(last, "\n"):
		return text + newline
	case in.StartLine > len(old) && last != "": // the last line of the file has no end
		return newline + text
	}
	return text
}

// linesEdited reports whether an edit of lines took effect: the new lines are where they belong, and the old ones
// are not.
func (f *Folder) linesEdited(_ context.Context, in editLinesArguments) (change, bool, error) {
	if err := in.check(); err != nil {
		return change{}, false, err
	}
	at, now, _, err := f.text(in.Path)
	if err != nil {
		return change{}, false, err
	}

	lines, wanted := splitLines(now), splitLines(in.Text)
	end := in.StartLine - 1 + len(wanted)
	if end > len(lines) || plainLines(strings.Join(lines[in.StartLine-1:end], "")) != plainLines(in.Text) {
		return change{}, false, nil
	}
	insertion := in.EndLine < in.StartLine // the line after what was put in is the one that was meant
	replaced := in.fits(at, lines) != nil
	return change{summary: in.summary(at), paths: []string{at}}, insertion || replaced, nil
}
