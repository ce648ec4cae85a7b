package treesitter

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Bounds of a text.
const (
	MaxText  = 10 << 20         // bytes
	MaxTime  = 10 * time.Second // from when it is its turn, and its language is compiled
	maxNodes = 1 << 20
	maxDepth = 10_000
)

// ErrTooLarge says that a text is too large or too deep to be parsed, or needs too much memory.
var ErrTooLarge = errors.New("too large, or too deeply nested, to be parsed")

// Parse parses a text, at most [MaxText] bytes. It ends when ctx does, and after [MaxTime] as if ctx had that deadline.
// Errors of syntax are in the tree; an error says that there is none: [ErrTooLarge], that of ctx, or one of the
// program.
func Parse(ctx context.Context, l Language, text []byte) (*Tree, error) {
	var tree *Tree
	err := parse(ctx, l, text, func(w *walker) error {
		tree = w.Tree
		return w.walk()
	})
	if err != nil {
		return nil, err
	}
	return tree, nil
}

// parse parses a text and calls use before the tree in the memory of the instance goes.
func parse(ctx context.Context, l Language, text []byte, use func(*walker) error) error {
	if len(text) > MaxText {
		return ErrTooLarge
	}
	i, err := take(ctx, l)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, MaxTime)
	defer cancel()
	c := caller{instance: i}
	defer func() { give(i, c.err != nil) }()

	e := encode(text)
	c.ctx = context.WithValue(ctx, reading{}, e.text)
	tree := c.call("ts_parser_parse_wasm", i.parser, i.input, 0, 0, 0)
	if c.err != nil {
		return broken(ctx, c.err)
	}
	if tree == 0 { // it was stopped
		c.call("ts_parser_reset", i.parser)
		return broken(ctx, errors.New("the parser stopped"))
	}

	c.call("ts_tree_root_node_wasm", tree)
	w := &walker{caller: &c, encoded: e, tree: tree, Tree: &Tree{language: l, text: text, lines: lineStarts(text)}}
	w.Broken = c.call("ts_node_has_error_wasm", tree) != 0
	err = use(w)
	c.call("ts_tree_delete", tree)

	if c.err != nil {
		return broken(ctx, c.err)
	}
	if err == nil {
		err = ctx.Err() // the text may have ended early
	}
	return err
}

// broken returns why there is no tree.
func broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, errAborted) {
		return ErrTooLarge
	}
	return fmt.Errorf("parse: %w", err)
}

// walker copies a tree from the memory of an instance.
type walker struct {
	*caller
	*Tree
	encoded
	tree    uint64
	parents []int // indexes of the ancestors of the current node, the root first
}

// walk copies all nodes in the order of the text, parents before children. The cursor is in the transfer buffer of the
// instance. Calls that only read the current node do not change it.
func (w *walker) walk() error {
	w.call("ts_tree_cursor_new_wasm", w.tree) // at the node that is in the transfer buffer
	defer w.call("ts_tree_cursor_delete_wasm", w.tree)

	for w.err == nil {
		if len(w.Nodes) == maxNodes || len(w.parents) == maxDepth {
			return ErrTooLarge
		}
		if len(w.Nodes)%1024 == 0 && w.ctx.Err() != nil {
			return w.ctx.Err()
		}

		if w.add() && w.call("ts_tree_cursor_goto_first_child_wasm", w.tree)&1 == 1 {
			w.parents = append(w.parents, len(w.Nodes)-1)
			continue
		}
		if !w.next() {
			return nil
		}
	}
	return nil // parse returns the error of the call
}

// add adds the current node, unless it is only a sign. It reports whether others may lie in it.
func (w *walker) add() bool {
	s := symbol{ErrorType, true}
	if id := uint16(w.call("ts_tree_cursor_current_node_type_id_wasm", w.tree)); int(id) < len(w.symbols) {
		s = w.symbols[id]
	}
	n := Node{Type: s.name, Named: s.named, Parent: -1}
	if f := w.call("ts_tree_cursor_current_field_id_wasm", w.tree); f < uint64(len(w.fields)) {
		n.Field = w.fields[f]
	}
	if w.Broken {
		n.Missing = w.call("ts_tree_cursor_current_node_is_missing_wasm", w.tree)&1 == 1
	}

	if !n.Named && n.Field == "" && !n.Missing {
		return false
	}

	n.Start = w.byteOf(uint32(w.call("ts_tree_cursor_start_index_wasm", w.tree)))
	n.End = max(w.byteOf(uint32(w.call("ts_tree_cursor_end_index_wasm", w.tree))), n.Start)
	n.Line = lineAt(w.lines, n.Start)
	n.EndLine = lineAt(w.lines, max(n.End-1, n.Start))

	if len(w.parents) > 0 {
		n.Parent = w.parents[len(w.parents)-1]
	}
	n.Next = len(w.Nodes) + 1
	w.Nodes = append(w.Nodes, n)
	return n.Named
}

// next goes to the next node that was not looked at. It reports false at the end.
func (w *walker) next() bool {
	for w.err == nil {
		if w.call("ts_tree_cursor_goto_next_sibling_wasm", w.tree)&1 == 1 {
			return true
		}
		last := len(w.parents) - 1
		if last < 0 {
			return false
		}

		w.call("ts_tree_cursor_goto_parent_wasm", w.tree)
		w.Nodes[w.parents[last]].Next = len(w.Nodes)
		w.parents = w.parents[:last]
	}
	return false
}
