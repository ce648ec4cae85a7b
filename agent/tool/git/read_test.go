package git_test

import (
	"encoding/json"
	"strings"
	"testing"
)

var as = []string{"-c", "user.name=T", "-c", "user.email=t@example.org"}

// commit commits all that is there as a user does.
func (r repository) commit(t *testing.T, message string) string {
	t.Helper()
	r.git(t, "add", "--all")
	r.git(t, append(as, "commit", "--quiet", "-m", message)...)
	return strings.TrimSpace(r.git(t, "rev-parse", "HEAD"))
}

// history returns a repository with two branches that went apart, and a tag.
func history(t *testing.T) repository {
	t.Helper()
	r := open(t)
	r.git(t, "tag", "v1")
	r.git(t, "checkout", "--quiet", "-b", "feature")
	r.write(t, "feature.txt", "of the feature\n")
	r.commit(t, "On the feature")

	r.git(t, "checkout", "--quiet", "main")
	r.write(t, "a.txt", "one\nTWO\nthree\n")
	r.write(t, "dir/b.txt", "b\n")
	r.commit(t, "On main")
	return r
}

func TestShow(t *testing.T) {
	t.Parallel()
	r := history(t)
	for _, tt := range []struct {
		in            args
		want, without string
	}{
		{args{}, "author T <t@example.org>", "of the feature"},
		{args{}, "On main\n\ndiff --git a/a.txt b/a.txt", "of the feature"},
		{args{"revision": "v1"}, "First\n\ndiff --git a/a.txt b/a.txt\nnew file mode", "TWO"},
		{args{"revision": "feature", "path": "feature.txt"}, "of the feature\n", "diff"},
		{args{"path": "a.txt"}, "one\nTWO\nthree\n", "diff"},
		{args{"path": "./dir/../a.txt", "revision": "HEAD~1"}, "one\ntwo\n", "TWO"},
		{args{"path": "a.txt", "line_start": 2, "line_end": 2}, "TWO\n", "one"},
		{args{"path": "."}, "a.txt\ndir/\n", "feature"},
		{args{"path": "dir"}, "dir/b.txt\n", "a.txt"},
	} {
		got := r.call(t, "git.show", tt.in)
		if got.Failed || !strings.Contains(got.Text, tt.want) || strings.Contains(got.Text, tt.without) {
			t.Errorf("%v: %+v", tt.in, got)
		}
	}

	for _, tt := range []struct {
		in   args
		want string
	}{
		{args{"path": "none"}, "path: none is not in HEAD"},
		{args{"path": "a.txt", "line_start": 9}, "line_start"},
		{args{"path": ".env"}, "may hold secrets"},
		{args{"path": "../x"}, "path"},
		{args{"revision": "main..feature"}, "revision"},
		{args{"revision": "nobody"}, `revision: there is no commit "nobody"`},
	} {
		if got := r.call(t, "git.show", tt.in); !got.Failed || !strings.Contains(got.Text, tt.want) {
			t.Errorf("%v: %+v", tt.in, got)
		}
	}

	r.write(t, "long.txt", strings.Repeat("0123456789abcdef\n", 200_000))
	r.write(t, "bin", "\x00\x01")
	r.commit(t, "Long")

	if got := r.call(t, "git.show", args{"path": "long.txt"}); got.Failed ||
		!strings.HasSuffix(got.Text, "its end is not shown)\n") {
		t.Errorf("%d bytes", len(got.Text))
	}
	if got := r.call(t, "git.show", args{}); got.Failed || !strings.Contains(got.Text, "... (and more") {
		t.Errorf("%d bytes", len(got.Text))
	}
	if got := r.call(t, "git.show", args{"path": "bin"}); !got.Failed || !strings.Contains(got.Text, "not a text") {
		t.Errorf("r.call = %+v", got)
	}
}

