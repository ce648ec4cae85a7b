package treesitter

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Problem is an error of syntax.
type Problem struct {
	Line   int    `json:"line"`   // from 1
	Column int    `json:"column"` // in characters, from 1
	What   string `json:"what"`
}

// String returns the problem as compilers print it.
func (p Problem) String() string { return fmt.Sprintf("%d:%d: %s", p.Line, p.Column, p.What) }

const maxProblems = 100

// Problems returns the errors of syntax in the order of the text, at most 100.
func (t *Tree) Problems() (found []Problem) {
	if !t.Broken && t.language != Python {
		return nil
	}

	for i, n := range t.Nodes {
		if len(found) == maxProblems {
			break
		}

		switch {
		case n.Missing:
			found = append(found, t.problem(n.Start, n.Type+" is missing"))
		case n.Type == ErrorType:
			found = append(found, t.problem(n.Start, unfit(n, t.Text(i))))
		case t.language == Python && n.Type == "block" && n.Start == n.End: // the grammar takes it, Python does not
			found = append(found, t.problem(n.Start, "an indented block is missing"))
		}
	}
	return found
}

func (t *Tree) problem(at int, what string) Problem {
	line := lineAt(t.lines, at)
	return Problem{line, utf8.RuneCount(t.text[t.lines[line-1]:at]) + 1, what}
}

// maxShown bounds how much of a text a problem shows, in characters.
const maxShown = 60

// unfit says what a part is that no rule fits, by its beginning.
func unfit(n Node, text string) string {
	line, _, _ := strings.Cut(text, "\n")
	r := []rune(strings.TrimRight(line, "\r"))
	r = r[:min(len(r), maxShown)]
	if n.EndLine > n.Line {
		return fmt.Sprintf("the lines from here to %d cannot be parsed; they begin with %q", n.EndLine, string(r))
	}
	return fmt.Sprintf("this cannot be parsed: %q", string(r))
}
