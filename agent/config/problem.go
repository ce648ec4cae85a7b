package config

import (
	"fmt"
	"strings"
)

// Problem is a mistake in a configuration file.
type Problem struct {
	File    string
	Line    int    // from 1; 0 if it is not known
	Field   string // such as "agents.reader.model"; empty if it is the file as a whole
	Message string
}

// String returns the problem as "actlog.yaml:12: agents.reader.model: no model is called ...".
func (p Problem) String() string {
	text := p.File
	if p.Line > 0 {
		text = fmt.Sprintf("%s:%d", text, p.Line)
	}
	if p.Field != "" {
		text += ": " + p.Field
	}
	return text + ": " + p.Message
}

// InvalidError has all mistakes of a configuration file, in the order of its lines.
type InvalidError struct {
	Problems []Problem
}

// maxShown bounds the problems in the text of an error.
const maxShown = 100

// Error returns one line for each problem.
func (e *InvalidError) Error() string {
	var lines []string
	for i, p := range e.Problems {
		if i == maxShown {
			lines = append(lines, fmt.Sprintf("and %d more problems", len(e.Problems)-maxShown))
			break
		}
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}
