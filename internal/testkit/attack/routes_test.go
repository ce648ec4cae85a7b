//go:build attack

package attack_test

import (
	"context"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/door/mcp"
	"github.com/actlog/actlog/internal/door/web"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

// needs is the table of all requests that a server answers: method, path, and what a key must be good for. none needs
// no key, any any key, and a plus that two scopes are needed; a star says that the cookie of the page will not do,
// because the request does something although it is a GET.
const needs = `
GET    /livez                                              none
GET    /readyz                                             none
GET    /openapi.yaml                                       none
GET    /metrics                                            read

POST   /api/v1/records                                     write
GET    /api/v1/limits                                      any
GET    /api/v1/plans                                       read
GET    /api/v1/ids                                         read
GET    /api/v1/search                                      read
GET    /api/v1/plans/:planId                               read
DELETE /api/v1/plans/:planId                               admin
GET    /api/v1/plans/:planId/thoughts                      read
GET    /api/v1/plans/:planId/artifacts                     read
GET    /api/v1/plans/:planId/sources                       read
GET    /api/v1/plans/:planId/waits                         read
GET    /api/v1/plans/:planId/failures                      read
GET    /api/v1/plans/:planId/search                        read
GET    /api/v1/plans/:planId/records                       read
GET    /api/v1/plans/:planId/events                        read
GET    /api/v1/events                                      read
GET    /api/v1/steps/:stepId                               read
GET    /api/v1/otlp/unknown                                read

POST   /v1/traces                                          write
POST   /v1/logs                                            write
POST   /v1/metrics                                         write
POST   /mcp                                                read

POST   /api/v1/runs                                        run
GET    /api/v1/runs                                        read
GET    /api/v1/runs/:planId                                read
POST   /api/v1/runs/:planId/stop                           run
POST   /api/v1/runs/:planId/pause                          run
POST   /api/v1/runs/:planId/resume                         run
POST   /api/v1/runs/:planId/retry                          run
POST   /api/v1/runs/:planId/again                          run
POST   /api/v1/runs/:planId/fork                           run
POST   /api/v1/runs/:planId/messages                       run
GET    /api/v1/runs/:planId/messages                       read
POST   /api/v1/plans/:planId/try                           run
POST   /api/v1/bulk                                        run
GET    /api/v1/bulk/:bulkId                                read
POST   /api/v1/bulk/:bulkId/stop                           run
POST   /api/v1/runs/:planId/waits/:waitId                  decide
POST   /api/v1/events                                      run
GET    /api/v1/runs/:planId/trace                          read
GET    /api/v1/runs/:planId/listen                         read

GET    /api/v1/schedules                                   read
GET    /api/v1/schedules/:name                             read
PUT    /api/v1/schedules/:name                             run
DELETE /api/v1/schedules/:name                             run
POST   /api/v1/schedules/:name/pause                       run
POST   /api/v1/schedules/:name/resume                      run
POST   /api/v1/schedules/:name/run                         run
GET    /api/v1/schedules/:name/ticks                       read
GET    /api/v1/cron                                        read

GET    /api/v1/agents                                      read
GET    /api/v1/tools                                       read
GET    /api/v1/models                                      read
GET    /api/v1/executors                                   read

POST   /v1/chat/completions                                run
GET    /v1/models                                          run*
GET    /v1/models/:model                                   run*
GET    /v1/models/agent/:name                              run*

GET    /api/executor/details/:planId                       read
GET    /api/executor/details/                              read
DELETE /api/executor/details/:planId                       read
DELETE /api/executor/details/                              read
GET    /api/executor/agent-execution/:stepId               read
GET    /api/executor/agent-execution/                      read
POST   /api/executor/submit-input/:planId                  decide
POST   /api/executor/stopTask/:planId                      run
GET    /api/executor/taskStatus/:planId                    read
POST   /api/executor/executeByToolNameAsync                run
POST   /api/executor/executeByToolNameSync                 run
GET    /api/executor/executeByToolNameSync/:toolName       run*

POST   /execution/agents/:name/run                         run
POST   /execution/agents/:name/stream                      run
POST   /execution/workflows/simple/:name/run               run
POST   /execution/workflows/linear/:name/run               run
POST   /execution/workflows/custom/:name/run               run
GET    /execution/history                                  read
GET    /execution/history/:sessionId                       read
DELETE /execution/history/:sessionId                       admin
POST   /execution/history/cleanup                          admin
GET    /execution/status                                   read

POST   /api/plan                                           run
GET    /api/plan/:planId                                   read
POST   /api/execute                                        run
POST   /api/execute/:executionId/start                     run
GET    /api/execution/:executionId/status                  read
GET    /api/execution/:executionId/result                  read
GET    /api/execution/:executionId/load                    read
GET    /api/executions                                     read
GET    /api/providers                                      read
GET    /ws/:executionId                                    read

GET    /                                                   read
GET    /list/patch                                         read
GET    /list/newer                                         read
GET    /list/pair                                          read
GET    /search                                             read
GET    /waits                                              read
GET    /agents                                             read
GET    /schedules                                          read
POST   /schedules/:name                                    run+read
GET    /bulk                                               read
GET    /bulk/:bulkId                                       read
POST   /bulk                                               run+read
POST   /bulk/:bulkId/stop                                  run+read
GET    /start                                              read
POST   /start                                              run+read
GET    /compare                                            read
GET    /conversations/:conversationId                      read
GET    /charts                                             read
GET    /runs/:planId                                       read
GET    /runs/:planId/rows                                  read
GET    /runs/:planId/found                                 read
GET    /runs/:planId/failures                              read
GET    /runs/:planId/tree                                  read
GET    /runs/:planId/patch                                 read
GET    /runs/:planId/detail                                read
GET    /runs/:planId/text                                  read
POST   /runs/:planId                                       decide+read
POST   /runs/:planId/control                               run+read
GET    /login                                              none
POST   /login                                              none
POST   /logout                                             none
GET    /assets/:name                                       none
`

type need struct {
	method, path, scope string
	noCookie            bool
}

func table() (all []need) {
	for line := range strings.Lines(needs) {
		if f := strings.Fields(line); len(f) == 3 {
			all = append(all, need{f[0], f[1], strings.TrimSuffix(f[2], "*"), strings.HasSuffix(f[2], "*")})
		}
	}
	return all
}

// served are the routes that the program has, as its packages list them. None of them is called.
func served(t *testing.T) []httpd.Route {
	t.Helper()
	s := storetest.Open(t)
	known := apitest.New(t, s, apitest.Config{})
	page := web.New(runstore.New(s), known.Lookup, known.Hub, known.HTTP, nil, web.Runtime{})
	return slices.Concat(known.Routes, page.Routes(), mcp.New(known.Lookup, nil, known.HTTP, mcp.Config{}).Routes())
}

// Each route is in the table, and each of the table is one: a new route has to say here who may use it.
func TestRoutesAreInTheTable(t *testing.T) {
	t.Parallel()
	play(t)

	listed, there := map[string]bool{}, map[string]bool{}
	for _, n := range table() {
		listed[n.method+" "+n.path] = true
	}
	for _, r := range served(t) {
		name := r.Method + " " + r.Path
		if there[name] = true; !listed[name] {
			t.Errorf("%s is not in the table", name)
		}
	}
	for name := range listed {
		if !there[name] {
			t.Errorf("%s of the table is no route", name)
		}
	}

	// What the command serves beside these packages is in no list of them.
	source, err := os.ReadFile("../../../cmd/actlog/serve.go")
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]bool{"native": true, "runs": true, "page": true, "tools": true, "receiver": true}
	for _, m := range regexp.MustCompile(`(\w+)\.Routes\(`).FindAllStringSubmatch(string(source), -1) {
		if !of[m[1]] {
			t.Errorf("the command serves the routes of %s, which this test does not know", m[1])
		}
	}
}

