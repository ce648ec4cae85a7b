package git_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/git"
)

// withRemotes returns the repository with tools that reach remotes.
func (r repository) withRemotes(t *testing.T, remotes map[string]git.Remote, hide ...string) repository {
	t.Helper()
	made, err := git.Tools(r.dir, git.Options{
		Write: true, Name: "Ada", Email: "ada@example.org", Remotes: remotes, Hide: hide,
	})
	if err != nil {
		t.Fatal(err)
	}

	set, err := tool.NewSet(made...)
	if err != nil {
		t.Fatal(err)
	}
	return repository{r.dir, set}
}

// bare returns a bare repository with what another one has.
func bare(t *testing.T, r repository) repository {
	t.Helper()
	at := repository{filepath.Join(t.TempDir(), "remote.git"), nil}
	r.git(t, "clone", "--quiet", "--bare", r.dir, at.dir)
	at.git(t, "config", "http.receivepack", "true")
	return at
}

// other returns a working tree of somebody else who pushes to a bare repository.
func other(t *testing.T, of repository) repository {
	t.Helper()
	at := repository{filepath.Join(t.TempDir(), "other"), nil}
	of.git(t, "clone", "--quiet", of.dir, at.dir)
	return at
}

func (r repository) head(t *testing.T, of string) string {
	t.Helper()
	return strings.TrimSpace(r.git(t, "rev-parse", of))
}

// What the repository says of its remotes does not count: neither which they are, nor where fetched branches go.
func spoil(t *testing.T, r repository) {
	t.Helper()
	r.git(t, "config", "remote.origin.url", "ext::false")
	r.git(t, "config", "remote.origin.pushurl", "ext::false")
	r.git(t, "config", "--replace-all", "remote.origin.fetch", "+refs/heads/*:refs/heads/*")
	r.git(t, "config", "url.ext::false.insteadOf", "file:")
	r.git(t, "config", "remote.origin.mirror", "true")
	r.git(t, "config", "branch.main.pushRemote", "evil")
}

func TestPushAndPull(t *testing.T) {
	t.Parallel()
	r := history(t)
	there := bare(t, r)
	r = r.withRemotes(t, map[string]git.Remote{"origin": {URL: "file://" + there.dir}})
	spoil(t, r)

	if _, err := r.ask(t, "git.push", args{}); err == nil || !strings.Contains(err.Error(), "there is nothing to push") {
		t.Errorf("r.ask = %v", err)
	}
	if _, err := r.ask(t, "git.pull", args{}); err == nil || !strings.Contains(err.Error(), "there is nothing to pull") {
		t.Errorf("r.ask = %v", err)
	}

	r.write(t, "a.txt", "pushed\n")
	commit := r.commit(t, "To push")
	push := r.asked(t, "git.push", args{})
	for _, want := range []string{
		"Push the branch main, from ", fmt.Sprintf("to %.12s on origin (file://%s)", commit, there.dir), "T: To push\n",
		"+pushed",
	} {
		if !strings.Contains(push.preview.Text, want) {
			t.Errorf("the preview lacks %q:\n%s", want, push.preview.Text)
		}
	}

	if _, done := push.verify(t); done {
		t.Error("it is said to be pushed")
	}
	if got := push.approve(t); got.Failed || there.head(t, "main") != commit {
		t.Fatalf("push.approve() = %+v", got)
	}

	if _, done := push.verify(t); !done {
		t.Error("the push is not found")
	}
	if got := r.call(t, "git.status", args{}); !strings.Contains(got.Text, "Upstream") &&
		r.head(t, "refs/remotes/origin/main") != commit {
		t.Errorf("r.call = %+v", got)
	}

	// Somebody else pushes.
	they := other(t, there)
	they.write(t, "b.txt", "theirs\n")
	theirs := they.commit(t, "Theirs")
	they.git(t, "push", "--quiet", "origin", "main")

	pull := r.asked(t, "git.pull", args{})
	for _, want := range []string{
		fmt.Sprintf("move main forward from %.12s to %.12s", commit, theirs), "A b.txt\n", "+theirs",
	} {
		if !strings.Contains(pull.preview.Text, want) {
			t.Errorf("the preview lacks %q:\n%s", want, pull.preview.Text)
		}
	}
	if _, done := pull.verify(t); done {
		t.Error("it is said to be pulled")
	}

	feature := r.head(t, "feature")
	if got := pull.approve(t); got.Failed || r.head(t, "main") != theirs || r.head(t, "feature") != feature ||
		r.git(t, "status", "--porcelain") != "" {
		t.Fatalf("pull.approve() = %+v", got)
	}
	if _, done := pull.verify(t); !done {
		t.Error("the pull is not found")
	}
	if got := pull.approve(t); got.Failed {
		t.Errorf("made again: %+v", got)
	}

	// A new branch.
	r.git(t, "switch", "--quiet", "-c", "topic")
	r.write(t, "c.txt", "new\n")
	r.commit(t, "On a topic")

	topic := r.asked(t, "git.push", args{"branch": "topic"})
	if !strings.Contains(topic.preview.Text, "which is new there") || !strings.Contains(topic.preview.Text, "+new") ||
		strings.Contains(topic.preview.Text, "+pushed") {
		t.Errorf("topic.preview.Text = %s", topic.preview.Text)
	}
	if got := topic.approve(t); got.Failed || there.head(t, "topic") != r.head(t, "topic") {
		t.Errorf("topic.approve() = %+v", got)
	}
}

