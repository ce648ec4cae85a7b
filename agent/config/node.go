package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
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

var (
	yamlLine = regexp.MustCompile(`^line (\d+): `)
	// yamlQuoted is what messages of the parser quote from the file. It may be secret.
	yamlQuoted = regexp.MustCompile("'[^']{2,}'|\"[^\"]{2,}\"|`[^`]{2,}`")
)

// parse returns the top of the file, or false if it cannot be read.
func (f *file) parse(text []byte) (node, bool) {
	top := node{file: f, Node: &yaml.Node{}}
	d := yaml.NewDecoder(bytes.NewReader(text))
	var document yaml.Node
	err := d.Decode(&document)
	if err == nil && len(document.Content) == 1 && document.Content[0].ShortTag() != "!!null" {
		top.Node = document.Content[0]
		var more yaml.Node
		if err = d.Decode(&more); errors.Is(err, io.EOF) {
			return top, true
		} else if err == nil {
			top.Line = more.Line
			top.problem("the file has a second document; want one")
			return top, false
		}
	}
	if err == nil || errors.Is(err, io.EOF) {
		top.problem("the file is empty")
		return top, false
	}
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	if at := yamlLine.FindStringSubmatch(message); at != nil {
		top.Line, _ = strconv.Atoi(at[1]) // digits; 0 if there are too many
		message = message[len(at[0]):]
	}
	top.problem("not YAML: %s", yamlQuoted.ReplaceAllString(message, "..."))
	return top, false
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
	return node{Node: &moved, file: n.file, path: below(n.path, key)}
}

// below returns the path of a key or "[index]".
func below(path, key string) string {
	const longest = 100
	if len(key) > longest || strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsPrint(r) }) {
		key = strconv.Quote(key[:min(len(key), longest)])
	}
	if path == "" || strings.HasPrefix(key, "[") {
		return path + key
	}
	return path + "." + key
}