// Each path of the contract is in the table, too.
func TestRoutesOfTheContract(t *testing.T) {
	t.Parallel()
	h := open(t, setting{})
	listed := map[string]bool{}
	for _, n := range table() {
		listed[n.method+" "+n.path] = true
	}

	path, paths := "", 0
	for line := range strings.Lines(h.call(none, http.MethodGet, "/openapi.yaml", nil).body) {
		if m := regexp.MustCompile(`^  (/\S*):\s*$`).FindStringSubmatch(line); m != nil {
			path = regexp.MustCompile(`\{(\w+)\}`).ReplaceAllString(m[1], ":$1")
		}
		if m := regexp.MustCompile(`^    (get|post|put|patch|delete):\s*$`).FindStringSubmatch(line); m != nil && path != "" {
			if paths++; !listed[strings.ToUpper(m[1])+" "+path] {
				t.Errorf("%s %s of openapi.yaml is not in the table", m[1], path)
			}
		}
	}

	if paths < 40 {
		t.Errorf("%d paths in openapi.yaml", paths)
	}
}

// Every route with every key, by header and by the cookie of the page: who may not is told so, and who may is not.
func TestRoutesByScope(t *testing.T) {
	t.Parallel()
	h := open(t, setting{})
	cookies := map[string]string{}
	for _, key := range []string{"read", "owner", "root"} { // the page needs read
		cookies[key], _ = h.login(key)
	}

	for _, n := range table() {
		path := regexp.MustCompile(`:\w+`).ReplaceAllString(n.path, "unknown-id")
		methods := []string{n.method}
		if n.method == http.MethodGet && n.scope != "none" {
			methods = append(methods, http.MethodHead)
		}

		for _, method := range methods {
			for _, key := range []string{none, wrong, "write", "read", "run", "decide", "admin", "root"} {
				want := h.allowed(n, key)
				h.may(n, method, path, key, want, "with key "+key)
			}
			if n.scope == "none" {
				continue
			}

			for key, cookie := range cookies {
				safe := method != http.MethodPost && method != http.MethodDelete && method != http.MethodPut
				want := h.allowed(n, key)
				if n.noCookie && method == http.MethodHead {
					continue // does nothing
				}
				if n.noCookie || !safe {
					want = http.StatusForbidden // another site, or nobody knows which, may have sent it
				}

				h.may(n, method, path, none, want, "with the cookie of "+key, "Cookie: "+cookie)
				h.may(n, method, path, none, h.crossSite(n, key, safe), "with the cookie of "+key+" from another site",
					"Cookie: "+cookie, "Sec-Fetch-Site: cross-site", "Origin: https://evil.example")
			}
			h.may(n, method, path, none, http.StatusUnauthorized, "with a made-up cookie",
				"Cookie: actlog=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
		}
	}
}

// allowed is 0 if a key may, or with what it is refused.
func (h *house) allowed(n need, key string) int {
	switch {
	case n.scope == "none":
		return 0
	case key == none || key == wrong:
		return http.StatusUnauthorized
	case n.scope == "any":
		return 0
	}

	for scope := range strings.SplitSeq(n.scope, "+") {
		if !slices.Contains(keyScopes[key], httpd.Scope(scope)) {
			return http.StatusForbidden
		}
	}
	return 0
}

func (h *house) crossSite(n need, key string, safe bool) int {
	if !safe || n.noCookie || strings.HasPrefix(n.path, "/api/executor/details/") {
		return -1 // refused in any way, or answered without a change
	}
	return h.allowed(n, key)
}

// may sends a request and compares whether it was refused. The routes' ids are unknown, so that nothing comes of it.
func (h *house) may(n need, method, path, key string, want int, how string, headers ...string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 10*time.Second)
	defer cancel()
	var body any
	if method == http.MethodPost {
		body = "{}"
	}

	status, location := h.begins(ctx, key, method, path, body, headers...)
	refused := 0
	switch {
	case status == http.StatusSeeOther && strings.HasPrefix(location, "/login"):
		refused = http.StatusUnauthorized // a page, which leads to the login
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		refused = status
	}
	if n.path == "/login" || n.path == "/logout" { // they refuse what they are sent
		refused = 0
	}
	if n.noCookie && want == http.StatusForbidden && refused == http.StatusUnauthorized {
		return // for a request that needs a key, a cookie is none
	}

	switch want {
	case -1:
		if refused == 0 && n.scope != "read" {
			h.t.Errorf("%s %s %s is answered %d, and must be refused", method, n.path, how, status)
		}
	case refused:
	case http.StatusForbidden:
		if refused == 0 {
			h.t.Errorf("%s %s %s is answered %d, and must be refused", method, n.path, how, status)
		}
	default:
		h.t.Errorf("%s %s %s is answered %d, and must be %d (0: allowed)", method, n.path, how, status, want)
	}
}

