package plan_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/config"
	"github.com/actlog/actlog/internal/engine"
	"github.com/actlog/actlog/internal/enginetest"
	"github.com/actlog/actlog/internal/executor/plan"
	"github.com/actlog/actlog/internal/scriptmodel"
	"github.com/actlog/actlog/record"
)

// A34, A37: the example of the source on a real folder, with the tools of a configuration file: a bug is found
// and read, the file is changed, and the tests that failed before pass.
func TestExample(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                "module example.com/app\n\ngo 1.24\n",
		"src/auth/auth.go":      "package auth\n\n// Valid reports whether a token is valid.\nfunc Valid(token *string) bool {\n\t// BUG: null check missing\n\treturn *token != \"\"\n}\n",
		"src/auth/auth_test.go": "package auth\n\nimport \"testing\"\n\nfunc TestNil(t *testing.T) {\n\tif Valid(nil) {\n\t\tt.Error(\"nil is valid\")\n\t}\n}\n",
		"actlog.yaml":           "models: {default: {provider: openai, model: m, apiKey: k}}\ntoolsets: {files: {root: .}, tests: {go: {command: [go, test, -v], env: {GOTOOLCHAIN: local, GOFLAGS: -mod=mod}}}}\npolicies: [{tools: \"files.*\", approval: false}]\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(filepath.Join(dir, "actlog.yaml"), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	parts, err := c.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(parts.Close)
	d := config.DefaultRole("DEVELOPER").Definition("DEVELOPER", config.DefinitionModel{Name: "default"}, nil, c.Policies)
	tests := step("tests.go", object{"path": "src/auth/"})
	fix := planned(
		step("files.search_in_files", object{"pattern": "BUG", "path": "src/auth"}), step("files.read_file", object{"path": "src/auth/auth.go"}),
		step("files.edit_file", object{"path": "src/auth/auth.go", "search": "\t// BUG: null check missing\n\treturn *token", "replace": "\treturn token != nil && *token"}),
		tests)
	h := enginetest.Build(t, enginetest.Plans{
		Scenes: []scriptmodel.Scene{
			{Name: "tests", Match: scriptmodel.Match{User: "Run the tests"}, Turns: says(planned(tests))},
			{Name: "fix", Turns: says(fix)},
		},
		Tools: parts.Tools, Definitions: map[string]any{"role.DEVELOPER": d}, Executors: []engine.Executor{plan.Executor{}},
	})
	h.Work(h.Engine)

	before := ended(h, start(h, object{"task": "Run the tests"}))
	if got := before.log(); *before.plan.Record.State != record.Failed || !strings.Contains(got, "❌ Operation failed: Tests failed (exit code 1)") {
		t.Fatalf("%s\n%s", got, before.operations())
	}

	got := ended(h, start(h, object{"task": "Fix the bug in auth module", "context": "Files: src/auth/auth.go"}))
	if len(got.thoughts) != 11 || len(got.Step(got.plan).Cycles) == 0 || *got.plan.Record.State != record.Completed {
		t.Fatalf("%s\n%s", got.log(), got.operations())
	}
	calls := 0
	for _, cycle := range got.Step(got.plan).Cycles {
		calls += len(cycle.ToolCalls)
	}
	if calls != 4 {
		t.Errorf("%d operations", calls)
	}
	if tested := *got.thoughts[9].Content; tested != "✅ Operation succeeded. 1 test passed" {
		t.Error(tested)
	}
	if last := *got.thoughts[10].Content; last != "Task completed successfully. Executed 4 operations. Artifacts: [file_content, files_modified, test_results]" {
		t.Error(last)
	}
	for _, a := range got.artifacts {
		var results struct {
			Passed bool
			Counts struct{ Passed int }
		}
		if a.Name != "test_results" {
			continue
		}
		if err := json.Unmarshal(a.Value, &results); err != nil || !results.Passed || results.Counts.Passed != 1 {
			t.Errorf("%s %v", a.Value, err)
		}
	}
}
