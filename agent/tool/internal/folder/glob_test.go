package folder_test

import (
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/tool/internal/folder"
)

func TestGlob(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		pattern, at string
		want        bool
	}{
		{"*.go", "a.go", true}, {"*.go", "sub/a.go", false}, {"**/*.go", "a.go", true}, {"**/*.go", "a/b/c.go", true},
		{"./a.go", "a.go", true},
		{"src/**/test_*.py", "src/test_a.py", true}, {"src/**/test_*.py", "src/x/y/test_a.py", true},
		{"src/**/test_*.py", "lib/test_a.py", false},
		{"src/**", "src/a/b", true}, {"{cmd,internal}/*.go", "cmd/a.go", true}, {"{cmd,internal}/*.go", "docs/a.go", false},
		{"*.{ts,tsx}", "a.tsx", true},
		{"{a,b{c,d}}", "bd", true}, {"a,b", "a,b", true}, {"a?c", "abc", true}, {"a?c", "a/c", false}, {"[a-c]x", "bx", true},
		{"[!a-c]x", "bx", false},
		{`\*`, "*", true}, {`\*`, "a", false}, {"a.c", "abc", false}, {"a+(b)|c", "a+(b)|c", true},
	} {
		glob, err := folder.ReadGlob(row.pattern)
		if err != nil || glob.Match(row.at) != row.want {
			t.Errorf("%q matches %q: want %v, %v", row.pattern, row.at, row.want, err)
		}
	}

	for _, pattern := range []string{"", "[", "{a", "a}", "[z-a]", "../*", "/etc/*", "a/../../*",
		strings.Repeat("a", 300)} {
		if _, err := folder.ReadGlob(pattern); err == nil {
			t.Errorf("%q is a pattern", pattern)
		}
	}
}

// No pattern takes long.
func TestGlobThatGoesWild(t *testing.T) {
	t.Parallel()
	start := time.Now()
	for _, pattern := range []string{strings.Repeat("*a", 120), strings.Repeat("**/", 80), strings.Repeat("{a,a}", 50),
		strings.Repeat("{", 100) + strings.Repeat("}", 100)} {
		if glob, err := folder.ReadGlob(pattern); err == nil {
			glob.Match(strings.Repeat("a", 4000) + "/" + strings.Repeat("a/", 1000))
		}
	}

	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}
