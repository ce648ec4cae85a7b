package code_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/code"
	"github.com/actlog/actlog/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type files map[string]string

// open returns the tools of a folder with some files.
func open(t *testing.T, with files, write bool) (set *tool.Set, dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range with {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}

	folder, err := code.Open(dir, code.Options{Write: write})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { folder.Close() })

	if set, err = tool.NewSet(folder.Tools()...); err != nil {
		t.Fatal(err)
	}
	return set, dir
}

func call(t *testing.T, set *tool.Set, name string, arguments any) tool.Result {
	t.Helper()
	b, err := json.Marshal(arguments)
	if err != nil {
		t.Fatal(err)
	}

	called, ok := set.Get(name)
	if !ok {
		t.Fatalf("name = %v", name)
	}

	result, err := tool.Do(t.Context(), called, called.Spec().Policy, tool.Call{Arguments: b}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

type object = map[string]any

// C15: the tools of analysis and refactoring are there. The one that writes asks for approval, and is absent
// from a folder that is only read.
func TestTools(t *testing.T) {
	t.Parallel()
	read := []string{
		"code.analyze_code", "code.analyze_complexity", "code.analyze_dependencies", "code.detect_code_smells",
		"code.suggest_refactoring",
	}

	for write, want := range map[bool][]string{false: read, true: append(slices.Clone(read), "code.apply_refactoring")} {
		set, _ := open(t, nil, write)
		if !slices.Equal(set.Names(), want) {
			t.Errorf("set.Names() = %q", set.Names())
		}
		for _, each := range set.Tools() {
			s := each.Spec()
			if writes := s.Name == "code.apply_refactoring"; s.Policy.Writes != writes || s.Policy.Approval != writes {
				t.Errorf("%s: %+v", s.Name, s.Policy)
			}
		}
	}
}

const tangled = `package a

import "fmt"

type T[K comparable] struct{}

// Tangle has everything.
func (t *T[K]) Tangle(a, b int, c bool) (n int) {
	for i := range a {
		if i > b && c || i == 7 {
			switch i {
			case 1, 2:
				n++
			case 3:
				if c {
					func() {
						fmt.Println("deep")
					}()
				}
			default:
			}
		} else if i == 9 {
			n--
		}
	}
	return n
}

func plain() {}
`

// Complexity is that of the code. What has a grammar is parsed; other languages are estimated, and the result says so.
func TestComplexity(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ file, text, want string }{
		// for, if, &&, ||, case, case, if, else if
		"go": {
			"a.go", tangled, "a.go:8-27: T.Tangle: complexity 9, nesting 5, 3 parameters, 20 lines, cognitive complexity " +
				"13\na.go:29-29: plain: complexity 1, nesting 0, 0 parameters, 1 lines, cognitive complexity 0\n",
		},
		"python": {"a.py", `import os

class A:
    def first(self, a, b=1):
        # if this and that
        for i in a:
            if i and b or "if and":
                pass
        return 1

    async def second(self):
        pass

def third(): return 1
`, "a.py:4-9: A.first: complexity 5, nesting 2, 2 parameters, 6 lines\na.py:11-12: A.second: complexity 1, nesting 0, 0 parameters, 2 lines\n" +
			"a.py:14-14: third: complexity 1, nesting 0, 0 parameters, 1 lines\n"},
		"javascript": {"a.js", "export async function load(a, b) {\n  /* if\n     while */\n  if (a && b) {\n" +
			"    return 1;\n  }\n}\n",
			"a.js:1-7: load: complexity 3, nesting 1, 2 parameters, 7 lines\n"},
		"java": {"A.java", "class A {\n    public static List<String> find(String a, int b) throws E {\n" +
			"        if (a == null) {\n            return null;\n        }\n        return go(a);\n    }\n}\n",
			"A.java:2-7: A.find: complexity 2, nesting 1, 2 parameters, 6 lines\n"},
		"rust": {
			"a.rs", "pub fn run<T>(a: T) -> u8 {\n    match a { _ => 1 }\n}\n",
			"a.rs:1-3: run: complexity 1, nesting 0, 1 parameters, 3 lines (estimate)\n",
		},
		"shell": {"a.sh", "function run {\n  if a; then\n    b\n  fi\n}\n",
			"a.sh:1-5: run: complexity 2, nesting 1, 0 parameters, 5 lines (estimate)\n"},
		"broken": {"a.go", "package a\n\nfunc f( {\n", "a.go cannot be parsed: 3:9: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, _ := open(t, files{row.file: row.text}, false)
			result := call(t, set, "code.analyze_complexity", object{})

			if result.Failed || !strings.Contains(result.Text, row.want) {
				t.Errorf("result.Text = %s\nwant:\n%s", result.Text, row.want)
			}
			if estimate := name == "rust" || name == "shell" ||
				name == "broken"; strings.Contains(result.Text, "marked as an estimate") != estimate {
				t.Errorf("result.Text = %v", result.Text)
			}
		})
	}
}

