package code

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

type filePatch struct {
	path   string
	action action
	hunks  []hunk
}

type action int

const (
	actionAlter action = iota
	actionAdd
	actionRemove
)

type hunk struct {
	// the first line before and after, from 1; 0: it is before the first; unknown: the patch does not say
	old, new int
	anchors  []string    // lines that are somewhere before the place, the nearest one last
	lines    []patchLine // without their line breaks
	atEnd    bool        // the hunk reaches to the end of the file
	oldCut   bool        // the last line before has no line break
	newCut   bool        // the last line after has no line break
}

// unknown is the number of a line that a patch does not say.
const unknown = -1

// signature ends a patch that was made for a mail.
const signature = "-- "

// patchLine is a line of a hunk: op is ' ' (stays), '-' or '+'.
type patchLine struct {
	op   byte
	text string
}

// Bounds of a patch.
const (
	maxPatch        = 1 << 20 // bytes
	maxPatchedFiles = 20
)

var (
	errNoLine  = errors.New(`"\ No newline at end of file" stands before the first line`)
	hunkHeader = regexp.MustCompile(`^@@ -(\d{1,7})(?:,(\d{1,7}))? \+(\d{1,7})(?:,(\d{1,7}))? @@(.*)$`)
	hunkHalf   = regexp.MustCompile(`^@@ -(\d{1,7})\b`) // a header of which only the old line can be read
)

// reader reads the lines of a patch, without their line breaks.
type reader struct {
	lines []string
	at    int
	files []filePatch
}

// newReader returns a reader of the text without the code fence and the blank lines around it.
func newReader(text string) *reader {
	if header := strings.Index(text, "\n+++ "); header >= 0 && strings.HasSuffix(text[:header], "\r") {
		text = strings.ReplaceAll(text, "\r\n", "\n") // all of it was written with CR LF
	}

	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for first, line := range lines {
		if beginsWith(line, "--- ", "diff ", "*** ", "@@", "index ") {
			break
		}
		if strings.HasPrefix(line, "```") {
			lines = lines[first+1:]
			break
		}
	}
	if end := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "```") }); end >= 0 {
		lines = lines[:end]
	}

	for len(lines) > 0 && strings.TrimSpace(lines[0]) == "" {
		lines = lines[1:]
	}
	return &reader{lines: lines}
}

func beginsWith(line string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(each string) bool { return strings.HasPrefix(line, each) })
}

// peek returns a line that comes, and "" after the last one.
func (r *reader) peek(ahead int) string {
	if r.at+ahead < len(r.lines) {
		return r.lines[r.at+ahead]
	}
	return ""
}

func (r *reader) ended() bool { return r.at >= len(r.lines) }

