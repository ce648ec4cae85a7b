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
	mains, err := filepath.Glob(filepath.Join("*", "main.[jp]*"))
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

// framework is a section of docs/otlp.md: what its users type.
type framework struct {
	title, folder string
	packages      []string // with the versions that were tested
	install       string   // the line that installs them
	language      string   // of the program: python or js
	program       string
	run           string // the lines that run it
}

var (
	folder  = regexp.MustCompile(`\]\(\.\./clients/([a-z-]+)\)`)
	pinned  = regexp.MustCompile("`(@?[^`@=\\s]+)(==|@)([0-9][^`\\s]*)`")
	snippet = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")
)

// frameworks returns the sections about frameworks that are run. Each has three blocks, in this order: the line that
// installs the packages, the program, and the lines that run it.
func frameworks(t *testing.T) (all []framework) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "docs", "otlp.md"))
	if err != nil {
		t.Fatal(err)
	}
	if found := folder.FindString(section(t, string(b), "## Frameworks that are not run")); found != "" {
		t.Errorf("%s is run", found)
	}

	for _, text := range strings.Split(section(t, string(b), "## Frameworks that are run"), "\n### ")[1:] {
		title, _, _ := strings.Cut(text, "\n")
		link := folder.FindStringSubmatch(text)
		blocks := snippet.FindAllStringSubmatch(text, -1)
		if link == nil || len(blocks) != 3 || blocks[0][1] != "sh" || blocks[2][1] != "sh" {
			t.Fatalf("%s: no folder, or other blocks than a line that installs, a program and how to run it", title)
		}

		f := framework{
			title: title, folder: link[1], language: blocks[1][1], install: blocks[0][2], program: blocks[1][2],
			run: blocks[2][2],
		}
		for _, p := range pinned.FindAllStringSubmatch(text, -1) {
			f.packages = append(f.packages, p[1]+p[2]+p[3])
		}
		all = append(all, f)
	}
	return all
}

// TestPage checks that each client has a section in docs/otlp.md, and that the versions which the section names and all
// packages of the line that installs them are pinned.
func TestPage(t *testing.T) {
	t.Parallel()
	var documented, have []string
	for _, f := range frameworks(t) {
		documented = append(documented, f.folder)
		manifest := contents(t, f.folder)
		if len(f.packages) == 0 {
			t.Errorf("%s: no version", f.title)
		}
		for _, p := range f.packages {
			if name, version, ok := strings.Cut(p[1:], "@"); ok {
				p = `"` + p[:1] + name + `": "` + version + `"`
			} else {
				p = "\n" + p + "\n"
			}
			if !strings.Contains(manifest, p) {
				t.Errorf("%s: %s is not pinned", f.title, p)
			}
		}

		command := "pip install "
		if f.language == "js" {
			command = "npm install "
		}

		names, ok := strings.CutPrefix(strings.TrimSuffix(f.install, "\n"), command)
		if !ok || strings.Contains(names, "\n") {
			t.Errorf("%s: it is not one line that begins with %q:\n%s", f.title, command, f.install)
		}
		for name := range strings.FieldsSeq(names) {
			name, _, _ = strings.Cut(strings.Trim(name, `"`), "==")
			name, _, _ = strings.Cut(name, ">=")
			if !strings.Contains(manifest, "\n"+name+"==") && !strings.Contains(manifest, `"`+name+`": "`) {
				t.Errorf("%s: %s of the line that installs is not pinned", f.title, name)
			}
		}
	}

	for _, c := range all(t) {
		have = append(have, c.name)
	}
	slices.Sort(documented)
	if diff := cmp.Diff(have, documented); diff != "" {
		t.Errorf("-folders +page:\n%s", diff)
	}
}

// contents returns the manifest of a client.
func contents(t *testing.T, client string) string {
	t.Helper()
	text := "\n"
	for _, name := range []string{"requirements.in", "package.json"} {
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