// C17, C18: every finding is a source with lines from 1 to the last, a snippet of at most 500 characters, and
// a score from 0 to 1; the data says the same as the text.
func TestSources(t *testing.T) {
	t.Parallel()
	long := "package a\n\n// Long is long.\nfunc Long(a, b, c, d, e, f int) {\n" +
		strings.Repeat("\tprintln(\"ÄÖÜ\", a)\n", 100) + "}\n"
	set, _ := open(t, files{
		"a.go": long, "b.go": tangled, "go.mod": "module m\n", "c/c.go": "package c\n\nimport \"m\"\n\nvar _ = m.X\n",
	}, false)

	for _, name := range []string{
		"code.analyze_code", "code.analyze_complexity", "code.analyze_dependencies", "code.detect_code_smells",
		"code.suggest_refactoring",
	} {
		result := call(t, set, name, object{})
		if result.Failed || result.Summary == "" || !json.Valid(result.Data) || len(result.Sources) == 0 {
			t.Errorf("%s: %+v", name, result)
		}

		for _, s := range result.Sources {
			if s.URI == "" || s.Type != record.SourceFile || s.LineStart < 1 || s.LineEnd < s.LineStart || s.Snippet == "" ||
				utf8.RuneCountInString(s.Snippet) > 500 || s.Score <= 0 || s.Score > 1 || s.Description == "" {
				t.Errorf("%s: %+v", name, s)
			}
		}
	}
}

