// Package clients_test runs real packages that speak OpenTelemetry against the
// server, and holds the page about them to what is run.
package clients_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client is a folder with a program that uses a framework as its users do.
type client struct {
	name    string
	js      bool
	command string // runs the program
}

// all gives the clients.
func all(t *testing.T) (clients []client) {
	t.Helper()
	mains, err := filepath.Glob(filepath.Join("*", "main.*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range mains {
		c := client{name: filepath.Dir(path), js: filepath.Ext(path) == ".js", command: "python main.py"}
		if c.js {
			c.command = "node main.js"
		}
		script, err := os.ReadFile(filepath.Join(c.name, "run.sh"))
		if err == nil {
			c.command = string(script)
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		clients = append(clients, c)
	}
	if len(clients) == 0 {
		t.Fatal("no clients")
	}
	return clients
}

// section gives the part of a page under a heading, without it.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	_, after, ok := strings.Cut(page, "\n"+heading+"\n")
	if !ok {
		t.Fatalf("no %q", heading)
	}
	level, _, _ := strings.Cut(heading, " ")
	before, _, _ := strings.Cut(after, "\n"+level+" ")
	return before
}

var (
	folder  = regexp.MustCompile(`\]\(\.\./clients/([a-z-]+)\)`)
	pinned  = regexp.MustCompile("`(@?[^`@=]+)(==|@)([0-9][^`]*)`")
	snippet = regexp.MustCompile("(?ms)^```[a-z]+\n(.*?)^```$")
)

// TestPage: what docs/otlp.md tells users to add is what the programs have, at
// the versions that they pin; each client has its section.
func TestPage(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join("..", "docs", "otlp.md"))
	if err != nil {
		t.Fatal(err)
	}
	var told, have []string
	for _, framework := range strings.Split(section(t, string(b), "## Frameworks that are run"), "\n### ")[1:] {
		title, _, _ := strings.Cut(framework, "\n")
		link := folder.FindStringSubmatch(framework)
		if link == nil {
			t.Errorf("%s: no folder", title)
			continue
		}
		told = append(told, link[1])
		files := contents(t, link[1])
		packages := pinned.FindAllStringSubmatch(framework, -1)
		for _, p := range packages {
			pin := "\n" + p[1] + p[2] + p[3] + "\n"
			if p[2] == "@" {
				pin = `"` + p[1] + `": "` + p[3] + `"`
			}
			if !strings.Contains(files, pin) {
				t.Errorf("%s: %s is not pinned", title, p[0])
			}
		}
		snippets := snippet.FindAllStringSubmatch(framework, -1)
		for _, s := range snippets {
			if !strings.Contains(files, "\n"+s[1]) {
				t.Errorf("%s: the program does not have\n%s", title, s[1])
			}
		}
		if len(packages) == 0 || len(snippets) == 0 {
			t.Errorf("%s: %d packages, %d snippets", title, len(packages), len(snippets))
		}
	}
	for _, c := range all(t) {
		have = append(have, c.name)
	}
	slices.Sort(told)
	if diff := cmp.Diff(have, told); diff != "" {
		t.Errorf("-folders +page:\n%s", diff)
	}
	if found := folder.FindString(section(t, string(b), "## Frameworks that are not run")); found != "" {
		t.Errorf("%s is run", found)
	}
}

// contents gives what a client's manifest and programs say, one after the other.
func contents(t *testing.T, client string) string {
	t.Helper()
	text := "\n"
	for _, name := range []string{"requirements.in", "package.json", "main.py", "main.js", "run.sh"} {
		b, err := os.ReadFile(filepath.Join(client, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		text += string(b)
	}
	return text
}

// shared is a line of a golden file that is the same in all.
var shared = regexp.MustCompile(`(?m)^ *(plan|step|cycle|tool|request:|summary:|parameters:) .*`)

// TestOneTree: as all programs do the same, their trees are one, whatever
// convention tells of it. The root plan's name is the framework's, and JSON has
// blanks or none.
func TestOneTree(t *testing.T) {
	t.Parallel()
	shapes := map[string][]string{}
	for _, c := range all(t) {
		golden, err := os.ReadFile(filepath.Join(c.name, "tree.golden"))
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range shared.FindAllString(string(golden), -1) {
			if i > 0 {
				line, _, _ = strings.Cut(line, " openai ") // of a cycle
				shapes[c.name] = append(shapes[c.name], strings.ReplaceAll(line, `": `, `":`))
			}
		}
	}
	const one = "langgraph"
	if len(shapes[one]) != 33 {
		t.Errorf("%d rows:\n%s", len(shapes[one]), strings.Join(shapes[one], "\n"))
	}
	for name, shape := range shapes {
		if diff := cmp.Diff(shapes[one], shape); diff != "" {
			t.Errorf("-%s +%s:\n%s", one, name, diff)
		}
	}
}
