package git_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/git"
)

// TestMain checks that no call leaves a folder that it made for git, also if it was refused.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "actlog-git-tests-")
	if err == nil {
		err = os.Setenv("TMPDIR", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}

	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if left, _ := filepath.Glob(filepath.Join(dir, "actlog-git-*")); len(left) > 0 { // the pattern is right
			fmt.Fprintf(os.Stderr, "%d folders were left, the first is %s\n", len(left), left[0])
			code = 1
		}
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// repository is one of a test with the tools for it.
type repository struct {
	dir string
	set *tool.Set
}

// open makes a repository with one commit.
func open(t *testing.T) repository {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("git is not installed")
		}
		t.Skip("git is not installed")
	}

	r := repository{dir: t.TempDir()}
	tools, err := git.Tools(r.dir, git.Options{Write: true, Name: "Ada", Email: "ada@example.org"})
	if err != nil {
		t.Fatal(err)
	}
	if r.set, err = tool.NewSet(tools...); err != nil {
		t.Fatal(err)
	}

	r.git(t, "init", "--quiet", "--initial-branch=main")
	r.write(t, "a.txt", "one\ntwo\n")
	r.git(t, "add", "a.txt")
	r.git(t, "-c", "user.name=Test", "-c", "user.email=test@example.org", "commit", "--quiet", "-m", "First")
	return r
}

// git runs git as a user does.
func (r repository) git(t *testing.T, arguments ...string) string {
	t.Helper()
	out, err := gitCommand(t, r.dir, arguments...)
	if err != nil {
		t.Fatalf("git %q: %v\n%s", arguments, err, out)
	}
	return out
}

