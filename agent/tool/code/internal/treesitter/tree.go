package treesitter

import "iter"

// Tree is a text that was parsed. It is a value of Go: nothing has to be closed.
type Tree struct {
	// Nodes are those with a name in the grammar, those without one that are in a field, such as operators, and all
	// that are missing. A node comes before those that lie in it. The first one is the whole text.
	Nodes []Node
	// Broken says that there are errors of syntax.
	Broken bool

	language Language
	text     []byte
	lines    []int // where they start
}

// Node is a part of a text.
type Node struct {
	Type    string // in the grammar, for example function_definition; ErrorType for what is none
	Field   string // what it is in its parent, for example name; often empty
	Named   bool   // else it is a word or a sign
	Missing bool   // the text has no such node here, but should have; it has no length

	Start, End    int // bytes of the text; End is after the last one
	Line, EndLine int // from 1; EndLine is that of the last byte
	Parent        int // index in Nodes; -1: none
	Next          int // index of the first node after those that lie in this one
}

// ErrorType is the type of a part that no rule of the grammar fits.
const ErrorType = "ERROR"

// Text returns the text of a node.
func (t *Tree) Text(node int) string {
	n := t.Nodes[node]
	return string(t.text[n.Start:n.End])
}

// Children returns the indexes of the nodes that lie directly in a node.
func (t *Tree) Children(node int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := node + 1; i < t.Nodes[node].Next; i = t.Nodes[i].Next {
			if !yield(i) {
				return
			}
		}
	}
}

// Child returns the index of the first child in a field, or -1.
func (t *Tree) Child(node int, field string) int {
	for i := range t.Children(node) {
		if t.Nodes[i].Field == field {
			return i
		}
	}
	return -1
}
