package git_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/git"
)

// approval is a call that a human is asked about.
type approval struct {
	tool    tool.Tool
	call    tool.Call
	preview tool.Preview
}

// ask returns a call with its preview, and the error that says that nobody is asked.
func (r repository) ask(t *testing.T, name string, arguments any) (approval, error) {
	t.Helper()
	b, err := json.Marshal(arguments)
	if err != nil {
		t.Fatal(err)
	}

	a := approval{call: tool.Call{ID: newID(), Arguments: b}}
	a.tool, _ = r.set.Get(name)
	before := state(t, r.dir)
	preview, can, err := tool.PreviewOf(t.Context(), a.tool, a.tool.Spec().Policy, a.call)
	if !can {
		t.Fatalf("%s has no preview", name)
	}

	if _, failed := a.tool.(tool.Toucher).Touches(t.Context(), a.call); failed != nil && err == nil {
		t.Errorf("%s %s touches: %v", name, b, failed)
	}
	if after := state(t, r.dir); after != before {
		t.Errorf("%s %s: the preview changed something:\n%s\nwas\n%s", name, b, after, before)
	}
	a.preview, a.call.Approved = preview, preview.Digest
	return a, err
}

// asked is ask where somebody must be asked.
func (r repository) asked(t *testing.T, name string, arguments any) approval {
	t.Helper()
	a, err := r.ask(t, name, arguments)
	if err != nil {
		t.Fatalf("%s %v: %v", name, arguments, err)
	}
	return a
}

