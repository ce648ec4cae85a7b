package folder

import (
	"path"
	"regexp"
	"strings"
)

// ignore is what the .gitignore files of some folders leave out.
type ignore []ignoreLine

// ignoreLine is one pattern of a .gitignore file.
type ignoreLine struct {
	below   string // the folder of the file
	pattern *regexp.Regexp
	keep    bool // it begins with "!"
	folders bool // it ends with "/"
}

// Bounds of a .gitignore file, in bytes, and of one of its lines.
const (
	maxIgnore     = 64 << 10
	maxIgnoreLine = 256
)

// with returns the ignore together with what a .gitignore file says, which stands in a folder.
func (g ignore) with(below, text string) ignore {
	added := g[:len(g):len(g)]
	for line := range strings.Lines(text[:min(len(text), maxIgnore)]) {
		line = strings.TrimRight(line, " \t\r\n")
		l := ignoreLine{below: below}
		line, l.keep = strings.CutPrefix(line, "!")
		line, l.folders = strings.CutSuffix(line, "/")
		if line == "" || line[0] == '#' || len(line) > maxIgnoreLine {
			continue
		}

		if !strings.Contains(line, "/") {
			line = "**/" + line
		}
		var err error
		if l.pattern, err = regexp.Compile("^" + expression(strings.TrimPrefix(line, "/"), false) + "$"); err == nil {
			added = append(added, l)
		}
	}
	return added
}

// expression returns a pattern of .gitignore as a regular expression. With braces, {a,b} matches a or b.
func expression(pattern string, braces bool) string {
	var b strings.Builder
	open := 0
	for pattern != "" {
		switch {
		case braces && pattern[0] == '{':
			b.WriteString("(")
			pattern, open = pattern[1:], open+1

		case open > 0 && pattern[0] == '}':
			b.WriteString(")")
			pattern, open = pattern[1:], open-1
		case open > 0 && pattern[0] == ',':
			b.WriteString("|")
			pattern = pattern[1:]

		case strings.HasPrefix(pattern, "**/"):
			b.WriteString("(.*/)?")
			pattern = pattern[3:]
		case strings.HasPrefix(pattern, "**"):
			b.WriteString(".*")
			pattern = pattern[2:]

		case pattern[0] == '*':
			b.WriteString("[^/]*")
			pattern = pattern[1:]
		case pattern[0] == '?':
			b.WriteString("[^/]")
			pattern = pattern[1:]

		case pattern[0] == '[' && strings.Contains(pattern[1:], "]"):
			end := strings.IndexByte(pattern[1:], ']') + 2
			class := pattern[1 : end-1]
			if rest, not := strings.CutPrefix(class, "!"); not {
				class = "^" + rest
			}
			b.WriteString("[" + strings.ReplaceAll(class, `\`, `\\`) + "]")
			pattern = pattern[end:]

		case pattern[0] == '\\' && len(pattern) > 1:
			b.WriteString(regexp.QuoteMeta(pattern[1:2]))
			pattern = pattern[2:]
		default:
			b.WriteString(regexp.QuoteMeta(pattern[:1]))
			pattern = pattern[1:]
		}
	}
	return b.String()
}

// out reports whether a file or folder is left out. The last pattern that matches decides.
func (g ignore) out(at string, folder bool) bool {
	for i := len(g) - 1; i >= 0; i-- {
		l := g[i]
		relative := at
		if l.below != "." {
			var within bool
			if relative, within = strings.CutPrefix(at, l.below+"/"); !within {
				continue
			}
		}

		if (folder || !l.folders) && l.pattern.MatchString(relative) {
			return !l.keep
		}
	}
	return false
}

// dependencies are folders of what others wrote.
var dependencies = map[string]bool{
	"node_modules": true, "vendor": true, "bower_components": true, "__pycache__": true, "site-packages": true,
}

// foreign reports whether a file or folder is hidden, or what others wrote.
func foreign(at string, folder bool) bool {
	name := path.Base(at)
	return strings.HasPrefix(name, ".") || folder && dependencies[name]
}
