package code

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// readPatch reads a patch as models write it: a unified diff, whose line numbers may be wrong or missing, or the format
// that begins with "*** Begin Patch"; both may be in a code fence.
func readPatch(text string) (files []filePatch, err error) {
	if len(text) > maxPatch {
		return nil, fmt.Errorf("patch: it has more than %d MiB", maxPatch>>20)
	}

	r := newReader(text)
	if strings.HasPrefix(r.peek(0), "*** Begin Patch") {
		err = r.readEnvelope()
	} else {
		err = r.unified()
	}
	if err != nil {
		return nil, fmt.Errorf("patch: %w", err)
	}

	if len(r.files) == 0 {
		return nil, errors.New("patch: want a unified diff: --- a/path, +++ b/path, @@ -1,3 +1,4 @@, and the lines")
	}
	if len(r.files) > maxPatchedFiles {
		return nil, fmt.Errorf("patch: at most %d files", maxPatchedFiles)
	}
	return r.files, r.check()
}

// check returns an error if a file is named twice, or not changed.
func (r *reader) check() error {
	seen := map[string]bool{}
	for _, f := range r.files {
		if seen[path.Clean(f.path)] {
			return fmt.Errorf("patch: %s is there twice; put all of its hunks below one header", f.path)
		}
		seen[path.Clean(f.path)] = true
		if len(f.hunks) == 0 && f.action == actionAlter {
			return fmt.Errorf("patch: %s: nothing changes", f.path)
		}
	}
	return nil
}

func (p filePatch) apply(text string) (string, error) {
	c := contentOf(text)
	all, err := p.place(c)
	if err != nil {
		return "", err
	}
	after, _ := edited(c, all)
	return after.text(), nil
}

func (p filePatch) reversed() filePatch {
	undo := filePatch{path: p.path}
	for _, h := range p.hunks {
		h.old, h.new = h.new, h.old
		h.oldCut, h.newCut = h.newCut, h.oldCut
		h.anchors = nil

		lines := h.lines
		h.lines = make([]patchLine, len(lines))
		for i, l := range lines {
			h.lines[i] = patchLine{map[byte]byte{' ': ' ', '-': '+', '+': '-'}[l.op], l.text}
		}
		undo.hunks = append(undo.hunks, h)
	}
	return undo
}
