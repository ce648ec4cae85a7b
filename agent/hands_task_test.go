package agent_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent"
	task "github.com/actlog/actlog/agent/plan"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// The example of the plan executor works on a real repository: search, read, edit, test, in Python and in Go. The tests
// of a wrong edit fail, and the result says so as a structure.
func TestBugFixedByATask(t *testing.T) {
	t.Parallel()
	python := pythonOf(t)
	for name, row := range map[string]struct{ file, runs, bug, fix, passed, failed string }{
		"Python": {"tally.py", "python", "        return 20\n    else:", "        return 21\n    else:", "OK",
			"FAILED (failures=1)"},
		"Go": {"price.go", "go", "return 20", "return 21", "ok", "FAIL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := copyShop(t)
			broken := strings.Replace(shop[row.file], row.bug, "# BUG\n", 1)
			if name == "Go" {
				broken = strings.Replace(shop[row.file], row.bug, "return 2 // BUG", 1)
			}
			bug := map[string]string{"Python": "# BUG\n", "Go": "return 2 // BUG"}[name]
			if err := os.WriteFile(filepath.Join(dir, row.file), []byte(broken), 0o600); err != nil {
				t.Fatal(err)
			}

			plan := func(replace string) scriptmodel.Turn {
				b, err := json.Marshal(map[string]any{"reasoning": "Find the bug, read the code, fix it, run the tests.",
					"steps": []map[string]any{
						{"tool": "files", "operation": "search_in_files", "params": map[string]any{"pattern": "BUG"}},
						{"tool": "files", "operation": "read_file", "params": map[string]any{"path": row.file}},
						{"tool": "files", "operation": "edit_file",
							"params": map[string]any{"path": row.file, "search": bug, "replace": replace}},
						{"tool": "tests", "operation": row.runs, "params": map[string]any{}},
					}})
				if err != nil {
					t.Fatal(err)
				}
				return scriptmodel.Turn{Content: string(b)}
			}

			db := pgtest.New(t)
			a := handsOn(t, db, dir, "toolsets:\n  files: {root: DIR, enableWrite: true}\n"+
				"  tests: {go: {command: [go, test, -trimpath, ./...], root: DIR}, python: {command: ["+python+
				", -m, unittest], root: DIR}, sandbox: off}\n"+
				"policies:\n- {tools: files.edit_file, approval: false}\n", []scriptmodel.Scene{
				{Name: "wrong", Match: scriptmodel.Match{User: "Fix it wrongly."}, Turns: []scriptmodel.Turn{plan(row.fix)}},
				{Name: "right", Match: scriptmodel.Match{User: "Fix it."}, Turns: []scriptmodel.Turn{plan(row.bug)}},
			})
			for ask, success := range map[string]bool{"Fix it wrongly.": false, "Fix it.": true} {
				if err := os.WriteFile(filepath.Join(dir, row.file), []byte(broken), 0o600); err != nil {
					t.Fatal(err)
				}
				id, err := a.Start(t.Context(), agent.Job{Work: agent.Task{Task: ask}})
				if err != nil {
					t.Fatal(err)
				}

				var r task.Result
				if err := a.Result(t.Context(), id, &r); err != nil || r.Success != success || len(r.Operations) != 4 {
					t.Fatalf("%s: %+v, %v", ask, r, err)
				}
				if found := *r.Operations[0].Result; !strings.Contains(found, row.file) {
					t.Errorf("the search found %s", found)
				}

				var results struct {
					Passed   bool
					ExitCode int
					Output   string
				}
				ran := r.Operations[3]
				if success {
					if err := json.Unmarshal(r.Artifacts["test_results"], &results); err != nil || !results.Passed ||
						!strings.Contains(results.Output, row.passed) {
						t.Errorf("json.Unmarshal = %v %s", err, r.Artifacts["test_results"])
					}
				} else if ran.Error == nil || !strings.Contains(*ran.Error, row.failed) {
					t.Errorf("ran = %+v", ran)
				}
			}
		})
	}
}
