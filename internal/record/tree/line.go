package tree

import (
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/actlog/actlog/internal/record/loosejson"
)

// MaxLine bounds what [Line] returns, in characters.
const MaxLine = 300

var (
	// escapes are what terminals take for commands: CSI and OSC sequences, with their one-byte forms, and the short ones.
	escapes = regexp.MustCompile("(?:\x1b\\[|\u009b)[0-?]*[ -/]*[@-~]?" +
		"|(?:\x1b[\\]PX^_]|[\u009d\u0090\u0098\u009e\u009f])[^\x07\x1b\u009c]*(?:\x07|\x1b\\\\|\u009c)?" +
		"|\x1b[ -/]*[0-~]?")
	// frame is the line of a Python traceback that names a place in a program.
	frame = regexp.MustCompile(`^\s+File "[^"]*", line \d+`)
	// header begins a Python traceback.
	header = regexp.MustCompile(`Traceback \(most recent call last\):\s*$`)
	// member is the line between the exceptions of a Python exception group.
	member = regexp.MustCompile(`^\s*\+(?:-\+)?-{3,} (?:\d+|\.\.\.) -{3,}\s*$`)
	// rest is such a line before the number of exceptions that Python left out.
	rest = regexp.MustCompile(`^\s*\+(?:-\+)?-{3,} \.\.\. -{3,}\s*$`)
	// margin is what stands before each line of an exception group.
	margin = regexp.MustCompile(`^\s*\| ?`)
	// edge ends an exception group.
	edge = regexp.MustCompile(`^\s*\+-{3,}\s*$`)
)

// Line returns the line of an error's text that says what happened: the message of JSON, the exception of a Python
// traceback, else the first line that is not blank. It has no terminal escapes and at most [MaxLine] characters. It is
// empty if the text is blank.
func Line(text string) string {
	lines := strings.Split(strings.ReplaceAll(plain(text), "\r", "\n"), "\n")
	described := exception(lines)
	if message := jsonMessage(strings.Join(described, "\n")); message != "" {
		described = exception(strings.Split(plain(message), "\n"))
	}

	return Beginning(firstLine(described), MaxLine)
}

// plain is a text without terminal escapes.
func plain(text string) string {
	if strings.ContainsAny(text, "\x1b\u0090\u0098\u009b\u009d\u009e\u009f") {
		text = escapes.ReplaceAllString(text, "")
	}
	return text
}

func firstLine(lines []string) string {
	for _, line := range lines {
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
	}
	return ""
}

// Beginning returns the first characters of a text.
func Beginning(text string, most int) string {
	if len(text) <= most {
		return text
	}

	n := 0
	for i := range text {
		if n++; n > most {
			return text[:i]
		}
	}
	return text
}

// exception returns the lines of a Python traceback from the one on that names its exception; other lines as they are.
func exception(lines []string) []string {
	last := lastIndex(lines, frame)
	if at := lastIndex(lines, member); at >= 0 {
		if within := groupMember(lines, last); within != nil {
			return within
		}
	}
	if last < 0 {
		return lines
	}

	for i := last + 1; i < len(lines); i++ {
		if line := lines[i]; strings.TrimSpace(line) != "" && indent(line) <= base(lines[:last]) {
			return lines[i:]
		}
	}
	return lines
}

// groupMember returns the lines of the last exception of a group; nil: a traceback follows the group, with the frame at
// last.
func groupMember(lines []string, last int) []string {
	from := -1
	for i, line := range lines {
		if member.MatchString(line) && !rest.MatchString(line) {
			from = i + 1
		}
	}
	if from < 0 {
		return nil
	}

	var own []string
	to := from
	for ; to < len(lines) && !edge.MatchString(lines[to]) && !member.MatchString(lines[to]); to++ {
		own = append(own, margin.ReplaceAllString(lines[to], ""))
	}
	if last > to {
		return nil
	}
	return exception(own)
}

