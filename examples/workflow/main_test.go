package main

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// D1, D20: the example reviews a real folder with a workflow that is a Go function. It is interrupted after the first
// file, and started again: what was said of that file is on record, and is not asked again.
func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.go": "package a // first\n", "b.go": "package a // second\n", "notes.txt": "none\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	first, interrupt := context.WithCancel(t.Context())
	scene := func(name, system, user string, turn scriptmodel.Turn) scriptmodel.Scene {
		return scriptmodel.Scene{
			Name: name, Match: scriptmodel.Match{System: system, User: user}, Turns: []scriptmodel.Turn{turn},
		}
	}

	server, err := scriptmodel.Start(scriptmodel.Script{Scenes: []scriptmodel.Scene{
		scene("first", "You review", "// first", scriptmodel.Turn{Content: "It has no package comment."}),
		scene("second", "You review", "// second",
			scriptmodel.Turn{Reply: func(context.Context, *scriptmodel.Request) (scriptmodel.Turn, error) {
				interrupt()
				return scriptmodel.Turn{Content: "Nothing is wrong."}, nil
			}}),
		scene("editor", "You are given remarks", "a.go: It has no package comment.\nb.go: Nothing is wrong.",
			scriptmodel.Turn{Content: "Write a package comment."}),
	}}, &scriptmodel.Options{APIKey: "key"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })

	env := map[string]string{
		"OPENAI_BASE_URL": server.URL(), "OPENAI_API_KEY": "key", "OPENAI_MODEL": "scripted",
		"ACTLOG_DATABASE_URL": pgtest.New(t).URL,
	}
	review := func(ctx context.Context) (string, error) {
		var stdout, stderr strings.Builder
		err := run(ctx, []string{"-dir", dir}, func(k string) string { return env[k] }, &stdout, &stderr)
		return stdout.String(), err
	}

	if out, err := review(first); err == nil {
		t.Errorf("it was not interrupted: %s", out)
	}
	out, err := review(t.Context())
	if want := "a.go: It has no package comment.\nb.go: Nothing is wrong.\nWrite a package comment.\n"; err != nil ||
		out != want {
		t.Errorf("review() = %v\n%s", err, out)
	}

	asked := map[string]int{}
	for _, r := range server.Requests() {
		asked[r.Scene]++
	}
	if asked["first"] != 1 || asked["editor"] != 1 {
		t.Errorf("asked = %v", asked)
	}
}

func TestRunErrors(t *testing.T) {
	t.Parallel()

	for name, tt := range map[string]struct {
		args []string
		err  string
	}{
		"unknown flag": {[]string{"-x"}, "not defined"},
		"help":         {[]string{"-h"}, flag.ErrHelp.Error()},
		"no folder":    {[]string{"-dir", "none"}, "none"},
		"no database":  {nil, "ACTLOG_DATABASE_URL: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			err := run(t.Context(), tt.args, func(string) string { return "" }, &out, &out)
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v", err)
			}
		})
	}
}
