package httpd_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/apitest"
)

// requests returns a request for each operation of the contract. Reads find nothing, and
// writes write nothing.
func requests() (all []request) {
	paths, _ := apitest.TheContract().Find("paths")
	for path, operations := range paths {
		for method, operation := range operations.(obj) {
			if method == "parameters" {
				continue
			}

			r := request{
				method: strings.ToUpper(method),
				path:   strings.NewReplacer("{planId}", "nobody", "{stepId}", "nobody").Replace(path), route: path,
			}

			security, has := operation.(obj)["security"].([]any)
			r.open = has && len(security) == 0
			r.body = exampleOf(path, method)
			r.path += required(operation.(obj))
			all = append(all, r)
		}
	}
	return all
}

// required returns the query of an operation that needs one.
func required(operation obj) string {
	parameters, _ := operation["parameters"].([]any)
	query := url.Values{}
	for _, p := range parameters {
		if p := p.(obj); p["in"] == "query" && p["required"] == true {
			query.Set(fmt.Sprint(p["name"]), fmt.Sprint(p["example"]))
		}
	}

	if len(query) == 0 {
		return ""
	}
	return "?" + query.Encode()
}

type request struct {
	method, path, route string
	open                bool
	body                string
}

// isChat reports whether a route is of the chat API.
func isChat(route string) bool {
	return strings.HasPrefix(route, "/v1/chat/") || strings.HasPrefix(route, "/v1/models")
}

// exampleOf returns a body for an operation that needs one: its example in the contract, if that is no record.
func exampleOf(path, method string) string {
	body, _ := apitest.TheContract().Find("paths", path, method, "requestBody", "content", "application/json")
	isOTLP := strings.HasPrefix(path, "/v1/") && !isChat(path)
	if body == nil || path == "/api/v1/records" || isOTLP {
		return `{"records":[]}`
	}

	examples, _ := body["examples"].(obj)
	for _, example := range examples {
		raw, _ := json.Marshal(example.(obj)["value"])
		return string(raw)
	}
	return "{}"
}

// runs reports whether an operation is one of the runtime. A server without one refuses it with a status.
func (r request) runs() (status int, runs bool) {
	last := r.route[strings.LastIndex(r.route, "/"):]
	switch {
	case slices.Contains([]string{"/retry", "/again", "/fork", "/try"}, last),
		last == "/messages" && r.method == http.MethodPost:
		return http.StatusNotFound, true
	case r.route == "/api/v1/events" && r.method == http.MethodPost: // nobody waits for it
		return http.StatusAccepted, true
	case strings.HasPrefix(r.route, "/api/v1/schedules/") && r.method == http.MethodPost:
		return http.StatusNotFound, true
	case strings.HasPrefix(r.route, "/api/v1/schedules/") && r.method == http.MethodPut:
		return http.StatusUnprocessableEntity, true
	case r.route == "/api/v1/runs" && r.method == http.MethodPost:
		return http.StatusUnprocessableEntity, true
	case r.route == "/api/plan":
		return http.StatusUnprocessableEntity, true
	case strings.Contains(r.route, "/executeByToolName"):
		return http.StatusBadRequest, true
	case strings.HasPrefix(r.route, "/execution/") && r.needs() == httpd.ScopeRun:
		return http.StatusNotFound, true
	}
	return 0, false
}

// own reports whether an operation has errors in words of its own, beside those that all operations share.
func (r request) own() bool {
	return strings.HasPrefix(r.path, "/api/executor/") || strings.HasPrefix(r.path, "/execution/")
}

// needs is the scope that an operation needs; empty: any key will do.
func (r request) needs() httpd.Scope {
	switch {
	case r.path == "/api/v1/limits":
		return ""
	case isChat(r.route): // also to list the agents
		return httpd.ScopeRun
	case strings.Contains(r.route, "/waits/{waitId}"), strings.Contains(r.route, "/submit-input/"):
		return httpd.ScopeDecide
	case r.method != http.MethodGet &&
		(strings.HasPrefix(r.route, "/api/v1/schedules/") || strings.HasPrefix(r.route, "/api/v1/bulk") ||
			r.route == "/api/v1/events" || strings.HasSuffix(r.route, "/try")):
		return httpd.ScopeRun
	case r.route == "/execution/history/cleanup", r.method == http.MethodDelete &&
		!strings.HasPrefix(r.path, "/api/executor/"):
		return httpd.ScopeAdmin
	case strings.Contains(r.route, "/executeByToolName"), strings.HasPrefix(r.route, "/execution/") &&
		r.method == http.MethodPost, r.method == http.MethodPost &&
		(strings.HasPrefix(r.route, "/api/v1/runs") || strings.Contains(r.route, "/stopTask/")):
		return httpd.ScopeRun
	case r.route == "/api/plan" && r.method == http.MethodPost, strings.HasPrefix(r.route, "/api/execute"):
		return httpd.ScopeRun
	case r.method == http.MethodPost:
		return httpd.ScopeWrite
	}
	return httpd.ScopeRead
}

