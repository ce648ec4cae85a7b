package redact

import (
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

// openRun returns where the run of a text begins that goes on at a place.
func openRun(in *[256]bool) func(text string, from, end int, split bool) int {
	return func(text string, from, end int, _ bool) int {
		if end < len(text) && !in[text[end]] {
			return end
		}

		at := end
		for at > from && in[text[at-1]] {
			at--
		}
		return at
	}
}

// openMatch returns where the first match of an expression may begin that goes on at a place, or that more text could
// change. The expression can be read.
func openMatch(expression string) func(text string, from, end int, split bool) int {
	none := func(_ string, from, _ int, _ bool) int { return from }
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return none
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return none
	}

	return func(text string, from, end int, split bool) int {
		m := machine{prog: prog, split: split, began: make([]int, len(prog.Inst))}
		before := rune(-1)
		if from > 0 {
			before, _ = utf8.DecodeLastRuneInString(text[:from])
		}

		for at := from; at < end; {
			r, size := utf8.DecodeRuneInString(text[at:])
			if r == utf8.RuneError && size == 1 && !utf8.FullRuneInString(text[at:]) { // half a character
				return m.first(at, -1)
			}
			m.step(at, before, r)
			before, at = r, at+size
		}

		next := rune(-1)
		if end < len(text) {
			next, _ = utf8.DecodeRuneInString(text[end:])
		}
		return m.first(end, next)
	}
}

// machine follows all ways in which a text may match an expression, and knows where each began.
type machine struct {
	prog  *syntax.Prog
	split bool     // parts of the text are texts of their own, so that any assertion may hold anywhere
	now   []uint32 // the instructions that wait for a character
	began []int    // where what comes to an instruction began, plus one
}

func (m *machine) step(at int, before, r rune) {
	flags := syntax.EmptyOpContext(before, r)
	ways := m.closure(at, func(op syntax.EmptyOp) bool { return m.split || op&^flags == 0 })
	began := make(map[uint32]int, len(ways))
	var next []uint32
	for _, pc := range ways {
		i := &m.prog.Inst[pc]
		if i.Op != syntax.InstEmptyWidth && i.MatchRune(r) {
			if b, known := began[i.Out]; !known {
				next = append(next, i.Out)
				began[i.Out] = m.began[pc]
			} else {
				began[i.Out] = min(b, m.began[pc])
			}
		}
	}

	clear(m.began)
	for pc, b := range began {
		m.began[pc] = b
	}
	m.now = next
}

// first returns where the first way began that goes on at a place, with the next character if there is one, or that may
// end there: whether an assertion holds is only known when there is more text, or none.
func (m *machine) first(end int, next rune) int {
	m.closure(end, func(syntax.EmptyOp) bool { return true })
	first := end
	for pc, began := range m.began {
		if began == 0 {
			continue
		}

		switch i := &m.prog.Inst[pc]; i.Op {
		case syntax.InstEmptyWidth:
			first = min(first, began-1)
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			if next < 0 || i.MatchRune(next) {
				first = min(first, began-1)
			}
		}
	}
	return first
}

// closure returns the instructions that wait for a character, from those of now and from the beginning of the
// expression at a place.
func (m *machine) closure(at int, holds func(syntax.EmptyOp) bool) (ways []uint32) {
	type way struct {
		pc    uint32
		began int
	}

	todo := make([]way, 0, len(m.now)+1)
	for _, pc := range m.now {
		todo = append(todo, way{pc, m.began[pc]})
	}
	todo = append(todo, way{uint32(m.prog.Start), at + 1})
	// the first one is taken last, from the end
	slices.SortStableFunc(todo, func(a, b way) int { return b.began - a.began })
	clear(m.began)

	for len(todo) > 0 {
		w := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if m.began[w.pc] != 0 && m.began[w.pc] <= w.began {
			continue
		}
		m.began[w.pc] = w.began

		switch i := &m.prog.Inst[w.pc]; i.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			todo = append(todo, way{i.Arg, w.began}, way{i.Out, w.began})
		case syntax.InstCapture, syntax.InstNop:
			todo = append(todo, way{i.Out, w.began})

		case syntax.InstEmptyWidth:
			if holds(syntax.EmptyOp(i.Arg)) {
				todo = append(todo, way{i.Out, w.began})
			}
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			ways = append(ways, w.pc)
		case syntax.InstMatch, syntax.InstFail:
		}
	}
	return ways
}
