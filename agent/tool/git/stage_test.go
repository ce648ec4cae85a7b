package git_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/git"
)

// S7: links in the working tree are committed as links. What they lead to is neither committed nor shown.
func TestLinksInTheWorkingTree(t *testing.T) {
	t.Parallel()
	r, outside := open(t), t.TempDir()
	r.write(t, "dir/secret.txt", "mine\n")
	r.write(t, "dir/deep/secret.txt", "mine\n")
	r.git(t, "add", ".")
	r.git(t, "-c", "user.name=T", "-c", "user.email=t@example.org", "commit", "--quiet", "-m", "With a folder")

	put(t, filepath.Join(outside, "secret.txt"), "Confidential\n", nil)
	put(t, filepath.Join(outside, "deep", "secret.txt"), "Confidential\n", nil)
	put(t, filepath.Join(r.dir, "dir"), outside, os.Symlink)
	put(t, filepath.Join(r.dir, "a.txt"), filepath.Join(outside, "secret.txt"), os.Symlink)
	put(t, filepath.Join(r.dir, "new"), filepath.Join(outside, "secret.txt"), os.Symlink)

	check := func(name string, in args, failed bool) {
		t.Helper()
		got := r.call(t, name, in)
		if got.Failed != failed || strings.Contains(got.Text, "Confidential") {
			t.Errorf("%s %v: %+v", name, in, got)
		}
	}

	check("git.status", args{}, false)
	check("git.diff", args{}, false)
	check("git.diff", args{"path": "dir/secret.txt"}, false)
	check("git.diff", args{"path": "dir/../dir/secret.txt"}, false)
	check("git.commit", args{"message": "Link", "files": []string{"dir/secret.txt"}}, false) // it was deleted
	check("git.commit", args{"message": "Links", "files": []string{"."}}, false)
	check("git.diff", args{"revision": "HEAD~2"}, false)

	if got := r.git(t, "log", "-p"); strings.Contains(got, "Confidential") {
		t.Errorf("committed what is outside:\n%s", got)
	}
	want := "120000 a.txt\n120000 dir\n120000 new\n"
	if got := r.git(t, "ls-tree", "-r", "--format=%(objectmode) %(path)", "HEAD"); got != want {
		t.Errorf("committed %q, want %q", got, want)
	}
}

