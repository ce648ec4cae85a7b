package tests

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

type arguments struct {
	Path     string `json:"path,omitempty" jsonschema:"only the tests of this file or folder, relative to the top folder; for Go also ./... or pkg/...; for pytest also tests/test_a.py::TestX::test_y"`
	Select   string `json:"select,omitempty" jsonschema:"only tests whose names match: for Go a regular expression (-run), for pytest an expression (-k), for Jest and Vitest a pattern (-t), for Maven Class#method, for Gradle a pattern (--tests)"`
	Markers  string `json:"markers,omitempty" jsonschema:"only tests with these marks: for pytest an expression such as slow and not db (-m), for Maven a group"`
	Coverage bool   `json:"coverage,omitempty" jsonschema:"also measure how much of the code the tests reach"`
}

// commandOf returns the command for a call. Its marks are still in it.
func (r runner) commandOf(in arguments) ([]string, error) {
	added := slices.Clone(r.program.report)
	if in.Coverage {
		if r.program.coverage == nil {
			return nil, fmt.Errorf("coverage: %s has no known way to measure it; leave it out", r.program.name)
		}
		added = append(added, r.program.coverage...)
	}

	for _, each := range []struct {
		name, value string
		as          func(string) []string
	}{{"select", in.Select, r.program.selected}, {"markers", in.Markers, r.program.marked}} {
		if each.value == "" {
			continue
		}
		if err := checkValue(each.name, each.value); err != nil {
			return nil, err
		}
		if each.as == nil {
			return nil, fmt.Errorf("%s: %s has no known way to choose tests so; name a path, or leave it out", each.name,
				r.program.name)
		}
		added = append(added, each.as(each.value)...)
	}

	configured := r.Arguments
	if in.Path != "" {
		path, err := r.pathOf(in.Path)
		if err != nil {
			return nil, err
		}
		added = append(added, path...)
		configured = r.program.withoutPackages(configured)
	}
	return r.insert(configured, added, in)
}

// insert adds arguments to those of the configuration, where the program reads them.
func (r runner) insert(configured, added []string, in arguments) ([]string, error) {
	if slices.Contains(scripts, filepath.Base(configured[0])) {
		for _, value := range []string{in.Path, in.Select, in.Markers} {
			if !plainValue.MatchString(value) || strings.Contains(value, " -") {
				return nil, fmt.Errorf("%q: %s hands it to a shell, so it may only have letters, digits and _ . / : = , + # @ -",
					value, configured[0])
			}
		}
		if base := filepath.Base(configured[0]); len(added) > 0 && base == "npm" && !slices.Contains(configured, "--") {
			added = append([]string{"--"}, added...)
		}
	}

	at := len(configured)
	if r.program.format == Go { // what follows is for the tests themselves
		if args := slices.IndexFunc(configured,
			func(each string) bool { return each == "-args" || each == "--args" }); args >= 0 {
			at = args
		}
		added = slices.DeleteFunc(added,
			func(each string) bool { return each == "-json" && slices.Contains(configured, each) })
	}
	return slices.Concat(configured[:at], added, configured[at:]), nil
}

// withoutPackages returns the arguments without the packages at their end, such as ./..., which a path is to replace.
func (p program) withoutPackages(configured []string) []string {
	if p.format != Go {
		return configured
	}

	end := len(configured)
	if args := slices.Index(configured, "-args"); args >= 0 {
		end = args
	}

	begin := end
	for begin > 0 && strings.HasSuffix(configured[begin-1], "...") && !strings.HasPrefix(configured[begin-1], "-") {
		begin--
	}
	if begin > 0 && begin < end && strings.HasSuffix(configured[begin-1], "-coverpkg") { // its value
		begin++
	}
	return slices.Concat(configured[:begin], configured[end:])
}

func (r runner) pathOf(path string) ([]string, error) {
	if len(path) > maxValue {
		return nil, fmt.Errorf("path: it has more than %d bytes", maxValue)
	}
	if r.program.path != nil {
		return r.program.path(r.pathArgument, path)
	}
	at, err := r.pathArgument(path)
	return []string{at}, err
}

// pathArgument checks that name is inside the runner's folder, and returns it with ./ in front, so that no program
// takes it for an option.
func (r runner) pathArgument(name string) (string, error) {
	path := filepath.FromSlash(name)
	if path == "" {
		path = "."
	}
	if !filepath.IsLocal(path) || strings.ContainsRune(path, 0) {
		return "", fmt.Errorf("path: %q is not a path below the folder", name)
	}

	root, err := os.OpenRoot(r.Dir)
	if err != nil {
		return "", errors.New("the folder of the tests cannot be opened")
	}
	defer root.Close()
	if _, err := root.Stat(path); err != nil { // also if a link leaves the folder
		return "", fmt.Errorf("path: there is no %s in the folder", name)
	}
	return "." + string(filepath.Separator) + path, nil
}
