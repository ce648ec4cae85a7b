package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/record/nearest"
)

// names are what parts of a configuration can refer to.
type names struct {
	models, servers, agents, workflows, plans []string
	custom                                    []string // workflows that are functions of the program
	functions                                 []string // of the program
	// tools are names, and patterns where only the servers know them.
	tools []string
}

// checkName notes a name that cannot be that of a tool, with a prefix such as "agent.".
func (n node) checkName(prefix, name string) {
	if tool.CheckName(prefix+name) != nil || name == "" {
		n.problem("a name has at most %d letters, digits, '_', '-' and '.'", tool.MaxNameBytes-len(prefix))
	}
}

// reference returns a text that names one of the things that there are.
func (n node) reference(what string, there []string) string {
	name := n.word()
	if name != "" {
		n.refer(what, name, there)
	}
	return name
}

func (n node) refer(what, name string, there []string) {
	if slices.Contains(there, name) {
		return
	}
	if near := nearest.Name(name, there); near != "" {
		n.problem("no %s is called %q; did you mean %s?", what, name, near)
		return
	}
	n.problem("no %s is called %q; there are: %s", what, name, list(there))
}

// list returns names for a message, not all of them if there are many.
func list(names []string) string {
	const most = 20
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > most:
		return strings.Join(names[:most], ", ") + " and more"
	}
	return strings.Join(names, ", ")
}

// pattern returns a name or pattern of tools. It is a mistake if it can match none.
func (n node) pattern(there []string) string {
	pattern := n.word()
	if pattern == "" {
		return ""
	}
	if err := tool.CheckPattern(pattern); err != nil {
		n.problem("%v", err)
		return ""
	}
	if !slices.ContainsFunc(there, func(known string) bool { return overlap(pattern, known) }) {
		if strings.Contains(pattern, "*") {
			n.problem("no tool matches %q; there are: %s", pattern, list(there))
		} else {
			n.refer("tool", pattern, there)
		}
	}
	return pattern
}

// checkOffered notes tools whose names are the same to a model.
func (names names) checkOffered(top node) {
	offered := map[string]string{}
	for _, name := range names.tools {
		if other, ok := offered[model.OfferedName(name)]; ok && other != name {
			section, key, _ := strings.Cut(name, ".")
			at := top.child("toolsets").child(section)
			if section == "agent" || section == "plan" {
				at = top.child(section + "s").child(key)
			}
			at.problem("the tools %s and %s are both %s to a model", other, name, model.OfferedName(name))
			continue
		}
		offered[model.OfferedName(name)] = name
	}
	for _, server := range names.servers {
		if i := slices.IndexFunc(names.tools, func(name string) bool { return strings.HasPrefix(name, server+".") }); i >= 0 {
			top.child("mcpServers").child(server).problem("to a model, tools of this server could have the same names as %s; it needs another name", names.tools[i])
		}
	}
}

// keysOf returns the names that a section defines.
func keysOf(section node) []string {
	keys := map[string]bool{}
	if section.Node != nil && section.ShortTag() == "!!map" {
		for i := 0; i+1 < len(section.Content); i += 2 {
			keys[section.Content[i].Value] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// child returns the place of a key, or n itself.
func (n node) child(key string) node {
	if n.Node != nil && n.ShortTag() == "!!map" {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				return n.entry(i)
			}
		}
	}
	return n
}
