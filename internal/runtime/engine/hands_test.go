package engine_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/code"
	"github.com/actlog/actlog/agent/tool/db"
	"github.com/actlog/actlog/agent/tool/docker"
	"github.com/actlog/actlog/agent/tool/files"
	"github.com/actlog/actlog/agent/tool/git"
	webtool "github.com/actlog/actlog/agent/tool/http"
	"github.com/actlog/actlog/agent/tool/shell"
	"github.com/actlog/actlog/agent/tool/tests"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// hand is a toolset that changes something outside of the record, with calls of all its tools that do.
type hand struct {
	name string
	// sure says that the tools can tell by themselves what became of a call, so none stays unknown.
	sure bool
	// repeats says that a call that nobody knows the end of is made again, on record, because it is for reading.
	repeats bool
	make    func(t *testing.T) grip
}

// grip is a toolset at work on something real.
type grip struct {
	tools []tool.Tool
	turns [][]scriptmodel.ToolCall // each has one call
	// effects counts how often each call took effect, in the order of the turns.
	effects func() []int
	// others changes what the last call changed, as if somebody else worked there; nil: nothing.
	others func()
}

// hands are all toolsets that change something.
var hands = []hand{
	{name: "files", sure: true, make: filesHand},
	{name: "code", make: codeHand}, // of a patch that fits again after it was applied nobody can tell
	{name: "git", sure: true, make: gitHand},
	{name: "db, which notes its calls", sure: true, make: func(t *testing.T) grip { t.Helper(); return dbHand(t, true) }},
	{name: "db", make: func(t *testing.T) grip { t.Helper(); return dbHand(t, false) }},
	{name: "http", make: httpHand},
	{name: "docker", make: dockerHand},
	{name: "shell", make: shellHand},
	{name: "tests", repeats: true, make: testsHand},
}

// one is a turn with one call.
func one(name string, arguments object) []scriptmodel.ToolCall {
	return []scriptmodel.ToolCall{call(name, arguments)}
}

// house returns a house in which an agent makes the calls of a grip.
func (g grip) house(t *testing.T, rules ...tool.Rule) *enginetest.House {
	t.Helper()
	// Nothing times out on a machine that is busy with other tests.
	patient := append(rules, tool.Rule{Tools: "*", Timeout: new(5 * time.Minute)})
	var names []string
	for _, each := range g.tools {
		names = append(names, each.Spec().Name)
	}

	turns := append(slices.Clone(g.turns), terminate("done"))
	return build(t, []scriptmodel.Scene{{Name: "s", Turns: calls(turns...)}},
		map[string]define.Definition{"a": {Tools: names, Policies: patient}}, g.tools)
}

// place is a folder with files, which counts how often something is in them.
type place struct {
	t   *testing.T
	dir string
}

func placeWith(t *testing.T, content map[string]string) place {
	t.Helper()
	p := place{t, t.TempDir()}
	for name, text := range content {
		p.put(name, text)
	}
	return p
}

