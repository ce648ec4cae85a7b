package code

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"strings"
)

// refactorings returns the changes that can be made mechanically, each with its patch.
func refactorings(m measured) []finding {
	if m.Language != "Go" {
		return repeatedImports(m)
	}
	if m.Estimate || m.generated {
		return nil
	}
	return refactoringsOfGo(m)
}

// importsOnce are languages in which an import that stands there twice says nothing new.
var importsOnce = map[string]bool{
	"Python": true, "JavaScript": true, "TypeScript": true, "Java": true, "Kotlin": true, "C#": true, "Swift": true,
}

func repeatedImports(m measured) (found []finding) {
	if !importsOnce[m.Language] {
		return nil
	}

	seen, last := map[string]bool{}, 0
	for _, each := range m.imports {
		if each.lineEnd > each.line || each.line == last { // the line is not the whole of it, or has several
			continue
		}

		last = each.line
		line := strings.TrimRight(m.text[each.line-1], " \t\r")
		if !seen[line] || line != strings.TrimSpace(line) {
			seen[line] = true
			continue
		}

		lines := strings.SplitAfter(string(m.content), "\n")
		lines[each.line-1] = ""
		found = append(found, finding{
			Kind: "repeated_import", Path: m.Path, LineStart: each.line, LineEnd: each.line, Score: 0.4, Estimate: m.Estimate,
			snippet: m.snippet(each.line, each.line),
			What:    each.name + " is imported a second time", Why: "it says nothing new", Advice: "Remove the line.",
			Patch: diff(m.Path, string(m.content), strings.Join(lines, "")),
		})
	}
	return found
}

// refactoringsOfGo finds statements that can be written more simply. There are none in files that gofmt
// would change: their patches would change more than they say.
func refactoringsOfGo(m measured) []finding {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", m.content, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return nil
	}
	if formatted, err := format.Source(m.content); err != nil || !bytes.Equal(formatted, m.content) {
		return nil
	}

	r := &refactorer{measured: m, set: set, file: file}
	ast.Walk(inFunction{r, nil}, file)
	return r.found
}

type refactorer struct {
	measured
	set   *token.FileSet
	file  *ast.File
	found []finding
}

// inFunction visits the statements of a function with these results.
type inFunction struct {
	*refactorer
	results *ast.FieldList
}

func (r inFunction) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.FuncDecl:
		r.results = n.Type.Results
	case *ast.FuncLit:
		r.results = n.Type.Results
	case *ast.BlockStmt:
		r.list(n.List)
	case *ast.CaseClause:
		r.list(n.Body)
	case *ast.CommClause:
		r.list(n.Body)
	case *ast.RangeStmt:
		r.blank(n)
	}
	return r
}

func (r inFunction) list(statements []ast.Stmt) {
	for i, s := range statements {
		s, ok := s.(*ast.IfStmt)
		if !ok || s.Init != nil {
			continue
		}
		if s.Else != nil {
			r.elseAfterEnd(s)
		} else if i+1 < len(statements) {
			r.returnCondition(s, statements[i+1])
		}
	}
}

// edit replaces the bytes from start to end.
type edit struct {
	start, end token.Pos
	by         string
}

// suggest notes a change of the lines from start to end.
func (r inFunction) suggest(kind, what, why, advice string, start, end token.Pos, edits ...edit) {
	var after strings.Builder
	at := 0
	for _, e := range edits {
		from, to := r.set.PositionFor(e.start, false).Offset, r.set.PositionFor(e.end, false).Offset
		after.Write(r.content[at:from])
		after.WriteString(e.by)
		at = to
	}
	after.Write(r.content[at:])

	formatted, err := format.Source([]byte(after.String()))
	if err != nil {
		return
	}

	first, last := r.set.PositionFor(start, false).Line, r.set.PositionFor(end, false).Line
	r.found = append(r.found, finding{
		Kind: kind, Path: r.Path, LineStart: first, LineEnd: last, What: what, Why: why, Advice: advice, Score: 0.4,
		snippet: r.snippet(first, last), Patch: diff(r.Path, string(r.content), string(formatted)),
	})
}

