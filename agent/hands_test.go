package agent_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent"
	"github.com/actlog/actlog/agent/config"
	_ "github.com/actlog/actlog/agent/tool/code"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/record"
)

// shop is a repository in four languages. Each file has a function that can be written more simply.
var shop = map[string]string{
	"go.mod": "module shop\n\ngo 1.22\n",
	"price.go": "package shop\n\n// Discount returns how many percent a customer gets.\n" +
		"func Discount(years int) int {\n\tif years > 10 {\n\t\treturn 20\n\t} else {\n" +
		"\t\tif years > 5 {\n\t\t\treturn 10\n\t\t}\n\t\treturn 0\n\t}\n}\n",
	"price_test.go": "package shop\n\nimport \"testing\"\n\nfunc TestDiscount(t *testing.T) {\n" +
		"\tif Discount(11) != 20 || Discount(6) != 10 || Discount(1) != 0 {\n\t\tt.Error(\"wrong\")\n\t}\n}\n",
	"tally.py": "def discount(years):\n    if years > 10:\n        return 20\n    else:\n        if years > 5:\n" +
		"            return 10\n        return 0\n",
	"test_tally.py": "import unittest\nfrom tally import discount\n\n\nclass T(unittest.TestCase):\n" +
		"    def test_discount(self):\n        self.assertEqual([20, 10, 0], [discount(n) for n in (11, 6, 1)])\n",
	"cart.ts": "export function discount(years: number): number {\n  if (years > 10) {\n    return 20;\n  } else {\n" +
		"    return years > 5 ? 10 : 0;\n  }\n}\n",
	"Order.java": "class Order {\n    static int discount(int years) {\n        if (years > 10) {\n" +
		"            return 20;\n        } else {\n            return years > 5 ? 10 : 0;\n        }\n    }\n}\n",
}

// simpler are the files after the refactoring.
var simpler = map[string]string{
	"price.go": "package shop\n\n// Discount returns how many percent a customer gets.\n" +
		"func Discount(years int) int {\n\tif years > 10 {\n\t\treturn 20\n\t}\n\tif years > 5 {\n\t\treturn 10\n\t}\n" +
		"\treturn 0\n}\n",
	"tally.py": "def discount(years):\n    if years > 10:\n        return 20\n    if years > 5:\n        return 10\n" +
		"    return 0\n",
	"cart.ts": "export function discount(years: number): number {\n  if (years > 10) {\n    return 20;\n  }\n" +
		"  return years > 5 ? 10 : 0;\n}\n",
	"Order.java": "class Order {\n    static int discount(int years) {\n        if (years > 10) {\n" +
		"            return 20;\n        }\n        return years > 5 ? 10 : 0;\n    }\n}\n",
}

// guess is a patch as a model writes it: numbers are off or missing, and what tally.py has in line 5 is another thing.
const guess = "```diff\n--- a/price.go\n+++ b/price.go\n@@ -9,8 +9,6 @@\n \t\treturn 20\n-\t} else {\n" +
	"-\t\tif years > 5 {\n-\t\t\treturn 10\n-\t\t}\n-\t\treturn 0\n+\t}\n+\tif years > 5 {\n+\t\treturn 10\n \t}\n" +
	"+\treturn 0\n }\n" +
	"--- a/tally.py\n+++ b/tally.py\n@@ @@\n         return 20\n-    else:\n-        IF\n-            return 10\n" +
	"-        return 0\n+    if years > 5:\n+        return 10\n+    return 0\n" +
	"--- a/cart.ts\n+++ b/cart.ts\n@@ -5,4 +5,3 @@\n     return 20;\n-  } else {\n-    return years > 5 ? 10 : 0;\n" +
	"   }\n+  return years > 5 ? 10 : 0;\n }\n" +
	"--- a/Order.java\n+++ b/Order.java\n@@ ... @@\n             return 20;\n-        } else {\n" +
	"-            return years > 5 ? 10 : 0;\n         }\n+        return years > 5 ? 10 : 0;\n     }\n```\n"

