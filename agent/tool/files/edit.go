package files

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

type editArguments struct {
	Path       string `json:"path" jsonschema:"file, relative to the top folder"`
	Search     string `json:"search" jsonschema:"the part to replace, exactly as it is in the file, with its indentation"`
	Replace    string `json:"replace" jsonschema:"what the part is replaced with"`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema:"replace the part wherever it is; otherwise it must be there once"`
}

func (in editArguments) check() error {
	switch in.Search {
	case "":
		return errors.New("search: it is empty; files.write_file writes whole files")
	case in.Replace:
		return errors.New("replace: it is the same as search")
	}
	return nil
}

func (f *Folder) edit(_ context.Context, in editArguments) (change, error) {
	if err := in.check(); err != nil {
		return change{}, err
	}
	at, before, info, err := f.text(in.Path)
	if err != nil {
		return change{}, err
	}

	n, err := in.occurrences(at, before)
	if err != nil {
		return change{}, err
	}
	if size := len(before) + n*(len(in.Replace)-len(in.Search)); size > maxEdited {
		return change{}, fmt.Errorf("replace: %s would have %d bytes, more than %d MiB", at, size, maxEdited>>20)
	}
	after := strings.Replace(before, in.Search, in.Replace, n)
	return f.replacing(at, []byte(before), []byte(after), info, edited(at, n))
}

func edited(at string, n int) string {
	return fmt.Sprintf("Edited %s (%s)", at, count(n, "change", "changes"))
}

// occurrences returns how often the part is replaced. That it is not there, or is there more than once, is an error
// that says where to look.
func (in editArguments) occurrences(at, content string) (int, error) {
	n := strings.Count(content, in.Search)
	switch {
	case n == 0 && strings.Contains(content, "\r\n") && !strings.Contains(in.Search, "\r"):
		return 0, fmt.Errorf("search: it is not in %s, whose lines end in CR LF%s", at, nearest(content, in.Search))
	case n == 0:
		return 0, fmt.Errorf("search: it is not in %s; read the file and copy the part exactly%s", at,
			nearest(content, in.Search))

	case in.ReplaceAll:
		return n, nil
	case n > 1:
		return 0, fmt.Errorf("search: it is in %s %d times, at lines %s; add lines around the part until it is there once, "+
			"or set replace_all",
			at, n, strings.Join(linesOf(content, in.Search), ", "))
	// Count does not see occurrences that overlap.
	case strings.Index(content, in.Search) != strings.LastIndex(content, in.Search):
		return 0, fmt.Errorf("search: it is in %s more than once; add lines around the part until it is there once", at)
	}
	return 1, nil
}

// linesOf returns the numbers of the lines in which a part begins.
func linesOf(content, part string) (numbers []string) {
	for line := 1; ; {
		at := strings.Index(content, part)
		if at < 0 {
			return numbers
		}
		if len(numbers) == maxPlaces {
			return append(numbers, "...")
		}

		line += strings.Count(content[:at], "\n")
		numbers = append(numbers, strconv.Itoa(line))
		line += strings.Count(part, "\n")
		content = content[at+len(part):]
	}
}

// replaced reports whether an edit took effect: what it puts in is there, and what it takes out is nowhere else.
func (f *Folder) replaced(_ context.Context, in editArguments) (change, bool, error) {
	if err := in.check(); err != nil {
		return change{}, false, err
	}
	at, now, _, err := f.text(in.Path)
	if err != nil || !strings.Contains(now, in.Replace) {
		return change{}, false, err
	}

	n, rest := 1, now
	if in.Replace != "" {
		rest = strings.ReplaceAll(now, in.Replace, "\x00") // which is in no text
	}
	if in.ReplaceAll && in.Replace != "" {
		n = strings.Count(now, in.Replace)
	}
	return change{summary: edited(at, n), paths: []string{at}}, !strings.Contains(rest, in.Search), nil
}
