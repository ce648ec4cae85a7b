package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// must runs a command line that has to succeed, and returns its stdout.
func must(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := actlog(t, args...)
	if code != exitDone {
		t.Fatalf("%q: exit code %d\n%s", args, code, stderr)
	}
	return stdout
}

// shown returns what show --json prints of a plan and of a step, without row numbers.
func shown(t *testing.T, url, plan, step string) (all []any) {
	t.Helper()
	for _, args := range [][]string{{"show", plan}, {"show", plan, "--step", step}} {
		var v any
		if err := json.Unmarshal([]byte(must(t, append(args, "--json", "--server", url)...)), &v); err != nil {
			t.Fatal(err)
		}
		all = append(all, numberless(v))
	}
	return all
}

func numberless(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if _, number := member.(float64); number && (name == "id" || name == "parentExecutionId") {
				delete(v, name)
				continue
			}
			v[name] = numberless(member)
		}
	case []any:
		for i := range v {
			v[i] = numberless(v[i])
		}
	}
	return v
}

// TestExportAndImport copies a tree from one server to another, in every compression, and back to
// the first, where it must change nothing.
func TestExportAndImport(t *testing.T) {
	t.Parallel()
	from, s := serve(t, apitest.Config{}, nil)
	storetest.Write(t, s, fullRun()...)
	storetest.Write(t, s, &record.Plan{RootPlanID: "other", CurrentPlanID: "other"})

	want := shown(t, from, "plan-1", "step-1")
	plain := must(t, "export", "sub-1", "other", "--server", from)
	if n := strings.Count(plain, "\n"); n != 12 {
		t.Errorf("%d records:\n%s", n, plain)
	}
	for _, name := range []string{"tree.ndjson", "tree.gz", "tree.zst"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to, _ := serve(t, apitest.Config{}, nil)
			file := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(file, []byte("old content"), 0o600); err != nil {
				t.Fatal(err)
			}

			must(t, "export", "sub-1", "other", "--server", from, "--output", file)
			if content, err := os.ReadFile(file); err != nil || (string(content) == plain) != (name == "tree.ndjson") {
				t.Errorf("%v: %.100q", err, content)
			}
			var got imported
			if err := json.Unmarshal([]byte(must(t, "import", file, "--json", "--server", to)), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(imported{File: file, Records: 12, Written: 12}, got); diff != "" {
				t.Errorf("summary (-want +got):\n%s", diff)
			}

			if diff := cmp.Diff(want, shown(t, to, "plan-1", "step-1")); diff != "" {
				t.Errorf("(-original +copy):\n%s", diff)
			}
			if again := must(t, "export", "plan-1", "other", "--server", to); again != plain {
				t.Errorf("export of the copy\n%s\nwant\n%s", again, plain)
			}

			must(t, "import", file, "--server", from)
			if diff := cmp.Diff(want, shown(t, from, "plan-1", "step-1")); diff != "" {
				t.Errorf("after the import into the first server (-before +after):\n%s", diff)
			}
			if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
				t.Errorf("left = %v, %v", left, err)
			}
		})
	}
}

