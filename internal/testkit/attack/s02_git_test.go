//go:build attack

package attack_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// S2, S7: a hostile repository runs no program, and leads out of no folder.

// gitHouse is a house whose agent "committer" uses all tools of git in a folder, and calls back with what the model was
// told.
func gitHouse(t *testing.T) (h *house, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "repository")
	outsideGit(t, dir, "init", "--quiet", "--initial-branch=main", dir)
	rounds := [][]act{ // few, or the agent takes refusals for a loop
		{
			{"git.status", `{}`}, {"git.diff", `{}`}, {"git.diff", `{"staged":true}`}, {"git.diff", `{"revision":"HEAD"}`},
			{"git.log", `{}`},
		},
		{{"git.commit", `{"message":"Change RUN","files":["a.txt","b.bin"]}`}},
		{{"git.log", `{"path":"a.txt"}`}, {"git.status", `{}`}},
	}

	return open(t, setting{
		scenes: []scriptmodel.Scene{scene("committer", rounds)},
		config: object{
			"agents": object{
				"committer": object{
					"description": "Commits.", "systemPrompt": promptOf("committer"), "tools": []string{"git.*"}, "maxSteps": 4,
				},
			},
			"toolsets": object{"git": object{"root": dir, "enableWrite": true, "name": "Ada", "email": "ada@example.org"}},
			"policies": []object{{"tools": "git.commit", "approval": false}},
		},
	}), dir
}

// outsideGit runs git as the attacker does, in a folder.
func outsideGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := tryGit(dir, args...)
	if err != nil {
		t.Fatalf("git %q: %v: %s", args, err, out)
	}
	return strings.TrimSpace(out)
}

