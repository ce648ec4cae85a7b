package config

import (
	"github.com/actlog/actlog/internal/runtime/define"
)

// readRole reads a role. A name or pattern of tools that matches none of those that there are is a mistake.
func readRole(n node, there knownNames) define.Role {
	r := define.Role{Model: define.DefaultModel}
	n.object(fields{
		"tools": func(n node) {
			r.Tools = n.patterns(there.tools)
			if n.ShortTag() == "!!seq" && len(r.Tools) == 0 {
				n.problem("name at least one tool")
			}
		},
		"model": func(n node) { r.Model = n.reference("model", there.models) },
	}).require("tools")
	return r
}
