package code

import "strings"

// measured is a file of code with what was measured of it.
type measured struct {
	Path      string     `json:"path"`
	Language  string     `json:"language"`
	Estimate  bool       `json:"estimate"` // measured by general rules, not by a parser
	Lines     int        `json:"lines"`
	CodeLines int        `json:"codeLines"` // without blank lines and those that are only a comment
	Nesting   int        `json:"nesting"`   // the deepest
	Functions []function `json:"functions"`
	Problem   string     `json:"problem,omitempty"` // why a parser could not read it

	generated bool // by a program, which its comment says
	imports   []imported
	text      []string // its lines
	content   []byte
}

// function is one that has a body. Lines are counted from 1 and include the last one.
type function struct {
	Name       string `json:"name"`
	LineStart  int    `json:"lineStart"`
	LineEnd    int    `json:"lineEnd"`
	Complexity int    `json:"complexity"`          // cyclomatic: 1, and 1 for each branch
	Cognitive  *int   `json:"cognitive,omitempty"` // how hard it is to read; nil: not measured
	Nesting    int    `json:"nesting"`
	Parameters int    `json:"parameters"`

	deepest int // line of the deepest nesting
	largest block
}

func (f function) lines() int { return f.LineEnd - f.LineStart + 1 }

// block is the statement of a function that is the best to take out of it.
type block struct{ start, end, complexity int }

// imported is an import of a file, in its own words.
type imported struct {
	name string
	line int
}

// languages are those that are known, by the ends of file names.
var languages = map[string]string{
	".go": "Go", ".py": "Python", ".js": "JavaScript", ".jsx": "JavaScript", ".mjs": "JavaScript", ".cjs": "JavaScript",
	".ts": "TypeScript", ".tsx": "TypeScript", ".java": "Java", ".kt": "Kotlin", ".scala": "Scala", ".rs": "Rust", ".rb": "Ruby",
	".php": "PHP", ".c": "C", ".h": "C", ".cc": "C++", ".cpp": "C++", ".hpp": "C++", ".cs": "C#", ".swift": "Swift", ".sh": "Shell", ".lua": "Lua",
}

// snippet returns some lines, at most 500 characters.
func (m measured) snippet(start, end int) string {
	start, end = max(start, 1), min(end, len(m.text))
	if start > end {
		return ""
	}
	text := []rune(strings.ToValidUTF8(strings.Join(m.text[start-1:end], "\n"), "\uFFFD"))
	return string(text[:min(len(text), maxSnippet)])
}

// maxSnippet bounds the snippet of a source, in characters.
const maxSnippet = 500
