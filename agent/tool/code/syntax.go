package code

import (
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/scanner"
	"go/token"
	"strings"
	"unicode/utf8"

	"github.com/actlog/actlog/agent/tool/code/internal/treesitter"
)

// breaks returns an error if a change makes errors of syntax in a file of a language that is parsed: in a file that had
// none before, or in the part that changes if that had none. What cannot be parsed in time is not judged.
func breaks(ctx context.Context, at, before, after string) error {
	found, ok := syntaxErrors(ctx, at, after)
	if !ok || len(found) == 0 {
		return nil
	}

	old, ok := syntaxErrors(ctx, at, before)
	if !ok {
		return nil
	}
	if len(old) > 0 {
		from, to, toBefore := changedLines(before, after)
		if len(within(old, from, toBefore)) > 0 {
			return nil // somebody repairs it
		}
		if found = within(found, from, to); len(found) == 0 {
			return nil
		}
	}

	first := found[0]
	text := fmt.Sprintf("%s would have an error of syntax (%s): line %d, column %d: %s",
		at, languageOf(at), first.Line, first.Column, first.What)
	if line := lineOf(after, first.Line); line != "" {
		text += fmt.Sprintf("; the line would be %q", line)
	}
	if more := len(found) - 1; more > 0 {
		text += fmt.Sprintf("; and %d more errors", more)
	}
	return errors.New(text)
}

// syntaxErrors returns the errors of syntax of a text. It reports false if nobody can tell.
func syntaxErrors(ctx context.Context, at, text string) (found []syntaxError, ok bool) {
	if languageOf(at) == "Go" {
		_, err := parser.ParseFile(token.NewFileSet(), at, text, parser.SkipObjectResolution|parser.AllErrors)
		var list scanner.ErrorList
		errors.As(err, &list)
		for _, e := range list {
			found = append(found, syntaxError{Line: e.Pos.Line, Column: e.Pos.Column, What: e.Msg})
		}
		return found, true
	}

	g, ok := grammarOf(at)
	if !ok {
		return nil, false
	}
	tree, err := treesitter.Parse(ctx, g.of, []byte(text))
	if err != nil {
		return nil, false
	}
	return tree.Problems(), true
}

// changedLines returns the lines of a text from the first to the last one that a change made, and where they ended
// before. Where lines only go, they are those beside the gap.
func changedLines(before, after string) (first, last, lastBefore int) {
	a, b := linesOf(before), linesOf(after)
	first, end := same(a, b)
	return first, len(b) - end + 1, len(a) - end + 1
}

func within(found []syntaxError, first, last int) (some []syntaxError) {
	for _, e := range found {
		if first <= e.Line && e.Line <= last {
			some = append(some, e)
		}
	}
	return some
}

// maxLineShown bounds how much of a line an error shows, in characters.
const maxLineShown = 120

// lineOf returns a line of a text without its break, or nothing.
func lineOf(text string, number int) string {
	lines := linesOf(text)
	if number < 1 || number > len(lines) {
		return ""
	}

	line := strings.TrimRight(lines[number-1], "\r")
	if utf8.RuneCountInString(line) > maxLineShown {
		line = string([]rune(line)[:maxLineShown])
	}
	return line
}

func linesOf(text string) []string { return strings.Split(text, "\n") }
