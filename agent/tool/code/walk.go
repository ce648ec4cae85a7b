package code

import (
	"bytes"
	"strings"

	"github.com/actlog/actlog/agent/tool/code/internal/treesitter"
)

// walk measures a file by its tree, from the first node to the last.
type walk struct {
	m     *measured
	tree  *treesitter.Tree
	rules *rules
	open  []frame

	comments []treesitter.Node
	blocks   map[int][]block // the statements that others lie in, by the index of their function
}

// frame is a function, a scope or a statement that the present node lies in.
type frame struct {
	next     int    // index of the first node after it
	name     string // of the scopes and functions that this is in, and its own
	function int    // index of the innermost function in measured.Functions; -1: none
	depth    int    // how many statements of that function this lies in, with itself
	scope    bool   // the innermost function or scope is a scope
	block    *block // of a statement
}

func (w *walk) all() {
	w.blocks = map[int][]block{}
	for i := range w.tree.Nodes {
		for len(w.open) > 0 && w.open[len(w.open)-1].next <= i {
			w.leave()
		}
		w.visit(node{w.tree, i})
	}
	for len(w.open) > 0 {
		w.leave()
	}

	for i := range w.m.Functions {
		f := &w.m.Functions[i]
		w.m.Nesting = max(w.m.Nesting, f.Nesting)
		for _, b := range w.blocks[i] {
			f.offer(b)
		}
	}
}

// top is the innermost frame.
func (w *walk) top() frame {
	if len(w.open) == 0 {
		return frame{function: -1}
	}
	return w.open[len(w.open)-1]
}

// leave ends the innermost frame. The branches of a statement are also of the one that it lies in.
func (w *walk) leave() {
	done := w.top()
	w.open = w.open[:len(w.open)-1]
	if done.block == nil || done.function < 0 {
		return
	}

	w.blocks[done.function] = append(w.blocks[done.function], *done.block)
	if above := w.top(); above.block != nil && above.function == done.function {
		above.block.complexity += done.block.complexity
	}
}

func (w *walk) visit(n node) {
	kind := n.kind()
	switch {
	case w.rules.comments[kind]:
		w.comments = append(w.comments, n.get())
	case w.rules.functions[kind]:
		if n.child("body").there() {
			w.function(n, nameOf(n.child("name")))
		}
	case w.rules.anonymous[kind]:
		w.anonymous(n)
	case w.rules.scopes[kind]:
		w.scope(n)
	case w.rules.nests[kind] && !elseIf(n):
		w.nest(n)
	}

	if w.rules.importing[kind] {
		for _, each := range w.rules.imports(n) {
			each.line, each.lineEnd = n.get().Line, n.get().EndLine
			w.m.imports = append(w.m.imports, each)
		}
	}
	if w.branches(n) {
		w.branched()
	}
}

// branches reports whether a node is a path more through its function.
func (w *walk) branches(n node) bool {
	if w.rules.branches[n.kind()] {
		return w.rules.branch == nil || w.rules.branch(n)
	}
	return n.get().Field == "operator" && w.rules.operators[n.kind()]
}

func (w *walk) branched() {
	top := w.top()
	if top.function < 0 {
		return
	}

	w.m.Functions[top.function].Complexity++
	if top.block != nil {
		top.block.complexity++
	}
}

// elseIf reports whether an if is the rest of another one: it lies no deeper.
func elseIf(n node) bool {
	if n.kind() != "if_statement" || !n.parent().there() {
		return false
	}
	above := n.parent().kind()
	return above == "else_clause" || above == "if_statement" && n.get().Field == "alternative"
}

func (w *walk) function(n node, name string) {
	f := function{Name: joined(w.top().name, name), LineStart: n.get().Line, LineEnd: n.get().EndLine, Complexity: 1}
	f.Parameters = w.countParameters(n)
	w.m.Functions = append(w.m.Functions, f)
	w.open = append(w.open, frame{next: n.get().Next, name: f.Name, function: len(w.m.Functions) - 1})
}

