package tree

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
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

// Line returns the line of an error's text that says what happened: the message of JSON, the exception of a Python traceback, else the
// first line that is not blank. It has no terminal escapes and at most [MaxLine] characters. It is empty if the text is blank.
func Line(text string) string {
	lines := strings.Split(strings.ReplaceAll(plain(text), "\r", "\n"), "\n")
	said := exception(lines)
	if message := jsonMessage(strings.Join(said, "\n")); message != "" {
		said = exception(strings.Split(plain(message), "\n"))
	}

	return Beginning(firstLine(said), MaxLine)
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

// groupMember returns the lines of the last exception of a group; nil: a traceback follows the group, with the frame at last.
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
	// maxTries bounds how often JSON is looked for in a text, and maxNested how deep a message in it.
	maxTries  = 200
	maxNested = 10
)

// jsonMessage returns the message of the first JSON that ends a line; empty: there is none.
func jsonMessage(text string) string {
	for at, tries := 0, 0; tries < maxTries; tries++ {
		next := strings.IndexAny(text[at:], "{[")
		if next < 0 {
			break
		}
		at += next

		d := json.NewDecoder(strings.NewReader(text[at:]))
		var value any
		if d.Decode(&value) != nil {
			at++
			continue
		}
		end := at + int(d.InputOffset())
		tail, _, _ := strings.Cut(text[end:], "\n")
		if list, ok := value.([]any); ok && len(list) > 0 {
			value = list[0]
		}
		if object, ok := value.(map[string]any); ok && strings.TrimSpace(tail) == "" {
			if message := messageOf(object, maxNested); message != "" {
				return message
			}
		}
		at = end
	}
	return ""
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