func (p place) put(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// text is that of a file; it is empty if there is none.
func (p place) text(name string) string {
	b, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil && !os.IsNotExist(err) {
		p.t.Error(err)
	}
	return string(b)
}

func (p place) count(name, part string) int { return strings.Count(p.text(name), part) }

// there counts what is at a path: 1 or 0.
func (p place) there(name string) int {
	_, err := os.Lstat(filepath.Join(p.dir, name))
	return truth(err == nil)
}

func truth(holds bool) int {
	if holds {
		return 1
	}
	return 0
}

func filesHand(t *testing.T) grip {
	t.Helper()
	p := placeWith(t, map[string]string{
		"edit": "one\ntwo\n", "lines": "one\ntwo\n", "log": "begin\n", "from": "m\n", "old": "o\n",
	})
	folder, err := files.Open(p.dir, files.Options{Write: true})
	if err != nil {
		t.Fatal(err)
	}

	return grip{
		tools: folder.Tools(),
		turns: [][]scriptmodel.ToolCall{
			one("files.write_file", object{"path": "new", "content": "written\n"}),
			one("files.edit_file", object{"path": "edit", "search": "two", "replace": "two and two"}),
			one("files.edit_lines", object{
				"path": "lines", "start_line": 2, "end_line": 1, "first_line": "two", "text": "between",
			}),
			one("files.move_file", object{"from": "from", "to": "to"}),
			one("files.delete_file", object{"path": "old"}),
			one("files.make_folder", object{"path": "made"}),
			one("files.append_file", object{"path": "log", "content": "added\n"}),
		},
		effects: func() []int {
			return []int{
				p.count("new", "written"), p.count("edit", " and two"), p.count("lines", "between"),
				p.there("to") - p.there("from"), 1 - p.there("old"), p.there("made"), p.count("log", "added"),
			}
		},
		others: func() { p.put("log", p.text("log")+"theirs\n") },
	}
}

func codeHand(t *testing.T) grip {
	t.Helper()
	p := placeWith(t, map[string]string{"a.go": "package a\n\nfunc A() {}\n", "b.go": "package a\n\nfunc B() {}\n"})
	folder, err := code.Open(p.dir, code.Options{Write: true})
	if err != nil {
		t.Fatal(err)
	}

	// The last patch fits again after it was applied.
	return grip{
		tools: folder.Tools(),
		turns: [][]scriptmodel.ToolCall{
			one("code.apply_refactoring", object{"patch": "--- a/a.go\n+++ b/a.go\n@@ -3 +3 @@\n-func A() {}\n+func New() {}\n" +
				"--- /dev/null\n+++ b/c.go\n@@ -0,0 +1 @@\n+package a // c\n"}),
			one("code.apply_refactoring", object{"patch": "--- a/b.go\n+++ b/b.go\n@@ -1,1 +1,2 @@\n package a\n+// more\n"}),
		},
		effects: func() []int { return []int{p.count("a.go", "New") * p.there("c.go"), p.count("b.go", "more")} },
		others:  func() { p.put("b.go", p.text("b.go")+"// theirs\n") },
	}
}

func gitHand(t *testing.T) grip {
	t.Helper()
	p := placeWith(t, map[string]string{"a.txt": "a\n", "b.txt": "b\n", "c.txt": "c\n"})
	remote := filepath.Join(t.TempDir(), "remote.git")

	run := func(arguments ...string) string {
		t.Helper()
		return gitIn(t, p.dir, arguments...)
	}
	run("init", "--quiet", "--initial-branch=main")
	run("add", "a.txt")
	run("commit", "--quiet", "-m", "First")
	run("clone", "--quiet", "--bare", ".", remote)
	p.put("a.txt", "stashed\n")

	tools, err := git.Tools(p.dir, git.Options{
		Write: true, Name: "Ada", Email: "ada@example.org",
		Remotes: map[string]git.Remote{"origin": {URL: "file://" + remote}},
	})
	if err != nil {
		t.Fatal(err)
	}

	subjects := func(name string) (n int) {
		for line := range strings.Lines(run("log", "--format=%s", "--branches", "--")) {
			n += truth(strings.TrimSpace(line) == name)
		}
		return n
	}

	return grip{
		tools: tools,
		turns: [][]scriptmodel.ToolCall{
			one("git.stash", object{"action": "push"}),
			one("git.checkout", object{"branch": "topic", "create": true}),
			one("git.commit", object{"message": "Add b", "files": []string{"b.txt"}}),
			one("git.add", object{"files": []string{"c.txt"}}),
			one("git.commit", object{"message": "Add c"}),
			one("git.push", object{}),
			one("git.checkout", object{"branch": "main"}),
		},
		effects: func() []int {
			c := subjects("Add c")
			pushed := run("--git-dir="+remote, "for-each-ref", "--format=%(refname:short) %(contents:subject)")
			return []int{
				len(strings.Fields(run("stash", "list", "--format=%H"))),
				strings.Count("\n"+run("branch", "--format=%(refname:short)")+"\n", "\ntopic\n"), subjects("Add b"),
				min(c+strings.Count(run("status", "--porcelain"), "A  c.txt"), 1), c, strings.Count(pushed, "topic Add c"),
				truth(run("branch", "--show-current") == "main"),
			}
		},
	}
}

// gitIn runs git in a folder, and returns what it wrote.
func gitIn(t *testing.T, dir string, arguments ...string) string {
	t.Helper()
	who := []string{"-c", "user.name=T", "-c", "user.email=t@example.org"}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "git", append(who, arguments...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", arguments, err, out)
	}
	return strings.TrimSpace(string(out))
}

func dbHand(t *testing.T, notes bool) grip {
	t.Helper()
	shop := pgtest.Empty(t)
	exec := func(sql string) {
		t.Helper()
		if _, err := shop.Pool.Exec(context.WithoutCancel(t.Context()), sql); err != nil {
			t.Fatal(err)
		}
	}

	exec("CREATE TABLE item (id int PRIMARY KEY, price int NOT NULL)")
	exec("INSERT INTO item VALUES (1, 0), (2, 0)")
	tools, err := db.Tools(db.Options{URL: shop.URL, Write: true, Idempotency: notes, AllowSuperuser: true})
	if err != nil {
		t.Fatal(err)
	}
	raise := func(id int) []scriptmodel.ToolCall {
		return one("db.execute", object{"sql": "UPDATE item SET price = price + 1 WHERE id = $1", "parameters": []int{id}})
	}

	return grip{
		tools: tools, turns: [][]scriptmodel.ToolCall{raise(1), raise(2)},
		effects: func() []int {
			n := make([]int, 2)
			const prices = "SELECT max(price) FILTER (WHERE id = 1), max(price) FILTER (WHERE id = 2) FROM item"
			if err := shop.Pool.QueryRow(context.WithoutCancel(t.Context()), prices).Scan(&n[0], &n[1]); err != nil {
				t.Error(err)
			}
			return n
		},
	}
}

// ledger counts requests by what they are.
type ledger struct {
	mu   sync.Mutex
	came map[string]int
	keys map[string]string // what came under an idempotency key
}

func (l *ledger) note(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.came == nil {
		l.came = map[string]int{}
	}
	l.came[what]++
}

// of returns how often each of these came.
func (l *ledger) of(all ...string) (n []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, each := range all {
		n = append(n, l.came[each])
	}
	return n
}

func httpHand(t *testing.T) grip {
	t.Helper()
	l := &ledger{keys: map[string]string{}}
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what cannot be read is another request
		what, key := r.Method+" "+r.URL.Path+" "+string(body), r.Header.Get("Idempotency-Key")
		l.note(what)
		l.mu.Lock()
		defer l.mu.Unlock()
		if before, there := l.keys[key]; !strings.HasPrefix(key, "toolcall-") || there && before != what {
			t.Errorf("%s came with the key %q of %q", what, key, before)
		}
		l.keys[key] = what
	}))
	t.Cleanup(s.Close)

	tools, err := webtool.Tools(webtool.Options{
		Hosts: []string{s.URL}, Methods: []string{http.MethodPost, http.MethodDelete}, AllowPrivate: true,
	})
	if err != nil {
		t.Fatal(err)
	}

	return grip{
		tools: tools,
		turns: [][]scriptmodel.ToolCall{
			one("http.send", object{"method": "POST", "url": s.URL + "/orders", "body": "one"}),
			one("http.send", object{"method": "POST", "url": s.URL + "/orders", "body": "two"}),
			one("http.send", object{"method": "DELETE", "url": s.URL + "/orders/1"}),
		},
		effects: func() []int { return l.of("POST /orders one", "POST /orders two", "DELETE /orders/1 ") },
	}
}