// begins returns how a request is answered, without waiting for the end of the answer.
func (h *house) begins(
	ctx context.Context, key, method, path string, body any, headers ...string,
) (status int, location string) {
	h.t.Helper()
	text, _ := body.(string)
	req, err := http.NewRequestWithContext(ctx, method, h.url+path, strings.NewReader(text))
	if err != nil {
		h.t.Fatal(err)
	}

	if text != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if secret := h.keys[key]; secret != "" {
		req.Header.Set("Authorization", "Bearer "+secret)
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}

	resp, err := client.Do(req)
	if err != nil {
		h.t.Errorf("%s %s: %v", method, path, err)
		return 0, ""
	}
	resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("Location")
}

// What no route is takes a key, too, and other methods get nowhere.
func TestRoutesThatAreNone(t *testing.T) {
	t.Parallel()
	h := open(t, setting{})
	for _, path := range []string{
		"/nothing", "/api/v1/nothing", "/api/v1/plans/x/nothing", "/api//v1/plans", "/API/V1/PLANS", "/api/v1/../v1/plans",
		"/api/v1/%2e%2e/plans", "//api/v1/plans", "/debug/pprof/", "/debug/vars",
		"/.git/config", "/assets/../config", "/assets/..%2f..%2fserve.go", "/api/v1/work", "/metrics/", "/livez/../metrics",
		"/api/v1/plans/", "/api/v1/plans;x",
	} {
		for _, method := range []string{
			http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, "TRACE",
			"PROPFIND",
		} {
			a := h.call(none, method, path, nil)
			if a.status < 300 || a.status >= 500 || strings.Contains(a.body, "actlog_http") {
				t.Errorf("%s %s without a key is answered %d %s", method, path, a.status, clipDiff(a.body))
			}
		}
	}

	for _, n := range table() {
		path := regexp.MustCompile(`:\w+`).ReplaceAllString(n.path, "unknown-id")
		for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodOptions, "TRACE"} {
			if status, _ := h.begins(t.Context(), "root", method, path, nil); status < 400 && method != http.MethodOptions {
				t.Errorf("%s %s is answered %d", method, n.path, status)
			}
		}

		if n.method != http.MethodDelete {
			continue
		}
		if status, _ := h.begins(t.Context(), "root", http.MethodGet, path, nil, "X-HTTP-Method-Override: DELETE",
			"X-HTTP-Method: DELETE", "X-Method-Override: DELETE"); status == http.StatusNoContent {
			t.Errorf("GET %s that says it is a DELETE is answered %d", n.path, status)
		}
	}
}
