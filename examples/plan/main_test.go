package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// A1, A37: the example works on a real folder, planned at once and operation by operation, and says what failed.
func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("Buy milk.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(path string) string {
		return `{"tool": "files", "operation": "read_file", "params": {"path": "` + path + `"}}`
	}

	for name, tt := range map[string]struct {
		answer string
		args   []string
		out    string
		err    string
	}{
		"static": {
			`{"steps": [` + read("notes.txt") + `]}`, nil,
			`conclusion: "Task completed successfully. Executed 1 operations. Artifacts: [file_content]"`, "",
		},
		"iterative": {
			`{"done": true, "reasoning": "Nothing to do."}`, []string{"-iterative"},
			`decision: "Decision: Task complete. Reasoning: Nothing to do."`, "",
		},
		"fails":   {`{"steps": [` + read("none.txt") + `]}`, nil, "observation: \"❌ Operation failed: ", "Step 1 failed: "},
		"no plan": {"No.", nil, `error: "Fatal error: Failed to parse JSON response: `, "Failed to parse JSON response: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, err := scriptmodel.Start(scriptmodel.Script{
				Scenes: []scriptmodel.Scene{{Name: "plan", Turns: []scriptmodel.Turn{{Content: tt.answer}}}},
			}, &scriptmodel.Options{APIKey: "key"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = server.Close() })

			env := map[string]string{
				"OPENAI_BASE_URL": server.URL(), "OPENAI_API_KEY": "key", "OPENAI_MODEL": "scripted",
				"ACTLOG_DATABASE_URL": pgtest.New(t).URL,
			}
			var stdout, stderr strings.Builder
			err = run(t.Context(), append(tt.args, "-dir", dir, "What", "do my notes say?"), func(k string) string {
				return env[k]
			}, &stdout, &stderr)

			if (err == nil) != (tt.err == "") || err != nil && !strings.HasPrefix(err.Error(), tt.err) {
				t.Errorf("error %v", err)
			}
			if !strings.Contains(stdout.String(), tt.out) {
				t.Errorf("stdout %s\nstderr %s", &stdout, &stderr)
			}
		})
	}
}

func TestRunErrors(t *testing.T) {
	t.Parallel()

	for name, tt := range map[string]struct {
		args []string
		err  string
	}{
		"no task":      {nil, flag.ErrHelp.Error()},
		"unknown flag": {[]string{"-x"}, "not defined"},
		"no folder":    {[]string{"-dir", "none", "why"}, "none"},
		"no database":  {[]string{"why"}, "ACTLOG_DATABASE_URL: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			err := run(t.Context(), tt.args, func(string) string { return "" }, &out, &out)
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v", err)
			}
		})
	}
}
