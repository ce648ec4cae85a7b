package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// house is a place in which agents of a configuration run, with a scripted model.
type house struct {
	dir, config, database string
}

// newHouse makes a folder with a configuration: the agents that are given as YAML, a model that plays the
// scenes, and the files of the folder as tools, of which those that write need approval.
func newHouse(t *testing.T, agents string, scenes ...scriptmodel.Scene) *house {
	t.Helper()
	m, err := scriptmodel.Start(scriptmodel.Script{Scenes: scenes}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })

	h := &house{dir: t.TempDir(), database: pgtest.Fresh(t).URL}
	h.config = filepath.Join(h.dir, "actlog.yaml")
	h.write(t, "actlog.yaml", fmt.Sprintf("models:\n  default: {provider: openai, model: scripted, baseURL: %q, "+
		"apiKey: key}\ntoolsets:\n  files: {root: .}\nagents:\n%s", m.URL(), agents))
	return h
}

func (h *house) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// serve starts a server with so many workers, on a free port unless args name one.
func (h *house) serve(t *testing.T, workers int, args ...string) *program {
	t.Helper()
	return start(t, append([]string{
		"serve", "--listen", "127.0.0.1:0", "--database-url", h.database, "--config", h.config, "--workers",
		fmt.Sprint(workers),
	}, args...)...)
}

// calls is a turn of a model that calls a tool.
func calls(name string, arguments any) scriptmodel.Turn {
	return scriptmodel.Turn{ToolCalls: []scriptmodel.ToolCall{{Name: name, Arguments: arguments}}}
}

// says is a turn that ends the work of an agent.
func says(message string) scriptmodel.Turn {
	return calls("terminate", map[string]string{"message": message})
}
