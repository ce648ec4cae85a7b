package code

import (
	"context"
	"strings"
	"testing"
)

// A change that makes errors of syntax is refused with the place and what is there. One that repairs is not, and
// neither is one of a file in a language that is not parsed.
func TestBreaks(t *testing.T) {
	t.Parallel()
	const two = "def f(:\n    return 1\n\n\ndef g():\n    return 2\n" // the first function is broken
	for name, row := range map[string]struct{ file, before, after, want string }{
		"go": {"a.go", "package a\n\nfunc f() {}\n", "package a\n\nfunc f( {}\n",
			"a.go would have an error of syntax (Go): line 3, column 9: "},
		"python": {"a.py", "x = (1)\n", "x = (1\n",
			`a.py would have an error of syntax (Python): line 1, column 1: this cannot be parsed: "x = (1"; the line would be "x = (1"`},
		"indented": {"a.py", "if a:\n    b()\n", "if a:\nb()\n", "line 1, column 6: an indented block is missing"},
		"typescript": {"a.ts", "const a: number = 1;\n", "const a: number = 1 +;\n",
			"a.ts would have an error of syntax (TypeScript): line 1, column 21: this cannot be parsed: \"+\""},
		"tsx": {"a.tsx", "const a = <p>b</p>;\n", "const a = <p>b</q;\n",
			"a.tsx would have an error of syntax (TypeScript): line 1, "},
		"javascript": {"a.mjs", "f();\n", "f(;\n",
			"a.mjs would have an error of syntax (JavaScript): line 1, column 3: ) is missing"},
		"java": {"A.java", "class A {\n    int a;\n}\n", "class A {\n    int a;\n",
			"A.java would have an error of syntax (Java): line 2, column 11: } is missing"},
		"still good": {"a.py", "x = 1\n", "x = 2\n", ""},
		"kotlin":     {"a.kt", "fun f() {}\n", "fun f( {\n", ""},
		"text":       {"a.txt", "(", "((", ""},
		"repaired":   {"a.py", two, strings.Replace(two, "(:", "():", 1), ""},
		"half":       {"a.py", "def f(:\n    x = = 1\n", "def f():\n    x = = 1\n", ""},
		"elsewhere":  {"a.py", two, strings.Replace(two, "return 2", "return 3", 1), ""},
		"one more": {"a.py", two, strings.Replace(two, "return 2", "return = 2", 1),
			`line 6, column 12: this cannot be parsed: "="; the line would be "    return = 2"`},
		"as broken": {"a.go", "package a\n\nfunc f( {}\n", "package a\n\nfunc g( {}\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := breaks(t.Context(), row.file, row.before, row.after)
			if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
				t.Errorf("breaks:\n%v, want\n%s", err, row.want)
			}
		})
	}

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := breaks(ended, "a.py", "x = 1\n", "x = (\n"); err != nil {
		t.Errorf("without time to parse: %v", err)
	}
}

// Results say which files have errors of syntax, and what is measured of them is an estimate.
func TestErrorsOfSyntaxAreMeasured(t *testing.T) {
	t.Parallel()
	m, _ := measure(t.Context(), "a.py", []byte("def f(:\n    return 1\n\ndef g(a):\n    return 2\n"))
	if !m.Estimate || len(m.Functions) != 2 || m.Functions[1].Name != "g" || len(m.syntax) != 1 {
		t.Errorf("measure = %+v", m)
	}

	var text strings.Builder
	all := survey{files: []measured{m}}.problems(&text)
	if text.String() != "a.py has an error of syntax: 1:7: ) is missing\n" || len(all) != 1 || all[0].Path != "a.py" ||
		all[0].Line != 1 || all[0].Column != 7 {
		t.Errorf("text.String() = %s %+v", text.String(), all)
	}

	m, _ = measure(t.Context(), "a.java", []byte(strings.Repeat("class A { int }\n", 1000)))
	text.Reset()
	if all := (survey{files: []measured{m}}).problems(&text); len(all) != shownProblems ||
		!strings.Contains(text.String(), "(97 more errors of syntax)") {
		t.Errorf("text.String() = %s %d", text.String(), len(all))
	}
}