// TestImportReportsRejectedRecords expects each rejected record with its line, and the others to
// be written.
func TestImportReportsRejectedRecords(t *testing.T) {
	t.Parallel()
	url, _ := serve(t, apitest.Config{}, nil)
	gzipped := func(s string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = io.WriteString(w, s)
		_ = w.Close()
		return b.String()
	}
	good := func(id string) string {
		return fmt.Sprintf(`{"kind":"plan","rootPlanId":%q,"currentPlanId":%[1]q,"title":"t"}`, id) + "\n"
	}
	many := strings.Repeat(good("many"), 3000)

	for name, tt := range map[string]struct {
		content           string
		records, rejected int64
		stderr            []string
	}{
		"good":            {"\n" + good("a") + " \r\n" + strings.TrimSpace(good("a")), 2, 0, nil},
		"byte order mark": {"\xef\xbb\xbf" + good("a"), 1, 0, nil},
		"a long text": {
			fmt.Sprintf(`{"kind":"thinkAct","rootPlanId":"long","stepId":"s","seq":0,"thinkInput":%q}`,
				strings.Repeat("x", 20<<20)), 1, 0, nil,
		},
		"bad records": {
			good("b") + `{"kind":"plan","rootPlanId":"b","titel":1}` + "\n" +
				`{"kind":"plan","rootPlanId":"b","currentPlanId":"b","state":"DONE"}` + "\n" + good("c") + `{"kind":"step"}` +
				"\n" + `[1]`, 6, 4, []string{
				":2: missing_field: currentPlanId is required", ":3: invalid_value: state must be one of PENDING",
				":5: unknown_kind: kind ", ":6: malformed: a record must be a JSON object",
			},
		},
		"not JSON": {
			good("d") + "{\"kind\": nonsense}\n" + good("d"), 3, 1, []string{":2: malformed: the line is not JSON at byte 11: "},
		},
		"not UTF-8": {
			good("e") + "{\"kind\":\"plan\",\"rootPlanId\":\"caf\xe9\"}\n" + good("e"), 3, 1,
			[]string{":2: malformed: the line is not UTF-8 from byte 33 on"},
		},
		"a long line": {
			good("f") + "{" + strings.Repeat(" ", 64<<20) + "}\n" + good("f"), 3, 1,
			[]string{":2: invalid_value: the line is over "},
		},
		"truncated": {
			good("g") + good("g")[:30], 2, 1, []string{
				":2: malformed: the file ends in the middle of this record: it is truncated",
			},
		},
		"truncated gzip": {gzipped(many)[:200], 0, 0, []string{": after line ", "the compressed file is truncated"}},
		"truncated head": {gzipped(many)[:5], 0, 0, []string{": the compressed file is truncated"}},
		"empty":          {"", 0, 0, []string{": is empty"}},
		"empty gzip":     {gzipped(""), 0, 0, []string{": is empty"}},
		"blank":          {" \n\n\t\n", 0, 0, []string{": holds no records"}},
		"a list":         {"[" + strings.TrimSpace(good("h")) + "]", 0, 0, []string{"is a JSON list", "jq -c '.[]'"}},
		"a request":      {`{"records":[]}`, 0, 0, []string{"jq -c '.records[]'"}},
		"pretty":         {"{\n \"kind\": \"plan\"\n}\n", 0, 0, []string{"spread over lines", "jq -c"}},
		"UTF-16":         {"\xff\xfe{\x00", 0, 0, []string{"UTF-16", "iconv"}},
		"something":      {"id,name\n1,x\n", 0, 0, []string{"no format that import reads", "actlog export"}},
		"other JSON": {
			strings.Repeat("{\"level\":\"info\"}\n", 5000), 1000, 1000, []string{
				":1: missing_field: kind is required", "all rejected; the rest is skipped",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "f")
			if err := os.WriteFile(file, []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}

			code, stdout, stderr := actlog(t, "import", file, "--json", "--server", url)
			if wrong := len(tt.stderr) > 0; wrong != (code == exitFailed) || !wrong && code != exitDone {
				t.Errorf("exit code %d\n%s", code, stderr)
			}

			for _, s := range tt.stderr {
				if !strings.Contains(stderr, file+s) && !strings.Contains(stderr, s) || strings.HasPrefix(s, ":") &&
					!strings.Contains(stderr, file+s) {
					t.Errorf("no %q in %.2000s", s, stderr)
				}
			}

			var got imported
			if err := json.Unmarshal([]byte(stdout), &got); err != nil {
				t.Fatal(err)
			}
			if got.Rejected != tt.rejected || got.Records-got.Rejected != got.Written || name != "truncated gzip" &&
				got.Records != tt.records {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestImportSeveralFiles(t *testing.T) {
	t.Parallel()
	url, _ := serve(t, apitest.Config{}, nil)
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}

	one := file("one", `{"kind":"plan","rootPlanId":"one","currentPlanId":"one"}`)
	two := file("two", `{"kind":"plan","rootPlanId":"two","currentPlanId":"two"}`)
	// A missing file is reported before anything is written.
	for missing, want := range map[string]string{filepath.Join(dir, "none"): "none: no such file", dir: "is a folder"} {
		if code, _, stderr := actlog(t, "import", one, missing, "--server", url); code != exitFailed ||
			!strings.Contains(stderr, want) {
			t.Errorf("exit code %d: %s", code, stderr)
		}
	}
	if code, _, _ := actlog(t, "show", "one", "--server", url); code != exitFailed {
		t.Error("something was written")
	}

	code, stdout, stderr := actlog(t, "import", one, file("empty", ""), two, "--server", url)
	if code != exitFailed || !strings.Contains(stderr, "empty: is empty") ||
		!strings.Contains(stderr, "1 file could not be read") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if want := []string{
		"FILE RECORDS WRITTEN REJECTED", one + " 1 1 0", dir + "/empty 0 0 0", two + " 1 1 0", "",
	}; cmp.Diff(want, strings.Split(squeezed(stdout), "\n")) != "" {
		t.Errorf("stdout = %s", stdout)
	}

	// stdin may be compressed, too.
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "gzip <"+two+` | "$0" import - --server "$1"`, program0(t),
		url).CombinedOutput()
	if err != nil || !strings.Contains(squeezed(string(out)), "\n- 1 1 0\n") {
		t.Errorf("CombinedOutput = %v\n%s", err, out)
	}
}

// squeezed replaces each run of spaces by one space.
func squeezed(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	return strings.Join(lines, "\n")
}

// program0 returns the path of a command that runs the program.
func program0(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "actlog")
	script := fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' \"$@\"\n", beMain, os.Args[0])
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestImportRetries imports into a busy server. Records that it could not take are sent again, in
// the order of the lines.
func TestImportRetries(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	url, _ := serve(t, apitest.Config{}, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && n.Add(1)%3 != 0 {
				w.Header().Set("Retry-After", "0")
				w.WriteHeader([]int{http.StatusServiceUnavailable, http.StatusTooManyRequests}[n.Load()%2])
				return
			}
			h.ServeHTTP(w, r)
		})
	})

	var lines strings.Builder
	for i := range 2*wire.MaxRecords + 1 {
		fmt.Fprintf(&lines, `{"kind":"plan","rootPlanId":"p","currentPlanId":"p","title":"title %d"}`+"\n", i)
	}
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}

	if out := squeezed(must(t, "import", file, "--server", url)); !strings.Contains(out, " 2001 2001 0") {
		t.Errorf("squeezed = %v", out)
	}
	if out := must(t, "show", "p", "--server", url); !strings.Contains(out, "title 2000") {
		t.Errorf("show = %v", out)
	}
	if n.Load() != 9 {
		t.Errorf("%d requests", n.Load())
	}
}

