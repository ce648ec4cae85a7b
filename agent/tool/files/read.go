package files

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strings"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/folder"
	"github.com/actlog/actlog/record"
)

const (
	maxEntries = 1000
	maxHits    = 200
	maxHitText = 300
	// maxText bounds the text of a result. It leaves room for a notice.
	maxText = tool.MaxText - 1<<10
	// maxScanned bounds how far a file is read to find its lines.
	maxScanned = 256 << 20
)

type listArguments struct {
	Path      string `json:"path,omitempty" jsonschema:"folder to list; the top folder if it is missing"`
	Recursive bool   `json:"recursive,omitempty" jsonschema:"also list what is in its folders"`
	Include   string `json:"include,omitempty" jsonschema:"only files with this pattern, for example *.go, or with the path src/*.go"`
}

func (f *Folder) list(ctx context.Context, in listArguments) (tool.Result, error) {
	var text strings.Builder
	entries, more := 0, false
	at, err := f.at.Walk(ctx, in.Path, in.Include, func(at string, d fs.DirEntry) error {
		if d.IsDir() && in.Include == "" {
			at += "/"
		}
		if entries == maxEntries || text.Len() > maxText {
			more = true
			return fs.SkipAll
		}
		if !d.IsDir() || in.Include == "" {
			text.WriteString(at + "\n")
			entries++
		}
		if d.IsDir() && !in.Recursive {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return tool.Result{}, err
	}
	if more {
		fmt.Fprintf(&text, "... (only the first %d; list one of the folders instead)\n", entries)
	}
	if entries == 0 {
		text.WriteString("There are no files.")
	}
	return tool.Result{Text: text.String(), Summary: fmt.Sprintf("Listed %s in %s", count(entries, "entry", "entries"), at)}, nil
}

type readArguments struct {
	Path      string `json:"path" jsonschema:"file, relative to the top folder"`
	StartLine int    `json:"start_line,omitempty" jsonschema:"first line to read, from 1"`
	EndLine   int    `json:"end_line,omitempty" jsonschema:"last line to read; the end of the file if it is missing"`
}

func (f *Folder) read(ctx context.Context, in readArguments) (tool.Result, error) {
	switch {
	case in.StartLine < 0:
		return tool.Result{}, errors.New("start_line: lines are counted from 1")
	case in.EndLine < 0 || in.EndLine > 0 && in.EndLine < in.StartLine:
		return tool.Result{}, errors.New("end_line: it is before start_line")
	}
	at, file, info, err := f.at.Open(in.Path)
	if err != nil {
		return tool.Result{}, err
	}
	defer file.Close()
	r := bufio.NewReaderSize(file, 64<<10)
	if begin, err := r.Peek(folder.Sniffed); err != nil && !errors.Is(err, io.EOF) {
		return tool.Result{}, folder.Plain(at, err)
	} else if folder.Binary(begin) {
		return tool.Result{}, fmt.Errorf("%s is a binary file of %d bytes, not a text", at, info.Size())
	}
	first := max(in.StartLine, 1)
	l, err := readLines(ctx, r, first, in.EndLine)
	if err != nil {
		return tool.Result{}, folder.Plain(at, err)
	}
	if l.read == 0 && (l.seen > 0 || in.StartLine > 1) {
		return tool.Result{}, fmt.Errorf("start_line: %s has only %s", at, count(l.seen, "line", "lines"))
	}
	content, err := json.Marshal(l.text)
	if err != nil {
		return tool.Result{}, err
	}
	result := tool.Result{
		Text:      l.text,
		Summary:   fmt.Sprintf("Read %s from %s", count(l.read, "line", "lines"), at),
		Artifacts: []tool.Artifact{{Name: "file_content", Type: "text", Value: content}},
	}
	if l.read > 0 {
		result.Sources = []tool.Source{{URI: at, Type: record.SourceFile, LineStart: first, LineEnd: first + l.read - 1}}
	}
	switch {
	case l.inside:
		result.Text += fmt.Sprintf("\n... (cut inside line %d, which is too long; the file has %d bytes)", first+l.read-1, info.Size())
	case l.more && in.EndLine == 0:
		result.Text += fmt.Sprintf("\n... (lines %d to %d; the file has %d bytes; go on with start_line %d)", first, first+l.read-1, info.Size(), first+l.read)
	case l.more:
		result.Text += fmt.Sprintf("\n... (lines %d to %d; go on with start_line %d)", first, first+l.read-1, first+l.read)
	}
	if result.Text == "" {
		result.Text = "The file is empty."
	}
	return result, nil
}

// lines are some lines of a file.
type lines struct {
	text   string
	read   int  // how many are in the text
	seen   int  // how many there are, as far as was read
	more   bool // not all that was asked for is in the text
	inside bool // the text ends inside its last line
}

// readLines reads the lines from first to last, which are counted from 1; last 0 means all. It reads
// no more than fits into a result.
func readLines(ctx context.Context, r *bufio.Reader, first, last int) (l lines, err error) {
	var text bytes.Buffer
	begin := true // of a line
	for scanned := 0; ; {
		part, err := r.ReadSlice('\n')
		if len(part) > 0 {
			if begin {
				if last > 0 && l.seen == last {
					break
				}
				l.seen++
			}
			if scanned += len(part); scanned > maxScanned {
				l.more = true
				break
			}
			if l.seen >= first {
				room := maxText - text.Len()
				if len(part) > room && text.Len() > 0 && begin {
					l.more = true
					break
				}
				if begin {
					l.read++
				}
				text.Write(part[:min(len(part), room)])
				if len(part) > room {
					l.more, l.inside = true, true
					break
				}
			}
			begin = part[len(part)-1] == '\n'
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return l, err
		}
		if ctx.Err() != nil {
			return l, ctx.Err()
		}
	}
	l.text = text.String()
	return l, nil
}

type searchArguments struct {
	Pattern    string `json:"pattern" jsonschema:"regular expression, for example func [A-Z]; (?i) at the beginning ignores case"`
	Path       string `json:"path,omitempty" jsonschema:"folder or file to search; the top folder if it is missing"`
	Include    string `json:"include,omitempty" jsonschema:"only files with this pattern, for example *.go"`
	MaxResults int    `json:"max_results,omitempty" jsonschema:"at most this many lines; 50 if it is missing"`
}

func (f *Folder) search(ctx context.Context, in searchArguments) (tool.Result, error) {
	pattern, err := regexp.Compile(in.Pattern)
	if err != nil || in.Pattern == "" {
		return tool.Result{}, fmt.Errorf("pattern: %q is not a regular expression; write \\ before characters such as ( or [ to find them", in.Pattern)
	}
	limit := in.MaxResults
	if limit <= 0 {
		limit = 50
	}
	limit = min(limit, maxHits)
	s := searcher{folder: f, pattern: pattern, limit: limit}
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

// searcher collects the lines that match.
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
		s.hits = append(s.hits, tool.Source{URI: at, Type: record.SourceFile, LineStart: number, LineEnd: number, Snippet: shown})
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
		fmt.Fprintf(&s.text, "(%s not searched: they may hold secrets, or are hard links)\n", count(s.closed, "file", "files"))
	}
	where := count(s.inFiles, "file", "files")
	switch s.inFiles {
	case 0:
		where = at
	case 1:
		where = s.hits[0].URI
	}
	return tool.Result{Text: s.text.String(), Summary: fmt.Sprintf("Found %s in %s", count(len(s.hits), "match", "matches"), where), Sources: s.hits}
}
