package config

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/mcp"
	"github.com/actlog/actlog/agent/sandbox"
)

// Sandbox is what programs can reach: see [sandbox.Sandbox].
type Sandbox struct {
	Mode  sandbox.Mode `json:"mode,omitempty"`
	Read  []Value      `json:"read,omitempty"`
	Write []Value      `json:"write,omitempty"`
}

// sandbox returns a sandbox: a mode, or a mapping with more. Relative paths begin at dir. One that cannot be
// had on this machine is a mistake.
func (n node) sandbox(dir string) (s Sandbox) {
	modes := make([]string, 0, len(sandbox.Modes()))
	for _, mode := range sandbox.Modes() {
		modes = append(modes, string(mode))
	}
	paths := func(to *[]Value) func(node) {
		return func(n node) {
			for _, each := range n.list() {
				*to = append(*to, each.absolute(dir))
			}
		}
	}
	problems := len(n.file.problems)
	at := n
	if n.ShortTag() == "!!map" {
		at = n.object(fields{
			"mode":  func(n node) { s.Mode = sandbox.Mode(n.oneOf(modes...)) },
			"read":  paths(&s.Read),
			"write": paths(&s.Write),
		}).at("mode")
	} else {
		s.Mode = sandbox.Mode(n.oneOf(modes...))
	}
	if len(n.file.problems) > problems {
		return s
	}

	if err := s.open(nil).Check(); err != nil {
		at.problem("%v", err)
	}
	return s
}

// Unprotected returns what the programs of the configuration can reach on this machine although they should
// not, and what their sandbox takes from them that they may miss. Log it at the start.
func (c *Config) Unprotected() (lines []string) {
	add := func(what, key, lacks string) {
		if lacks != "" {
			lines = append(lines, fmt.Sprintf("%s.%s: %s", what, key, lacks))
		}
	}
	lacks := map[string][]string{} // those that lack the same
	for _, name := range slices.Sorted(maps.Keys(c.Toolsets.Tests)) {
		text := c.Toolsets.Tests[name].Sandbox.open(nil).Lacks()
		lacks[text] = append(lacks[text], "toolsets.tests."+name)
	}
	for _, name := range slices.Sorted(maps.Keys(c.MCPServers)) {
		if server := c.MCPServers[name]; len(server.Command) > 0 {
			box := server.Sandbox.open(nil)
			box.Mode = cmp.Or(box.Mode, mcp.DefaultSandbox)
			lacks[box.Lacks()] = append(lacks[box.Lacks()], "mcpServers."+name)
		}
	}
	for _, text := range slices.Sorted(maps.Keys(lacks)) {
		add(strings.Join(lacks[text], ", "), "sandbox", text)
	}

	for _, name := range slices.Sorted(maps.Keys(c.Toolsets.Tests)) {
		t := c.Toolsets.Tests[name]
		for _, hidden := range t.Sandbox.open(c.hide).Within(t.Root.Reveal()) {
			add("toolsets.tests."+name, "root", fmt.Sprintf("%s is in the folder %s and out of the command's reach, so the command makes no new files directly in that folder, "+
				"only below it; move one of the two, or set sandbox: bubblewrap", filepath.Base(hidden), t.Root))
		}
	}
	return lines
}

// absolute returns an absolute path. A relative one begins at dir.
func (n node) absolute(dir string) Value {
	v := n.value(false)
	path := v.Reveal()
	if path == "" {
		if n.Value == "" {
			n.problem("it is empty")
		}
		return v
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	v.text = &path
	return v
}

// open returns the sandbox as package sandbox wants it.
func (s Sandbox) open(hide []string) sandbox.Sandbox {
	open := sandbox.Sandbox{Mode: s.Mode, Hide: hide}
	for _, v := range s.Read {
		open.Read = append(open.Read, v.Reveal())
	}
	for _, v := range s.Write {
		open.Write = append(open.Write, v.Reveal())
	}
	return open
}
