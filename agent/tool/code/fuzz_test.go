package code

import (
	"strings"
	"testing"
)

// FuzzPatch: a diff of two texts makes the one of the other, and hostile patches do no harm.
func FuzzPatch(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nx\nc")
	f.Add("", "a\n")
	f.Add("a\r\nb\r\nc", "a\r\nx\r\nc\r\n")
	f.Add("*** Begin Patch\n*** Update File: f\n@@ a\n b\n-c\n+d\n*** End of File\n", "a\nb\nc\n")
	f.Add("--- a/f\n+++ b/f\n@@ -1,0 +2 @@\n+x\n\\ No newline at end of file\n", "@@ -0,0 +1 @@\n\\")

	f.Fuzz(func(t *testing.T, before, after string) {
		if files, err := readPatch(before); err == nil {
			_, _ = files[0].apply(after)
		}
		if before == after {
			return
		}

		patch := diff("f", before, after)
		files, err := readPatch(patch)
		if err != nil {
			t.Fatalf("readPatch(patch) = %v\n%s", err, patch)
		}
		if got, err := files[0].apply(before); err != nil || got != after {
			t.Fatalf("files[0].apply(before) = %q %v\n%s", got, err, patch)
		}
	})
}

// FuzzMeasure: no text makes the measures fail or end outside of it.
func FuzzMeasure(f *testing.F) {
	f.Add("package a\n\nfunc f() {\n\tif x {\n\t} else {\n\t}\n}\n", uint8(0))
	f.Add("def f(a):\n  if a:\n    pass\n", uint8(1))
	f.Add("int f(int a) {\n}\n", uint8(2))
	f.Add("class A { int f(int a) { return a > 0 && a < 9 ? 1 : 2; } }\n", uint8(5))
	f.Add("import a from './a'\nconst f = (a) => { if (a) {} else if (b) {} }\n", uint8(6))
	for end := range grammars { // compiling takes longer than an input may: a worker that takes 10 seconds counts as hung
		measure(f.Context(), "f"+end, nil)
	}

	f.Fuzz(func(t *testing.T, text string, kind uint8) {
		m, ok := measure(t.Context(), "f"+[]string{".go", ".py", ".c", ".ts", ".rs", ".java", ".jsx"}[kind%7], []byte(text))
		if !ok {
			t.Fatal("no language")
		}

		for _, each := range m.Functions {
			if each.LineStart < 1 || each.LineEnd < each.LineStart || each.LineEnd > strings.Count(text, "\n")+1 ||
				each.Complexity < 1 {
				t.Fatalf("each = %+v", each)
			}
		}
		for _, each := range append(refactorings(m), smells([]measured{m})...) {
			if each.LineStart < 1 || each.LineEnd < each.LineStart || each.Patch != "" &&
				!strings.HasPrefix(each.Patch, "--- a/f") {
				t.Fatalf("each = %+v", each)
			}
		}
		depend([]measured{m}, nil)
	})
}
