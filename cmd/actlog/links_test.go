package main

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// F9: every link in a page of the repository leads to a file that is there, and to a heading that it has.
func TestLinks(t *testing.T) {
	t.Parallel()
	pages := markdownPages(t, filepath.Join("..", ".."))
	if len(pages) < 15 {
		t.Fatalf("only %d pages", len(pages))
	}

	links := 0
	for path, p := range pages {
		for _, target := range p.links {
			links++
			if wrong := follow(pages, path, target); wrong != "" {
				t.Errorf("%s: %s: %s", path, target, wrong)
			}
		}
	}

	if links < 200 {
		t.Errorf("only %d links", links)
	}
}

// TestLinksAreFollowed: what is wrong with a link is found.
func TestLinksAreFollowed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const text = "# One `two`, (three)\n" +
		"[a](#one-two-three) [b](#no) [c](b.md#x) [d](b.md#y-1 \"title\") [e](c.md) [f](https://example.com/#no)\n" +
		"[g]: b.md#z\n" +
		"```\n[h](no.md)\n```\n`[i](no.md)` <img src=\"no.svg\">\n[k\nl](no2.md)\n"

	for name, text := range map[string]string{"a.md": text, "b.md": "## X\n### Y\n## y\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	pages, wrong := markdownPages(t, dir), []string{}
	a := filepath.Join(dir, "a.md")
	for _, target := range pages[a].links {
		if follow(pages, a, target) != "" {
			wrong = append(wrong, target)
		}
	}
	if got := strings.Join(wrong, " "); got != "#no c.md no2.md no.svg b.md#z" {
		t.Errorf("wrong are %s", got)
	}
}

// markdownPage is what a page has to do with links.
type markdownPage struct {
	links   []string
	anchors map[string]bool
}

var (
	fenced     = regexp.MustCompile("(?ms)^[ >]*```.*?^[ >]*```[ ]*$")
	inlineCode = regexp.MustCompile("`[^`\n]*`")
	inlineLink = regexp.MustCompile(`\]\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?:\s+"[^"]*")?\)`)
	sourceLink = regexp.MustCompile(`(?:src|href)="([^"]+)"`)
	namedLink  = regexp.MustCompile(`(?m)^\[[^\]]+\]: *(\S+)`)
	heading    = regexp.MustCompile(`(?m)^#{1,6} +(.*?)[ #]*$`)
	anchor     = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	linkText   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// markdownPages reads all pages of a folder, by their paths.
func markdownPages(t *testing.T, root string) map[string]markdownPage {
	t.Helper()
	pages := map[string]markdownPage{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && (name == "node_modules" || name == "testdata" || strings.HasPrefix(name, ".") &&
			len(strings.Trim(name, ".")) > 0):
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(name) != ".md":
			return nil
		}

		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		pages[path] = readMarkdown(string(raw))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

func readMarkdown(text string) markdownPage {
	text = fenced.ReplaceAllString(text, "")
	p, times := markdownPage{anchors: map[string]bool{}}, map[string]int{}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		slug := slugOf(m[1])
		if n := times[slug]; n > 0 {
			p.anchors[fmt.Sprintf("%s-%d", slug, n)] = true
		} else {
			p.anchors[slug] = true
		}
		times[slug]++
	}

	for _, m := range anchor.FindAllStringSubmatch(text, -1) {
		p.anchors[m[1]] = true
	}

	text = inlineCode.ReplaceAllString(text, "")
	for _, kind := range []*regexp.Regexp{inlineLink, sourceLink, namedLink} {
		for _, m := range kind.FindAllStringSubmatch(text, -1) {
			p.links = append(p.links, m[1])
		}
	}
	return p
}

// slugOf is the anchor of a heading, as GitHub makes it.
func slugOf(heading string) string {
	heading = linkText.ReplaceAllString(heading, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// follow says what is wrong with a link of a page; empty: nothing is, or it leads elsewhere.
func follow(pages map[string]markdownPage, from, target string) string {
	u, err := url.Parse(target)
	if err != nil {
		return err.Error()
	}
	if u.IsAbs() {
		return ""
	}

	path := from
	if u.Path != "" {
		path = filepath.Join(filepath.Dir(from), filepath.FromSlash(u.Path))
		if _, err := os.Stat(path); err != nil {
			return "there is no such file"
		}
	}

	page, ok := pages[path]
	if u.Fragment != "" && ok && !page.anchors[u.Fragment] {
		return "the page has no such heading"
	}
	return ""
}