// What goes apart is neither replaced nor merged, and what moves after the approval is not done.
func TestRemoteMovesOn(t *testing.T) {
	t.Parallel()
	r := open(t)
	there := bare(t, r)
	r = r.withRemotes(t, map[string]git.Remote{"origin": {URL: "file://" + there.dir}})
	they := other(t, there)
	theirs := func(text string) string {
		they.write(t, "b.txt", text)
		commit := they.commit(t, text)
		they.git(t, "push", "--quiet", "origin", "main")
		return commit
	}

	theirs("first")
	pull := r.asked(t, "git.pull", args{"remote": "origin", "branch": "main"})
	second := theirs("second")
	before := r.head(t, "main")
	if got := pull.approve(t); !got.Failed || got.Text != tool.ErrChanged.Error() || r.head(t, "main") != before {
		t.Errorf("pull.approve() = %+v", got)
	}

	r.write(t, "a.txt", "mine\n")
	mine := r.commit(t, "Mine")
	if _, err := r.ask(t, "git.push", args{}); err == nil || !strings.Contains(err.Error(), "pull first") {
		t.Errorf("r.ask = %v", err)
	}
	if _, err := r.ask(t, "git.pull", args{}); err == nil || !strings.Contains(err.Error(), "went apart") {
		t.Errorf("r.ask = %v", err)
	}
	for _, name := range []string{"git.push", "git.pull"} {
		if got := r.call(t, name, args{}); !got.Failed || there.head(t, "main") != second || r.head(t, "main") != mine {
			t.Errorf("%s: %+v", name, got)
		}
	}

	r.git(t, "reset", "--quiet", "--hard", before)
	if got := r.call(t, "git.pull", args{}); got.Failed {
		t.Fatalf("r.call = %+v", got)
	}

	r.write(t, "c.txt", "mine\n")
	r.commit(t, "Mine")
	push := r.asked(t, "git.push", args{})
	third := theirs("third")
	if got := push.approve(t); !got.Failed || there.head(t, "main") != third {
		t.Errorf("push.approve() = %+v", got)
	}

	for _, tt := range []struct {
		tool string
		in   args
		want string
	}{
		{
			"git.push", args{"remote": "evil"},
			`there is no remote "evil" in the configuration of the toolset; there are: origin`,
		},
		{"git.push", args{"branch": "nobody"}, "there is no branch nobody"},
		{"git.pull", args{"branch": "nobody"}, "origin has no branch nobody"},
	} {
		if _, err := r.ask(t, tt.tool, tt.in); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %v: %v", tt.tool, tt.in, err)
		}
	}
}

// Files of the server itself are neither sent nor brought.
func TestServersFilesAndRemotes(t *testing.T) {
	t.Parallel()
	r := open(t)
	there := bare(t, r)
	they := other(t, there)
	they.write(t, "actlog.yaml", "policies: []\n")
	they.commit(t, "Change the server")
	they.git(t, "push", "--quiet", "origin", "main")

	r = r.withRemotes(t, map[string]git.Remote{"origin": {URL: "file://" + there.dir}},
		filepath.Join(r.dir, "actlog.yaml"))
	if got := r.call(t, "git.pull", args{}); !got.Failed || !strings.Contains(got.Text, "the server's own") {
		t.Errorf("r.call = %+v", got)
	}

	r.git(t, "switch", "--quiet", "-c", "topic")
	r.write(t, "actlog.yaml", "key: sk\n")
	r.commit(t, "With the key")
	r.git(t, "rm", "--quiet", "actlog.yaml")
	r.commit(t, "Without the key")
	if got := r.call(t, "git.push", args{}); !got.Failed || !strings.Contains(got.Text, "in a commit that would be sent") {
		t.Errorf("r.call = %+v", got)
	}
}

