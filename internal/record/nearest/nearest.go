// Package nearest owns the guess which name was meant by a wrong one.
package nearest

import "strings"

// Name returns the one of some names that was most likely meant by a wrong one, or an empty text.
func Name(wrong string, names []string) (best string) {
	least := 1 + min(2, len(wrong)/3)
	for _, name := range names {
		if name == "" {
			continue
		}

		d := distance(strings.ToLower(wrong), strings.ToLower(name))
		if strings.EqualFold(strings.NewReplacer("_", "", "-", "").Replace(wrong), strings.ReplaceAll(name, "-", "")) {
			d = 0
		}
		if d < least {
			best, least = name, d
		}
	}

	const tooShort = 4 // letters that many names end with
	for _, name := range names {
		isEnd := len(wrong) >= tooShort && strings.HasSuffix(strings.ToLower(name), strings.ToLower(wrong))
		if best == "" && isEnd {
			best = name
		}
	}
	return best
}

// distance returns how many bytes must be added, removed or replaced to make one text of another, or
// how many neighbours swapped. Long texts are far from everything.
func distance(a, b string) int {
	const longest = 64
	if len(a) > longest || len(b) > longest {
		return longest
	}

	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}

	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, before
		last, row = row, last
	}
	return last[len(b)]
}