// C15: dependencies of packages of Go and of files of other languages, and rings among them.
func TestDependencies(t *testing.T) {
	t.Parallel()
	set, _ := open(t, files{
		"go.mod": "module example.com/m\n", "a/a.go": "package a\n\nimport (\n\t\"fmt\"\n\n\t\"example.com/m/b\"\n)\n",
		"b/b.go": "package b\n\nimport \"example.com/m/c\"\n",
		"c/c.go": "package c\n\nimport \"github.com/x/y\"\n", "c/c_test.go": "package c_test\n\nimport \"example.com/m/a\"\n",
		"py/main.py": "from . import one\nfrom .two import x\nimport os\n", "py/two.py": "import py.three\n",
		"py/three.py":     "from py.two import y\n",
		"web/index.ts":    "import {a} from './lib/util'\nimport {\n  b,\n} from \"./lib\"\nimport react from 'react'\n",
		"web/lib/util.ts": "export const a = 1\n", "web/lib/index.ts": "",
		"java/com/x/A.java": "import com.x.B;\nimport java.util.List;\n", "java/com/x/B.java": "class B {}\n",
		"c.c": "#include \"sub/h.h\"\n#include <stdio.h>\n", "sub/h.h": "",
	}, false)

	result := call(t, set, "code.analyze_dependencies", object{})
	var d struct {
		Parts []struct {
			Name                                  string
			Imports, ImportedBy, Standard, Others []string
		}
		Cycles [][]string
	}
	if err := json.Unmarshal(result.Data, &d); err != nil {
		t.Fatal(err)
	}

	var got []string
	for _, p := range d.Parts {
		if len(p.Imports)+len(p.Others) > 0 {
			got = append(got, fmt.Sprint(p.Name, p.Imports, p.Standard, p.Others))
		}
	}
	want := []string{
		"a[b] [fmt] []", "b[c] [] []", "c[] [] [github.com/x/y]", "c.c[sub/h.h] [] [stdio.h]",
		"java/com/x/A.java[java/com/x/B.java] [] [java.util.List]",
		"py/main.py[py/two.py] [] [. os]", "py/three.py[py/two.py] [] []", "py/two.py[py/three.py] [] []",
		"web/index.ts[web/lib/index.ts web/lib/util.ts] [] [react]",
	}
	if !slices.Equal(got, want) || fmt.Sprint(d.Cycles) != "[[py/three.py py/two.py]]" {
		t.Errorf("%q\nwant\n%q\nrings %v", got, want, d.Cycles)
	}

	if set, _ := open(t, files{
		"go.mod": "module m\n", "a/a.go": "package a\n\nimport \"m/b\"\n", "b/b.go": "package b\n\nimport \"m/a\"\n",
	}, false); !strings.Contains(call(t, set, "code.analyze_dependencies", object{"path": "."}).Text, "Ring: a <-> b") {
		t.Error("no ring")
	}
}

// C15: each code smell is found, with lines and a reason, and what is below the limits is not.
func TestSmells(t *testing.T) {
	t.Parallel()
	same := strings.Repeat("\n", 2) +
		strings.Repeat("\t{\n\t\tprintln(\"the same line again and again\", 1)\n\t\tprintln(\"and another one\", 2)\n\t}\n",
			4)

	for name, row := range map[string]struct{ text, want string }{
		"clean": {"package a\n\nfunc f(a, b, c, d, e int) {}\n", ""},
		"complex": {
			"package a\n\nfunc f(a int) {\n" + strings.Repeat("\tif a > 1 {\n\t}\n", 12) + "}\n",
			"a.go:3-28: complex_function: f has a cyclomatic complexity of 13",
		},
		"generated": {"// Code generated by x. DO NOT EDIT.\n\npackage a\n\nfunc f(a, b, c, d, e, f int) {}\n", ""},
		"simple":    {"package a\n\nfunc f(a int) {\n" + strings.Repeat("\tif a > 1 {\n\t}\n", 11) + "}\n", ""},
		"long": {
			"package a\n\nfunc f() {\n" + strings.Repeat("\n", 59) + "}\n", "a.go:3-63: long_function: f has 61 lines",
		},
		"nested": {
			"package a\n\nfunc f(a bool) {\n" + strings.Repeat("if a {\n", 5) + strings.Repeat("}\n", 5) + "}\n",
			"a.go:8-8: deep_nesting: f is nested 5 deep at line 8",
		},
		"else ifs": {
			"package a\n\nfunc f(a int) {\n\tif a == 1 {\n" + strings.Repeat("\t} else if a == 2 {\n", 6) + "\t}\n}\n", "",
		},
		"parameters": {"package a\n\nfunc f(a, b, c, d, e, f int) {}\n", "a.go:3-3: many_parameters: f has 6 parameters"},
		"file": {
			"package a\n" + strings.Repeat("\n", 799) + "var x int\n", "a.go:1-801: long_file: The file has 801 lines",
		},
		"duplicate": {
			"package a\n\nfunc f() {" + same + "}\n\nfunc g() {" + same + "}\n",
			"duplicated_block: 8 lines of code are the same as lines 6 to 19 of a.go",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, _ := open(t, files{"a.go": row.text}, false)
			result := call(t, set, "code.detect_code_smells", object{})
			if row.want == "" && result.Summary != "Found 0 code smells in 1 files" || !strings.Contains(result.Text, row.want) {
				t.Errorf("%s: %s", result.Summary, result.Text)
			}
		})
	}
}

