package git_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/git"
)

// tools returns a folder as a repository, with the tools for it.
func tools(t *testing.T, dir string) repository {
	t.Helper()
	made, err := git.Tools(dir, git.Options{Write: true, Name: "Ada", Email: "ada@example.org"})
	if err != nil {
		t.Fatal(err)
	}
	set, err := tool.NewSet(made...)
	if err != nil {
		t.Fatal(err)
	}
	return repository{dir, set}
}

// state returns what is in a folder.
func state(t *testing.T, dir string) string {
	t.Helper()
	var text strings.Builder
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(at)
		fmt.Fprintf(&text, "%s %x\n", at, sha256.Sum256(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// put writes a file, or makes a link that replaces what is there.
func put(t *testing.T, at, text string, link func(old, new string) error) {
	t.Helper()
	err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.RemoveAll(at))
	if link == nil {
		err = errors.Join(err, os.WriteFile(at, []byte(text), 0o644))
	} else {
		err = errors.Join(err, link(text, at))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// S7: nothing that git reads or writes of a repository may be outside of the folder.
func TestRepositoryOutsideOfTheFolder(t *testing.T) {
	t.Parallel()
	as := []string{"-c", "user.name=T", "-c", "user.email=t@example.org"}
	for name, plant := range map[string]func(t *testing.T, r repository, outside string){
		"a file names the git directory": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/.git", "gitdir: "+outside+"/.git\n", nil)
		},
		"a file names it with ..": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/.git", "gitdir: ../"+filepath.Base(outside)+"/.git\n", nil)
		},
		"a file names it through a link": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/link", outside, os.Symlink)
			put(t, r.dir+"/.git", "gitdir: link/.git\n", nil)
		},
		"a file names it by .. behind a link": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, outside+"/deep/x", "", nil)
			put(t, r.dir+"/link", outside+"/deep", os.Symlink)
			put(t, r.dir+"/.git", "gitdir: link/../.git\n", nil)
		},
		"the git directory is a link": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/.git", outside+"/.git", os.Symlink)
		},
		"a link leads to a file that names it": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/pointer", "gitdir: "+outside+"/.git\n", nil)
			put(t, r.dir+"/.git", "pointer", os.Symlink)
		},
		"the common directory": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/.git/commondir", outside+"/.git\n", nil)
		},
		"the common directory with ..": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/.git/commondir", "../../"+filepath.Base(outside)+"/.git", nil)
		},
		"the common directory of a git directory elsewhere": func(t *testing.T, r repository, outside string) {
			t.Helper()
			if err := os.Rename(r.dir+"/.git", r.dir+"/store"); err != nil {
				t.Fatal(err)
			}
			put(t, r.dir+"/.git", "gitdir: store\n", nil)
			put(t, r.dir+"/store/commondir", outside+"/.git\n", nil)
		},
		"the objects are a link": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/.git/objects", outside+"/.git/objects", os.Symlink)
		},
		"some objects are a link": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/.git/objects/fe", outside+"/.git/objects", os.Symlink)
		},
		"packs are a link": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/.git/objects/pack", outside+"/.git/objects/pack", os.Symlink)
		},
		"alternates": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/.git/objects/info/alternates", "# comment\n"+outside+"/.git/objects\n", nil)
		},
		"alternates with ..": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/.git/objects/info/alternates", "../../../"+filepath.Base(outside)+"/.git/objects", nil)
		},
		"alternates in quotes": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/.git/objects/info/alternates", `"`+outside+`/.git/objects"`+"\n", nil)
		},
		"alternates of alternates": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/other/info/alternates", outside+"/.git/objects\n", nil)
			put(t, r.dir+"/.git/objects/info/alternates", r.dir+"/other\n", nil)
		},
		"alternates in a linked file": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/list", outside+"/.git/objects\n", nil)
			put(t, r.dir+"/.git/objects/info/alternates", "../../../list", os.Symlink)
		},
		"alternates by a hard link": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/.git/objects/info/alternates", outside+"/secret.txt", os.Link)
		},
		"references are a link": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/.git/refs", outside+"/.git/refs", os.Symlink)
		},
		"a link to a folder with a link": func(t *testing.T, r repository, outside string) {
			t.Helper()
			if err := os.Rename(r.dir+"/.git/refs", r.dir+"/refs"); err != nil {
				t.Fatal(err)
			}
			put(t, r.dir+"/refs/heads/main", outside+"/.git/refs/heads/main", os.Symlink)
			put(t, r.dir+"/.git/refs", "../refs", os.Symlink)
		},
		"a branch is a link": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/.git/refs/heads/main", outside+"/.git/refs/heads/main", os.Symlink)
		},
		"packed references are a link": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/.git/packed-refs", outside+"/secret.txt", os.Symlink)
		},
		"HEAD is a link": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/.git/HEAD", outside+"/.git/HEAD", os.Symlink)
		},
		"HEAD is a link with ..": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/.git/HEAD", "refs/../../../"+filepath.Base(outside)+"/new", os.Symlink)
		},
		"the index is a link": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/.git/index", outside+"/.git/index", os.Symlink)
		},
		"the index is a hard link": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/.git/index", outside+"/.git/index", os.Link)
		},
		"the message is a link": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/.git/COMMIT_EDITMSG", outside+"/secret.txt", os.Symlink)
		},
		"the message is a link to what is not there": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/.git/COMMIT_EDITMSG", outside+"/new", os.Symlink)
		},
		"the message is a hard link": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/.git/COMMIT_EDITMSG", outside+"/secret.txt", os.Link)
		},
		"a log is a link": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/.git/logs/HEAD", outside+"/secret.txt", os.Symlink)
		},
		"a log is a hard link": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/.git/logs/refs/heads/main", outside+"/secret.txt", os.Link)
		},
		"the configuration is a link": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/.git/config", outside+"/.git/config", os.Symlink)
		},
		"the configuration is a hard link": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/.git/config", outside+"/.git/config", os.Link)
		},
		"info is a link": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/.git/info", outside, os.Symlink)
		},
		"references are kept elsewhere": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/.git/config", "[core]\n\trepositoryformatversion = 1\n[extensions]\n\trefStorage = files://"+outside+
				"/.git\n", nil)
		},
		"an extension that nobody knows": func(t *testing.T, r repository, outside string) {
			t.Helper()
			put(t, r.dir+"/.git/config", "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectsElsewhere = "+outside+
				"/.git\n", nil)
		},
		"a format that nobody knows": func(t *testing.T, r repository, _ string) {
			t.Helper()
			put(t, r.dir+"/.git/config", "[core]\n\trepositoryformatversion = 2\n", nil)
		},
		"a submodule's file": func(t *testing.T, r repository, outside string) {
			t.Helper()
			submodule(t, r, outside, nil)
		},
		"a submodule's link": func(t *testing.T, r repository, outside string) {
			t.Helper()
			submodule(t, r, outside, os.Symlink)
		},
		"a pipe": func(t *testing.T, r repository, _ string) {
			t.Helper()
			if err := os.Remove(r.dir + "/.git/HEAD"); err != nil {
				t.Fatal(err)
			}
			if err := exec.CommandContext(t.Context(), "mkfifo", r.dir+"/.git/HEAD").Run(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, other := open(t), repository{t.TempDir(), nil}
			other.git(t, "init", "--quiet", "--initial-branch=main")
			other.write(t, "secret.txt", "Confidential\n")
			other.git(t, "add", ".")
			other.git(t, append(as, "commit", "--quiet", "-m", "Confidential")...)

			r = r.withRemotes(t, map[string]git.Remote{"origin": {URL: "file://" + bare(t, other).dir}})
			plant(t, r, other.dir)
			r.write(t, "a.txt", "changed\n")
			before := state(t, other.dir)

			for _, call := range []struct {
				tool string
				in   args
			}{
				{"git.status", args{}},
				{"git.diff", args{}},
				{"git.diff", args{"revision": "HEAD"}},
				{"git.log", args{}},
				{"git.commit", args{"message": "Mine", "files": []string{"."}}},
				{"git.commit", args{"message": "Mine"}},
				{"git.diff", args{"from": "HEAD"}},
				{"git.show", args{}},
				{"git.show", args{"path": "secret.txt"}},
				{"git.blame", args{"path": "a.txt"}},
				{"git.branches", args{}},
				{"git.stashes", args{}},
				{"git.add", args{"files": []string{"."}}},
				{"git.branch", args{"name": "new"}},
				{"git.branch", args{"name": "main", "delete": true}},
				{"git.checkout", args{"branch": "new", "create": true}},
				{"git.stash", args{"action": "push"}},
				{"git.push", args{}},
				{"git.pull", args{}},
			} {
				got := r.call(t, call.tool, call.in)
				if !got.Failed || strings.Contains(fmt.Sprintf("%+v", got), "Confidential") ||
					strings.Contains(got.Text, other.dir) && !strings.Contains(name, "kept elsewhere") {
					t.Errorf("%s: %+v", call.tool, got)
				}
			}

			if after := state(t, other.dir); after != before {
				t.Errorf("what is outside changed:\n%s\nwas\n%s", after, before)
			}
		})
	}
}

