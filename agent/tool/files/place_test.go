package files_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestGlob(t *testing.T) {
	t.Parallel()
	f := open(t, map[string]string{"a.go": "", "src/b.go": "", "src/deep/c.go": "", "src/deep/d.ts": "", ".git/e.go": ""})
	for _, row := range []struct{ arguments, text, summary string }{
		{`{"pattern":"**/*.go"}`, "a.go\nsrc/b.go\nsrc/deep/c.go\n", "Found 3 files in ."},
		{`{"pattern":"*.go","path":"src"}`, "src/b.go\n", "Found 1 file in src"},
		{`{"pattern":"**/*.{ts,js}"}`, "src/deep/d.ts\n", "Found 1 file in ."},
		{`{"pattern":"**/d*/"}`, "src/deep/\n", "Found 1 folder in ."},
		{`{"pattern":"*.md"}`, "Nothing matches.", "Found 0 files in ."},
	} {
		if r := f.call(t, "glob", row.arguments); r.Failed || r.Text != row.text || r.Summary != row.summary {
			t.Errorf("%s: %+v", row.arguments, r)
		}
	}
	for _, arguments := range []string{`{"pattern":""}`, `{"pattern":"{a"}`, `{"pattern":"../*"}`, `{"pattern":"/*"}`} {
		if r := f.call(t, "glob", arguments); !r.Failed || !strings.HasPrefix(r.Text, "pattern: ") {
			t.Errorf("%s: %+v", arguments, r)
		}
	}

	for i := range 1100 {
		f.put(t, map[string]string{"many/" + string(rune('a'+i%26)) + strings.Repeat("x", i/26+1): ""})
	}
	if r := f.call(t, "glob", `{"pattern":"many/*"}`); !strings.Contains(r.Text, "only the first 1000") {
		t.Errorf("r.Text = %.200q", r.Text)
	}
}

func TestInfo(t *testing.T) {
	t.Parallel()
	f := open(t, map[string]string{"a.txt": "1\n2\n3", "crlf": "a\r\n", "binary": "a\x00", "dir/x": "", "dir/y": "",
		"huge": strings.Repeat("x", 11<<20)})
	if err := os.Symlink("a.txt", filepath.Join(f.dir, "soft")); err != nil {
		t.Fatal(err)
	}

	for path, want := range map[string]string{
		"a.txt": `{"path":"a.txt","type":"text","size":5,"lines":3,"mode":"-rw-r--r--",`,
		"soft":  `{"path":"a.txt","type":"text"`,
		"crlf":  `"lines":1,"lineEnds":"CRLF"`, "binary": `"type":"binary","size":2,"mode"`,
		"dir": `"type":"folder","size":2,`, "huge": `"type":"large","size":11534336`, "": `"path":".","type":"folder"`,
	} {
		if r := f.call(t, "file_info", `{"path":$}`, path); r.Failed || !strings.Contains(r.Text, want) ||
			!json.Valid(r.Data) || r.Summary == "" {
			t.Errorf("%s: %+v, want %s", path, r, want)
		}
	}
	if r := f.call(t, "file_info", `{"path":"none"}`); !r.Failed || r.Text != "none: no such file or folder" {
		t.Errorf("f.call = %+v", r)
	}
}

func TestReadNumbered(t *testing.T) {
	t.Parallel()
	f := open(t, map[string]string{"a": "one\ntwo\nthree", "many": strings.Repeat("0123456789\n", 50_000),
		"long": strings.Repeat("x", 200_000)})

	r := f.call(t, "read_file", `{"path":"a","start_line":2,"numbered":true}`)
	if r.Text != "2\ttwo\n3\tthree" || string(r.Artifacts[0].Value) != `"two\nthree"` { // the content has no numbers
		t.Errorf("f.call = %+v", r)
	}

	if r := f.call(t, "read_file", `{"path":"many","numbered":true}`); !strings.Contains(r.Text,
		"go on with start_line") || strings.Contains(r.Text, "(cut") || len(r.Text) > 64<<10 {
		t.Errorf("%d bytes, %q", len(r.Text), r.Text[len(r.Text)-100:])
	}
	if r := f.call(t, "read_file", `{"path":"long","numbered":true}`); !strings.Contains(r.Text, "cut inside line 1") ||
		!strings.HasPrefix(r.Text, "1\txx") || len(r.Text) > 64<<10 {
		t.Errorf("%d bytes, %q", len(r.Text), r.Text[len(r.Text)-100:])
	}
}