// containers are those of a Docker daemon on a socket, with their states.
type containers struct {
	ledger
	states map[string]string
}

// ServeHTTP answers as a daemon does.
func (c *containers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, action := filepath.Split(strings.TrimPrefix(r.URL.Path, "/containers/"))
	if r.Method == http.MethodPost {
		c.note(action + " " + strings.TrimSuffix(id, "/"))
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Method == http.MethodPost {
		after := map[string]string{"start": "running", "restart": "running", "stop": "exited"}
		c.states[strings.TrimSuffix(id, "/")] = after[action]
		w.WriteHeader(http.StatusNoContent)
		return
	}

	list := []object{}
	for _, id := range slices.Sorted(maps.Keys(c.states)) {
		list = append(list, object{"Id": id, "Names": []string{"/web-" + id[:1]}, "State": c.states[id], "Image": "shop"})
	}
	_ = json.NewEncoder(w).Encode(list) // a client that has gone reads nothing
}

func dockerHand(t *testing.T) grip {
	t.Helper()
	dir, err := os.MkdirTemp("", "docker-") //nolint:usetesting // the path of t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })

	socket := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}

	a, b := strings.Repeat("a", 12), strings.Repeat("b", 12)
	daemon := &containers{states: map[string]string{a: "running", b: "exited"}}
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: daemon}
	go s.Serve(listener)
	t.Cleanup(func() { s.Close() })

	tools, err := docker.Tools(docker.Options{Socket: socket, Write: true, Containers: []string{"web-*"}})
	if err != nil {
		t.Fatal(err)
	}

	return grip{
		tools: tools,
		turns: [][]scriptmodel.ToolCall{
			one("docker.restart", object{"container": "web-a"}), one("docker.start", object{"container": "web-b"}),
			one("docker.stop", object{"container": "web-a"}),
		},
		effects: func() []int { return daemon.of("restart "+a, "start "+b, "stop "+a) },
		others: func() {
			daemon.mu.Lock()
			defer daemon.mu.Unlock()
			daemon.states[a] = "running"
		},
	}
}

func shellHand(t *testing.T) grip {
	t.Helper()
	p := placeWith(t, map[string]string{"note.sh": "echo \"ran $1\" >>log\n"})
	tools, err := shell.Tools(shell.Command{
		Name: "note", Dir: p.dir, Arguments: []string{"sh", "note.sh"}, Allow: "[a-z]+",
	})
	if err != nil {
		t.Fatal(err)
	}

	return grip{
		tools: tools,
		turns: [][]scriptmodel.ToolCall{
			one("shell.note", object{"arguments": []string{"one"}}), one("shell.note", object{"arguments": []string{"two"}}),
		},
		effects: func() []int { return []int{p.count("log", "ran one\n"), p.count("log", "ran two\n")} },
	}
}

func testsHand(t *testing.T) grip {
	t.Helper()
	p := placeWith(t, map[string]string{"all.sh": "echo all >>log\n", "some.sh": "echo some >>log\n"})
	tools, err := tests.Tools(
		tests.Command{Name: "all", Dir: p.dir, Arguments: []string{"sh", "all.sh"}},
		tests.Command{Name: "some", Dir: p.dir, Arguments: []string{"sh", "some.sh"}})
	if err != nil {
		t.Fatal(err)
	}

	return grip{
		tools: tools, turns: [][]scriptmodel.ToolCall{one("tests.all", object{}), one("tests.some", object{})},
		effects: func() []int { return []int{p.count("log", "all\n"), p.count("log", "some\n")} },
	}
}