// A remote that is below the folder is not used, as whoever writes there chooses its hooks.
func TestRemoteBelowTheFolder(t *testing.T) {
	t.Parallel()
	r := open(t)
	inside := repository{filepath.Join(r.dir, "remote.git"), nil}
	r.git(t, "clone", "--quiet", "--bare", r.dir, inside.dir)
	link := filepath.Join(t.TempDir(), "link")
	put(t, link, inside.dir, os.Symlink)

	for _, at := range []string{inside.dir, link, r.dir} {
		r := r.withRemotes(t, map[string]git.Remote{"origin": {URL: "file://" + at}})
		for _, name := range []string{"git.push", "git.pull"} {
			if got := r.call(t, name, args{}); !got.Failed || !strings.Contains(got.Text, "below the folder") {
				t.Errorf("%s %s: %+v", name, at, got)
			}
		}
	}
}

// Only what is safe can be configured, and what is wrong is said without secrets.
func TestBadRemotes(t *testing.T) {
	t.Parallel()
	const secret = "planted-secret"
	for _, tt := range []struct {
		remote git.Remote
		want   string
	}{
		{git.Remote{URL: "ext::sh -c " + secret}, "url"},
		{git.Remote{URL: "ext::" + secret}, "url"},
		{git.Remote{URL: "git://host/x"}, "want https, ssh or file"},
		{git.Remote{URL: "--upload-pack=" + secret}, "url"},
		{git.Remote{URL: "host:path"}, "url"},
		{git.Remote{URL: "/srv/x.git"}, "url"},
		{git.Remote{URL: "http://example.org/x"}, "want https"},
		{git.Remote{URL: "https://ann:" + secret + "@example.org/x"}, "user or a password"},
		{git.Remote{URL: "https:///x"}, "host"},
		{git.Remote{URL: "https://-oProxyCommand=x/x"}, "host"},
		{git.Remote{URL: "https://example.org/x?token=" + secret}, "more than a host"},
		{git.Remote{URL: "https://example.org/x\n"}, "url"},
		{git.Remote{URL: "file://host/x"}, "absolute path"},
		{git.Remote{URL: "file://./x"}, "absolute path"},
		{git.Remote{URL: "ssh://git@example.org/x"}, "ssh needs keyFile and knownHosts"},
		{git.Remote{URL: "ssh://git@example.org/x", KeyFile: "id", KnownHosts: "/k"}, "absolute"},
		{git.Remote{URL: "ssh://git@example.org/x", KeyFile: "/a' -o ProxyCommand=x '", KnownHosts: "/k"}, "characters"},
		{git.Remote{URL: "ssh://git:" + secret + "@example.org/x", KeyFile: "/a", KnownHosts: "/k"}, "no password"},
		{git.Remote{URL: "ssh://-oProxyCommand=x@example.org/x", KeyFile: "/a", KnownHosts: "/k"}, "user"},
		{git.Remote{URL: "ssh://git@-oProxyCommand=x/x", KeyFile: "/a", KnownHosts: "/k"}, "host"},
		{git.Remote{URL: "file:///srv/x.git", Token: secret}, "are for https"},
		{git.Remote{URL: "https://example.org/x", Token: secret, Header: "A: " + secret}, "does not go with"},
		{git.Remote{URL: "https://example.org/x", Token: secret + "\nX: y"}, "token"},
		{git.Remote{URL: "https://example.org/x", Header: "A: " + secret + "\r\nX: y"}, "header"},
		{git.Remote{URL: "https://example.org/x", Username: "ann"}, "username"},
	} {
		_, err := git.Tools(t.TempDir(), git.Options{Write: true, Remotes: map[string]git.Remote{"origin": tt.remote}})
		if err == nil || !strings.Contains(err.Error(), "remotes.origin: ") || !strings.Contains(err.Error(), tt.want) ||
			strings.Contains(err.Error(), secret) {
			t.Errorf("%+v: %v, want %s", tt.remote, err, tt.want)
		}
	}

	for _, name := range []string{"", "-x", "a.b", "a b", "--upload-pack"} {
		if _, err := git.Tools(t.TempDir(),
			git.Options{Remotes: map[string]git.Remote{name: {URL: "https://example.org/x"}}}); err == nil {
			t.Errorf("the name %q is taken", name)
		}
	}
}

