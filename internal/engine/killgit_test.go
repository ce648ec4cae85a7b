package engine_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/config"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/git"
	"github.com/actlog/actlog/internal/enginetest"
	"github.com/actlog/actlog/internal/scriptmodel"
	"github.com/actlog/actlog/record"
)

// worked is what a run that uses git leaves in its repository, and in the bare one that it pushes to.
const worked = "main: First\n+ Add b\n+ Add c\nbranches: main topic\nchecked out: main\nstashes: 1\npushed: Add c\n"

// gitHouse is a house whose agent works in a repository.
func gitHouse(t *testing.T) (h *enginetest.House, state func() string) {
	t.Helper()
	dir, remote := t.TempDir(), filepath.Join(t.TempDir(), "remote.git")
	run := func(arguments ...string) string {
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "git", append([]string{"-c", "user.name=T", "-c", "user.email=t@example.org"}, arguments...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", arguments, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run("init", "--quiet", "--initial-branch=main")
	run("add", "a.txt")
	run("commit", "--quiet", "-m", "First")
	run("clone", "--quiet", "--bare", ".", remote)
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("stashed\n"), 0o644); err != nil {
		t.Fatal(err)
	}

	tools, err := git.Tools(dir, git.Options{Write: true, Name: "Ada", Email: "ada@example.org", Remotes: map[string]git.Remote{"origin": {URL: "file://" + remote}}})
	if err != nil {
		t.Fatal(err)
	}
	// Nothing times out on a machine that is busy with other tests.
	patient := tool.Rules{{Tools: "git.*", Timeout: new(5 * time.Minute)}}
	one := func(name string, arguments object) []scriptmodel.ToolCall {
		return []scriptmodel.ToolCall{call(name, arguments)}
	}
	h = build(t, []scriptmodel.Scene{{Name: "s", Turns: calls(
		one("git.stash", object{"action": "push"}),
		one("git.checkout", object{"branch": "topic", "create": true}),
		one("git.commit", object{"message": "Add b", "files": []string{"b.txt"}}),
		one("git.add", object{"files": []string{"c.txt"}}),
		one("git.commit", object{"message": "Add c"}),
		one("git.push", object{}),
		one("git.checkout", object{"branch": "main"}),
		terminate("done"),
	)}}, map[string]config.Definition{"a": {Tools: []string{"git.*"}, Policies: patient}}, tools)
	return h, func() string {
		var b strings.Builder
		fmt.Fprintf(&b, "main: %s\n", run("log", "--format=%s", "main"))
		for line := range strings.Lines(run("log", "--reverse", "--format=%s", "main..topic")) {
			fmt.Fprintf(&b, "+ %s\n", strings.TrimSpace(line))
		}
		fmt.Fprintf(&b, "branches: %s\n", strings.Join(strings.Fields(run("branch", "--format=%(refname:short)")), " "))
		fmt.Fprintf(&b, "checked out: %s\nstashes: %d\n", run("branch", "--show-current"), len(strings.Fields(run("stash", "list", "--format=%H"))))
		fmt.Fprintf(&b, "pushed: %s\n", run("--git-dir="+remote, "log", "-1", "--format=%s", "topic"))
		return b.String()
	}
}

// Whenever the worker is killed, each change to a repository is made once, and none is lost.
func TestGitKilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	enginetest.AtEveryWrite(t, func(t *testing.T, disturb func(*enginetest.House)) string {
		t.Helper()
		h, state := gitHouse(t)
		disturb(h)
		ctx, cancel := context.WithCancel(t.Context())
		var answering sync.WaitGroup
		answering.Go(func() { answer(ctx, h) })
		defer func() { cancel(); answering.Wait() }()
		h.Work(h.Engine)
		p := h.Await(h.Start("a", "Work."), record.Completed)
		for _, c := range h.Step(p).Cycles {
			for _, each := range c.ToolCalls {
				if *each.Record.State != record.Completed {
					t.Errorf("%s is %s: %s", text(each.Record.Name), *each.Record.State, text(each.Record.Result))
				}
			}
		}
		return state()
	}, func(t *testing.T, got, _ string) {
		t.Helper()
		if got != worked {
			t.Errorf("it came to another end:\n%swant\n%s", got, worked)
		}
	})
}
