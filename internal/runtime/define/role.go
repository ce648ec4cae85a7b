package define

import (
	"strings"

	"github.com/actlog/actlog/agent/tool"
)

// Role says which tools those of a role may use, and which model plans for them.
type Role struct {
	Tools []string `json:"tools"` // names and patterns
	Model string   `json:"model"` // of Config.Models
}

// toolsOf are the tools of the roles that the file does not define: toolsets, and MCP servers of the same names.
var toolsOf = map[string][]string{
	"ARCHITECT": {"db", "files", "git", "http"},
	"DATA":      {"db", "files", "tests"},
	"DEVELOPER": {"files", "git", "tests"},
	"DEVOPS":    {"docker", "files", "http", "tests"},
	"PO":        {"files", "http"},
	"QA":        {"files", "http", "tests"},
}

// DefaultRole returns a role that the file does not define. One that nobody knows has the tools of a
// DEVELOPER. Of the toolsets that it names, it has those that there are.
func DefaultRole(name string) Role {
	tools, known := toolsOf[strings.ToUpper(name)]
	if !known {
		tools = toolsOf["DEVELOPER"]
	}

	r := Role{Model: DefaultModel}
	for _, each := range tools {
		r.Tools = append(r.Tools, each+".*", each+"-*")
	}
	return r
}

// Definition returns what a run pins of a role of a name, with its model, among the MCP servers and policies
// that there are.
func (r Role) Definition(name string, m DefinitionModel, servers []string, policies tool.Rules) Definition {
	return Agent{Tools: r.Tools, EnableWrite: true}.Definition(name, m, servers, policies)
}
