package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// C7, C15: the example carries out a request in a real repository. The plan is modified, and then accepted.
func TestRun(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("git is not installed")
		}
		t.Skip("git is not installed")
	}

	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "git", "init", dir).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "new.go"), []byte("package new\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	plan := scriptmodel.Turn{
		Content: `{"goal":"Look","steps":[{"stepNumber":1,"agentType":"GIT","action":"Show the status","justification":"It was asked for","expectedOutput":"files","dependencies":[]}],"estimatedDuration":1}`,
	}

	server, err := scriptmodel.Start(scriptmodel.Script{Scenes: []scriptmodel.Scene{
		{Name: "plan", Match: scriptmodel.Match{System: "Plan how"}, Turns: []scriptmodel.Turn{plan, plan}},
		{Name: "git", Match: scriptmodel.Match{System: "agent GIT"},
			Turns: []scriptmodel.Turn{{ToolCalls: []scriptmodel.ToolCall{{Name: "git-status"}}},
				{Content: "new.go is untracked."}}},
		{
			Name: "answer", Match: scriptmodel.Match{System: "They have worked", User: "new.go"},
			Turns: []scriptmodel.Turn{{Content: "new.go is new."}},
		},
	}}, &scriptmodel.Options{APIKey: "key"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })

	env := map[string]string{
		"OPENAI_BASE_URL": server.URL(), "OPENAI_API_KEY": "key", "OPENAI_MODEL": "scripted",
		"ACTLOG_DATABASE_URL": pgtest.New(t).URL,
	}
	var stdout, stderr strings.Builder
	stdin := strings.NewReader("modify Be short.\naccept\n")
	if err := run(t.Context(), []string{"-dir", dir, "What", "is", "new?"}, func(k string) string {
		return env[k]
	}, stdin, &stdout, &stderr); err != nil {
		t.Fatalf("run = %v\n%s\n%s", err, &stdout, &stderr)
	}

	if got := stdout.String(); !strings.Contains(got, "1. GIT: Show the status (It was asked for)") ||
		!strings.HasSuffix(got, "new.go is new.\n") {
		t.Errorf("stdout %q", got)
	}
}
