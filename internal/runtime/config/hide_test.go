package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/config"
)

// No tool of a folder reads, finds, writes or commits the server's data, its keys and its configuration, whatever is
// allowed, and whatever name leads to them.
func TestToolsDoNotReachTheServer(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	dir, elsewhere := filepath.Join(outside, "real"), filepath.Join(outside, "elsewhere")
	const text = "package hunter2\n\nfunc hunter2() {}\n"
	own := []string{"conf/keys.go", "data/postgres/hunter.go", "actlog.yaml"}
	for _, name := range append(own, "mine.go", "elsewhere.go") {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	git := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git",
			append([]string{"-C", dir, "-c", "user.name=T", "-c", "user.email=t@example.org"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", args, out)
		}
		return string(out)
	}
	git("init", "--quiet")
	git("add", "actlog.yaml")
	git("commit", "--quiet", "-m", "Begin")

	// Links in the folder and to it, a link to what is hidden, and another name of it.
	for link, target := range map[string]string{
		filepath.Join(outside, "link"): dir, filepath.Join(dir, "soft.go"): "conf/keys.go",
		filepath.Join(dir, "softly"): "data",
		elsewhere:                    filepath.Join(dir, "elsewhere.go"),
	} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(dir, "conf", "keys.go"), filepath.Join(dir, "hard.go")); err != nil {
		t.Fatal(err)
	}
	own = append(own, "soft.go", "softly/postgres/hunter.go", "hard.go", "elsewhere.go", "Conf/../conf/keys.go",
		"data/new.go", "data", "not/yet", "not/yet/there")

	configuration := `toolsets:
  files: {root: ROOT, enableWrite: true, allow: ["*", "/data/", conf/keys.go]}
  git: {root: ROOT, enableWrite: true, name: T, email: t@example.org, allow: ["*"]}
  code: {root: ROOT, enableWrite: true, allow: ["*"]}
  search: {root: ROOT, allow: ["*"]}
`

	for _, roots := range [][2]string{
		{dir, dir}, {filepath.Join(outside, "link"), dir}, {dir, filepath.Join(outside, "link")},
	} {
		root, at := roots[0], roots[1] // where the tools are, and where what is hidden is said to be
		c, err := config.Parse(filepath.Join(at, "actlog.yaml"), []byte(strings.ReplaceAll(configuration, "ROOT", root)),
			config.Options{
				Hide: []string{
					filepath.Join(at, "conf", "keys.go"), filepath.Join(at, "data"), elsewhere, filepath.Join(at, "not", "yet"),
				},
			})
		if err != nil {
			t.Fatal(err)
		}

		parts, err := c.Open()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(parts.Close)

		tools := map[string]tool.Tool{}
		for _, each := range parts.Tools {
			tools[each.Spec().Name] = each
		}
		call := func(name string, in map[string]any) tool.Result {
			t.Helper()
			arguments, err := json.Marshal(in)
			if err != nil {
				t.Fatal(err)
			}
			got, err := tool.Do(t.Context(), tools[name], tools[name].Spec().Policy, tool.Call{Arguments: arguments}, 0)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}

		for _, path := range own {
			for name, in := range map[string]map[string]any{
				"files.read_file":  {"path": path},
				"files.write_file": {"path": path, "content": "theirs"},
				"files.edit_file":  {"path": path, "search": "package", "replace": "theirs"},
				"files.edit_lines": {"path": path, "start_line": 1, "end_line": 1, "text": "theirs",
					"first_line": "package hunter2"},
				"files.append_file": {"path": path, "content": "theirs"},
				"files.delete_file": {"path": path},
				"files.move_file":   {"from": path, "to": "theirs"},
				"files.file_info":   {"path": path},
				"code.apply_refactoring": {
					"patch": fmt.Sprintf("--- a/%s\n+++ b/%[1]s\n@@ -1,1 +1,1 @@\n-package hunter2\n+theirs\n", path),
				},
				"code.analyze_complexity": {"path": path},
				"git.commit":              {"message": "Theirs", "files": []string{path}},
			} {
				fine := name == "code.analyze_complexity" || name == "git.commit" && path == "soft.go" // a link is committed as one
				if got := call(name, in); !got.Failed && !fine || strings.Contains(got.Text, "hunter2") {
					t.Errorf("%s %s: %+v", name, path, got)
				}
			}
		}

		git("reset", "--quiet")
		for name, in := range map[string]map[string]any{
			"files.search_in_files": {"pattern": "hunter2"}, "code.analyze_complexity": {},
			"search.search_code": {"query": "hunter2"},
		} {
			got := call(name, in)
			for _, path := range own {
				if strings.Contains(got.Text, path+":") || !strings.Contains(got.Text, "mine.go") {
					t.Errorf("%s finds %s: %+v", name, path, got)
				}
			}
		}
		if got := call("files.list_files", map[string]any{}); !strings.Contains(got.Text, "actlog.yaml") {
			t.Errorf("names: %+v", got)
		}
	}

	checkServersFiles(t, dir, text)
}

