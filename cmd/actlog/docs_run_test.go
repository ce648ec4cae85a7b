package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

// docsHouse serves the configuration of a page of the docs, with one worker. The first model of the page plays the
// scenes.
func docsHouse(t *testing.T, page string, replace map[string]string, scenes ...scriptmodel.Scene) (*house, *program) {
	t.Helper()
	requireClients(t, "curl")
	h := newHouse(t, "", scenes...)

	text := codeBlocks(t, page, "yaml")[0].text
	for from, to := range replace {
		if !strings.Contains(text, from) {
			t.Fatalf("%s lacks %q", page, from)
		}
		text = strings.ReplaceAll(text, from, to)
	}

	made, err := os.ReadFile(h.config)
	if err != nil {
		t.Fatal(err)
	}
	model, _, _ := strings.Cut(string(made), "toolsets:")
	h.write(t, "actlog.yaml", regexp.MustCompile(`(?m)^models:\n.*\n`).ReplaceAllLiteralString(text, model))
	return h, h.serve(t, 1)
}

// answer runs commands of the docs and returns the JSON that they print.
func answer[T any](t *testing.T, s *program, commands string, env ...string) (v T) {
	t.Helper()
	out := output(t, strings.ReplaceAll(commands, defaultServer, s.url), env...)
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("json.Unmarshal([]byte(out), &v) = %v\n%s", err, out)
	}
	return v
}

// varies is what differs from one run to the next: ids, times, and what programs print.
var varies = regexp.MustCompile(
	`(plan|call|step|workflow)[-_][0-9a-f][0-9a-f-]*|\d{4}-\d\d-\d\dT[0-9:.]+Z|"(output|file_content)": "([^"\\]|\\.)*"|"duration_ms": \d+`,
)

func plain(text string) string { return varies.ReplaceAllString(text, "VARIES") }

// wantShown checks that an answer is the JSON that a page shows, but for what varies.
func wantShown(t *testing.T, shown string, got any) {
	t.Helper()
	var want any
	if err := json.Unmarshal([]byte(shown), &want); err != nil {
		t.Fatalf("json.Unmarshal([]byte(shown), &want) = %v\n%s", err, shown)
	}
	if diff := cmp.Diff(plain(indented(t, want)), plain(indented(t, got))); diff != "" {
		t.Errorf("(-page +server):\n%s", diff)
	}
}

