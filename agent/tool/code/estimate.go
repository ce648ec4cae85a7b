package code

import (
	"cmp"
	"regexp"
	"strings"
)

var (
	// header is the first line of a function in languages that have a word for it.
	header = regexp.MustCompile(
		`^\s*(?:[a-z]+\s+){0,4}(?:def|function|func|fn|fun|sub)\s+\*?\s*(?:\([^)]*\)\s*)?([\pL_$][\pL\pN_$.:]*[?!]?)\s*(?:<[^>]*>\s*)?(?:\(([^)]*)\)?)?`,
	)
	// method is that of a function in languages that name its type first.
	method = regexp.MustCompile(`^\s*(?:[\w<>\[\],.?*&:~]+\s+){1,6}\*?([\pL_][\pL\pN_]*)\s*\(([^;=]*)\)[^;=(]*\{\s*$`)
	branch = regexp.MustCompile(
		`\b(?:if|elif|elsif|elseif|unless|for|foreach|while|until|case|when|catch|except|rescue)\b|&&|\|\||\b(?:and|or)\b`,
	)
	quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'` + "|`[^`]*`")
	// statement is a word that looks like the name of a method before a parenthesis, and is none.
	statement = regexp.MustCompile(
		`^\s*(?:\}\s*)?(?:if|else|for|foreach|while|switch|catch|return|do|try|using|lock|synchronized|new|throw|await|yield)\b`,
	)

	comments = map[string]string{"Python": "#", "Ruby": "#", "Shell": "#", "Lua": "--"}

	// importing are the lines that import, by language.
	importing = map[string]*regexp.Regexp{
		"Python": regexp.MustCompile(`^\s*(?:from\s+([.\w]+)\s+import\b|import\s+([\w.]+))`),
		"JavaScript": regexp.MustCompile(
			`^\s*(?:(?:import|export)\b(?:[^'"]*\bfrom)?\s*['"]([^'"]+)['"]|.*\brequire\(\s*['"]([^'"]+)['"]|\}\s*from\s+['"]([^'"]+)['"])`,
		),
		"Java":  regexp.MustCompile(`^\s*import\s+(?:static\s+)?([\w.*]+)`),
		"Rust":  regexp.MustCompile(`^\s*(?:pub\s+)?(?:use\s+([\w:]+)|mod\s+(\w+)\s*;|extern\s+crate\s+(\w+))`),
		"Ruby":  regexp.MustCompile(`^\s*require(?:_relative)?\s*\(?['"]([^'"]+)['"]`),
		"PHP":   regexp.MustCompile(`^\s*(?:use\s+([\w\\]+)|(?:require|include)(?:_once)?\s*\(?\s*['"]([^'"]+)['"])`),
		"C":     regexp.MustCompile(`^\s*#\s*include\s*[<"]([^>"]+)[>"]`),
		"C#":    regexp.MustCompile(`^\s*(?:global\s+)?using\s+(?:static\s+)?([\w.]+)\s*;`),
		"Swift": regexp.MustCompile(`^\s*import\s+([\w.]+)`),
		"Shell": regexp.MustCompile(`^\s*(?:source|\.)\s+["']?([^\s"']+)`),
		"Lua":   regexp.MustCompile(`\brequire\s*\(?\s*['"]([^'"]+)['"]`),
		"Go":    regexp.MustCompile(`^\s*(?:import\s+)?(?:[\w.]+\s+)?"([\w./-]+)"\s*$`),
	}
	sameImports = map[string]string{"TypeScript": "JavaScript", "Kotlin": "Java", "Scala": "Java", "C++": "C"}
)

// estimate measures a file by general rules.
func (m *measured) estimate() {
	m.Estimate = true
	comment := cmp.Or(comments[m.Language], "//")
	imports := importing[cmp.Or(sameImports[m.Language], m.Language)]
	e := estimator{m: m}
	inside := false // of a comment of several lines
	for i, line := range m.text {
		line = line[:min(len(line), maxLine)]
		bare := strings.TrimSpace(line)
		switch {
		case inside:
			inside = !strings.Contains(bare, "*/")
			continue
		case bare == "" || strings.HasPrefix(bare, comment):
			continue
		case strings.HasPrefix(bare, "/*"):
			inside = !strings.Contains(bare, "*/")
			continue
		}

		m.CodeLines++
		if found := imports.FindStringSubmatch(line); found != nil {
			m.imports = append(m.imports, imported{name: strings.Join(found[1:], ""), line: i + 1, lineEnd: i + 1})
		}
		e.line(i+1, line)
	}
	e.end(0)
}

// maxLine bounds how much of a line is looked at, in bytes.
const maxLine = 1 << 10

// estimator goes through the lines of code. What is indented less ends what was open.
type estimator struct {
	m     *measured
	open  []int // indentations
	begun []begun
	last  int // line
}

// begun is a function whose end was not seen yet.
type begun struct {
	indentation int
	depth       int
	function
}

func (e *estimator) line(number int, line string) {
	code := quoted.ReplaceAllString(line, `""`)
	bare := strings.TrimLeft(code, " \t")
	indentation := 0
	for _, c := range code[:len(code)-len(bare)] {
		indentation++
		if c == '\t' {
			indentation += 3
		}
	}

	closes := beginsWith(bare, "}", ")", "]", "{") || bare == "end"
	if closes { // the last line of what is indented as much
		indentation++
	}
	e.end(indentation)
	if closes {
		indentation--
	}

	e.last = number
	for len(e.open) > 0 && e.open[len(e.open)-1] >= indentation {
		e.open = e.open[:len(e.open)-1]
	}
	e.open = append(e.open, indentation)
	depth := len(e.open) - 1
	e.m.Nesting = max(e.m.Nesting, depth)

	if name, parameters, ok := functionOf(code); ok {
		e.begun = append(e.begun, begun{
			indentation, depth, function{Name: name, LineStart: number, Complexity: 1, Parameters: parameters},
		})
		return
	}

	found := len(branch.FindAllString(code, -1))
	for i := range e.begun {
		f := &e.begun[i]
		f.Complexity += found
		if inside := depth - f.depth - 1; inside > f.Nesting {
			f.Nesting, f.deepest = inside, number
		}
	}
}

// functionOf returns the name and the number of parameters of a function whose first line this is.
func functionOf(line string) (name string, parameters int, ok bool) {
	found := header.FindStringSubmatch(line)
	if found == nil && !statement.MatchString(line) {
		found = method.FindStringSubmatch(line)
	}
	if found == nil {
		return "", 0, false
	}

	for p := range strings.SplitSeq(found[2], ",") {
		if p = strings.TrimSpace(p); p != "" && p != "self" && p != "cls" && p != "void" && p != "/" && p != "*" {
			parameters++
		}
	}
	return found[1], parameters, true
}

// end ends the functions that are indented as much, or more.
func (e *estimator) end(indentation int) {
	for len(e.begun) > 0 && e.begun[len(e.begun)-1].indentation >= indentation {
		f := e.begun[len(e.begun)-1]
		e.begun = e.begun[:len(e.begun)-1]
		f.LineEnd = e.last
		e.m.Functions = append(e.m.Functions, f.function)
	}
}