// submodule commits a submodule whose git directory is then outside.
func submodule(t *testing.T, r repository, outside string, link func(old, new string) error) {
	t.Helper()
	inner := repository{filepath.Join(r.dir, "inner"), nil}
	inner.write(t, "x.txt", "x\n")
	inner.git(t, "init", "--quiet")
	inner.git(t, "add", ".")
	inner.git(t, "-c", "user.name=T", "-c", "user.email=t@example.org", "commit", "--quiet", "-m", "Inner")
	r.git(t, "-c", "advice.addEmbeddedRepo=false", "add", "inner")

	text := outside + "/.git"
	if link == nil {
		text = "gitdir: " + text + "\n"
	}
	put(t, inner.dir+"/.git", text, link)
}

// S7: a repository in an untracked folder is not committed if it is outside.
func TestNestedRepositoryOutside(t *testing.T) {
	t.Parallel()
	r, outside := open(t), open(t)
	put(t, r.dir+"/new/nested/.git", "gitdir: "+outside.dir+"/.git\n", nil)
	for _, files := range [][]string{{"."}, {"new"}, {"new/nested"}} {
		if got := r.call(t, "git.commit", args{"message": "Nested", "files": files}); !got.Failed ||
			!strings.Contains(got.Text, "new/nested") {
			t.Errorf("%v: %+v", files, got)
		}
	}
}

