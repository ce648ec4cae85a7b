package code

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// around is how many lines of a diff stand before and after what changes.
const around = 3

// content is the text of a file as lines.
type content struct {
	lines []string // without "\n"; those of CR LF have their "\r"
	whole bool     // the last line has its line break
	crlf  bool     // most lines end in CR LF
}

func contentOf(text string) content {
	if text == "" {
		return content{whole: true}
	}

	c := content{whole: strings.HasSuffix(text, "\n")}
	c.lines = strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	ends := 0
	for _, line := range c.lines {
		if strings.HasSuffix(line, "\r") {
			ends++
		}
	}
	c.crlf = ends > len(c.lines)/2
	return c
}

func (c content) text() string {
	if len(c.lines) == 0 {
		return ""
	}
	text := strings.Join(c.lines, "\n")
	if c.whole {
		text += "\n"
	}
	return text
}

// placed is a hunk at its place: it replaces so many lines from a line on, which is counted from 0.
type placed struct {
	hunk
	at, count int
	stated    int  // where the patch has it, from 0; unknown: it does not say
	exact     bool // all lines are exactly as in the patch
}

// before returns the lines that must be there, after those of the file.
func (h hunk) before() (lines []string) {
	for _, l := range h.lines {
		if l.op != '+' {
			lines = append(lines, l.text)
		}
	}
	return lines
}

func trimmed(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = strings.TrimRight(line, " \t\r")
	}
	return out
}

// place finds where the hunks of a patch fit. What stays and goes must be there: white space at the ends of lines may
// differ, nothing else. The error says what is there instead.
func (p filePatch) place(c content) ([]placed, error) {
	var all []placed
	after := 0
	for _, h := range p.hunks {
		one, err := p.placeOne(c, h, after)
		if err != nil {
			return nil, err
		}
		if h.old == unknown {
			after = one.at + one.count // hunks without numbers are in order
		}
		all = append(all, one)
	}

	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Compare(a.at, b.at) })
	for i := 1; i < len(all); i++ {
		if all[i].at < all[i-1].at+all[i-1].count {
			return nil, fmt.Errorf("%s: two hunks change line %d; make them one", p.path, all[i].at+1)
		}
	}
	return all, nil
}

// placeOne finds the place of a hunk, at or behind a line if the patch has no number for it.
func (p filePatch) placeOne(c content, h hunk, after int) (placed, error) {
	before := h.before()
	stated := unknown
	if h.old != unknown {
		stated = max(h.old-1, 0)
	}
	one := placed{hunk: h, count: len(before), stated: stated}
	if len(before) == 0 {
		at, err := p.insertion(c, h, after)
		one.at = at
		return one, err
	}

	places := find(c.lines, before)
	if one.exact = len(places) > 0; !one.exact {
		places = find(trimmed(c.lines), trimmed(before))
	}
	if h.atEnd {
		places = slices.DeleteFunc(places, func(at int) bool { return at+len(before) != len(c.lines) })
	}
	if stated == unknown {
		if ordered := slices.DeleteFunc(slices.Clone(places), func(at int) bool { return at < after }); len(ordered) > 0 {
			places = ordered
		}
	}

	if len(places) == 0 {
		return one, p.misfit(c, h, before)
	}
	if len(places) == 1 {
		one.at = places[0]
		return one, nil
	}

	at, ok := choose(c, h, places, stated, after)
	if !ok {
		return one, p.ambiguous(places, stated)
	}
	one.at = at
	return one, nil
}

// insertion returns the place of a hunk that only adds lines.
func (p filePatch) insertion(c content, h hunk, after int) (int, error) {
	switch {
	case h.old != unknown && h.old-1 <= len(c.lines):
		return max(h.old-1, 0), nil
	case len(c.lines) == 0:
		return 0, nil
	case h.atEnd:
		return len(c.lines), nil
	case h.old != unknown:
		return 0, fmt.Errorf("%s: it has only %d lines, and a hunk adds lines at line %d; add lines around what is added",
			p.path, len(c.lines), h.old)
	}

	if at, ok := c.anchor(h.anchors, after); ok {
		return at + 1, nil
	}
	return 0, fmt.Errorf("%s: a hunk only adds lines and does not say where; add the lines before and after, as they "+
		"are in the file", p.path)
}

// choose returns which of several places is meant: the one where the patch has it, one that is far nearer to that than
// the others, or the first after the lines that lead to it.
func choose(c content, h hunk, places []int, stated, after int) (int, bool) {
	if stated == unknown {
		line, ok := c.anchor(h.anchors, after)
		if !ok {
			return 0, false
		}
		i := slices.IndexFunc(places, func(at int) bool { return at >= line })
		return places[max(i, 0)], i >= 0
	}

	distance := func(at int) int { return max(at-stated, stated-at) }
	sorted := slices.Clone(places)
	slices.SortStableFunc(sorted, func(a, b int) int { return cmp.Compare(distance(a), distance(b)) })
	return sorted[0], distance(sorted[1]) > 2*distance(sorted[0])
}