// TestKillImport kills an import with SIGKILL in the middle, and runs it again.
func TestKillImport(t *testing.T) {
	t.Parallel()
	from, s := serve(t, apitest.Config{}, nil)
	storetest.Write(t, s, fullRun()...)

	var changes []record.Change
	for i := range 5 * wire.MaxRecords {
		changes = append(changes, &record.ActTool{
			RootPlanID: "plan-1", StepID: "step-2", Seq: int64(i / 10), ToolCallID: fmt.Sprint("t", i), Name: new("n"),
			Rev: new(int64(i)),
		})
	}
	storetest.Write(t, s, changes...)
	file := filepath.Join(t.TempDir(), "f")
	must(t, "export", "plan-1", "--output", file, "--server", from)

	var posts atomic.Int64
	middle, killed := make(chan struct{}), make(chan struct{})
	to, _ := serve(t, apitest.Config{}, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && posts.Add(1) == 3 {
				close(middle)
				<-killed
			}
			h.ServeHTTP(w, r)
		})
	})

	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "import", file, "--server", to)
	cmd.Env = append(os.Environ(), beMain+"=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	<-middle
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	close(killed)

	want := must(t, "export", "plan-1", "--server", from)
	if must(t, "export", "plan-1", "--server", to) == want {
		t.Error("the import was complete before it was killed")
	}
	must(t, "import", file, "--server", to)
	if must(t, "export", "plan-1", "--server", to) != want {
		t.Error("the copy is a different tree")
	}
}