func lastIndex(lines []string, like *regexp.Regexp) int {
	for i, line := range slices.Backward(lines) {
		if like.MatchString(line) {
			return i
		}
	}
	return -1
}

// base is how far the last traceback is indented as a whole.
func base(lines []string) int {
	if at := lastIndex(lines, header); at >= 0 {
		return indent(lines[at])
	}
	return 0
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }

// messageNames are where a JSON error has its message, the likeliest first.
var messageNames = []string{"message", "detail", "error_description", "error", "title"}

const (
	// maxTries bounds how often JSON is looked for in a text, maxParsed how many bytes are read for that in all, and
	// maxNested how deep a message in it is.
	maxTries  = 200
	maxParsed = 256 << 10
	maxNested = 10
)

// jsonMessage returns the message of the first JSON that ends a line, or was cut; empty: there is none.
func jsonMessage(text string) string {
	budget := int64(maxParsed)
	for at, tries := 0, 0; tries < maxTries && budget > 0; tries++ {
		next := strings.IndexAny(text[at:], "{[")
		if next < 0 {
			break
		}
		at += next

		source := &io.LimitedReader{R: strings.NewReader(text[at:]), N: budget}
		d := json.NewDecoder(source)
		var value any
		err := d.Decode(&value)
		if err != nil {
			value, read := beforeCut(text[at:min(len(text), at+int(budget))], err)
			if message := messageIn(value); message != "" {
				return message
			}
			budget = min(source.N, budget-int64(read))
			at++
			continue
		}

		budget = source.N
		at += int(d.InputOffset())
		tail, _, _ := strings.Cut(text[at:], "\n")
		if strings.TrimSpace(tail) == "" {
			if message := messageIn(value); message != "" {
				return message
			}
		}
	}
	return ""
}

// beforeCut returns the value of JSON that was cut, as far as it is there: it ends too early, maybe with a mark, or
// breaks between two lines because the middle of the text was left out. nil: it is no JSON. read is how many bytes were
// read for that.
func beforeCut(text string, failed error) (value any, read int) {
	if syntax := new(json.SyntaxError); errors.As(failed, &syntax) && !errors.Is(failed, io.ErrUnexpectedEOF) {
		to := min(int(syntax.Offset), len(text)) // with the character at which it breaks
		line := strings.LastIndexByte(text[:to], '\n')
		if line >= 0 && strings.TrimSpace(text[line:max(line, to-1)]) == "" {
			text = text[:line]
		}
	}

	whole, read, ok := loosejson.CompleteAndCount(text)
	if !ok || json.Unmarshal([]byte(loosejson.Strict(whole)), &value) != nil {
		return nil, read
	}
	return value, read
}

// messageIn returns the message of an error in JSON, or of the first in a list of them.
func messageIn(value any) string {
	if list, ok := value.([]any); ok && len(list) > 0 {
		value = list[0]
	}

	object, ok := value.(map[string]any)
	if !ok {
		return ""
	}
	return messageOf(object, maxNested)
}

// messageOf returns the message of an error in JSON. The inner error comes before the object around it.
func messageOf(object map[string]any, depth int) string {
	inner := make([]map[string]any, 0, 2)
	if e, ok := object["error"].(map[string]any); ok {
		inner = append(inner, e)
	}

	list, _ := object["errors"].([]any)
	if len(list) > 0 {
		if e, ok := list[0].(map[string]any); ok {
			inner = append(inner, e)
		}
	}

	for _, o := range append(slices.Clone(inner), object) {
		for _, name := range messageNames {
			if s, ok := o[name].(string); ok && strings.TrimSpace(plain(s)) != "" {
				return s
			}
		}
	}

	for _, o := range inner { // deeper than that
		if depth > 0 {
			if message := messageOf(o, depth-1); message != "" {
				return message
			}
		}
	}
	if len(list) > 0 {
		if s, ok := list[0].(string); ok {
			return s
		}
	}
	return ""
}
