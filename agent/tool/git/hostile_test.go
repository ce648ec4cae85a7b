package git_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/git"
)

// canary is a program that leaves a mark when it runs.
type canary struct{ program, mark string }

func newCanary(t *testing.T) canary {
	t.Helper()
	c := canary{program: filepath.Join(t.TempDir(), "canary"), mark: filepath.Join(t.TempDir(), "ran")}
	script := fmt.Sprintf("#!/bin/sh\necho \"$0 $*\" >> %s\ncat\n", c.mark)
	if err := os.WriteFile(c.program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c canary) check(t *testing.T, after string) {
	t.Helper()
	if ran, err := os.ReadFile(c.mark); err == nil {
		t.Errorf("%s ran programs of the repository:\n%s", after, ran)
		os.Remove(c.mark)
	}
}

// everyKey returns the keys that the git of this machine knows. It fails if they count and name no switch, number or
// color, so a repository with them only works where its configuration is not in force.
func everyKey(t *testing.T) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "help", "--config-for-completion").Output()
	if err != nil {
		t.Fatal(err)
	}

	keys := strings.Fields(string(out))
	if len(keys) < 300 {
		t.Fatalf("git knows only %d keys", len(keys))
	}
	return keys
}

// configuration returns one in which each key that names a program names the canary, also keys of the newest git and
// such as no git knows yet, and more keys.
func (c canary) configuration(more ...string) string {
	keys := append(more,
		"alias.status", "alias.diff", "alias.log", "alias.commit", "alias.ls-files", "alias.update-index",
		"browser.evil.cmd", "core.fsmonitor", "credential.helper", "credential.https://x.helper", "diff.evil.command",
		"diff.evil.textconv",
		"difftool.evil.cmd", "filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "gpg.program",
		"gpg.ssh.program",
		"gpg.ssh.defaultKeyCommand", "gpg.x509.program", "guitool.evil.cmd", "interactive.diffFilter", "man.evil.cmd",
		"merge.evil.driver",
		"mergetool.evil.cmd", "pager.diff", "pager.log", "pager.status", "remote.evil.uploadpack", "remote.evil.receivepack",
		"remote.evil.vcs",
		"sendemail.sendmailCmd", "submodule.inner.update", "submodule.evil.update", "tar.evil.command", "trailer.evil.cmd",
		"trailer.evil.command",
		"uploadpack.packObjectsHook", "hook.evil.command", "agent.evil.run", "plugin.evil.program", "core.newHook",
		"future.command",
	)

	var text strings.Builder
	for _, key := range keys {
		key = strings.NewReplacer("<", "", ">", "", "*", "evil").Replace(key)
		section, rest, _ := strings.Cut(key, ".")
		if section == "extensions" || section == "include" || section == "includeif" ||
			strings.EqualFold(key, "core.repositoryFormatVersion") {
			continue
		}

		if at := strings.LastIndex(rest, "."); at >= 0 {
			section, rest = fmt.Sprintf("%s %q", section, rest[:at]), rest[at+1:]
		}
		if rest == "" || strings.ContainsAny(rest, "/:_") || strings.ContainsAny(section, "<") {
			continue
		}
		fmt.Fprintf(&text, "[%s]\n\t%s = %s\n", section, rest, c.program)
	}

	// Switches without which git does not get as far as to some of the programs.
	text.WriteString("[commit]\n\tgpgSign = true\n[log]\n\tshowSignature = true\n[filter \"evil\"]\n\trequired = true\n" +
		"[protocol]\n\tallow = always\n[remote \"evil\"]\n\tpromisor = true\n\turl = ext::" + c.program + "\n" +
		"[gc]\n\tauto = 1\n[maintenance]\n\tauto = true\n[status]\n\tsubmoduleSummary = true\n[diff]\n\tsubmodule = log\n" +
		"\tignoreSubmodules = none\n" +
		"[submodule]\n\trecurse = true\n[submodule \"inner\"]\n\tactive = true\n\tignore = none\n")

	for _, event := range hooks {
		fmt.Fprintf(&text, "[hook \"on-%s\"]\n\tcommand = %s\n\tevent = %s\n[hook \"evil\"]\n\tevent = %[1]s\n", event,
			c.program, event)
	}
	return text.String()
}

