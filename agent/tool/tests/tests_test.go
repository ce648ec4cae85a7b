package tests_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/actlog/actlog/agent/sandbox"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/tests"
	"github.com/actlog/actlog/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// unit returns the tool tests.unit, which runs a script of the shell in a folder.
func unit(t *testing.T, dir, script string) tool.Tool {
	t.Helper()
	return only(t, tests.Command{
		Name: "unit", Dir: dir, Arguments: []string{"sh", "-c", script, "unit"}, Env: map[string]string{"OWN": "mine"},
	})
}

func only(t *testing.T, c tests.Command) tool.Tool {
	t.Helper()
	tools, err := tests.Tools(c)
	if err != nil {
		t.Fatal(err)
	}
	return tools[0]
}

func call(t *testing.T, called tool.Tool, path string) tool.Result {
	t.Helper()
	b, err := json.Marshal(map[string]string{"path": path})
	if err != nil {
		t.Fatal(err)
	}

	result, err := tool.Do(t.Context(), called, called.Spec().Policy, tool.Call{Arguments: b}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// S1: a command learns which tool call started it, so that what it records can say so.
func TestStartedBy(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("ACTLOG_PLAN_ID", "of another") // of the process itself, which goes to nobody
	tells := unit(t, dir, `echo "${ACTLOG_PLAN_ID-none} ${ACTLOG_TOOL_CALL_ID-none}"`)

	for want, ctx := range map[string]context.Context{
		"plan-1 call-1": record.ContextWithStartedBy(t.Context(), record.StartedBy{PlanID: "plan-1", ToolCallID: "call-1"}),
		"none none":     t.Context(),
	} {
		result, err := tool.Do(ctx, tells, tool.Policy{}, tool.Call{}, 0)
		if err != nil || !strings.HasSuffix(strings.TrimSpace(result.Text), "\n"+want) {
			t.Errorf("result.Text = %q %v, want %q", result.Text, err, want)
		}
	}
}

// C17: a result has the output, the data, and whether it succeeded. What the usual programs say of their
// tests is in the summary.
func TestResults(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		output, summary string
		code            int
	}{
		"nothing": {"done", "Tests passed", 0},
		"fails":   {"oh no", "Tests failed (exit code 3)", 3},
		"pytest":  {"tests/auth/test_a.py ......\n====== 15 passed in 0.12s ======", "15 tests passed", 0},
		"pytest fails": {
			"== 1 failed, 3 passed, 2 skipped, 1 error in 0.12s ==",
			"Tests failed (exit code 1): 3 tests passed, 2 failed, 2 skipped", 1,
		},
		"go": {
			"--- FAIL: TestA (0.00s)\n    --- SKIP: TestA/b (0.00s)\n--- PASS: TestC (0.00s)\nFAIL",
			"Tests failed (exit code 1): 1 test passed, 1 failed, 1 skipped", 1,
		},
		"go quiet":       {"ok  \texample.com/a\t0.003s", "Tests passed", 0},
		"jest":           {"Test Suites: 1 passed, 1 total\nTests:       2 passed, 2 total", "2 tests passed", 0},
		"jest the other": {"Tests:       2 passed, 2 total\nTest Suites: 1 passed, 1 total", "2 tests passed", 0},
		"mocha":          {"  3 passing (9ms)", "3 tests passed", 0},
		"cargo": {
			"test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured\n\ntest result: ok. 5 passed; 0 failed; 0 ignored",
			"7 tests passed, 1 skipped", 0,
		},
		"unittest": {
			"Ran 5 tests in 0.001s\n\nFAILED (failures=1, errors=1, skipped=1)",
			"Tests failed (exit code 1): 2 tests passed, 2 failed, 1 skipped", 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, "output", row.output)
			result := call(t, unit(t, dir, fmt.Sprintf("cat output; exit %d", row.code)), "")
			if result.Summary != row.summary || result.Failed != (row.code != 0) || result.Text != row.summary+".\n"+row.output {
				t.Errorf("%q, failed %v: %q", result.Summary, result.Failed, result.Text)
			}

			var report struct {
				Passed   bool
				ExitCode int
				Output   string
			}
			if err := json.Unmarshal(result.Data, &report); err != nil || report.Passed != (row.code == 0) ||
				report.ExitCode != row.code || report.Output != row.output {
				t.Errorf("result.Data = %s %v", result.Data, err)
			}

			if a := result.Artifacts; len(a) != 1 || a[0].Name != "test_results" || string(a[0].Value) != string(result.Data) {
				t.Errorf("result.Artifacts = %+v", a)
			}
		})
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// A path becomes the last argument if it is in the folder. It is no option, and no shell reads it.
func TestPaths(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"-v", "$(touch x)", "a b"} {
		write(t, dir, name, "")
	}
	if err := os.Symlink(os.TempDir(), filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}

	for path, want := range map[string]string{
		"": "0 ", "-v": "1 ./-v", "$(touch x)": "1 ./$(touch x)", "a b": "1 ./a b", ".": "1 ./.",
		"../x": "path", "/etc": "path", "out": "path", "missing": "path", "a\x00": "path", "a b; ls": "path",
	} {
		result := call(t, unit(t, dir, `printf '%s %s' $# "$1"`), path)
		if _, text, _ := strings.Cut(result.Text, "\n"); want != "path" && text != want || want == "path" &&
			(!result.Failed || !strings.HasPrefix(result.Text, "path: ")) {
			t.Errorf("%q: %+v", path, result)
		}
	}

	if _, err := os.Stat(filepath.Join(dir, "x")); err == nil {
		t.Error("a shell read a path")
	}
}

