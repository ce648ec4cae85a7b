package code

import (
	"fmt"
	"slices"
	"strings"
)

// edited makes of a file what some hunks at their places say, and returns the text and all lines with what becomes of
// each.
func edited(c content, all []placed) (after content, lines []patchLine) {
	at := 0
	keep := func(to int) {
		for ; at < to; at++ {
			lines = append(lines, patchLine{' ', c.lines[at]})
		}
	}

	whole := c.whole
	for _, h := range all {
		keep(h.at)
		for _, l := range h.lines {
			if l.op == '+' {
				lines = append(lines, patchLine{'+', h.ending(c, l.text)})
				continue
			}
			lines = append(lines, patchLine{l.op, c.lines[at]})
			at++
		}

		if h.at+h.count != len(c.lines) {
			continue
		}
		if h.oldCut || h.newCut {
			whole = !h.newCut
		}
		if c.crlf && !whole {
			endWith(lines, h.hunk)
		}
	}
	keep(len(c.lines))

	after = content{whole: whole, crlf: c.crlf}
	for _, l := range lines {
		if l.op != '-' {
			after.lines = append(after.lines, l.text)
		}
	}
	return after, lines
}

// endWith mends the last lines of a file with CR LF, of which the last one has no line break: a patch without CR LF has
// changed which one that is.
func endWith(lines []patchLine, h hunk) {
	if slices.ContainsFunc(h.lines, func(l patchLine) bool { return strings.HasSuffix(l.text, "\r") }) {
		return
	}

	last := lastOf(lines, '+')
	for i := max(len(lines)-len(h.lines), 0); i < len(lines); i++ {
		l := &lines[i]
		switch text := strings.TrimSuffix(l.text, "\r"); {
		case i == last && l.op == '+':
			l.text = text
		case i < last && l.op != '-':
			l.text = text + "\r"
		}
	}
}

// ending returns an added line with the line ending of the file, if the hunk does not show that it is meant as it is.
func (h placed) ending(c content, text string) string {
	if h.exact || len(c.lines) == 0 {
		return text
	}

	text = strings.TrimSuffix(text, "\r")
	if c.crlf {
		text += "\r"
	}
	return text
}

// diff returns a unified diff of a file, with one hunk.
func diff(path, before, after string) string {
	a, b := contentOf(before), contentOf(after)
	first, last := same(a.lines, b.lines)
	var lines []patchLine
	add := func(op byte, texts []string) {
		for _, text := range texts {
			lines = append(lines, patchLine{op, text})
		}
	}

	add(' ', a.lines[:first])
	add('-', a.lines[first:len(a.lines)-last])
	add('+', b.lines[first:len(b.lines)-last])
	add(' ', a.lines[len(a.lines)-last:])
	return unified("a/"+path, "b/"+path, lines, a.whole, b.whole)
}

// same returns how many lines are the same at the beginnings of two texts, and how many of the others at their ends.
func same(a, b []string) (first, last int) {
	for first < len(a) && first < len(b) && a[first] == b[first] {
		first++
	}
	for last < len(a)-first && last < len(b)-first && a[len(a)-1-last] == b[len(b)-1-last] {
		last++
	}
	return first, last
}

// unified returns a unified diff of all lines of a file. whole says whether the last line has its line break, before
// and after.
func unified(from, to string, lines []patchLine, wholeBefore, wholeAfter bool) string {
	lines, cut := withEnds(lines, wholeBefore, wholeAfter)
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", from, to)
	old, new := 0, 0 // lines before the place

	for i := 0; i < len(lines); {
		begin, end := nextHunk(lines, i)
		for ; i < begin; i++ {
			old, new = old+1, new+1
		}
		if begin == end {
			break
		}

		was, is := 0, 0
		for _, l := range lines[begin:end] {
			was, is = was+less(l.op, '+'), is+less(l.op, '-')
		}

		fmt.Fprintf(&out, "@@ -%s +%s @@\n", span(old, old+was), span(new, new+is))
		for ; i < end; i++ {
			out.WriteString(string(lines[i].op) + lines[i].text + "\n")
			if cut[i] {
				out.WriteString("\\ No newline at end of file\n")
			}
		}
		old, new = old+was, new+is
	}
	return out.String()
}

// withEnds returns the lines of a diff, and which of them have no line break. A line that stays and has one on one side
// only goes and comes.
func withEnds(lines []patchLine, wholeBefore, wholeAfter bool) ([]patchLine, map[int]bool) {
	n, m := lastOf(lines, '-'), lastOf(lines, '+')
	for _, i := range []int{n, m} {
		if i < 0 || lines[i].op != ' ' || (i == n && !wholeBefore) == (i == m && !wholeAfter) {
			continue
		}

		text := lines[i].text
		lines = slices.Concat(lines[:i], []patchLine{{'-', text}, {'+', text}}, lines[i+1:])
		n, m = lastOf(lines, '-'), lastOf(lines, '+')
		break
	}
	return lines, map[int]bool{n: !wholeBefore, m: !wholeAfter || n == m && !wholeBefore}
}

// less returns 1 unless the op is the other one.
func less(op, other byte) int {
	if op == other {
		return 0
	}
	return 1
}

// lastOf returns the last line that is there on the side of an op; -1: none is.
func lastOf(lines []patchLine, op byte) int {
	for i := len(lines) - 1; i >= 0; i-- {
		if lines[i].op == op || lines[i].op == ' ' {
			return i
		}
	}
	return -1
}

// nextHunk returns the next lines of a diff, from some line on: what changes, with the lines around it.
func nextHunk(lines []patchLine, from int) (begin, end int) {
	first := from
	for first < len(lines) && lines[first].op == ' ' {
		first++
	}
	if first == len(lines) {
		return len(lines), len(lines)
	}

	begin, end = max(first-around, from), first
	for i := first; i < len(lines) && i <= end+2*around; i++ {
		if lines[i].op != ' ' {
			end = i + 1
		}
	}
	return begin, min(end+around, len(lines))
}

func span(from, to int) string {
	if from == to {
		return fmt.Sprintf("%d,0", from)
	}
	return fmt.Sprintf("%d,%d", from+1, to-from)
}