var hooks = []string{
	"pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-index-change", "reference-transaction",
	"pre-auto-gc", "fsmonitor-watchman",
	"post-rewrite", "post-checkout", "post-merge", "pre-merge-commit", "applypatch-msg", "sendemail-validate",
	"push-to-checkout", "update", "p4-changelist",
	"proc-receive", "post-update", "pre-receive", "post-receive", "pre-push", "pre-rebase", "pre-status", "post-status",
}

// plant makes a repository hostile in every way that is known.
func (c canary) plant(t *testing.T, r repository, keys ...string) {
	t.Helper()
	dir := filepath.Join(r.dir, ".git")
	hostile := c.configuration(keys...)
	included := filepath.Join(dir, "more")
	all := "\n" + hostile + fmt.Sprintf("[include]\n\tpath = %s\n[includeIf \"gitdir:**\"]\n\tpath = more\n"+
		"[includeIf \"onbranch:**\"]\n\tpath = %[1]s\n", included) +
		"[extensions]\n\tworktreeConfig = true\n\tpreciousObjects = true\n\tpartialClone = evil\n"

	config, err := os.OpenFile(filepath.Join(dir, "config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = config.WriteString(all)
	if err := errors.Join(err, config.Close()); err != nil {
		t.Fatal(err)
	}

	for name, text := range map[string]string{
		"more": hostile, "config.worktree": hostile, "info/attributes": "*.txt diff=evil filter=evil merge=evil\n",
		"remotes/evil": "URL: ext::" + c.program + "\n", "branches/evil": "ext::" + c.program + "\n",
	} {
		r.write(t, filepath.Join(".git", name), text)
	}
	script, err := os.ReadFile(c.program)
	if err != nil {
		t.Fatal(err)
	}
	for _, hook := range hooks {
		at := filepath.Join(dir, "hooks", hook)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, script, 0o755)); err != nil {
			t.Fatal(err)
		}
	}

	r.write(t, ".gitattributes", "*.txt diff=evil filter=evil merge=evil\n"+
		"*.bin diff=evil filter=evil working-tree-encoding=UTF-8\n*.x filter=In.cluded=x\n")
	r.write(t, ".gitmodules", "[submodule \"inner\"]\n\tpath = inner\n\turl = ext::"+c.program+"\n\tupdate = !"+c.program+
		"\n")
	r.write(t, ".lfsconfig", "[lfs]\n\turl = ext::"+c.program+"\n")
}

// S2: nothing that a hostile repository configures runs, whatever key names it and whatever the tools do: not in
// the repository, and not in a submodule of it.
func TestNoProgramOfTheRepositoryRuns(t *testing.T) {
	t.Parallel()
	t.Run("programs", func(t *testing.T) { testHostile(t, nil) })
	t.Run("every key", func(t *testing.T) { testHostile(t, everyKey(t)) })
}

