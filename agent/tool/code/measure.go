package code

import (
	"path"
	"strings"

	"github.com/actlog/actlog/agent/tool/code/internal/treesitter"
)

// measured is a file of code with what was measured of it.
type measured struct {
	Path      string     `json:"path"`
	Language  string     `json:"language"`
	Estimate  bool       `json:"estimate"` // measured by general rules, or with errors of syntax
	Lines     int        `json:"lines"`
	CodeLines int        `json:"codeLines"` // without blank lines and those that are only a comment
	Nesting   int        `json:"nesting"`   // the deepest
	Functions []function `json:"functions"`
	Problem   string     `json:"problem,omitempty"` // why a parser could not read it

	syntax    []syntaxError // errors of syntax in what a parser read
	generated bool          // by a program, which its comment says
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

// offer takes a block for the largest one. What is the whole function is no part to take out.
func (f *function) offer(b block) {
	if b.complexity > f.largest.complexity && 2*b.complexity <= f.Complexity+1 {
		f.largest = b
	}
}

// block is the statement of a function that is the best to take out of it.
type block struct{ start, end, complexity int }

// imported is an import of a file, in its own words.
type imported struct {
	name          string
	tries         []string // what it may mean, the most probable first; name itself if there are none
	line, lineEnd int
}

// syntaxError is one in a file. For Go its column is in bytes.
type syntaxError = treesitter.Problem

// languages are those that are known, by the ends of file names.
var languages = map[string]string{
	".go": "Go", ".py": "Python", ".pyi": "Python", ".js": "JavaScript", ".jsx": "JavaScript", ".mjs": "JavaScript",
	".cjs": "JavaScript",
	".ts":  "TypeScript", ".tsx": "TypeScript", ".mts": "TypeScript", ".cts": "TypeScript", ".java": "Java",
	".kt": "Kotlin", ".scala": "Scala", ".rs": "Rust", ".rb": "Ruby",
	".php": "PHP", ".c": "C", ".h": "C", ".cc": "C++", ".cpp": "C++", ".hpp": "C++", ".cs": "C#", ".swift": "Swift",
	".sh": "Shell", ".lua": "Lua",
}

// languageOf returns the language of a file by its name; empty: none that is known.
func languageOf(at string) string { return languages[strings.ToLower(path.Ext(at))] }

// countCode counts the lines that are neither blank nor a comment.
func countCode(text []string, comment map[int]bool) (count int) {
	for i, line := range text {
		if strings.TrimSpace(line) != "" && !comment[i+1] {
			count++
		}
	}
	return count
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

// maxDeep bounds how deep brackets lie within each other: the time to look at them grows with its square.
const maxDeep = 500

// tooDeep is the problem of a file that is deep.
const tooDeep = "its blocks lie too deep within each other"

// deep reports whether brackets lie too deep within each other. It does not know which of them are in texts.
func deep(content []byte, open, closed string) bool {
	depth, deepest := 0, 0
	for _, c := range content {
		switch {
		case strings.IndexByte(open, c) >= 0:
			depth++
			deepest = max(deepest, depth)
		case strings.IndexByte(closed, c) >= 0:
			depth--
		}
	}
	return deepest > maxDeep
}
