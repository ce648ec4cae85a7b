package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent"
	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/files"
	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/scriptmodel"
	"github.com/actlog/actlog/record"
)

// A task on a folder, which the model plans in one call.
func ExampleRuntime_StartTask() {
	ctx := context.Background()
	url, drop := database()
	defer drop()
	m, stop := scripted(scriptmodel.Turn{Content: `{"reasoning": "Look first.", "steps": [
		{"tool": "files", "operation": "read_file", "params": {"path": "notes.txt"}}]}`})
	defer stop()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("Buy milk.\n"), 0o600); err != nil {
		log.Fatal(err)
	}
	folder, err := files.Open(dir, files.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer folder.Close()

	a, err := agent.Open(ctx, url, agent.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close(ctx)
	if err := a.Register(agent.Parts{Models: map[string]model.Model{"default": m}, Tools: folder.Tools()}); err != nil {
		log.Fatal(err)
	}
	go a.Work(ctx)

	planID, err := a.StartTask(ctx, agent.Task{Task: "What do my notes say?"})
	if err != nil {
		log.Fatal(err)
	}
	result, err := a.WaitTask(ctx, planID)
	if err != nil {
		log.Fatal(err)
	}
	for _, o := range result.Operations.ByTool("files") {
		fmt.Println(o.Operation, o.Success)
	}
	fmt.Println(*result.ReasoningLog.ByType(record.ThoughtConclusion)[0].Content)
	// Output:
	// read_file true
	// Task completed successfully. Executed 1 operations. Artifacts: [file_content]
}

// A1, A2, A3, A4: a Go program gives a task, its context, its constraints and whether it may write, and gets a
// result however the run ends, with each field set. What is wrong with a request is the only error.
func TestTask(t *testing.T) {
	t.Parallel()
	m, stop := scripted(scriptmodel.Turn{Content: `{"steps":[{"tool":"files","operation":"note","params":{}},{"tool":"files","operation":"fail"},{"tool":"files","operation":"note"}]}`})
	t.Cleanup(stop)
	bad, stopBad := scripted(scriptmodel.Turn{Content: "No."})
	t.Cleanup(stopBad)
	open := func(m model.Model) *agent.Runtime {
		a, err := agent.Open(t.Context(), pgtest.New(t).URL, agent.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.Close(context.Background()) })
		err = a.Register(agent.Parts{Models: map[string]model.Model{"default": m}, Tools: []tool.Tool{
			tool.Func("files.note", "Notes.", func(context.Context, struct{}) (string, error) { return "noted", nil }, tool.WithPolicy(tool.Policy{Writes: true})),
			tool.Func("files.fail", "Fails.", func(context.Context, struct{}) (string, error) { return "", errors.New("no") }),
		}})
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = a.Work(t.Context()) }()
		return a
	}
	good := open(m)
	for name, tt := range map[string]struct {
		on         *agent.Runtime
		task       agent.Task
		operations int
		error      string
	}{
		"defaults":         {good, agent.Task{Task: "x"}, 2, "Step 2 failed: no"},
		"read only":        {good, agent.Task{Task: "x", ReadOnly: true}, 1, "Step 1 failed: write operations are not allowed in read-only mode"},
		"goes on":          {good, agent.Task{Task: "x", GoOn: true}, 3, ""},
		"at most one":      {good, agent.Task{Task: "x", Context: "c", MaxOperations: 1, Role: "QA"}, 1, ""},
		"an answer, wrong": {open(bad), agent.Task{Task: "x", Iterative: true, MaxIterations: 3}, 0, "Failed to parse JSON response: invalid character 'N' looking for beginning of value"},
	} {
		planID, err := tt.on.StartTask(t.Context(), tt.task)
		if err != nil {
			t.Fatal(name, err)
		}
		r, err := tt.on.WaitTask(t.Context(), planID)
		if err != nil {
			t.Fatal(name, err)
		}
		if len(r.Operations) != tt.operations || (r.Error == nil) != (tt.error == "") || r.Error != nil && *r.Error != tt.error || r.Success != (name == "at most one") {
			t.Errorf("%s: %+v", name, r)
		}
		b, err := json.Marshal(r)
		if err != nil || r.Operations == nil || r.Artifacts == nil || r.ReasoningLog == nil || !strings.Contains(string(b), `"audit_trail":[]`) {
			t.Errorf("%s: %s %v", name, b, err)
		}
	}
	for field, task := range map[string]agent.Task{
		"task": {}, "context": {Task: "x", Context: "\xff"}, "role": {Task: "x", Role: "a b"}, "constraints.max_operations": {Task: "x", MaxOperations: -1},
		"tags": {Task: "x", Tags: slices.Repeat([]string{"t"}, 100_000)},
	} {
		_, err := good.StartTask(t.Context(), task)
		if bad := new(record.InvalidError); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := good.StartTemplate(t.Context(), agent.Template{Name: "none"}); !errors.Is(err, record.ErrNotFound) {
		t.Error(err)
	}
	for field, q := range map[string]agent.Template{"name": {}, "input.x": {Name: "n", Values: map[string]string{"x": "\x00"}}} {
		_, err := good.StartTemplate(t.Context(), q)
		if bad := new(record.InvalidError); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := good.WaitTask(t.Context(), "none"); !errors.Is(err, record.ErrNotFound) {
		t.Error(err)
	}
}
