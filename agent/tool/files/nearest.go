package files

import (
	"fmt"
	"strings"
)

const (
	maxCompared     = 200_000 // lines of a file that are compared
	maxComparedText = 200     // bytes of each
	leastLike       = 0.6     // from 0 to 1: how like a line must be to be shown
)

// nearest returns, for an error, the lines of a file that are most like a part which is not in it; "" if none is
// like it.
func nearest(content, part string) string {
	lines, wanted := splitLines(content), splitLines(part)
	line, from := longest(wanted)
	if line == "" {
		return ""
	}

	best, at := 0.0, 0
	pairs := pairsOf(line)
	for i, each := range lines[:min(len(lines), maxCompared)] {
		if like := pairs.like(each); like > best {
			best, at = like, i
		}
	}
	if best < leastLike {
		return ""
	}

	first := max(at-from, 0) + 1
	last := min(first+max(len(wanted), 1)-1, first+maxNear)
	return fmt.Sprintf(". The nearest lines are:\n%s", showLines(lines, first, last))
}

// longest returns the longest of lines, without the spaces around it, and how many are before it.
func longest(lines []string) (line string, at int) {
	for i, each := range lines {
		if each = strings.TrimSpace(each); len(each) > len(line) {
			line, at = each, i
		}
	}
	return line, at
}

// pairs are the pairs of bytes that follow each other in a line, and how often each does.
type pairs struct {
	of  map[[2]byte]int
	all int
}

func pairsOf(line string) pairs {
	line = comparable(line)
	p := pairs{of: map[[2]byte]int{}}
	for i := 0; i+1 < len(line); i++ {
		p.of[[2]byte{line[i], line[i+1]}]++
		p.all++
	}
	return p
}

// like returns how like another line is, from 0 to 1: the share of the pairs that both have.
func (p pairs) like(line string) float64 {
	line = comparable(line)
	if len(line) < 2 || p.all == 0 {
		return 0
	}

	seen, both := map[[2]byte]int{}, 0
	for i := 0; i+1 < len(line); i++ {
		pair := [2]byte{line[i], line[i+1]}
		if seen[pair] < p.of[pair] {
			seen[pair]++
			both++
		}
	}
	return 2 * float64(both) / float64(p.all+len(line)-1)
}

func comparable(line string) string {
	line = strings.TrimSpace(line)
	return line[:min(len(line), maxComparedText)]
}
