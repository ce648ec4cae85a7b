package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

const (
	teaBefore = "package tea\n\n// TODO: name the kinds.\nfunc Kind(n int) string {\n\tif n > 0 {\n" +
		"\t\treturn \"black\"\n\t} else {\n\t\treturn \"green\"\n\t}\n}\n"
	teaAfter = "package tea\n\n// TODO: name the kinds.\nfunc Kind(n int) string {\n\tif n > 0 {\n" +
		"\t\treturn \"black\"\n\t}\n\treturn \"green\"\n}\n"
	teaPatch = "--- a/tea.go\n+++ b/tea.go\n@@ -4,7 +4,6 @@\n func Kind(n int) string {\n \tif n > 0 {\n" +
		" \t\treturn \"black\"\n-\t} else {\n-\t\treturn \"green\"\n \t}\n+\treturn \"green\"\n }\n"
)

// C7, C8, C15, C18, C24: TestOrchestrateAtATerminal carries out a request about the code of a repository, with the
// toolsets search, git and code. At the terminal the plan is modified with a text, and accepted; a patch and a commit
// are approved. Then the folder has the patch, the repository the commit, and the trace the sources.
func TestOrchestrateAtATerminal(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("git is not installed")
		}
		t.Skip("git is not installed")
	}

	type step struct {
		agent, action, tool string
		arguments           fields
	}
	steps := []step{
		{"RAG_SEARCH", "Find the open work", "search-search_code", fields{"query": "TODO name the kinds"}},
		{"GIT", "Look what changed", "git-status", fields{}},
		{"CODE_ANALYSIS", "Measure it", "code-analyze_complexity", fields{"path": "tea.go"}},
		{"REFACTORING", "Ask for simpler code", "code-suggest_refactoring", fields{"path": "tea.go"}},
		{"REFACTORING", "Make it simpler", "code-apply_refactoring", fields{"patch": teaPatch}},
		{"GIT", "Commit it", "git-commit", fields{"message": "Make Kind simpler", "files": []string{"tea.go"}}},
	}

	repeats := scriptmodel.Turn{Reply: func(_ context.Context, r *scriptmodel.Request) (scriptmodel.Turn, error) {
		return scriptmodel.Turn{Content: string(r.Messages[len(r.Messages)-1].Content)}, nil
	}}
	var planned []fields
	scenes := []scriptmodel.Scene{
		{
			Name: "answer", Match: scriptmodel.Match{System: "They have worked"},
			Turns: []scriptmodel.Turn{{Content: "It is simpler now."}},
		},
	}
	for n, s := range steps {
		planned = append(planned, fields{
			"stepNumber": n + 1, "agentType": s.agent, "action": s.action, "justification": "It was asked for",
			"expectedOutput": "A text", "dependencies": []int{},
		})
		scenes = append(scenes,
			scriptmodel.Scene{Name: s.action, Match: scriptmodel.Match{User: "Your step: " + s.action + "\n"},
				Turns: []scriptmodel.Turn{calls(s.tool, s.arguments), repeats}})
	}

	plan := func(steps []fields) scriptmodel.Turn {
		b, err := json.Marshal(fields{"goal": "Simpler \x1b[31mcode", "steps": steps, "estimatedDuration": 30})
		if err != nil {
			t.Fatal(err)
		}
		return scriptmodel.Turn{Content: string(b)}
	}
	scenes = append(scenes, scriptmodel.Scene{
		Name: "plan", Match: scriptmodel.Match{System: "Plan how"},
		Turns: []scriptmodel.Turn{plan(planned[:1]), plan(planned)},
	})

	h := newHouse(t, "", scenes...)
	config, err := os.ReadFile(h.config)
	if err != nil {
		t.Fatal(err)
	}
	base, _, _ := strings.Cut(string(config), "toolsets:")
	h.write(t, "actlog.yaml", base+
		"toolsets:\n  search: {root: .}\n  git: {root: ., enableWrite: true, name: Actlog, email: actlog@example.com}\n"+
		"  code: {root: ., enableWrite: true}\norchestrator: {maxPlanSteps: 6}\n")

	git := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "git",
			append([]string{"-C", h.dir, "-c", "user.name=Ann", "-c", "user.email=ann@example.com"},
				args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	h.write(t, "tea.go", teaBefore)
	git("init", "-q")
	git("add", "tea.go")
	git("commit", "-qm", "Begin")

	s := h.serve(t, 1)
	p := atTerminal(t, "run", "--orchestrate", "Make", "the", "code", "simpler.", "--server", s.url)
	p.types(t, "accept, reject, modify? ", "m")
	p.types(t, "What is to change? ", "")
	p.types(t, "text is required", "Change it, too.")
	p.out.await(t, "6. GIT: Commit it")
	id := onlyRun(t, s.url)
	p.out.await(t, "   expected: A text")

	if _, err := p.tty.WriteString("accept\n"); err != nil {
		t.Fatal(err)
	}
	p.out.await(t, "files: tea.go")
	p.types(t, "approve, reject? ", "approve")
	p.out.await(t, "Make Kind simpler")
	p.types(t, "approve, reject? ", "approve")

	if code := p.ended(); code != exitDone || p.stdout.String() != "It is simpler now.\n" {
		t.Errorf("exit code %d, stdout %q\n%s", code, p.stdout, p.out)
	}
	wantAll(t, p.out.String(), "text is required", "MODIFIED", "Goal: Simpler", "1. RAG_SEARCH: Find the open work",
		"ACCEPTED", "patch:\r\n", "    -\t} else {\r\n", "files: tea.go", "Committed as ")
	wantNone(t, p.out.String(), "\x1b[31mcode")

	if b, err := os.ReadFile(filepath.Join(h.dir, "tea.go")); err != nil || string(b) != teaAfter {
		t.Errorf("os.ReadFile = %q, %v", b, err)
	}
	if log := git("log", "--format=%an: %s",
		"--name-only"); log != "Actlog: Make Kind simpler\n\ntea.go\nAnn: Begin\n\ntea.go\n" {
		t.Errorf("log = %q", log)
	}

	var trace struct {
		FinalState string
		StepTraces []struct {
			State, ToolName, Output string
			Sources                 []struct{ DisplayName, Type, Snippet string }
		}
	}

	answer, err := http.Get(s.url + "/api/v1/runs/" + id + "/trace")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&trace); err != nil || trace.FinalState != "COMPLETED" ||
		len(trace.StepTraces) != len(steps) {
		t.Fatalf("trace = %+v, %v", trace, err)
	}

	for n, s := range steps {
		got := trace.StepTraces[n]
		if got.State != "COMPLETED" || strings.ReplaceAll(got.ToolName, ".", "-") != s.tool {
			t.Errorf("step %d: %+v", n+1, got)
		}
	}

	found := 0
	for _, source := range trace.StepTraces[0].Sources {
		if source.DisplayName == "tea.go" && source.Type == "FILE" &&
			strings.Contains(source.Snippet, "TODO: name the kinds") {
			found++
		}
	}
	if found != 1 {
		t.Errorf("the search found %+v", trace.StepTraces[0].Sources)
	}

	if measured := trace.StepTraces[2]; len(measured.Sources) != 1 ||
		!strings.Contains(measured.Output, "Kind: complexity 2") {
		t.Errorf("it measured %+v", measured)
	}
	if suggested := trace.StepTraces[3].Output; !strings.Contains(suggested, "-\t} else {") {
		t.Errorf("it suggested %s", suggested)
	}
}
