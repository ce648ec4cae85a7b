package main

import (
	"strings"

	"github.com/actlog/actlog/internal/view/words"
)

// commandLine returns a command for the user to type: actlog, the name of a command, its arguments, flags with their
// values by turns, and the server if it is not the usual one. Ids come from the record, so anybody may have chosen
// them: each is quoted, and none is read as a flag.
func (c *client) commandLine(name string, args []string, flags ...string) string {
	if c.base != defaultServer {
		flags = append(flags, "--server", c.base)
	}
	line, dashed := []string{"actlog", name}, false
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i], dashed = words.Argument(arg), dashed || strings.HasPrefix(arg, "-")
	}

	if !dashed {
		line = append(line, quoted...)
	}
	for i := 0; i+1 < len(flags); i += 2 {
		line = append(line, flagArgument(flags[i], flags[i+1]))
	}
	if dashed {
		line = append(append(line, "--"), quoted...) // no flags come after it
	}
	return strings.Join(line, " ")
}

// flagArgument returns a flag with its value, for the user to type.
func flagArgument(flag, value string) string {
	if strings.HasPrefix(value, "-") {
		return flag + "=" + words.Argument(value)
	}
	return flag + " " + words.Argument(value)
}