// approve makes the call.
func (a approval) approve(t *testing.T) tool.Result {
	t.Helper()
	result, err := tool.Do(t.Context(), a.tool, a.tool.Spec().Policy, a.call, 0)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// verify asks whether the call took effect.
func (a approval) verify(t *testing.T) (tool.Result, bool) {
	t.Helper()
	result, done, err := tool.Verify(t.Context(), a.tool, a.tool.Spec().Policy, a.call)
	if err != nil {
		t.Fatal(err)
	}
	return result, done
}

// change is something that changes the repository, and that a human approves.
type change struct {
	tool    string
	prepare func(t *testing.T, r repository)
	in      func(t *testing.T, r repository) args
	shows   []string // in the preview
	// meanwhile is what somebody else does before it is approved.
	meanwhile func(t *testing.T, r repository)
	after     func(t *testing.T, r repository) string
	want      string // of after
}

func fixed(in args) func(*testing.T, repository) args {
	return func(*testing.T, repository) args { return in }
}

func writes(name, text string) func(*testing.T, repository) {
	return func(t *testing.T, r repository) { t.Helper(); r.write(t, name, text) }
}

func runs(arguments ...string) func(*testing.T, repository) {
	return func(t *testing.T, r repository) { t.Helper(); r.git(t, append(as, arguments...)...) }
}

func says(arguments ...string) func(*testing.T, repository) string {
	return func(t *testing.T, r repository) string { t.Helper(); return r.git(t, arguments...) }
}

func both(all ...func(*testing.T, repository)) func(*testing.T, repository) {
	return func(t *testing.T, r repository) {
		t.Helper()
		for _, each := range all {
			each(t, r)
		}
	}
}

// stash returns the newest stash.
func stash(action string) func(*testing.T, repository) args {
	return func(t *testing.T, r repository) args {
		t.Helper()
		return args{"action": action, "stash": strings.TrimSpace(r.git(t, "rev-parse", "stash@{0}"))[:12]}
	}
}

var changes = map[string]change{
	"commit of files": {
		tool: "git.commit", prepare: both(writes("a.txt", "approved\n"), writes("staged", "x\n"), runs("add", "staged")),
		in:        fixed(args{"message": "Say it\n\nFor a reason.", "files": []string{"a.txt"}}),
		shows:     []string{"Commit on the branch main:\n\n    Say it\n    \n    For a reason.", "\nM a.txt\n", "+approved"},
		meanwhile: writes("a.txt", "other\n"),
		after:     says("show", "--format=%s", "--name-only"), want: "Say it\n\na.txt\n",
	},
	"commit of what is staged": {
		tool: "git.commit", prepare: both(writes("new", "approved\n"), runs("add", "new"), writes("new", "later\n")),
		in:    fixed(args{"message": "Staged"}),
		shows: []string{"A new\n", "+approved"}, meanwhile: runs("add", "new"),
		after: says("show", "--format=", "HEAD:new"), want: "approved\n",
	},
	"commit on another branch": {
		tool: "git.commit", prepare: both(writes("new", "x\n"), runs("add", "new")), in: fixed(args{"message": "Here"}),
		shows: []string{"the branch main"}, meanwhile: runs("switch", "--quiet", "-c", "other"),
		after: says("log", "-1", "--format=%s", "main"), want: "Here\n",
	},
	"add": {
		tool: "git.add", prepare: both(writes("a.txt", "approved\n"), writes("new/x", "x\n")),
		in:    fixed(args{"files": []string{"."}}),
		shows: []string{"M a.txt\nA new/x\n", "+approved"}, meanwhile: writes("a.txt", "other\n"),
		after: says("diff", "--cached", "--name-only"), want: "a.txt\nnew/x\n",
	},
	"new branch": {
		tool: "git.branch", in: fixed(args{"name": "topic/one"}),
		shows:     []string{"Create the branch topic/one at ", "(First)"},
		meanwhile: runs("commit", "--quiet", "--allow-empty", "-m", "Later"),
		after:     says("rev-parse", "--abbrev-ref", "topic/one", "HEAD"), want: "topic/one\nmain\n",
	},
	"branch that goes": {
		tool: "git.branch", prepare: runs("branch", "old"), in: fixed(args{"name": "old", "delete": true}),
		shows:     []string{"Delete the branch old, which is at "},
		meanwhile: both(runs("commit", "--quiet", "--allow-empty", "-m", "Later"), runs("branch", "-f", "old", "main")),
		after:     says("branch", "--list", "--format=%(refname:short)"), want: "main\n",
	},
	"checkout": {
		tool: "git.checkout", prepare: both(runs("switch", "--quiet", "-c", "other"), writes("b.txt", "b\n"),
			runs("add", "b.txt"), runs("commit", "--quiet", "-m", "Other"), runs("switch", "--quiet", "main")),
		in:        fixed(args{"branch": "other"}),
		shows:     []string{"Switch from the branch main to other, at ", "A b.txt\n"},
		meanwhile: runs("branch", "-f", "other", "main"),
		after:     says("status", "--porcelain", "--branch"), want: "## other\n",
	},
	"checkout of a new branch": {
		tool: "git.checkout", prepare: both(runs("commit", "--quiet", "--allow-empty", "-m", "Second"),
			writes("a.txt", "kept\n")),
		in:        fixed(args{"branch": "topic", "create": true, "start": "HEAD~1"}),
		shows:     []string{"Create the branch topic and switch from the branch main to topic"},
		meanwhile: runs("commit", "--quiet", "--allow-empty", "-m", "Later"),
		after:     says("status", "--porcelain", "--branch"), want: "## topic\n M a.txt\n",
	},
	"stash": {
		tool: "git.stash", prepare: both(writes("a.txt", "approved\n"), writes("untracked", "x\n")),
		in:    fixed(args{"action": "push", "message": "For later"}),
		shows: []string{"Put aside", "M a.txt\n", "+approved"}, meanwhile: writes("a.txt", "other\n"),
		after: says("status", "--porcelain"), want: "?? untracked\n",
	},
	"stash that comes back": {
		tool: "git.stash", prepare: both(writes("a.txt", "approved\n"), runs("stash", "push", "--quiet")), in: stash("pop"),
		shows: []string{"Bring back", "M a.txt\n", "+approved"}, meanwhile: nil,
		after: says("diff", "--name-only"), want: "a.txt\n",
	},
	"stash that goes": {
		tool: "git.stash", prepare: both(writes("a.txt", "first\n"), runs("stash", "push", "--quiet"),
			writes("a.txt", "approved\n"), runs("stash", "push", "--quiet")), in: stash("drop"),
		shows: []string{"Delete", "+approved"}, meanwhile: nil,
		after: says("stash", "show", "-p"), want: "+first",
	},
}

// A human sees what a call would do, and it does that. It is found again by its id, and is not made twice.
func TestWhatIsApprovedIsDone(t *testing.T) {
	t.Parallel()
	for name, tt := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t)
			if tt.prepare != nil {
				tt.prepare(t, r)
			}

			a := r.asked(t, tt.tool, tt.in(t, r))
			for _, want := range tt.shows {
				if !strings.Contains(a.preview.Text, want) {
					t.Errorf("the preview lacks %q:\n%s", want, a.preview.Text)
				}
			}
			if _, done := a.verify(t); done {
				t.Error("it is said to be done before it was")
			}

			result := a.approve(t)
			if got := tt.after(t, r); result.Failed || !strings.Contains(got, tt.want) {
				t.Fatalf("%+v; then %q, want %q", result, got, tt.want)
			}
			found, done := a.verify(t)
			if !done || found.Failed || found.Text == "" {
				t.Errorf("it is not found: %+v, %v", found, done)
			}

			before := state(t, r.dir)
			if again := a.approve(t); !again.Failed && again.Text != result.Text && tt.tool != "git.add" {
				t.Errorf("made again: %+v", again)
			}
			if after := state(t, r.dir); after != before {
				t.Errorf("made again, it changed something")
			}
		})
	}
}

