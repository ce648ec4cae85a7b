package model

import (
	"fmt"
	"strings"
)

// OfferedName returns the form of a tool's name that providers accept: files.read_file is offered as
// files-read_file. Any other character than ASCII letters, digits, - and _ becomes _.
func OfferedName(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '.':
			return '-'
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '_'
	}, name)
}

// OwnNames returns the names of tools by their offered form. It is an error if two tools would be
// offered under one name.
func OwnNames(tools []ToolSpec) (map[string]string, error) {
	own := make(map[string]string, len(tools))
	for _, t := range tools {
		offered := OfferedName(t.Name)
		if other, taken := own[offered]; taken {
			return nil, fmt.Errorf("tools %q and %q would both be offered as %q", other, t.Name, offered)
		}
		own[offered] = t.Name
	}
	return own, nil
}
