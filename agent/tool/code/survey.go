package code

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/actlog/actlog/agent/tool/internal/folder"
)

type scope struct {
	Path    string   `json:"path,omitempty" jsonschema:"folder or file; the top folder if it is missing"`
	Paths   []string `json:"paths,omitempty" jsonschema:"several folders or files, at most 100, in place of path"`
	Include string   `json:"include,omitempty" jsonschema:"only files with this pattern, for example *.go"`
}

type survey struct {
	files   []measured
	modules []module
	notes   []string // what was left out, and what is an estimate
}

// measure measures a file. It reports false if its name is of no known language.
func measure(ctx context.Context, at string, content []byte) (measured, bool) {
	m := measured{Path: at, Language: languageOf(at), content: content, Functions: []function{}}
	if m.Language == "" {
		return m, false
	}

	m.text = strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
	if len(content) > 0 {
		m.Lines = len(m.text)
	}

	parsed := false
	if g, ok := grammarOf(at); ok {
		parsed = m.parseBy(ctx, g)
	} else if m.Language == "Go" {
		parsed = m.parse()
	}
	if !parsed {
		m.estimate()
	}
	return m, true
}

// maxParsed bounds the time in which a call parses files, half of what it has. The rest is estimated, so that there is
// a result in time.
const maxParsed = 30 * time.Second

// maxCode bounds the code that a call looks at, in bytes.
const maxCode = 64 << 20

var goModule = regexp.MustCompile(`(?m)^module\s+"?([^\s"]+)`)

const maxPaths = 100

// all returns the paths of the scope, at least one.
func (in scope) all() ([]string, error) {
	if len(in.Paths) > maxPaths {
		return nil, fmt.Errorf("paths: at most %d; name a folder", maxPaths)
	}

	all := in.Paths
	if in.Path != "" || len(all) == 0 {
		all = append([]string{in.Path}, all...)
	}
	return all, nil
}

// survey measures the code at some paths. Files of unknown languages are left out.
func (f *Folder) survey(ctx context.Context, in scope) (s survey, err error) {
	paths, err := in.all()
	if err != nil {
		return s, err
	}
	parsing, cancel := context.WithTimeout(ctx, maxParsed)
	defer cancel()

	total, more := 0, false
	seen := map[string]bool{}
	measures := func(at string, content []byte) error {
		if seen[at] {
			return nil
		}

		seen[at] = true
		if m, ok := measure(parsing, at, content); ok {
			if total += len(content); total > maxCode {
				more = true
				return fs.SkipAll
			}
			s.files = append(s.files, m)
		}
		return ctx.Err()
	}

	var left folder.Skipped
	for _, each := range paths {
		one, err := f.at.WalkTextFiles(ctx, each, in.Include, measures)
		if err != nil {
			return s, err
		}
		left = folder.Skipped{
			Large: left.Large + one.Large, Unavailable: left.Unavailable + one.Unavailable,
			TooMany: left.TooMany || one.TooMany,
		}
	}

	if len(s.files) == 0 && left.Unavailable > 0 {
		return s, fmt.Errorf("path: there is no code of a known language but %d files that are not available: they may "+
			"hold secrets, or are hard links", left.Unavailable)
	}
	if len(s.files) == 0 {
		return s, errors.New("path: there is no code of a known language; files that .gitignore names and dependencies " +
			"are left out")
	}

	s.modules = f.modulesOf(s.files)

	if left.TooMany || more {
		s.notes = append(s.notes, "Only the first files were looked at; name a folder to see others.")
	}
	if left.Large > 0 {
		s.notes = append(s.notes, fmt.Sprintf("%d files of more than %d MiB were left out.", left.Large, folder.MaxText>>20))
	}
	if left.Unavailable > 0 {
		s.notes = append(s.notes, fmt.Sprintf("%d files were left out: they may hold secrets, or are hard links.",
			left.Unavailable))
	}
	if parsing.Err() != nil {
		s.notes = append(s.notes, "There was not enough time to parse all files; name a folder to have exact results of it.")
	}

	if slices.ContainsFunc(s.files, func(m measured) bool { return m.Estimate }) {
		s.notes = append(s.notes, estimates)
	}
	return s, nil
}

const estimates = "What is marked as an estimate was not parsed, or has errors of syntax: " +
	"without a parser it follows from indentation, words that branch, and lines that import."

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
	slices.SortStableFunc(modules, func(a, b module) int { return cmp.Compare(len(b.name), len(a.name)) })
	return modules
}

func (s survey) note(text *strings.Builder) {
	for _, n := range s.notes {
		text.WriteString("(" + n + ")\n")
	}
}

type problem struct {
	Path string `json:"path"`
	syntaxError
}

// maxProblems bounds the errors of syntax of a result, and shownProblems those of a file.
const (
	maxProblems   = 100
	shownProblems = 3
)

// problems writes what cannot be parsed, and returns the errors of syntax.
func (s survey) problems(text *strings.Builder) []problem {
	all := []problem{}
	for _, m := range s.files {
		if m.Problem != "" {
			fmt.Fprintf(text, "%s cannot be parsed: %s\n", m.Path, m.Problem)
		}
		for i, e := range m.syntax {
			if len(all) == maxProblems {
				fmt.Fprintf(text, "... (more errors of syntax)\n")
				return all
			}
			if i == shownProblems {
				fmt.Fprintf(text, "%s: ... (%d more errors of syntax)\n", m.Path, len(m.syntax)-i)
				break
			}
			fmt.Fprintf(text, "%s has an error of syntax: %s\n", m.Path, e)
			all = append(all, problem{m.Path, e})
		}
	}
	return all
}