// If something changed after a human was asked, the call does nothing.
func TestWhatChangedMeanwhileIsNotDone(t *testing.T) {
	t.Parallel()
	for name, tt := range changes {
		if tt.meanwhile == nil {
			continue
		}

		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t)
			if tt.prepare != nil {
				tt.prepare(t, r)
			}
			a := r.asked(t, tt.tool, tt.in(t, r))
			tt.meanwhile(t, r)
			before := state(t, r.dir)

			if got := a.approve(t); !got.Failed || got.Text != tool.ErrChanged.Error() {
				t.Errorf("a.approve() = %+v", got)
			}
			if after := state(t, r.dir); after != before {
				t.Errorf("something changed:\n%s\nwas\n%s", after, before)
			}
			if _, done := a.verify(t); done {
				t.Error("it is said to be done")
			}
		})
	}
}

// Where a call cannot work nobody is asked, and nothing changes.
func TestNobodyIsAsked(t *testing.T) {
	t.Parallel()
	r := history(t)
	r.git(t, "branch", "merged", "v1")
	tree := filepath.Join(t.TempDir(), "tree")
	r.git(t, "branch", "elsewhere")
	r.git(t, "worktree", "add", "--quiet", tree, "elsewhere")
	head := strings.TrimSpace(r.git(t, "rev-parse", "HEAD"))

	for _, tt := range []struct {
		tool string
		in   args
		want string
	}{
		{"git.commit", args{"message": "Nothing"}, "there is nothing to commit"},
		{"git.commit", args{"message": "Nothing", "files": []string{"a.txt"}}, "there is nothing to commit"},
		{"git.commit", args{"message": "x\n\nActlog-Call: call-1"}, "message: the line Actlog-Call"},
		{"git.commit", args{"message": "x", "files": []string{"none"}}, "none"},
		{"git.add", args{"files": []string{}}, "files: name at least one"},
		{"git.add", args{"files": []string{"a.txt"}}, "there is nothing to stage"},
		{"git.add", args{"files": []string{"none"}}, "none"},
		{"git.branch", args{"name": "feature"}, "there is a branch feature already"},
		{"git.branch", args{"name": "new", "start": "nobody"}, "start: there is no commit"},
		{"git.branch", args{"name": "nobody", "delete": true}, "there is no branch nobody"},
		{"git.branch", args{"name": "main", "delete": true}, "is checked out"},
		{"git.branch", args{"name": "feature", "delete": true}, "would be lost"},
		{"git.branch", args{"name": "elsewhere", "delete": true}, "another working tree"},
		{"git.branch", args{"name": "merged", "delete": true, "start": "v1"}, "start"},
		{"git.checkout", args{"branch": "nobody"}, "create: true"},
		{"git.checkout", args{"branch": "main"}, "is checked out already"},
		{"git.checkout", args{"branch": "elsewhere"}, "another working tree"},
		{"git.checkout", args{"branch": "feature", "create": true}, "leave create out"},
		{"git.checkout", args{"branch": "feature", "start": "v1"}, "start: it goes with create"},
		{"git.stash", args{"action": "push"}, "there is nothing to stash"},
		{"git.stash", args{"action": "clear"}, "action"},
		{"git.stash", args{"action": "pop"}, "stash: name it by the hash"},
		{"git.stash", args{"action": "drop", "stash": "stash@{0}"}, "stash: name it by the hash"},
		{"git.stash", args{"action": "pop", "stash": head}, "there is no stash"},
	} {
		if _, err := r.ask(t, tt.tool, tt.in); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %v: %v, want %s", tt.tool, tt.in, err, tt.want)
		}

		before := state(t, r.dir)
		if got := r.call(t, tt.tool, tt.in); !got.Failed || !strings.Contains(got.Text, tt.want) {
			t.Errorf("%s %v without an approval: %+v", tt.tool, tt.in, got)
		}
		if state(t, r.dir) != before {
			t.Errorf("%s %v changed something", tt.tool, tt.in)
		}
	}
}

