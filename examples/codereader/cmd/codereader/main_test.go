package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestRun answers a question. The first process is interrupted while the model thinks; the second one goes
// on with the run.
func TestRun(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	think := scriptmodel.Turn{Reply: func(ctx context.Context, _ *scriptmodel.Request) (scriptmodel.Turn, error) {
		interrupt()
		return scriptmodel.Turn{
			ToolCalls: []scriptmodel.ToolCall{{Name: "terminate", Arguments: map[string]any{"message": "a text"}}},
		}, ctx.Err()
	}}

	server, err := scriptmodel.Start(scriptmodel.Script{Scenes: []scriptmodel.Scene{{
		Name:  "read",
		Match: scriptmodel.Match{Model: "scripted", User: "what is it"},
		Turns: []scriptmodel.Turn{
			{ToolCalls: []scriptmodel.ToolCall{{Name: "files-read_file", Arguments: map[string]any{"path": "a.txt"}}}},
			think,
		},
	}}}, &scriptmodel.Options{APIKey: "key"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })

	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{
		"OPENAI_BASE_URL": server.URL(), "OPENAI_API_KEY": "key", "OPENAI_MODEL": "scripted",
		"ACTLOG_DATABASE_URL": pgtest.New(t).URL,
	}
	getenv := func(k string) string { return env[k] }

	var stdout, stderr strings.Builder
	if err := run(ctx, []string{"-dir", dir, "what", "is", "it"}, getenv, &stdout,
		&stderr); !errors.Is(err, context.Canceled) || stdout.String() != "" {
		t.Fatalf("stdout %q, stderr %q, %v", &stdout, &stderr, err)
	}
	_, planID, told := strings.Cut(strings.TrimSpace(stderr.String()), "go on with: codereader -plan ")
	if !told {
		t.Fatalf("stderr %q", &stderr)
	}

	stderr.Reset()
	if err := run(t.Context(), []string{"-dir", dir, "-plan", planID}, getenv, &stdout, &stderr); err != nil ||
		stdout.String() != "a text\n" || stderr.String() != "" {
		t.Errorf("stdout %q, stderr %q, %v", &stdout, &stderr, err)
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
		{"no question", nil, "", flag.ErrHelp.Error()},
		{"a question and a plan", []string{"-plan", "p", "why"}, "", flag.ErrHelp.Error()},
		{"unknown flag", []string{"-x"}, "", "not defined"},
		{"bad URL", []string{"why"}, "x", "URL"},
		{"no such folder", []string{"-dir", "nowhere", "why"}, "", "open folder"},
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
