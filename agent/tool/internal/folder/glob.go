package folder

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// Glob is a pattern of paths: * and ? match within a name, **/ folders at any depth, [a-z] one of some characters, and
// {a,b} either of them. It takes time in proportion to a path, whatever a model writes as the pattern.
type Glob struct {
	pattern *regexp.Regexp // nil matches all
	names   bool           // it is compared with the last name of a path
}

// maxGlob bounds a pattern, in bytes.
const maxGlob = 256

// ReadGlob returns the pattern of whole paths, which are relative and have "/".
func ReadGlob(pattern string) (Glob, error) {
	switch local := strings.TrimPrefix(pattern, "./"); {
	case pattern == "":
		return Glob{}, fmt.Errorf("it is empty; want a pattern such as **/*.go")
	case len(pattern) > maxGlob:
		return Glob{}, fmt.Errorf("it has more than %d bytes", maxGlob)
	case path.IsAbs(pattern) || path.Clean(pattern) == ".." || strings.HasPrefix(path.Clean(pattern), "../"):
		return Glob{}, fmt.Errorf("%q leaves the folder; patterns are relative to it, such as src/**/*.go", pattern)
	default:
		pattern = local
	}

	compiled, err := regexp.Compile("^" + expression(pattern, true) + "$")
	if err != nil || !balanced(pattern) {
		return Glob{}, fmt.Errorf("%q is not a pattern such as **/*.go or src/{a,b}/*.ts", pattern)
	}
	return Glob{pattern: compiled}, nil
}

// readInclude returns the pattern of files that are wanted: one with "/" is compared with the path, another one with
// the name, and an empty one is for all.
func readInclude(include string) (Glob, error) {
	if include == "" {
		return Glob{}, nil
	}

	glob, err := ReadGlob(include)
	if err != nil {
		return Glob{}, fmt.Errorf("include: %q is not a pattern such as *.go", include)
	}
	glob.names = !strings.Contains(include, "/")
	return glob, nil
}

// Match reports whether a path matches.
func (g Glob) Match(at string) bool {
	if g.names {
		at = path.Base(at)
	}
	return g.pattern == nil || g.pattern.MatchString(at)
}

// balanced reports whether each [ and { of a pattern is closed.
func balanced(pattern string) bool {
	open, class := 0, false
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true

		case c == '{':
			open++
		case c == '}':
			open--
		}
	}
	return open == 0 && !class
}
