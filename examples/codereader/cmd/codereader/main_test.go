package main

import (
	"errors"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/actlog/actlog/internal/scriptmodel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	t.Parallel()
	server, err := scriptmodel.Start(scriptmodel.Script{Scenes: []scriptmodel.Scene{{
		Name:  "read",
		Match: scriptmodel.Match{Model: "scripted", User: "what is it"},
		Turns: []scriptmodel.Turn{
			{ToolCalls: []scriptmodel.ToolCall{{Name: "read_file", Arguments: map[string]any{"path": "a.txt"}}}},
			{Content: "a text"},
		},
	}}}, &scriptmodel.Options{APIKey: "key"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		_ = server.Close()
	})
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"OPENAI_BASE_URL": server.URL(), "OPENAI_API_KEY": "key", "OPENAI_MODEL": "scripted"}
	var stdout, stderr strings.Builder
	err = run(t.Context(), []string{"-dir", dir, "what", "is", "it"}, func(k string) string { return env[k] }, &stdout, &stderr)
	if err != nil || stdout.String() != "a text\n" || stderr.String() != "" {
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
		{"unknown flag", []string{"-x"}, "", "not defined"},
		{"bad URL", []string{"why"}, "x", "not an http or https URL"},
		{"no such folder", []string{"-dir", "nowhere", "why"}, "", "folder to read"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			err := run(t.Context(), row.args, func(string) string { return row.env }, &out, &out)
			if err == nil || !strings.Contains(err.Error(), row.err) {
				t.Errorf("error %v", err)
			}
			if row.args == nil && !errors.Is(err, flag.ErrHelp) {
				t.Errorf("error %v", err)
			}
		})
	}
}
