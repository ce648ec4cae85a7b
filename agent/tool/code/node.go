package code

import (
	"slices"

	"github.com/actlog/actlog/agent/tool/code/internal/treesitter"
)

type node struct {
	*treesitter.Tree
	index int
}

func (n node) get() treesitter.Node { return n.Nodes[n.index] }
func (n node) kind() string         { return n.get().Type }
func (n node) text() string         { return n.Text(n.index) }

// there reports whether there is such a node. The parent of the whole text, and a child that is missing, are none.
func (n node) there() bool { return n.index >= 0 }

func (n node) parent() node { return node{n.Tree, n.get().Parent} }

func (n node) child(field string) node { return node{n.Tree, n.Child(n.index, field)} }

// children returns the nodes directly in a node, those of some types only if any are named.
func (n node) children(types ...string) (all []node) {
	for i := range n.Children(n.index) {
		if c := (node{n.Tree, i}); len(types) == 0 || slices.Contains(types, c.kind()) {
			all = append(all, c)
		}
	}
	return all
}

// kindOrNone returns the type of a node, or nothing if it is not there.
func (n node) kindOrNone() string {
	if !n.there() {
		return ""
	}
	return n.kind()
}
