package parts_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/runtime/config"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/parts"
	"github.com/actlog/actlog/record"
)

const file = `
models: {default: {provider: openai, model: m, apiKey: k}, other: {provider: openai, model: o, apiKey: k}}
toolsets: {files: {root: .}}
agents:
  reader: {tools: ["files.*"]}
roles:
  QA: {tools: ["files.read_file"], model: other}
plans:
  nightly: {title: "Nightly for <<path>>", steps: [{agent: reader, request: "Read <<path>>", model: other, tools: [files.read_file], terminateColumns: "name,size"}]}
policies:
- {tools: "files.*", timeout: 5s}
`

func source(t *testing.T) *parts.Source {
	t.Helper()
	path := filepath.Join(t.TempDir(), "actlog.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	current, err := config.Open(path, config.Options{})
	if err != nil {
		t.Fatal(err)
	}

	s := parts.NewSource(slog.New(slog.DiscardHandler))
	s.Set(current, parts.Own{})
	t.Cleanup(func() { _ = s.Close(); current.Close() })
	return s
}

// B38: a template pins its steps, with what they change of their agents, and is a tool.
func TestTemplates(t *testing.T) {
	t.Parallel()
	s := source(t)
	p, release := s.Use()
	defer release()

	body, ok := p.Definition("plan", "nightly")
	var d define.PlanDefinition
	if err := json.Unmarshal(body, &d); err != nil || !ok || len(d.Steps) != 1 ||
		strings.Join(d.Placeholders, " ") != "path" {
		t.Fatalf("p.Definition = %s %v", body, err)
	}

	a := d.Steps[0].Agent
	if a.Agent != "reader" || a.Model.Model != "o" || strings.Join(a.Tools, " ") != "files.read_file" ||
		len(a.Policies) != 1 || !strings.Contains(string(a.ResponseSchema), `"size"`) {
		t.Errorf("d.Steps[0].Agent = %+v", a)
	}
	if all := strings.Join(p.Provides(), " "); !strings.Contains(all, "tool:plan.nightly") {
		t.Errorf("all = %v", all)
	}

	for _, name := range []string{"nightly", "plan.nightly"} {
		r, id, err := s.Tool(name, map[string]string{"path": "a", "more": "b"})
		if err != nil || id != "nightly" || r.Executor != "plan" || r.Name != "nightly" || string(r.Input) != `{"path":"a"}` {
			t.Errorf("%s: %+v %q %v", name, r, id, err)
		}
	}
	if r, id, err := s.Tool("agent.reader", map[string]string{"request": "a"}); err != nil || id != "" ||
		r.Name != "reader" {
		t.Errorf("s.Tool = %+v %q %v", r, id, err)
	}

	bad := new(record.InvalidError)
	if _, _, err := s.Tool("nightly", nil); !errors.As(err, &bad) || bad.Field != "path" {
		t.Error(err)
	}
	for _, name := range []string{"none", "role.QA", "plan.none", ""} {
		if _, _, err := s.Tool(name, nil); !errors.Is(err, record.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A14, A30: the roles of the configuration, and those that there are without it.
func TestRoles(t *testing.T) {
	t.Parallel()
	p, release := source(t).Use()
	defer release()

	for name, want := range map[string]string{
		"QA": "o files.read_file", "PO": "m files.* files-* http.* http-*",
		"SECURITY": "m files.* files-* git.* git-* tests.* tests-*",
	} {
		body, ok := p.Definition("role", name)
		var d define.Definition
		if err := json.Unmarshal(body, &d); err != nil || !ok || d.Agent != name ||
			d.Model.Model+" "+strings.Join(d.Tools, " ") != want || len(d.Policies) != 1 {
			t.Errorf("%s: %s %v", name, body, err)
		}
	}
}
