//go:build clients

package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/mcp"
	"github.com/actlog/actlog/agent/tool"
)

// install copies the servers of other people into a folder of the test, with their packages from
// the lock files.
func install(t *testing.T, program string, commands ...[]string) (dir string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(program + " is not installed")
		}
		t.Skip(program + " is not installed")
	}

	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "servers"))); err != nil {
		t.Fatal(err)
	}

	for _, args := range commands {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
	}
	return dir
}

// answered is what a tool is called with, and what its result must have.
type answered struct {
	name, arguments, want string
	failed                bool
}

func (a answered) check(t *testing.T, set *tool.Set, c tool.Call) {
	t.Helper()
	c.ID, c.Arguments = "call-7", json.RawMessage(a.arguments)
	if r, err := call(t.Context(), t, set, a.name, c); err != nil || r.Failed != a.failed ||
		!strings.Contains(r.Text, a.want) {
		t.Errorf("%s %s: %+v, %v; want %q", a.name, a.arguments, r, err, a.want)
	}
}

// The reference servers of the protocol's authors, in TypeScript.
func TestServersFromNPM(t *testing.T) {
	t.Parallel()
	dir := install(t, "npm", []string{
		"npm", "ci", "--loglevel=error", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline",
	})

	bin := filepath.Join(dir, "node_modules", ".bin")
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "a.txt"), []byte("content of a"), 0o644); err != nil {
		t.Fatal(err)
	}

	found, err := newPool(t, mcp.Options{}).Tools(t.Context(), map[string]mcp.Server{
		"everything": {Command: []string{filepath.Join(bin, "mcp-server-everything")}},
		"files": {
			Command: []string{filepath.Join(bin, "mcp-server-filesystem"), folder}, Trusted: true,
			Exclude: []string{"move_file"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	set, err := tool.NewSet(found...)
	if err != nil {
		t.Fatal(err)
	}

	ask := tool.Call{Ask: func(_ context.Context, q tool.Question) (tool.Answer, error) {
		if q.From != "everything" || !strings.Contains(string(q.Schema), `"email"`) {
			t.Errorf("asked %+v", q)
		}
		return tool.Answer{Decision: tool.Accept, Values: map[string]any{"name": "Ada"}}, nil
	}}
	for _, a := range []answered{
		{"everything-echo", `{"message":"hello"}`, "hello", false},
		{"everything-echo", `{}`, "message", true},
		{"everything-get-sum", `{"a":2,"b":3}`, "5", false},
		{"everything-get-tiny-image", `{}`, "[image, image/png,", false},
		{"everything-get-structured-content", `{"location":"New York"}`, "temperature", false},
		{"everything-get-resource-links", `{"count":2}`, "demo://resource/", false},
		{"everything-trigger-elicitation-request", `{}`, "Ada", false},
		{"files-read_text_file", `{"path":"` + folder + `/a.txt"}`, "content of a", false},
		{"files-read_text_file", `{"path":"/etc/passwd"}`, "denied", true},
	} {
		a.check(t, set, ask)
	}

	for name, want := range map[string]tool.Policy{
		"files-read_text_file": {OnUnknown: tool.Retry, Timeout: mcp.DefaultTimeout},
		"files-edit_file":      {Writes: true, Approval: true, Timeout: mcp.DefaultTimeout},
		"everything-echo":      {Writes: true, Approval: true, Timeout: mcp.DefaultTimeout},
	} {
		if one, ok := set.Get(name); !ok || one.Spec().Policy != want {
			t.Errorf("%s: %+v, want %+v", name, one, want)
		}
	}
	if _, ok := set.Get("files-move_file"); ok {
		t.Error("an excluded tool is offered")
	}
}

// A server made with the Python SDK.
func TestServerInPython(t *testing.T) {
	t.Parallel()
	dir := install(t, "python3", []string{"python3", "-m", "venv", "venv"},
		[]string{
			"venv/bin/python", "-m", "pip", "install", "--quiet", "--require-hashes", "--requirement", "requirements.txt",
		})
	set := tools(t, newPool(t, mcp.Options{}), "py", mcp.Server{
		Command: []string{filepath.Join(dir, "venv", "bin", "python"), filepath.Join(dir, "server.py")},
	})

	ask := tool.Call{Ask: func(context.Context, tool.Question) (tool.Answer, error) {
		return tool.Answer{Decision: tool.Accept, Values: map[string]any{"color": "red"}}, nil
	}}
	calls := []answered{
		{"py-add", `{"a":2,"b":3}`, "5", false},
		{"py-add", `{"a":"two","b":3}`, "Bad arguments: a: ", true},
		{"py-call_id", `{}`, "call-7", false},
		{"py-ask", `{}`, "red", false},
	}
	for _, a := range calls {
		a.check(t, set, ask)
	}

	sleep, _ := set.Get("py-sleep")
	if _, err := tool.Do(t.Context(), sleep, tool.Policy{Writes: true, Timeout: 100 * time.Millisecond}, tool.Call{},
		0); !errors.Is(err, tool.ErrUnknown) {
		t.Errorf("%v, want an unknown outcome", err)
	}

	kill(t, must(t, set, "py-pid", "").Text)
	for range 1000 { // until the end of the process is seen
		if _, err := call(t.Context(), t, set, "py-pid", tool.Call{}); err == nil {
			break
		}
	}
	calls[0].check(t, set, ask)
}