// The command sees none of our variables but a few, and runs in its folder.
func TestEnvironment(t *testing.T) {
	t.Setenv("ACTLOG_DATABASE_URL", "planted")
	dir := t.TempDir()
	result := call(t, unit(t, dir, "env; pwd"), "")
	if strings.Contains(result.Text, "planted") || !strings.Contains(result.Text, "OWN=mine\n") ||
		!strings.Contains(result.Text, "PATH=") || !strings.Contains(result.Text, dir+"\n") {
		t.Errorf("result.Text = %v", result.Text)
	}

	write(t, dir, "run", "#!/bin/sh\necho here\n")
	if result := call(t, only(t, tests.Command{Name: "own", Dir: dir, Arguments: []string{"./run"}}),
		""); result.Failed || !strings.Contains(result.Text, "here") {
		t.Errorf("call = %+v", result)
	}

	for _, program := range []string{"./missing", "no-such-program-at-all"} {
		if result := call(t, only(t, tests.Command{Name: "own", Dir: dir, Arguments: []string{program}}),
			""); !result.Failed || !strings.HasPrefix(result.Text, "the tests cannot be started") {
			t.Errorf("call = %+v", result)
		}
	}
	if _, err := tests.Tools(tests.Command{Name: "a"}, tests.Command{Name: "b", Arguments: []string{""}}); err == nil ||
		strings.Count(err.Error(), "has no program") != 2 {
		t.Error(err)
	}
}

// Of a huge output the beginning and the end are there, as valid UTF-8.
func TestHugeOutput(t *testing.T) {
	t.Parallel()
	result := call(t, unit(t, t.TempDir(),
		`echo first; head -c 5000000 /dev/zero | tr '\0' '\377'; echo last; echo '4 passed'`), "")
	if len(result.Text) > tool.MaxText || !strings.Contains(result.Text, "first\n") ||
		!strings.Contains(result.Text, "bytes left out") || result.Summary != "4 tests passed" || len(result.Data) == 0 {
		t.Errorf("%q: %d bytes", result.Summary, len(result.Text))
	}
}

// What a command starts ends with it, and with the call.
func TestGroupEnds(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"command ends": `sleep 600 & echo $! > pid`,
		"call ends":    `sleep 600 & echo $! > pid.new; mv pid.new pid; wait`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			called := unit(t, dir, script)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if name == "call ends" {
				go func() {
					for ctx.Err() == nil {
						if _, err := os.Stat(filepath.Join(dir, "pid")); err == nil {
							cancel()
						}
						<-time.After(time.Millisecond)
					}
				}()
			}

			_, err := tool.Do(ctx, called, called.Spec().Policy, tool.Call{}, 0)
			if (err != nil) != (name == "call ends") {
				t.Fatal(err)
			}
			pid, err := os.ReadFile(filepath.Join(dir, "pid"))
			if err != nil {
				t.Fatal(err)
			}

			for { // until it has gone, which a killed process does
				state, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(pid)), "stat"))
				if err != nil || strings.Contains(string(state), ") Z ") {
					return
				}
				select {
				case <-time.After(time.Millisecond):
				case <-t.Context().Done():
					t.Fatal("it still runs")
				}
			}
		})
	}
}

// Two calls at once do not mix their outputs.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 8 {
		write(t, dir, fmt.Sprint(i), fmt.Sprintf("%d passed", i))
	}
	called := unit(t, dir, `cat "$1"`)

	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			result, err := called.Call(t.Context(), tool.Call{Arguments: json.RawMessage(fmt.Sprintf(`{"path":"%d"}`, i))})
			if err != nil || !strings.HasSuffix(result.Text, fmt.Sprintf("\n%d passed", i)) {
				t.Errorf("called.Call = %+v %v", result, err)
			}
		})
	}
	group.Wait()
}

// Node knows how much memory it uses in every sandbox, and still gets the options that the configuration has for it.
func TestNodeInASandbox(t *testing.T) {
	t.Parallel()
	works(t, "node", "--version")
	for _, mode := range []sandbox.Mode{sandbox.Landlock, sandbox.Bubblewrap, sandbox.Off} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			box := sandbox.Sandbox{Mode: mode}
			if err := box.Check(); err != nil {
				t.Skip(err)
			}

			dir := t.TempDir()
			write(t, dir, "vitest",
				"const used = process.memoryUsage;\nconsole.log(used().heapUsed > 0, used.rss() > 0, global.own);\n")
			write(t, dir, "own.cjs", "global.own = 'mine';\n")
			own := "--require=" + filepath.Join(dir, "own.cjs")

			r := ask(t, only(t, tests.Command{
				Name: "unit", Dir: dir, Arguments: []string{"node", "./vitest"}, Sandbox: box,
				Env: map[string]string{"NODE_OPTIONS": own},
			}), `{}`)
			if r.Failed || !strings.Contains(r.Text, "true true mine") {
				t.Errorf("r.Text = %s", r.Text)
			}
		})
	}
}
