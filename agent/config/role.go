package config

import "github.com/actlog/actlog/agent/tool"

// Role says which tools agents of a role may use.
type Role struct {
	Tools []string `json:"tools"` // names and patterns
}

// readRole reads a role. Its tools need not be there: a role is about what is allowed.
func readRole(n node) (r Role) {
	n.object(fields{"tools": func(n node) {
		for _, each := range n.list() {
			pattern := each.word()
			if err := tool.CheckPattern(pattern); err != nil && pattern != "" {
				each.problem("%v", err)
			}
			r.Tools = append(r.Tools, pattern)
		}
	}}).require("tools")
	return r
}