func testHostile(t *testing.T, keys []string) {
	t.Helper()
	c, r := newCanary(t), open(t)
	r.write(t, "old.txt", strings.Repeat("renamed\n", 20))
	r.write(t, "a.bin", "\x00\x01")
	r.git(t, "add", ".")
	as := []string{"-c", "user.name=T", "-c", "user.email=t@example.org"}

	inner := repository{filepath.Join(r.dir, "inner"), nil}
	inner.write(t, "a.txt", "one\n")
	inner.git(t, "init", "--quiet")
	inner.git(t, "add", "a.txt")
	inner.git(t, append(as, "commit", "--quiet", "-m", "Inner")...)
	r.git(t, "-c", "advice.addEmbeddedRepo=false", "add", "inner")
	r.git(t, append(as, "commit", "--quiet", "-m", "With a submodule")...)

	r.git(t, "branch", "other")
	if err := os.Rename(filepath.Join(r.dir, "old.txt"), filepath.Join(r.dir, "new.txt")); err != nil {
		t.Fatal(err)
	}

	nested := repository{filepath.Join(r.dir, "untracked", "nested"), nil}
	nested.write(t, "a.txt", "one\n")
	nested.git(t, "init", "--quiet")
	nested.git(t, "add", "a.txt")
	nested.git(t, append(as, "commit", "--quiet", "-m", "Nested")...)

	c.plant(t, inner)
	c.plant(t, nested)
	c.plant(t, r, keys...)
	for _, each := range []repository{inner, nested, r} {
		each.write(t, "a.txt", "changed\n")
		each.write(t, "b.txt", "new\n")
		each.write(t, "c.x", "new\n")
		each.write(t, "a.bin", "\x00\x02")
	}
	if err := os.RemoveAll(c.mark); err != nil {
		t.Fatal(err)
	}

	for i, call := range []struct {
		tool   string
		in     args
		failed bool
	}{
		{"git.status", args{}, false},
		{"git.diff", args{}, false},
		{"git.diff", args{"staged": true}, false},
		{"git.diff", args{"revision": "HEAD~1"}, false},
		{"git.diff", args{"revision": "other..HEAD", "path": "a.txt"}, false},
		{"git.diff", args{"path": "inner"}, false},
		{"git.log", args{}, false},
		{"git.log", args{"path": "a.txt", "revision": "other"}, false},
		{"git.log", args{"revision": "evil/main"}, true},
		{"git.log", args{"revision": "1234567812345678123456781234567812345678"}, true}, // not there: it could be fetched
		{"git.commit", args{"message": "Changed", "files": []string{"a.txt", "b.txt", "c.x", ".gitattributes"}}, false},
		{"git.diff", args{"revision": "HEAD~1"}, false},
		{"git.commit", args{"message": "All", "files": []string{"."}}, false},
		{"git.commit", args{"message": "Submodule", "files": []string{"inner"}}, true}, // no new commit in it
		{"git.show", args{}, false},
		{"git.show", args{"revision": "other", "path": "a.txt"}, false},
		{"git.show", args{"path": "inner"}, false},
		{"git.show", args{"path": "inner/a.txt"}, true},
		{"git.blame", args{"path": "a.txt"}, false},
		{"git.diff", args{"from": "other", "to": "HEAD", "merge_base": true}, false},
		{"git.diff", args{"from": "other"}, false},
		{"git.branches", args{}, false},
		{"git.stashes", args{}, false},
		{"git.add", args{"files": []string{"d.txt"}}, false},
		{"git.commit", args{"message": "Staged"}, false},
		{"git.branch", args{"name": "topic"}, false},
		{"git.branch", args{"name": "topic", "delete": true}, false},
		{"git.branch", args{"name": "late", "start": "other"}, false},
		{"git.stash", args{"action": "push"}, true},    // git refuses what .gitmodules says
		{"git.checkout", args{"branch": "late"}, true}, // c.x and .gitattributes of no commit are not lost
		{"git.checkout", args{"branch": "next", "create": true}, false},
		{"git.status", args{}, false},
	} {
		r.write(t, "d.txt", fmt.Sprintln("new", i))
		got := r.call(t, call.tool, call.in)
		if got.Failed != call.failed {
			t.Errorf("%s %v: %+v", call.tool, call.in, got)
		}
		c.check(t, fmt.Sprint(call.tool, call.in))
		approve(t, c, r, call.tool, call.in)
	}
}

// approve asks what a human would be asked, which runs nothing either.
func approve(t *testing.T, c canary, r repository, name string, in args) {
	t.Helper()
	called, _ := r.set.Get(name)
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}

	call, policy := tool.Call{ID: newID(), Arguments: b}, called.Spec().Policy
	_, _, _ = tool.PreviewOf(t.Context(), called, policy, call)
	_, _, _ = tool.Verify(t.Context(), called, policy, call)
	if toucher, ok := called.(tool.Toucher); ok {
		_, _ = toucher.Touches(t.Context(), call)
	}
	c.check(t, fmt.Sprint("what is asked of ", name, in))
}