func (r request) do(c *client, header ...string) answer {
	if r.method == http.MethodPost || r.method == http.MethodPut {
		return c.Do(r.method, r.path, strings.NewReader(r.body), append(header, "Content-Type", "application/json")...)
	}
	return c.Do(r.method, r.path, nil, header...)
}

func TestEveryRouteNeedsTheRightKey(t *testing.T) {
	t.Parallel()
	var lines []string
	secrets := map[httpd.Scope]string{}
	for _, scope := range []httpd.Scope{
		httpd.ScopeWrite, httpd.ScopeRead, httpd.ScopeAdmin, httpd.ScopeRun, httpd.ScopeDecide,
	} {
		secret, line := apitest.NewKey(t, "of-"+string(scope), scope)
		secrets[scope] = secret
		lines = append(lines, line)
	}

	other, _ := apitest.NewKey(t, "other", httpd.ScopeRead)
	c := serveWith(t, options{Server: func(config *apitest.Config) { config.HTTP.Keys = apitest.Keys(t, lines...) }})

	for _, r := range append(requests(), request{method: http.MethodGet, path: "/nowhere"},
		request{method: http.MethodPut, path: "/api/v1/plans"}) {
		for name, authorization := range map[string]string{
			"none": "", "empty": "Bearer ", "another": "Bearer " + other, "basic": "Basic " + secrets[httpd.ScopeRead],
			"bare": secrets[httpd.ScopeRead],
			"cut":  "Bearer " + secrets[httpd.ScopeRead][:40], "longer": "Bearer " + secrets[httpd.ScopeRead] + "x",
			"hash": "Bearer " + strings.Split(lines[1], ":")[1],
		} {
			a := r.do(c, "Authorization", authorization)
			if r.open {
				wantStatus(t, a, http.StatusOK)
				continue
			}

			wantProblem(t, a, http.StatusUnauthorized, nil)
			if a.Header.Get("WWW-Authenticate") == "" || strings.Contains(string(a.Body), "of-") {
				t.Errorf("r.method = %s %s, %s: %v %s", r.method, r.path, name, a.Header, a.Body)
			}
		}

		for scope, secret := range secrets {
			a := r.do(c.As(secret))
			switch refused := a.Status == http.StatusForbidden; {
			case a.Status == http.StatusUnauthorized:
				t.Errorf("%s %s: a %s key is unknown", r.method, r.path, scope)
			case r.route == "" || r.open || r.needs() == "":
				if refused {
					t.Errorf("%s %s: a %s key is refused", r.method, r.path, scope)
				}
			case refused != (scope != r.needs()):
				t.Errorf("%s %s with a %s key: %d", r.method, r.path, scope, a.Status)
			case refused:
				wantProblem(t, a, http.StatusForbidden, nil)
			}
		}
	}

	both, line := apitest.NewKey(t, "both", httpd.ScopeWrite, httpd.ScopeRead)
	c.Server.HTTP.SetKeys(apitest.Keys(t, line))
	wantStatus(t, c.As(secrets[httpd.ScopeRead]).Get("/api/v1/plans"), http.StatusUnauthorized)

	c = c.As(both)
	c.Write(plan("p"))
	c.Details("p")
	wantStatus(t, c.Do(http.MethodDelete, "/api/v1/plans/p", nil), http.StatusForbidden)
	wantStatus(t, c.Do(http.MethodDelete, details+"p", nil), http.StatusOK) // deletes nothing
	c.Details("p")
}

func TestReadKeys(t *testing.T) {
	t.Parallel()
	_, line := apitest.NewKey(t, "a.b-c_d@e", httpd.ScopeWrite)
	name, rest, _ := strings.Cut(line, ":")
	hash, _, _ := strings.Cut(rest, ":")

	keys, err := httpd.ReadKeys(
		strings.NewReader("\r\n # a comment\n  " + name + " : " + strings.ToUpper(hash) + " : write , read\r\n"),
	)
	if err != nil || keys.Len() != 1 {
		t.Errorf("keys = %v, %v", keys, err)
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
		_, err := httpd.ReadKeys(strings.NewReader(tt.file))
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		} else if strings.Contains(err.Error(), "0123456789") {
			t.Errorf("%s: the error quotes a secret: %v", name, err)
		}
	}

	for _, bad := range []struct {
		name   string
		scopes []httpd.Scope
	}{
		{"", []httpd.Scope{"read"}}, {"a:b", []httpd.Scope{"read"}}, {"a", nil}, {"a", []httpd.Scope{"any"}},
		{"a", []httpd.Scope{"none"}},
	} {
		if _, line, err := httpd.NewKey(bad.name, bad.scopes); err == nil {
			t.Errorf("made %s", line)
		}
	}
}