// anchor returns the line that the last of some lines leads to, from 0.
func (c content) anchor(anchors []string, after int) (line int, ok bool) {
	at := after
	for _, anchor := range anchors {
		i := slices.IndexFunc(c.lines[min(at, len(c.lines)):],
			func(line string) bool { return strings.TrimSpace(line) == anchor })
		if i < 0 {
			i = slices.IndexFunc(c.lines[min(at, len(c.lines)):],
				func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), anchor) })
		}
		if i < 0 {
			return 0, false
		}

		line, ok = at+i, true
		at = line + 1
	}
	return line, ok
}

// find returns where some lines are in others, in time that grows with both (Knuth, Morris and Pratt).
func find(lines, wanted []string) (places []int) {
	next := make([]int, len(wanted)+1)
	next[0] = -1
	for i, k := 0, -1; i < len(wanted); i++ {
		for k >= 0 && wanted[i] != wanted[k] {
			k = next[k]
		}
		k++
		next[i+1] = k
	}

	k := 0
	for i, line := range lines {
		for k >= 0 && (k == len(wanted) || line != wanted[k]) {
			k = next[k]
		}
		if k++; k == len(wanted) {
			places = append(places, i-k+1)
		}
	}
	return places
}

// Bounds of what an error shows of a file.
const (
	maxPlaces    = 10  // at most so many places
	maxShown     = 30  // lines
	maxShownLine = 200 // bytes
)

func (p filePatch) ambiguous(places []int, told int) error {
	var lines []string
	for _, at := range places[:min(len(places), maxPlaces)] {
		lines = append(lines, fmt.Sprint(at+1))
	}
	if len(places) > maxPlaces {
		lines = append(lines, fmt.Sprintf("and %d others", len(places)-maxPlaces))
	}

	reason := "has no line number"
	if told != unknown {
		reason = fmt.Sprintf("says line %d", told+1)
	}
	return fmt.Errorf("%s: the lines of a hunk are in the file at the lines %s, and the patch %s; "+
		"add lines around what changes until it is there once, or correct the number", p.path, strings.Join(lines, ", "),
		reason)
}

// misfit says what is in a file where a hunk should fit.
func (p filePatch) misfit(c content, h hunk, before []string) error {
	at := nearest(trimmed(c.lines), trimmed(before), h.old-1)
	if at == unknown {
		return fmt.Errorf("%s: none of the lines of a hunk is in the file, which has %d lines, such as %s; make the patch "+
			"from the file as it is",
			p.path, len(c.lines), inQuotes(before[0]))
	}

	first, why := at, ""
	for i, line := range before {
		switch there := at + i; {
		case there >= len(c.lines):
			first, why = there, fmt.Sprintf("the file has only %d lines, and the patch goes on with %s", len(c.lines),
				inQuotes(line))
		case there < 0 || strings.TrimRight(c.lines[there], " \t\r") != strings.TrimRight(line, " \t\r"):
			first = max(there, 0)
			why = fmt.Sprintf("line %d is %s, and %s in the patch", first+1, inQuotes(c.lines[first]), inQuotes(line))
		default:
			continue
		}
		break
	}
	if why == "" {
		why = fmt.Sprintf("the lines of a hunk are at line %d, which is not the end of the file as the patch has it", at+1)
	}

	from := max(min(first-around, at-around), first-maxShown/2, 0)
	to := min(max(at+len(before), first)+around, from+maxShown)
	return fmt.Errorf("%s: %s; make the patch from the file as it is:\n%s", p.path, why, c.numbered(from, to))
}

func (c content) numbered(from, to int) string {
	var b strings.Builder
	for i := from; i < min(to, len(c.lines)); i++ {
		line := strings.TrimRight(c.lines[i], "\r")
		fmt.Fprintf(&b, "%6d\t%s\n", i+1, line[:min(len(line), maxShownLine)])
	}
	return b.String()
}

func inQuotes(line string) string { return fmt.Sprintf("%.120q", strings.TrimRight(line, "\r")) }

// Bounds of the search for the place that is meant by a hunk that fits nowhere.
const (
	maxAlike  = 100  // a line that is in the file more often says nothing
	maxVoting = 1000 // only so many lines of the hunk are looked at
)

// nearest returns the place at which most of some lines are, the one that is nearest to a line if there are several;
// unknown: none of them is there.
func nearest(lines, wanted []string, told int) int {
	where := map[string][]int{}
	for i, line := range lines {
		if len(where[line]) <= maxAlike && line != "" {
			where[line] = append(where[line], i)
		}
	}

	votes := map[int]int{}
	best := unknown
	better := func(at int) bool {
		if best == unknown || votes[at] != votes[best] {
			return best == unknown || votes[at] > votes[best]
		}
		return max(at-told, told-at) < max(best-told, told-best)
	}

	for i, line := range wanted[:min(len(wanted), maxVoting)] {
		if len(where[line]) > maxAlike {
			continue
		}
		for _, j := range where[line] {
			if at := j - i; at >= 0 {
				votes[at]++
				if better(at) {
					best = at
				}
			}
		}
	}

	if best == unknown && told >= 0 && told < len(lines) {
		return told
	}
	return best
}