// everyTool has a call of each tool, of which each works in a repository with a file a.txt that changed.
var everyTool = []struct {
	tool string
	in   args
}{
	{"git.status", args{}},
	{"git.diff", args{}},
	{"git.diff", args{"from": "HEAD", "to": "HEAD", "merge_base": true}},
	{"git.log", args{}},
	{"git.show", args{}},
	{"git.show", args{"path": "a.txt"}},
	{"git.blame", args{"path": "a.txt"}},
	{"git.branches", args{}},
	{"git.add", args{"files": []string{"a.txt"}}},
	{"git.commit", args{"message": "Changed", "files": []string{"a.txt"}}},
	{"git.branch", args{"name": "new"}},
	{"git.branch", args{"name": "new", "delete": true}},
	{"git.stash", args{"action": "push"}},
	{"git.stashes", args{}},
	{"git.checkout", args{"branch": "next", "create": true}},
}

// S2: a configuration that becomes hostile after it was looked at does not count either.
func TestConfigurationThatChangesMeanwhile(t *testing.T) {
	c, r := newCanary(t), open(t)
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}

	hostile := filepath.Join(t.TempDir(), "hostile")
	if err := os.WriteFile(hostile, []byte("[core]\n\trepositoryformatversion = 0\n"+c.configuration()),
		0o644); err != nil {
		t.Fatal(err)
	}

	bin := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nif [ \"$1\" != config ]; then\n"+
		"cp %s .git/config\ncp %[1]s .git/config.worktree\nmkdir -p .git/hooks\ncp %[2]s .git/hooks/post-commit\n"+
		"cp %[2]s .git/hooks/reference-transaction\nfi\n"+
		"exec %[3]s \"$@\"\n", hostile, c.program, real)
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}

	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	tools, err := git.Tools(r.dir, git.Options{Write: true, Name: "Ada", Email: "ada@example.org"})
	if err != nil {
		t.Fatal(err)
	}
	if r.set, err = tool.NewSet(tools...); err != nil {
		t.Fatal(err)
	}

	for _, call := range everyTool {
		name, in := call.tool, call.in
		if err := os.WriteFile(filepath.Join(r.dir, ".git", "config"), []byte("[core]\n\trepositoryformatversion = 0\n"),
			0o644); err != nil {
			t.Fatal(err)
		}
		r.write(t, ".gitattributes", "*.txt diff=evil filter=evil\n")
		r.write(t, "a.txt", "changed by "+fmt.Sprint(name, in)+"\n")

		if got := r.call(t, name, in); got.Failed {
			t.Errorf("%s: %+v", name, got)
		}
		if b, err := os.ReadFile(filepath.Join(r.dir, ".git", "config")); err != nil ||
			!strings.Contains(string(b), c.program) {
			t.Errorf("%s: the configuration did not change: %v", name, err)
		}
		c.check(t, name)
	}
}

// S2: the configuration of the user does not count where the tools may write it: in the folder.
func TestConfigurationOfTheUserInTheFolder(t *testing.T) {
	c, r := newCanary(t), open(t)
	home := t.TempDir()
	r.write(t, ".gitconfig", c.configuration())
	r.write(t, "git/config", c.configuration())
	r.write(t, "included", c.configuration())
	r.write(t, ".gitattributes", "*.txt diff=evil filter=evil\n")
	put(t, filepath.Join(home, ".gitconfig"), "[include]\n\tpath = "+filepath.Join(r.dir, "included")+"\n", nil)
	put(t, filepath.Join(home, "git", "config"), filepath.Join(r.dir, "git", "config"), os.Symlink)

	for i, of := range []string{r.dir, home} {
		t.Setenv("HOME", of)
		t.Setenv("XDG_CONFIG_HOME", of)
		for _, call := range everyTool {
			name, in := call.tool, args{}
			for key, value := range call.in {
				in[key] = value
			}
			if branch, ok := in["branch"]; ok {
				in["branch"] = fmt.Sprint(branch, i)
			}
			if branch, ok := in["name"]; ok {
				in["name"] = fmt.Sprint(branch, i)
			}

			r.write(t, "a.txt", fmt.Sprintln("changed", i, name, in))
			if got := r.call(t, name, in); got.Failed {
				t.Errorf("%s: %+v", name, got)
			}
			c.check(t, name)
			approve(t, c, r, name, in)
		}
	}
}

