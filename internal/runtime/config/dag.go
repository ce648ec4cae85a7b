package config

import (
	"github.com/actlog/actlog/internal/runtime/define"
)

func readDag(n node, there knownNames) (d define.Dag) {
	n.object(fields{"agents": func(n node) { d.Agents = n.references("agent", there.agents) }})
	return d
}