// server serves bare repositories to those who have a password, and keeps what it is sent.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	headers []string
}

func serve(t *testing.T, of repository, wrap func(http.Handler) http.Handler) *server {
	t.Helper()
	program := "/usr/lib/git-core/git-http-backend"
	if out, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output(); err == nil {
		program = filepath.Join(strings.TrimSpace(string(out)), "git-http-backend")
	}
	if _, err := os.Stat(program); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("git http-backend is not installed")
	}

	backend := &cgi.Handler{
		Path: program, Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(of.dir), "GIT_HTTP_EXPORT_ALL=1"}, Stderr: os.Stderr,
	}
	s := &server{}
	handler := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		s.mu.Lock()
		s.headers = append(s.headers, req.Header.Get("Authorization"))
		s.mu.Unlock()
		backend.ServeHTTP(w, req)
	}))

	if wrap != nil {
		handler = wrap(handler)
	}
	s.Server = httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s
}

func (s *server) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.headers, "\n")
}

const plantedToken = "planted-token-4711"

// encoded is the token as HTTP sends it, with the name x-access-token.
const encoded = "eC1hY2Nlc3MtdG9rZW46cGxhbnRlZC10b2tlbi00NzEx"

// A token is sent to the server, and is nowhere else: not in arguments, results and errors, and not in the repository.
func TestTokenIsNowhereElse(t *testing.T) {
	r := history(t)
	there := bare(t, r)
	s := serve(t, there, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			_, password, _ := req.BasicAuth()
			if strings.Contains(req.URL.Path, "echo") || password != plantedToken {
				http.Error(w, fmt.Sprint("you sent ", req.Header), http.StatusTeapot)
				return
			}
			next.ServeHTTP(w, req)
		})
	})

	log := logArguments(t)
	r = r.withRemotes(t, map[string]git.Remote{
		"origin": {URL: s.URL + "/remote.git", Token: plantedToken},
		"echo":   {URL: s.URL + "/echo.git", Token: plantedToken},
		"header": {URL: s.URL + "/echo.git", Header: "Authorization: Bearer " + plantedToken},
	})
	spoil(t, r)
	r.write(t, "a.txt", "pushed\n")
	commit := r.commit(t, "To push")

	var said strings.Builder
	push := r.asked(t, "git.push", args{"remote": "origin"})
	fmt.Fprintf(&said, "%+v", push.preview)
	got := push.approve(t)
	fmt.Fprintf(&said, "%+v", got)
	if got.Failed || there.head(t, "main") != commit || !strings.Contains(s.all(), "Basic "+encoded) {
		t.Errorf("%+v; the server got %s", got, s.all())
	}

	they := other(t, there)
	they.write(t, "b.txt", "theirs\n")
	theirs := they.commit(t, "Theirs")
	they.git(t, "push", "--quiet", "origin", "main")

	pull := r.asked(t, "git.pull", args{"remote": "origin"})
	fmt.Fprintf(&said, "%+v", pull.preview)
	got = pull.approve(t)
	fmt.Fprintf(&said, "%+v", got)
	if got.Failed || r.head(t, "main") != theirs {
		t.Errorf("pull.approve() = %+v", got)
	}

	for _, remote := range []string{"echo", "header"} {
		for _, name := range []string{"git.push", "git.pull"} {
			got := r.call(t, name, args{"remote": remote})
			fmt.Fprintf(&said, "%+v", got)
			if !got.Failed {
				t.Errorf("%s %s: %+v", name, remote, got)
			}
		}
	}

	arguments, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(arguments), "push --quiet --no-verify") {
		t.Fatalf("arguments = %s, %v", arguments, err)
	}

	var stored strings.Builder
	err = filepath.WalkDir(r.dir, func(at string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(at)
		stored.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	for where, text := range map[string]string{
		"what is said": said.String(), "arguments": string(arguments), "the repository": stored.String(),
	} {
		if strings.Contains(text, plantedToken) || strings.Contains(text, encoded) {
			t.Errorf("the token is in %s", where)
		}
	}
}

// logArguments makes git write its arguments into a file.
func logArguments(t *testing.T) (log string) {
	t.Helper()
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}

	bin, log := t.TempDir(), filepath.Join(t.TempDir(), "arguments")
	script := fmt.Sprintf("#!/bin/sh\necho \"$@\" >> %s\nexec %s \"$@\"\n", log, real)
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	return log
}

