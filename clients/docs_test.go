// Package clients_test runs real packages that send OpenTelemetry to the server. It also checks
// that docs/otlp.md describes these programs correctly.
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

// client is a folder with a program that uses a framework in the usual way.
type client struct {
	name    string
	js      bool
	own     bool   // has a scenario of its own, because the framework cannot do the one of all clients
	command string // runs the program
}

// all returns the clients.
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
		if _, err := os.Stat(filepath.Join(c.name, "scenario.json")); err == nil {
			c.own = true
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

// section returns the part of a page under a heading, without the heading.
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

// TestPage checks that each client has a section in docs/otlp.md, and that the programs contain
// the code, the variables (O11) and the package versions of that section.
func TestPage(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join("..", "docs", "otlp.md"))
	if err != nil {
		t.Fatal(err)
	}
	var documented, have []string
	for _, framework := range strings.Split(section(t, string(b), "## Frameworks that are run"), "\n### ")[1:] {
		title, _, _ := strings.Cut(framework, "\n")
		link := folder.FindStringSubmatch(framework)
		if link == nil {
			t.Errorf("%s: no folder", title)
			continue
		}
		documented = append(documented, link[1])
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
	slices.Sort(documented)
	if diff := cmp.Diff(have, documented); diff != "" {
		t.Errorf("-folders +page:\n%s", diff)
	}
	if found := folder.FindString(section(t, string(b), "## Frameworks that are not run")); found != "" {
		t.Errorf("%s is run", found)
	}
}

// contents returns the manifest and the programs of a client as one text.
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

var (
	// shared matches the lines that are the same in the golden files of the shared scenario, but for
	// what heads and names match: models, figures, and the name of the root plan, which has that of
	// its workflow.
	shared = regexp.MustCompile(`(?m)^ *(plan|step|cycle|tool|request:|summary:|parameters:) .*`)
	heads  = regexp.MustCompile(`^(plan| *cycle) .*?\b([A-Z]{4,})\b.*`)
	names  = regexp.MustCompile(`^( +(?:plan|step) .*? [A-Z]{4,})\b.*`)
)

// TestSameTree checks that all golden files of the shared scenario have the same tree, because these
// programs do the same. The trees may differ in the spaces in JSON.
func TestSameTree(t *testing.T) {
	t.Parallel()
	shapes := map[string][]string{}
	for _, c := range all(t) {
		if c.own {
			continue
		}
		golden, err := os.ReadFile(filepath.Join(c.name, "tree.golden"))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range shared.FindAllString(string(golden), -1) {
			line = names.ReplaceAllString(heads.ReplaceAllString(line, "$1 $2"), "$1")
			shapes[c.name] = append(shapes[c.name], strings.ReplaceAll(line, `": `, `":`))
		}
	}
	const reference = "langgraph"
	if len(shapes[reference]) != 34 {
		t.Errorf("%d rows:\n%s", len(shapes[reference]), strings.Join(shapes[reference], "\n"))
	}
	for name, shape := range shapes {
		if diff := cmp.Diff(shapes[reference], shape); diff != "" {
			t.Errorf("-%s +%s:\n%s", reference, name, diff)
		}
	}
}
