package code

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/internal/folder"
)

type applyArguments struct {
	Patch string `json:"patch" jsonschema:"a unified diff with --- a/path, +++ b/path and @@ -1,3 +1,4 @@ before the lines, copied from the files as they are; --- /dev/null makes a new file, +++ /dev/null removes one; or the format that begins with *** Begin Patch"`
}

// change is a file with its new content.
type change struct {
	at     string
	does   action
	before []byte
	after  string
	info   fs.FileInfo // nil for a new file
	lines  []patchLine // of the whole file
	hunks  []placed
}

// changeSet is what a patch makes of the files as they are.
type changeSet struct {
	changes []change
	already []string // files that are as the patch makes them
}

// apply changes all files of a patch, or none if one of them does not fit.
func (f *Folder) apply(ctx context.Context, call tool.Call, in applyArguments) (tool.Result, error) {
	f.at.Lock()
	defer f.at.Unlock()

	set, err := f.changesOf(ctx, in.Patch)
	if err == nil {
		err = call.CheckApproved(set.preview())
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return tool.Result{}, err
	}

	if err := f.write(set.changes); err != nil {
		return tool.Result{}, err
	}
	return set.result()
}

// write writes the new contents beside the files first, so that a full disk changes none of them, and then puts all of
// them in their places.
func (f *Folder) write(changes []change) (err error) {
	staged := make([]*folder.Staged, len(changes))
	defer func() {
		for _, s := range staged {
			err = errors.Join(err, s.Discard())
		}
	}()
	for i, c := range changes {
		if c.does == actionRemove {
			continue
		}
		if staged[i], err = f.at.Stage(c.at, []byte(c.after), c.info); err != nil {
			return err
		}
	}

	var done []string
	for i, c := range changes {
		if c.does == actionRemove {
			err = f.at.Remove(c.at, c.info)
		} else {
			err = staged[i].Commit()
		}
		if err != nil && len(done) > 0 {
			return fmt.Errorf("%w; these files are changed already: %s; the same patch can be applied again", err,
				strings.Join(done, ", "))
		}
		if err != nil {
			return err
		}
		done = append(done, c.at)
	}
	return nil
}

// result says what was changed, and at which lines.
func (s changeSet) result() (tool.Result, error) {
	var paths, lines []string
	for _, c := range s.changes {
		paths, lines = append(paths, c.at), append(lines, c.describe())
	}
	paths = append(paths, s.already...)
	for _, at := range s.already {
		lines = append(lines, at+": it was as the patch makes it")
	}

	value, err := json.Marshal(paths)
	summary := "Refactored " + strings.Join(paths, ", ")
	return tool.Result{
		Text: summary + ".\n" + strings.Join(lines, "\n"), Summary: summary,
		Artifacts: []tool.Artifact{{Name: "files_modified", Type: "files", Value: value}},
	}, err
}

func (c change) describe() string {
	switch c.does {
	case actionAdd:
		return c.at + ": new"
	case actionRemove:
		return c.at + ": removed"
	}

	var hunks []string
	grown := 0
	for _, h := range c.hunks {
		is := 0
		for _, l := range h.lines {
			is += less(l.op, '-')
		}

		from := h.at + grown + 1
		text := fmt.Sprintf("lines %d-%d", from, max(from+is-1, from))
		if offset := h.at - h.stated; h.stated != unknown && offset != 0 {
			text += fmt.Sprintf(" (offset %+d)", offset)
		}

		hunks = append(hunks, text)
		grown += is - h.count
	}

	return c.at + ": " + strings.Join(hunks, ", ")
}

// changesOf returns what a patch makes of the files as they are.
func (f *Folder) changesOf(ctx context.Context, patch string) (set changeSet, err error) {
	files, err := readPatch(patch)
	if err != nil {
		return set, err
	}

	seen := map[string]bool{}
	for _, p := range files {
		c, err := f.changeOf(ctx, p)
		already := errors.Is(err, errAlready)
		if err != nil && !already {
			return set, err
		}

		if seen[c.at] {
			return set, fmt.Errorf("patch: %s is there twice", c.at)
		}
		if seen[c.at] = true; already {
			set.already = append(set.already, c.at)
			continue
		}

		set.changes = append(set.changes, c)
	}

	if len(set.changes) == 0 {
		return set, fmt.Errorf("nothing is left to do: %s", are(set.already))
	}
	return set, nil
}

func are(paths []string) string {
	if len(paths) == 1 {
		return paths[0] + " is as the patch makes it"
	}
	return strings.Join(paths, ", ") + " are as the patch makes them"
}

// errAlready says that a file is as the patch makes it.
var errAlready = errors.New("it is as the patch makes it")

func (f *Folder) changeOf(ctx context.Context, p filePatch) (c change, err error) {
	if p.action == actionAdd {
		return f.added(ctx, p)
	}

	c.does = p.action
	c.at, c.before, c.info, err = f.at.Content(p.path)
	if err != nil {
		return c, err
	}
	if folder.Binary(c.before) {
		return c, fmt.Errorf("%s is a binary file, not a text", c.at)
	}

	was := contentOf(string(c.before))
	if p.action == actionRemove && len(p.hunks) == 0 {
		for _, line := range was.lines {
			c.lines = append(c.lines, patchLine{'-', line})
		}
		return c, nil
	}

	if c.hunks, err = p.place(was); err != nil {
		if p.action == actionAlter && p.isDone(string(c.before)) {
			err = errAlready
		}
		return c, err
	}

	after, lines := edited(was, c.hunks)
	c.after, c.lines = after.text(), lines
	if p.action == actionRemove && c.after != "" {
		return c, fmt.Errorf("%s: the patch removes the file and has not all of its lines; remove it with all of them", c.at)
	}
	return c, c.check(ctx)
}