func tryGit(dir string, args ...string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}

	cmd := exec.CommandContext(context.Background(), "git",
		append([]string{
			"-c", "user.name=Eve", "-c", "user.email=eve@example.org", "-c", "commit.gpgsign=false", "-c",
			"protocol.file.allow=always",
		}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// fresh makes a repository with a commit, and changes that are not committed, in a folder that stays.
func fresh(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}

	outsideGit(t, dir, "init", "--quiet", "--initial-branch=main")
	put(t, dir, "a.txt", "one\n")
	put(t, dir, "b.bin", "b\n")
	outsideGit(t, dir, "add", ".")
	outsideGit(t, dir, "commit", "--quiet", "-m", "First")
	put(t, dir, "a.txt", "one\ntwo\n")
	put(t, dir, "b.bin", "b\nc\n")
	outsideGit(t, dir, "add", "b.bin")
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// configured are settings of a repository that name a program. PROGRAM is the path of the canary.
var configured = map[string][]string{
	"fsmonitor":            {"core.fsmonitor=PROGRAM"},
	"fsmonitor, version 2": {"core.fsmonitor=PROGRAM", "core.fsmonitorHookVersion=2"},
	"hooksPath":            {"core.hooksPath=HOOKS"},
	"hooks of the config": {
		"hook.evil.command=PROGRAM", "hook.evil.event=pre-commit", "hook.evil2.command=PROGRAM",
		"hook.evil2.event=post-commit", "hook.evil3.command=PROGRAM", "hook.evil3.event=commit-msg",
		"hook.evil4.command=PROGRAM", "hook.evil4.event=post-index-change", "hook.evil5.command=PROGRAM",
		"hook.evil5.event=reference-transaction",
	},
	"filter":           {"filter.evil.clean=PROGRAM", "filter.evil.smudge=PROGRAM", "filter.evil.required=true"},
	"filter, process":  {"filter.evil.process=PROGRAM", "filter.evil.required=true"},
	"textconv":         {"diff.evil.textconv=PROGRAM"},
	"textconv, cached": {"diff.evil.textconv=PROGRAM", "diff.evil.cachetextconv=true"},
	"diff driver":      {"diff.evil.command=PROGRAM", "diff.evil.binary=false"},
	"external diff":    {"diff.external=PROGRAM"},
	"merge driver":     {"merge.evil.driver=PROGRAM"},
	"gpg": {
		"commit.gpgSign=true", "gpg.program=PROGRAM", "user.signingKey=evil", "log.showSignature=true",
	},
	"gpg, ssh": {
		"commit.gpgSign=true", "gpg.format=ssh", "gpg.ssh.program=PROGRAM", "user.signingKey=key::ssh-rsa A",
		"gpg.ssh.defaultKeyCommand=PROGRAM", "log.showSignature=true",
	},
	"gpg, x509": {
		"commit.gpgSign=true", "gpg.format=x509", "gpg.x509.program=PROGRAM", "user.signingKey=evil",
	},
	"gpg, openpgp":      {"commit.gpgSign=true", "gpg.openpgp.program=PROGRAM", "user.signingKey=evil"},
	"credential helper": {"credential.helper=!PROGRAM", "remote.origin.url=https://127.0.0.1:1/x"},
	"aliases": {
		"alias.status=!PROGRAM", "alias.diff=!PROGRAM", "alias.log=!PROGRAM", "alias.commit=!PROGRAM", "alias.add=!PROGRAM",
		"alias.rev-parse=!PROGRAM",
	},
	"sshCommand": {"core.sshCommand=PROGRAM", "remote.origin.url=ssh://127.0.0.1/x"},
	"editor":     {"core.editor=PROGRAM", "sequence.editor=PROGRAM", "commit.verbose=true"},
	"pager":      {"core.pager=PROGRAM", "pager.log=PROGRAM", "pager.diff=PROGRAM", "pager.status=PROGRAM"},
	"askPass":    {"core.askPass=PROGRAM"},
	"trailers": {
		"trailer.evil.command=PROGRAM", "trailer.evil.ifmissing=add", "trailer.evil2.cmd=PROGRAM",
		"trailer.evil2.ifmissing=add",
	},
	"alternate refs":     {"core.alternateRefsCommand=PROGRAM"},
	"interactive filter": {"interactive.diffFilter=PROGRAM"},
	"gc":                 {"gc.auto=1", "gc.autoDetach=false", "gc.recentObjectsHook=PROGRAM"},
	"maintenance": {
		"maintenance.auto=true", "maintenance.strategy=incremental", "maintenance.commit-graph.enabled=true",
		"gc.recentObjectsHook=PROGRAM",
	},
	"promised objects": {
		"core.repositoryFormatVersion=1", "extensions.partialClone=origin", "remote.origin.url=ext::PROGRAM",
		"remote.origin.promisor=true", "protocol.ext.allow=always",
	},
	"uploadpack": {
		"remote.origin.url=.", "remote.origin.uploadpack=PROGRAM", "remote.origin.promisor=true",
		"core.repositoryFormatVersion=1", "extensions.partialClone=origin",
	},
	"include":                   {"include.path=INCLUDED"},
	"includeIf":                 {"includeIf.gitdir:/.path=INCLUDED"},
	"includeIf, branch":         {"includeIf.onbranch:main.path=INCLUDED"},
	"configuration of worktree": {"core.repositoryFormatVersion=1", "extensions.worktreeConfig=true", "WORKTREE"},
	"template":                  {"commit.template=/etc/passwd", "init.templateDir=HOOKS"},
	"untracked cache":           {"core.untrackedCache=true", "core.fsmonitor=PROGRAM", "feature.manyFiles=true"},
	"submodule": {
		"submodule.recurse=true", "diff.submodule=log", "status.submoduleSummary=true", "diff.ignoreSubmodules=none",
		"SUBMODULE",
	},
	"ref format": {"core.repositoryFormatVersion=1", "core.fsmonitor=PROGRAM"},
}

// hookNames are all that git looks for in a folder of hooks.
var hookNames = []string{
	"pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-index-change", "reference-transaction",
	"pre-auto-gc", "post-rewrite", "post-checkout",
	"fsmonitor-watchman", "pre-merge-commit", "applypatch-msg", "pre-applypatch", "post-applypatch", "post-merge",
	"pre-push", "push-to-checkout",
}

func TestS2ProgramsOfARepository(t *testing.T) {
	t.Parallel()
	h, dir := gitHouse(t)
	outside := t.TempDir()
	canary := filepath.Join(outside, "canary")
	program := filepath.Join(outside, "program.sh")

	put(t, outside, "program.sh", fmt.Sprintf("#!/bin/sh\necho \"$0 $*\" >>%s\ncat 2>/dev/null\nexit 0\n", canary))
	put(t, outside, "included", "[core]\n\tfsmonitor = "+program+"\n[filter \"evil\"]\n\tclean = "+program+
		"\n[diff \"evil\"]\n\ttextconv = "+program+"\n")
	for _, name := range hookNames {
		put(t, outside, "hooks/"+name, "#!/bin/sh\n"+program+" "+name+"\n")
	}

	attack := func(name string, prepare func()) {
		t.Helper()
		fresh(t, dir)
		prepare()
		_ = os.Remove(canary)
		r := h.start("committer")
		r.end()

		if ran, err := os.ReadFile(canary); err == nil {
			t.Errorf("%s: a program of the repository ran: %s", name, ran)
		}

		called := map[any]bool{}
		for _, o := range r.records() {
			called[o["name"]] = true
		}
		for _, tool := range []string{"git.status", "git.diff", "git.log", "git.commit"} {
			if !called[tool] {
				t.Errorf("%s: %s was not called: %s", name, tool, clipDiff(r.view().raw))
			}
		}
	}

	attack("hooks of the repository", func() {
		for _, name := range hookNames {
			put(t, dir, ".git/hooks/"+name, "#!/bin/sh\n"+program+" "+name+"\n")
		}
	})
	for name, settings := range configured {
		attack(name, func() {
			put(t, dir, ".gitattributes", "* filter=evil diff=evil merge=evil\n")
			for _, s := range settings {
				switch key, value, ok := strings.Cut(s, "="); {
				case ok:
					value = strings.NewReplacer("PROGRAM", program, "HOOKS", filepath.Join(outside, "hooks"), "INCLUDED",
						filepath.Join(outside, "included")).Replace(value)
					outsideGit(t, dir, "config", "--add", key, value)
				case s == "WORKTREE":
					put(t, dir, ".git/config.worktree",
						"[core]\n\tfsmonitor = "+program+"\n\thooksPath = "+filepath.Join(outside, "hooks")+"\n")
				case s == "SUBMODULE":
					inner := filepath.Join(outside, "inner")
					_ = os.RemoveAll(inner)
					outsideGit(t, inner, "init", "--quiet")
					outsideGit(t, inner, "commit", "--quiet", "--allow-empty", "-m", "Inner")
					outsideGit(t, dir, "submodule", "--quiet", "add", inner, "inner")
					put(t, dir, "inner/file", "changed\n")
					outsideGit(t, filepath.Join(dir, "inner"), "config", "core.fsmonitor", program)
					outsideGit(t, filepath.Join(dir, "inner"), "config", "core.hooksPath", filepath.Join(outside, "hooks"))
				}
			}
		})
	}
}

func TestS7OutsideOfTheFolder(t *testing.T) {
	t.Parallel()
	h, dir := gitHouse(t)
	const secret = "SECRET-OUTSIDE"

	outside := filepath.Join(t.TempDir(), "outside")
	outsideGit(t, outside, "init", "--quiet", "--initial-branch=main")
	put(t, outside, "a.txt", secret+" in a file\n")
	outsideGit(t, outside, "add", ".")
	outsideGit(t, outside, "commit", "--quiet", "-m", secret+" in a message")
	outsideGit(t, outside, "worktree", "add", "--quiet", "-b", "other", filepath.Join(filepath.Dir(outside), "tree"))
	head := outsideGit(t, outside, "rev-parse", "HEAD")
	git := filepath.Join(outside, ".git")

	state := func() string {
		return outsideGit(t, outside, "for-each-ref") + outsideGit(t, outside, "status", "--porcelain") +
			outsideGit(t, outside, "count-objects")
	}
	before := state()

	replace := func(name, target string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	}
	for name, prepare := range map[string]func(){
		".git is a file": func() {
			_ = os.RemoveAll(filepath.Join(dir, ".git"))
			put(t, dir, ".git", "gitdir: "+git+"\n")
		},
		".git is a file with a relative path": func() {
			rel, _ := filepath.Rel(dir, git)
			_ = os.RemoveAll(filepath.Join(dir, ".git"))
			put(t, dir, ".git", "gitdir: "+rel+"\n")
		},
		".git is a worktree of another": func() {
			_ = os.RemoveAll(filepath.Join(dir, ".git"))
			put(t, dir, ".git", "gitdir: "+filepath.Join(git, "worktrees", "tree")+"\n")
		},
		".git is a link": func() { replace(".git", git) },
		"objects is a link": func() {
			replace(".git/objects", filepath.Join(git, "objects"))
			put(t, dir, ".git/refs/heads/main", head+"\n")
		},
		"refs is a link": func() {
			replace(".git/refs", filepath.Join(git, "refs"))
			put(t, dir, ".git/objects/info/alternates", git+"/objects\n")
		},
		"alternates": func() {
			put(t, dir, ".git/objects/info/alternates", git+"/objects\n")
			put(t, dir, ".git/refs/heads/main", head+"\n")
		},
		"alternates, relative": func() {
			rel, _ := filepath.Rel(filepath.Join(dir, ".git/objects"), filepath.Join(git, "objects"))
			put(t, dir, ".git/objects/info/alternates", rel+"\n")
			put(t, dir, ".git/refs/heads/main", head+"\n")
		},
		"alternates of alternates": func() {
			outsideGit(t, filepath.Join(dir, "inner"), "init", "--quiet", "--bare")
			put(t, dir, "inner/objects/info/alternates", git+"/objects\n")
			put(t, dir, ".git/objects/info/alternates", filepath.Join(dir, "inner/objects")+"\n")
			put(t, dir, ".git/refs/heads/main", head+"\n")
		},
		"alternates is a link": func() {
			put(t, filepath.Dir(outside), "alternates", git+"/objects\n")
			replace(".git/objects/info/alternates", filepath.Join(filepath.Dir(outside), "alternates"))
			put(t, dir, ".git/refs/heads/main", head+"\n")
		},
		"commondir":     func() { put(t, dir, ".git/commondir", git+"\n"); put(t, dir, ".git/HEAD", head+"\n") },
		"core.worktree": func() { outsideGit(t, dir, "config", "core.worktree", outside) },
		"core.worktree in config.worktree": func() {
			outsideGit(t, dir, "config", "core.repositoryFormatVersion", "1")
			outsideGit(t, dir, "config", "extensions.worktreeConfig", "true")
			put(t, dir, ".git/config.worktree", "[core]\n\tworktree = "+outside+"\n")
		},
		"include of a file outside": func() {
			put(t, filepath.Dir(outside), "conf", "[core]\n\tworktree = "+outside+"\n")
			outsideGit(t, dir, "config", "include.path", filepath.Join(filepath.Dir(outside), "conf"))
		},
		"HEAD is a link":  func() { replace(".git/HEAD", filepath.Join(git, "HEAD")) },
		"index is a link": func() { replace(".git/index", filepath.Join(git, "index")) },
		"packs are a link": func() {
			outsideGit(t, outside, "gc", "--quiet")
			before = state()
			replace(".git/objects/pack", filepath.Join(git, "objects", "pack"))
			put(t, dir, ".git/refs/heads/main", head+"\n")
		},
		"a file is a link": func() { replace("a.txt", filepath.Join(outside, "a.txt")) },
		"a folder is a link": func() {
			replace("linked", outside)
			outsideGit(t, dir, "config", "core.symlinks", "false")
		},
		"attributes are a link": func() { replace(".gitattributes", filepath.Join(outside, "a.txt")) },
		"a submodule is outside": func() {
			put(t, dir, "inner/.git", "gitdir: "+git+"\n")
			outsideGit(t, dir, "update-index", "--add", "--cacheinfo", "160000,"+head+",inner")
			outsideGit(t, dir, "config", "diff.submodule", "log")
		},
		"mailmap outside":    func() { outsideGit(t, dir, "config", "mailmap.file", filepath.Join(outside, "a.txt")) },
		"template outside":   func() { outsideGit(t, dir, "config", "commit.template", filepath.Join(outside, "a.txt")) },
		"order file outside": func() { outsideGit(t, dir, "config", "diff.orderFile", filepath.Join(outside, "a.txt")) },
	} {
		fresh(t, dir)
		prepare()
		r := h.start("committer")
		r.end()

		for _, asked := range h.model.Requests() {
			if body := string(asked.Body); strings.Contains(body, r.mark) && strings.Contains(body, secret) {
				t.Errorf("%s: the model was told of what is outside: %s", name, around(body, secret))
				break
			}
		}
		if now := state(); now != before {
			t.Errorf("%s: the repository outside was changed:\n%s\nwas\n%s", name, now, before)
			before = now
		}
	}
}

// around returns a part of a text.
func around(text, part string) string {
	i := strings.Index(text, part)
	if i < 0 {
		return ""
	}
	return text[max(0, i-150):min(len(text), i+len(part)+150)]
}
