//go:build attack

package attack_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// S12: agents that are hostile use all toolsets. They reach nothing that is not theirs.

// outsideSecret is in what is outside of all that the tools may reach.
const outsideSecret = "OUTSIDE-secret-0123456789"

// world is what a house's toolsets can reach, and what they must not.
type world struct {
	t       *testing.T
	root    string // of the folder
	outside string // a folder beside it, with the secret
	web     *site  // a server that the configuration names
	inner   *site  // one that it does not name
	docker  *daemon
	shop    *pgtest.DB
	login   string // the URL of the shop, as a role without powers
}

// site is a web server, which keeps what it was sent.
type site struct {
	server *httptest.Server
	mu     sync.Mutex
	came   []string // method, path, headers that are not the client's, body
}

func newSite(t *testing.T, answer http.HandlerFunc) *site {
	t.Helper()
	s := &site{}
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what cannot be read is another request
		text := r.Method + " http://" + r.Host + r.URL.RequestURI() + "\n"
		for _, name := range []string{"Content-Type", "X-Mine", "Authorization", "Idempotency-Key"} {
			if value := r.Header.Get(name); value != "" {
				text += name + ": " + value + "\n"
			}
		}
		if len(body) > 0 {
			text += "\n" + string(body)
		}

		s.mu.Lock()
		s.came = append(s.came, text)
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.server.Close)
	return s
}

func (s *site) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.came)
}

// port is that of the site.
func (s *site) port() string { return s.server.URL[strings.LastIndex(s.server.URL, ":")+1:] }

// daemon is a Docker daemon on a socket, with the containers web-1 and secret-db.
type daemon struct {
	socket string
	mu     sync.Mutex
	web    string // the id of web-1
	posted []string
}

const otherContainer = "bbbbbbbbbbbb"

func newDaemon(t *testing.T) *daemon {
	t.Helper()
	dir, err := os.MkdirTemp("", "docker-") //nolint:usetesting // the path of t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })

	d := &daemon{socket: filepath.Join(dir, "s"), web: "aaaaaaaaaaaa"}
	listener, err := net.Listen("unix", d.socket)
	if err != nil {
		t.Fatal(err)
	}

	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: d}
	go s.Serve(listener)
	t.Cleanup(func() { s.Close() })
	return d
}

// ServeHTTP answers as a daemon does.
func (d *daemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case r.Method == http.MethodPost:
		d.posted = append(d.posted, r.URL.Path)
		w.WriteHeader(http.StatusNoContent)
	case r.URL.Path == "/containers/json":
		fmt.Fprintf(w, `[{"Id": %q, "Names": ["/web-1"], "State": "running", "Image": "shop"},
			{"Id": %q, "Names": ["/secret-db"], "State": "running", "Image": "postgres"}]`, d.web, otherContainer)
	case strings.HasSuffix(r.URL.Path, "/json"):
		fmt.Fprintf(w, `{"Id": %q, "Name": "/web-1", "State": {"Status": "running"},
			"Config": {"Env": ["PASSWORD=%s"], "Cmd": ["--token=%[2]s"]}}`, d.web, outsideSecret)
	default:
		http.NotFound(w, r)
	}
}

func (d *daemon) done() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.posted)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, root: filepath.Join(dir, "root"), outside: filepath.Join(dir, "outside"), docker: newDaemon(t)}
	put(t, w.outside, "secret.txt", "known\n"+outsideSecret+"\n")
	put(t, w.outside, "secret.go", "package outside\n\nvar Secret = \""+outsideSecret+"\"\n")
	w.fill()

	w.inner = newSite(t, func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, outsideSecret) })
	w.web = newSite(t, func(rw http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(rw, r, to, http.StatusFound)
		}
	})

	w.shop = pgtest.Empty(t)
	login := fmt.Sprintf("shop_%d", time.Now().UnixNano())
	w.sql("CREATE TABLE item (id int PRIMARY KEY, price int); INSERT INTO item VALUES (1, 10), (2, 20)")
	w.sql("CREATE TABLE hidden (secret text); INSERT INTO hidden VALUES ('" + outsideSecret + "')")
	w.sql("CREATE ROLE " + login + " LOGIN PASSWORD 'hunter2'; GRANT SELECT, INSERT, UPDATE, DELETE ON item TO " + login)
	t.Cleanup(func() { w.sql("DROP OWNED BY " + login + "; DROP ROLE " + login) })

	u, err := url.Parse(w.shop.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(login, "hunter2")
	w.login = u.String()
	return w
}

// fill makes the folder, with links that lead out of it.
func (w *world) fill() {
	w.t.Helper()
	put(w.t, w.root, "a.txt", "one\ntwo\n")
	put(w.t, w.root, "a.go", "package a\n\nfunc A() {}\n")
	put(w.t, w.root, "say.sh", "for each; do printf '<%s>' \"$each\"; done >said\n")
	put(w.t, w.root, "-rf", "dash\n")
	put(w.t, w.root, ".env", "KEY="+outsideSecret+"\n")
	put(w.t, w.root, "go.mod", "module example.com/a\n")

	outsideGit(w.t, w.root, "init", "--quiet", "--initial-branch=main")
	outsideGit(w.t, w.root, "add", "a.txt", "a.go")
	outsideGit(w.t, w.root, "commit", "--quiet", "-m", "First")

	for name, to := range map[string]string{"link": w.outside, "link.txt": filepath.Join(w.outside, "secret.txt")} {
		if err := os.Symlink(to, filepath.Join(w.root, name)); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(w.outside, "secret.txt"), filepath.Join(w.root, "hard.txt")); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) sql(text string) {
	w.t.Helper()
	if _, err := w.shop.Pool.Exec(context.WithoutCancel(w.t.Context()), text); err != nil {
		w.t.Fatalf("%s: %v", text, err)
	}
}

