package codereader_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/agent"
	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/model/openai"
	"github.com/actlog/actlog/agent/tool/files"
	"github.com/actlog/actlog/examples/codereader"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// bundle is the agents with a scripted model and a folder, on a database.
type bundle struct {
	t      *testing.T
	url    string
	server *scriptmodel.Server
	folder *files.Folder
	steps  int
}

func setup(t *testing.T, script scriptmodel.Script, dir string) *bundle {
	t.Helper()
	b := &bundle{t: t, url: pgtest.New(t).URL}
	var err error
	if b.server, err = scriptmodel.Start(script, &scriptmodel.Options{APIKey: "key"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.server.Close() })

	if b.folder, err = files.Open(dir, files.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.folder.Close() })
	return b
}

// open opens a runtime, as a process of its own has it. The end of the test closes it, or the test does.
func (b *bundle) open() *agent.Runtime {
	b.t.Helper()
	m, err := openai.New(openai.Config{BaseURL: b.server.URL(), APIKey: "key", Model: "scripted"})
	if err != nil {
		b.t.Fatal(err)
	}

	a, err := agent.Open(b.t.Context(), b.url, agent.Options{Logger: storetest.Logger(b.t)})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = a.Close(context.Background()) })

	if err := a.Register(codereader.Parts(m, b.folder, b.steps)); err != nil {
		b.t.Fatal(err)
	}
	go func() { _ = a.Work(b.t.Context()) }()
	return a
}

func (b *bundle) start(a *agent.Runtime, question string) (planID string) {
	b.t.Helper()
	planID, err := a.Start(b.t.Context(), agent.Job{Work: agent.Request{Agent: codereader.Reader, Request: question}})
	if err != nil {
		b.t.Fatal(err)
	}
	return planID
}

