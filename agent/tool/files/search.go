package files

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/internal/folder"
	"github.com/actlog/actlog/record"
)

const (
	maxHits    = 200
	maxHitText = 300
)

type searchArguments struct {
	Pattern    string `json:"pattern" jsonschema:"regular expression, for example func [A-Z]; (?i) at the beginning ignores case"`
	Path       string `json:"path,omitempty" jsonschema:"folder or file to search; the top folder if it is missing"`
	Include    string `json:"include,omitempty" jsonschema:"only files with this pattern, for example *.go"`
	MaxResults int    `json:"max_results,omitempty" jsonschema:"at most this many lines; 50 if it is missing"`
}

func (f *Folder) search(ctx context.Context, in searchArguments) (tool.Result, error) {
	pattern, err := regexp.Compile(in.Pattern)
	if err != nil || in.Pattern == "" {
		return tool.Result{},
			fmt.Errorf("pattern: %q is not a regular expression; write \\ before characters such as ( or [ to find them",
				in.Pattern)
	}

	s := searcher{folder: f, pattern: pattern, limit: min(in.MaxResults, maxHits)}
	if s.limit <= 0 {
		s.limit = 50
	}
	at, err := f.at.Walk(ctx, in.Path, in.Include, func(at string, d fs.DirEntry) error {
		if !d.Type().IsRegular() {
			return nil
		}
		return s.file(ctx, at)
	})
	if err != nil {
		return tool.Result{}, err
	}
	return s.result(at), nil
}

type searcher struct {
	folder  *Folder
	pattern *regexp.Regexp
	limit   int

	text    strings.Builder
	hits    []tool.Source
	inFiles int
	huge    int // files that were too large
	closed  int // files that are not available
	more    bool
}

func (s *searcher) file(ctx context.Context, at string) error {
	info, err := s.folder.at.Lstat(at)
	if err != nil {
		return nil //nolint:nilerr // it has gone
	}
	if s.folder.at.Available(at, info) != nil {
		s.closed++
		return nil //nolint:nilerr // the result says so
	}
	if info.Size() > folder.MaxFile {
		s.huge++
		return nil
	}

	_, content, _, err := s.folder.at.Content(at)
	if err != nil || folder.Binary(content) {
		return nil //nolint:nilerr // it has gone, or may not be read
	}

	before := len(s.hits)
	for number := 1; len(content) > 0; number++ {
		var line []byte
		line, content, _ = bytes.Cut(content, []byte("\n"))
		if line = bytes.TrimSuffix(line, []byte("\r")); !s.pattern.Match(line) {
			continue
		}
		if len(s.hits) == s.limit || s.text.Len() > maxText {
			s.more = true
			return fs.SkipAll
		}

		shown := tool.Cut(strings.TrimSpace(string(line)), maxHitText)
		fmt.Fprintf(&s.text, "%s:%d: %s\n", at, number, strings.ReplaceAll(shown, "\n", " "))
		s.hits = append(s.hits,
			tool.Source{URI: at, Type: record.SourceFile, LineStart: number, LineEnd: number, Snippet: shown})
		if len(s.hits) == before+1 {
			s.inFiles++
		}
	}
	return ctx.Err()
}

func (s *searcher) result(at string) tool.Result {
	if s.more {
		fmt.Fprintf(&s.text, "... (there are more; only the first %d are shown)\n", len(s.hits))
	}
	if len(s.hits) == 0 {
		s.text.WriteString("Nothing matches.\n")
	}
	if s.huge > 0 {
		fmt.Fprintf(&s.text, "(%s of more than %d MiB not searched)\n", count(s.huge, "file", "files"), folder.MaxFile>>20)
	}
	if s.closed > 0 {
		fmt.Fprintf(&s.text, "(%s not searched: they may hold secrets, or are hard links)\n",
			count(s.closed, "file", "files"))
	}

	where := count(s.inFiles, "file", "files")
	switch s.inFiles {
	case 0:
		where = at
	case 1:
		where = s.hits[0].URI
	}
	return tool.Result{Text: s.text.String(),
		Summary: fmt.Sprintf("Found %s in %s", count(len(s.hits), "match", "matches"), where), Sources: s.hits}
}
