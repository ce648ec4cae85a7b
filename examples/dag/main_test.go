package main

import (
	"context"
	"errors"
	"flag"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func scene(system string, turn scriptmodel.Turn) scriptmodel.Scene {
	return scriptmodel.Scene{Name: system, Match: scriptmodel.Match{System: system}, Turns: []scriptmodel.Turn{turn}}
}

// E9: the example carries out a task. The first process is interrupted while a node works; the second one goes on with
// the run, and asks for no node again that has completed.
func TestRun(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())

	server, err := scriptmodel.Start(scriptmodel.Script{Scenes: []scriptmodel.Scene{
		scene("acyclic graph", scriptmodel.Turn{Content: `{"title":"Tea or coffee","nodes":[{"id":"context","name":"Context","description":"What is it for?"},
			{"id":"tea","name":"Tea","dependencies":["context"]},{"id":"coffee","name":"Coffee","dependencies":["context"]},{"id":"sum","name":"Sum","dependencies":["tea","coffee"]}]}`}),
		scene(`"Sum"`, scriptmodel.Turn{Reply: func(ctx context.Context, r *scriptmodel.Request) (scriptmodel.Turn, error) {
			interrupt()
			return scriptmodel.Turn{Content: strings.ReplaceAll(r.Question(), "\n", " ")}, ctx.Err()
		}}),
		scene("carry out", scriptmodel.Turn{Content: "nice"}),
	}}, &scriptmodel.Options{APIKey: "key"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })

	env := map[string]string{
		"OPENAI_BASE_URL": server.URL(), "OPENAI_API_KEY": "key", "OPENAI_MODEL": "scripted",
		"ACTLOG_DATABASE_URL": pgtest.New(t).URL,
	}
	getenv := func(k string) string { return env[k] }
	var stdout, stderr strings.Builder
	if err := run(ctx, []string{"-eager", "tea", "or", "coffee"}, getenv, &stdout,
		&stderr); !errors.Is(err, context.Canceled) || stdout.String() != "" {
		t.Fatalf("stdout %q, stderr %q, %v", &stdout, &stderr, err)
	}

	_, after, told := strings.Cut(stderr.String(), "go on with: dag -plan ")
	if !told || !strings.Contains(stderr.String(), "Completed node tea: Tea") {
		t.Fatalf("stderr %q", &stderr)
	}
	planID, _, _ := strings.Cut(after, "\n")
	if err := run(t.Context(), []string{"-plan", planID}, getenv, &stdout, &stderr); err != nil {
		t.Fatal(err)
	}

	if want := "Tea or coffee\n\nTask:   Inputs from previous tasks: From Tea (tea): nice  From Coffee (coffee): nice " +
		" Execute this task"; !strings.HasPrefix(stdout.String(), want) {
		t.Errorf("stdout %q", &stdout)
	}

	scenes := map[string]int{}
	for _, r := range server.Requests() {
		scenes[r.Scene]++
	}
	if scenes["acyclic graph"] != 1 || scenes["carry out"] != 3 {
		t.Errorf("scenes = %v", scenes)
	}
}

func TestRunErrors(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name string
		args []string
		env  string
		err  string
	}{
		{"no task", nil, "", flag.ErrHelp.Error()},
		{"a task and a plan", []string{"-plan", "p", "why"}, "", flag.ErrHelp.Error()},
		{"unknown flag", []string{"-x"}, "", "not defined"},
		{"bad URL", []string{"why"}, "x", "URL"},
		{"no database", []string{"why"}, "", "ACTLOG_DATABASE_URL: "},
	}

	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			err := run(t.Context(), row.args, func(string) string { return row.env }, &out, &out)
			if err == nil || !strings.Contains(err.Error(), row.err) {
				t.Errorf("error %v", err)
			}
		})
	}
}
