package shell

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/actlog/actlog/agent/sandbox"
)

// Command is one that a model may run.
type Command struct {
	// Name makes the name of the tool: shell.<name>.
	Name string
	// Description tells the model what the command is for. Empty: what it is.
	Description string
	// Dir is the folder in which the command runs.
	Dir string
	// Arguments are the program and its first arguments. A program with a "/" that is not absolute is one of the folder.
	Arguments []string
	// Allow is a regular expression (RE2) that each further argument of the model must match as a whole. Empty: a model
	// adds none. Arguments that begin with "-" or "@" are refused unless AllowOptions is set, too.
	Allow        string
	AllowOptions bool
	// Env are variables for the command, besides those of [sandbox.Environment].
	Env map[string]string
	// Sandbox is what the command can reach besides its folder. The zero value is the best that the system has.
	Sandbox sandbox.Sandbox
	// NoApproval lets the command run without a human who approves each call.
	NoApproval bool
	// Timeout bounds a run. 0: DefaultTimeout.
	Timeout time.Duration
}

// DefaultTimeout is that of a command which has none.
const DefaultTimeout = 5 * time.Minute

// Bounds of the arguments of a model.
const (
	maxArguments = 50
	maxArgument  = 1000 // bytes
)

// Check returns an error if the command cannot be run.
func (c Command) Check() error {
	if len(c.Arguments) == 0 || c.Arguments[0] == "" {
		return errors.New("command: it has no program")
	}
	if _, err := regexp.Compile(c.pattern()); err != nil {
		return errors.New("arguments: it is no regular expression")
	}
	return nil
}

// pattern returns the expression for a whole argument.
func (c Command) pattern() string { return `\A(?:` + c.Allow + `)\z` }

// checkArguments returns why a model may not add arguments.
func (c Command) checkArguments(allowed *regexp.Regexp, arguments []string) error {
	if len(arguments) > 0 && c.Allow == "" {
		return errors.New("arguments: the command takes none")
	}
	if len(arguments) > maxArguments {
		return fmt.Errorf("arguments: there are more than %d", maxArguments)
	}

	for _, each := range arguments {
		option := strings.HasPrefix(each, "-") || strings.HasPrefix(each, "@")
		switch {
		case len(each) > maxArgument:
			return fmt.Errorf("arguments: one has more than %d bytes", maxArgument)
		case strings.ContainsFunc(each, unicode.IsControl):
			return fmt.Errorf("arguments: %q has a control character", each)
		case option && !c.AllowOptions:
			return fmt.Errorf("arguments: %q begins with - or @; it must not", each)
		case !allowed.MatchString(each):
			return fmt.Errorf("arguments: %q does not match %s", each, c.Allow)
		}
	}
	return nil
}