func (r *reader) unified() error {
	for !r.ended() {
		line := strings.TrimRight(r.peek(0), " \t\r")
		switch {
		case strings.HasPrefix(line, "--- "):
			if err := r.header(); err != nil {
				return err
			}
		case strings.HasPrefix(line, "@@"):
			if len(r.files) == 0 {
				return errors.New("want --- a/path and +++ b/path before the first @@")
			}
			if err := r.hunk(); err != nil {
				return fmt.Errorf("%s: %w", r.files[len(r.files)-1].path, err)
			}
		case strings.HasPrefix(line, `\`):
			return errNoLine
		case r.peek(0) == signature:
			return nil
		default:
			if err := noise(line, r.at+1); err != nil {
				return err
			}
			r.at++
		}
	}
	return nil
}

// noise returns an error if a line outside of the hunks says something that is not done.
func noise(line string, number int) error {
	switch {
	case beginsWith(line, "rename ", "copy ", "old mode ", "new mode "):
		return fmt.Errorf("line %d: %.80q: a patch changes, adds and removes files here, and does not rename them or "+
			"change their mode", number, line)
	case line == "", beginsWith(line, "diff ", "index ", "new file mode ", "deleted file mode ", "similarity index "):
		return nil
	}
	return fmt.Errorf("line %d is of no unified diff: %.80q", number, line)
}

// header reads the two lines that name a file.
func (r *reader) header() error {
	from, to := strings.TrimPrefix(r.peek(0), "--- "), r.peek(1)
	to, ok := strings.CutPrefix(to, "+++ ")
	from, to = patchedPath(from), patchedPath(to)
	if !ok || from == "" || to == "" {
		return errors.New("want a line +++ b/path after --- a/path")
	}
	r.at += 2

	const none = "/dev/null"
	a, b := strings.TrimPrefix(from, "a/"), strings.TrimPrefix(to, "b/")
	switch {
	case from == none && to == none:
		return errors.New("/dev/null becomes /dev/null")
	case from == none:
		r.files = append(r.files, filePatch{path: b, action: actionAdd})
	case to == none:
		r.files = append(r.files, filePatch{path: a, action: actionRemove})
	case from == to:
		r.files = append(r.files, filePatch{path: to})
	case a == b || a == to:
		r.files = append(r.files, filePatch{path: a})
	case from == b:
		r.files = append(r.files, filePatch{path: b})
	default:
		return fmt.Errorf("it renames %s to %s; to move a file, add the new one and remove the old one", a, b)
	}
	return nil
}

// patchedPath returns the path in a line that names a file: without a time after it, and without quotes.
func patchedPath(text string) string {
	text, _, _ = strings.Cut(text, "\t")
	text = strings.TrimSpace(text)
	if quoted, err := strconv.Unquote(text); err == nil {
		return quoted
	}
	return text
}

func (r *reader) hunk() error {
	header := strings.TrimRight(r.peek(0), " \t\r")
	r.at++
	h := hunk{old: unknown, new: unknown}
	begin := r.at

	if found := hunkHeader.FindStringSubmatch(header); found != nil {
		numbers := [4]int{1: 1, 3: 1}
		for i, digits := range found[1:5] {
			if digits != "" {
				numbers[i], _ = strconv.Atoi(digits) // at most seven digits
			}
		}

		h.old, h.new = numbers[0], numbers[2]
		if numbers[1] == 0 {
			h.old++ // it names the line before
		}
		if numbers[3] == 0 {
			h.new++
		}

		if r.counted(&h, numbers[1], numbers[3]) {
			return r.add(h)
		}
		r.at = begin
		h.lines = nil
		h.oldCut, h.newCut = false, false
	} else if half := hunkHalf.FindStringSubmatch(header); half != nil {
		h.old, _ = strconv.Atoi(half[1])
	} else if anchor := strings.Trim(header, "@. \t"); anchor != "" && !strings.HasPrefix(anchor, "-") {
		h.anchors = append(h.anchors, anchor)
	}

	if err := r.uncounted(&h); err != nil {
		return err
	}
	return r.add(h)
}

func (r *reader) add(h hunk) error {
	changed := slices.ContainsFunc(h.lines, func(l patchLine) bool { return l.op != ' ' })
	f := &r.files[len(r.files)-1]
	if !changed && f.action == actionAlter && !h.oldCut && !h.newCut {
		return errors.New("a hunk has no line that begins with - or +, so it changes nothing")
	}
	f.hunks = append(f.hunks, h)
	return nil
}

// counted reads the lines of a hunk that are as many as its header says. It reports false if they are not.
func (r *reader) counted(h *hunk, old, new int) bool {
	for old > 0 || new > 0 {
		if r.ended() || r.boundary() && strings.HasPrefix(r.peek(2), "@@") {
			return false
		}

		line := r.peek(0)
		if line == "" || line == "\r" {
			line = " " + line // the space was lost
		}
		switch line[0] {
		case ' ':
			old, new = old-1, new-1
		case '-':
			old--
		case '+':
			new--
		case '\\':
			if !h.cut() {
				return false
			}
			r.at++
			continue
		default:
			return false
		}

		if old < 0 || new < 0 {
			return false
		}
		h.lines = append(h.lines, patchLine{line[0], line[1:]})
		r.at++
	}

	if strings.HasPrefix(r.peek(0), `\`) {
		if !h.cut() {
			return false
		}
		r.at++
	}
	return r.boundary() || strings.TrimSpace(r.peek(0)) == "" || r.peek(0) == signature
}

// cut notes that the last line has no line break.
func (h *hunk) cut() bool {
	if len(h.lines) == 0 {
		return false
	}
	op := h.lines[len(h.lines)-1].op
	h.oldCut, h.newCut = h.oldCut || op != '+', h.newCut || op != '-'
	return true
}

// boundary reports whether a hunk ends before the next line.
func (r *reader) boundary() bool {
	line := r.peek(0)
	return r.ended() || beginsWith(line, "@@", "diff --git ", "*** ") ||
		strings.HasPrefix(line, "--- ") && strings.HasPrefix(r.peek(1), "+++ ")
}

// uncounted reads the lines of a hunk up to what cannot be one of it.
func (r *reader) uncounted(h *hunk) error {
	for !r.boundary() {
		line := r.peek(0)
		switch {
		case line == "" || line == "\r":
			line = " " + line // the space was lost
		case line[0] == '\\':
			if !h.cut() {
				return errNoLine
			}
			r.at++
			continue
		case !strings.ContainsRune(" -+", rune(line[0])):
			line = " " + line // a line that stays, whose space was lost
		}

		h.lines = append(h.lines, patchLine{line[0], line[1:]})
		r.at++
	}

	for n := len(h.lines); n > 0 && h.lines[n-1].op == ' ' && strings.TrimSpace(h.lines[n-1].text) == ""; n-- {
		h.lines = h.lines[:n-1] // blank lines between hunks
	}
	return nil
}
