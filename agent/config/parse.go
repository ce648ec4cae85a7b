package config

import (
	"bytes"
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
