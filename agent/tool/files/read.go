package files

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/internal/folder"
	"github.com/actlog/actlog/record"
)

const (
	// maxText bounds the text of a result. It leaves room for a notice.
	maxText = tool.MaxText - 1<<10
	// maxScanned bounds how far a file is read to find its lines.
	maxScanned = 256 << 20
)

type readArguments struct {
	Path      string `json:"path" jsonschema:"file, relative to the top folder"`
	StartLine int    `json:"start_line,omitempty" jsonschema:"first line to read, from 1"`
	EndLine   int    `json:"end_line,omitempty" jsonschema:"last line to read; the end of the file if it is missing"`
	Numbered  bool   `json:"numbered,omitempty" jsonschema:"put its number and a tab before each line, which are not in the file; files.edit_lines needs the numbers"`
}

func (in readArguments) check() error {
	switch {
	case in.StartLine < 0:
		return errors.New("start_line: lines are counted from 1")
	case in.EndLine < 0 || in.EndLine > 0 && in.EndLine < in.StartLine:
		return errors.New("end_line: it is before start_line")
	}
	return nil
}

func (f *Folder) read(ctx context.Context, in readArguments) (tool.Result, error) {
	if err := in.check(); err != nil {
		return tool.Result{}, err
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

	l := lines{first: max(in.StartLine, 1), last: in.EndLine, numbered: in.Numbered}
	if err := l.readAll(ctx, r); err != nil {
		return tool.Result{}, folder.Plain(at, err)
	}
	if l.read == 0 && (l.seen > 0 || in.StartLine > 1) {
		return tool.Result{}, fmt.Errorf("start_line: %s has only %s", at, count(l.seen, "line", "lines"))
	}
	return l.result(at, info)
}

type lines struct {
	first, last int // that are wanted, from 1; last 0 means all
	numbered    bool

	text   strings.Builder // as they are in the file
	shown  strings.Builder // as the model reads them
	read   int             // how many are in the text
	seen   int             // how many there are, as far as was read
	more   bool            // not all that was asked for is in the text
	inside bool            // the text ends inside its last line
}

// readAll reads the lines. It reads no more than fits into a result.
func (l *lines) readAll(ctx context.Context, r *bufio.Reader) error {
	begin := true // of a line
	for scanned := 0; ; {
		part, err := r.ReadSlice('\n')
		if begin && len(part) > 0 {
			if l.last > 0 && l.seen == l.last {
				return nil
			}
			l.seen++
		}

		if scanned += len(part); scanned > maxScanned {
			l.more = true
			return nil
		}
		if l.seen >= l.first && len(part) > 0 && !l.add(part, begin) {
			return nil
		}
		if len(part) > 0 {
			begin = part[len(part)-1] == '\n'
		}

		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}

// add adds a line, or a further part of it. It reports whether there is room for more.
func (l *lines) add(part []byte, begin bool) bool {
	number := ""
	if begin && l.numbered {
		number = strconv.Itoa(l.seen) + "\t"
	}
	room := maxText - l.shown.Len() - len(number)
	if len(part) > room && l.shown.Len() > 0 && begin {
		l.more = true
		return false
	}
	if begin {
		l.read++
	}

	fits := part[:min(len(part), max(room, 0))]
	l.text.Write(fits)
	l.shown.WriteString(number)
	l.shown.Write(fits)
	if len(fits) < len(part) {
		l.more, l.inside = true, true
		return false
	}
	return true
}

func (l *lines) result(at string, info fs.FileInfo) (tool.Result, error) {
	content, err := json.Marshal(l.text.String())
	end := l.first + l.read - 1
	result := tool.Result{
		Text:      l.shown.String(),
		Summary:   fmt.Sprintf("Read %s from %s", count(l.read, "line", "lines"), at),
		Artifacts: []tool.Artifact{{Name: "file_content", Type: "text", Value: content}},
	}
	if l.read > 0 {
		result.Sources = []tool.Source{{URI: at, Type: record.SourceFile, LineStart: l.first, LineEnd: end}}
	}

	switch {
	case l.inside:
		result.Text += fmt.Sprintf("\n... (cut inside line %d, which is too long; the file has %d bytes)", end, info.Size())
	case l.more && l.last == 0:
		result.Text += fmt.Sprintf("\n... (lines %d to %d; the file has %d bytes; go on with start_line %d)", l.first, end,
			info.Size(), end+1)
	case l.more:
		result.Text += fmt.Sprintf("\n... (lines %d to %d; go on with start_line %d)", l.first, end, end+1)
	}
	if result.Text == "" {
		result.Text = "The file is empty."
	}
	return result, err
}
