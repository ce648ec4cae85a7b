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

// nextVariable reads a text up to its first variable. It returns the text before that, with $$ as a dollar, the
// variable, nil if there is none, and the text after it. ok is false if no variable follows a ${.
func nextVariable(text string) (before string, v *variable, after string, ok bool) {
	var out strings.Builder
	for {
		plain, rest, found := strings.Cut(text, "$")
		out.WriteString(plain)
		if !found {
			return out.String(), nil, "", true
		}

		if begun, isVariable := strings.CutPrefix(rest, "{"); isVariable {
			inside, behind, closed := strings.Cut(begun, "}")
			read, isRight := parseVariable(inside)
			if !closed || !isRight {
				return out.String(), nil, "", false
			}
			return out.String(), &read, behind, true
		}

		out.WriteByte('$')
		text = strings.TrimPrefix(rest, "$")
	}
}

// expand replaces ${NAME} and ${NAME:-DEFAULT} by the variable of the environment, and $$ by a dollar. It reports
// whether there were variables. Where they are not allowed, they are a problem. After a problem the text is empty, so
// that no later error message can contain a part of a secret.
func (n node) expand(allowed bool) (text string, variables bool) {
	problems := len(n.file.problems)
	var out strings.Builder
	for rest := n.Value; rest != ""; {
		before, v, after, ok := nextVariable(rest)
		out.WriteString(before)
		if !ok {
			n.problem("after ${ comes the name of a variable and }; a dollar itself is written $$")
		}
		if v == nil {
			break
		}
		rest, variables = after, true

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