// S7: a repository whose places are below the folder works, however it is made.
func TestRepositoryBelowTheFolder(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(t *testing.T, r repository) repository{
		"a file names the git directory": func(t *testing.T, r repository) repository {
			t.Helper()
			if err := os.Rename(r.dir+"/.git", r.dir+"/.bare"); err != nil {
				t.Fatal(err)
			}
			put(t, r.dir+"/.git", "gitdir: ./.bare\n", nil)
			return r
		},
		"a link": func(t *testing.T, r repository) repository {
			t.Helper()
			if err := os.Rename(r.dir+"/.git", r.dir+"/.bare"); err != nil {
				t.Fatal(err)
			}
			put(t, r.dir+"/.git", r.dir+"/.bare", os.Symlink)
			return r
		},
		"the root is a link": func(t *testing.T, r repository) repository {
			t.Helper()
			link := filepath.Join(t.TempDir(), "link")
			put(t, link, r.dir, os.Symlink)
			return tools(t, link)
		},
		"a linked working tree": func(t *testing.T, r repository) repository {
			t.Helper()
			tree := repository{filepath.Join(t.TempDir(), "tree"), nil}
			r.git(t, "worktree", "add", "--quiet", "-b", "other", tree.dir)
			if err := os.Rename(r.dir, tree.dir+"/.main"); err != nil {
				t.Fatal(err)
			}
			put(t, tree.dir+"/.git", "gitdir: "+tree.dir+"/.main/.git/worktrees/tree\n", nil)
			return tools(t, tree.dir)
		},
		"alternates": func(t *testing.T, r repository) repository {
			t.Helper()
			if err := os.Rename(r.dir+"/.git/objects", r.dir+"/store"); err != nil {
				t.Fatal(err)
			}
			put(t, r.dir+"/.git/objects/info/alternates", "../../store\n", nil)
			return r
		},
		"hard links of objects": func(t *testing.T, r repository) repository {
			t.Helper()
			dir := filepath.Join(t.TempDir(), "clone")
			r.git(t, "gc", "--quiet")
			r.git(t, "clone", "--quiet", "--local", r.dir, dir)
			return tools(t, dir)
		},
		"a link as HEAD": func(t *testing.T, r repository) repository {
			t.Helper()
			put(t, r.dir+"/.git/HEAD", "refs/heads/main", os.Symlink)
			return r
		},
		"a submodule": func(t *testing.T, r repository) repository {
			t.Helper()
			other := open(t)
			r.git(t, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", other.dir, "inner")
			r.git(t, "-c", "user.name=T", "-c", "user.email=t@example.org", "commit", "--quiet", "-m", "With a submodule")

			inner := repository{r.dir + "/inner", nil}
			inner.write(t, "b.txt", "b")
			inner.git(t, "add", ".")
			inner.git(t, "-c", "user.name=T", "-c", "user.email=t@example.org", "commit", "--quiet", "-m", "Next")

			if got := r.call(t, "git.status", args{}); !strings.Contains(got.Text, ".M inner\n") {
				t.Errorf("the submodule: %+v", got)
			}
			if got := r.call(t, "git.diff", args{}); !strings.Contains(got.Text, "+Subproject commit") {
				t.Errorf("the submodule: %+v", got)
			}
			return r
		},
		"settings of a working tree": func(t *testing.T, r repository) repository {
			t.Helper()
			r.git(t, "config", "extensions.worktreeConfig", "true")
			r.git(t, "config", "--worktree", "core.autocrlf", "false")
			return r
		},
		"other hashes": func(t *testing.T, _ repository) repository {
			t.Helper()
			r := tools(t, t.TempDir())
			r.git(t, "init", "--quiet", "--initial-branch=main", "--object-format=sha256")
			return r
		},
		"no configuration": func(t *testing.T, r repository) repository {
			t.Helper()
			if err := os.Remove(r.dir + "/.git/config"); err != nil {
				t.Fatal(err)
			}
			return r
		},
		"below a repository": func(t *testing.T, r repository) repository {
			t.Helper()
			at := repository{filepath.Join(r.dir, "below"), nil}
			at.write(t, "x", "")
			at.git(t, "init", "--quiet", "--initial-branch=main")
			return tools(t, at.dir)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := plant(t, open(t))
			r.write(t, "a.txt", "changed\n")
			if got := r.call(t, "git.commit", args{"message": "Mine", "files": []string{"a.txt"}}); got.Failed {
				t.Fatalf("git.commit: %+v", got)
			}

			for _, call := range []struct {
				tool, want string
			}{{"git.status", "Branch: "}, {"git.diff", ""}, {"git.log", "Ada: Mine"}} {
				if got := r.call(t, call.tool, args{}); got.Failed || !strings.Contains(got.Text, call.want) ||
					strings.Contains(got.Text, "a.txt") {
					t.Errorf("%s: %+v", call.tool, got)
				}
			}

			if got := r.git(t, "log", "-1", "--format=%s", "HEAD"); got != "Mine\n" {
				t.Errorf("git itself sees %q", got)
			}
			if got := r.git(t, "reflog", "-1", "--format=%gs"); !strings.HasPrefix(got, "commit") {
				t.Errorf("git itself logs %q", got)
			}
			workThere(t, r)
		})
	}
}

