package tool

import (
	"errors"
	"fmt"
	"strings"
)

// MaxNameBytes bounds the names of tools, because OpenAI's API does.
const MaxNameBytes = 64

// CheckName returns an error if a tool cannot have this name.
func CheckName(name string) error {
	if name == "" {
		return errors.New("a tool needs a name")
	}
	if len(name) > MaxNameBytes {
		return fmt.Errorf("tool name %q is longer than %d characters", name, MaxNameBytes)
	}
	if i := strings.IndexFunc(name, func(r rune) bool { return r != '.' && !offered(r) }); i >= 0 {
		return fmt.Errorf("tool name %q may only have letters, digits, '_', '-' and '.'", name)
	}
	return nil
}

// offered reports whether all providers accept the character in names of tools.
func offered(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-'
}

// CleanName returns the text with "_" for each character that a provider refuses in names of tools.
func CleanName(text string) string {
	return strings.Map(func(r rune) rune {
		if offered(r) {
			return r
		}
		return '_'
	}, text)
}

// SplitName returns the tool and the operation that a name stands for: those of files.read_file are files and
// read_file. The names of tools of an MCP server begin with the server and "-"; server is empty for others. A
// name of one part is both.
func SplitName(name, server string) (of, operation string) {
	if server != "" {
		if rest, ok := strings.CutPrefix(name, server+"-"); ok {
			return server, rest
		}
	}
	if of, operation, ok := strings.Cut(name, "."); ok {
		return of, operation
	}
	return name, name
}

// ServerOf returns which of several MCP servers has the tool of a name; empty: none of them. Of servers a and a-b,
// the tool a-b-c is one of a-b, whatever a says.
func ServerOf(name string, servers []string) (server string) {
	for _, each := range servers {
		if len(each) > len(server) && strings.HasPrefix(name, each+"-") {
			server = each
		}
	}
	return server
}

// CheckPattern returns an error if no name can match the pattern.
func CheckPattern(pattern string) error {
	if pattern == "" {
		return errors.New("an empty pattern matches no tool")
	}
	if i := strings.IndexFunc(pattern, func(r rune) bool { return r != '.' && r != '*' && !offered(r) }); i >= 0 {
		return fmt.Errorf("pattern %q may only have letters, digits, '_', '-', '.' and '*'", pattern)
	}
	return nil
}

// Match reports whether a name matches a pattern, in which "*" stands for any characters, also none:
// "files.*", "pay-*", "*".
func Match(pattern, name string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	name, ok := strings.CutPrefix(name, first)
	if !ok || !star {
		return ok && name == ""
	}

	parts := strings.Split(rest, "*")
	last := parts[len(parts)-1]
	for _, part := range parts[:len(parts)-1] {
		_, after, found := strings.Cut(name, part)
		if !found {
			return false
		}
		name = after
	}
	return strings.HasSuffix(name, last)
}
