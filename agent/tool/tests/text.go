package tests

import (
	"path/filepath"
	"regexp"
	"strings"
)

// escape is one of a terminal, such as those for colours.
var escape = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)

// oneLine returns a text without ends of lines and other characters that are not shown.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}

// plainText returns a text without the escapes of terminals and other characters that are not shown.
func plainText(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, escape.ReplaceAllString(strings.ToValidUTF8(text, "\uFFFD"), ""))
}

// below returns an absolute path as one of the folder dir, if it is below it.
func below(dir, path string) string {
	if !filepath.IsAbs(path) {
		return path
	}

	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		real = dir
	}
	for _, folder := range []string{dir, real} {
		if at, err := filepath.Rel(folder, path); err == nil && filepath.IsLocal(at) {
			return filepath.ToSlash(at)
		}
	}
	return path
}