// anonymous is a function without a name of its own. One that is the value of something has its name. Others are a part
// of the function that they are in, and one more level of it if they have statements.
func (w *walk) anonymous(n node) {
	name := nameFor(n)
	block := strings.HasSuffix(n.child("body").kindOrNone(), "block")
	switch {
	case name != "":
		w.function(n, name)
	case block && w.top().function >= 0:
		w.nest(n)
	case block:
		w.function(n, "(anonymous)")
	}
}

// nameFor returns the name of what a function is the value of, or nothing.
func nameFor(n node) string {
	above := n.parent()
	if !above.there() {
		return ""
	}

	field := n.get().Field
	switch above.kind() {
	case "variable_declarator", "public_field_definition", "field_definition":
		if field == "value" {
			return nameOf(above.child("name"))
		}
	case "assignment_expression":
		if field == "right" {
			return nameOf(above.child("left"))
		}
	case "pair":
		if field == "value" {
			return nameOf(above.child("key"))
		}
	case "export_statement":
		return "default"
	}
	return ""
}

// maxName bounds the name of a function, in characters.
const maxName = 100

// nameOf returns the text of a node that names something, in one line.
func nameOf(n node) string {
	if !n.there() {
		return "?"
	}
	name := []rune(strings.Join(strings.Fields(strings.Trim(n.text(), `'"`)), " "))
	return string(name[:min(len(name), maxName)])
}

// joined returns a name behind that of its scope. What is very deep keeps the end of it.
func joined(scope, name string) string {
	if scope == "" {
		return name
	}
	all := []rune(scope + "." + name)
	return string(all[max(len(all)-2*maxName, 0):])
}

func (w *walk) scope(n node) {
	f := w.top()
	f.next = n.get().Next
	f.scope, f.block = true, nil
	if name := n.child("name"); name.there() {
		f.name = joined(f.name, nameOf(name))
	} else if name := nameFor(n); name != "" {
		f.name = joined(f.name, name)
	}
	w.open = append(w.open, f)
}

// nest is a statement, or a function without a name, that others lie in.
func (w *walk) nest(n node) {
	f := w.top()
	f.next = n.get().Next
	f.depth++
	f.block = &block{start: n.get().Line, end: n.get().EndLine}
	w.open = append(w.open, f)

	if f.function < 0 {
		return
	}
	if m := &w.m.Functions[f.function]; f.depth > m.Nesting {
		m.Nesting, m.deepest = f.depth, n.get().Line
	}
}

// countParameters returns the number of parameters of a function, without the receiver of a method.
func (w *walk) countParameters(n node) (count int) {
	if n.child("parameter").there() { // a => ...
		return 1
	}

	list := n.child("parameters")
	if !list.there() {
		return 0
	}
	if list.kind() == "identifier" { // Java's a -> ...
		return 1
	}

	isMethod := w.top().scope
	for i, p := range list.children() {
		receiver := i == 0 && isMethod && w.rules.isReceiver != nil && w.rules.isReceiver(p)
		if w.rules.parameterKinds[p.kind()] && !receiver {
			count++
		}
	}
	return count
}

// codeLines counts the lines that are neither blank nor only a comment.
func (w *walk) codeLines() int {
	comment := map[int]bool{}
	for _, c := range w.comments {
		begin := bytes.LastIndexByte(w.m.content[:c.Start], '\n') + 1
		before := w.m.content[begin:c.Start]
		after, _, _ := bytes.Cut(w.m.content[c.End:], []byte("\n"))

		alone := len(bytes.TrimSpace(before)) == 0
		for line := c.Line; line < c.EndLine; line++ {
			comment[line] = alone || line > c.Line
		}
		comment[c.EndLine] = (alone || c.EndLine > c.Line) && len(bytes.TrimSpace(after)) == 0
	}

	return countCode(w.m.text, comment)
}
