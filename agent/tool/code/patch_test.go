package code_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/tool"
)

const twenty = "1\n2\n3\n4\n5\nif x {\n\treturn a\n}\n9\n10\n11\n12\nif x {\n\treturn b\n}\n16\n17\n18\n19\n20\n"

// patched applies a patch to the file f, and returns the result and the text of the file; "" if it is not there.
func patched(t *testing.T, before, patch string) (tool.Result, string) {
	t.Helper()
	set, dir := open(t, files{"f": before, "other": "o\n"}, true)
	result := call(t, set, "code.apply_refactoring", object{"patch": patch})

	left, err := filepath.Glob(filepath.Join(dir, ".actlog-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left = %q %v", left, err)
	}

	b, err := os.ReadFile(filepath.Join(dir, "f"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return result, string(b)
}

// Patches as models write them are applied where their lines are, if there is one such place.
func TestPatchesOfModels(t *testing.T) {
	t.Parallel()
	const header = "--- a/f\n+++ b/f\n"
	of := func(old, new string) string { return strings.Replace(twenty, old, new, 1) }
	for name, row := range map[string]struct{ before, patch, after, told string }{
		"numbers are off": {
			twenty, header + "@@ -8,3 +8,3 @@\n 9\n-10\n+ten\n 11\n", of("10\n", "ten\n"), "lines 9-11 (offset +1)",
		},
		"counts are wrong": {
			twenty, header + "@@ -9,30 +9,2 @@\n 9\n-10\n+ten\n 11\n", of("10\n", "ten\n"), "lines 9-11",
		},
		"no numbers":          {twenty, header + "@@ @@\n 9\n-10\n+ten\n", of("10\n", "ten\n"), "lines 9-10"},
		"dots":                {twenty, header + "@@ ... @@\n 9\n-10\n+ten\n", of("10\n", "ten\n"), ""},
		"only the old number": {twenty, header + "@@ -13 @@\n if x {\n-\treturn b\n+\treturn c\n", of("b\n", "c\n"), ""},
		"huge number":         {twenty, header + "@@ -99999999,1 +1,1 @@\n-10\n+ten\n", of("10\n", "ten\n"), ""},
		"the nearest of two": {
			twenty, header + "@@ -12,3 +12,4 @@\n if x {\n+\ty()\n", of("if x {\n\treturn b", "if x {\n\ty()\n\treturn b"),
			"offset +1",
		},
		"by what is above": {
			twenty, header + "@@ 12 @@\n if x {\n+\ty()\n", of("if x {\n\treturn b", "if x {\n\ty()\n\treturn b"), "",
		},
		"several hunks": {
			twenty, header + "@@ -1 +1,2 @@\n 1\n+one\n@@ -17,2 +17,1 @@\n 17\n-18\n@@ @@\n-20\n+twenty\n",
			strings.Replace(strings.Replace(of("1\n", "1\none\n"), "18\n", "", 1), "20\n", "twenty\n", 1),
			"lines 1-2, lines 18-18, lines 20-20",
		},
		"hunks backwards": {
			twenty, header + "@@ -20 +20 @@\n-20\n+x\n@@ -1 +1 @@\n-1\n+y\n",
			strings.Replace(of("20\n", "x\n"), "1\n", "y\n", 1), "",
		},
		"fence": {
			twenty, "Here it is:\n```diff\n" + header + "@@ -10 +10 @@\n-10\n+ten\n```\nDone.", of("10\n", "ten\n"), "",
		},
		"blank line of no space": {"a\n\nb\nc\n", header + "@@ -1,4 +1,4 @@\n a\n\n b\n-c\n+d\n", "a\n\nb\nd\n", ""},
		"lines without a space":  {"a\n\tb\nc\n", header + "@@ @@\na\n\tb\n-c\n+d\n", "a\n\tb\nd\n", ""},
		"white space at the end": {"a  \nb\nc\n", header + "@@ -1,2 +1,2 @@\n a\n-b\n+x\n", "a  \nx\nc\n", ""},
		"LF for CR LF":           {"a\r\nb\r\nc\r\n", header + "@@ -1,2 +1,2 @@\n a\n-b\n+x\n", "a\r\nx\r\nc\r\n", ""},
		"CR LF for LF": {
			"a\nb\nc\n", strings.ReplaceAll(header+"@@ -1,2 +1,2 @@\n a\n-b\n+x\n", "\n", "\r\n"), "a\nx\nc\n", "",
		},
		"CR LF without the end": {"a\r\nb\r\nc", header + "@@ @@\n b\n c\n+d\n", "a\r\nb\r\nc\r\nd", ""},
		"no break at the end":   {"a\nb", header + "@@ -2 +2 @@\n-b\n+c\n", "a\nc", ""},
		"adds the break":        {"a\nb", header + "@@ -2 +2 @@\n-b\n\\ No newline at end of file\n+b\n", "a\nb\n", ""},
		"removes the break":     {"a\nb\n", header + "@@ -2 +2 @@\n-b\n+b\n\\ No newline at end of file\n", "a\nb", ""},
		"names without a and b": {twenty, "--- f\n+++ f\n@@ -10 +10 @@\n-10\n+ten\n", of("10\n", "ten\n"), ""},
		"names with times": {
			twenty, "--- a/f\t2026-01-01\n+++ b/f\t2026-01-01\n@@ -10 +10 @@\n-10\n+ten\n", of("10\n", "ten\n"), "",
		},
		"a line of dashes": {"-- a\nb\n", header + "@@ -1,2 +1,2 @@\n--- a\n+++ c\n b\n", "++ c\nb\n", ""},
		"of a mail":        {twenty, header + "@@ -10 +10 @@\n-10\n+ten\n-- \n2.47.0\n", of("10\n", "ten\n"), ""},
		"removes the file": {"a\nb\n", "--- a/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n", "", "f: removed"},
		"OpenAI": {
			twenty, "*** Begin Patch\n*** Update File: f\n@@\n 9\n-10\n+ten\n*** End Patch\n", of("10\n", "ten\n"), "",
		},
		"OpenAI, by lines above": {
			twenty, "*** Begin Patch\n*** Update File: f\n@@ 9\n@@ 12\n if x {\n+\ty()\n*** End Patch",
			of("if x {\n\treturn b", "if x {\n\ty()\n\treturn b"), "",
		},
		"OpenAI, in order": {
			twenty, "*** Begin Patch\n*** Update File: f\n@@\n-12\n+twelve\n if x {\n@@\n }\n+end\n*** End Patch",
			strings.Replace(of("12\n", "twelve\n"), "}\n16", "}\nend\n16", 1), "",
		},
		"OpenAI, the end": {
			"a\nb\na\nb\n", "*** Begin Patch\n*** Update File: f\n@@\n a\n-b\n+c\n*** End of File\n*** End Patch",
			"a\nb\na\nc\n", "",
		},
		"OpenAI, removes": {twenty, "*** Begin Patch\n*** Delete File: f\n*** End Patch", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, after := patched(t, row.before, row.patch)
			if result.Failed || after != row.after || !strings.Contains(result.Text, row.told) {
				t.Errorf("result.Text:\n%s\ngot  %q, want\n%q", result.Text, after, row.after)
			}
		})
	}
}

// What does not fit is not guessed: the error shows what is there, with the numbers of the lines.
func TestPatchesThatDoNotFit(t *testing.T) {
	t.Parallel()
	const header = "--- a/f\n+++ b/f\n"
	for name, row := range map[string]struct {
		patch string
		want  []string
	}{
		"two places":   {header + "@@ @@\n if x {\n+\ty()\n", []string{"at the lines 6, 13", "has no line number"}},
		"between them": {header + "@@ -9,1 +9,2 @@\n if x {\n+\ty()\n", []string{"at the lines 6, 13", "says line 9"}},
		"another line": {
			header + "@@ -9,2 +9,2 @@\n 9\n-1O\n+ten\n", []string{
				`line 10 is "10", and "1O" in the patch`, "     9\t9\n    10\t10\n    11\t11\n",
			},
		},
		"another indent": {
			header + "@@ -6,2 +6,2 @@\n if x {\n-  return a\n+  return c\n", []string{
				`line 7 is "\treturn a", and "  return a" in the patch`,
			},
		},
		"far off and bad": {
			header + "@@ -2,3 +2,3 @@\n 17\n 18\n-nineteen\n+x\n", []string{
				`line 19 is "19", and "nineteen" in the patch`, "    17\t17\n",
			},
		},
		"nothing of it": {
			header + "@@ @@\n-alpha\n+beta\n", []string{"none of the lines of a hunk is in the file, which has 20 lines"},
		},
		"not at the end": {
			"*** Begin Patch\n*** Update File: f\n@@\n-10\n+x\n*** End of File\n*** End Patch",
			[]string{"line 10, which is not the end of the file"},
		},
		"no such format": {"*** Begin Patch\n*** Change File: f\n*** End Patch", []string{"want *** Update File: path"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, after := patched(t, twenty, row.patch)
			if !result.Failed || after != twenty || len(result.Text) > 4000 {
				t.Errorf("patched(twenty, row.patch) = %+v", result)
			}
			for _, part := range row.want {
				if !strings.Contains(result.Text, part) {
					t.Errorf("it lacks %q: %s", part, result.Text)
				}
			}
		})
	}
}

// A patch makes new files, with their folders, beside files that it changes; all or none.
func TestNewFiles(t *testing.T) {
	t.Parallel()
	for name, patch := range map[string]string{
		"unified": "--- /dev/null\n+++ b/sub/n.txt\n@@ -0,0 +1,2 @@\n+a\n+b\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-1\n+one\n",
		"OpenAI":  "*** Begin Patch\n*** Add File: sub/n.txt\n+a\n+b\n*** Update File: f\n@@\n-1\n+one\n*** End Patch",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, dir := open(t, files{"f": "1\n"}, true)
			bad := strings.Replace(patch, "-1\n", "-7\n", 1)
			if result := call(t, set, "code.apply_refactoring", object{"patch": bad}); !result.Failed {
				t.Errorf("call = %+v", result)
			}
			if _, err := os.Stat(filepath.Join(dir, "sub")); !os.IsNotExist(err) {
				t.Errorf("the half of a patch was applied: %v", err)
			}

			result := call(t, set, "code.apply_refactoring", object{"patch": patch})
			b, err := os.ReadFile(filepath.Join(dir, "sub/n.txt"))
			if result.Failed || err != nil || string(b) != "a\nb\n" || !strings.Contains(result.Text, "sub/n.txt: new") {
				t.Errorf("call = %+v %q %v", result, b, err)
			}
		})
	}
}