// run answers a question.
func (b *bundle) run(question string) *agent.Run {
	b.t.Helper()
	a := b.open()
	r, err := a.Wait(b.t.Context(), b.start(a, question))
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func call(name string, arguments any) scriptmodel.ToolCall {
	return scriptmodel.ToolCall{Name: model.OfferedName(name), Arguments: arguments}
}

func research(question string) scriptmodel.ToolCall {
	return call("agent."+codereader.Researcher, map[string]any{"request": question})
}

func says(content string, calls ...scriptmodel.ToolCall) scriptmodel.Turn {
	return scriptmodel.Turn{Content: content, ToolCalls: calls}
}

func concludes(answer string) scriptmodel.Turn {
	return says("", call("terminate", map[string]any{"message": answer}))
}

// echoes concludes with the results of the tools.
var echoes = scriptmodel.Turn{Reply: func(_ context.Context, req *scriptmodel.Request) (scriptmodel.Turn, error) {
	var texts []string
	for _, r := range req.ToolResults() {
		texts = append(texts, r.Content)
	}
	return concludes(strings.Join(texts, ", ")), nil
}}

// TestTools checks which tools the agents are offered, and that they reach nothing outside of the folder.
func TestTools(t *testing.T) {
	t.Parallel()
	b := setup(t, scriptmodel.Script{Scenes: []scriptmodel.Scene{{Name: "only", Turns: []scriptmodel.Turn{
		says("I look.", call("files.read_file", map[string]any{"path": "../go.mod"}),
			call("files.write_file", map[string]any{"path": "x", "content": "x"})), echoes,
	}}}}, ".")

	r := b.run("What does it do?")
	if !strings.HasPrefix(r.Result, "../go.mod: the path leaves the folder, There is no tool files-write_file.") {
		t.Errorf("the answer is %q", r.Result)
	}

	var offered []string
	for _, tool := range b.server.Requests()[0].Request.Tools {
		offered = append(offered, tool.Function.Name)
	}
	slices.Sort(offered)
	if diff := cmp.Diff([]string{
		"agent-researcher", "files-list_files", "files-read_file", "files-search_in_files", "terminate",
	}, offered); diff != "" {
		t.Errorf("offered (-want +got):\n%s", diff)
	}
}

// TestParallelResearch lets the researchers of one turn wait for each other. The first one finishes last.
func TestParallelResearch(t *testing.T) {
	t.Parallel()
	started, second := make(chan struct{}), make(chan struct{})
	after := func(begun chan struct{}, until chan struct{}, answer string) scriptmodel.Turn {
		return scriptmodel.Turn{Reply: func(ctx context.Context, _ *scriptmodel.Request) (scriptmodel.Turn, error) {
			close(begun)
			select {
			case <-until:
			case <-ctx.Done():
			}
			return concludes(answer), ctx.Err()
		}}
	}

	b := setup(t, scriptmodel.Script{Scenes: []scriptmodel.Scene{
		{
			Name: "one", Match: scriptmodel.Match{User: "part one"},
			Turns: []scriptmodel.Turn{after(started, second, "answer one")},
		},
		{
			Name: "two", Match: scriptmodel.Match{User: "part two"},
			Turns: []scriptmodel.Turn{after(second, started, "answer two")},
		},
		{
			Name: "whole", Turns: []scriptmodel.Turn{
				says("", research("part one"), research("part two"), call("no_tool", nil)), echoes,
			},
		},
	}}, ".")

	if r := b.run("the whole"); !strings.HasPrefix(r.Result, "answer one, answer two, There is no tool no_tool.") {
		t.Errorf("the answer is %q", r.Result)
	}
}

// TestResearcherFails checks that the agent that asked is told so, and goes on.
func TestResearcherFails(t *testing.T) {
	t.Parallel()
	b := setup(t, scriptmodel.Script{Scenes: []scriptmodel.Scene{
		{
			Name: "part", Match: scriptmodel.Match{User: "part"}, Turns: []scriptmodel.Turn{
				{Error: &scriptmodel.Failure{Status: 400, Message: "too hard"}},
			},
		},
		{Name: "whole", Turns: []scriptmodel.Turn{says("", research("part")), echoes}},
	}}, ".")

	if r := b.run("whole"); r.State != record.Completed || !strings.Contains(r.Result, "too hard") {
		t.Errorf("r.State = %s %q", r.State, r.Result)
	}
}

// TestMaxSteps checks that an agent that has used its rounds must answer.
func TestMaxSteps(t *testing.T) {
	t.Parallel()
	again := says("", call("files.list_files", nil))
	b := setup(t, scriptmodel.Script{
		Scenes: []scriptmodel.Scene{{Name: "only", Turns: []scriptmodel.Turn{again, again, says("That is all.")}}},
	}, ".")
	b.steps = 2
	if r := b.run("?"); r.Result != "That is all." || r.Figures.ModelCalls != 3 {
		t.Errorf("b.run = %+v", r)
	}
}

// TestDemo runs the demo on this repository, and on a folder without anything that the script
// looks for.
func TestDemo(t *testing.T) {
	t.Parallel()
	for name, dir := range map[string]string{
		"this repository": filepath.Join("..", ".."), "an empty folder": t.TempDir(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, demoScript(0), dir)
			r := b.run(demoQuestion)
			t.Log(r.Result)

			scenes := map[string]int{}
			failed := 0
			for _, seen := range b.server.Requests() {
				scenes[seen.Scene]++
				if seen.Status != http.StatusOK {
					t.Errorf("scene %s, turn %d: status %d", seen.Scene, seen.Turn, seen.Status)
				}
				if seen.Scene == "writing" && seen.Turn == 1 &&
					strings.HasSuffix(seen.Request.ToolResults()[0].Content, "no such file or folder") {
					failed++
				}
			}

			if diff := cmp.Diff(map[string]int{"reader": 3, "writing": 4, "hierarchy": 3, "links": 2}, scenes); diff != "" {
				t.Errorf("scenes (-want +got):\n%s", diff)
			}
			if failed != 1 {
				t.Errorf("%d failed tool calls in scene writing, want 1", failed)
			}
			if r.State != record.Completed || strings.Contains(r.Result, "“”") {
				t.Errorf("%s; an empty quote in %s", r.State, r.Result)
			}
			if name == "this repository" && !strings.Contains(r.Result, "module github.com/actlog/actlog") {
				t.Errorf("go.mod is not quoted in %s", r.Result)
			}
		})
	}
}

// TestInterrupted closes the runtime of the demo again and again, at other places, and checks that the tree
// is that of a run that was not interrupted.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	b := setup(t, demoScript(10*time.Millisecond), filepath.Join("..", ".."))
	a := b.open()
	id := b.start(a, demoQuestion)

	for asked := 1; asked < 12; asked += 2 {
		storetest.Until(t, fmt.Sprintf("the model was asked %d times", asked), func() bool {
			return len(b.server.Requests()) >= asked
		})
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		a = b.open()
	}

	r, err := a.Wait(t.Context(), id)
	if err != nil || r.State != record.Completed || r.Takeovers != 0 {
		t.Fatalf("a.Wait(id) = %+v %v", r, err)
	}
	if diff := cmp.Diff(tree, outlineOf(t, b, id)); diff != "" {
		t.Errorf("outlineOf(b, id) (-want +got):\n%s", diff)
	}
}