// kind returns what stands at the place, in words.
func (n node) kind() string {
	switch n.ShortTag() {
	case "!!map":
		return "a mapping"
	case "!!seq":
		return "a list"
	case "!!str":
		return "a text"
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	case "!!null":
		return "nothing"
	case "!!timestamp":
		return "a date"
	}
	return "a value with a tag"
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
		value := n.at(key.Value, n.Content[i+1])
		if line, twice := lines[key.Value]; twice {
			value.Line = key.Line
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
			if near := nearest(key, names); near != "" {
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
		if g.node.Node != nil && g.node.ShortTag() == "!!map" && !g.has(key) {
			missing := g.node
			missing.path = below(missing.path, key)
			missing.problem("required")
		}
	}
}

// list returns the elements of a list.
func (n node) list() (elements []node) {
	if !n.is("a list", "!!seq") {
		return nil
	}
	for i, each := range n.Content {
		elements = append(elements, n.at(fmt.Sprintf("[%d]", i), each))
	}
	return elements
}

// text returns a text that may go on record, so it has no variables.
func (n node) text() string {
	if !n.is("a text, in quotes if need be", "!!str") {
		return ""
	}
	text, _ := n.expand(false)
	return text
}

// word returns a text that is not empty.
func (n node) word() string {
	text := n.text()
	if n.ShortTag() == "!!str" && strings.TrimSpace(n.Value) == "" {
		n.problem("it is empty")
	}
	return text
}

// texts returns a list of texts.
func (n node) texts() (texts []string) {
	for _, each := range n.list() {
		texts = append(texts, each.text())
	}
	return texts
}

// value returns a text in which variables are replaced. It is secret if there are any, or if the place is.
func (n node) value(secret bool) Value {
	if !n.is("a text", "!!str", "!!int", "!!float", "!!bool", "!!timestamp") {
		return Value{}
	}
	text, variables := n.expand(true)
	return Value{text: &text, secret: secret || variables}
}

// values returns a mapping from names to secret values.
func (n node) values(checkKey func(string) string) map[string]Value {
	values := map[string]Value{}
	n.entries(func(key string, value node) {
		if wrong := checkKey(key); wrong != "" {
			value.problem("%s", wrong)
			return
		}
		values[key] = value.value(true)
	})
	return values
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand replaces ${NAME} by the variable of the environment, and $$ by a dollar. It reports whether
// there were variables. Where they are not allowed, they are a problem. After a problem the text is
// empty, so that no other one can show it.
func (n node) expand(allowed bool) (text string, variables bool) {
	problems := len(n.file.problems)
	var out strings.Builder
	rest := n.Value
	for {
		before, after, found := strings.Cut(rest, "$")
		out.WriteString(before)
		if !found {
			break
		}
		if after == "" || after[0] != '{' {
			out.WriteByte('$')
			rest = strings.TrimPrefix(after, "$")
			continue
		}
		name, behind, closed := strings.Cut(after[1:], "}")
		if !closed || !variableName.MatchString(name) {
			n.problem("after ${ comes the name of a variable and }; a dollar itself is written $$")
			break
		}
		rest, variables = behind, true
		value, ok := n.file.lookup(name)
		switch {
		case !allowed:
			n.problem("the variable %s cannot be used here, because this text goes on record; a dollar itself is written $$", name)
		case !ok:
			n.problem("the variable %s is not set", name)
		}
		out.WriteString(value)
	}
	if text = out.String(); strings.Contains(text, "\x00") {
		n.problem("a text cannot have the character 0")
	}
	if len(n.file.problems) > problems {
		return "", variables
	}
	return text, variables
}

func (n node) boolean() (b bool) {
	if n.is("true or false", "!!bool") {
		_ = n.Decode(&b) // cannot fail: the tag says so
	}
	return b
}

// positive returns a whole number from 1 to most.
func (n node) positive(most int64) (i int64) {
	if !n.is("a whole number", "!!int") {
		return 0
	}
	if err := n.Decode(&i); err != nil || i < 1 || i > most {
		n.problem("want a whole number from 1 to %d", most)
		return 0
	}
	return i
}

// number returns a number from least to most.
func (n node) number(least, most float64) (x float64) {
	if !n.is("a number", "!!int", "!!float") {
		return 0
	}
	if err := n.Decode(&x); err != nil || math.IsNaN(x) || x < least || x > most {
		n.problem("want a number from %v to %v", least, most)
		return 0
	}
	return x
}

// amount returns a number above 0.
func (n node) amount() (x float64) {
	if !n.is("a number", "!!int", "!!float") {
		return 0
	}
	if err := n.Decode(&x); err != nil || math.IsNaN(x) || math.IsInf(x, 0) || x <= 0 {
		n.problem("want a number above 0")
		return 0
	}
	return x
}

func (n node) duration() (d Duration) {
	if !n.is("a time such as 30s or 2m", "!!str") {
		return 0
	}
	text := n.text()
	if err := d.UnmarshalText([]byte(text)); err != nil && (text != "" || n.Value == "") {
		n.problem("%v", err)
	}
	return d
}

// oneOf returns a text that is one of those.
func (n node) oneOf(choices ...string) string {
	text := n.text()
	if !slices.Contains(choices, text) && (text != "" || n.Value == "") {
		n.problem("want %s", strings.Join(choices, " or "))
		return ""
	}
	return text
}

// Bounds of a schema: aliases could make very many values of few.
const (
	maxNodes = 50_000
	maxDepth = 100
)

// json returns what stands at a place as JSON, with the keys in the order of the file.
func (n node) json() (json.RawMessage, bool) {
	var out bytes.Buffer
	w := jsonWriter{out: &out, left: maxNodes}
	problems := len(n.file.problems)
	w.write(n, 0)
	if w.left < 0 {
		n.problem("it has more than %d values, or is more than %d deep", maxNodes, maxDepth)
	}
	return out.Bytes(), len(n.file.problems) == problems
}

type jsonWriter struct {
	out  *bytes.Buffer
	left int
}

func (w *jsonWriter) write(n node, depth int) {
	if depth > maxDepth {
		w.left = 0
	}
	if w.left--; w.left < 0 {
		return
	}
	switch n.ShortTag() {
	case "!!map":
		separator := byte('{')
		n.entries(func(key string, value node) {
			w.out.WriteByte(separator)
			separator = ','
			w.any(key)
			w.out.WriteByte(':')
			w.write(value, depth+1)
		})
		if separator == '{' {
			w.out.WriteByte('{')
		}
		w.out.WriteByte('}')
	case "!!seq":
		w.out.WriteByte('[')
		for i, each := range n.list() {
			if i > 0 {
				w.out.WriteByte(',')
			}
			w.write(each, depth+1)
		}
		w.out.WriteByte(']')
	case "!!str":
		w.any(n.text())
	case "!!null", "!!bool", "!!int", "!!float":
		var x any
		if err := n.Decode(&x); err != nil {
			n.problem("it cannot be read as %s", n.kind())
			return
		}
		if f, ok := x.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
			n.problem("JSON has no such number")
			return
		}
		w.any(x)
	default:
		n.problem("JSON has no such value: %s", n.kind())
	}
}

func (w *jsonWriter) any(x any) {
	b, _ := json.Marshal(x) // cannot fail: texts, numbers, booleans and null
	w.out.Write(b)
}
