package code

import (
	"cmp"
	"fmt"
	"slices"
)

// The limits above which code smells.
const (
	maxComplexity = 12
	maxFunction   = 60 // lines
	maxNesting    = 4
	maxParameters = 5
	maxFileLines  = 800
)

// finding is something about some lines of a file, from LineStart to LineEnd, counted from 1.
type finding struct {
	Kind      string  `json:"kind"`
	Path      string  `json:"path"`
	LineStart int     `json:"lineStart"`
	LineEnd   int     `json:"lineEnd"`
	What      string  `json:"what"`
	Why       string  `json:"why"`
	Score     float64 `json:"score"` // how much it weighs, from 0 to 1
	Estimate  bool    `json:"estimate,omitempty"`
	Advice    string  `json:"advice,omitempty"`
	Patch     string  `json:"patch,omitempty"` // for code.apply_refactoring

	snippet string
	times   float64 // how many times the limit the value is; 0 if there is none
}

// weight is the score of a value that is above a limit: 0.5 at the limit, 1 from the double on.
func weight(value, limit int) float64 { return min(float64(value)/float64(2*limit), 1) }

// smells returns what smells, with what to do about it, the worst first. Nobody reads code that is
// generated.
func smells(files []measured) (found []finding) {
	files = slices.DeleteFunc(slices.Clone(files), func(m measured) bool { return m.generated })
	for _, m := range files {
		add := func(kind string, start, end, value, limit int, what, why, advice string) {
			if value > limit {
				found = append(found, finding{
					Kind: kind, Path: m.Path, LineStart: start, LineEnd: end, What: what, Why: why, Advice: advice,
					Score: weight(value, limit), Estimate: m.Estimate, snippet: m.snippet(start, end),
					times: float64(value) / float64(limit),
				})
			}
		}
		add("long_file", 1, max(m.Lines, 1), m.Lines, maxFileLines, fmt.Sprintf("The file has %d lines", m.Lines),
			fmt.Sprintf("more than %d are hard to find one's way in", maxFileLines),
			"Move what belongs together into a file of its own.")

		for _, f := range m.Functions {
			add("complex_function", f.LineStart, f.LineEnd, f.Complexity, maxComplexity,
				fmt.Sprintf("%s has a cyclomatic complexity of %d", f.Name, f.Complexity),
				fmt.Sprintf("more than %d paths are hard to follow and to test", maxComplexity), f.takeOut())
			add("long_function", f.LineStart, f.LineEnd, f.lines(), maxFunction,
				fmt.Sprintf("%s has %d lines", f.Name, f.lines()),
				fmt.Sprintf("more than %d do not fit on a screen", maxFunction), f.takeOut())

			add("deep_nesting", f.deepest, f.deepest, f.Nesting, maxNesting,
				fmt.Sprintf("%s is nested %d deep at line %d", f.Name, f.Nesting, f.deepest),
				fmt.Sprintf("one has to keep more than %d conditions in mind", maxNesting),
				fmt.Sprintf("End early (return, continue) where a condition around line %d does not hold, or move line %d and "+
					"what lies in it into a function.", f.deepest, f.deepest))

			add("many_parameters", f.LineStart, f.LineStart, f.Parameters, maxParameters,
				fmt.Sprintf("%s has %d parameters", f.Name, f.Parameters),
				fmt.Sprintf("callers mix up more than %d", maxParameters),
				"Group those that belong together in a type of their own.")
		}
	}

	for _, d := range duplicates(files) {
		m, other := files[d.file], files[d.earlier]
		found = append(found, finding{
			Kind: "duplicated_block", Path: m.Path, LineStart: d.start, LineEnd: d.end, Score: weight(d.lines, sameLines),
			snippet: m.snippet(d.start, d.end), times: float64(d.lines) / sameLines,
			What: fmt.Sprintf("%d lines of code are the same as lines %d to %d of %s", d.lines, d.fromStart, d.fromEnd,
				other.Path),
			Why:    "who changes one place has to find the other",
			Advice: fmt.Sprintf("Move lines %d to %d into a function that both places call.", d.start, d.end),
		})
	}

	slices.SortStableFunc(found, func(a, b finding) int {
		return cmp.Or(cmp.Compare(b.times, a.times), cmp.Compare(a.Path, b.Path), cmp.Compare(a.LineStart, b.LineStart))
	})
	return found
}

// takeOut says how a function can become smaller.
func (f function) takeOut() string {
	if f.largest.complexity > 0 {
		return fmt.Sprintf("Move lines %d to %d, with %d of its branches, into a function of their own.", f.largest.start,
			f.largest.end, f.largest.complexity)
	}
	return fmt.Sprintf("Move parts of lines %d to %d into functions of their own.", f.LineStart, f.LineEnd)
}
