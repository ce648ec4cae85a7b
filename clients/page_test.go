//go:build clients

package clients_test

import (
	"flag"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

var today = flag.Bool("today", false, "install the newest versions, as users do, in place of the pinned ones")

// TestWhatThePageSays (F1) does what docs/otlp.md says of each framework, in an empty folder: it runs the line that
// installs the packages, writes the program to a file, and runs it. The run is on record then, with texts, tokens and
// the tool call.
//
// The line names no versions, and the lock file of the client bounds what it may install, as a file of constraints. So
// a new version of a package does not fail the test. With -today nothing bounds it, and Python's own pip installs.
func TestWhatThePageSays(t *testing.T) {
	t.Parallel()
	server := serve(t)

	script, err := scriptmodel.Load("weather.json")
	if err != nil {
		t.Fatal(err)
	}
	model, err := scriptmodel.Start(script, nil)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { model.Close() })
	api := strings.TrimSuffix(model.URL(), "/v1")

	for _, f := range frameworks(t) {
		t.Run(f.folder, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var env []string
			file := "main.py"
			if f.language == "js" {
				file, env = "main.mjs", emptyNode(t, f.folder, dir)
			} else {
				env = emptyPython(t, f.folder, dir)
			}

			run(t, dir, env, "sh", "-ec", f.install)
			if err := os.WriteFile(filepath.Join(dir, file), []byte(f.program), 0o600); err != nil {
				t.Fatal(err)
			}

			// These variables are on the page, too.
			run(t, dir, append(env,
				"OTEL_EXPORTER_OTLP_ENDPOINT="+string(server), "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
				"OTEL_SERVICE_NAME="+f.folder,
				"OPENAI_BASE_URL="+api+"/v1", "OPENAI_API_KEY=x", "ANTHROPIC_BASE_URL="+api, "ANTHROPIC_API_KEY=x",
			), "sh", "-ec", f.run)
			server.checkForecast(t, f.folder)
		})
	}
}

// emptyPython makes an environment without packages, and returns the variables that lead to it. Its pip is that of uv:
// it takes the same arguments, and a second where Python's takes up to minutes to find versions that fit. The lock file
// has those already.
func emptyPython(t *testing.T, client, dir string) []string {
	t.Helper()
	uv, err := tools.UV()
	if err != nil {
		t.Fatal(err)
	}

	env := filepath.Join(dir, ".venv")
	bin := filepath.Join(env, "bin")
	vars := []string{"VIRTUAL_ENV=" + env, "PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH")}
	python := filepath.Join(filepath.Dir(uv), "python")
	if *today {
		run(t, dir, nil, python, "-m", "venv", "--upgrade-deps", env)
		return vars
	}

	run(t, dir, nil, uv, "venv", "--quiet", "--python", python, env)
	pip := "#!/bin/sh\nexec '" + uv + "' pip \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "pip"), []byte(pip), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}

	lock, err := filepath.Abs(filepath.Join(client, "requirements.txt"))
	if err != nil {
		t.Fatal(err)
	}
	return append(vars, "UV_CONSTRAINT="+lock)
}

// emptyNode returns the variables that lead to a Node.js without packages. The folder has the lock file, if that bounds
// what is installed.
func emptyNode(t *testing.T, client, dir string) []string {
	t.Helper()
	node, err := tools.Node()
	if err != nil {
		t.Fatal(err)
	}

	bin := filepath.Dir(node)
	npm := "#!/bin/sh\nexec '" + node + "' '" + filepath.Join(bin, "..", "..", "npm", "bin", "npm-cli.js") + "' \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "npm"), []byte(npm), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}

	vars := []string{
		"PATH=" + strings.Join([]string{dir, bin, os.Getenv("PATH")}, string(os.PathListSeparator)),
		"npm_config_ignore_scripts=true", "npm_config_audit=false", "npm_config_fund=false",
	}
	if *today {
		return vars
	}

	for _, name := range []string{"package.json", "package-lock.json"} {
		b, err := os.ReadFile(filepath.Join(client, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return vars
}

// checkForecast checks that the only plan of a project is a forecast as docs/otlp.md has it in its programs, whole.
func (s server) checkForecast(t *testing.T, project string) {
	t.Helper()
	var list struct {
		Items []struct{ RootPlanID, Name, UserRequest, Summary string }
	}
	s.get(t, "/api/v1/plans?project="+url.QueryEscape(project), &list)
	if len(list.Items) != 1 {
		t.Fatalf("%d plans, want 1: %+v", len(list.Items), list.Items)
	}

	var root plan
	s.get(t, "/api/executor/details/"+list.Items[0].RootPlanID, &root)
	w := writer{t: t, server: s}
	w.plan("", &root)
	tree := w.String()

	for _, want := range []string{
		"Will it rain in Lisbon?", "Sun in Lisbon.", "tool get_weather COMPLETED", `"Lisbon"`, "result: sun, 24 degrees",
	} {
		if !strings.Contains(tree, want) {
			t.Errorf("%q is missing", want)
		}
	}

	f := root.Total
	if root.State != "COMPLETED" || f.ModelCalls != 2 || f.ToolCalls < 1 || f.Failures != 0 || f.InputTokens == 0 ||
		f.OutputTokens == 0 {
		t.Errorf("%s: %+v", root.State, f)
	}

	if strings.Contains(tree, "inferred") && project != "smolagents" {
		t.Error("a tool call has no span")
	}
	if t.Failed() {
		t.Log(tree)
	}
}