// Whoever approves a patch sees the diff as it is applied, not as the model wrote it. If a file changes after that,
// nothing is done.
func TestApprovedDiff(t *testing.T) {
	t.Parallel()
	set, dir := open(t, files{"f": "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n", "old": "x"}, true)
	apply, _ := set.Get("code.apply_refactoring")
	arguments, err := json.Marshal(object{
		"patch": "```\n*** Begin Patch\n*** Update File: f\n@@\n-b\n+B\n@@\n-j\n+J\n*** Add File: new\n+n\n" +
			"*** Delete File: old\n*** End Patch\n```",
	})
	if err != nil {
		t.Fatal(err)
	}

	call := tool.Call{ID: "c", Arguments: arguments}
	shown, can, err := tool.PreviewOf(t.Context(), apply, apply.Spec().Policy, call)
	want := "--- a/f\n+++ b/f\n@@ -1,5 +1,5 @@\n a\n-b\n+B\n c\n d\n e\n@@ -7,4 +7,4 @@\n g\n h\n i\n-j\n+J\n" +
		"--- /dev/null\n+++ b/new\n@@ -0,0 +1,1 @@\n+n\n--- a/old\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-x\n" +
		"\\ No newline at end of file\n"
	if !can || err != nil || shown.Text != want || shown.Kind != tool.PreviewDiff {
		t.Errorf("can = %t %v\n%s", can, err, shown.Text)
	}
	call.Approved = shown.Digest

	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	result, err := tool.Do(t.Context(), apply, apply.Spec().Policy, call, 0)
	if err != nil || !result.Failed || !strings.Contains(result.Text, tool.ErrChanged.Error()) {
		t.Errorf("tool.Do = %+v %v", result, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "old")); err != nil {
		t.Error(err)
	}

	shown, _, err = tool.PreviewOf(t.Context(), apply, apply.Spec().Policy, call)
	if call.Approved = shown.Digest; err != nil {
		t.Fatal(err)
	}
	if result, err = tool.Do(t.Context(), apply, apply.Spec().Policy, call, 0); err != nil || result.Failed {
		t.Errorf("tool.Do = %+v %v", result, err)
	}
	if _, _, err := tool.PreviewOf(t.Context(), apply, apply.Spec().Policy, call); err == nil {
		t.Error("it is shown again, although it is done")
	}
}

