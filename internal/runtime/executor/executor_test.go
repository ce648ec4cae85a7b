package executor

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/code"
)

// A36: functions of executors stay simple, as the toolset code measures it.
func TestComplexity(t *testing.T) {
	t.Parallel()
	folder, err := code.Open(".", code.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = folder.Close() })

	set, err := tool.NewSet(folder.Tools()...)
	if err != nil {
		t.Fatal(err)
	}

	measure, _ := set.Get("code.analyze_complexity")
	result, err := tool.Do(t.Context(), measure, measure.Spec().Policy,
		tool.Call{Arguments: json.RawMessage(`{"max_results":100}`)}, 0)
	if err != nil || result.Failed {
		t.Fatalf("result.Text = %v, %v", result.Text, err)
	}

	var measured struct {
		Functions []struct {
			Path, Name string
			Complexity int
		}
	}
	if err := json.Unmarshal(result.Data, &measured); err != nil || len(measured.Functions) < 100 {
		t.Fatalf("%d functions, %v", len(measured.Functions), err)
	}
	for _, f := range measured.Functions {
		if f.Complexity > 12 && !strings.HasSuffix(f.Path, "_test.go") {
			t.Errorf("%s %s has a complexity of %d", f.Path, f.Name, f.Complexity)
		}
	}
}

// TestSize checks that an executor stays below 500 lines of code: its prompts, comments and blank lines are not
// counted.
func TestSize(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("files = %v, %v", files, err)
	}

	lines := map[string]int{}
	for _, file := range files {
		if name := filepath.Base(file); strings.HasPrefix(name, "prompt") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}

		for line := range strings.Lines(string(content)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				lines[filepath.Dir(file)]++
			}
		}
	}

	for executor, n := range lines {
		if n >= 500 {
			t.Errorf("executor %s has %d lines", executor, n)
		}
	}
}