func TestMoveDeleteMake(t *testing.T) {
	t.Parallel()
	f := open(t, map[string]string{"a": "a", "b": "b", "dir/x": "x", "other/y": "y"})

	for _, row := range []struct {
		each
		says string
		fail bool
	}{
		{each{"move_file", `{"from":"a","to":"b"}`}, "to: b is there already; take another path, or set overwrite", true},
		{each{"move_file", `{"from":"a","to":"dir"}`}, "to: dir is a folder; add the new name to it, such as dir/a", true},
		{each{"move_file", `{"from":"dir","to":"b","overwrite":true}`}, "to: b is a file, and a folder replaces none", true},
		{each{"move_file", `{"from":"dir","to":"other","overwrite":true}`}, "to: other is a folder", true},
		{each{"move_file", `{"from":"dir","to":"dir/in"}`}, "in the folder that is moved", true},
		{each{"move_file", `{"from":"a","to":"./a"}`}, "the same path", true},
		{each{"move_file", `{"from":"none","to":"c"}`}, "from: none: no such file or folder", true},
		{each{"move_file", `{"from":".","to":"c"}`}, "is the top folder", true},
		{each{"move_file", `{"from":"a","to":"b/c"}`}, "b/c", true},
		{each{"delete_file", `{"path":"dir"}`}, "dir is a folder with 1 entry in it; only an empty one is deleted", true},
		{each{"delete_file", `{"path":""}`}, "is the top folder", true},
		{each{"make_folder", `{"path":"b"}`}, "b is a file", true},
		{each{"make_folder", `{"path":"b/c"}`}, "b", true},

		{each{"move_file", `{"from":"a","to":"b","overwrite":true}`}, "Moved a to b.", false},
		{each{"move_file", `{"from":"dir","to":"deep/er/dir"}`}, "Moved dir to deep/er/dir.", false},
		{each{"delete_file", `{"path":"deep/er/dir/x"}`}, "Deleted deep/er/dir/x.", false},
		{each{"delete_file", `{"path":"deep/er/dir"}`}, "Deleted deep/er/dir.", false},
		{each{"make_folder", `{"path":"n/m"}`}, "Made the folder n/m.", false},
		{each{"make_folder", `{"path":"n/m"}`}, "The folder n/m is there already.", false},
	} {
		if r := f.call(t, row.name, row.arguments); r.Failed != row.fail || !strings.Contains(r.Text, row.says) ||
			strings.Contains(r.Text, f.dir) {
			t.Errorf("%s %s: %+v, want %q", row.name, row.arguments, r, row.says)
		}
	}

	if got, want := f.everything(t), "./\nb: a\ndeep/\ndeep/er/\nn/\nn/m/\nother/\nother/y: y\n"; got != want {
		t.Errorf("f.everything() = %q, want %q", got, want)
	}
}

// A folder is moved only if nothing in it is what tools must not touch, under either name.
func TestSecretsAreNotMovedAway(t *testing.T) {
	t.Parallel()
	f := open(t, map[string]string{"app/.env": "hunter2", "home/.ssh/config": "hunter2", "repo/.git/config": "[core]",
		"plain/config": "x", "linked/a": "a"})
	if err := os.Symlink("../plain", filepath.Join(f.dir, "linked", "out")); err != nil {
		t.Fatal(err)
	}

	before := f.everything
	was := ""
	if os.Remove(filepath.Join(f.dir, "linked", "out")) == nil {
		was = before(t)
	}
	if err := os.Symlink("../plain", filepath.Join(f.dir, "linked", "out")); err != nil {
		t.Fatal(err)
	}

	for _, arguments := range []string{
		`{"from":"app","to":"b"}`, `{"from":"home","to":"b"}`, `{"from":"home/.ssh","to":"b"}`, `{"from":"repo","to":"b"}`,
		`{"from":"linked","to":"b"}`,
		`{"from":"plain","to":".ssh"}`, `{"from":"plain","to":".aws/sso"}`, `{"from":"plain/config","to":"home/.ssh/other"}`,
	} {
		if r := f.call(t, "move_file", arguments); !r.Failed || strings.Contains(r.Text, "hunter2") {
			t.Errorf("%s: %+v", arguments, r)
		}
	}

	if err := os.Remove(filepath.Join(f.dir, "linked", "out")); err != nil {
		t.Fatal(err)
	}
	if got := before(t); got != was {
		t.Errorf("before() = %q, want %q", got, was)
	}
}

// While another program exchanges folders and links, nothing outside is touched.
func TestRaces(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "x"), []byte("outside"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := open(t, map[string]string{"dir/x": "inside", "keep/x": "inside"})

	stop := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		at, away := filepath.Join(f.dir, "dir"), filepath.Join(f.dir, "away")
		for {
			select {
			case <-stop:
				return
			default:
				_ = os.Rename(at, away)
				_ = os.Symlink(outside, at)
				_ = os.Remove(at)
				_ = os.Rename(away, at)
			}
		}
	})
	for range 25 {
		for _, c := range []each{
			{"write_file", `{"path":"dir/x","content":"mine"}`}, {"append_file", `{"path":"dir/x","content":"mine"}`},
			{"edit_file", `{"path":"dir/x","search":"outside","replace":"mine"}`},
			{"move_file", `{"from":"dir/x","to":"dir/y","overwrite":true}`},
			{"move_file", `{"from":"dir/y","to":"dir/x","overwrite":true}`},
			{"delete_file", `{"path":"dir/x"}`}, {"make_folder", `{"path":"dir/made"}`}, {"read_file", `{"path":"dir/x"}`},
			{"glob", `{"pattern":"dir/*"}`}, {"file_info", `{"path":"dir/x"}`},
		} {
			if r := f.call(t, c.name, c.arguments); strings.Contains(r.Text, "outside") && c.name == "read_file" {
				t.Fatalf("%s reads what is outside: %+v", c.name, r)
			}
		}
	}

	close(stop)
	all.Wait()
	names, err := filepath.Glob(filepath.Join(outside, "*"))
	if b, readErr := os.ReadFile(filepath.Join(outside, "x")); err != nil || readErr != nil || string(b) != "outside" ||
		len(names) != 1 {
		t.Errorf("os.ReadFile = %q, %v, %v, %v", b, names, err, readErr)
	}
}
