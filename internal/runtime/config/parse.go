package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

var (
	yamlLine = regexp.MustCompile(`^line (\d+): `)
	// yamlQuoted is what messages of the parser quote from the file. It may be secret.
	yamlQuoted = regexp.MustCompile("'[^']{2,}'|\"[^\"]{2,}\"|`[^`]{2,}`")
)

var jsonString = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// plainEscapes writes a string of JSON without the escapes that the parser of YAML does not know: "\/",
// and the pairs that stand for one character.
func plainEscapes(quoted []byte) []byte {
	var text string
	if err := json.Unmarshal(quoted, &text); err != nil {
		return quoted
	}
	plain, _ := json.Marshal(text) // cannot fail: a text
	return plain
}

// parse returns the top of the file, or false if it cannot be read.
func (f *file) parse(text []byte) (node, bool) {
	top := node{file: f, Node: &yaml.Node{}}
	if json.Valid(text) {
		text = jsonString.ReplaceAllFunc(text, plainEscapes)
	}

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
