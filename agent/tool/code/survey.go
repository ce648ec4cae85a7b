package code

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/actlog/actlog/internal/folder"
)

// scope says which files a call is about.
type scope struct {
	Path    string `json:"path,omitempty" jsonschema:"folder or file; the top folder if it is missing"`
	Include string `json:"include,omitempty" jsonschema:"only files with this pattern, for example *.go"`
}

// survey is the code of some files.
type survey struct {
	files   []measured
	modules []module
	notes   []string // what was left out, and what is an estimate
}

// measure measures a file. It reports false if its name is of no known language.
func measure(at string, content []byte) (measured, bool) {
	m := measured{Path: at, Language: languages[strings.ToLower(path.Ext(at))], content: content, Functions: []function{}}
	if m.Language == "" {
		return m, false
	}
	m.text = strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
	if len(content) > 0 {
		m.Lines = len(m.text)
	}
	if m.Language != "Go" || !m.parse() {
		m.estimate()
	}
	return m, true
}

// maxCode bounds the code that a call looks at, in bytes.
const maxCode = 64 << 20

var goModule = regexp.MustCompile(`(?m)^module\s+"?([^\s"]+)`)

// survey measures the code at a path. Files of unknown languages are left out.
func (f *Folder) survey(ctx context.Context, in scope) (s survey, err error) {
	total, more := 0, false
	left, err := f.at.Texts(ctx, in.Path, in.Include, func(at string, content []byte) error {
		if m, ok := measure(at, content); ok {
			if total += len(content); total > maxCode {
				more = true
				return fs.SkipAll
			}
			s.files = append(s.files, m)
		}
		return ctx.Err()
	})
	if err != nil {
		return s, err
	}
	if len(s.files) == 0 && left.Closed > 0 {
		return s, fmt.Errorf("path: there is no code of a known language but %d files that are not available: they may hold secrets, or are hard links", left.Closed)
	}
	if len(s.files) == 0 {
		return s, errors.New("path: there is no code of a known language; files that .gitignore names and dependencies are left out")
	}
	s.modules = f.modulesOf(s.files)
	if left.More || more {
		s.notes = append(s.notes, "Only the first files were looked at; name a folder to see others.")
	}
	if left.Large > 0 {
		s.notes = append(s.notes, fmt.Sprintf("%d files of more than %d MiB were left out.", left.Large, folder.MaxText>>20))
	}
	if left.Closed > 0 {
		s.notes = append(s.notes, fmt.Sprintf("%d files were left out: they may hold secrets, or are hard links.", left.Closed))
	}
	for _, m := range s.files {
		if m.Estimate {
			s.notes = append(s.notes, "What is marked as an estimate was not parsed: it follows from indentation, words that branch, and lines that import.")
			break
		}
	}
	return s, nil
}

// modulesOf returns the modules of Go that files belong to, the innermost first.
func (f *Folder) modulesOf(files []measured) (modules []module) {
	seen := map[string]bool{}
	for _, m := range files {
		if m.Language != "Go" {
			continue
		}
		for dir := path.Dir(m.Path); !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			if _, content, _, err := f.at.Content(path.Join(dir, "go.mod")); err == nil { // else it has none
				if found := goModule.FindSubmatch(content); found != nil {
					modules = append(modules, module{string(found[1]), dir})
				}
			}
		}
	}
	// A module within another one comes first: its name is the longer one as a rule.
	for i := range modules {
		for j := i; j > 0 && len(modules[j].name) > len(modules[j-1].name); j-- {
			modules[j], modules[j-1] = modules[j-1], modules[j]
		}
	}
	return modules
}

func (s survey) note(text *strings.Builder) {
	for _, n := range s.notes {
		text.WriteString("(" + n + ")\n")
	}
}
