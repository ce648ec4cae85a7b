package code

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// filePatch is what a patch changes in one file.
type filePatch struct {
	path  string
	hunks []hunk
}

// hunk replaces lines of a file. start is the first of them, from 1; if there are none, it is the line
// before.
type hunk struct {
	start, old, new int
	lines           []patchLine
}

// patchLine is a line of a hunk, with its line break: op is ' ' (stays), '-' or '+'.
type patchLine struct {
	op   byte
	text string
}

// Bounds of a patch.
const (
	maxPatch        = 1 << 20 // bytes
	maxPatchedFiles = 20
)

var errNoLine = errors.New(`"\ No newline at end of file" stands before the first line`)

var hunkHeader = regexp.MustCompile(`^@@ -(\d{1,7})(?:,(\d{1,7}))? \+(\d{1,7})(?:,(\d{1,7}))? @@`)

// readPatch reads a unified diff that changes files. It makes none, and removes and renames none.
func readPatch(text string) (files []filePatch, err error) {
	if len(text) > maxPatch {
		return nil, fmt.Errorf("patch: it has more than %d MiB", maxPatch>>20)
	}
	lines := strings.SplitAfter(text, "\n")
	at := 0
	next := func() (line string, ok bool) {
		if at < len(lines) && lines[at] != "" {
			line, ok = lines[at], true
			at++
		}
		return line, ok
	}
	for {
		line, ok := next()
		if !ok {
			break
		}
		switch bare := strings.TrimRight(line, "\r\n"); {
		case strings.HasPrefix(bare, "--- "):
			to, _ := next()
			path, err := patched(bare, strings.TrimRight(to, "\r\n"))
			if err != nil {
				return nil, err
			}
			for _, other := range files {
				if other.path == path {
					return nil, fmt.Errorf("patch: %s is there twice", path)
				}
			}
			files = append(files, filePatch{path: path})
		case strings.HasPrefix(bare, "@@"):
			if len(files) == 0 {
				return nil, errors.New("patch: want --- a/path and +++ b/path before the first @@")
			}
			h, err := readHunk(bare, next)
			if err != nil {
				return nil, fmt.Errorf("patch: %s: %w", files[len(files)-1].path, err)
			}
			files[len(files)-1].hunks = append(files[len(files)-1].hunks, h)
		case strings.HasPrefix(bare, `\`): // "\ No newline at end of file"
			if err := cutBreak(files); err != nil {
				return nil, err
			}
		case bare == "", strings.HasPrefix(bare, "diff "), strings.HasPrefix(bare, "index "):
		default:
			return nil, fmt.Errorf("patch: line %d is of no unified diff that changes files: %.80q", at, bare)
		}
	}
	if len(files) == 0 {
		return nil, errors.New("patch: want a unified diff")
	}
	if len(files) > maxPatchedFiles {
		return nil, fmt.Errorf("patch: at most %d files", maxPatchedFiles)
	}
	for _, f := range files {
		if len(f.hunks) == 0 {
			return nil, fmt.Errorf("patch: %s: nothing changes", f.path)
		}
	}
	return files, nil
}

// patched returns the path that the two lines before the hunks name.
func patched(from, to string) (string, error) {
	from, _, _ = strings.Cut(strings.TrimPrefix(from, "--- "), "\t")
	to, ok := strings.CutPrefix(to, "+++ ")
	to, _, _ = strings.Cut(to, "\t")
	if !ok || from == "" || to == "" {
		return "", errors.New("patch: want a line +++ b/path after --- a/path")
	}
	if from == "/dev/null" || to == "/dev/null" {
		return "", errors.New("patch: it may only change files that there are; files.write_file makes new ones")
	}
	if a, isA := strings.CutPrefix(from, "a/"); isA {
		if b, isB := strings.CutPrefix(to, "b/"); isB {
			from, to = a, b
		}
	}
	if from != to {
		return "", fmt.Errorf("patch: it renames %s to %s; it may only change files", from, to)
	}
	return to, nil
}

func readHunk(header string, next func() (string, bool)) (h hunk, err error) {
	found := hunkHeader.FindStringSubmatch(header)
	if found == nil {
		return h, fmt.Errorf("%.80q is no line such as @@ -1,3 +1,4 @@", header)
	}
	numbers := [4]int{1: 1, 3: 1}
	for i, digits := range found[1:] {
		if digits != "" {
			numbers[i], _ = strconv.Atoi(digits) // at most seven digits
		}
	}
	h = hunk{start: numbers[0], old: numbers[1], new: numbers[3]}
	for before, after := 0, 0; before < h.old || after < h.new; {
		line, ok := next()
		if !ok {
			return h, fmt.Errorf("the lines after %s end too early: %d of %d old and %d of %d new ones are there", found[0], before, h.old, after, h.new)
		}
		switch line[0] {
		case '\n', '\r': // a blank line whose space was lost
			line = " " + line
			fallthrough
		case ' ':
			before, after = before+1, after+1
		case '-':
			before++
		case '+':
			after++
		case '\\':
			if len(h.lines) == 0 {
				return h, errNoLine
			}
			last := &h.lines[len(h.lines)-1]
			last.text = strings.TrimSuffix(last.text, "\n")
			continue
		default:
			return h, fmt.Errorf("a line after %s begins with neither a space nor - nor +: %.80q", found[0], line)
		}
		if before > h.old || after > h.new {
			return h, fmt.Errorf("the lines after %s are not as many as it says", found[0])
		}
		text := line[1:]
		if !strings.HasSuffix(text, "\n") {
			text += "\n" // the end of the patch
		}
		h.lines = append(h.lines, patchLine{line[0], text})
	}
	return h, nil
}

// cutBreak takes the line break off the last line: it ends its file.
func cutBreak(files []filePatch) error {
	if len(files) > 0 {
		if hunks := files[len(files)-1].hunks; len(hunks) > 0 {
			if lines := hunks[len(hunks)-1].lines; len(lines) > 0 {
				last := &lines[len(lines)-1]
				last.text = strings.TrimSuffix(last.text, "\n")
				return nil
			}
		}
	}
	return fmt.Errorf("patch: %w", errNoLine)
}

// apply returns the content with the changes. Every line that stays or goes must be exactly where the
// patch has it.
func (p filePatch) apply(content string) (string, error) {
	lines := strings.SplitAfter(content, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	var out strings.Builder
	done := 0 // lines of the file
	for _, h := range p.hunks {
		start := h.start - 1
		if h.old == 0 {
			start = h.start
		}
		if start < done || start > len(lines) {
			return "", fmt.Errorf("%s: line %d of the patch is not in the file, or its parts are not in order", p.path, h.start)
		}
		for ; done < start; done++ {
			out.WriteString(lines[done])
		}
		for _, l := range h.lines {
			if l.op == '+' {
				out.WriteString(l.text)
				continue
			}
			if done == len(lines) {
				return "", fmt.Errorf("%s: it has only %d lines; make the patch from the file as it is", p.path, len(lines))
			}
			if lines[done] != l.text {
				return "", fmt.Errorf("%s: line %d is %.120q, and %.120q in the patch; make the patch from the file as it is", p.path, done+1, lines[done], l.text)
			}
			if done++; l.op == ' ' {
				out.WriteString(l.text)
			}
		}
	}
	for ; done < len(lines); done++ {
		out.WriteString(lines[done])
	}
	return out.String(), nil
}

// around is how many lines of a diff stand before and after what changes.
const around = 3

// diff returns a unified diff of a file, with one hunk.
func diff(path, before, after string) string {
	a, b := strings.SplitAfter(before, "\n"), strings.SplitAfter(after, "\n")
	for _, lines := range []*[]string{&a, &b} {
		if last := len(*lines) - 1; (*lines)[last] == "" {
			*lines = (*lines)[:last]
		}
	}
	first := 0
	for first < len(a) && first < len(b) && a[first] == b[first] {
		first++
	}
	last := 0
	for last < len(a)-first && last < len(b)-first && a[len(a)-1-last] == b[len(b)-1-last] {
		last++
	}
	from, rest := max(first-around, 0), max(last-around, 0)
	var out strings.Builder
	fmt.Fprintf(&out, "--- a/%s\n+++ b/%s\n@@ -%s +%s @@\n", path, path, span(from, len(a)-rest), span(from, len(b)-rest))
	write := func(op string, lines []string) {
		for _, line := range lines {
			out.WriteString(op + line)
			if !strings.HasSuffix(line, "\n") {
				out.WriteString("\n\\ No newline at end of file\n")
			}
		}
	}
	write(" ", a[from:first])
	write("-", a[first:len(a)-last])
	write("+", b[first:len(b)-last])
	write(" ", a[len(a)-last:len(a)-rest])
	return out.String()
}

func span(from, to int) string {
	if from == to {
		return fmt.Sprintf("%d,0", from)
	}
	return fmt.Sprintf("%d,%d", from+1, to-from)
}
