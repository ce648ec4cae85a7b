package executor

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/statements.md")

// statements are how many there are of each subject, by their letter.
var statements = map[string]int{"A": 42, "B": 38, "C": 25, "D": 22, "E": 22}

// subjectOf says what the statements of a letter are about.
var subjectOf = map[string]string{
	"A": "plan", "B": "execution details", "C": "orchestrator", "D": "workflow", "E": "dag",
}

// testedBy returns the tests whose comments name each statement. A comment counts for the test that it is above,
// or in.
func testedBy(t *testing.T, root string) map[string][]string {
	t.Helper()
	id := regexp.MustCompile(`\b([A-E])([1-9][0-9]?)\b`)
	found := map[string]map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}

		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}

		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(f.Name.Name, "Test") && !strings.HasPrefix(f.Name.Name, "Example") {
				continue
			}

			from := f.Pos()
			if f.Doc != nil {
				from = f.Doc.Pos()
			}

			for _, c := range file.Comments {
				if c.Pos() < from || c.End() > f.End() {
					continue
				}

				for _, m := range id.FindAllStringSubmatch(c.Text(), -1) {
					if n, _ := strconv.Atoi(m[2]); n > statements[m[1]] {
						return fmt.Errorf("%s names %s, which is no statement", files.Position(c.Pos()), m[0])
					}
					if found[m[0]] == nil {
						found[m[0]] = map[string]bool{}
					}
					found[m[0]][filepath.ToSlash(folder)+" "+f.Name.Name] = true
				}
			}
		}

		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	by := map[string][]string{}
	for id, tests := range found {
		by[id] = slices.Sorted(maps.Keys(tests))
	}
	return by
}

// TestStatements checks that each statement about the executors has a test, and that docs/statements.md says
// which. `go test ./internal/runtime/executor -run TestStatements -update` writes that table.
func TestStatements(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	by := testedBy(t, root)

	var b strings.Builder
	b.WriteString("# What executors and record promise, and its tests\n\n" +
		"Each executor, and the details of an execution, were built from numbered statements. This table says which " +
		"tests check each one; it is generated from\ntheir comments, see [development.md](development.md).\n")
	for _, letter := range slices.Sorted(maps.Keys(statements)) {
		fmt.Fprintf(&b, "\n## %s\n\n| statement | tests |\n|---|---|\n", subjectOf[letter])
		for n := 1; n <= statements[letter]; n++ {
			id := letter + strconv.Itoa(n)
			if len(by[id]) == 0 {
				t.Errorf("no test names %s", id)
			}

			tests := make([]string, len(by[id]))
			for i, each := range by[id] {
				folder, name, _ := strings.Cut(each, " ")
				tests[i] = "`" + name + "` in `" + folder + "`"
			}
			fmt.Fprintf(&b, "| %s | %s |\n", id, strings.Join(tests, ", "))
		}
	}

	table := filepath.Join(root, "docs", "statements.md")
	if *update {
		if err := os.WriteFile(table, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(table); err != nil || string(have) != b.String() {
		t.Errorf("%s is not up to date (-update): %v", table, err)
	}
}
