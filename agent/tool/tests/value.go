package tests

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
)

// maxValue bounds an argument of a model, in bytes.
const maxValue = 500

// within returns a path below the folder of the tests as an argument, which is no option.
type within func(path string) (string, error)

// checkValue returns an error if a value could be anything else than a value to the program.
func checkValue(name, value string) error {
	switch {
	case len(value) > maxValue:
		return fmt.Errorf("%s: it has more than %d bytes", name, maxValue)
	case strings.HasPrefix(value, "-"):
		return fmt.Errorf("%s: %q begins with -, as options do; it must not", name, value)
	case strings.HasPrefix(value, "@"): // pytest reads arguments from such a file
		return fmt.Errorf("%s: %q begins with @; it must not", name, value)

	case strings.TrimSpace(value) == "":
		return fmt.Errorf("%s: it is empty", name)
	case strings.ContainsFunc(value, unicode.IsControl):
		return fmt.Errorf("%s: %q has a control character", name, value)
	}
	return nil
}

// plainValue is what may be handed to a script: nothing in it means anything to a shell.
var plainValue = regexp.MustCompile(`^[\p{L}\p{N} _./:=,+#@-]*$`)

// packages returns a path of Go: a folder, or one with /... for all packages below it.
func packages(within within, path string) ([]string, error) {
	dir, all := strings.CutSuffix(path, "...")
	if !all {
		at, err := within(path)
		return []string{at}, err
	}

	switch {
	case dir == "" || dir == "./":
		return []string{"./..."}, nil
	case filepath.IsAbs(path) || !strings.HasSuffix(dir, "/"):
		return nil, fmt.Errorf("path: %q is not a folder of the top folder with /... at its end", path)
	}

	at, err := within(strings.TrimSuffix(strings.TrimPrefix(dir, "./"), "/"))
	if err != nil {
		return nil, err
	}
	return []string{filepath.ToSlash(at) + "/..."}, nil
}

// nodes returns a path of pytest: a file or folder, or a test in a file as pytest names it.
func nodes(within within, path string) ([]string, error) {
	file, id, inside := strings.Cut(path, "::")
	at, err := within(file)
	if err != nil || !inside {
		return []string{at}, err
	}
	if id == "" || strings.ContainsFunc(id, unicode.IsControl) {
		return nil, fmt.Errorf("path: %q does not name a test, such as tests/test_a.py::TestX::test_y", path)
	}
	return []string{at + "::" + id}, nil
}

// module returns a path of Maven: the folder of a module, or the file of a class.
func module(within within, path string) ([]string, error) {
	at, err := within(path)
	if err != nil {
		return nil, err
	}

	if class, isClass := strings.CutSuffix(filepath.Base(at), ".java"); isClass {
		if err := checkValue("path", class); err != nil {
			return nil, err
		}
		return []string{"-Dtest=" + class}, nil
	}
	return []string{"-pl", at}, nil
}

func noPath(within, string) ([]string, error) {
	return nil, errors.New("path: the program takes none; choose tests by select")
}
