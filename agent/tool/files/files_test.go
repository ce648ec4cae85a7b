package files_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/files"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// folder is a folder of a test with the tools for it, which may write.
type folder struct {
	dir string
	set *tool.Set
}

func open(t *testing.T, content map[string]string) folder {
	t.Helper()
	dir := t.TempDir()
	for name, text := range content {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}

	f, err := files.Open(dir, files.Options{Write: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	set, err := tool.NewSet(f.Tools()...)
	if err != nil {
		t.Fatal(err)
	}
	return folder{dir, set}
}

// call calls a tool. Each $ in the arguments stands for a value.
func (f folder) call(t *testing.T, name, arguments string, values ...any) tool.Result {
	t.Helper()
	for _, v := range values {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		arguments = strings.Replace(arguments, "$", string(b), 1)
	}

	called, ok := f.set.Get("files." + name)
	if !ok {
		t.Fatalf("no tool %s", name)
	}
	r, err := tool.Do(t.Context(), called, called.Spec().Policy,
		tool.Call{ID: "call", Arguments: json.RawMessage(arguments)}, 0)
	if err != nil {
		t.Fatalf("%s %s: %v", name, arguments, err)
	}
	return r
}

func (f folder) text(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(f.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// readers and writers are the names of the tools.
var (
	readers = []string{"files.list_files", "files.read_file", "files.search_in_files", "files.glob", "files.file_info"}
	writers = []string{
		"files.write_file", "files.edit_file", "files.edit_lines", "files.append_file", "files.make_folder",
		"files.move_file", "files.delete_file",
	}
)

// Operations have the names that plans and configurations use, and write tools are absent unless writing is enabled.
func TestTools(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	if got, want := f.set.Names(), slices.Concat(readers, writers); !cmp.Equal(got, want) {
		t.Errorf("f.set.Names() = %v, want %v", got, want)
	}

	for _, each := range f.set.Tools() {
		spec := each.Spec()
		if writes := slices.Contains(writers, spec.Name); spec.Policy.Writes != writes || spec.Policy.Approval != writes {
			t.Errorf("%s: %+v", spec.Name, spec.Policy)
		}
		if toucher, ok := each.(tool.Toucher); ok != spec.Policy.Writes {
			t.Errorf("%s: Toucher %v", spec.Name, ok)
		} else if ok {
			got, err := toucher.Touches(t.Context(), tool.Call{
				Arguments: json.RawMessage(`{"path":"./a/../b","content":"","search":"x","replace":""}`),
			})
			if err == nil || !strings.Contains(err.Error(), "unexpected additional") { // each has its own
				t.Errorf("%s: %v, %v", spec.Name, got, err)
			}
		}
	}

	write, _ := f.set.Get("files.write_file")
	if got, err := write.(tool.Toucher).Touches(t.Context(),
		tool.Call{Arguments: json.RawMessage(`{"path":"./a/../b","content":""}`)}); err != nil ||
		!cmp.Equal(got, []string{"b"}) {
		t.Errorf("Touches = %v, %v", got, err)
	}

	read, err := files.Open(f.dir, files.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	if n := len(read.Tools()); n != len(readers) {
		t.Errorf("%d tools without writing, want %d", n, len(readers))
	}
}

// each is a call with a path, which stands for the $.
type each struct{ name, arguments string }

// looks and changes are calls of every tool: what no path may do, it may do with none of them.
var (
	looks = []each{
		{"read_file", `{"path":$}`}, {"read_file", `{"path":$,"numbered":true}`},
		{"list_files", `{"path":$,"recursive":true}`},
		{"search_in_files", `{"pattern":".","path":$}`}, {"glob", `{"pattern":"**","path":$}`}, {"file_info", `{"path":$}`},
	}
	changes = []each{
		{"write_file", `{"path":$,"content":"x"}`}, {"edit_file", `{"path":$,"search":"k","replace":"x"}`},
		{"edit_lines", `{"path":$,"start_line":1,"end_line":1,"text":"x","old_text":"key=value"}`},
		{"edit_lines", `{"path":$,"start_line":1,"end_line":1,"text":"x","old_text":"other"}`},
		{"append_file", `{"path":$,"content":"x"}`}, {"delete_file", `{"path":$}`},
		{"move_file", `{"from":$,"to":"taken"}`}, {"move_file", `{"from":$,"to":"taken","overwrite":true}`},
		{"move_file", `{"from":"in/a.txt","to":$}`}, {"move_file", `{"from":"in/a.txt","to":$,"overwrite":true}`},
		{"make_folder", `{"path":$}`},
	}
)

func TestNoPathLeavesTheFolder(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("key=value"), 0o644); err != nil {
		t.Fatal(err)
	}

	f := open(t, map[string]string{"in/a.txt": "inside", ".git/config": "[core]", "sub/.git/config": "[core]"})
	for link, target := range map[string]string{
		"absolute": filepath.Join(outside, "secret"), "dir": outside, "up": "../" + filepath.Base(outside),
		"in/up": "../../" + filepath.Base(outside) + "/secret",
		"loop":  "loop", "fine": "in/a.txt", "in/back": "../in/a.txt", "disguise": ".git", "in/config": "../.git/config",
		"here": ".",
	} {
		if err := os.Symlink(target, filepath.Join(f.dir, link)); err != nil {
			t.Fatal(err)
		}
	}

	for _, path := range []string{
		"../" + filepath.Base(outside) + "/secret", filepath.Join(outside, "secret"),
		"in/../../" + filepath.Base(outside) + "/secret", "absolute", "dir/secret", "up/secret", "in/up",
		"loop", ".git/config", "sub/.git/config", ".GIT/config", "disguise/config", "in/config", "here/.git/config",
		"here/disguise/config", "..", "/", "a\x00b",
	} {
		for _, c := range slices.Concat(looks, changes) {
			if r := f.call(t, c.name, c.arguments, path); !r.Failed || strings.Contains(r.Text, "value") ||
				strings.Contains(r.Text, f.dir) {
				t.Errorf("%s %q: %+v", c.name, path, r)
			}
		}
	}
	for _, path := range []string{"fine", "in/back", "here/in/a.txt", "./in//a.txt"} {
		if r := f.call(t, "read_file", `{"path":$}`, path); r.Failed || r.Text != "inside" || r.Sources[0].URI != "in/a.txt" {
			t.Errorf("read %q: %+v", path, r)
		}
	}

	// A file is written where a link leads, and the link stays.
	if r := f.call(t, "write_file", `{"path":"fine","content":"new"}`); r.Failed || f.text(t, "in/a.txt") != "new" {
		t.Errorf("f.call = %+v", r)
	}
	if info, err := os.Lstat(filepath.Join(f.dir, "fine")); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v, %v", info, err)
	}

	for _, name := range []string{"list_files", "search_in_files"} {
		if r := f.call(t, name, map[string]string{
			"list_files": `{"recursive":true}`, "search_in_files": `{"pattern":"."}`,
		}[name]); r.Failed ||
			strings.Contains(r.Text, ".git") || strings.Contains(r.Text, "core") || strings.Contains(r.Text, "value") {
			t.Errorf("%s shows what it must not: %+v", name, r)
		}
	}
	if b, err := os.ReadFile(filepath.Join(outside, "secret")); err != nil || string(b) != "key=value" {
		t.Errorf("the file outside: %q, %v", b, err)
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	var hundred strings.Builder
	for i := range 100 {
		fmt.Fprintf(&hundred, "line %d\n", i+1)
	}
	f := open(t, map[string]string{
		"hundred": hundred.String(), "empty": "", "no-newline": "one\ntwo", "binary": "\x7fELF\x00\x01", "latin": "caf\xe9\n",
		"long": strings.Repeat("x", 200_000) + "\nsecond\n", "many": strings.Repeat("0123456789\n", 50_000), "dir/a": "",
	})

	for _, tt := range []struct{ arguments, text, summary string }{
		{`{"path":"hundred","start_line":99}`, "line 99\nline 100\n", "Read 2 lines from hundred"},
		{`{"path":"hundred","start_line":2,"end_line":3}`, "line 2\nline 3\n", "Read 2 lines from hundred"},
		{`{"path":"hundred","end_line":1}`, "line 1\n", "Read 1 line from hundred"},
		{`{"path":"hundred","start_line":100,"end_line":500}`, "line 100\n", "Read 1 line from hundred"},
		{`{"path":"no-newline","start_line":2}`, "two", "Read 1 line from no-newline"},
		{`{"path":"empty"}`, "The file is empty.", "Read 0 lines from empty"},
		{`{"path":"latin"}`, "caf\uFFFD\n", "Read 1 line from latin"},
	} {
		if r := f.call(t, "read_file", tt.arguments); r.Failed || r.Text != tt.text || r.Summary != tt.summary {
			t.Errorf("%s: %+v", tt.arguments, r)
		}
	}
	for _, tt := range []struct{ arguments, want string }{
		{`{"path":"hundred","start_line":101}`, "start_line: hundred has only 100 lines"},
		{`{"path":"hundred","start_line":-1}`, "start_line"},
		{`{"path":"hundred","start_line":5,"end_line":4}`, "end_line"},
		{`{"path":"binary"}`, "binary is a binary file of 6 bytes"},
		{`{"path":"dir"}`, "dir is a folder"},
		{`{"path":"missing"}`, "missing: no such file"},
		{`{"path":"hundred/x"}`, "hundred/x: "},
		{`{}`, "path"},
	} {
		if r := f.call(t, "read_file", tt.arguments); !r.Failed || !strings.Contains(r.Text, tt.want) {
			t.Errorf("%s: %+v, want %q", tt.arguments, r, tt.want)
		}
	}

	// A long file comes in pieces of whole lines, and the notice says how to go on.
	all, start := "", 1
	for range 100 {
		r := f.call(t, "read_file", `{"path":"many","start_line":$}`, start)
		text, notice, more := strings.Cut(r.Text, "\n... (lines ")
		if all += text; !more {
			break
		}
		if _, err := fmt.Sscanf(notice[strings.Index(notice, "start_line"):], "start_line %d)", &start); err != nil ||
			len(r.Text) > tool.MaxText {
			t.Fatalf("%d bytes, %q: %v", len(r.Text), notice, err)
		}
	}
	if all != f.text(t, "many") {
		t.Errorf("the pieces have %d bytes, want %d", len(all), 550_000)
	}

	if r := f.call(t, "read_file", `{"path":"long"}`); r.Failed || !strings.Contains(r.Text, "cut inside line 1") ||
		len(r.Text) > tool.MaxText {
		t.Errorf("%d bytes, %q", len(r.Text), r.Text[len(r.Text)-100:])
	}
	if r := f.call(t, "read_file", `{"path":"long","start_line":2}`); r.Text != "second\n" {
		t.Errorf("f.call = %+v", r)
	}
	if runPipe(t, filepath.Join(f.dir, "pipe")) {
		if r := f.call(t, "read_file", `{"path":"pipe"}`); !r.Failed || !strings.Contains(r.Text, "not a regular file") {
			t.Errorf("f.call = %+v", r)
		}
	}
}

// runPipe makes a named pipe, if the machine has any.
func runPipe(t *testing.T, at string) bool {
	t.Helper()
	return exec.CommandContext(t.Context(), "mkfifo", at).Run() == nil
}

func TestList(t *testing.T) {
	t.Parallel()
	f := open(t, map[string]string{"a.go": "", "b.txt": "", "src/c.go": "", "src/deep/d.go": ""})
	for _, tt := range []struct{ arguments, text string }{
		{`{}`, "a.go\nb.txt\nsrc/\n"},
		{`{"path":"src"}`, "src/c.go\nsrc/deep/\n"},
		{`{"recursive":true}`, "a.go\nb.txt\nsrc/\nsrc/c.go\nsrc/deep/\nsrc/deep/d.go\n"},
		{`{"recursive":true,"include":"*.go"}`, "a.go\nsrc/c.go\nsrc/deep/d.go\n"},
		{`{"recursive":true,"include":"src/*.go"}`, "src/c.go\n"},
		{`{"include":"*.md"}`, "There are no files."},
		{`{"path":"b.txt"}`, "b.txt\n"},
	} {
		if r := f.call(t, "list_files", tt.arguments); r.Failed || r.Text != tt.text {
			t.Errorf("%s: %+v", tt.arguments, r)
		}
	}

	if r := f.call(t, "list_files", `{"path":"none"}`); !r.Failed || r.Text != "none: no such file or folder" {
		t.Errorf("f.call = %+v", r)
	}
	if r := f.call(t, "list_files", `{"include":"["}`); !r.Failed || !strings.Contains(r.Text, "include") {
		t.Errorf("f.call = %+v", r)
	}

	for i := range 1100 {
		if err := os.WriteFile(filepath.Join(f.dir, "src", fmt.Sprintf("f%04d", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if r := f.call(t, "list_files", `{"path":"src"}`); r.Failed || !strings.Contains(r.Text, "only the first 1000") {
		t.Errorf("%q", r.Text[len(r.Text)-100:])
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	f := open(t, map[string]string{
		"src/auth/login.py": "import os\n\n# BUG: null check missing\n", "src/b.py": "# bug\r\n", "binary": "BUG\x00",
		"long":     "BUG" + strings.Repeat("y", 5000),
		"many.txt": strings.Repeat("needle\n", 300), "huge": strings.Repeat("BUG\n", 3<<20),
	})

	r := f.call(t, "search_in_files", `{"pattern":"BUG","path":"src"}`)
	if r.Text != "src/auth/login.py:3: # BUG: null check missing\n" ||
		r.Summary != "Found 1 match in src/auth/login.py" || len(r.Sources) != 1 || r.Sources[0].LineStart != 3 {
		t.Errorf("f.call = %+v", r)
	}

	if r := f.call(t, "search_in_files", `{"pattern":"(?i)bug$"}`); r.Failed || r.Summary != "Found 1 match in src/b.py" {
		t.Errorf("f.call = %+v", r)
	}
	if r := f.call(t, "search_in_files", `{"pattern":"BUG","path":"src/b.py"}`); r.Failed ||
		r.Text != "Nothing matches.\n" || r.Summary != "Found 0 matches in src/b.py" {
		t.Errorf("f.call = %+v", r)
	}
	if r := f.call(t, "search_in_files", `{"pattern":"(?i)bug","include":"*.py"}`); r.Summary != "Found 2 matches in "+
		"2 files" {
		t.Errorf("f.call = %+v", r)
	}

	if r := f.call(t, "search_in_files", `{"pattern":"BUG"}`); strings.Contains(r.Text, "binary") || len(r.Text) > 1000 ||
		!strings.Contains(r.Text, "1 file of more than 10 MiB") {
		t.Errorf("f.call = %+v", r)
	}
	if r := f.call(t, "search_in_files", `{"pattern":"needle","max_results":7}`); len(r.Sources) != 7 ||
		!strings.Contains(r.Text, "only the first 7") {
		t.Errorf("f.call = %+v", r)
	}
	if r := f.call(t, "search_in_files", `{"pattern":"needle","max_results":100000}`); len(r.Sources) != 200 {
		t.Errorf("%d hits", len(r.Sources))
	}

	for _, pattern := range []string{"f(", "", "(?<x"} {
		if r := f.call(t, "search_in_files", `{"pattern":$}`, pattern); !r.Failed || !strings.Contains(r.Text, "pattern") {
			t.Errorf("%q: %+v", pattern, r)
		}
	}
}

func TestWriteAndEdit(t *testing.T) {
	t.Parallel()
	f := open(t, map[string]string{
		"run.sh": "echo one\necho two\necho two\n", "crlf": "a\r\nb\r\n", "aaa": "aaa", "binary": "a\x00b",
	})
	if err := os.Chmod(filepath.Join(f.dir, "run.sh"), 0o750); err != nil {
		t.Fatal(err)
	}

	r := f.call(t, "edit_file", `{"path":"run.sh","search":"echo one\n","replace":"echo zero\necho one\n"}`)
	if r.Failed || f.text(t, "run.sh") != "echo zero\necho one\necho two\necho two\n" ||
		r.Summary != "Edited run.sh (1 change)" || string(r.Artifacts[0].Value) != `["run.sh"]` ||
		r.Artifacts[0].Name != "files_modified" {
		t.Errorf("f.call = %+v", r)
	}
	if info, err := os.Stat(filepath.Join(f.dir, "run.sh")); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}

	before := f.text(t, "run.sh")
	for _, tt := range []struct{ arguments, want string }{
		{`{"path":"run.sh","search":"echo two\n","replace":"x"}`, "2 times"},
		{`{"path":"run.sh","search":"echo six","replace":"x"}`, "not in run.sh"},
		{`{"path":"run.sh","search":"","replace":"x"}`, "search: it is empty"},
		{`{"path":"run.sh","search":"one","replace":"one"}`, "the same"},
		{`{"path":"run.sh","search":"one"}`, "replace"},
		{`{"path":"crlf","search":"a\nb","replace":"x"}`, "CR LF"},
		{`{"path":"aaa","search":"aa","replace":"b"}`, "more than once"},
		{`{"path":"binary","search":"a","replace":"b"}`, "binary"},
		{`{"path":"none","search":"a","replace":"b"}`, "no such file"},
	} {
		if r := f.call(t, "edit_file", tt.arguments); !r.Failed || !strings.Contains(r.Text, tt.want) {
			t.Errorf("%s: %+v, want %q", tt.arguments, r, tt.want)
		}
	}
	if f.text(t, "run.sh") != before {
		t.Error("an edit that was refused changed the file")
	}

	if r := f.call(t, "write_file", `{"path":"new/deep/file.txt","content":"a\nb\n"}`); r.Failed ||
		f.text(t, "new/deep/file.txt") != "a\nb\n" || r.Summary != "Wrote 2 lines to new/deep/file.txt" {
		t.Errorf("f.call = %+v", r)
	}
	for _, tt := range []struct{ arguments, want string }{
		{`{"path":"new","content":""}`, "new is a folder"},
		{`{"path":".","content":""}`, "is a folder"},
		{`{"path":"","content":""}`, "is a folder"},
		{`{"path":"aaa/b","content":""}`, "aaa"},
	} {
		if r := f.call(t, "write_file", tt.arguments); !r.Failed || !strings.Contains(r.Text, tt.want) {
			t.Errorf("%s: %+v, want %q", tt.arguments, r, tt.want)
		}
	}

	if runPipe(t, filepath.Join(f.dir, "pipe")) {
		if r := f.call(t, "write_file", `{"path":"pipe","content":"x"}`); !r.Failed {
			t.Errorf("f.call = %+v", r)
		}
	}
	if left, err := filepath.Glob(filepath.Join(f.dir, ".actlog-*")); err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
}

// Edits at the same time are all there at the end, and readers never see half a file.
func TestEditsAtTheSameTime(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 20 {
		fmt.Fprintf(&text, "<%d>\n", i)
	}
	f := open(t, map[string]string{"a": text.String()})

	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if r := f.call(t, "edit_file", `{"path":"a","search":$,"replace":$}`, fmt.Sprintf("<%d>", i),
				fmt.Sprintf("[%d]", i)); r.Failed {
				t.Errorf("f.call = %+v", r)
			}
		})
		all.Go(func() {
			if r := f.call(t, "read_file", `{"path":"a"}`); r.Failed || strings.Count(r.Text, "\n") != 20 {
				t.Errorf("f.call = %+v", r)
			}
		})
	}
	all.Wait()

	if got, want := f.text(t, "a"), strings.NewReplacer("<", "[", ">", "]").Replace(text.String()); got != want {
		t.Errorf("f.text = %q", got)
	}
}
