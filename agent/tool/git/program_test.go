package git_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/git"
)

// What git starts ends with it: after a call is over, nothing goes on changing the repository.
func TestNothingGoesOn(t *testing.T) {
	bin, pid := t.TempDir(), filepath.Join(t.TempDir(), "pid")
	// The second program neither hears that it should end, nor keeps the first one waiting.
	script := fmt.Sprintf("#!/bin/sh\n(trap '' TERM; echo started >> %s; sleep 4; echo went on >> %[1]s) >/dev/null "+
		"2>&1 &\nsleep 30\n", pid)
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}

	r := open(t)
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	tools, err := git.Tools(r.dir, git.Options{})
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := tools[0].Call(ctx, tool.Call{Arguments: json.RawMessage("{}")}); err == nil {
		t.Error("the call did not end with its context")
	}

	time.Sleep(5 * time.Second)
	b, err := os.ReadFile(pid)
	if err != nil || !strings.Contains(string(b), "started") || strings.Contains(string(b), "went on") {
		t.Errorf("os.ReadFile(pid) = %q, %v", b, err)
	}
}

// A commit whose output does not end is none that failed: it is unknown what became of it, until it is found.
func TestOutputStaysOpen(t *testing.T) {
	r := open(t)
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	r.write(t, "a.txt", "more\n")

	bin := t.TempDir()
	script := "#!/bin/sh\nfor each; do if [ \"$each\" = commit ]; then sleep 6 & fi; done\n" + real + " \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))

	tools, err := git.Tools(r.dir, git.Options{Write: true, Name: "Ada", Email: "ada@example.org"})
	if err != nil {
		t.Fatal(err)
	}
	set, err := tool.NewSet(tools...)
	if err != nil {
		t.Fatal(err)
	}

	commit, _ := set.Get("git.commit")
	call := tool.Call{ID: "call-1", Arguments: json.RawMessage(`{"message": "More", "files": ["a.txt"]}`)}
	if result, err := tool.Do(t.Context(), commit, tool.Policy{Writes: true}, call, 0); !errors.Is(err, tool.ErrUnknown) {
		t.Errorf("tool.Do = %+v, %v", result, err)
	}
	if result, done, err := tool.Verify(t.Context(), commit, tool.Policy{}, call); err != nil || !done {
		t.Errorf("tool.Verify = %+v, %v, %v", result, done, err)
	}
}

// A pack that grows over the bound ends the fetch that writes it; others do not count.
func TestWatchSize(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a[b]*")
	put(t, filepath.Join(dir, "pack-1.pack"), strings.Repeat("x", 200), nil)
	put(t, filepath.Join(dir, "tmp_pack_small"), strings.Repeat("x", 100), nil)

	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	git.WatchSize(ctx, dir, 100, func() { t.Error("a pack within the bound is too large") })

	put(t, filepath.Join(dir, "tmp_pack_large"), strings.Repeat("x", 101), nil)
	over := 0
	git.WatchSize(t.Context(), dir, 100, func() { over++ })
	if over != 1 {
		t.Errorf("over the bound %d times", over)
	}
}
