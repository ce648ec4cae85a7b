package api_test

import (
	"bytes"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/actlog/actlog/internal/api"
)

// newKey makes a key and a line that lets it in.
func newKey(t testing.TB, name string, scopes ...api.Scope) (secret, line string) {
	t.Helper()
	secret, line, err := api.NewKey(name, scopes)
	if err != nil {
		t.Fatal(err)
	}
	return secret, line
}

func keysOf(t testing.TB, lines ...string) *api.Keys {
	t.Helper()
	keys, err := api.ReadKeys(strings.NewReader(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// as gives a client with another key.
func (c *client) as(key string) *client {
	other := *c
	other.key = key
	return &other
}

// paths gives a request for each operation of the contract. Those that read find
// nothing; those that write write nothing.
func requests() (all []request) {
	paths, _ := contract().find("paths")
	for path, operations := range paths {
		for method, operation := range operations.(obj) {
			if method == "parameters" {
				continue
			}
			r := request{method: strings.ToUpper(method), path: strings.NewReplacer("{planId}", "nobody", "{stepId}", "nobody").Replace(path), route: path}
			security, told := operation.(obj)["security"].([]any)
			r.open = told && len(security) == 0
			all = append(all, r)
		}
	}
	return all
}

type request struct {
	method, path, route string
	open                bool
}

// needs is the scope that an operation needs; empty: any key will do.
func (r request) needs() api.Scope {
	switch {
	case r.path == "/api/v1/limits":
		return ""
	case r.method == http.MethodPost:
		return api.ScopeWrite
	case r.method == http.MethodDelete && strings.HasPrefix(r.path, "/api/v1/"):
		return api.ScopeAdmin
	}
	return api.ScopeRead
}

func (r request) do(c *client, header ...string) answer {
	if r.method == http.MethodPost {
		return c.do(r.method, r.path, strings.NewReader(`{"records":[]}`), append(header, "Content-Type", "application/json")...)
	}
	return c.do(r.method, r.path, nil, header...)
}

func TestEveryRouteNeedsTheRightKey(t *testing.T) {
	t.Parallel()
	var lines []string
	secrets := map[api.Scope]string{}
	for _, scope := range []api.Scope{api.ScopeWrite, api.ScopeRead, api.ScopeAdmin} {
		secret, line := newKey(t, "of-"+string(scope), scope)
		secrets[scope] = secret
		lines = append(lines, line)
	}
	other, _ := newKey(t, "other", api.ScopeRead)
	c := serveWith(t, options{server: func(config *api.Config) { config.Keys = keysOf(t, lines...) }})
	for _, r := range append(requests(), request{method: http.MethodGet, path: "/nowhere"}, request{method: http.MethodPut, path: "/api/v1/plans"}) {
		for name, authorization := range map[string]string{
			"none": "", "empty": "Bearer ", "another": "Bearer " + other, "basic": "Basic " + secrets[api.ScopeRead], "bare": secrets[api.ScopeRead],
			"cut": "Bearer " + secrets[api.ScopeRead][:40], "longer": "Bearer " + secrets[api.ScopeRead] + "x", "hash": "Bearer " + strings.Split(lines[1], ":")[1],
		} {
			a := r.do(c, "Authorization", authorization)
			if r.open {
				wantStatus(t, a, http.StatusOK)
				continue
			}
			wantProblem(t, a, http.StatusUnauthorized, nil)
			if a.header.Get("WWW-Authenticate") == "" || strings.Contains(string(a.body), "of-") {
				t.Errorf("%s %s, %s: %v %s", r.method, r.path, name, a.header, a.body)
			}
		}
		for scope, secret := range secrets {
			a := r.do(c.as(secret))
			switch refused := a.status == http.StatusForbidden; {
			case a.status == http.StatusUnauthorized:
				t.Errorf("%s %s: a %s key is unknown", r.method, r.path, scope)
			case r.route == "" || r.open || r.needs() == "":
				if refused {
					t.Errorf("%s %s: a %s key is refused", r.method, r.path, scope)
				}
			case refused != (scope != r.needs()):
				t.Errorf("%s %s with a %s key: %d", r.method, r.path, scope, a.status)
			case refused:
				wantProblem(t, a, http.StatusForbidden, nil)
			}
		}
	}
	both, line := newKey(t, "both", api.ScopeWrite, api.ScopeRead)
	c.api.SetKeys(keysOf(t, line))
	wantStatus(t, c.as(secrets[api.ScopeRead]).get("/api/v1/plans"), http.StatusUnauthorized)
	c = c.as(both)
	c.write(plan("p"))
	c.details("p")
	wantStatus(t, c.do(http.MethodDelete, "/api/v1/plans/p", nil), http.StatusForbidden)
	wantStatus(t, c.do(http.MethodDelete, details+"p", nil), http.StatusOK) // deletes nothing
	c.details("p")
}

func TestReadKeys(t *testing.T) {
	t.Parallel()
	_, line := newKey(t, "a.b-c_d@e", api.ScopeWrite)
	name, rest, _ := strings.Cut(line, ":")
	hash, _, _ := strings.Cut(rest, ":")
	keys, err := api.ReadKeys(strings.NewReader("\r\n # a comment\n  " + name + " : " + strings.ToUpper(hash) + " : write , read\r\n"))
	if err != nil || keys.Len() != 1 {
		t.Errorf("%v, %v", keys, err)
	}
	for name, tt := range map[string]struct{ file, says string }{
		"nothing":       {"", "no key"},
		"comments only": {"# none\n\n", "no key"},
		"a bare key":    {"# x\n\nactlog_0123456789", "line 3: must be"},
		"no scopes":     {"a:" + hash + ":", "line 1: key a"},
		"a short hash":  {line + "\na:1234:read", "line 2: the SHA-256"},
		"no hash":       {"a:" + strings.Repeat("x", 64) + ":read", "line 1: the SHA-256"},
		"an odd scope":  {"a:" + hash + ":read,all", "no scope"},
		"no name":       {":" + hash + ":read", "line 1: the name"},
		"an odd name":   {"a b:" + hash + ":read", "line 1: the name"},
		"a long name":   {strings.Repeat("a", 65) + ":" + hash + ":read", "line 1: the name"},
		"twice":         {line + "\n" + line, "line 2: the same"},
		"more":          {line + ":x", "line 1: must be"},
	} {
		_, err := api.ReadKeys(strings.NewReader(tt.file))
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		} else if strings.Contains(err.Error(), "0123456789") {
			t.Errorf("%s: the error quotes a secret: %v", name, err)
		}
	}
	for _, bad := range []struct {
		name   string
		scopes []api.Scope
	}{{"", []api.Scope{"read"}}, {"a:b", []api.Scope{"read"}}, {"a", nil}, {"a", []api.Scope{"any"}}, {"a", []api.Scope{"none"}}} {
		if _, line, err := api.NewKey(bad.name, bad.scopes); err == nil {
			t.Errorf("made %s", line)
		}
	}
}

// buffer is a log that can be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// lines gives the lines that hold all of some texts.
func (b *buffer) lines(texts ...string) (found []string) {
	for line := range strings.Lines(b.String()) {
		holds := true
		for _, text := range texts {
			holds = holds && strings.Contains(line, text)
		}
		if holds {
			found = append(found, line)
		}
	}
	return found
}
