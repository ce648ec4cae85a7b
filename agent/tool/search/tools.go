package search

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/internal/folder"
	"github.com/actlog/actlog/record"
)

// timeout bounds a call. The first one of a folder may have many vectors made.
const timeout = 5 * time.Minute

// maxQuery bounds what is searched for, in bytes.
const maxQuery = 8 << 10

const maxResults = 10

// maxSnippet bounds the snippet of a source, in characters.
const maxSnippet = 500

// Tools returns the tools that search the folder.
func (f *Folder) Tools() []tool.Tool {
	read := tool.WithPolicy(tool.Policy{OnUnknown: tool.Retry, Timeout: timeout})
	return []tool.Tool{
		tool.Func("search.search_code", "Finds parts of the code by what they are about.", f.code, read),
		tool.Func("search.search_documentation", "Finds parts of the documentation by what they are about.", f.documentation,
			read),
		tool.Func("search.search_similar_code", "Finds parts of the code that are like a piece of code.", f.similar, read),
	}
}

type queryArguments struct {
	Query      string `json:"query" jsonschema:"what to search for, in words"`
	MaxResults int    `json:"max_results,omitempty" jsonschema:"at most this many; 10 if it is missing, and at most"`
}

type similarArguments struct {
	Code       string `json:"code" jsonschema:"the piece of code"`
	MaxResults int    `json:"max_results,omitempty" jsonschema:"at most this many; 10 if it is missing, and at most"`
}

func (f *Folder) code(ctx context.Context, in queryArguments) (tool.Result, error) {
	return f.search(ctx, "query", record.SourceFile, wish{query: in.Query, wanted: code, most: in.MaxResults})
}

func (f *Folder) documentation(ctx context.Context, in queryArguments) (tool.Result, error) {
	return f.search(ctx, "query", record.SourceDocumentation, wish{query: in.Query, wanted: document, most: in.MaxResults})
}

func (f *Folder) similar(ctx context.Context, in similarArguments) (tool.Result, error) {
	// a file may have what is like another part of it
	return f.search(ctx, "code", record.SourceFile, wish{query: in.Code, wanted: code, parts: true, most: in.MaxResults})
}

type hit struct {
	Path      string  `json:"path"`
	LineStart int     `json:"lineStart"`
	LineEnd   int     `json:"lineEnd"`
	Score     float64 `json:"score"`
	By        string  `json:"by"`
}

func (f *Folder) search(ctx context.Context, field string, of record.SourceType, w wish) (tool.Result, error) {
	switch {
	case strings.TrimSpace(w.query) == "":
		return tool.Result{}, errors.New(field + ": it is empty")
	case len(w.query) > maxQuery:
		return tool.Result{}, fmt.Errorf("%s: it has more than %d KiB", field, maxQuery>>10)
	}

	w.query = strings.ToValidUTF8(w.query, "\uFFFD")
	if w.most <= 0 || w.most > maxResults {
		w.most = maxResults
	}
	r, err := f.find(ctx, w)
	if err != nil {
		return tool.Result{}, err
	}
	return f.result(r, of)
}

type output struct {
	Matches []hit  `json:"matches"`
	Files   int    `json:"files"`
	By      string `json:"by"`
	Why     string `json:"onlyWordsBecause,omitempty"`
}

func (f *Folder) result(r found, of record.SourceType) (tool.Result, error) {
	about := output{Matches: []hit{}, Files: r.searched, By: f.by(true, r.fused), Why: r.wordsOnlyReason}
	result := tool.Result{
		Embedding: r.embedding,
		Summary:   fmt.Sprintf("Found %d matches in %d files by %s", len(r.matches), r.searched, about.By),
	}
	if r.wordsOnlyReason != "" {
		result.Summary += " only"
	}

	var text strings.Builder
	for _, m := range r.matches {
		by := f.by(m.words, m.vector)
		fmt.Fprintf(&text, "%s:%d-%d (score %.2f, by %s)\n%s\n\n", m.path, m.start, m.end, m.score, by, m.text)
		about.Matches = append(about.Matches, hit{m.path, m.start, m.end, m.score, by})
		result.Sources = append(result.Sources, tool.Source{
			URI: m.path, Type: of, LineStart: m.start, LineEnd: m.end, Snippet: snippet(m.text), Score: m.score,
			Description: "Found by " + by,
		})
	}
	text.WriteString(r.notes())
	result.Text = text.String()

	var err error
	result.Data, err = json.Marshal(about)
	return result, err
}

func (f *Folder) by(words, vector bool) string {
	switch {
	case !vector:
		return "words"
	case !words:
		return "embeddings of " + f.vectors.embedder.Name()
	default:
		return "words and embeddings of " + f.vectors.embedder.Name()
	}
}

// notes returns the lines that tell the model what is missing: no matches, no vectors, files that were not searched.
func (r *found) notes() string {
	var text strings.Builder
	if len(r.matches) == 0 {
		text.WriteString("Nothing matches.\n")
	}
	if r.wordsOnlyReason != "" {
		fmt.Fprintf(&text, "(Searched by words only: %s.)\n", r.wordsOnlyReason)
	}

	if r.skipped.TooMany {
		text.WriteString("(Only the first files were searched.)\n")
	}
	if r.skipped.Large > 0 {
		fmt.Fprintf(&text, "(%d files of more than %d MiB were not searched.)\n", r.skipped.Large, folder.MaxText>>20)
	}
	if r.skipped.Unavailable > 0 {
		fmt.Fprintf(&text, "(%d files were not searched: they may hold secrets, or are hard links.)\n", r.skipped.Unavailable)
	}
	return text.String()
}

// snippet returns the beginning of a text as a source has it.
func snippet(text string) string {
	n := 0
	for i := range text {
		if n == maxSnippet {
			return text[:i]
		}
		n++
	}
	return text
}
