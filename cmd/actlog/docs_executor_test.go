package main

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// withDocsExecutor builds the program with the executor of docs/development.md: its package, and its line in the list
// of executors.
func withDocsExecutor(t *testing.T) (path string) {
	t.Helper()
	const folder = "internal/runtime/executor"
	top, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}

	list, err := os.ReadFile(filepath.Join(top, folder, "executor.go"))
	if err != nil {
		t.Fatal(err)
	}
	code, line := docsExecutor(t)

	const last = "\t\tdag.Executor{},\n"
	const imports = "\t\"" + "github.com/actlog/actlog/" + folder + "/dag\"\n"
	for _, before := range []string{last, imports} {
		if strings.Count(string(list), before) != 1 {
			t.Fatalf("the list of executors has not one line %q:\n%s", before, list)
		}
	}

	changed := strings.NewReplacer(last, last+"\t\t"+line, imports,
		imports+strings.Replace(imports, "/dag", "/twice", 1)).Replace(string(list))

	dir := t.TempDir()
	replace := map[string]string{}
	for name, text := range map[string]string{"twice/twice.go": code, "executor.go": changed} {
		file := filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(top, folder, name)] = file
	}

	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlaid := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlaid, overlay, 0o600); err != nil {
		t.Fatal(err)
	}

	path = filepath.Join(dir, "actlog")
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlaid, "-o", path, "./cmd/actlog")
	build.Dir = top
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build.CombinedOutput() = %v\n%s", err, out)
	}
	return path
}

// docsExecutor returns the code of the executor in docs/development.md, and its line in the list of executors.
func docsExecutor(t *testing.T) (code, line string) {
	t.Helper()
	const page = "../../docs/development.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "### Add an executor\n")
	section, _, _ = strings.Cut(section, "\n### ")

	const fence = "   ```"
	var blocks []string
	for i, part := range strings.Split(section, fence) {
		if block, ok := strings.CutPrefix(part, "go\n"); ok && i%2 == 1 {
			blocks = append(blocks, strings.TrimPrefix(strings.ReplaceAll("\n"+block, "\n   ", "\n"), "\n"))
		}
	}

	if len(blocks) != 2 {
		t.Fatalf("%s has %d blocks of Go about executors, want 2", page, len(blocks))
	}
	return blocks[0], blocks[1]
}

// TestDocsExecutor: the executor of docs/development.md is one package and one line. Runs of it are started through the
// API, a form and a command, and are shown like all others.
func TestDocsExecutor(t *testing.T) {
	t.Parallel()
	path := withDocsExecutor(t)
	h := newHouse(t, "", scriptmodel.Scene{Name: "s", Turns: []scriptmodel.Turn{
		{Content: "A first answer."}, {Content: "A better answer."},
	}})
	s := beginFile(t, path, "serve", "--listen", "127.0.0.1:0", "--database-url", h.database, "--config", h.config,
		"--workers", "1")
	s.served(t)

	var kinds struct {
		Items []struct{ Kind string }
	}
	if err := json.Unmarshal([]byte(body(t, s.url+"/api/v1/executors")), &kinds); err != nil || len(kinds.Items) != 7 {
		t.Errorf("the executors: %+v, %v", kinds.Items, err)
	}

	form := s.url + "/start?executor=twice"
	if page := body(t, form); !strings.Contains(page, `name="input.request"`) {
		t.Errorf("the form does not ask for the request:\n%s", page)
	}

	sent, err := http.PostForm(form, url.Values{"key": {"k"}, "input.request": {"What is cocoa?"}})
	if err != nil {
		t.Fatal(err)
	}
	_ = sent.Body.Close()
	if to := sent.Request.URL.Path; sent.StatusCode != http.StatusOK || !strings.HasPrefix(to, "/runs/") {
		t.Errorf("the form leads to %s: %s", to, sent.Status)
	}

	c := runClient{t, s.url}
	for _, wrong := range []string{
		`"input": {"request": " "}`, `"input": {"request": "Go.", "model": "none"}`,
		`"name": "x", "input": {"request": "Go."}`,
	} {
		c.ask(http.MethodPost, "/api/v1/runs", `{"executor": "twice", `+wrong+`}`, http.StatusUnprocessableEntity)
	}

	started := c.ask(http.MethodPost, "/api/v1/runs", `{"executor": "twice", "input": {"request": "What is tea?"}}`,
		http.StatusAccepted)
	r := c.until(started.PlanID, "it ends", func(r shownRun) bool { return r.State == "COMPLETED" })
	if r.Result != "A better answer." {
		t.Errorf("the run ended: %+v", r)
	}

	page := body(t, s.url+"/runs/"+started.PlanID)
	code, shown, errs := actlog(t, "show", started.PlanID, "--server", s.url)
	if code != 0 {
		t.Errorf("show: %d %s", code, errs)
	}

	for where, has := range map[string]struct {
		text  string
		wants []string
	}{
		"the page":    {page, []string{"What is tea?", "writer", "A better answer."}},
		"actlog show": {shown, []string{"What is tea?", "writer", "COMPLETED"}},
	} {
		for _, want := range has.wants {
			if !strings.Contains(has.text, want) {
				t.Errorf("%s lacks %q:\n%s", where, want, has.text)
			}
		}
	}

	code, result, errs := actlog(t, "run", "--executor", "twice", "--server", s.url, "What is coffee?")
	if code != 0 || result != "A better answer.\n" {
		t.Errorf("run: %d %q %s", code, result, errs)
	}
}