// TestErrorsSayWhatToDo runs commands without the server or the key that they need.
func TestErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	_, line, err := httpd.NewKey("reader", []httpd.Scope{httpd.ScopeRead})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := httpd.ReadKeys(strings.NewReader(line))
	if err != nil {
		t.Fatal(err)
	}

	url, _ := serve(t, apitest.Config{HTTP: httpd.Config{Keys: keys}}, nil)
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte(`{"kind":"plan","rootPlanId":"p","currentPlanId":"p"}`), 0o600); err != nil {
		t.Fatal(err)
	}

	for _, args := range [][]string{{"import", file}, {"export", "p"}, {"list"}, {"show", "p"}} {
		if code, _, stderr := actlog(t, append(args, "--server", url)...); code != exitFailed ||
			!strings.Contains(stderr, "requires an API key: pass one in ACTLOG_API_KEY or --api-key") {
			t.Errorf("%q without a key: exit code %d: %s", args, code, stderr)
		}
		if code, _, stderr := actlog(t, append(args, "--server", url, "--api-key", "wrong")...); code != exitFailed ||
			!strings.Contains(stderr, "does not know this API key: pass another in ACTLOG_API_KEY or --api-key") {
			t.Errorf("%q with a wrong key: exit code %d: %s", args, code, stderr)
		}

		if code, _, stderr := actlog(t, append(args, "--server", "http://127.0.0.1:1")...); code != exitFailed ||
			!strings.Contains(stderr, "actlog serve") {
			t.Errorf("%q without a server: exit code %d: %s", args, code, stderr)
		}
		if code, _, stderr := actlog(t, append(args, "--server", "127.0.0.1:1")...); code != exitUsage ||
			!strings.Contains(stderr, "--server") {
			t.Errorf("%q with an incomplete URL: exit code %d: %s", args, code, stderr)
		}
	}
}

