package plan

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/define"
)

// capabilities is what a role can do, as its model is told.
type capabilities struct {
	Tools        map[string]map[string]operation `json:"tools"` // by tool and operation
	Mode         string                          `json:"mode"`
	Capabilities []string                        `json:"capabilities"`
	Summary      string                          `json:"summary"`

	names map[[2]string]string // of the tools of all operations, also of those that are not offered
}

type operation struct {
	Description string          `json:"description"`
	Params      json.RawMessage `json:"params"`
}

// describe returns what a role can do with tools.
func describe(role define.Definition, enableWrite bool, tools []tool.Tool) capabilities {
	c := capabilities{
		Tools: map[string]map[string]operation{}, Mode: "read_only", Capabilities: []string{}, names: map[[2]string]string{},
	}
	if enableWrite {
		c.Mode = "full"
	}

	for _, t := range tools {
		s := t.Spec()
		of, name := tool.SplitName(s.Name, s.Server)
		c.names[[2]string{of, name}] = s.Name
		if !allows(role, s.Name) || !enableWrite && role.Policy(s).Writes {
			continue
		}

		if c.Tools[of] == nil {
			c.Tools[of] = map[string]operation{}
		}
		c.Tools[of][name] = operation{s.Description, s.Schema}
		c.Capabilities = append(c.Capabilities, of+"."+name)
	}

	slices.Sort(c.Capabilities)
	if c.Summary = summary(c); len(c.Capabilities) == 0 {
		c.Mode = "read_only"
	}
	return c
}

// nameOf returns the name of the tool that an operation is, whether there is one or not.
func (c capabilities) nameOf(s step) string {
	if name, ok := c.names[[2]string{s.Tool, s.Operation}]; ok {
		return name
	}
	return s.name()
}

// summary says in a line what a role can use.
func summary(c capabilities) string {
	if len(c.Capabilities) == 0 {
		return "No tool descriptions available"
	}
	return fmt.Sprintf("%d tools with %d operations, mode %s", len(c.Tools), len(c.Capabilities), c.Mode)
}