// C15: what is suggested with a patch is applied as it is, and what comes of it is right.
func TestRefactorings(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ file, before, kind, after string }{
		"else": {
			"a.go", "package a\n\nfunc f(a int) int {\n\tif a > 1 {\n\t\treturn 1\n\t} else {\n\t\t// why\n\t\ta++\n" +
				"\t\treturn a\n\t}\n}\n", "else_after_return",
			"package a\n\nfunc f(a int) int {\n\tif a > 1 {\n\t\treturn 1\n\t}\n\t// why\n\ta++\n\treturn a\n}\n",
		},
		"raw text": {
			"a.go", "package a\n\nfunc f(a int) string {\n\tif a > 1 {\n\t\treturn \"\"\n\t} else {\n\t\treturn `\n" +
				"\t\t\tx`\n\t}\n}\n", "else_after_return",
			"package a\n\nfunc f(a int) string {\n\tif a > 1 {\n\t\treturn \"\"\n\t}\n\treturn `\n\t\t\tx`\n}\n",
		},
		"else in case": {
			"a.go", "package a\n\nfunc f(a int) {\n\tfor {\n\t\tswitch a {\n\t\tcase 1:\n\t\t\tif a > 1 {\n" +
				"\t\t\t\tcontinue\n\t\t\t} else {\n\t\t\t\ta++\n\t\t\t}\n\t\t}\n\t}\n}\n", "else_after_return",
			"package a\n\nfunc f(a int) {\n\tfor {\n\t\tswitch a {\n\t\tcase 1:\n\t\t\tif a > 1 {\n\t\t\t\tcontinue\n" +
				"\t\t\t}\n\t\t\ta++\n\t\t}\n\t}\n}\n",
		},
		"declares": {
			"a.go", "package a\n\nfunc f(a int) int {\n\tif a > 1 {\n\t\treturn 1\n\t} else {\n\t\ta := 2\n\t\treturn a\n" +
				"\t}\n}\n", "", "",
		},
		"with init": {
			"a.go", "package a\n\nfunc f() int {\n\tif a := g(); a > 1 {\n\t\treturn 1\n\t} else {\n\t\treturn a\n\t}\n}\n", "",
			"",
		},
		"no gofmt": {
			"a.go", "package a\n\nfunc f(a int) int {\n  if a > 1 {\n\t\treturn 1\n\t} else {\n\t\treturn a\n\t}\n}\n", "", "",
		},
		"condition": {
			"a.go", "package a\n\nfunc f(a int) bool {\n\tif a > 1 && a < 3 {\n\t\treturn true\n\t}\n\treturn false\n}\n",
			"return_condition", "package a\n\nfunc f(a int) bool {\n\treturn a > 1 && a < 3\n}\n",
		},
		"not": {
			"a.go", "package a\n\nfunc f(a float64) bool {\n\tif a > 1 {\n\t\treturn false\n\t}\n\treturn true\n}\n",
			"return_condition", "package a\n\nfunc f(a float64) bool {\n\treturn !(a > 1)\n}\n",
		},
		"not equal": {
			"a.go", "package a\n\nfunc f(a int) bool {\n\tif a == 1 {\n\t\treturn false\n\t}\n\treturn true\n}\n",
			"return_condition", "package a\n\nfunc f(a int) bool {\n\treturn a != 1\n}\n",
		},
		"own type": {
			"a.go", "package a\n\ntype B bool\n\nfunc f(a B) B {\n\tif a {\n\t\treturn true\n\t}\n\treturn false\n}\n", "", "",
		},
		"comment": {
			"a.go", "package a\n\nfunc f(a int) bool {\n\tif a == 1 {\n\t\treturn false // why\n\t}\n\treturn true\n}\n", "", "",
		},
		"blank": {
			"a.go", "package a\n\nfunc f(a []int) {\n\tfor i, _ := range a {\n\t\tprintln(i)\n\t}\n}\n", "blank_range",
			"package a\n\nfunc f(a []int) {\n\tfor i := range a {\n\t\tprintln(i)\n\t}\n}\n",
		},
		"two blanks": {
			"a.go", "package a\n\nfunc f(a []int) {\n\tfor _, _ = range a {\n\t}\n}\n", "blank_range",
			"package a\n\nfunc f(a []int) {\n\tfor range a {\n\t}\n}\n",
		},
		"import": {"a.py", "import os\nimport sys\nimport os\n\nx = 1", "repeated_import", "import os\nimport sys\n\nx = 1"},
		"CRLF":   {"a.py", "import os\r\nimport os\r\nx = 1\r\n", "repeated_import", "import os\r\nx = 1\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, dir := open(t, files{row.file: row.before}, true)
			result := call(t, set, "code.suggest_refactoring", object{"path": row.file})
			var data struct {
				Findings []struct{ Kind, Patch string }
			}
			if err := json.Unmarshal(result.Data, &data); err != nil {
				t.Fatal(err)
			}

			if row.kind == "" {
				if data.Findings == nil || len(data.Findings) > 0 {
					t.Errorf("findings of %s = %s, want []", row.file, result.Data)
				}
				return
			}
			if len(data.Findings) != 1 || data.Findings[0].Kind != row.kind ||
				!strings.Contains(result.Text, data.Findings[0].Patch) {
				t.Fatalf("data.Findings = %+v", data.Findings)
			}

			applied := call(t, set, "code.apply_refactoring", object{"patch": data.Findings[0].Patch})
			after, err := os.ReadFile(filepath.Join(dir, row.file))
			if err != nil || applied.Failed || string(after) != row.after {
				t.Errorf("os.ReadFile(filepath.Join(dir, row.file)) = %v %+v\n%s\n%q", err, applied, data.Findings[0].Patch, after)
			}
			if info, err := os.Stat(filepath.Join(dir, row.file)); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("info = %v %v", info, err)
			}
			if a := applied.Artifacts; len(a) != 1 || a[0].Name != "files_modified" || string(a[0].Value) != `["`+row.file+`"]` {
				t.Errorf("applied.Artifacts = %+v", a)
			}

			if again := call(t, set, "code.apply_refactoring", object{"patch": data.Findings[0].Patch}); !again.Failed ||
				!strings.Contains(again.Text, "is as the patch makes it") {
				t.Errorf("again = %+v", again)
			}
		})
	}
}