// elseAfterEnd: what comes after an if that ends the path needs no else.
func (r inFunction) elseAfterEnd(s *ast.IfStmt) {
	last, ok := s.Else.(*ast.BlockStmt)
	if !ok || len(s.Body.List) == 0 || !ends(s.Body.List[len(s.Body.List)-1]) || declares(last.List) {
		return
	}

	offset := r.set.PositionFor(last.Lbrace, false).Offset + 1
	gap := "\n"
	if r.content[offset] == '\n' {
		gap = ""
	}

	// The line of the closing brace goes, if nothing else is in it.
	from, to := last.Rbrace, last.Rbrace+1
	line := r.set.PositionFor(last.Rbrace, false)
	if strings.TrimSpace(r.text[line.Line-1]) == "}" {
		from, to = last.Rbrace-token.Pos(line.Column-1), last.Rbrace+2
	}

	r.suggest("else_after_return", "The else follows a part that ends the path",
		"the rest of the code can be indented less", "Remove the else and keep what is in it.",
		s.Pos(), s.End(), edit{s.Body.Rbrace + 1, last.Lbrace + 1, gap}, edit{from, to, ""})
}

// ends reports whether nothing runs after a statement.
func ends(s ast.Stmt) bool {
	if b, ok := s.(*ast.BranchStmt); ok {
		return b.Tok != token.FALLTHROUGH
	}
	_, ok := s.(*ast.ReturnStmt)
	return ok
}

// declares reports whether statements declare names, which would meet those outside of their block.
func declares(statements []ast.Stmt) bool {
	for _, s := range statements {
		switch s := s.(type) {
		case *ast.DeclStmt, *ast.LabeledStmt:
			return true
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				return true
			}
		}
	}
	return false
}

// returnCondition: if c { return true }; return false.
func (r inFunction) returnCondition(s *ast.IfStmt, next ast.Stmt) {
	if r.results.NumFields() != 1 || len(s.Body.List) != 1 || !compares(s.Cond) {
		return
	}
	if of, ok := r.results.List[0].Type.(*ast.Ident); !ok || of.Name != "bool" {
		return
	}

	first, second := returned(s.Body.List[0]), returned(next)
	if first != "true" && first != "false" || second != "true" && second != "false" || first == second {
		return
	}
	for _, c := range r.file.Comments {
		if c.Pos() < next.End() && c.End() > s.Pos() {
			return // it would be lost
		}
	}

	condition := string(
		r.content[r.set.PositionFor(s.Cond.Pos(), false).Offset:r.set.PositionFor(s.Cond.End(), false).Offset],
	)
	if first == "false" {
		condition = "!(" + condition + ")"
		if b, ok := s.Cond.(*ast.BinaryExpr); ok && (b.Op == token.EQL || b.Op == token.NEQ) {
			at := int(b.OpPos - b.Pos())
			by := map[token.Token]string{token.EQL: "!=", token.NEQ: "=="}[b.Op]
			inner := condition[2 : len(condition)-1]
			condition = inner[:at] + by + inner[at+2:]
		}
	}

	r.suggest("return_condition", "An if returns whether its condition holds", "the condition itself says the same",
		"Return the condition.",
		s.Pos(), next.End(), edit{s.Pos(), next.End(), "return " + condition})
}

// returned returns the name that is all a statement returns.
func returned(s ast.Stmt) string {
	if s, ok := s.(*ast.ReturnStmt); ok && len(s.Results) == 1 {
		if name, ok := s.Results[0].(*ast.Ident); ok {
			return name.Name
		}
	}
	return ""
}

// compares reports whether an expression is of the type bool whatever its parts are.
func compares(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return compares(e.X)
	case *ast.UnaryExpr:
		return e.Op == token.NOT && compares(e.X)
	case *ast.BinaryExpr:
		switch e.Op {
		case token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
			return true
		case token.LAND, token.LOR:
			return compares(e.X) && compares(e.Y)
		}
	}
	return false
}

// blank: for k, _ := range x.
func (r inFunction) blank(s *ast.RangeStmt) {
	isBlank := func(e ast.Expr) bool { name, ok := e.(*ast.Ident); return ok && name.Name == "_" }

	var without edit
	switch {
	case isBlank(s.Key) && (s.Value == nil || isBlank(s.Value)):
		without = edit{s.Key.Pos(), s.Range, ""}
	case s.Value != nil && isBlank(s.Value):
		without = edit{s.Key.End(), s.Value.End(), ""}
	default:
		return
	}
	r.suggest("blank_range", "The loop names what it does not use", "Go needs no _ here", "Remove the _.", s.Pos(),
		s.Body.Lbrace, without)
}
