package shell_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/actlog/actlog/agent/sandbox"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/shell"
	"github.com/actlog/actlog/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script writes an executable file.
func script(t *testing.T, dir, name, text string) {
	t.Helper()
	err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o700) //nolint:gosec // it is run
	if err != nil {
		t.Fatal(err)
	}
}

func only(t *testing.T, c shell.Command) tool.Tool {
	t.Helper()
	all, err := shell.Tools(c)
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

func do(t *testing.T, one tool.Tool, arguments string) (tool.Result, error) {
	t.Helper()
	call := tool.Call{ID: "call-1", Arguments: json.RawMessage(arguments)}
	policy := one.Spec().Policy

	p, can, err := tool.PreviewOf(t.Context(), one, policy, call)
	switch {
	case err != nil:
		return tool.Failure(err.Error()), nil
	case !can:
		t.Fatal("it shows nothing before it runs")
	}
	call.Approved = p.Digest
	return tool.Do(record.ContextWithStartedBy(t.Context(), record.StartedBy{PlanID: "p", ToolCallID: "c"}), one, policy,
		call, 0)
}

// A command runs with its arguments as they are; the output and the exit code come back.
func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script(t, dir, "show",
		"printf '<%s>' \"$@\"; echo; echo $OWN $ACTLOG_PLAN_ID $ACTLOG_TOOL_CALL_ID; pwd; echo oh >&2; exit 3")
	one := only(t, shell.Command{Name: "show", Dir: dir, Arguments: []string{"./show", "a b"}, Allow: `[a-z $();'"*]+`,
		Env: map[string]string{"OWN": "mine"}})

	if spec := one.Spec(); spec.Name != "shell.show" || !spec.Policy.Approval || !spec.Policy.Writes ||
		!spec.Policy.Exclusive {
		t.Errorf("spec = %+v", spec)
	}

	result, err := do(t, one, `{"arguments": ["$(id); 'x' *", "y"]}`)
	if err != nil || !result.Failed {
		t.Fatalf("do = %v, %v", result, err)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}

	want := "show ended with exit code 3.\n<a b><$(id); 'x' *><y>\nmine p c\n" + real + "\noh\n"
	if result.Text != want {
		t.Errorf("result.Text = %q, want %q", result.Text, want)
	}
	if !strings.HasPrefix(string(result.Data), `{"command":["./show","a b","$(id); 'x' *","y"],"exitCode":3`) {
		t.Errorf("result.Data = %s", result.Data)
	}
}

// Whoever approves a command sees every argument for what it is, and that is what runs.
func TestPreview(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one := only(t, shell.Command{Name: "make", Dir: dir, Arguments: []string{"make", "-s"}, Allow: `.+`})
	call := tool.Call{Arguments: json.RawMessage(`{"arguments": ["a b", "c", "\u202eevil", "x;y"]}`)}
	p, _, err := tool.PreviewOf(t.Context(), one, one.Spec().Policy, call)
	if want := `make -s "a b" c "\u202eevil" "x;y"`; err != nil || p.Text != want || p.Kind != tool.PreviewCommand {
		t.Errorf("p.Text = %q, %v", p.Text, err)
	}

	call.Approved, call.Arguments = p.Digest, json.RawMessage(`{"arguments": ["a", "b", "c"]}`)
	if result, err := tool.Do(t.Context(), one, one.Spec().Policy, call, 0); err != nil ||
		result.Text != tool.ErrChanged.Error() {
		t.Errorf("result.Text = %q, %v", result.Text, err)
	}
}