// A patch changes all of its files or none, and only files of the folder, exactly where it says.
func TestHostilePatches(t *testing.T) {
	t.Parallel()
	set, dir := open(t, files{
		"a.txt": "1\n2\n3\n", "b.txt": "1\n2\n3", "a.go": "package a\n", "bin": "\x00\n", ".git/config": "x\n",
	}, true)
	if err := os.Symlink(os.TempDir(), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a.txt", filepath.Join(dir, "same")); err != nil {
		t.Fatal(err)
	}

	of := func(name, hunk string) string { return "--- a/" + name + "\n+++ b/" + name + "\n" + hunk }
	good := of("a.txt", "@@ -2 +2 @@\n-2\n+two\n")
	called, _ := set.Get("code.apply_refactoring")
	for name, row := range map[string]struct{ patch, want string }{
		"empty":         {"", "want a unified diff"},
		"no diff":       {"hello", "of no unified diff"},
		"outside":       {of("../x", "@@ -1 +1 @@\n-1\n+2\n"), "leaves the folder"},
		"absolute":      {of("/etc/passwd", "@@ -1 +1 @@\n-1\n+2\n"), "must be relative"},
		"link":          {of("link/x", "@@ -1 +1 @@\n-1\n+2\n"), "leaves the folder through a symbolic link"},
		"git":           {of(".git/config", "@@ -1 +1 @@\n-x\n+y\n"), "files of git"},
		"missing":       {of("none", "@@ -1 +1 @@\n-1\n+2\n"), "no such file"},
		"binary":        {of("bin", "@@ -1 +1 @@\n-1\n+2\n"), "binary"},
		"renames":       {"--- a/a.txt\n+++ b/c.txt\n@@ -2 +2 @@\n-2\n+two\n", "renames"},
		"twice":         {good + good, "twice"},
		"twice by link": {good + of("same", "@@ -1 +1 @@\n-1\n+x\n"), "twice"},
		"one is wrong": {good + of("b.txt", "@@ -1 +1 @@\n-x\n+y\n"),
			"line 1 is \"1\", and \"x\" in the patch; make the patch from the file as it is:\n     1\t1\n     2\t2\n"},
		"end":            {of("a.txt", "@@ -3,2 +3,2 @@\n 3\n-4\n+5\n"), "only 3 lines"},
		"overlap":        {of("a.txt", "@@ -1,2 +1,2 @@\n-1\n 2\n+x\n@@ -2 +2 @@\n-2\n+x\n"), "two hunks change line 2"},
		"no hunk":        {of("a.txt", ""), "nothing changes"},
		"only stays":     {of("a.txt", "@@ -1,2 +1,2 @@\n 1\n 2\n"), "changes nothing"},
		"no change":      {of("a.txt", "@@ -1 +1 @@\n-1\n+1\n"), "changes nothing"},
		"new but there":  {"--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+x\n", "is there already"},
		"new secret":     {"--- /dev/null\n+++ b/.env\n@@ -0,0 +1 @@\n+x\n", "may hold secrets"},
		"new of git":     {"--- /dev/null\n+++ b/.git/hooks/x\n@@ -0,0 +1 @@\n+x\n", "files of git"},
		"new outside":    {"--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n", "leaves the folder"},
		"removes other":  {"--- a/a.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-1\n-2\n", "has not all of its lines"},
		"renames by git": {"diff --git a/a.txt b/c.txt\nrename from a.txt\nrename to c.txt\n", "does not rename"},
		"mode":           {"diff --git a/a.txt b/a.txt\nold mode 100644\nnew mode 100755\n", "change their mode"},
		"moves": {"*** Begin Patch\n*** Update File: a.txt\n*** Move to: c.txt\n@@\n-1\n+x\n*** End Patch",
			"it moves the file"},
		"no place":    {of("a.txt", "@@\n+x\n"), "does not say where"},
		"only break":  {of("a.txt", "@@ -1 +1 @@\n\\ No newline at end of file\n"), "before the first line"},
		"first break": {"\\ No newline at end of file\n", "before the first line"},
		"no Go": {of("a.go", "@@ -1 +1 @@\n-package a\n+packag a\n"), "a.go would have an error of syntax (Go): line 1, " +
			"column 1: expected 'package', found packag; the line would be \"packag a\""},
		"binary patch": {"diff --git a/a b/a\nGIT binary patch\n", "of no unified diff"},
	} {
		result := call(t, set, "code.apply_refactoring", object{"patch": row.patch})
		if !result.Failed || !strings.Contains(result.Text, row.want) {
			t.Errorf("%s: %+v", name, result)
		}

		b, err := json.Marshal(object{"patch": row.patch})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := called.(tool.Toucher).Touches(t.Context(), tool.Call{Arguments: b}); err == nil {
			t.Errorf("%s: it would change something", name)
		}
	}

	for name, want := range map[string]string{"a.txt": "1\n2\n3\n", "b.txt": "1\n2\n3", "a.go": "package a\n"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
			t.Errorf("%s: %q %v", name, b, err)
		}
	}

	both := "diff --git a/a.txt b/a.txt\nindex 1..2 100644\n" + good + of("b.txt",
		"@@ -1,0 +2 @@\n+x\n@@ -3 +4 @@\n-3\n\\ No newline at end of file\n+4\n\\ No newline at end of file\n")
	b, err := json.Marshal(object{"patch": both})
	if err != nil {
		t.Fatal(err)
	}

	if paths, err := called.(tool.Toucher).Touches(t.Context(), tool.Call{Arguments: b}); err != nil ||
		!slices.Equal(paths, []string{"a.txt", "b.txt"}) {
		t.Errorf("paths = %q %v", paths, err)
	}
	if result := call(t, set, "code.apply_refactoring", object{"patch": both}); result.Failed ||
		result.Summary != "Refactored a.txt, b.txt" || !strings.Contains(result.Text, "b.txt: lines 2-2, lines 4-4") {
		t.Errorf("call = %+v", result)
	}

	for name, want := range map[string]string{"a.txt": "1\ntwo\n3\n", "b.txt": "1\nx\n2\n4"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
			t.Errorf("%s: %q %v", name, b, err)
		}
	}
}

