package config

import (
	"regexp"
	"strings"
	"unicode"
)

// value returns a text in which variables are replaced. It is secret if there are any, or if the place is.
func (n node) value(secret bool) Value {
	if !n.is("a text", "!!str", "!!int", "!!float", "!!bool", "!!timestamp") {
		return Value{}
	}
	text, variables := n.expand(true)
	return Value{text: &text, secret: secret || variables}
}

// values returns a mapping from names to values. checkKey returns what is wrong with a name.
func (n node) values(checkKey func(string) string, read func(node) Value) map[string]Value {
	values := map[string]Value{}
	n.entries(func(key string, value node) {
		if wrong := checkKey(key); wrong != "" {
			value.problem("%s", wrong)
			return
		}
		values[key] = read(value)
	})
	return values
}

// header returns a secret value that is sent in a header of HTTP.
func (n node) header() Value {
	v := n.value(true)
	if strings.ContainsFunc(v.Reveal(), unicode.IsControl) {
		n.problem("it cannot have line breaks or other control characters")
	}
	return v
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// variable is what stands between ${ and }: NAME, or NAME:-DEFAULT.
type variable struct {
	name       string
	otherwise  string // for a variable that is not set, or empty
	hasDefault bool
}

func parseVariable(text string) (v variable, ok bool) {
	v.name, v.otherwise, v.hasDefault = strings.Cut(text, ":-")
	return v, variableName.MatchString(v.name) && !strings.ContainsAny(v.otherwise, "${")
}

// expand replaces ${NAME} and ${NAME:-DEFAULT} by the variable of the environment, and $$ by a dollar. It reports
// whether there were variables. Where they are not allowed, they are a problem. After a problem the text is empty, so
// that no other one can show it.
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

		inside, behind, closed := strings.Cut(after[1:], "}")
		v, ok := parseVariable(inside)
		if !closed || !ok {
			n.problem("after ${ comes the name of a variable and }; a dollar itself is written $$")
			break
		}
		rest, variables = behind, true

		value, set := n.file.lookup(v.name)
		switch {
		case !allowed:
			n.problem("the variable %s cannot be used here, because this text goes on record; a dollar itself is written $$",
				v.name)
		case value == "" && v.hasDefault:
			value = v.otherwise
		case !set:
			n.problem("the variable %s is not set", v.name)
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