// After a crash the tool says whether the patch took effect. Of one that was half applied the rest can be applied.
func TestAfterACrash(t *testing.T) {
	t.Parallel()
	const patch = "--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n a\n+x\n b\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n" +
		"--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+n\n"
	for name, row := range map[string]struct {
		files files
		done  bool
		told  string // when the call is made again
	}{
		"not begun": {files{"f": "a\nb\n", "g": "a\n"}, false, "f: lines 1-3"},
		"done":      {files{"f": "a\nx\nb\n", "g": "b\n", "n": "n\n"}, true, "are as the patch makes them"},
		"half":      {files{"f": "a\nx\nb\n", "g": "a\n"}, false, "f: it was as the patch makes it"},
		"changed":   {files{"f": "a\nx\ny\nb\n", "g": "b\n", "n": "n\n"}, false, "make the patch from the file as it is"},
		"elsewhere": {files{"f": "a\nx\nb\na\nb\n", "g": "b\n", "n": "n\n"}, false, "offset +3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, _ := open(t, row.files, true)
			apply, _ := set.Get("code.apply_refactoring")
			arguments, err := json.Marshal(object{"patch": patch})
			if err != nil {
				t.Fatal(err)
			}

			c := tool.Call{ID: "c", Arguments: arguments}
			result, done, err := tool.Verify(t.Context(), apply, apply.Spec().Policy, c)
			if done == errors.Is(err, tool.ErrUnknown) || done != row.done || done && result.Summary != "Refactored f, g, n" {
				t.Errorf("done = %t %+v %v", done, result, err)
			}
			if result = call(t, set, "code.apply_refactoring", object{"patch": patch}); !strings.Contains(result.Text,
				row.told) {
				t.Errorf("call = %+v", result)
			}
		})
	}
}

// A call may be about several files and folders. A file that two of them have is measured once.
func TestSeveralPaths(t *testing.T) {
	t.Parallel()
	set, _ := open(t, files{
		"a/x.go": "package a\n\nfunc X() {}\n", "b/y.py": "def y():\n    pass\n", "c/z.go": "package c\n\nfunc Z() {}\n",
	}, false)

	result := call(t, set, "code.analyze_complexity", object{"paths": []string{"a", "b/y.py", "a/x.go"}})
	if result.Failed || result.Summary != "Measured 2 functions in 2 files" || strings.Contains(result.Text, "z.go") {
		t.Errorf("call = %+v", result)
	}
	if result := call(t, set, "code.detect_code_smells", object{"path": "c", "paths": []string{"a"}}); result.Failed ||
		!strings.Contains(result.Summary, "in 2 files") {
		t.Errorf("call = %+v", result)
	}

	for want, paths := range map[string][]string{
		"none: no such file": {"a", "none"}, "leaves the folder": {"../x"}, "paths: at most 100": make([]string, 101),
	} {
		if result := call(t, set, "code.analyze_complexity", object{"paths": paths}); !result.Failed ||
			!strings.Contains(result.Text, want) {
			t.Errorf("call = %+v", result)
		}
	}
}
