package tests

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/actlog/actlog/agent/tool/internal/folder"
)

// Bounds of the reports of a run.
const (
	maxReport      = 32 << 20 // bytes of one
	maxReports     = 2000     // files below the folder of the tests
	maxReportsSize = 64 << 20 // bytes of all
	maxReportDepth = 12       // folders
)

// place is where the report of a run is: a folder that the program may write in, which is made for it, and files
// below the folder of the tests. What is in them may be hostile: it is read as files of folders for models are.
type place struct {
	dir    string
	folder *folder.Folder
	tests  *folder.Folder // nil: nothing there is read
	wanted folder.Glob
	before map[string]time.Time // when files that match were changed
}

const reportFile = "report"

// open makes the place for the report of a run that is about to start.
func (r runner) open(ctx context.Context) (p *place, err error) {
	p = &place{}
	if p.dir, err = os.MkdirTemp("", "actlog-tests-"); err != nil {
		return nil, errors.New("there is no folder for the report of the tests: the server cannot make any for temporary " +
			"files")
	}
	defer func() {
		if err != nil {
			p.close()
		}
	}()

	if p.dir, err = filepath.EvalSymlinks(p.dir); err != nil {
		return p, err
	}
	if p.folder, err = folder.Open(p.dir); err != nil || r.program.files == "" {
		return p, err
	}

	if p.tests, err = folder.Open(r.Dir, r.program.files); err != nil {
		return p, errors.New("the folder of the tests cannot be opened")
	}
	p.tests.Hide(r.Sandbox.Hide...)
	if p.wanted, err = folder.ReadGlob(r.program.files); err != nil {
		return p, fmt.Errorf("report: %w", err)
	}
	p.before = map[string]time.Time{}
	return p, p.each(ctx, func(at string, changed time.Time) { p.before[at] = changed })
}

func (p *place) close() {
	if p.folder != nil {
		p.folder.Close()
	}
	if p.tests != nil {
		p.tests.Close()
	}
	_ = os.RemoveAll(p.dir) // what stays is in a folder for temporary files
}

// fill returns arguments with the paths of the place in them.
func (p *place) fill(arguments []string) []string {
	return replaced(arguments, reportMark, filepath.Join(p.dir, reportFile), folderMark, p.dir)
}

// hide returns arguments as they are shown: without the path of the place, which is another one each time.
func (p *place) hide(arguments []string) []string {
	return replaced(arguments, p.dir, os.TempDir())
}

func replaced(arguments []string, oldnew ...string) []string {
	texts := strings.NewReplacer(oldnew...)
	out := make([]string, len(arguments))
	for i, each := range arguments {
		out[i] = texts.Replace(each)
	}
	return out
}

// each calls do for the files that match below the folder of the tests.
func (p *place) each(ctx context.Context, do func(at string, changed time.Time)) error {
	found := 0
	_, err := p.tests.Walk(ctx, "", "", func(at string, d fs.DirEntry) error {
		if d.IsDir() {
			if name := path.Base(at); strings.HasPrefix(name, ".") || name == "node_modules" ||
				strings.Count(at, "/") > maxReportDepth {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || !p.wanted.Match(at) {
			return nil
		}

		info, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // it has gone
		}
		if found++; found > maxReports {
			return fs.SkipAll
		}
		do(at, info.ModTime())
		return nil
	})
	return err
}

// read calls do for each report that the run has written, as far as it can be read.
func (p *place) read(ctx context.Context, do func(io.Reader) error) error {
	err := readFile(p.folder, reportFile, do)
	if p.tests == nil {
		return err
	}

	left := int64(maxReportsSize)
	return errors.Join(p.each(ctx, func(at string, changed time.Time) {
		if before, there := p.before[at]; left <= 0 || there && changed.Equal(before) {
			return
		}
		_ = readFile(p.tests, at, func(r io.Reader) error { // a report that cannot be read says nothing
			counted := &io.LimitedReader{R: r, N: left}
			err := do(counted)
			left = counted.N
			return err
		})
	}))
}

// readFile calls do for a file of a folder, or for its first bytes.
func readFile(in *folder.Folder, name string, do func(io.Reader) error) error {
	_, file, _, err := in.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	return do(io.LimitReader(file, maxReport))
}