// A commit of some files has these and nothing else that is staged, whatever became of them.
func TestCommitOfSomeFiles(t *testing.T) {
	t.Parallel()
	r := open(t)
	for _, name := range []string{"file", "folder/x", "gone", "kept", "mode.sh", "other", "renamed"} {
		r.write(t, name, name+"\n")
	}
	r.git(t, "add", ".")
	r.git(t, "-c", "user.name=T", "-c", "user.email=t@example.org", "commit", "--quiet", "-m", "Files")

	r.write(t, "other", "staged\n")
	r.write(t, "staged-new", "staged\n")
	r.git(t, "add", "other", "staged-new")
	r.git(t, "rm", "--quiet", "--cached", "kept")
	put(t, filepath.Join(r.dir, "folder"), "now a file\n", nil)

	if err := os.Remove(filepath.Join(r.dir, "file")); err != nil {
		t.Fatal(err)
	}
	r.write(t, "file/x", "now in a folder\n")
	if err := os.Chmod(filepath.Join(r.dir, "mode.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(r.dir, "gone")); err != nil {
		t.Fatal(err)
	}
	r.git(t, "mv", "renamed", "new-name")

	got := r.call(t, "git.commit", args{
		"message": "Some", "files": []string{"file", "folder", "mode.sh", "gone", "new-name"},
	})
	if got.Failed {
		t.Fatalf("r.call = %+v", got)
	}

	want := "D\tfile\nA\tfile/x\nA\tfolder\nD\tfolder/x\nD\tgone\nM\tmode.sh\nA\tnew-name\n"
	if got := r.git(t, "show", "--format=", "--name-status", "--no-renames"); got != want {
		t.Errorf("committed %q, want %q", got, want)
	}
	want = "D\tkept\nM\tother\nD\trenamed\nA\tstaged-new\n"
	if got := r.git(t, "diff", "--cached", "--name-status", "--no-renames"); got != want {
		t.Errorf("still staged: %q, want %q", got, want)
	}
}

// In a merge all is committed, and conflicts never are.
func TestCommitInAMerge(t *testing.T) {
	t.Parallel()
	r := open(t)
	as := []string{"-c", "user.name=T", "-c", "user.email=t@example.org"}
	r.git(t, "checkout", "--quiet", "-b", "other")
	r.write(t, "a.txt", "theirs\n")
	r.git(t, append(as, "commit", "--quiet", "-am", "Theirs")...)

	r.git(t, "checkout", "--quiet", "main")
	r.write(t, "a.txt", "ours\n")
	r.git(t, append(as, "commit", "--quiet", "-am", "Ours")...)
	r.git(t, append(as, "merge", "--quiet", "--no-commit", "--strategy=ours", "other")...)

	r.write(t, "b.txt", "b\n")
	if got := r.call(t, "git.commit", args{"message": "Part", "files": []string{"b.txt"}}); !got.Failed ||
		!strings.Contains(got.Text, "merge") {
		t.Errorf("r.call = %+v", got)
	}
	r.git(t, "add", "b.txt")
	if got := r.call(t, "git.commit", args{"message": "Merge"}); got.Failed ||
		strings.Count(r.git(t, "log", "-1", "--format=%P"), " ") != 1 {
		t.Errorf("r.call = %+v", got)
	}

	r.git(t, "reset", "--quiet", "--hard", "HEAD~1")
	if out, err := gitCommand(t, r.dir, append(as, "cherry-pick", "other")...); err == nil {
		t.Fatalf("no conflict: %s", out)
	}
	if err := os.Remove(filepath.Join(r.dir, ".git", "CHERRY_PICK_HEAD")); err != nil {
		t.Fatal(err)
	}
	r.write(t, "b.txt", "new\n")
	for _, in := range []args{{"message": "Part", "files": []string{"b.txt"}}, {"message": "All"}} {
		if got := r.call(t, "git.commit", in); !got.Failed {
			t.Errorf("%v: %+v", in, got)
		}
	}
}

// S11: a hard link is not committed: its text may be one from outside. Nor is it shown.
func TestHardLinksInTheWorkingTree(t *testing.T) {
	t.Parallel()
	r, outside := open(t), t.TempDir()
	put(t, filepath.Join(outside, "x"), "Confidential\n", nil)
	put(t, filepath.Join(r.dir, "a.txt"), filepath.Join(outside, "x"), os.Link)
	put(t, filepath.Join(r.dir, "new", "b.txt"), filepath.Join(outside, "x"), os.Link)

	if got := r.call(t, "git.diff", args{}); got.Failed || strings.Contains(got.Text, "Confidential") ||
		!strings.Contains(got.Text, "a.txt differs, and is not shown") {
		t.Errorf("r.call = %+v", got)
	}
	for _, files := range [][]string{{"a.txt"}, {"new"}, {"."}} {
		if got := r.call(t, "git.commit", args{"message": "m", "files": files}); !got.Failed ||
			!strings.Contains(got.Text, "hard link") {
			t.Errorf("%v: %+v", files, got)
		}
	}

	if got := r.git(t, "diff", "--cached", "--name-only"); got != "" {
		t.Errorf("staged %q", got)
	}
}

// S11: git.diff does not show what is in files that may hold secrets, unless they are allowed.
func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	r := open(t)
	secrets := []string{".env", "deploy/prod.PEM", "app/.Env.local", "odd [name]*.key"}
	for _, name := range secrets {
		r.write(t, name, "hunter1\n")
	}
	r.write(t, "was.key", strings.Repeat("same\n", 9)+"hunter1\n")
	r.git(t, "add", ".")
	r.git(t, "-c", "user.name=T", "-c", "user.email=t@example.org", "commit", "--quiet", "-m", "Secrets")

	for _, name := range secrets {
		r.write(t, name, "hunter2\n")
	}
	r.write(t, "a.txt", "changed\n")
	r.write(t, ".env.example", "TOKEN=\n")
	// The new name is no secret one, but what differs from the old one would show what that had.
	r.git(t, "mv", "was.key", "plain.txt")
	r.write(t, "plain.txt", strings.Repeat("same\n", 9))
	r.git(t, "add", ".env.example", "app", "plain.txt")

	for _, in := range []args{
		{}, {"staged": true}, {"revision": "HEAD"}, {"revision": "HEAD~1"}, {"path": ".env"}, {"path": "deploy"},
		{"revision": "HEAD~1..HEAD"}, {"path": "odd [name]*.key"},
	} {
		got := r.call(t, "git.diff", in)
		if got.Failed || strings.Contains(got.Text, "hunter") || !strings.Contains(got.Text, "is not shown") {
			t.Errorf("%v: %+v", in, got)
		}
	}
	if got := r.call(t, "git.diff", args{}); !strings.Contains(got.Text, "+changed") {
		t.Errorf("r.call = %+v", got)
	}
	if got := r.call(t, "git.diff", args{"staged": true}); !strings.Contains(got.Text, "+TOKEN=") {
		t.Errorf("r.call = %+v", got)
	}

	made, err := git.Tools(r.dir, git.Options{Allow: []string{".env", "deploy/"}})
	if err != nil {
		t.Fatal(err)
	}
	set, err := tool.NewSet(made...)
	if err != nil {
		t.Fatal(err)
	}
	if got := (repository{r.dir, set}).call(t, "git.diff", args{}); strings.Count(got.Text, "+hunter2") != 2 {
		t.Errorf("call = %+v", got)
	}
}

// What a repository may say still counts: who commits, how lines end, and what a branch follows.
func TestHarmlessSettings(t *testing.T) {
	t.Parallel()
	origin, dir := open(t), filepath.Join(t.TempDir(), "clone")
	origin.git(t, "clone", "--quiet", origin.dir, dir)
	r := repository{dir, nil}
	r.git(t, "config", "user.name", "Own \"name\" \\ # x")
	r.git(t, "config", "user.email", "own@example.org")
	r.git(t, "config", "core.autocrlf", "input")

	made, err := git.Tools(dir, git.Options{Write: true})
	if err != nil {
		t.Fatal(err)
	}
	if r.set, err = tool.NewSet(made...); err != nil {
		t.Fatal(err)
	}

	r.write(t, "a.txt", "one\r\nthree\r\n")
	if got := r.call(t, "git.commit", args{"message": "Lines", "files": []string{"a.txt"}}); got.Failed {
		t.Fatalf("r.call = %+v", got)
	}

	if got := r.git(t, "log", "-1", "--format=%an|%ae"); got != "Own \"name\" \\ # x|own@example.org\n" {
		t.Errorf("committed by %q", got)
	}
	if got := r.git(t, "cat-file", "-p", "HEAD:a.txt"); got != "one\nthree\n" {
		t.Errorf("committed %q", got)
	}
	want := "Branch: main\nUpstream: origin/main (1 ahead, 0 behind)\nNothing changed.\n"
	if got := r.call(t, "git.status", args{}); !cmp.Equal(got.Text, want) {
		t.Errorf("got.Text = %q, want %q", got.Text, want)
	}
}