// Changes that are not committed are never lost: git itself refuses.
func TestCheckoutKeepsChanges(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(t *testing.T, r repository){
		"a file that changed":    writes("a.txt", "mine\n"),
		"a file that is new":     writes("feature.txt", "mine\n"),
		"a file that is ignored": both(writes(".git/info/exclude", "feature.txt\n"), writes("feature.txt", "mine\n")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := history(t)
			plant(t, r)
			before := r.git(t, "rev-parse", "HEAD") + r.git(t, "status", "--porcelain")

			got := r.call(t, "git.checkout", args{"branch": "feature"})
			if !got.Failed || !strings.Contains(got.Text, "overwritten by checkout") && !strings.Contains(got.Text, "lose") {
				t.Errorf("r.call = %+v", got)
			}

			for _, file := range []string{"a.txt", "feature.txt"} {
				if b, err := os.ReadFile(filepath.Join(r.dir, file)); err == nil && strings.HasPrefix(string(b), "of the") {
					t.Errorf("%s is %q", file, b)
				}
			}
			if after := r.git(t, "rev-parse", "HEAD") + r.git(t, "status", "--porcelain"); after != before {
				t.Errorf("it is now %s, was %s", after, before)
			}
		})
	}
}

// Files of the server itself are not changed by what a branch or a stash has.
func TestServersFilesStay(t *testing.T) {
	t.Parallel()
	r := history(t)
	r.git(t, "switch", "--quiet", "feature")
	r.write(t, "actlog.yaml", "policies: []\n")
	r.commit(t, "Change the server")

	r.git(t, "switch", "--quiet", "main")
	r.write(t, "actlog.yaml", "policies: [strict]\n")
	r.commit(t, "The server")
	r.write(t, "actlog.yaml", "stashed\n")
	r.git(t, append(as, "stash", "push", "--quiet")...)

	made, err := git.Tools(r.dir, git.Options{
		Write: true, Name: "Ada", Email: "ada@example.org", Hide: []string{filepath.Join(r.dir, "actlog.yaml")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.set, err = tool.NewSet(made...); err != nil {
		t.Fatal(err)
	}

	pop := stash("pop")(t, r)
	for i := range 2 {
		if i == 1 {
			r.write(t, "actlog.yaml", "changed by people\n")
		}
		for _, tt := range []struct {
			tool string
			in   args
		}{
			{"git.checkout", args{"branch": "feature"}},
			{"git.stash", pop},
			{"git.add", args{"files": []string{"actlog.yaml"}}},
			{"git.commit", args{"message": "m", "files": []string{"actlog.yaml"}}},
		} {
			if got := r.call(t, tt.tool, tt.in); !got.Failed || !strings.Contains(got.Text, "the server's own") {
				t.Errorf("%s %v: %+v", tt.tool, tt.in, got)
			}
		}
	}
	if got := r.call(t, "git.stash", args{"action": "push"}); !got.Failed ||
		!strings.Contains(got.Text, "the server's own") {
		t.Errorf("r.call = %+v", got)
	}
}

// What may hold secrets is named to whoever approves, and not shown.
func TestPreviewHasNoSecrets(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.write(t, ".env", "hunter1\n")
	r.write(t, "b.txt", "plain\n")
	one := r.asked(t, "git.commit", args{"message": "m", "files": []string{"."}})
	if text := one.preview.Text; strings.Contains(text, "hunter") || !strings.Contains(text, "A .env\n") ||
		!strings.Contains(text, ".env differs, and is not shown") || !strings.Contains(text, "+plain") {
		t.Errorf("one.preview.Text = %s", text)
	}

	r.write(t, ".env", "hunter2\n") // what is not shown is approved as well
	if got := one.approve(t); !got.Failed || got.Text != tool.ErrChanged.Error() {
		t.Errorf("one.approve() = %+v", got)
	}
}

// A preview is bounded, and its digest covers what is cut.
func TestLongPreview(t *testing.T) {
	t.Parallel()
	r := open(t)
	long := strings.Repeat("0123456789abcdef\n", 200_000)
	r.write(t, "long.txt", long)
	r.write(t, "zlast.txt", "x\n")

	a := r.asked(t, "git.commit", args{"message": "Long", "files": []string{"."}})
	if len(a.preview.Text) > tool.MaxPreview || !strings.Contains(a.preview.Text, "A zlast.txt\n") ||
		!strings.Contains(a.preview.Text, "(cut: the whole has ") {
		t.Errorf("%d bytes", len(a.preview.Text))
	}

	r.write(t, "long.txt", long+"and a last line\n")
	if got := a.approve(t); !got.Failed || got.Text != tool.ErrChanged.Error() {
		t.Errorf("a.approve() = %+v", got)
	}
}

// A file that looks unchanged by its size and its time is staged on trial as it is staged for good.
func TestPreviewOfAFileOfTheSameSize(t *testing.T) {
	t.Parallel()
	for range 5 {
		r := open(t)
		r.write(t, "a.txt", "one\nTWO\n")
		a := r.asked(t, "git.commit", args{"message": "m", "files": []string{"a.txt"}})
		if got := a.approve(t); got.Failed {
			t.Fatalf("a.approve() = %+v", got)
		}
	}
}

// The trailer stands with others that the message has.
func TestTrailer(t *testing.T) {
	t.Parallel()
	r := open(t)
	for message, want := range map[string]string{
		"Subject":            "Subject\n\nActlog-Call: ",
		"Subject\n\nBody.\n": "Subject\n\nBody.\n\nActlog-Call: ",
		"Subject\n\nSigned-off-by: Ada <a@b.org>\n": "Subject\n\nSigned-off-by: Ada <a@b.org>\nActlog-Call: ",
	} {
		r.write(t, "a.txt", message)
		if got := r.call(t, "git.commit", args{"message": message, "files": []string{"a.txt"}}); got.Failed {
			t.Errorf("r.call = %+v", got)
		}
		if got := r.git(t, "log", "-1", "--format=%B"); !strings.HasPrefix(got, want) {
			t.Errorf("r.git = %q, want %q", got, want)
		}
	}

	// A call without an id, or with one that is no name, leaves none.
	commit, _ := r.set.Get("git.commit")
	for _, id := range []string{"", "two\nlines: x"} {
		r.write(t, "a.txt", "again "+id)
		b, _ := json.Marshal(args{"message": "Plain", "files": []string{"a.txt"}})
		if got, err := tool.Do(context.Background(), commit, tool.Policy{}, tool.Call{ID: id, Arguments: b},
			0); err != nil || got.Failed {
			t.Errorf("tool.Do = %+v, %v", got, err)
		}
		if got := r.git(t, "log", "-1", "--format=%B"); got != "Plain\n\n" {
			t.Errorf("r.git = %q", got)
		}
	}
}