// workThere does with every tool that writes what git itself must see.
func workThere(t *testing.T, r repository) {
	t.Helper()
	current := strings.TrimSpace(r.git(t, "symbolic-ref", "--short", "HEAD"))
	for _, call := range []struct {
		tool string
		in   args
	}{
		{"git.branch", args{"name": "new"}},
		{"git.checkout", args{"branch": "new"}},
		{"git.checkout", args{"branch": current}},
		{"git.branch", args{"name": "new", "delete": true}},
	} {
		if got := r.call(t, call.tool, call.in); got.Failed {
			t.Errorf("%s %v: %+v", call.tool, call.in, got)
		}
	}

	r.write(t, "a.txt", "stashed\n")
	if got := r.call(t, "git.stash", args{"action": "push"}); got.Failed ||
		!strings.Contains(r.git(t, "stash", "list"), "by git.stash") {
		t.Errorf("git.stash: %+v", got)
	}
	if got := r.call(t, "git.stash", stash("pop")(t, r)); got.Failed ||
		!strings.Contains(r.git(t, "diff", "--name-only"), "a.txt\n") {
		t.Errorf("git.stash: %+v", got)
	}

	if got := r.call(t, "git.add", args{"files": []string{"a.txt"}}); got.Failed ||
		r.git(t, "diff", "--cached", "--name-only") != "a.txt\n" {
		t.Errorf("git.add: %+v", got)
	}
	r.git(t, "reset", "--quiet", "--hard")
	if got := r.git(t, "branch", "--list", "new"); got != "" {
		t.Errorf("git itself sees the branch %q", got)
	}
}

// S7: a folder in a repository is none, and a repository in a folder above is not used.
func TestRepositoryOfAFolderAbove(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.write(t, "below/x.txt", "x\n")
	for _, call := range everyTool {
		name := call.tool
		if got := tools(t, r.dir+"/below").call(t, name, call.in); !got.Failed ||
			got.Text != "the folder has no git repository" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
