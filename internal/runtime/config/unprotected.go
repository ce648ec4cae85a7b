package config

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/mcp"
)

// Unprotected returns what the programs of the configuration can reach on this machine although they should
// not, and what their sandbox takes from them that they may miss. Log it at the start.
func (c *Config) Unprotected() (lines []string) {
	add := func(keys, lacks string) {
		if lacks != "" {
			lines = append(lines, fmt.Sprintf("%s: %s", keys, lacks))
		}
	}

	lacks := map[string][]string{} // those that lack the same
	for _, name := range slices.Sorted(maps.Keys(c.Toolsets.Tests)) {
		text := c.Toolsets.Tests[name].Sandbox.open(nil).Lacks()
		lacks[text] = append(lacks[text], "toolsets.tests."+name+".sandbox")
	}
	for _, name := range slices.Sorted(maps.Keys(c.MCPServers)) {
		if server := c.MCPServers[name]; len(server.Command) > 0 {
			box := server.Sandbox.open(nil)
			box.Mode = cmp.Or(box.Mode, mcp.DefaultSandbox)
			lacks[box.Lacks()] = append(lacks[box.Lacks()], "mcpServers."+name+".sandbox")
		}
	}
	if shell := c.Toolsets.Shell; shell != nil {
		text := shell.Sandbox.open(nil).Lacks()
		lacks[text] = append(lacks[text], "toolsets.shell.sandbox")
	}

	for _, text := range slices.Sorted(maps.Keys(lacks)) {
		add(strings.Join(lacks[text], ", "), text)
	}

	for _, name := range slices.Sorted(maps.Keys(c.Toolsets.Tests)) {
		t := c.Toolsets.Tests[name]
		for _, hidden := range t.Sandbox.open(c.hide).Within(t.Root.Reveal()) {
			add("toolsets.tests."+name+".root",
				fmt.Sprintf("%s is in the folder %s and out of the command's reach, so the command makes no new files directly "+
					"in that folder, "+
					"only below it; move one of the two, or set sandbox: bubblewrap", filepath.Base(hidden), t.Root))
		}
	}
	return lines
}
