package executor

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestErrorKindsAreDocumented checks that docs/runtime.md has each error kind with which the code ends a run or step,
// and no other.
func TestErrorKindsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/runtime.md")
	if err != nil {
		t.Fatal(err)
	}

	_, table, _ := strings.Cut(string(page), "| `errorKind` of a run or step | |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	documented := map[string]bool{}
	for line := range strings.Lines(table) {
		for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(strings.Split(line, "|")[1], -1) {
			documented[m[1]] = true
		}
	}

	inCode := errorKinds(t, "../../../agent/model", "../engine", "../runstore", ".")
	if len(inCode) < 30 {
		t.Fatalf("the code has only %d error kinds", len(inCode))
	}

	for kind := range inCode {
		if !documented[kind] {
			t.Errorf("docs/runtime.md does not say what %s is", kind)
		}
	}
	for kind := range documented {
		if !inCode[kind] {
			t.Errorf("docs/runtime.md has %s, with which nothing ends", kind)
		}
	}
}

// errorKinds returns the kinds that the code in some folders gives the failures of runs and steps: those that are
// named where a failure is made, and the constants for those that are handed on.
func errorKinds(t *testing.T, folders ...string) map[string]bool {
	t.Helper()
	var files []*ast.File
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			files = append(files, file)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}

	constants := map[string]ast.Expr{}
	kinds := map[string]bool{}
	var take func(e ast.Node)
	take = func(e ast.Node) {
		ast.Inspect(e, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil {
					kinds[text] = true
				}
			case *ast.Ident:
				if value := constants[n.Name]; value != nil {
					take(value)
				}
			}
			return true
		})
	}

	isKind := regexp.MustCompile("^(Kind|Limit)[A-Z]|^Finish(Refusal|ContentFilter)$|^modelError$")
	var always []ast.Expr
	each := func(f func(ast.Node)) {
		for _, file := range files {
			ast.Inspect(file, func(n ast.Node) bool { f(n); return true })
		}
	}

	each(func(n ast.Node) {
		if c, ok := n.(*ast.GenDecl); ok && c.Tok == token.CONST {
			for _, spec := range c.Specs {
				v := spec.(*ast.ValueSpec)
				for i, value := range v.Values {
					constants[v.Names[i].Name] = value
					if isKind.MatchString(v.Names[i].Name) && v.Names[i].Name != "KindCancelled" {
						always = append(always, value)
					}
				}
			}
		}
	})

	for _, value := range always {
		take(value)
	}
	each(func(n ast.Node) {
		if call, ok := n.(*ast.CallExpr); ok && nameOf(call.Fun) == "Fail" {
			take(call.Args[0])
		}
		c, ok := n.(*ast.CompositeLit)
		if !ok || len(c.Elts) == 0 {
			return
		}

		switch nameOf(c.Type) {
		case "RunError", "Plan":
			for _, e := range c.Elts {
				field, ok := e.(*ast.KeyValueExpr)
				if ok && slices.Contains([]string{"Kind", "ErrorKind"}, field.Key.(*ast.Ident).Name) {
					take(field.Value)
				}
			}
		case "failed":
			take(c.Elts[0])
		}
	})
	return kinds
}

// nameOf returns the name of a type, without its package.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}
