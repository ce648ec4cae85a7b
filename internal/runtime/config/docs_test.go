package config_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	_ "github.com/actlog/actlog/agent/tool/code"
	"github.com/actlog/actlog/internal/runtime/config"
)

// everyToolset has all tools that there are.
const everyToolset = `
models: {default: {provider: openai, model: m}}
toolsets:
  files: {root: .}
  code: {root: .}
  search: {root: .}
  git: {root: ., remotes: {origin: "https://example.com/shop.git"}}
  tests: {sandbox: off, go: [go, test]}
  http: {hosts: [example.com], methods: [GET, POST]}
  db: {url: "postgres://agent@127.0.0.1/shop", enableWrite: true}
  shell: {sandbox: off, commands: {lines: {command: [wc], arguments: "[a-z]+"}}}
  docker: {socket: /run/docker.sock, containers: ["*"], enableWrite: true}
`

// everyTool returns them.
func everyTool(t *testing.T) []tool.Tool {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "git", "-C", dir, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	path := filepath.Join(dir, "actlog.yaml")
	if err := os.WriteFile(path, []byte(everyToolset), 0o600); err != nil {
		t.Fatal(err)
	}
	current, err := config.Open(path, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(current.Close)

	parts, release, err := current.Use()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return parts.Tools
}

// inQuotes finds what a page has in backquotes.
var inQuotes = regexp.MustCompile("`([^`]+)`")

func quoted(text string) (found []string) {
	for _, each := range inQuotes.FindAllStringSubmatch(text, -1) {
		found = append(found, each[1])
	}
	return found
}

// page is docs/toolsets.md.
type page struct {
	sections map[string]string // by the names of toolsets
	rows     map[string]string // what the page says of the arguments of a tool
}

func readPage(t *testing.T) page {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "toolsets.md"))
	if err != nil {
		t.Fatal(err)
	}

	p := page{map[string]string{}, map[string]string{}}
	for _, section := range strings.Split(string(b), "\n## ")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		toolset := strings.Trim(title, "` ")
		p.sections[toolset] = text
		for line := range strings.Lines(text) {
			cells := strings.Split(strings.ReplaceAll(line, `\|`, ""), "|")
			if len(cells) < 4 || cells[0] != "" {
				continue
			}
			for _, name := range quoted(cells[1]) {
				if _, known := p.rows[name]; !known && strings.HasPrefix(name, toolset+".") { // the first table has the arguments
					p.rows[name] = cells[2]
				}
			}
		}
	}
	return p
}

var (
	identifier = regexp.MustCompile("^[a-z][a-z_]*$") // what may be the name of an argument
	words      = regexp.MustCompile("[a-z_]+")        // of a schema, which names the values of an argument
)

// TestToolsOfTheDocs: docs/toolsets.md has every tool with exactly its arguments, and says of each toolset by which
// policy it is called and what can go wrong. The tools whose names the configuration chooses have sections of another
// form.
func TestToolsOfTheDocs(t *testing.T) {
	t.Parallel()
	docs, there := readPage(t), map[string]bool{}
	for _, each := range everyTool(t) {
		spec := each.Spec()
		there[spec.Name] = true
		var schema struct{ Properties map[string]json.RawMessage }
		if err := json.Unmarshal(spec.Schema, &schema); err != nil {
			t.Fatal(err)
		}

		toolset, _, _ := strings.Cut(spec.Name, ".")
		row, known := docs.rows[spec.Name]
		switch toolset {
		case "tests", "shell":
			row = docs.sections[toolset]
		default:
			if !known {
				t.Errorf("docs/toolsets.md lacks %s", spec.Name)
				continue
			}
		}

		said := quoted(row)
		for _, argument := range slices.Sorted(maps.Keys(schema.Properties)) {
			if !slices.Contains(said, argument) {
				t.Errorf("docs/toolsets.md: %s has the argument %s; the page says: %s", spec.Name, argument, row)
			}
		}
		for _, word := range said {
			_, argument := schema.Properties[word]
			if known && identifier.MatchString(word) && !argument &&
				!slices.Contains(words.FindAllString(string(spec.Schema), -1), word) {
				t.Errorf("docs/toolsets.md: %s has no argument %s", spec.Name, word)
			}
		}

		if spec.Policy.Writes != spec.Policy.Approval {
			t.Errorf("%s writes: %v, asks for approval: %v; docs/toolsets.md says that those that write ask", spec.Name,
				spec.Policy.Writes, spec.Policy.Approval)
		}
	}

	for name := range docs.rows {
		if !there[name] {
			t.Errorf("docs/toolsets.md has %s, which is not there", name)
		}
	}
	for toolset, text := range docs.sections {
		for _, want := range []string{"**Default policy.**", "**Risks"} {
			if !strings.Contains(text, want) {
				t.Errorf("docs/toolsets.md: %s does not say %s", toolset, want)
			}
		}
	}
}
