package codereader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	maxEntries  = 500     // in a listing
	maxLines    = 400     // in one read
	maxFile     = 4 << 20 // size of a file to read or search, in bytes
	maxMatches  = 100     // in a search
	maxLineText = 300     // characters of a line
)

var errBinary = errors.New("is not a text file")

// Folder is the folder with the code. Nothing outside of it can be reached, neither with .. nor
// through a symbolic link. It is safe for concurrent use.
type Folder struct {
	root *os.Root
}

// OpenFolder opens a folder. The caller must close it.
func OpenFolder(dir string) (*Folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("folder to read: %w", err)
	}
	return &Folder{root: root}, nil
}

// Close closes the folder.
func (f *Folder) Close() error { return f.root.Close() }

// List lists one folder, one line per entry. Sub-folders end in a slash; files are followed by
// their size.
func (f *Folder) List(name string) (string, error) {
	dir, err := f.root.OpenRoot(inFolder(name))
	if err != nil {
		return "", plain(err)
	}
	defer dir.Close()
	entries, err := fs.ReadDir(dir.FS(), ".") // sorted by name
	if err != nil {
		return "", plain(err)
	}
	var out strings.Builder
	for i, entry := range entries {
		if i == maxEntries {
			fmt.Fprintf(&out, "(%d more entries)\n", len(entries)-i)
			break
		}
		info, err := entry.Info()
		switch {
		case err != nil: // removed in the meantime
		case entry.IsDir():
			fmt.Fprintf(&out, "%s/\n", entry.Name())
		case info.Mode().IsRegular():
			fmt.Fprintf(&out, "%s %d bytes\n", entry.Name(), info.Size())
		default: // symbolic links, sockets and the like
			fmt.Fprintf(&out, "%s (%s)\n", entry.Name(), info.Mode().Type())
		}
	}
	if out.Len() == 0 {
		return "(empty folder)\n", nil
	}
	return out.String(), nil
}

// Read returns the lines from..to of a text file, each with its number. Both are included and
// count from 1; to 0 means the end of the file. One call returns at most 400 lines.
func (f *Folder) Read(name string, from, to int) (string, error) {
	text, err := f.text(inFolder(name))
	if err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(text) == 0 {
		return "(empty file)\n", nil
	}
	from = max(from, 1)
	if to <= 0 || to > len(lines) {
		to = len(lines)
	}
	switch {
	case from > len(lines):
		return "", fmt.Errorf("%s has %d lines, none from line %d on", name, len(lines), from)
	case from > to:
		return "", fmt.Errorf("from_line %d is after to_line %d", from, to)
	}
	last := min(to, from+maxLines-1)
	var out strings.Builder
	for n := from; n <= last; n++ {
		fmt.Fprintf(&out, "%5d  %s\n", n, clip(strings.TrimSuffix(lines[n-1], "\r"), maxLineText))
	}
	if last < len(lines) {
		fmt.Fprintf(&out, "(%s has %d lines; read on from line %d)\n", name, len(lines), last+1)
	}
	return out.String(), nil
}

// Search returns the lines of a file, or of all text files in a folder, that match an RE2
// pattern, in the form "file:line: text".
func (f *Folder) Search(ctx context.Context, pattern, name string) (string, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	matches := 0
	start := inFolder(name)
	if _, err := f.root.Stat(start); err != nil { // its error is clearer than that of WalkDir
		return "", plain(err)
	}
	err = fs.WalkDir(f.root.FS(), start, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return nil // skip an unreadable folder
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "node_modules"):
			return fs.SkipDir
		case !entry.Type().IsRegular():
			return nil // a folder, or a link, whose target is searched where it is
		}
		text, err := f.text(file)
		if err != nil {
			if file == start {
				return err
			}
			return nil // skip a file that is binary or too large
		}
		n := 0
		for line := range bytes.Lines(text) {
			n++
			line = bytes.TrimRight(line, "\r\n")
			if !re.Match(line) {
				continue
			}
			if matches == maxMatches {
				fmt.Fprintf(&out, "(more than %d matches; narrow the search)\n", maxMatches)
				return fs.SkipAll
			}
			matches++
			fmt.Fprintf(&out, "%s:%d: %s\n", file, n, clip(strings.TrimSpace(string(line)), maxLineText))
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if matches == 0 {
		return "(no match)\n", nil
	}
	return out.String(), nil
}

// text reads a whole text file. It checks that the file is regular before it opens it, because
// opening a pipe would wait for its other end.
func (f *Folder) text(name string) ([]byte, error) {
	info, err := f.root.Stat(name)
	switch {
	case err != nil:
		return nil, plain(err)
	case info.IsDir():
		return nil, fmt.Errorf("%s is a folder", name)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s %w", name, errBinary)
	case info.Size() > maxFile:
		return nil, fmt.Errorf("%s has %d bytes, more than %d", name, info.Size(), maxFile)
	}
	file, err := f.root.Open(name)
	if err != nil {
		return nil, plain(err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return nil, plain(err)
	}
	if bytes.IndexByte(text, 0) >= 0 || !utf8.Valid(text) {
		return nil, fmt.Errorf("%s %w", name, errBinary)
	}
	return text, nil
}

// plain removes the name of the system call from an error. It is of no use to a model.
func plain(err error) error {
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		return fmt.Errorf("%s: %w", e.Path, e.Err)
	}
	return err
}

// inFolder cleans a path. Models name the folder itself in several ways. Leading .. stay in the
// path, and os.Root rejects them.
func inFolder(name string) string {
	if name == "" || name == "/" {
		return "."
	}
	return path.Clean(name)
}

// clip shortens a text to a number of characters.
func clip(s string, characters int) string {
	if r := []rune(s); len(r) > characters {
		return string(r[:characters]) + "…"
	}
	return s
}
