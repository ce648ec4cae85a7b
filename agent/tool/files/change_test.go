package files_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/tool"
)

func (f folder) preview(t *testing.T, name, arguments string) (tool.Preview, error) {
	t.Helper()
	called, ok := f.set.Get("files." + name)
	if !ok {
		t.Fatalf("no tool %s", name)
	}

	p, can, err := tool.PreviewOf(t.Context(), called, called.Spec().Policy,
		tool.Call{ID: "call", Arguments: json.RawMessage(arguments)})
	if !can {
		t.Fatalf("%s has no previews", name)
	}
	return p, err
}

// approved makes a call that was approved with a digest.
func (f folder) approved(t *testing.T, name, arguments, digest string) tool.Result {
	t.Helper()
	called, _ := f.set.Get("files." + name)
	r, err := tool.Do(t.Context(), called, called.Spec().Policy,
		tool.Call{ID: "call", Arguments: json.RawMessage(arguments), Approved: digest}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (f folder) verify(t *testing.T, name, arguments, digest string) (tool.Result, bool) {
	t.Helper()
	called, _ := f.set.Get("files." + name)
	r, done, err := tool.Verify(t.Context(), called, called.Spec().Policy,
		tool.Call{ID: "call", Arguments: json.RawMessage(arguments), Approved: digest})
	if err != nil {
		t.Fatalf("%s %s: %v", name, arguments, err)
	}
	return r, done
}

// everything returns what is in the folder, by path; folders have no content.
func (f folder) everything(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	err := filepath.WalkDir(f.dir, func(at string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(f.dir, at)
		if err != nil || d.IsDir() {
			text.WriteString(below + "/\n")
			return err
		}

		b, err := os.ReadFile(at)
		text.WriteString(below + ": " + string(b) + "\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// written are calls of each tool that changes files, what an approver sees of each, and something that changes
// before it is made.
var written = []struct {
	name, arguments, diff string
	meanwhile             map[string]string
}{
	{"write_file", `{"path":"new/n.txt","content":"one\n"}`, "--- /dev/null\n+++ b/new/n.txt\n@@ -0,0 +1 @@\n+one\n",
		map[string]string{"new/n.txt": "theirs\n"}},
	{"write_file", `{"path":"a.txt","content":"1\n2\nthree\n"}`,
		"--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n 1\n 2\n-3\n+three\n", map[string]string{"a.txt": "0\n"}},
	{"edit_file", `{"path":"a.txt","search":"2","replace":"two"}`,
		"--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n", map[string]string{"a.txt": "1\n2\n4\n"}},
	{
		"edit_file", `{"path":"twice.txt","search":"x","replace":"xx","replace_all":true}`,
		"--- a/twice.txt\n+++ b/twice.txt\n@@ -1,2 +1,2 @@\n-x\n-x\n+xx\n+xx\n", map[string]string{"twice.txt": "x\nx\nx\n"},
	},
	{
		"edit_lines", `{"path":"a.txt","start_line":2,"end_line":3,"text":"b","first_line":"2","last_line":"3"}`,
		"--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,2 @@\n 1\n-2\n-3\n+b\n", map[string]string{"a.txt": "one\n2\n3\n"},
	},
	{"append_file", `{"path":"a.txt","content":"3\n"}`, "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,4 @@\n 1\n 2\n 3\n+3\n",
		map[string]string{"a.txt": "1\n2\n3\n3\n"}},
	{"delete_file", `{"path":"a.txt"}`, "--- a/a.txt\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-1\n-2\n-3\n",
		map[string]string{"a.txt": "1\n"}},
	{"delete_file", `{"path":"empty"}`, "The empty folder empty is deleted.\n", map[string]string{"empty/x": ""}},
	{"move_file", `{"from":"a.txt","to":"sub/b.txt"}`, "rename from a.txt\nrename to sub/b.txt\n",
		map[string]string{"a.txt": "9\n"}},
	{
		"move_file", `{"from":"a.txt","to":"twice.txt","overwrite":true}`,
		"rename from a.txt\nrename to twice.txt\nThe file at the new path is lost:\n--- a/twice.txt\n+++ /dev/null\n" +
			"@@ -1,2 +0,0 @@\n-x\n-x\n",
		map[string]string{"twice.txt": "worth more\n"},
	},
	{"move_file", `{"from":"full","to":"moved"}`, "rename from full\nrename to moved\nThe folder has 2 entries in it:\n" +
		"full/in\nfull/in/f.txt\n", map[string]string{"full/g.txt": "g"}},
}

func filled(t *testing.T) folder {
	t.Helper()
	f := open(t, map[string]string{"a.txt": "1\n2\n3\n", "twice.txt": "x\nx\n", "full/in/f.txt": "f"})
	if err := os.Mkdir(filepath.Join(f.dir, "empty"), 0o750); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f folder) put(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(f.dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o750), os.WriteFile(at, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// Who approves a call sees exactly how files change. That happens, or nothing, if they are others by then.
func TestApproval(t *testing.T) {
	t.Parallel()
	for _, row := range written {
		f := filled(t)
		before := f.everything(t)
		p, err := f.preview(t, row.name, row.arguments)
		if err != nil || p.Kind != tool.PreviewDiff || p.Text != row.diff || f.everything(t) != before {
			t.Errorf("%s %s: %v\n%s", row.name, row.arguments, err, p.Text)
		}
		if r := f.approved(t, row.name, row.arguments, p.Digest); r.Failed || f.everything(t) == before {
			t.Errorf("%s %s: %+v", row.name, row.arguments, r)
		}

		f = filled(t)
		if p, err = f.preview(t, row.name, row.arguments); err != nil {
			t.Fatal(err)
		}
		f.put(t, row.meanwhile)
		before = f.everything(t)
		if r := f.approved(t, row.name, row.arguments, p.Digest); !r.Failed || f.everything(t) != before {
			t.Errorf("%s %s is made although something changed: %+v", row.name, row.arguments, r)
		}
	}
}

// A call that cannot work is known before anybody is asked.
func TestNobodyIsAskedForNothing(t *testing.T) {
	t.Parallel()
	f := filled(t)
	for _, row := range []each{
		{"edit_file", `{"path":"a.txt","search":"9","replace":"x"}`}, {"delete_file", `{"path":"none"}`},
		{"delete_file", `{"path":"full"}`},
		{"move_file", `{"from":"a.txt","to":"twice.txt"}`}, {"write_file", `{"path":"../x","content":""}`},
		{"append_file", `{"path":".env","content":"x"}`},
		{"edit_lines", `{"path":"a.txt","start_line":1,"end_line":1,"text":"x","old_text":"2"}`},
		{"make_folder", `{"path":"a.txt"}`},
	} {
		if p, err := f.preview(t, row.name, row.arguments); err == nil {
			t.Errorf("%s %s: %+v", row.name, row.arguments, p)
		}
	}
}

// After the program was killed, a call that took effect is not made again, and one that did not is.
func TestNothingHappensTwice(t *testing.T) {
	t.Parallel()
	for _, row := range append(written[:len(written):len(written)], struct {
		name, arguments, diff string
		meanwhile             map[string]string
	}{"make_folder", `{"path":"made/deep"}`, "", nil}) {
		for _, asked := range []bool{true, false} {
			f := filled(t)
			digest := ""
			if p, err := f.preview(t, row.name, row.arguments); err != nil {
				t.Fatal(err)
			} else if asked {
				digest = p.Digest
			}

			// Without an approval, the text at the end of the file may be that of the call.
			ambiguous := row.name == "append_file" && !asked
			if r, done := f.verify(t, row.name, row.arguments, digest); done && !ambiguous {
				t.Errorf("%s %s, asked %v, did not take effect: %+v", row.name, row.arguments, asked, r)
			}

			r := f.approved(t, row.name, row.arguments, digest)
			after := f.everything(t)
			again, done := f.verify(t, row.name, row.arguments, digest)
			if !done || !strings.HasPrefix(again.Text, r.Summary) || again.Failed || f.everything(t) != after {
				t.Errorf("%s %s, asked %v, took effect: %v, %+v, want %+v", row.name, row.arguments, asked, done, again, r)
			}
			if len(again.Artifacts) != 1 || string(again.Artifacts[0].Value) != string(r.Artifacts[0].Value) {
				t.Errorf("%s: %+v", row.name, again.Artifacts)
			}
		}
	}
}

// Diffs of what is no text, or too large for one, say so in words, and the approval is for all of it.
func TestLargeAndBinary(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("0123456789abcde\n", 11<<16)
	f := open(t, map[string]string{"binary": "a\x00b", "huge": huge, "wide": strings.Repeat("x\n", 100_000)})

	for _, row := range []struct {
		each
		want string
	}{
		{each{"write_file", `{"path":"binary","content":"text"}`}, "It is a binary file: 3 bytes become 4 bytes."},
		{each{"write_file", `{"path":"huge","content":"text"}`}, "The file of 11534336 bytes is replaced:\ntext"},
		{each{"delete_file", `{"path":"binary"}`}, "It is a binary file of 3 bytes."},
		{each{"delete_file", `{"path":"huge"}`}, "The file has 11534336 bytes."},
		{each{"move_file", `{"from":"huge","to":"b"}`}, "rename to b"},
		{each{"delete_file", `{"path":"wide"}`}, "(cut: the whole has"},
	} {
		p, err := f.preview(t, row.name, row.arguments)
		if err != nil || !strings.Contains(p.Text, row.want) || len(p.Text) > tool.MaxPreview {
			t.Errorf("%s %s: %v, %d bytes: %.200q", row.name, row.arguments, err, len(p.Text), p.Text)
		}
	}

	if r := f.call(t, "append_file", `{"path":"huge","content":"x"}`); !r.Failed || !strings.Contains(r.Text, "10 MiB") {
		t.Errorf("f.call = %+v", r)
	}

	wide, err := f.preview(t, "delete_file", `{"path":"wide"}`)
	if err != nil {
		t.Fatal(err)
	}
	f.put(t, map[string]string{"wide": strings.Repeat("x\n", 99_999) + "y\n"})
	if r := f.approved(t, "delete_file", `{"path":"wide"}`, wide.Digest); !r.Failed {
		t.Errorf("a file is deleted whose end, which nobody saw, is another: %+v", r)
	}
}