// A server that sends clients elsewhere is not followed: the token is for the server of the configuration.
func TestRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	r := open(t)
	there := bare(t, r)
	target := serve(t, there, nil)
	from := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, target.URL+req.URL.String(), http.StatusFound)
	}))
	t.Cleanup(from.Close)

	r = r.withRemotes(t, map[string]git.Remote{"origin": {URL: from.URL + "/remote.git", Token: plantedToken}})
	r.write(t, "a.txt", "x\n")
	r.commit(t, "To push")

	for _, name := range []string{"git.push", "git.pull"} {
		if got := r.call(t, name, args{}); !got.Failed || strings.Contains(got.Text, plantedToken) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if target.all() != "" {
		t.Errorf("the other server got %q", target.all())
	}
}

// What a hostile repository configures does not run when a remote is reached, and nothing of it is reached.
func TestHostileRepositoryAndRemotes(t *testing.T) {
	t.Parallel()
	c, r := newCanary(t), open(t)
	there := bare(t, r)
	they := other(t, there)
	they.write(t, "b.txt", "theirs\n")
	they.commit(t, "Theirs")
	they.git(t, "push", "--quiet", "origin", "main")

	r.git(t, "switch", "--quiet", "-c", "topic")
	r.write(t, "c.txt", "mine\n")
	topic := r.commit(t, "Mine")
	r.git(t, "switch", "--quiet", "main")

	r = r.withRemotes(t, map[string]git.Remote{"origin": {URL: "file://" + there.dir}})
	c.plant(t, r, everyKey(t)...)
	for name, text := range map[string]string{
		"remotes/origin": "URL: ext::" + c.program + "\n", "branches/origin": "ext::" + c.program + "\n",
	} {
		r.write(t, filepath.Join(".git", name), text)
	}

	config, err := os.OpenFile(filepath.Join(r.dir, ".git", "config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}

	_, err = fmt.Fprintf(config, "[remote \"origin\"]\n\turl = ext::%s\n\tpushurl = ext::%[1]s\n\tuploadpack = %[1]s\n"+
		"\treceivepack = %[1]s\n\tvcs = evil\n\tproxy = x\n"+
		"\tfetch = +refs/heads/*:refs/heads/*\n[url \"ext::%[1]s\"]\n\tinsteadOf = file:\n\tpushInsteadOf = file:\n"+
		"[branch \"main\"]\n\tmerge = x\n\trebase = true\n[pull]\n\trebase = true\n"+
		"[push]\n\tgpgSign = true\n\tpushOption = x\n", c.program)
	if err := errors.Join(err, config.Close(), os.RemoveAll(c.mark)); err != nil {
		t.Fatal(err)
	}

	for _, tt := range []struct {
		tool   string
		in     args
		failed bool
	}{
		{"git.pull", args{}, false},
		{"git.push", args{"branch": "topic"}, false},
		{"git.push", args{"remote": "evil"}, true},
		{"git.push", args{"remote": "ext::" + c.program}, true},
		{"git.pull", args{"remote": there.dir}, true},
		{"git.pull", args{"branch": "--upload-pack=" + c.program}, true},
		{"git.push", args{"branch": "+main"}, true},
		{"git.push", args{"branch": "main:refs/heads/other"}, true},
		{"git.push", args{"branch": ":main"}, true},
		{"git.push", args{"branch": "--receive-pack=" + c.program}, true},
	} {
		got := r.call(t, tt.tool, tt.in)
		if got.Failed != tt.failed {
			t.Errorf("%s %v: %+v", tt.tool, tt.in, got)
		}
		c.check(t, fmt.Sprint(tt.tool, tt.in))
	}

	if there.head(t, "topic") != topic {
		t.Error("the branch is not there")
	}
}
