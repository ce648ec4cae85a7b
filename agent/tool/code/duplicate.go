package code

import (
	"hash/maphash"
	"strings"
)

// Lines that are the same in two places count from this many on, with at least so many characters.
const (
	sameLines = 8
	sameBytes = 160
)

// duplicate is a part of a file that is the same as an earlier one.
type duplicate struct {
	file, start, end            int // index of the file, lines
	earlier, fromStart, fromEnd int
	lines                       int // of code
}

// codeLine is a line that counts: not blank, no comment, no brackets alone, no import.
type codeLine struct {
	number int
	text   string
	hash   uint64
}

// duplicates finds parts that are the same but for their indentation.
func duplicates(files []measured) (found []duplicate) {
	seed := maphash.MakeSeed()
	all := make([][]codeLine, len(files))
	for i, m := range files {
		all[i] = m.codeLines(seed)
	}

	type place struct{ file, line int }
	seen := map[[sameLines]uint64]place{}
	for f, lines := range all {
		for i := 0; i+sameLines <= len(lines); i++ {
			var key [sameLines]uint64
			size := 0
			for j := range key {
				key[j] = lines[i+j].hash
				size += len(lines[i+j].text)
			}
			if size < sameBytes {
				continue
			}

			first, ok := seen[key]
			if !ok {
				seen[key] = place{f, i}
				continue
			}

			before := all[first.file][first.line:]
			if first.file == f {
				before = before[:min(i-first.line, len(before))] // not with itself
			}
			n := 0
			for n < len(before) && i+n < len(lines) && before[n].text == lines[i+n].text {
				n++
			}
			if n < sameLines {
				continue
			}

			found = append(found, duplicate{
				f, lines[i].number, lines[i+n-1].number, first.file, before[0].number, before[n-1].number, n,
			})
			i += n - 1
		}
	}
	return found
}

func (m measured) codeLines(seed maphash.Seed) (lines []codeLine) {
	imports := map[int]bool{}
	for _, each := range m.imports {
		for line := each.line; line <= each.lineEnd; line++ {
			imports[line] = true
		}
	}

	for i, line := range m.text {
		bare := strings.TrimSpace(line)
		if strings.Trim(bare, "{}()[];,") == "" || beginsWith(bare, "//", "#", "*", "/*") || imports[i+1] {
			continue
		}
		lines = append(lines, codeLine{i + 1, bare, maphash.String(seed, bare)})
	}
	return lines
}
