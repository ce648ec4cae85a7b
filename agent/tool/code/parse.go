package code

import (
	"context"
	"errors"

	"github.com/actlog/actlog/agent/tool/code/internal/treesitter"
)

// parseBy measures a file by its grammar. It reports false if the file cannot be parsed at all.
func (m *measured) parseBy(ctx context.Context, g grammar) bool {
	if deep(m.content, "([{", ")]}") { // hostile, or data: they would take the time of all other files
		m.Problem = tooDeep
		return false
	}

	tree, err := treesitter.Parse(ctx, g.of, m.content)
	switch {
	case err == nil:
	case ctx.Err() != nil: // the call ends, or has no more time to parse files
		return false
	case errors.Is(err, context.DeadlineExceeded):
		m.Problem = "it takes too long to parse"
		return false
	default:
		m.Problem = err.Error()
		return false
	}

	w := walk{m: m, tree: tree, rules: g.rules}
	w.all()
	m.CodeLines = w.codeLines()
	m.syntax = tree.Problems()
	m.Estimate = len(m.syntax) > 0
	return true
}