// copyShop writes the repository into a new folder, and returns it.
func copyShop(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range shop {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// pythonOf returns the program of Python, or skips the test.
func pythonOf(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		t.Skip("python3 is not installed") // make python, which installs it, runs this test
	}
	return strings.TrimSpace(string(out))
}

// handsOn is a runtime with a configuration file in a folder and a model that follows scenes.
func handsOn(t *testing.T, db *pgtest.DB, dir, text string, scenes []scriptmodel.Scene) *agent.Runtime {
	t.Helper()
	server, err := scriptmodel.Start(scriptmodel.Script{Scenes: scenes}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })

	path := filepath.Join(t.TempDir(), "actlog.yaml")
	text = fmt.Sprintf("models: {default: {provider: openai, model: scripted, baseURL: %q}}\n", server.URL()) +
		strings.ReplaceAll(text, "DIR", dir)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}

	current, err := config.Open(path, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(current.Close)

	a := open(t, db.URL)
	register(t, a, agent.Parts{Config: current})
	go func() { _ = a.Work(t.Context()) }()
	return a
}

func use(calls ...scriptmodel.ToolCall) scriptmodel.Turn { return scriptmodel.Turn{ToolCalls: calls} }

func toolCall(name string, arguments any) scriptmodel.ToolCall {
	return scriptmodel.ToolCall{Name: name, Arguments: arguments}
}

// after answers by what the last tool returned.
func after(reply func(last string) (scriptmodel.Turn, error)) scriptmodel.Turn {
	return scriptmodel.Turn{Reply: func(_ context.Context, r *scriptmodel.Request) (scriptmodel.Turn, error) {
		return reply(string(r.Messages[len(r.Messages)-1].Content))
	}}
}

