package code

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"

	"github.com/fzipp/gocyclo"
	"github.com/uudashr/gocognit"
)

// parse measures a file of Go. It reports false if it cannot be parsed.
func (m *measured) parse() bool {
	if deep(m.content, "{", "}") {
		m.Problem = tooDeep
		return false
	}

	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", m.content, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		m.Problem = err.Error()
		return false
	}

	m.generated = ast.IsGenerated(file)
	g := golang{set}
	for _, each := range file.Imports {
		name, _ := strconv.Unquote(each.Path.Value) // cannot fail: it was parsed
		m.imports = append(m.imports, imported{name: name, line: g.line(each.Pos()), lineEnd: g.line(each.End())})
	}

	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			measured := g.function(f)
			m.Nesting = max(m.Nesting, measured.Nesting)
			m.Functions = append(m.Functions, measured)
		}
	}
	m.CodeLines = g.codeLines(file, m.text)
	return true
}

type golang struct{ set *token.FileSet }

func (g golang) line(at token.Pos) int { return g.set.PositionFor(at, false).Line }

func (g golang) function(f *ast.FuncDecl) function {
	name := f.Name.Name
	if f.Recv != nil && len(f.Recv.List) > 0 {
		name = receiver(f.Recv.List[0].Type) + "." + name
	}

	m := function{
		Name: name, LineStart: g.line(f.Pos()), LineEnd: g.line(f.End()), Complexity: gocyclo.Complexity(f),
		Parameters: f.Type.Params.NumFields(),
	}
	m.Cognitive = new(gocognit.ScanComplexity(f, false).Complexity)
	g.nesting(f.Body, 0, &m)
	return m
}

// receiver returns the name of the type of a method.
func receiver(of ast.Expr) string {
	for {
		switch e := of.(type) {
		case *ast.Ident:
			return e.Name
		case *ast.StarExpr:
			of = e.X
		case *ast.IndexExpr:
			of = e.X
		case *ast.IndexListExpr:
			of = e.X
		case *ast.ParenExpr:
			of = e.X
		default:
			return "?"
		}
	}
}

// nesting finds how deep the statements of a body lie within each other. An else if is as deep as its if.
func (g golang) nesting(body ast.Node, depth int, m *function) {
	ast.Inspect(body, func(n ast.Node) bool {
		if n == nil || n == body {
			return true
		}

		switch n := n.(type) {
		case *ast.IfStmt:
			g.deeper(n, depth, m)
			for s := n; s != nil; {
				g.nesting(s.Body, depth+1, m)
				next, _ := s.Else.(*ast.IfStmt)
				if last, ok := s.Else.(*ast.BlockStmt); ok {
					g.nesting(last, depth+1, m)
				}
				s = next
			}
			return false
		case *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt, *ast.FuncLit:
			g.deeper(n, depth, m)
			g.nesting(n, depth+1, m)
			return false
		}
		return true
	})
}

// deeper notes a statement that others lie in.
func (g golang) deeper(n ast.Node, depth int, m *function) {
	if depth+1 > m.Nesting {
		m.Nesting, m.deepest = depth+1, g.line(n.Pos())
	}
	m.offer(block{g.line(n.Pos()), g.line(n.End()), gocyclo.Complexity(n) - 1})
}

// codeLines counts the lines that are neither blank nor only a comment.
func (g golang) codeLines(file *ast.File, text []string) int {
	comment := map[int]bool{} // lines that begin with a comment, and those within one
	for _, group := range file.Comments {
		for _, c := range group.List {
			first, last := g.line(c.Pos()), g.line(c.End())
			for l := first; l <= last; l++ {
				if l > first || l <= len(text) && strings.HasPrefix(strings.TrimSpace(text[l-1]), "/") {
					comment[l] = true
				}
			}
		}
	}

	return countCode(text, comment)
}