// items are the rows of the shop.
func (w *world) items() (text string) {
	w.t.Helper()
	const all = "SELECT string_agg(id || ':' || price, ' ' ORDER BY id) FROM item"
	if err := w.shop.Pool.QueryRow(context.WithoutCancel(w.t.Context()), all).Scan(&text); err != nil {
		w.t.Error(err)
	}
	return text
}

// beyond is all that no tool may change: what is outside of the folder, the shop, the inner site and the containers.
func (w *world) beyond() string {
	w.t.Helper()
	return fmt.Sprintf("%sitems %s\ninner site: %q\ndaemon: %q\n",
		tree(w.t, w.outside), w.items(), w.inner.requests(), w.docker.done())
}

// tree is what is in a folder, by path. It follows no links.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && d.Name() == ".git" {
			return errorOrSkip(err)
		}

		text := ""
		if d.Type().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = string(b)
		}
		fmt.Fprintf(&all, "%s: %q\n", strings.TrimPrefix(path, dir), text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

func errorOrSkip(err error) error {
	if err != nil {
		return err
	}
	return fs.SkipDir
}

// toolsets are all of them, in this world.
func (w *world) toolsets() object {
	folder := object{"root": w.root, "enableWrite": true}
	return object{
		"files": folder, "code": folder, "search": object{"root": w.root},
		"git": object{
			"root": w.root, "enableWrite": true, "name": "Ada", "email": "ada@example.org",
			"remotes": object{"origin": object{"url": "file://" + filepath.Join(w.outside, "none.git")}},
		},
		"tests": object{
			"go":   object{"command": []string{"go", "test", "./..."}, "root": w.root},
			"anew": object{"command": []string{"sh", "say.sh"}, "root": w.root},
		},
		"shell": object{"root": w.root, "commands": object{
			"say":  object{"command": []string{"sh", "say.sh"}, "arguments": "[^;]*"},
			"bare": object{"command": []string{"sh", "say.sh"}},
		}},
		"http": object{
			"hosts":        []string{w.web.server.URL, "http://169.254.169.254", "http://[::ffff:169.254.169.254]"},
			"allowPrivate": true, "methods": []string{"GET", "POST"},
			"headers": object{strings.TrimPrefix(w.web.server.URL, "http://"): object{"Authorization": "Bearer ${SITE_TOKEN}"}},
		},
		"db":     object{"url": w.login, "enableWrite": true},
		"docker": object{"socket": w.docker.socket, "containers": []string{"web-*"}, "enableWrite": true},
	}
}

// requests is all that the model was told in a run.
func (r *run) requests() (all string) {
	for _, asked := range r.h.model.Requests() {
		if body := string(asked.Body); strings.Contains(body, r.mark) {
			all = body // each has what came before
		}
	}
	return all
}

// Hostile agents use every tool that there is, and a human approves all that is asked. What is beyond stays as it is.
func TestS12HostileAgents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	calls := w.hostileCalls()
	agents, more := object{}, []scriptmodel.Scene{}
	for name, all := range calls {
		rounds := [][]act{round(all)}
		agents[name], more = agentWith(name, rounds), append(more, scene(name, rounds))
	}

	h := open(t, setting{
		scenes: more, env: []string{"SITE_TOKEN=" + outsideSecret},
		config: object{
			"agents": agents, "toolsets": w.toolsets(), "policies": []object{{"tools": "*", "approval": false}},
		},
	})

	before := w.beyond()
	for name, all := range calls {
		r := h.start(name)
		r.end()
		if now := w.beyond(); now != before {
			t.Errorf("%s changed what is beyond:\n%s\nwas\n%s", name, now, before)
			before = now
		}
		if told := r.requests(); strings.Contains(strings.ReplaceAll(told, `\\`, `\`), outsideSecret) {
			t.Errorf("%s was told of what is beyond: %s", name, around(told, outsideSecret))
		}

		made := r.calls()
		if len(made) != len(all) {
			t.Errorf("%s made %d calls of %d: %s", name, len(made), len(all), clipDiff(r.view().raw))
			continue
		}
		for i, c := range all {
			if state := made[i]["state"]; state != "FAILED" && !c.vain {
				t.Errorf("c.tool = %s %q is %s: %v", c.tool, made[i]["parameters"], state, made[i]["result"])
			}
		}
	}

	for _, request := range w.web.requests() {
		if !strings.HasPrefix(request, "GET ") {
			t.Errorf("the site got %q", request)
		}
	}
}

// calls are the calls of the model in the first cycle, in their order.
func (r *run) calls() (all []object) {
	for _, o := range r.records() {
		if name, ok := o["name"].(string); ok && o["toolCallId"] != nil && name != "terminate" {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b object) int { return index(a) - index(b) })
	return all
}

func index(call object) int {
	n, _ := call["callIndex"].(json.Number)
	i, _ := n.Int64()
	return int(i)
}
