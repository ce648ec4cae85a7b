package code_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/code"
)

// S11: no tool looks at files that may hold secrets, or at hard links, unless they are allowed.
func TestClosedFiles(t *testing.T) {
	t.Parallel()
	set, dir := open(t, files{
		"a.go": "package a\n", ".ssh/hunter2.go": "package a\n\nfunc hunter2() {}\n", "x/id_rsa": "hunter2\n",
	}, true)
	outside := filepath.Join(t.TempDir(), "outside.go")
	if err := os.WriteFile(outside, []byte("package a\n\nfunc hunter2() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(outside, filepath.Join(dir, "hard.go")); err != nil {
		t.Fatal(err)
	}

	for _, path := range []string{"", ".ssh", ".ssh/hunter2.go", "hard.go", "x/id_rsa"} {
		for _, name := range set.Names() {
			in := object{"path": path}
			if name == "code.apply_refactoring" {
				in = object{"patch": fmt.Sprintf("--- a/%s\n+++ b/%[1]s\n@@ -1,1 +1,1 @@\n-hunter2\n+x\n", path)}
			}
			if got := fmt.Sprintf("%+v", call(t, set, name, in)); strings.Contains(strings.ReplaceAll(got, ".ssh/hunter2.go",
				""), "hunter2") {
				t.Errorf("%s %q: %s", name, path, got)
			}
		}
	}

	got := call(t, set, "code.analyze_complexity", object{"path": "hard.go"})
	if !got.Failed || !strings.Contains(got.Text, "hard link") {
		t.Errorf("call = %+v", got)
	}

	folder, err := code.Open(dir, code.Options{Allow: []string{"hard.go"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { folder.Close() })
	if set, err = tool.NewSet(folder.Tools()...); err != nil {
		t.Fatal(err)
	}

	if got := call(t, set, "code.analyze_complexity", object{"path": "hard.go"}); got.Failed ||
		!strings.Contains(got.Text, "hunter2") {
		t.Errorf("call = %+v", got)
	}
}
