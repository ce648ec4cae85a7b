package code

import (
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// Functions of languages with a grammar have their names, lines, parameters, nesting and complexity, counted by hand
// in the files of testdata, and nothing of it is an estimate.
func TestStructure(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		file      string
		functions []string // name lines complexity/nesting/parameters
		imports   string
		codeLines int
	}{
		{"shop.py", []string{
			"Shop.Basket.__init__ 21-22 3/0/2", // for, if of the list
			"Shop.price 25-39 9/5/3",           // if, or, elif, for, while, and, except, and the last if
			"Shop.sell 41-51 4/1/1",            // case, case, its if
			"Shop.sell.receipt 42-43 2/0/1",    // if
		}, "os sys json . .stock .stock ..common.text", 42},
		{"shop.ts", []string{
			"Shop.handler 11-11 2/0/2", // ??
			"Shop.constructor 13-13 1/0/1",
			"Shop.size 17-17 1/0/0",
			"Shop.price 19-40 13/4/3", // if, ||, else if, for, while, do, if, &&=, case, case, catch, ?
			"all 43-43 1/0/1",
			"deep.one 46-46 1/0/0",
			"run 49-49 1/0/1",
			"go 49-49 1/0/0",
			"exports.main 51-54 1/0/0",
			"(anonymous) 56-58 1/0/0",
		}, "fs ./stock.js ./side ../util ./lib ./lazy ./later", 46},
		{"Shop.tsx", []string{
			"Shop 3-15 3/2/1",    // if, &&; the if lies in a function without a name
			"Shop.Row 5-5 2/0/1", // ||
		}, "react", 14},
		{"Shop.java", []string{
			"Shop.later 11-11 2/1/0",
			"Shop.Shop 13-13 1/0/0",
			"Shop.Price.one 15-15 1/0/1",
			"Shop.Line.Line 18-20 2/1/0",
			"Shop.Kind.of 23-23 2/0/1",
			"Shop.run 25-38 8/4/0",  // for, &&, for, while, ||, do, catch
			"Shop.kind 42-53 7/1/2", // three cases, two cases and a guard
		}, "com.example.stock.Stock.find com.example.stock.Item com.example.text.* java.util.List", 43},
	} {
		t.Run(row.file, func(t *testing.T) {
			t.Parallel()
			content, err := os.ReadFile(path.Join("testdata", row.file))
			if err != nil {
				t.Fatal(err)
			}
			m, ok := measure(t.Context(), row.file, content)
			if !ok || m.Estimate || m.Problem != "" || len(m.syntax) > 0 {
				t.Fatalf("estimate %v, %s %v", m.Estimate, m.Problem, m.syntax)
			}

			var functions, imports []string
			for _, f := range m.Functions {
				functions = append(functions,
					fmt.Sprintf("%s %d-%d %d/%d/%d", f.Name, f.LineStart, f.LineEnd, f.Complexity, f.Nesting, f.Parameters))
			}
			for _, each := range m.imports {
				imports = append(imports, each.name)
			}

			if !slices.Equal(functions, row.functions) {
				t.Errorf("functions\n%s\nwant\n%s", strings.Join(functions, "\n"), strings.Join(row.functions, "\n"))
			}
			if got := strings.Join(imports, " "); got != row.imports {
				t.Errorf("imports %s", got)
			}
			if m.CodeLines != row.codeLines {
				t.Errorf("%d lines of code, want %d", m.CodeLines, row.codeLines)
			}
		})
	}
}

// Imports that are relative mean files of the folder, and so do those of packages whose path is there.
func TestImportsOfGrammars(t *testing.T) {
	t.Parallel()
	var files []measured
	for name, text := range map[string]string{
		"app/__init__.py": "", "app/one.py": "", "app/two.py": "x = 1\n", "app/sub/__init__.py": "", "os.py": "",
		"app/main.py": "from . import one, nothing\nfrom .two import x, y as z\nimport os.path, app.sub as s\n" +
			"from .sub import *\nfrom . import (\n    one,\n)\n",
		"app/sub/a.py": "from .. import two\nfrom ..one import x\nfrom ...far import x\n",

		"web/a.ts": "import './b.js'\nimport x from '.'\nexport { y } from '../web/c'\nimport react from 'react'\n" +
			"const l = import('lib/d')\nimport '@x/y'\n",
		"web/b.ts": "", "web/index.ts": "", "web/c/index.tsx": "", "web/react.ts": "", "src/lib/d.ts": "", "web/b.js.md": "",

		"src/main/java/com/x/A.java": "import com.x.y.B;\nimport static com.x.y.C.find;\nimport com.x.y.B.Inner;\n" +
			"import com.x.y.*;\nimport java.util.List;\n",
		"src/main/java/com/x/y/B.java": "class B {}", "src/main/java/com/x/y/C.java": "class C {}",
	} {
		if m, ok := measure(t.Context(), name, []byte(text)); ok {
			files = append(files, m)
		}
	}

	want := map[string]string{
		"app/main.py":                "[app/__init__.py app/one.py app/sub/__init__.py app/two.py] [os.path]",
		"app/sub/a.py":               "[app/one.py app/two.py] [...far]",
		"web/a.ts":                   "[src/lib/d.ts web/b.ts web/c/index.tsx web/index.ts] [@x/y react]",
		"src/main/java/com/x/A.java": "[src/main/java/com/x/y/B.java src/main/java/com/x/y/C.java] [com.x.y.* java.util.List]",
	}
	for _, p := range depend(files, nil).Units {
		if got := fmt.Sprint(p.Imports, " ", p.Others); want[p.Name] != "" && got != want[p.Name] || p.Estimate {
			t.Errorf("%s: %s (estimate: %v), want %s", p.Name, got, p.Estimate, want[p.Name])
		}
	}
}

// An import that stands in several lines, or beside another one, is not one that can be removed as a line.
func TestImportsThatAreNoLine(t *testing.T) {
	t.Parallel()
	m, _ := measure(t.Context(), "a.py",
		[]byte("import a, b\nfrom c import (\n    d\n)\nfrom c import (\n    e\n)\nimport f\nimport f\n"))
	found := repeatedImports(m)
	if len(found) != 1 || found[0].LineStart != 9 || found[0].Estimate {
		t.Errorf("found = %+v", found)
	}
}

// What is deep, hostile or at the end of its time is estimated, and says why.
func TestWhatIsNotParsed(t *testing.T) {
	t.Parallel()
	m, _ := measure(t.Context(), "a.ts", []byte(strings.Repeat("(", maxDeep+1)))
	if !m.Estimate || m.Problem != tooDeep {
		t.Errorf("m.Estimate = %v %q", m.Estimate, m.Problem)
	}

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if m, _ = measure(ended, "a.py", []byte("def f():\n    pass\n")); !m.Estimate || m.Problem != "" ||
		len(m.Functions) != 1 {
		t.Errorf("measure = %+v", m)
	}
}
