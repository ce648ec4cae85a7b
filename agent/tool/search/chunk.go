package search

import (
	"crypto/sha256"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// chunk is a part of a file, from start to end, counted from 1.
type chunk struct {
	path       string
	start, end int
	text       string
	hash       [sha256.Size]byte
}

// Bounds of a chunk. It ends before a blank line if it has fewLines already.
const (
	fewLines = 12
	maxLines = 40
	maxBytes = 2000
)

// chunks cuts a text into parts, at blank lines before lines that are not indented if possible.
func chunks(at string, content string) (found []chunk) {
	content = strings.ToValidUTF8(content, "\uFFFD")
	lines := strings.Split(strings.TrimSuffix(content, "\n"), "\n")
	begin, size := 0, 0
	cut := func(end int) {
		text := strings.TrimRight(strings.Join(lines[begin:end], "\n"), " \t\r\n")
		if strings.TrimSpace(text) != "" {
			text = cutText(text, maxBytes)
			found = append(found, chunk{at, begin + 1, begin + 1 + strings.Count(text, "\n"), text, sha256.Sum256([]byte(text))})
		}
		begin, size = end, 0
	}

	for i, line := range lines {
		section := i > 0 && strings.TrimSpace(lines[i-1]) == "" && strings.TrimLeft(line, " \t}") == line
		if i > begin && (i-begin >= maxLines || size+len(line) > maxBytes || section && i-begin >= fewLines) {
			cut(i)
		}
		size += len(line) + 1
	}
	cut(len(lines))
	return found
}

// cutText returns the first bytes of a text, at most limit.
func cutText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// documents are the ends of the names of files that are documentation.
var documents = []string{".md", ".markdown", ".rst", ".adoc", ".txt", ".html", ".htm", ".tex", ".org"}

// data are those of files that are neither code nor documentation.
var data = []string{
	".csv", ".tsv", ".svg", ".lock", ".sum", ".map", ".log", ".min.js", ".min.css", ".pem", ".key", ".crt",
}

// document reports whether a file is documentation, by its name.
func document(at string) bool {
	name := strings.ToLower(path.Base(at))
	return slices.Contains(documents, path.Ext(name)) || path.Ext(name) == "" && strings.HasPrefix(name, "readme")
}

// legal are the names, without an end, of files that are neither, either.
var legal = []string{"license", "licence", "copying", "notice", "patents"}

// code reports whether a file is code, by its name.
func code(at string) bool {
	name := strings.ToLower(at)
	return !document(at) && !slices.Contains(legal, path.Base(name)) && !slices.ContainsFunc(data, func(end string) bool {
		return strings.HasSuffix(name, end)
	})
}
