package style

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	// maxParagraph is how many lines of a function body may follow each other without a blank one. Lines within the
	// braces of a statement are not counted: they are bodies of their own.
	maxParagraph = 8
	// maxAssigned is how many values one assignment may have, unless a call returns them.
	maxAssigned = 2
	// maxColumns is how long a line may be. A tab is one column.
	maxColumns = 120
	// maxBesideText is how many columns there may be beside the texts of a longer line.
	maxBesideText = 40
)

// source is a Go file that somebody wrote.
type source struct {
	*ast.File
	path  string
	text  []byte
	set   *token.FileSet
	lines []string
}

// sources returns the files of the repository in some folders; none: in all.
func sources(t *testing.T, folders ...string) (all []source) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", append([]string{"ls-files", "-z", "--"}, folders...)...)
	list.Dir = "../../.."
	paths, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}

	for path := range strings.SplitSeq(string(paths), "\x00") {
		if !strings.HasSuffix(path, ".go") {
			continue
		}

		s := source{path: path, set: token.NewFileSet()}
		if s.text, err = os.ReadFile("../../../" + path); os.IsNotExist(err) { // removed, and not yet committed
			continue
		}
		if err == nil {
			s.File, err = parser.ParseFile(s.set, path, s.text, parser.ParseComments|parser.SkipObjectResolution)
		}
		if err != nil {
			t.Fatal(err)
		}

		if s.lines = strings.Split(string(s.text), "\n"); !ast.IsGenerated(s.File) {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		t.Fatal("there are no files")
	}
	return all
}

func (s source) line(at token.Pos) int { return s.set.PositionFor(at, false).Line }

// TestParagraphs checks that a blank line ends a thought before it has run on for too long.
func TestParagraphs(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		ast.Inspect(s.File, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BlockStmt:
				if !isClauses(n) {
					s.checkParagraphs(t, n.List)
				}
			case *ast.CaseClause:
				s.checkParagraphs(t, n.Body)
			case *ast.CommClause:
				s.checkParagraphs(t, n.Body)
			}
			return true
		})
	}
}

func (s source) checkParagraphs(t *testing.T, statements []ast.Stmt) {
	t.Helper()
	for len(statements) > 0 {
		n, lines := s.paragraph(statements)
		if n > 1 && lines > maxParagraph {
			t.Errorf("%s:%d: %d lines without a blank one, want at most %d: end the first thought with one", s.path,
				s.line(statements[0].Pos()), lines, maxParagraph)
		}
		statements = statements[n:]
	}
}

// paragraph returns how many of some statements are in the first paragraph, and how many lines they have outside of
// their braces.
func (s source) paragraph(statements []ast.Stmt) (n, lines int) {
	for n < len(statements) && (n == 0 || !s.blankBetween(statements[n-1], statements[n])) {
		lines += s.ownLines(statements[n])
		n++
	}
	return n, lines
}

func (s source) blankBetween(a, b ast.Node) bool {
	if s.line(a.End()) == s.line(b.Pos()) {
		return false
	}
	for _, line := range s.lines[s.line(a.End()) : s.line(b.Pos())-1] {
		if strings.TrimSpace(line) == "" {
			return true
		}
	}
	return false
}

// ownLines returns how many lines a statement has, without those within its braces.
func (s source) ownLines(statement ast.Stmt) int {
	lines := s.line(statement.End()) - s.line(statement.Pos()) + 1
	without := func(open, closed token.Pos) { lines -= max(0, s.line(closed)-s.line(open)-1) }
	var visit func(n ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BlockStmt:
			without(n.Lbrace, n.Rbrace)
			return false
		case *ast.CompositeLit:
			without(n.Lbrace, n.Rbrace)
			ast.Inspect(n.Type, visit) // that of a table may be written out before it
			return false
		case *ast.StructType:
			without(n.Fields.Opening, n.Fields.Closing)
			return false
		}
		return true
	}

	ast.Inspect(statement, visit)
	return lines
}

// isClauses reports whether a body has the clauses of a switch or a select, which are bodies of their own.
func isClauses(body *ast.BlockStmt) bool {
	if len(body.List) == 0 {
		return false
	}
	switch body.List[0].(type) {
	case *ast.CaseClause, *ast.CommClause:
		return true
	}
	return false
}

// TestAssignments checks that an assignment has values that a reader can keep apart.
func TestAssignments(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		ast.Inspect(s.File, func(n ast.Node) bool {
			if values := assigned(n); values > maxAssigned {
				t.Errorf("%s:%d: %d values in one assignment, want at most %d", s.path, s.line(n.Pos()), values, maxAssigned)
			}
			return true
		})
	}
}

// assigned returns how many values a node assigns that no call returns.
func assigned(n ast.Node) int {
	names, values := 0, 0
	switch n := n.(type) {
	case *ast.AssignStmt:
		names, values = len(n.Lhs), len(n.Rhs)
	case *ast.ValueSpec:
		names, values = len(n.Names), len(n.Values)
	}

	if values != names {
		return 0
	}
	return values
}

