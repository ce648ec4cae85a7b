package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/actlog/actlog/internal/record/nearest"
	"github.com/actlog/actlog/internal/runtime/define"
)

// file is a configuration file that is being read. It collects its problems.
type file struct {
	name     string
	lookup   func(string) (string, bool)
	problems []Problem
	warnings []Problem
}

// node is a place in the file, with what stands there.
type node struct {
	*yaml.Node
	file *file
	path string
}

// problem notes a mistake at this place. It must not have the text of a value that may be secret.
func (n node) problem(format string, args ...any) {
	n.file.problems = append(n.file.problems, n.says(fmt.Sprintf(format, args...)))
}

// warn notes what may be a mistake.
func (n node) warn(message string) { n.file.warnings = append(n.file.warnings, n.says(message)) }

func (n node) says(message string) Problem {
	return Problem{File: n.file.name, Line: n.Line, Field: n.path, Message: message}
}

// at returns a place below this one.
func (n node) at(key string, value *yaml.Node) node {
	line := value.Line
	for value.Kind == yaml.AliasNode {
		value = value.Alias
	}
	moved := *value
	moved.Line = line // of the alias, which is where the mistake can be seen
	return node{Node: &moved, file: n.file, path: define.Below(n.path, key)}
}

// entry returns the value of a mapping whose key is the i-th element. Its line is that of the key, which
// is where people look.
func (n node) entry(i int) node {
	value := n.at(n.Content[i].Value, n.Content[i+1])
	value.Line = n.Content[i].Line
	return value
}

// kind returns what stands at the place, in words.
func (n node) kind() string {
	kinds := map[string]string{
		"!!map": "a mapping", "!!seq": "a list", "!!str": "a text", "!!int": "a number", "!!float": "a number",
		"!!bool": "true or false", "!!null": "nothing", "!!timestamp": "a date",
	}
	return cmp.Or(kinds[n.ShortTag()], "a value with a tag")
}

// is reports whether the place has a value with one of these tags, and else notes that it wants another.
func (n node) is(want string, tags ...string) bool {
	if slices.Contains(tags, n.ShortTag()) {
		return true
	}
	n.problem("want %s, not %s", want, n.kind())
	return false
}

// entries calls each for the entries of a mapping, in the order of the file.
func (n node) entries(each func(key string, value node)) {
	if n.Node == nil || !n.is("a mapping", "!!map") {
		return
	}

	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.at("", n.Content[i])
		key.path = n.path
		if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
			key.problem("want a name as key")
			continue
		}

		value := n.entry(i)
		if line, twice := lines[key.Value]; twice {
			value.problem("it is there twice, first in line %d", line)
			continue
		}
		lines[key.Value] = key.Line
		each(key.Value, value)
	}
}

// fields are the known keys of a mapping, and how the value of each is read.
type fields map[string]func(node)

// given are the keys that a mapping has.
type given struct {
	node node
	keys map[string]node
}

// object reads a mapping with known keys. A key without a value counts as not given.
func (n node) object(known fields) given {
	g := given{node: n, keys: map[string]node{}}
	n.entries(func(key string, value node) {
		read, ok := known[key]
		if !ok {
			names := slices.Sorted(maps.Keys(known))
			if near := nearest.Name(key, names); near != "" {
				value.problem("no such key; did you mean %s?", near)
			} else {
				value.problem("no such key; there are: %s", strings.Join(names, ", "))
			}
			return
		}

		if value.ShortTag() == "!!null" {
			return
		}
		g.keys[key] = value
		read(value)
	})
	return g
}

// has reports whether a key was given, with a right value or a wrong one.
func (g given) has(key string) bool {
	_, ok := g.keys[key]
	return ok
}

// at returns the place of a key, or of the mapping if the key was not given.
func (g given) at(key string) node {
	if n, ok := g.keys[key]; ok {
		return n
	}
	return g.node
}

// require notes the keys that lack.
func (g given) require(keys ...string) {
	for _, key := range keys {
		if at, lacks := g.lacks(key); lacks {
			at.problem("required")
		}
	}
}

// lacks reports whether this is a mapping without a key, and returns the place that the key would have.
func (g given) lacks(key string) (at node, lacks bool) {
	if g.node.Node == nil || g.node.ShortTag() != "!!map" || g.has(key) {
		return at, false
	}

	at = g.node
	at.path = define.Below(at.path, key)
	return at, true
}

// options reads the options of a toolset, an MCP server or a remote, and has them checked if each can be read.
func (n node) options(known fields, check func() error, required ...string) {
	problems := len(n.file.problems)
	g := n.object(known)
	g.require(required...)
	if len(n.file.problems) == problems {
		g.optionProblem(check())
	}
}

func (n node) list() (elements []node) {
	if !n.is("a list", "!!seq") {
		return nil
	}
	for i, each := range n.Content {
		elements = append(elements, n.at(fmt.Sprintf("[%d]", i), each))
	}
	return elements
}

// optionProblem notes what a check says about options, at the place of the field that it names: "field: message".
func (g given) optionProblem(err error) {
	if err == nil {
		return
	}
	field, message, _ := strings.Cut(err.Error(), ": ")
	at := g.at(field)
	at.path = define.Below(g.node.path, field)
	at.problem("%s", message)
}
