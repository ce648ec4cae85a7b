package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// TestSecurityNamesTests checks that each promise of SECURITY.md is held by tests that exist.
func TestSecurityNamesTests(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}

	var code strings.Builder
	err = filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		code.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	named := regexp.MustCompile("`(Test[A-Za-z0-9]+)(\\*?)`").FindAllStringSubmatch(string(page), -1)
	if len(named) < 50 {
		t.Errorf("SECURITY.md names %d tests", len(named))
	}
	for _, n := range named {
		end := `\(`
		if n[2] != "" {
			end = `[A-Za-z0-9]*\(`
		}
		if !regexp.MustCompile(`func ` + n[1] + end).MatchString(code.String()) {
			t.Errorf("SECURITY.md names %s%s, and there is no such test", n[1], n[2])
		}
	}

	promise := regexp.MustCompile(`(?m)^\| .* \| (.*) \|$`)
	for _, row := range promise.FindAllStringSubmatch(
		section(string(page), "## What is promised", "## What is not promised"), -1,
	) {
		if row[1] != "test" && !strings.Contains(row[1], "`") {
			t.Errorf("a promise names no test: %s", row[0])
		}
	}
}

// section returns what is between two headings.
func section(page, from, to string) string {
	_, rest, _ := strings.Cut(page, from)
	between, _, _ := strings.Cut(rest, to)
	return between
}

// TestEveryStatementOfTheRuntimeIsDrawn checks that docs/runtime.md names each statement that writes to a table of the
// runtime: what writes there decides what is run.
func TestEveryStatementOfTheRuntimeIsDrawn(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/runtime.md")
	if err != nil {
		t.Fatal(err)
	}
	drawn := section(string(page), "## Who decides what a run does", "### Agents inside of tools")

	files, err := filepath.Glob("../../queries/*.sql")
	if err != nil {
		t.Fatal(err)
	}

	writes := regexp.MustCompile(
		`(?:INSERT INTO|UPDATE|DELETE FROM) actlog\.(run|worker|control_request|definition|conversation|conversation_message)\b`,
	)
	found := 0
	for _, file := range files {
		sql, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}

		for _, query := range strings.Split(string(sql), "-- name: ")[1:] {
			name, _, _ := strings.Cut(query, " ")
			table := writes.FindStringSubmatch(query)
			if table == nil {
				continue
			}
			found++
			if !strings.Contains(drawn, "`"+name+"`") {
				t.Errorf("%s writes to actlog.%s, and docs/runtime.md does not say who may", name, table[1])
			}
		}
	}

	if found < 15 {
		t.Errorf("%d statements write to tables of the runtime", found)
	}
}

// TestServersWithoutKeysSayWhatToolsCanDo checks that a server without keys says at its start that programs which tools
// start can use it.
func TestServersWithoutKeysSayWhatToolsCanDo(t *testing.T) {
	t.Parallel()
	const warning = "there are no API keys"
	scene := scriptmodel.Scene{Name: "any", Turns: []scriptmodel.Turn{says("Done.")}}
	h := newHouse(t, "  helper: {description: Helps}\n", scene)
	if s := h.serve(t, 0); strings.Contains(s.stderr.String(), warning) {
		t.Errorf("no tool starts a program:\n%s", s.stderr)
	}

	h = newHouse(t, "  helper: {description: Helps}\nmcpServers:\n  local: {command: [cat]}\n", scene)
	if s := h.serve(t, 0); !strings.Contains(s.stderr.String(), warning) {
		t.Errorf("no warning %q:\n%s", warning, s.stderr)
	}

	keys := filepath.Join(t.TempDir(), "keys")
	must(t, "key", "ops", "--file", keys)
	if s := h.serve(t, 0, "--api-keys", keys); strings.Contains(s.stderr.String(), warning) {
		t.Errorf("with keys:\n%s", s.stderr)
	}
}