// Names that git could take for options, for other references, or for more than one thing are refused by every tool,
// by the name of the argument, before git sees them.
func TestNamesAreNoOptions(t *testing.T) {
	t.Parallel()
	c, r := newCanary(t), open(t)
	r = r.withRemotes(t, map[string]git.Remote{"origin": {URL: "https://127.0.0.1:1/x.git"}})
	evil := []string{
		"--upload-pack=" + c.program, "--exec=" + c.program, "-O" + c.program, "--output=" + c.program, "-c", "--",
		"ext::" + c.program,
		"+main", ":main", "main:main", "main other", "refs/heads/../../x", "a..b", "a\nb", "a\x00b", "HEAD:a.txt",
		"main^{tree}:a", strings.Repeat("a", 300),
	}

	for _, at := range []struct {
		tool, argument string
		in             args
	}{
		{"git.show", "revision", args{}},
		{"git.blame", "revision", args{"path": "a.txt"}},
		{"git.diff", "from", args{}},
		{"git.diff", "to", args{"from": "main"}},
		{"git.branch", "name", args{}},
		{"git.branch", "name", args{"delete": true}},
		{"git.branch", "start", args{"name": "new"}},
		{"git.checkout", "branch", args{}},
		{"git.checkout", "branch", args{"create": true}},
		{"git.checkout", "start", args{"branch": "new", "create": true}},
		{"git.stash", "stash", args{"action": "pop"}},
		{"git.stash", "action", args{}},
		{"git.push", "branch", args{}},
		{"git.push", "remote", args{}},
		{"git.pull", "branch", args{}},
		{"git.pull", "remote", args{}},
	} {
		for _, name := range append(evil, "HEAD", "deadbeef") {
			isRevision := at.argument == "revision" || at.argument == "from" || at.argument == "to" || at.argument == "start"
			if isRevision && name == "HEAD" || at.argument == "remote" && name == "HEAD" {
				continue
			}

			in := args{at.argument: name}
			for key, value := range at.in {
				in[key] = value
			}

			got := r.call(t, at.tool, in)
			if !got.Failed || !strings.HasPrefix(got.Text, at.argument+":") && !strings.HasPrefix(got.Text, "Bad arguments: ") {
				t.Errorf("%s %q: %+v", at.tool, in, got)
			}
		}
	}

	for _, tt := range []struct {
		tool string
		in   func(path string) args
	}{
		{"git.show", func(path string) args { return args{"path": path} }},
		{"git.blame", func(path string) args { return args{"path": path} }},
		{"git.add", func(path string) args { return args{"files": []string{path}} }},
		{"git.diff", func(path string) args { return args{"from": "HEAD", "path": path} }},
	} {
		for _, path := range []string{"../x", "/etc/passwd", "a/../../x", "a\x00b"} {
			if got := r.call(t, tt.tool, tt.in(path)); !got.Failed || !strings.Contains(got.Text, "path") {
				t.Errorf("%s %q: %+v", tt.tool, path, got)
			}
		}
		for _, path := range []string{"--output=" + c.program, ":(top)*", "-O" + c.program, "*"} {
			if got := r.call(t, tt.tool, tt.in(path)); tt.tool != "git.diff" && !got.Failed {
				t.Errorf("%s %q: %+v", tt.tool, path, got)
			}
		}
	}
	c.check(t, "all")
}