func indented(t *testing.T, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A1, A2, A34, A37, B38: docs/plan.md. Its plan, carried out on the folder that it speaks of, changes the file, and has
// the result that the page shows, with 4 operations and 11 thoughts. Its templates run.
func TestDocsPlan(t *testing.T) {
	t.Parallel()
	const bug = "package auth\n\n// Valid reports whether a token is valid.\nfunc Valid(token *string) bool {\n" +
		"\t// BUG: null check missing\n\treturn *token != \"\"\n}\n"

	commands, shown := under(t, codeBlocks(t, "plan.md", "sh"), "An example", 3),
		under(t, codeBlocks(t, "plan.md", "json"), "An example", 2)
	h, s := docsHouse(t, "plan.md", nil,
		scriptmodel.Scene{
			Name: "reader", Match: scriptmodel.Match{System: "You read code."},
			Turns: []scriptmodel.Turn{calls("files-read_file", fields{"path": "src/auth/auth.go"}), says("It checks tokens.")},
		},
		scriptmodel.Scene{Name: "plan", Turns: []scriptmodel.Turn{{Content: "```json\n" + shown[0] + "```"}}})

	if err := os.MkdirAll(filepath.Join(h.dir, "src", "auth"), 0o750); err != nil {
		t.Fatal(err)
	}
	h.write(t, "go.mod", "module example.com/app\n\ngo 1.24\n")
	h.write(t, "src/auth/auth.go", bug)
	h.write(t, "src/auth/auth_test.go",
		"package auth\n\nimport \"testing\"\n\nfunc TestNil(t *testing.T) {\n\tif Valid(nil) {\n"+
			"\t\tt.Error(\"nil is valid\")\n\t}\n}\n")

	type run struct {
		PlanID, State string
		Result        struct {
			Operations   []fields `json:"operations"`
			ReasoningLog []fields `json:"reasoning_log"`
		}
	}

	ended := answer[run](t, s, commands[1])
	// the sandbox of its tests has a cache of its own, which is empty: Go builds all
	storetest.Until(t, "the task has ended", func() bool {
		ended = answer[run](t, s, "curl -s "+defaultServer+"/api/v1/runs/"+ended.PlanID)
		return ended.State != "RUNNING"
	})
	if ended.State != "COMPLETED" || len(ended.Result.Operations) != 4 || len(ended.Result.ReasoningLog) != 11 {
		t.Fatalf("ended = %+v", ended)
	}

	wantShown(t, shown[1], answer[struct{ Result fields }](t, s, commands[2], "PLAN="+ended.PlanID).Result)
	changed, err := os.ReadFile(filepath.Join(h.dir, "src", "auth", "auth.go"))
	if err != nil || string(changed) != strings.Replace(bug, "return *token", "return token != nil && *token", 1) {
		t.Errorf("os.ReadFile = %v\n%s", err, changed)
	}
	filtered := strings.ReplaceAll(under(t, codeBlocks(t, "plan.md", "sh"), "The result", 1)[0], "PLAN", ended.PlanID)
	if r := answer[run](t, s, filtered).Result; len(r.Operations) != 0 || len(r.ReasoningLog) != 4 {
		t.Errorf("answer[run](s, filtered).Result = %+v", r)
	}

	templates := strings.SplitAfter(under(t, codeBlocks(t, "plan.md", "sh"), "Templates", 1)[0], "}'\n")
	if r := answer[struct {
		State, Result string
	}](t, s, templates[0]); r.State != "COMPLETED" || r.Result != "It checks tokens." {
		t.Errorf("r = %+v", r)
	}
	if r := answer[run](t, s, templates[1]); r.PlanID == "" {
		t.Errorf("answer[run](s, templates[1]) = %+v", r)
	}

	h.write(t, "src/auth/auth.go", bug)
	if code, stdout, stderr := actlog(
		t, "run", "--plan", "Fix the bug in auth module", "--server", s.url,
	); code != exitDone || !strings.Contains(stdout, "1. ✓ files.search_in_files") ||
		!strings.Contains(stdout, "Edited src/auth/auth.go") {
		t.Errorf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
}

// D1, D2, D4, D6, D8, D15, D17, D19, D21, D22: docs/workflow.md. Its commands, with an MCP server, give the answers
// that stand below them, but for ids and times.
func TestDocsWorkflow(t *testing.T) {
	t.Parallel()
	server := sdk.NewServer(&sdk.Implementation{Name: "search", Version: "1"}, nil)
	type query struct {
		Query string `json:"query"`
	}
	sdk.AddTool(server, &sdk.Tool{Name: "find", Description: "Finds facts."},
		func(_ context.Context, _ *sdk.CallToolRequest, in query) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: in.Query + ": 2,469 m"}}}, nil, nil
		})

	scene := func(name, system string, turns ...scriptmodel.Turn) scriptmodel.Scene {
		return scriptmodel.Scene{Name: name, Match: scriptmodel.Match{System: system}, Turns: turns}
	}
	_, s := docsHouse(t, "workflow.md", map[string]string{"http://127.0.0.1:9000/mcp": serveMCP(t, server)},
		scene("researcher", "You find facts.", calls("search-find", query{"Galdhøpiggen"}),
			scriptmodel.Turn{Content: "2,469 m."}, scriptmodel.Turn{Content: "2,452 m."}),
		scene("writer", "You write", scriptmodel.Turn{Content: "The highest mountain of Norway is 2,469 m high."}),
		scene("critic", "You rate", scriptmodel.Turn{Content: `{"score": 7, "why": "It is short."}`}))

	commands, shown := under(t, codeBlocks(t, "workflow.md", "sh"), "An example", 6),
		under(t, codeBlocks(t, "workflow.md", "json"), "An example", 3)
	for i, want := range []string{1: shown[0], 3: shown[1], 4: shown[2]} {
		if want == "" {
			continue
		}

		got := answer[fields](t, s, commands[i])
		if steps, ok := got["step_results"].([]any); ok {
			for _, step := range steps {
				delete(step.(fields), "result")
			}
		}
		wantShown(t, want, got)
		if i == 1 {
			shownText, shown := streamed(t, under(t, codeBlocks(t, "workflow.md", "text"), "An example", 1)[0])
			text, stream := streamed(t, output(t, strings.ReplaceAll(commands[2], defaultServer, s.url)))
			if diff := cmp.Diff(plain(shown), plain(stream)); diff != "" || text != shownText {
				t.Errorf("the text is %q (-page +server):\n%s", text, diff)
			}
		}
	}

	if r := answer[struct {
		State  string
		Result struct {
			Output string `json:"final_output"`
		}
	}](t, s, commands[5]); r.State != "COMPLETED" || !strings.Contains(r.Result.Output, "It is short.") {
		t.Errorf("r = %+v", r)
	}
	wantAll(t, must(t, "run", "--workflow", "review", "Mountains of Norway", "--server", s.url), "It is short.")
}

// streamed returns the text of a stream, which may come in any pieces, and its other events.
func streamed(t *testing.T, stream string) (text, others string) {
	t.Helper()
	for line := range strings.Lines(stream) {
		var e struct {
			Type string
			Data struct{ Text string }
		}

		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("json.Unmarshal([]byte(data), &e) = %v\n%s", err, line)
		}
		if text += e.Data.Text; e.Type != "text_delta" {
			others += data
		}
	}
	return text, others
}