// The four agents of the orchestrator refactor a repository of Go, Python, TypeScript and Java with a model that
// behaves as real ones do: it reads before it writes, is off by a few lines, remembers a line wrongly, gets an error
// that shows what is there, and repairs. The tests run, and a human approves the diff and the commit.
func TestRefactoringByAgents(t *testing.T) {
	t.Parallel()
	python := pythonOf(t)
	dir := copyShop(t)
	git := func(args ...string) string {
		t.Helper()
		all := append([]string{"-C", dir, "-c", "user.name=Ann", "-c", "user.email=ann@example.com"}, args...)
		out, err := exec.CommandContext(t.Context(), "git", all...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-qm", "Begin")

	files := []string{"price.go", "tally.py", "cart.ts", "Order.java"}
	var reads []scriptmodel.ToolCall
	for _, each := range files {
		reads = append(reads, toolCall("files-read_file", map[string]any{"path": each}))
	}

	lineFive := regexp.MustCompile(`(?m)^ +5\t(.*)$`)
	repairs := after(func(last string) (scriptmodel.Turn, error) {
		shown := lineFive.FindStringSubmatch(last)
		if shown == nil || !strings.Contains(last, `"        IF" in the patch`) {
			return scriptmodel.Turn{}, fmt.Errorf("the error does not show line 5: %s", last)
		}
		return use(toolCall("code-apply_refactoring",
			map[string]any{"patch": strings.Replace(guess, "        IF", shown[1], 1)})), nil
	})
	told := after(func(last string) (scriptmodel.Turn, error) {
		if !strings.Contains(last, "price.go: lines") || !strings.Contains(last, "offset -3") {
			return scriptmodel.Turn{}, fmt.Errorf("the result does not say where it was applied: %s", last)
		}
		return use(toolCall("tests-go", map[string]any{}), toolCall("tests-python", map[string]any{})), nil
	})

	step := func(number int, agent, action, dependencies string) string {
		return fmt.Sprintf(
			`{"stepNumber":%d,"agentType":%q,"action":%q,"justification":"It was asked for","expectedOutput":"A text","dependencies":[%s]}`, number, agent, action, dependencies,
		)
	}
	plan := `{"goal":"Simpler discounts","estimatedDuration":60,"steps":[` + strings.Join([]string{
		step(1, "RAG_SEARCH", "Find the discounts", ""), step(2, "CODE_ANALYSIS", "Measure them", "1"),
		step(3, "REFACTORING", "Make them simpler", "2"), step(4, "GIT", "Commit", "3"),
	}, ",") + `]}`
	scene := func(action string, turns ...scriptmodel.Turn) scriptmodel.Scene {
		return scriptmodel.Scene{Name: action, Match: scriptmodel.Match{User: "Your step: " + action + "\n"}, Turns: turns}
	}

	db := pgtest.New(t)
	a := handsOn(t, db, dir,
		"toolsets:\n  search: {root: DIR}\n  code: {root: DIR, enableWrite: true}\n  files: {root: DIR}\n"+
			"  git: {root: DIR, enableWrite: true, name: Actlog, email: actlog@example.com}\n"+
			"  tests: {go: {command: [go, test, -trimpath, ./...], root: DIR}, python: {command: ["+python+
			", -m, unittest, -q], root: DIR}, sandbox: off}\n", []scriptmodel.Scene{
			{Name: "plan", Match: scriptmodel.Match{System: "Plan how"}, Turns: []scriptmodel.Turn{{Content: plan}}},
			{Name: "answer", Match: scriptmodel.Match{System: "They have worked"},
				Turns: []scriptmodel.Turn{{Content: "The discounts are simpler."}}},
			scene("Find the discounts", use(toolCall("search-search_code", map[string]any{"query": "discount years"})),
				spoken("They are in "+strings.Join(files, ", ")+".")),
			scene("Measure them", use(toolCall("code-analyze_complexity", map[string]any{"paths": files}), reads[0]),
				spoken("Each has an else that is not needed.")),
			scene("Make them simpler", use(reads...), use(toolCall("code-apply_refactoring", map[string]any{"patch": guess})),
				repairs, told, spoken("All four are simpler, and the tests pass.")),
			scene("Commit", use(toolCall("git-status", map[string]any{}), toolCall("git-diff", map[string]any{})),
				use(toolCall("git-commit", map[string]any{"message": "Make discounts simpler", "files": files})),
				spoken("Committed.")),
		})

	id, err := a.Start(t.Context(), agent.Job{Work: agent.Orchestration{Request: "Make the discounts simpler."}})
	if err != nil {
		t.Fatal(err)
	}
	accept(t, a, db, "PLAN_VALIDATION", agent.Decision{Decision: agent.Accept})
	accept(t, a, db, "ACTION_VALIDATION", agent.Decision{Decision: agent.Approve})
	accept(t, a, db, "ACTION_VALIDATION", agent.Decision{Decision: agent.Approve})

	run := finished(t, a, id, record.Completed)
	if run.Result != "The discounts are simpler." {
		t.Errorf("run = %+v", run)
	}
	for name, want := range simpler {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
			t.Errorf("%s is %q, %v", name, b, err)
		}
	}
	if log := git("log", "-1", "--format=%an: %s",
		"--name-only"); log != "Actlog: Make discounts simpler\n\nOrder.java\ncart.ts\nprice.go\ntally.py\n" {
		t.Errorf("log = %q", log)
	}

	var calls, shown, passed int
	err = db.Pool.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE name = 'code.apply_refactoring'),
		(SELECT count(*) FROM actlog.wait_state WHERE subject::text LIKE '%@@ -4,10 +4,9 @@%'),
		count(*) FILTER (WHERE name LIKE 'tests.%' AND state = 'COMPLETED') FROM actlog.act_tool_info`).Scan(&calls, &shown, &passed)
	if err != nil || calls != 2 || shown != 2 || passed != 2 {
		t.Errorf("%d patches, %d approvals that show the diff (of the patch and of the commit), %d passed tests, %v", calls,
			shown, passed, err)
	}
}

// spoken is an answer without a call.
func spoken(text string) scriptmodel.Turn { return scriptmodel.Turn{Content: text} }