func TestKeyScopes(t *testing.T) {
	t.Parallel()
	var lines, secrets []string
	for _, scope := range []httpd.Scope{httpd.ScopeRead, httpd.ScopeWrite} {
		secret, line, err := httpd.NewKey("key", []httpd.Scope{scope})
		if err != nil {
			t.Fatal(err)
		}
		lines, secrets = append(lines, line), append(secrets, secret)
	}
	keys, err := httpd.ReadKeys(strings.NewReader(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}

	url, s := serve(t, apitest.Config{HTTP: httpd.Config{Keys: keys}}, nil)
	storetest.Write(t, s, fullRun()...)
	reading, writing := secrets[0], secrets[1]
	file := filepath.Join(t.TempDir(), "f")
	must(t, "export", "plan-1", "-o", file, "--server", url, "--api-key", reading)
	must(t, "import", file, "--server", url, "--api-key", writing)

	for _, args := range [][]string{{"import", file, "--api-key", reading}, {"export", "plan-1", "--api-key", writing}} {
		code, _, stderr := actlog(t, append(args, "--server", url)...)
		if code != exitFailed || !strings.Contains(stderr, "scopes lack") ||
			!strings.Contains(stderr, "ACTLOG_API_KEY or --api-key") || strings.Contains(stderr, "actlog_") {
			t.Errorf("%q: exit code %d: %s", args, code, stderr)
		}
	}
}

// TestInterruptedExport must leave no new file, and must not change an old one.
func TestInterruptedExport(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(http.ResponseWriter){
		"broken connection": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"half a line":       func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"kind":`) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, strings.Repeat(`{"kind":"plan","rootPlanId":"p","currentPlanId":"p"}`+"\n", 1000))
				_ = http.NewResponseController(w).Flush()
				end(w)
			}))
			t.Cleanup(server.Close)

			dir := t.TempDir()
			old := filepath.Join(dir, "old")
			if err := os.WriteFile(old, []byte("old content"), 0o600); err != nil {
				t.Fatal(err)
			}

			for _, file := range []string{"-", old, filepath.Join(dir, "new.gz"), filepath.Join(dir, "new.zst")} {
				code, _, stderr := actlog(t, "export", "p", "--output", file, "--server", server.URL)
				if code != exitFailed || !strings.Contains(stderr, "the output is incomplete") {
					t.Errorf("%s: exit code %d: %s", file, code, stderr)
				}
			}

			if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
				t.Errorf("left = %v, %v", left, err)
			}
			if content, err := os.ReadFile(old); err != nil || string(content) != "old content" {
				t.Errorf("content = %s, %v", content, err)
			}
		})
	}
}

func TestExportRetries(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	url, s := serve(t, apitest.Config{}, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if n.Add(1) == 1 {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			h.ServeHTTP(w, r)
		})
	})

	storetest.Write(t, s, fullRun()...)
	if out := must(t, "export", "plan-1", "--server", url); strings.Count(out, "\n") != 11 {
		t.Errorf("export = %v", out)
	}
}

func TestExportOutput(t *testing.T) {
	t.Parallel()
	url, s := serve(t, apitest.Config{}, nil)
	storetest.Write(t, s, fullRun()...)
	dir := t.TempDir()
	for _, file := range []string{dir, filepath.Join(dir, "none", "f")} {
		if code, _, stderr := actlog(t, "export", "plan-1", "-o", file, "--server", url); code != exitFailed ||
			!strings.Contains(stderr, file) {
			t.Errorf("exit code %d: %s", code, stderr)
		}
	}

	// A file that is not a regular one is written to, not replaced.
	must(t, "export", "plan-1", "-o", os.DevNull, "--server", url)
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Errorf("info = %v, %v", info, err)
	}

	// A link is not replaced; the file behind it is.
	link := filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "file"), nil, 0o600), os.Symlink("file", link)); err != nil {
		t.Fatal(err)
	}
	must(t, "export", "plan-1", "-o", link, "--server", url)
	if content, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || len(content) == 0 {
		t.Errorf("content = %q, %v", content, err)
	}
}

// TestExportIsPrivate (N22): only its owner can read an export, also where it replaces a file that
// others could read, whatever the compression.
func TestExportIsPrivate(t *testing.T) {
	t.Parallel()
	url, s := serve(t, apitest.Config{}, nil)
	storetest.Write(t, s, fullRun()...)
	for _, name := range []string{"f", "f.gz", "f.zst"} {
		file := filepath.Join(t.TempDir(), name)
		for range 2 {
			must(t, "export", "plan-1", "-o", file, "--server", url)
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v", name, info.Mode(), err)
			}
			if err := os.Chmod(file, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestNotAnActlogServer expects a hint when something else answers.
func TestNotAnActlogServer(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"not found": http.NotFound,
		"a page":    func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
	} {
		server := httptest.NewServer(answer)
		t.Cleanup(server.Close)
		if code, _, stderr := actlog(t, "show", "p", "--server", server.URL); code != exitFailed ||
			!strings.Contains(stderr, "is there an Actlog server at "+server.URL) {
			t.Errorf("%s: exit code %d: %s", name, code, stderr)
		}
	}
}
