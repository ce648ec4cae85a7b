package folder

import (
	"bytes"
	"context"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Bounds of Texts.
const (
	MaxText   = 1 << 20   // bytes of a file
	MaxTexts  = 20_000    // files
	MaxTotal  = 256 << 20 // bytes of all files
	maxBroken = 4         // a text has at most one byte in this many that is not UTF-8
)

// Skipped is what WalkTextFiles left out because of its bounds, and what is not available.
type Skipped struct {
	Large       int  // files of more than MaxText
	Unavailable int  // files that are not available (see Available)
	TooMany     bool // there are files after MaxTexts, or MaxTotal
}

// WalkTextFiles calls do for the text files at a path and below it, in the order of their paths. Left out are
// binary files, links, what .gitignore files name, and, unless the path itself is one of them, hidden
// files and folders of dependencies. Content is shared with nobody.
func (f *Folder) WalkTextFiles(
	ctx context.Context, name, include string, do func(at string, content []byte) error,
) (left Skipped, err error) {
	wanted, err := readInclude(include)
	if err != nil {
		return left, err
	}
	top, err := f.Resolve(name)
	if err != nil {
		return left, err
	}

	// What the folders above say holds, too.
	of := map[string]ignore{}
	for at := range above(top) {
		of[at] = f.ignored(of[path.Dir(at)], at)
	}

	files, total := 0, 0
	_, err = f.Walk(ctx, top, "", func(at string, d fs.DirEntry) error {
		rules := of[path.Dir(at)]
		if at != top && (foreign(at, d.IsDir()) || rules.out(at, d.IsDir())) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			of[at] = f.ignored(rules, at)
			return nil
		}
		if !d.Type().IsRegular() || !wanted.Match(at) {
			return nil
		}

		info, err := d.Info()
		switch {
		case err != nil:
			return nil //nolint:nilerr // it has gone
		case at != top && f.Available(at, info) != nil:
			left.Unavailable++
			return nil //nolint:nilerr // left says so
		case info.Size() > MaxText:
			left.Large++
			return nil
		}
		if files == MaxTexts || total > MaxTotal {
			left.TooMany = true
			return fs.SkipAll
		}

		_, content, _, err := f.Content(at)
		if err != nil && at == top {
			return err
		}
		if err != nil || Binary(content) || len(content) > MaxText {
			return nil //nolint:nilerr // it has gone, or may not be read
		}
		if broken := len(content) - len(bytes.ToValidUTF8(content, nil)); broken*maxBroken > len(content) {
			return nil
		}

		files++
		total += len(content)
		return do(at, content)
	})
	return left, err
}

// above returns the folders above a path, from the top one, and the path itself.
func above(at string) func(yield func(string) bool) {
	var all []string
	for at != "." {
		all = append(all, at)
		at = path.Dir(at)
	}
	all = append(all, ".")
	slices.Reverse(all)
	return slices.Values(all)
}

// ignored returns rules together with those of the .gitignore file of a folder, if it has one.
func (f *Folder) ignored(rules ignore, at string) ignore {
	name := path.Join(at, ".gitignore")
	if info, err := f.Lstat(name); err != nil || !info.Mode().IsRegular() || info.Size() > MaxText {
		return rules
	}
	_, content, _, err := f.Content(name)
	if err != nil {
		return rules // it has gone, or may not be read
	}
	return rules.with(at, strings.ToValidUTF8(string(content), "\uFFFD"))
}