// What is in secret files is not shown from the history either.
func TestShowHasNoSecrets(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.write(t, ".env", "hunter1\n")
	r.write(t, "plain.txt", "plain\n")
	r.commit(t, "With a secret")

	got := r.call(t, "git.show", args{})
	if got.Failed || strings.Contains(got.Text, "hunter") || !strings.Contains(got.Text, "+plain") ||
		!strings.Contains(got.Text, ".env differs, and is not shown") {
		t.Errorf("r.call = %+v", got)
	}

	for name, in := range map[string]args{
		"git.show": {"path": ".env"}, "git.blame": {"path": "./.env"}, "git.diff": {"from": "HEAD~1", "to": "HEAD"},
	} {
		if got := r.call(t, name, in); strings.Contains(got.Text, "hunter") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestBlame(t *testing.T) {
	t.Parallel()
	r := history(t)
	r.write(t, "a.txt", "not committed\n")
	got := r.call(t, "git.blame", args{"path": "a.txt"})
	if want := " Test: First\n     1  one\n"; got.Failed || !strings.Contains(got.Text, want) {
		t.Errorf("got.Text = %q, want %q", got.Text, want)
	}
	if want := " T: On main\n     2  TWO\n     3  three\n"; !strings.Contains(got.Text, want) || len(got.Sources) != 2 {
		t.Errorf("got.Text = %q, want %q", got.Text, want)
	}

	if got := r.call(t, "git.blame",
		args{
			"path": "a.txt", "line_start": 2, "line_end": 2, "revision": "v1",
		}); !strings.HasSuffix(got.Text, "Test: First\n     2  two\n") {
		t.Errorf("r.call = %+v", got)
	}

	for _, tt := range []struct {
		in   args
		want string
	}{
		{args{"path": "none"}, "none"},
		{args{"path": "dir"}, "dir"},
		{args{"path": "a.txt", "line_start": 20}, "lines"},
		{args{"path": "a.txt", "line_start": 3, "line_end": 2}, "line_end"},
		{args{"path": "/etc/passwd"}, "path"},
	} {
		if got := r.call(t, "git.blame", tt.in); !got.Failed || !strings.Contains(got.Text, tt.want) {
			t.Errorf("%v: %+v", tt.in, got)
		}
	}

	r.write(t, "long.txt", strings.Repeat("line\n", 1200))
	r.commit(t, "Long")
	if got := r.call(t, "git.blame", args{"path": "long.txt", "line_end": 900}); got.Failed ||
		!strings.HasSuffix(got.Text, "continue with line_start 501)\n") {
		t.Errorf("r.call = %+v", got)
	}
}

func TestDiffBetween(t *testing.T) {
	t.Parallel()
	r := history(t)
	for _, tt := range []struct {
		in            args
		want, without string
	}{
		{args{"from": "main", "to": "feature"}, "-TWO", "nothing"},
		{args{"from": "main", "to": "feature", "merge_base": true}, "+of the feature", "TWO"},
		{args{"from": "v1"}, "+TWO", "feature"},
		{args{"from": "v1", "to": "main", "path": "dir"}, "+b", "TWO"},
		{args{"from": "main", "to": "main"}, "Nothing differs.", "@@"},
	} {
		if got := r.call(t, "git.diff", tt.in); got.Failed || !strings.Contains(got.Text, tt.want) ||
			strings.Contains(got.Text, tt.without) {
			t.Errorf("%v: %+v", tt.in, got)
		}
	}

	for _, tt := range []struct {
		in   args
		want string
	}{
		{args{"to": "main"}, "to: it goes with from"},
		{args{"merge_base": true}, "merge_base: it goes with from"},
		{args{"from": "main", "revision": "main"}, "revision: it does not go with from"},
		{args{"from": "main", "to": "v1", "staged": true}, "staged"},
		{args{"from": "main..feature"}, "from"},
		{args{"from": "main", "to": "nobody"}, "to: there is no commit"},
	} {
		if got := r.call(t, "git.diff", tt.in); !got.Failed || !strings.Contains(got.Text, tt.want) {
			t.Errorf("%v: %+v", tt.in, got)
		}
	}
}

func TestBranches(t *testing.T) {
	t.Parallel()
	r := history(t)
	got := r.call(t, "git.branches", args{})
	if got.Failed || strings.Count(got.Text, "\n") != 2 || !strings.Contains(got.Text, "* main ") ||
		!strings.Contains(got.Text, "  feature ") {
		t.Errorf("r.call = %+v", got)
	}

	var all []struct {
		Name, Subject string
		Current       bool
	}
	if err := json.Unmarshal(got.Data, &all); err != nil || len(all) != 2 {
		t.Errorf("got.Data = %s, %v", got.Data, err)
	}

	if got := r.call(t, "git.stashes", args{}); got.Text != "Nothing is stashed." {
		t.Errorf("r.call = %+v", got)
	}
}