// check returns an error if a file is not to become what it would.
func (c change) check(ctx context.Context) error {
	switch {
	case c.does == actionAlter && c.after == string(c.before):
		return fmt.Errorf("%s: the patch changes nothing", c.at)
	case len(c.after) > folder.MaxFile:
		return fmt.Errorf("%s would have more than %d MiB", c.at, folder.MaxFile>>20)
	case c.does == actionRemove:
		return nil
	}
	return breaks(ctx, c.at, string(c.before), c.after)
}

func (f *Folder) added(ctx context.Context, p filePatch) (c change, err error) {
	c.does = actionAdd
	var h hunk
	if len(p.hunks) > 0 {
		h = p.hunks[0]
	}

	if len(p.hunks) > 1 || len(h.before()) > 0 {
		return c, fmt.Errorf("%s: it is a new file, so it has one hunk, of which all lines begin with +", p.path)
	}

	after := content{whole: !h.newCut}
	for _, l := range h.lines {
		after.lines = append(after.lines, l.text)
	}
	c.after, c.lines = after.text(), h.lines

	if c.at, err = f.at.Resolve(p.path); err != nil {
		return c, err
	}
	switch info, err := f.at.Lstat(c.at); {
	case errors.Is(err, fs.ErrNotExist):
		if err := f.at.Available(c.at, nil); err != nil {
			return c, err
		}
		return c, c.check(ctx)
	case err != nil:
		return c, folder.Plain(c.at, err)
	default:
		if err := f.at.Available(c.at, info); err != nil {
			return c, err
		}
		if _, there, _, err := f.at.Content(c.at); err == nil && string(there) == c.after {
			return c, errAlready
		}
	}
	return c, fmt.Errorf("%s is there already; a patch for it begins with --- a/%s", c.at, c.at)
}

// isDone reports whether a text is as the patch makes it: it can be undone, and what it was becomes the text again.
func (p filePatch) isDone(text string) bool {
	was, err := p.reversed().apply(text)
	if err != nil {
		return false
	}
	again, err := p.apply(was)
	return err == nil && again == text
}

// preview shows exactly what is written, as a diff of the files as they are.
func (s changeSet) preview() tool.Preview {
	var text strings.Builder
	var parts []string
	for _, c := range s.changes {
		from, to := "a/"+c.at, "b/"+c.at
		switch c.does {
		case actionAdd:
			from = "/dev/null"
		case actionRemove:
			to = "/dev/null"
		}

		whole := func(text string) bool { return text == "" || strings.HasSuffix(text, "\n") }
		text.WriteString(unified(from, to, c.lines, whole(string(c.before)), whole(c.after)))
		was, is := sha256.Sum256(c.before), sha256.Sum256([]byte(c.after))
		parts = append(parts, c.at, hex.EncodeToString(was[:]), hex.EncodeToString(is[:]))
	}

	for _, at := range s.already {
		fmt.Fprintf(&text, "(%s is as the patch makes it.)\n", at)
	}
	return tool.NewPreview(tool.PreviewDiff, text.String(), parts...)
}

// show is the preview of a call.
func (f *Folder) show(ctx context.Context, _ tool.Call, in applyArguments) (tool.Preview, error) {
	set, err := f.changesOf(ctx, in.Patch)
	if err != nil {
		return tool.Preview{}, err
	}
	return set.preview(), nil
}

// errUnclear says that files are neither as a patch makes them nor as they were when it was approved: it can be half
// applied, or others changed them.
var errUnclear = fmt.Errorf("some files are not as the patch makes them: %w", tool.ErrUnknown)

// verify reports whether all files are as the patch makes them, and no longer as it finds them. If what was approved
// can still be done, the call did not take effect.
func (f *Folder) verify(ctx context.Context, call tool.Call, in applyArguments) (tool.Result, bool, error) {
	f.at.Lock()
	defer f.at.Unlock()
	if call.Approved != "" {
		if set, err := f.changesOf(ctx, in.Patch); err == nil && call.CheckApproved(set.preview()) == nil {
			return tool.Result{}, false, nil
		}
	}

	files, err := readPatch(in.Patch)
	if err != nil {
		return tool.Result{}, false, err
	}

	var set changeSet
	for _, p := range files {
		at, gone := f.gone(p)
		c, err := f.changeOf(ctx, p)
		switch {
		case gone:
			set.already = append(set.already, at)
		case errors.Is(err, errAlready):
			set.already = append(set.already, c.at)
		default:
			return tool.Result{}, false, errUnclear
		}
	}

	result, err := set.result()
	return result, err == nil, err
}

// gone reports whether a patch removes a file that is not there.
func (f *Folder) gone(p filePatch) (at string, gone bool) {
	if p.action != actionRemove {
		return "", false
	}

	at, err := f.at.Resolve(p.path)
	if err != nil {
		return "", false
	}
	_, err = f.at.Lstat(at)
	return at, errors.Is(err, fs.ErrNotExist)
}

func (f *Folder) touched(ctx context.Context, in applyArguments) (paths []string, err error) {
	set, err := f.changesOf(ctx, in.Patch)
	for _, c := range set.changes {
		paths = append(paths, c.at)
	}
	return paths, err
}