// Of calls at once with patches of the same line, one succeeds.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	set, dir := open(t, files{"a.txt": "0\n"}, true)

	other, err := code.Open(dir, code.Options{Write: true})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	others, err := tool.NewSet(other.Tools()...)
	if err != nil {
		t.Fatal(err)
	}

	var group sync.WaitGroup
	succeeded := make([]bool, 10)
	for i := range succeeded {
		by := []*tool.Set{set, others}[i%2]
		group.Go(func() {
			apply, _ := by.Get("code.apply_refactoring")
			b, _ := json.Marshal(object{"patch": fmt.Sprintf("--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-0\n+%d\n", i+1)})
			result, err := apply.Call(t.Context(), tool.Call{Arguments: b})
			succeeded[i] = err == nil && !result.Failed
		})
	}
	group.Wait()

	won := slices.Index(succeeded, true)
	b, err := os.ReadFile(filepath.Join(dir, "a.txt"))
	if won < 0 || slices.Contains(succeeded[won+1:], true) || err != nil || string(b) != fmt.Sprintf("%d\n", won+1) {
		t.Errorf("succeeded = %v %q %v", succeeded, b, err)
	}
}

// Hostile paths and files: errors in words, no panics, bounded results.
func TestHostile(t *testing.T) {
	t.Parallel()
	set, dir := open(t, files{
		"a.go": "package a\n", "huge.py": strings.Repeat("x", 2<<20), "long.js": strings.Repeat("(((", 300_000),
		"bin.go": "package a\x00", "none.txt": "x",
		"deep.go": "package a\n\nfunc f() {\n" + strings.Repeat("{", 10_000) + strings.Repeat("}", 10_000) + "\n}\n",
		"bad.py":  "def f(\xff\xfe):\n\treturn\n",
		"many.go": "package a\n" + strings.Repeat("func f(a, b, c, d, e, f, g int) {}\n", 5000),
	}, true)
	if err := os.Symlink("/etc", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}

	for _, each := range set.Tools() {
		name := each.Spec().Name
		if name == "code.apply_refactoring" {
			continue
		}

		if result := call(t, set, name, object{}); result.Failed || len(result.Text) > tool.MaxText ||
			!utf8.ValidString(result.Text) || !strings.Contains(result.Text, "1 files of more than 1 MiB were left out") {
			t.Errorf("%s: %.300s", name, result.Text)
		}
		for path, want := range map[string]string{
			"../x": "leaves the folder", "/etc": "must be relative", "link": "symbolic link",
			"none.txt": "no code of a known language", "missing": "no such file", "bin.go": "no code", ".git": "files of git",
		} {
			if result := call(t, set, name, object{"path": path}); !result.Failed || !strings.Contains(result.Text, want) {
				t.Errorf("%s %s: %+v", name, path, result)
			}
		}
	}

	if result := call(t, set, "code.detect_code_smells", object{"max_results": 1_000_000}); len(result.Sources) > 100 {
		t.Errorf("%d sources", len(result.Sources))
	}
}
