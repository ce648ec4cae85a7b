package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/actlog/actlog/internal/runtime/define"
)

// knownNames are what parts of a configuration can refer to.
type knownNames struct {
	models, servers, agents, workflows, plans []string
	custom                                    []string // workflows that are functions of the program
	functions                                 []string // of the program
	// tools are names, and patterns where only the servers know them.
	tools []string
}

// checkName notes a name that cannot be that of a tool, with a prefix such as "agent.".
func (n node) checkName(prefix, name string) { n.note(define.NameProblem(prefix, name)) }

// note notes what is wrong at this place; empty: nothing.
func (n node) note(message string) {
	if message != "" {
		n.problem("%s", message)
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

func (n node) refer(what, name string, there []string) { n.note(define.Missing(what, name, there)) }

// pattern returns a name or pattern of tools. It is a mistake if it can match none.
func (n node) pattern(there []string) string {
	pattern := n.word()
	if strings.TrimSpace(pattern) != "" { // else it was noted
		n.note(define.PatternProblem(pattern, there))
	}
	return pattern
}

// checkOffered notes tools whose names are the same to a model.
func (names knownNames) checkOffered(top node) {
	define.CheckOffered(names.tools, names.servers, func(section, name, message string) {
		at := top
		if section == "tools" {
			if section, name, _ = strings.Cut(name, "."); section == "agent" || section == "plan" {
				section += "s"
			} else {
				at, name = top.child("toolsets"), ""
			}
		}
		at.child(section).child(name).note(message)
	})
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