// TestLines checks that lines fit on a screen. A raw string and the tag of a field are as long as they are, and so is a
// text that has a line for itself.
func TestLines(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		for _, line := range s.longLines() {
			t.Errorf("%s:%d: more than %d columns", s.path, line, maxColumns)
		}
	}
}

// longLines returns the numbers of the lines that are too long.
func (s source) longLines() (numbers []int) {
	raw, texts := s.texts()
	for i, line := range s.lines {
		columns := utf8.RuneCountInString(line)
		if columns > maxColumns && !raw[i+1] && columns-texts[i+1] > maxBesideText {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

// texts returns the numbers of the lines that have a part of a raw string, and how many columns of a line are texts.
func (s source) texts() (raw map[int]bool, columns map[int]int) {
	raw, columns = map[int]bool{}, map[int]int{}
	var tokens scanner.Scanner
	set := token.NewFileSet()
	tokens.Init(set.AddFile(s.path, -1, len(s.text)), s.text, nil, 0)

	for {
		at, kind, text := tokens.Scan()
		if kind == token.EOF {
			return raw, columns
		}
		first := set.PositionFor(at, false).Line
		switch {
		case kind != token.STRING:
			continue
		case text[0] != '`':
			columns[first] += utf8.RuneCountInString(text)
			continue
		}
		for i := range bytes.Count([]byte(text), []byte("\n")) + 1 {
			raw[first+i] = true
		}
	}
}

// parsed returns a file that has only a function with this body, from its fourth line on.
func parsed(t *testing.T, body string) source {
	t.Helper()
	text := fmt.Sprintf("package p\n\nfunc p() {\n%s}\n", body)
	s := source{path: "p.go", text: []byte(text), set: token.NewFileSet(), lines: strings.Split(text, "\n")}
	var err error
	if s.File, err = parser.ParseFile(s.set, s.path, text, parser.ParseComments); err != nil {
		t.Fatal(err)
	}
	return s
}

// What the checks find is what they say.
func TestFinds(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("\tf()\n", maxParagraph)
	for name, row := range map[string]struct {
		body  string
		lines int
	}{
		"at most":                {long, maxParagraph},
		"one line":               {"\tf(); f()\n", 2},
		"one more":               {long + "\tf()\n", maxParagraph + 1},
		"a blank line":           {long + "\n\tf()\n", maxParagraph},
		"a comment":              {long + "\t// It is called again.\n\tf()\n", maxParagraph + 1},
		"a blank and a comment":  {long + "\n\t// It is called again.\n\tf()\n", maxParagraph},
		"what is in braces":      {"\tfor {\n\t\tf()\n\t\tf()\n\t}\n\tf()\n", 3},
		"a function in a call":   {"\tf(func() {\n\t\tf()\n\t\tf()\n\t})\n\tf()\n", 3},
		"a literal":              {"\ta := []int{\n\t\t1,\n\t\t2,\n\t}\n\tf(a)\n", 3},
		"a table":                {"\ta := []struct {\n\t\ta int\n\t}{\n\t\t{1},\n\t}\n\tf(a)\n", 4},
		"a call of several line": {"\tf(1,\n\t\t2)\n\tf()\n", 3},
	} {
		s := parsed(t, row.body)
		if _, lines := s.paragraph(s.Decls[0].(*ast.FuncDecl).Body.List); lines != row.lines {
			t.Errorf("%s: %d lines, want %d", name, lines, row.lines)
		}
	}
}

// An assignment of many values is found, unless a call returns them.
func TestFindsAssignments(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]int{
		"\ta, b := 1, 2\n": 2, "\ta, b, c := 1, 2, 3\n": 3, "\ta, b, c = b, c, a\n": 3,
		"\tvar a, b, c = 1, 2, 3\n": 3, "\tconst a, b, c = 1, 2, 3\n": 3,
		"\ta, b, c := f()\n": 0, "\tvar a, b, c int\n": 0,
	} {
		most := 0
		ast.Inspect(parsed(t, body).File, func(n ast.Node) bool {
			most = max(most, assigned(n))
			return true
		})
		if most != want {
			t.Errorf("%q assigns %d values, want %d", body, most, want)
		}
	}
}

// A long line is found, unless it is long because of a text.
func TestFindsLongLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxColumns)
	for body, found := range map[string]bool{
		"\t" + long[1:] + "()\n": true, "\t" + long[3:] + "()\n": false, "\t// " + long + "\n": true,
		"\tf(\"" + long + "\")\n": false, "\tf(`" + long + "`)\n": false, "\tf(`\n" + long + "x\n`)\n": false,
		"\t" + long[:maxBesideText] + "(\"" + long + "\")\n": true,
	} {
		if lines := parsed(t, body).longLines(); (len(lines) == 1 && lines[0] == 4) != found || len(lines) > 1 {
			t.Errorf("%q: lines %v are too long, want one: %v", body, lines, found)
		}
	}
}