func checkServersFiles(t *testing.T, dir, text string) {
	t.Helper()
	for _, name := range []string{"conf/keys.go", "data/postgres/hunter.go", "actlog.yaml", "elsewhere.go", "hard.go"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != text {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"data/new.go", "not/yet"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// git shows no change of what is the server's own, and commits none: not as part of a folder, nor because it is staged.
func TestGitDoesNotReachTheServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(files map[string]string) {
		t.Helper()
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}

	git := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git",
			append([]string{"-C", dir, "-c", "user.name=T", "-c", "user.email=t@example.org"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", args, out)
		}
		return string(out)
	}

	text := `toolsets: {git: {enableWrite: true, name: T, email: t@example.org, allow: ["*"]}}`
	write(map[string]string{"actlog.yaml": text, "mine": "1\n"})
	git("init", "--quiet")
	git("add", ".")
	git("commit", "--quiet", "-m", "Begin")
	write(map[string]string{"actlog.yaml": text + " # hunter2", "mine": "2\n", "keys": "hunter2"})

	c, err := config.Parse(filepath.Join(dir, "actlog.yaml"), []byte(text), config.Options{
		Hide: []string{filepath.Join(dir, "keys")},
	})
	if err != nil {
		t.Fatal(err)
	}
	parts, err := c.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(parts.Close)

	call := func(name, arguments string) tool.Result {
		t.Helper()
		i := slices.IndexFunc(parts.Tools, func(each tool.Tool) bool { return each.Spec().Name == name })
		got, err := tool.Do(t.Context(), parts.Tools[i], parts.Tools[i].Spec().Policy,
			tool.Call{Arguments: json.RawMessage(arguments)}, 0)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}

	for _, arguments := range []string{`{}`, `{"path": "actlog.yaml"}`, `{"revision": "HEAD"}`} {
		if got := call("git.diff", arguments); strings.Contains(got.Text, "hunter2") ||
			!strings.Contains(got.Text, "(actlog.yaml differs, and is not shown") {
			t.Errorf("%s: %+v", arguments, got)
		}
	}
	if got := call("git.commit", `{"message": "All", "files": ["."]}`); got.Failed {
		t.Errorf("call = %+v", got)
	}
	if got := git("show", "--format=", "--name-only", "HEAD"); got != "mine\n" {
		t.Errorf("committed %q", got)
	}

	git("add", "actlog.yaml", "keys")
	for _, arguments := range []string{`{"message": "Staged"}`, `{"message": "All", "files": ["."]}`} {
		if got := call("git.commit", arguments); !got.Failed || !strings.Contains(got.Text, "the server's own") {
			t.Errorf("%s: %+v", arguments, got)
		}
	}
}

// Each of those that lack the same is named with its key.
func TestUnprotectedNames(t *testing.T) {
	t.Parallel()
	c, err := config.Parse(filepath.Join(t.TempDir(), "actlog.yaml"),
		[]byte(`mcpServers: {m: {command: [x], sandbox: "off"}}
toolsets: {tests: {a: [x], b: [x], sandbox: "off"}}
`), config.Options{})
	if err != nil {
		t.Fatal(err)
	}

	keys := map[string]bool{}
	for _, line := range c.Unprotected() {
		names, _, _ := strings.Cut(line, ": ")
		for name := range strings.SplitSeq(names, ", ") {
			keys[name] = true
		}
	}

	want := []string{"mcpServers.m.sandbox", "toolsets.tests.a.sandbox", "toolsets.tests.b.sandbox"}
	if os.Geteuid() != 0 { // only root's programs lack something where the sandbox is off
		want = nil
	}
	if got := slices.Sorted(maps.Keys(keys)); !slices.Equal(got, want) {
		t.Errorf("lacking: %q, want %q", got, want)
	}
}