// Arguments that the command does not allow are refused, and nothing runs.
func TestArguments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script(t, dir, "run", "touch ran")
	c := shell.Command{Name: "run", Dir: dir, Arguments: []string{"./run"}, Allow: `[a-z@-]+`}
	for arguments, want := range map[string]string{
		`{"arguments": ["-rf"]}`: "begins with - or @", `{"arguments": ["@file"]}`: "begins with - or @",
		`{"arguments": ["a1"]}`:   "does not match [a-z@-]+",
		`{"arguments": ["a\nb"]}`: "control character", `{"arguments": ["` + strings.Repeat("a", 1001) +
			`"]}`: "more than 1000 bytes",
		`{"arguments": ["a` + strings.Repeat(`","a`, 50) + `"]}`: "more than 50", `{"arguments": "a"}`: "arguments",
		`{"command": ["a"]}`: "command",
	} {
		if result, err := do(t, only(t, c), arguments); err != nil || !result.Failed || !strings.Contains(result.Text, want) {
			t.Errorf("%.60s: %q, %v", arguments, result.Text, err)
		}
	}

	c.Allow = ""
	if result, err := do(t, only(t, c), `{"arguments": ["a"]}`); err != nil || !result.Failed {
		t.Errorf("result.Text = %q, %v", result.Text, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("it ran")
	}

	c.Allow, c.AllowOptions = "-[a-z]+", true
	if result, err := do(t, only(t, c), `{"arguments": ["-rf"]}`); err != nil || result.Failed {
		t.Errorf("result.Text = %q, %v", result.Text, err)
	}
}

// The beginning and the end of a long output are kept.
func TestOutput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script(t, dir, "long", "echo begin; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end")

	result, err := do(t, only(t, shell.Command{Name: "long", Dir: dir, Arguments: []string{"./long"}}), `{}`)
	if err != nil || len(result.Text) > 64<<10 || !strings.Contains(result.Text, "\nbegin\nxxx") ||
		!strings.HasSuffix(result.Text, "xxx\nend\n") ||
		!strings.Contains(result.Text, "bytes left out") {
		t.Errorf("%d bytes: %.50q, %v", len(result.Text), result.Text, err)
	}
}

// A command that takes too long is ended with all that it started, and nobody knows what it did.
func TestTimeout(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script(t, dir, "slow", "(sleep 3; touch late) & sleep 60")

	begun := time.Now()
	_, err := do(t, only(t,
		shell.Command{Name: "slow", Dir: dir, Arguments: []string{"./slow"}, Timeout: 500 * time.Millisecond}), `{}`)
	if !errors.Is(err, tool.ErrUnknown) || time.Since(begun) > 30*time.Second {
		t.Errorf("do = %v after %s", err, time.Since(begun))
	}

	time.Sleep(4*time.Second - min(time.Since(begun), 4*time.Second))
	if _, err := os.Stat(filepath.Join(dir, "late")); err == nil {
		t.Error("what it started went on")
	}
}

// The command gets no secret of this process, and does not read outside of its folder where there is a sandbox.
func TestSecrets(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "hunter2")
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}

	script(t, dir, "look", "env; cat /proc/$PPID/environ; cat "+outside+"; true")
	c := shell.Command{Name: "look", Dir: dir, Arguments: []string{"./look"},
		Sandbox: sandbox.Sandbox{Hide: []string{outside}}}
	if c.Sandbox.Lacks() != "" {
		t.Log("no whole sandbox here: ", c.Sandbox.Lacks())
		script(t, dir, "look", "env")
	}

	if result, err := do(t, only(t, c), `{}`); err != nil || strings.Contains(result.Text, "hunter2") {
		t.Errorf("result.Text = %q, %v", result.Text, err)
	}
}

// A command without approval runs at once; one that cannot run is an error of the configuration.
func TestCommands(t *testing.T) {
	t.Parallel()
	one := only(t, shell.Command{Name: "ls", Dir: t.TempDir(), Arguments: []string{"ls"}, NoApproval: true})
	if one.Spec().Policy.Approval {
		t.Error("it asks")
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tool.Do(ctx, one, one.Spec().Policy, tool.Call{}, 0); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}

	for want, c := range map[string]shell.Command{
		"a: command: it has no program":             {Name: "a"},
		"a: arguments: it is no regular expression": {Name: "a", Arguments: []string{"ls"}, Allow: "("},
		"a: sandbox: ": {Name: "a", Arguments: []string{"ls"}, Sandbox: sandbox.Sandbox{Mode: "none"}},
	} {
		if _, err := shell.Tools(c); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("shell.Tools(c) = %v, want %s", err, want)
		}
	}

	missing := only(t, shell.Command{Name: "a", Dir: t.TempDir(), Arguments: []string{"./missing"}})
	if result, err := do(t, missing, "{}"); err != nil || !result.Failed ||
		!strings.HasPrefix(result.Text, "the command cannot be run") {
		t.Errorf("result.Text = %q, %v", result.Text, err)
	}
}
