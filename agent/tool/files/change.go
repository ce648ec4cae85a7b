package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/internal/folder"
)

// change is what a call does to the folder: it is worked out, shown to whoever approves it, and then done.
type change struct {
	summary string
	paths   []string      // that change
	show    func() string // how they change, for people
	parts   []string      // what else decides that nothing has changed since it was shown
	do      func() error
}

func (c change) preview() tool.Preview {
	return tool.NewPreview(tool.PreviewDiff, c.show(), c.parts...)
}

func (c change) result() (tool.Result, error) {
	value, err := json.Marshal(c.paths)
	return tool.Result{
		Text: c.summary + ".", Summary: c.summary, Artifacts: []tool.Artifact{
			{Name: "files_modified", Type: "files", Value: value},
		},
	}, err
}

// writer makes a tool that changes the folder.
type writer[In any] struct {
	folder *Folder
	// plan returns what a call would do now. It changes nothing.
	plan func(ctx context.Context, in In) (change, error)
	// done returns the change of a call that took effect if the folder is as it is after it.
	done func(ctx context.Context, in In) (change, bool, error)
}

func (w writer[In]) tool(name, description string) tool.Tool {
	return tool.CallFunc(name, description, w.call,
		tool.WithPolicy(tool.Policy{Approval: true, Writes: true, OnUnknown: tool.Retry}),
		tool.WithTouches(w.touches), tool.WithPreview(w.preview), tool.WithVerify(w.verify))
}

func (w writer[In]) call(ctx context.Context, call tool.Call, in In) (tool.Result, error) {
	w.folder.at.Lock()
	defer w.folder.at.Unlock()
	c, err := w.plan(ctx, in)
	if err != nil {
		return tool.Result{}, err
	}
	if call.Approved != "" {
		if err := call.CheckApproved(c.preview()); err != nil {
			return tool.Result{}, err
		}
	}

	if err := ctx.Err(); err != nil {
		return tool.Result{}, err
	}
	if err := c.do(); err != nil {
		return tool.Result{}, err
	}
	return c.result()
}

func (w writer[In]) planned(ctx context.Context, in In) (change, error) {
	w.folder.at.Lock()
	defer w.folder.at.Unlock()
	return w.plan(ctx, in)
}

func (w writer[In]) touches(ctx context.Context, in In) ([]string, error) {
	c, err := w.planned(ctx, in)
	return c.paths, err
}

func (w writer[In]) preview(ctx context.Context, _ tool.Call, in In) (tool.Preview, error) {
	c, err := w.planned(ctx, in)
	if err != nil {
		return tool.Preview{}, err
	}
	return c.preview(), nil
}

// verify reports whether a call took effect. If what was approved can still be done, it did not. If the folder is
// neither as it was approved nor as it is after the call, others changed it, and nobody can tell.
func (w writer[In]) verify(ctx context.Context, call tool.Call, in In) (tool.Result, bool, error) {
	w.folder.at.Lock()
	defer w.folder.at.Unlock()
	if call.Approved != "" {
		if c, err := w.plan(ctx, in); err == nil && call.CheckApproved(c.preview()) == nil {
			return tool.Result{}, false, nil
		}
	}

	c, done, err := w.done(ctx, in)
	switch {
	case err != nil:
		return tool.Result{}, false, err
	case !done && call.Approved != "":
		return tool.Result{}, false, fmt.Errorf("others changed the folder meanwhile: %w", tool.ErrUnknown)
	case !done:
		return tool.Result{}, false, nil
	}
	result, err := c.result()
	result.Text += " The worker that made the call was lost, and the folder is as it is after the call."
	return result, err == nil, err
}

// replacing returns the change of a whole file; info is nil if it is new.
func (f *Folder) replacing(at string, before, after []byte, info fs.FileInfo, summary string) (change, error) {
	if len(after) > folder.MaxFile {
		return change{}, fmt.Errorf("%s would have more than %d MiB", at, folder.MaxFile>>20)
	}
	if err := f.at.Available(at, info); err != nil {
		return change{}, err
	}

	return change{
		summary: summary, paths: []string{at}, parts: []string{at, state(before, info), digest(after)},
		show: func() string { return diff(at, before, after, info != nil) },
		do:   func() error { return f.at.Replace(at, after, info) },
	}, nil
}

// diff returns how a file changes as a unified diff, or in words if it is not a text. there reports whether the
// file is there before.
func diff(at string, before, after []byte, there bool) string {
	old := "a/" + at
	if !there {
		old = "/dev/null"
	}

	if folder.Binary(before) || folder.Binary(after) {
		return fmt.Sprintf("--- %s\n+++ b/%s\nIt is a binary file: %d bytes become %d bytes.\n", old, at, len(before),
			len(after))
	}
	if text := udiff.Unified(old, "b/"+at, string(before), string(after)); text != "" {
		return text
	}
	return fmt.Sprintf("--- %s\n+++ b/%s\n", old, at) // nothing but perhaps an empty file
}

// removal returns how a file goes away, as a unified diff or in words.
func removal(at string, content []byte) string {
	if folder.Binary(content) {
		return fmt.Sprintf("--- a/%s\n+++ /dev/null\nIt is a binary file of %d bytes.\n", at, len(content))
	}
	if text := udiff.Unified("a/"+at, "/dev/null", string(content), ""); text != "" {
		return text
	}
	return fmt.Sprintf("--- a/%s\n+++ /dev/null\n", at)
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// state says what is at a path: the digest of a file, or that there is none.
func state(content []byte, info fs.FileInfo) string {
	if info == nil {
		return "none"
	}
	return digest(content)
}

// stamp says in short what a file is that nobody reads.
func stamp(info fs.FileInfo) string {
	return strings.Join([]string{
		info.Mode().String(), strconv.FormatInt(info.Size(), 10), strconv.FormatInt(info.ModTime().UnixNano(), 10),
	}, " ")
}

// current returns what is in a file: nothing, and no info, if there is none.
func (f *Folder) current(name string) (at string, content []byte, info fs.FileInfo, err error) {
	if at, err = f.at.Resolve(name); err != nil {
		return "", nil, nil, err
	}

	switch _, err := f.at.Lstat(at); {
	case errors.Is(err, fs.ErrNotExist):
		return at, nil, nil, f.at.Available(at, nil)
	case err != nil:
		return "", nil, nil, folder.Plain(at, err)
	}
	return f.at.Content(at)
}

// text returns the content of a file that is a text.
func (f *Folder) text(name string) (at, content string, info fs.FileInfo, err error) {
	at, b, info, err := f.at.Content(name)
	if err == nil && folder.Binary(b) {
		err = fmt.Errorf("%s is a binary file, not a text", at)
	}
	return at, string(b), info, err
}
