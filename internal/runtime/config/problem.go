package config

import (
	"fmt"
	"strings"
)

// Problem is a mistake in a configuration file, or in what a program defines.
type Problem struct {
	File    string // empty if a program defines it
	Line    int    // from 1; 0 if it is not known
	Field   string // such as "agents.reader.model"; empty if it is the file as a whole
	Message string
}

// String returns the problem as "actlog.yaml:12: agents.reader.model: no model is called ...".
func (p Problem) String() string {
	var parts []string
	switch {
	case p.Line > 0:
		parts = append(parts, fmt.Sprintf("%s:%d", p.File, p.Line))
	case p.File != "":
		parts = append(parts, p.File)
	}

	if p.Field != "" {
		parts = append(parts, p.Field)
	}
	return strings.Join(append(parts, p.Message), ": ")
}

// InvalidError has all mistakes of a configuration file, in the order of its lines, or of what a program
// defines.
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
