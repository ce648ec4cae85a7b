package code

import (
	"errors"
	"fmt"
	"strings"
)

// readEnvelope reads OpenAI's patch format: "*** Begin Patch", then for each file a line such as
// "*** Update File: path" and its hunks, and "*** End Patch". Hunks have context lines instead of line numbers.
func (r *reader) readEnvelope() error {
	r.at++
	for !r.ended() {
		line := strings.TrimRight(r.peek(0), " \t\r")
		r.at++
		kind, name, _ := strings.Cut(line, ": ")
		name = strings.TrimSpace(name)

		var err error
		switch {
		case line == "*** End Patch":
			return nil
		case line == "":
		case kind == "*** Update File" && name != "":
			r.files = append(r.files, filePatch{path: name})
			err = r.envelopeHunks()
		case kind == "*** Add File" && name != "":
			r.files = append(r.files, filePatch{path: name, action: actionAdd})
			err = r.envelopeHunk(nil)
		case kind == "*** Delete File" && name != "":
			r.files = append(r.files, filePatch{path: name, action: actionRemove})
		default:
			return fmt.Errorf("line %d: %.80q: want *** Update File: path, *** Add File: path or *** Delete File: path", r.at,
				line)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// envelopeHunks reads the hunks of a file that is updated. The first one may have no line with @@.
func (r *reader) envelopeHunks() error {
	if strings.HasPrefix(r.peek(0), "*** Move to") {
		return errors.New("it moves the file; to move a file, add the new one and delete the old one")
	}

	for !r.ended() {
		line := strings.TrimRight(r.peek(0), " \t\r")
		if strings.HasPrefix(line, "*** ") {
			return nil
		}
		if line == "" && strings.HasPrefix(r.peek(1), "*** ") {
			r.at++
			continue
		}

		var anchors []string
		for strings.HasPrefix(line, "@@") {
			if anchor := strings.Trim(line, "@. \t"); anchor != "" && !strings.HasPrefix(anchor, "-") {
				anchors = append(anchors, anchor)
			}
			r.at++
			line = strings.TrimRight(r.peek(0), " \t\r")
		}
		if err := r.envelopeHunk(anchors); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) envelopeHunk(anchors []string) error {
	h := hunk{old: unknown, new: unknown, anchors: anchors}
	if err := r.uncounted(&h); err != nil {
		return err
	}

	if r.peek(0) == "*** End of File" {
		h.atEnd = true
		r.at++
	}
	if len(h.lines) == 0 && r.files[len(r.files)-1].action == actionAdd {
		return nil // an empty file
	}
	return r.add(h)
}