func gitCommand(t *testing.T, dir string, arguments ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", arguments...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (r repository) write(t *testing.T, name, text string) {
	t.Helper()
	at := filepath.Join(r.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func (r repository) call(t *testing.T, name string, arguments any) tool.Result {
	t.Helper()
	b, err := json.Marshal(arguments)
	if err != nil {
		t.Fatal(err)
	}
	called, ok := r.set.Get(name)
	if !ok {
		t.Fatalf("no tool %s", name)
	}

	result, err := tool.Do(t.Context(), called, called.Spec().Policy, tool.Call{ID: newID(), Arguments: b}, 0)
	if err != nil {
		t.Fatalf("%s %s: %v", name, b, err)
	}
	return result
}

var ids atomic.Int64

// newID returns the id of another call.
func newID() string { return fmt.Sprint("call-", ids.Add(1)) }

type args map[string]any

// C8, C15: the operations of git have their names; git.commit needs approval and is absent unless writing
// is enabled.
func TestTools(t *testing.T) {
	t.Parallel()
	r := open(t)
	read := []string{"git.status", "git.diff", "git.log", "git.show", "git.blame", "git.branches", "git.stashes"}
	write := []string{"git.add", "git.commit", "git.branch", "git.checkout", "git.stash"}
	remotes := map[string]git.Remote{"origin": {URL: "https://git.example.org/a/b.git"}}

	for _, tt := range []struct {
		options git.Options
		want    []string
	}{
		{git.Options{}, read},
		{git.Options{Remotes: remotes}, read},
		{git.Options{Write: true}, slices.Concat(read, write)},
		{git.Options{Write: true, Remotes: remotes}, slices.Concat(read, write, []string{"git.pull", "git.push"})},
	} {
		tools, err := git.Tools(r.dir, tt.options)
		if err != nil {
			t.Fatal(err)
		}
		set, err := tool.NewSet(tools...)
		if err != nil || !cmp.Equal(set.Names(), tt.want) {
			t.Errorf("%+v: %v, %v; want %v", tt.options, set.Names(), err, tt.want)
		}

		for _, each := range tools {
			spec := each.Spec()
			writes := !slices.Contains(read, spec.Name)
			if spec.Policy.Writes != writes || spec.Policy.Approval != writes || spec.Policy.Timeout == 0 ||
				spec.Policy.OnUnknown != tool.Retry {
				t.Errorf("%s: %+v", spec.Name, spec.Policy)
			}
			if _, touches := each.(tool.Toucher); touches != writes {
				t.Errorf("%s: Toucher %v", spec.Name, touches)
			}
		}
	}

	if _, err := git.Tools(r.dir, git.Options{Name: "Ada"}); err == nil {
		t.Error("a name without an email is accepted")
	}
}

func TestAbsentWithoutGit(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if tools, err := git.Tools(t.TempDir(), git.Options{Write: true}); err != nil || len(tools) > 0 {
		t.Errorf("tools = %v, %v", tools, err)
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	r := open(t)
	if got := r.call(t, "git.status", args{}); got.Failed || got.Text != "Branch: main\nNothing changed.\n" {
		t.Errorf("r.call = %+v", got)
	}

	odd := "with space\n\x1b[31mred\t.txt"
	r.write(t, odd, "x")
	r.write(t, "staged.txt", "x")
	r.git(t, "add", "staged.txt")
	r.write(t, "a.txt", "changed\n")

	got := r.call(t, "git.status", args{})
	want := "Branch: main\n.M a.txt\nA. staged.txt\n?? \"with space\\n\\x1b[31mred\\t.txt\"\n"
	if got.Failed || got.Text != want {
		t.Errorf("got.Text = %q, want %q", got.Text, want)
	}

	var data struct {
		Files []struct{ Path, Change string }
	}
	if err := json.Unmarshal(got.Data, &data); err != nil || len(data.Files) != 3 || data.Files[2].Path != odd {
		t.Errorf("got.Data = %s, %v", got.Data, err)
	}

	r.git(t, "-c", "user.name=T", "-c", "user.email=t@example.org", "commit", "--quiet", "-am", "Second")
	r.git(t, "mv", "a.txt", "moved.txt")
	r.git(t, "checkout", "--quiet", "--detach")
	if got := r.call(t, "git.status", args{}); !strings.Contains(got.Text, "R. moved.txt (from a.txt)") ||
		!strings.Contains(got.Text, "none: a commit") {
		t.Errorf("got.Text = %q", got.Text)
	}

	none := repository{t.TempDir(), nil}
	tools, err := git.Tools(none.dir, git.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if none.set, err = tool.NewSet(tools...); err != nil {
		t.Fatal(err)
	}
	if got := none.call(t, "git.status", args{}); !got.Failed || got.Text != "the folder has no git repository" {
		t.Errorf("none.call = %+v", got)
	}
}

func TestDiffAndLog(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.write(t, "a.txt", "one\nthree\n")
	r.write(t, "dir/b.txt", "b\n")
	r.git(t, "add", "dir")

	for _, tt := range []struct {
		in            args
		want, without string
	}{
		{args{}, "-two\n+three", "b.txt"},
		{args{"staged": true}, "+b", "three"},
		{args{"revision": "HEAD"}, "+three", "nothing"},
		{args{"revision": "HEAD", "path": "dir"}, "+b", "three"},
		{args{"path": "none"}, "Nothing differs.", "+"},
	} {
		if got := r.call(t, "git.diff", tt.in); got.Failed || !strings.Contains(got.Text, tt.want) ||
			strings.Contains(got.Text, tt.without) {
			t.Errorf("%v: %+v", tt.in, got)
		}
	}

	for _, tt := range []struct {
		tool string
		in   args
		want string
	}{
		{"git.diff", args{"revision": "--output=/tmp/x"}, "revision"},
		{"git.diff", args{"revision": "-O/etc/passwd"}, "revision"},
		{"git.diff", args{"revision": "HEAD:a.txt"}, "revision"},
		{"git.diff", args{"path": "../x"}, "path"},
		{"git.diff", args{"path": "/etc/passwd"}, "path"},
		{"git.diff", args{"revision": "nobody"}, "nobody"},
		{"git.log", args{"revision": "--all"}, "revision"},
		{"git.log", args{"path": ".."}, "path"},
		{"git.log", args{"max_count": "all"}, "max_count"},
	} {
		if got := r.call(t, tt.tool, tt.in); !got.Failed || !strings.Contains(got.Text, tt.want) {
			t.Errorf("%s %v: %+v", tt.tool, tt.in, got)
		}
	}

	got := r.call(t, "git.log", args{})
	if got.Failed || !strings.Contains(got.Text, " Test: First\n") || len(got.Sources) != 1 ||
		len(got.Sources[0].URI) != 40 || got.Sources[0].Type != "COMMIT" {
		t.Errorf("r.call = %+v", got)
	}
	// Paths are literal: this is no pattern that matches everything.
	if got := r.call(t, "git.log", args{"path": ":(top)"}); got.Failed || len(got.Sources) > 0 {
		t.Errorf("r.call = %+v", got)
	}

	r.write(t, "a.txt", strings.Repeat("0123456789abcdef\n", 200_000))
	if got := r.call(t, "git.diff", args{}); got.Failed || len(got.Text) > tool.MaxText ||
		!strings.Contains(got.Text, "name a path") {
		t.Errorf("%d bytes: %q", len(got.Text), got.Text[len(got.Text)-200:])
	}
}

func TestCommit(t *testing.T) {
	t.Parallel()
	r := open(t)
	if got := r.call(t, "git.commit", args{"message": "Nothing"}); !got.Failed ||
		!strings.Contains(got.Text, "nothing to commit") {
		t.Errorf("r.call = %+v", got)
	}

	r.write(t, "staged", "x")
	r.git(t, "add", "staged")
	r.write(t, "-option", "x")
	r.write(t, "other", "x")
	if err := os.Remove(filepath.Join(r.dir, "a.txt")); err != nil {
		t.Fatal(err)
	}

	commit, _ := r.set.Get("git.commit")
	for arguments, want := range map[string][]string{
		`{"message":"m"}`: {"staged"}, `{"message":"m","files":["other"]}`: {"other"},
	} {
		if got, err := commit.(tool.Toucher).Touches(
			t.Context(), tool.Call{Arguments: json.RawMessage(arguments)},
		); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s touches %v, %v; want %v", arguments, got, err, want)
		}
	}

	message := "#1: \"quoted\" $(touch evil) `x`\n\n# not a comment\n-- body\n"
	got := r.call(t, "git.commit", args{"message": message, "files": []string{"-option", "a.txt"}})
	if got.Failed || got.Artifacts[0].Name != "commit" || got.Sources[0].Type != "COMMIT" {
		t.Fatalf("r.call = %+v", got)
	}

	want := got.Sources[0].URI + "|Ada|ada@example.org|Ada|" + message + "\nActlog-Call: call-"
	if shown := r.git(t, "log", "-1", "--format=%H|%an|%ae|%cn|%B"); !strings.HasPrefix(shown, want) {
		t.Errorf("shown = %q, want %q", shown, want)
	}
	if names := r.git(t, "show", "--format=", "--name-status"); names != "A\t-option\nD\ta.txt\n" {
		t.Errorf("committed %q", names)
	}
	if got := r.call(t, "git.commit", args{"message": "Staged"}); got.Failed ||
		r.git(t, "show", "--format=", "--name-only") != "staged\n" {
		t.Errorf("r.call = %+v", got)
	}

	for _, tt := range []struct {
		in   args
		want string
	}{
		{args{"message": " \n"}, "message"},
		{args{"files": []string{"other"}}, "message"},
		{args{"message": "m", "files": []string{"other", "../x"}}, "files[1]"},
		{args{"message": "m", "files": []string{"none"}}, "none"},
		{args{"message": "m", "files": []string{".git/config"}}, ""},
		{args{"message": "m", "files": []string{"*"}}, "*"},
	} {
		if got := r.call(t, "git.commit", tt.in); !got.Failed || !strings.Contains(got.Text, tt.want) {
			t.Errorf("%v: %+v", tt.in, got)
		}
	}
}

// Nothing that a hostile repository configures runs.
func TestHostileRepository(t *testing.T) {
	t.Parallel()
	r := open(t)
	marker := filepath.Join(t.TempDir(), "ran")
	script := filepath.Join(t.TempDir(), "evil.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho \"$0 $*\" >> "+marker+"\ncat\n"), 0o755); err != nil {
		t.Fatal(err)
	}

	hostile := func(at repository) {
		hooks := filepath.Join(at.dir, ".git", "hooks")
		for _, hook := range []string{
			"pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-index-change", "reference-transaction",
			"pre-auto-gc", "fsmonitor-watchman", "post-rewrite",
		} {
			b, err := os.ReadFile(script)
			if err := errors.Join(err, os.MkdirAll(hooks, 0o755),
				os.WriteFile(filepath.Join(hooks, hook), b, 0o755)); err != nil {
				t.Fatal(err)
			}
		}

		included := filepath.Join(at.dir, ".git", "more")
		if err := os.WriteFile(included,
			[]byte("[filter \"In.cluded=x\"]\n\tclean = "+script+"\n\tsmudge = "+script+"\n\trequired = true\n"),
			0o644); err != nil {
			t.Fatal(err)
		}

		for key, value := range map[string]string{
			"core.fsmonitor": script, "core.hooksPath": hooks, "core.pager": script, "pager.diff": script, "pager.log": script,
			"core.editor": script, "sequence.editor": script,
			"core.sshCommand": script, "core.askPass": script, "core.alternateRefsCommand": script, "core.gitProxy": script,
			"credential.helper": "!" + script,
			"diff.external":     script, "diff.evil.command": script, "diff.evil.textconv": script,
			"diff.evil.cachetextconv": "true",
			"filter.evil.clean":       script, "filter.evil.smudge": script, "filter.evil.process": script,
			"filter.evil.required": "true",
			"merge.evil.driver":    script, "gpg.program": script, "gpg.ssh.program": script, "commit.gpgSign": "true",
			"log.showSignature": "true", "user.signingKey": "x",
			"core.worktree": filepath.Dir(script), "include.path": included, "alias.status": "!" + script,
			"alias.diff": "!" + script, "alias.log": "!" + script, "alias.commit": "!" + script,
			"interactive.diffFilter": script, "status.submoduleSummary": "true", "diff.submodule": "log",
			"submodule.recurse": "true", "gc.auto": "1", "trailer.x.command": script,
			"extensions.partialClone": "evil", "remote.evil.url": "ext::" + script, "remote.evil.promisor": "true",
			"remote.evil.uploadpack": script, "protocol.ext.allow": "always", "uploadpack.packObjectsHook": script,
		} {
			at.git(t, "config", key, value)
		}

		at.write(t, ".gitattributes", "*.txt diff=evil filter=evil merge=evil\n*.x filter=In.cluded=x\n")
		at.write(t, "a.txt", "changed\n")
		at.write(t, "b.txt", "new\n")
		at.write(t, "c.x", "new\n")
	}

	// A repository inside it, as a submodule is.
	inner := repository{filepath.Join(r.dir, "inner"), nil}
	if err := os.Mkdir(inner.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	inner.git(t, "init", "--quiet")
	inner.write(t, "a.txt", "one\n")
	inner.git(t, "add", "a.txt")
	inner.git(t, "-c", "user.name=T", "-c", "user.email=t@example.org", "commit", "--quiet", "-m", "Inner")

	r.git(t, "-c", "advice.addEmbeddedRepo=false", "add", "inner")
	r.git(t, "-c", "user.name=T", "-c", "user.email=t@example.org", "commit", "--quiet", "-m", "With a submodule")
	hostile(inner)
	hostile(r)
	if err := os.RemoveAll(marker); err != nil { // git config itself runs nothing, but be sure
		t.Fatal(err)
	}

	for _, call := range []struct {
		tool   string
		in     args
		failed bool
	}{
		{"git.status", args{}, false},
		{"git.diff", args{}, false},
		{"git.diff", args{"revision": "HEAD~1"}, false},
		{"git.log", args{}, false},
		{"git.log", args{"path": "a.txt"}, false},
		{"git.log", args{"revision": "1234567812345678123456781234567812345678"}, true}, // not there: it could be fetched
		{"git.commit", args{"message": "Changed", "files": []string{"a.txt", "b.txt", "c.x", ".gitattributes"}}, false},
		{"git.commit", args{"message": "All", "files": []string{"."}}, false},
		{"git.status", args{}, false},
	} {
		r.write(t, "d.txt", "new "+call.tool+"\n")
		got := r.call(t, call.tool, call.in)
		if got.Failed != call.failed {
			t.Errorf("%s %v: %+v", call.tool, call.in, got)
		}
		if ran, err := os.ReadFile(marker); err == nil {
			t.Errorf("%s %v ran programs of the repository:\n%s", call.tool, call.in, ran)
			os.Remove(marker)
		}
	}

	if got := r.git(t, "-c", "core.worktree="+r.dir, "-c", "core.pager=cat", "-c", "core.fsmonitor=false", "cat-file",
		"-p", "HEAD:b.txt"); !strings.Contains(got, "new") {
		t.Errorf("committed %q", got)
	}
}

// Filters that the user configured run, even if the repository says otherwise.
func TestFiltersOfTheUser(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", home)
	r := open(t)
	for name, text := range map[string]string{
		".gitconfig": "[filter \"upper\"]\n\tclean = tr a-z A-Z\n\trequired = true\n",
	} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	r.git(t, "config", "filter.upper.clean", "false")
	r.write(t, ".gitattributes", "*.up filter=upper\n")
	r.write(t, "x.up", "text\n")
	if got := r.call(t, "git.commit", args{"message": "Filtered", "files": []string{"x.up"}}); got.Failed {
		t.Fatalf("r.call = %+v", got)
	}
	if got := r.git(t, "cat-file", "-p", "HEAD:x.up"); got != "TEXT\n" {
		t.Errorf("r.git = %q", got)
	}
}

// The program gets none of our own variables.
func TestEnvironment(t *testing.T) {
	r := open(t)
	bin, dump := t.TempDir(), filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte("#!/bin/sh\n/usr/bin/env > "+dump+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	t.Setenv("OPENAI_API_KEY", "sk-planted")
	t.Setenv("GIT_DIR", "/elsewhere")
	t.Setenv("GIT_EXTERNAL_DIFF", "evil")

	tools, err := git.Tools(r.dir, git.Options{})
	if err != nil || len(tools) == 0 {
		t.Fatalf("tools = %v, %v", tools, err)
	}
	if _, err := tools[0].Call(t.Context(), tool.Call{}); err != nil {
		t.Fatal(err)
	}

	b, err := os.ReadFile(dump)
	if err != nil {
		t.Fatal(err)
	}
	env := strings.Split(string(b), "\n")
	if strings.Contains(string(b), "planted") || strings.Contains(string(b), "evil") ||
		!slices.Contains(env, fmt.Sprintf("GIT_DIR=%s", filepath.Join(r.dir, ".git"))) {
		t.Errorf("os.ReadFile(dump) = %s", b)
	}
}
