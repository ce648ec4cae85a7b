package web_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/actlog/actlog/internal/door/api"
	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/door/live"
	"github.com/actlog/actlog/internal/door/web"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// site is a server of pages.
type site struct {
	t     *testing.T
	store *store.Store
	door  *httpd.Server
	hub   *live.Hub
	http.Handler
	routes []httpd.Route
}

func open(t *testing.T, config httpd.Config) *site {
	t.Helper()
	return openWith(t, apitest.Config{HTTP: config})
}

func openWith(t *testing.T, config apitest.Config) *site {
	t.Helper()
	return serve(t, storetest.Open(t), config, web.Runtime{})
}

// serve opens a site of a record.
func serve(t *testing.T, s *store.Store, config apitest.Config, runtime web.Runtime) *site {
	t.Helper()
	config.HTTP.Logins = s
	server := apitest.New(t, s, config)
	runtime.Starter = server.Runs
	routes := append(server.Routes,
		web.New(runstore.New(s), server.Lookup, server.Hub, server.HTTP, api.RowJSON, runtime).Routes()...)
	return &site{t, s, server.HTTP, server.Hub, server.HTTP.Handler(false, routes...), routes}
}

// get returns a page, and checks what holds for all pages: what it may load, and that everything on it leads to this
// server.
func (s *site) get(path string, status int) *page {
	s.t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(s.t.Context(), http.MethodGet, path, nil))
	if w.Code != status {
		s.t.Fatalf("GET %s: %d %s", path, w.Code, w.Body)
	}

	h := w.Header()
	if csp := h.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") ||
		strings.Contains(csp, "unsafe") || h.Get("X-Content-Type-Options") != "nosniff" ||
		h.Get("Cache-Control") != "no-store" {
		s.t.Errorf("GET %s: %v", path, h)
	}

	root, err := html.Parse(w.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	p := &page{s.t, root}
	p.harmless(path)
	return p
}

// harmless checks that everything on a page leads to this server, and that only the template brings what loads or runs
// something.
func (p *page) harmless(path string) {
	p.t.Helper()
	for n := range p.root.Descendants() {
		if n.Type != html.ElementNode || p.marked(n) {
			continue
		}
		if slices.Contains([]string{"script", "style", "iframe", "object", "embed", "img", "base", "meta"}, n.Data) &&
			!p.ours(n) {
			p.t.Errorf("GET %s has a %s: %v", path, n.Data, n.Attr)
		}

		for _, a := range n.Attr {
			switch to, err := url.Parse(a.Val); {
			case n.Data == "link" && a.Val == "#painted": // what the first paint waits for
			case strings.HasPrefix(a.Key, "on"), a.Key == "style", a.Key == "srcset":
				p.t.Errorf("GET %s has an attribute %s", path, a.Key)
			case (a.Key == "href" || a.Key == "src" || a.Key == "action") &&
				(err != nil || to.Scheme != "" || to.Host != "" || !strings.HasPrefix(a.Val, "/")):
				p.t.Errorf("GET %s leads to %s", path, a.Val)
			}
		}
	}
}

// page is a page as a browser reads it.
type page struct {
	t    *testing.T
	root *html.Node
}

// ours reports whether an element stands in the template: nothing from the record is in the head.
func (*page) ours(n *html.Node) bool { return n.Parent != nil && n.Parent.Data == "head" }

// marked reports whether a link stands in a text that is shown as Markdown: it leads elsewhere, says to which host, and
// tells nobody where it was.
func (*page) marked(n *html.Node) bool {
	to, err := url.Parse(attr(n, "href"))
	in := n.Data == "a" && err == nil && (to.Scheme == "https" || to.Scheme == "http") && attr(n, "target") == "_blank" &&
		attr(n, "rel") == "noreferrer noopener" && len(n.Attr) == 3 &&
		n.NextSibling != nil && strings.HasPrefix(n.NextSibling.Data, " ("+to.Host+")")

	for above := range n.Ancestors() {
		if attr(above, "class") == "marked" {
			return in
		}
	}
	return false
}

// all returns the elements with an attribute of a value.
func (p *page) all(key, value string) (found []*html.Node) {
	for n := range p.root.Descendants() {
		if n.Type == html.ElementNode && attr(n, key) == value {
			found = append(found, n)
		}
	}
	return found
}

func (p *page) one(key, value string) *html.Node {
	p.t.Helper()
	found := p.all(key, value)
	if len(found) != 1 {
		p.t.Fatalf("%d elements have %s=%q", len(found), key, value)
	}
	return found[0]
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// text returns the text of an element, with one space wherever there is white space.
func text(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data + " ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// writeFailure writes a run whose sub-plan failed at a call.
func (s *site) writeFailure(root string) {
	s.t.Helper()
	sub, at := root+"-sub", storetest.At
	failed := new(record.Failed)

	storetest.Write(s.t, s.store,
		&record.Plan{
			RootPlanID: root, CurrentPlanID: root, Title: new("Find stale pages"), State: failed, StartTime: at(0),
			EndTime: at(50),
		},
		&record.AgentExecution{
			RootPlanID: root, PlanID: root, StepID: root + "-triage", StepIndex: new(int64(0)), AgentName: new("triage"),
			State: new(record.Completed), StartTime: at(0), EndTime: at(2),
		},
		&record.AgentExecution{
			RootPlanID: root, PlanID: root, StepID: root + "-r", StepIndex: new(int64(1)), AgentName: new("researcher"),
			State: failed, StartTime: at(2), EndTime: at(50),
		},
		&record.ThinkAct{
			RootPlanID: root, StepID: root + "-r", Seq: 0, State: new(record.Completed), ThinkOutput: new("I search."),
			InputTokens: new(int64(1812)),
		},
		&record.ActTool{
			RootPlanID: root, StepID: root + "-r", Seq: 0, ToolCallID: "c/1", Name: new("search"), State: failed,
			StartTime: at(3), EndTime: at(40),
		},
		&record.Plan{
			RootPlanID: root, CurrentPlanID: sub, ParentPlanID: &root, ToolCallID: new("c/1"), Title: new("search"),
			State: failed, StartTime: at(3), EndTime: at(40),
		},
		&record.AgentExecution{
			RootPlanID: root, PlanID: sub, StepID: root + "-counter", AgentName: new("counter"), State: failed,
			StartTime: at(4), EndTime: at(39),
		},
		&record.ActTool{RootPlanID: root, StepID: root + "-counter", Seq: 2, ToolCallID: "x", Name: new("run_sql"),
			State: failed, StartTime: at(20), EndTime: at(30), Attempt: new(int64(2)),
			Parameters: new(`{"sql":"SELECT 1","big":12345678901234567890}`), ErrorKind: new("timeout"),
			ErrorMessage: new("no answer within 10 s")})
}

// TestRun: a run that failed shows the cause, the way to it and its detail without a click. Every row is a link.
func TestRun(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	s.writeFailure("run/1")

	p := s.get("/runs/run%2F1", http.StatusOK)
	if got, want := text(p.one("aria-label", "Cause")),
		"Cause ✗ run_sql timeout: no answer within 10 s Find stale pages researcher cycle 1 search search counter cycle "+
			"3 run_sql 1 of 1 open copy"; got != want {
		t.Errorf("the cause is %q, want %q", got, want)
	}

	detail := text(p.one("aria-label", "Detail"))
	for _, part := range []string{
		"run_sql ✗ failed call attempt 2 10s", "error no answer within 10 s", `"big": 12345678901234567890`,
	} {
		if !strings.Contains(detail, part) {
			t.Errorf("the detail lacks %q: %s", part, detail)
		}
	}

	rows := p.all("role", "treeitem")
	var names []string
	for _, r := range rows {
		names = append(names, attr(r, "aria-level")+" "+attr(r, "aria-posinset")+"/"+attr(r, "aria-setsize")+" "+text(r))
		same := s.get(attr(r, "href"), http.StatusOK)
		if at := same.one("aria-selected", "true"); attr(at, "id") != attr(r, "id") {
			t.Errorf("%s opens %s", attr(r, "href"), text(at))
		}
	}

	want := []string{
		"1 1/1 ▾ Find stale pages ✗1 ✗ failed 50s", "2 1/2 triage ✓ completed 2s", "2 2/2 ▾ researcher ✗1 ✗ failed 48s",
		"3 1/1 ▾ cycle 1 ✗1 ✓ completed",
		"4 1/1 ▾ search ✗1 ✗ failed 37s", "5 1/1 ▾ search ✗1 ✗ failed 37s", "6 1/1 ▾ counter ✗1 ✗ failed 35s",
		"7 1/1 ▾ cycle 3 ✗1 ○ pending", "8 1/1 run_sql attempt 2 ✗ failed 10s",
	}
	if !slices.Equal(names, want) {
		t.Errorf("the rows are\n%s\nwant\n%s", strings.Join(names, "\n"), strings.Join(want, "\n"))
	}

	p = s.get("/runs/run%2F1?at=cycle:run%252F1-r/0", http.StatusOK)
	if got := text(p.one("aria-label", "Detail")); !strings.Contains(got, "input tokens 1,812") ||
		!strings.Contains(got, "I search.") || !strings.Contains(got, "calls search ✗ failed") {
		t.Errorf("the detail of the cycle is %s", got)
	}
	p = s.get("/runs/run%2F1?at=call:nobody", http.StatusOK)
	if got := text(p.one("role", "status")); !strings.Contains(got, "call:nobody") ||
		len(p.all("role", "treeitem")) != len(rows) {
		t.Errorf("of an unknown row it says %q", got)
	}

	if got := text(s.get("/runs/nobody", http.StatusNotFound).one("role", "alert")); got != "nothing of that id is on "+
		"record" {
		t.Errorf("of an unknown run it says %q", got)
	}
	s.get("/runs/run%2F1?from=x", http.StatusBadRequest)
}

// TestList: the list shows runs, newest first, a page at a time. Its links keep the filters.
func TestList(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	if got := text(s.get("/", http.StatusOK).one("class", "empty")); !strings.Contains(got, "Nothing is on record yet") ||
		!strings.Contains(got, "/api/v1/records") {
		t.Errorf("an empty record says %q", got)
	}

	for i := range 5 {
		id := fmt.Sprint("run", i)
		storetest.Write(t, s.store, &record.Plan{
			RootPlanID: id, CurrentPlanID: id, Project: new("a b"), Title: new("Title " + id), State: new(record.Failed),
			ErrorMessage: new("broke " + id), StartTime: storetest.At(i), EndTime: storetest.At(i + 2),
		})
	}

	p := s.get("/?project=a+b&limit=3", http.StatusOK)
	rows := p.all("class", "run")
	if len(rows) != 3 || text(rows[0]) != "Title run4" || attr(rows[0].FirstChild, "href") != "/runs/run4" ||
		text(p.all("class", "cause")[0]) != "broke run4" {
		t.Fatalf("%d rows", len(rows))
	}
	if got := attr(p.one("name", "project"), "value"); got != "a b" {
		t.Errorf("the filter shows %q", got)
	}

	older := s.get(attr(p.one("rel", "next"), "href"), http.StatusOK)
	if rows := older.all("class", "run"); len(rows) != 2 || text(rows[1]) != "Title run0" ||
		attr(older.one("name", "project"), "value") != "a b" {
		t.Errorf("%d older rows", len(rows))
	}

	if got := text(
		s.get("/?state=RUNNING", http.StatusOK).one("class", "empty"),
	); !strings.HasPrefix(got, "No run matches.") {
		t.Errorf("without a match it says %q", got)
	}
	if got := text(
		s.get("/?state=LOUD", http.StatusBadRequest).one("role", "alert"),
	); !strings.HasPrefix(got, "state must be") {
		t.Errorf("of a wrong filter it says %q", got)
	}
}

// send sends a request and returns the answer to it.
func (s *site) send(method, path, form string, header ...string) *http.Response {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), method, path, strings.NewReader(form))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}

	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}

// keys returns keys of some scopes, and the secret of the first.
func keys(t *testing.T, scopes ...httpd.Scope) (all *httpd.Keys, secret string) {
	t.Helper()
	secret, line, err := httpd.NewKey("reader", scopes)
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := httpd.NewKey("other", scopes)
	if err != nil {
		t.Fatal(err)
	}

	all, err = httpd.ReadKeys(strings.NewReader(line + "\n" + other))
	if err != nil {
		t.Fatal(err)
	}
	return all, secret
}

// TestLogin: where keys are set, pages need a session, which is begun with a key. It opens what a browser reads, and
// what pages of this server send. It ends when its user logs out, and with its key.
func TestLogin(t *testing.T) {
	t.Parallel()
	all, secret := keys(t, httpd.ScopeRead, httpd.ScopeWrite)
	s := open(t, httpd.Config{Keys: all})
	s.writeFailure("run")

	want := func(what string, got *http.Response, status int, location string) {
		t.Helper()
		if got.StatusCode != status || got.Header.Get("Location") != location {
			t.Errorf("%s: %d to %q, want %d to %q", what, got.StatusCode, got.Header.Get("Location"), status, location)
		}
	}

	want("without a session", s.send("GET", "/runs/run?at=plan:run", ""), 303,
		"/login?next=%2Fruns%2Frun%3Fat%3Dplan%3Arun")
	if form := s.get("/login?next=//evil.example/x", 200); attr(form.one("name", "next"), "value") != "/" {
		t.Error("the login leads elsewhere")
	}
	want("a wrong key", s.send("POST", "/login", "key=actlog_x&next=/runs/run"), 401, "")

	for next, to := range map[string]string{"/runs/run?at=x": "/runs/run?at=x", "/\\evil.example": "/"} {
		in := s.send("POST", "/login", url.Values{"key": {secret}, "next": {next}}.Encode(), "X-Forwarded-Proto", "https",
			"X-Forwarded-For", next)
		want("logging in", in, 303, to)
		c := in.Cookies()[0]
		if c.Name != "__Host-actlog" || !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteLaxMode ||
			c.MaxAge != 12*3600 || strings.Contains(c.Value, secret) {
			t.Errorf("the cookie is %+v", c)
		}
	}

	in := s.send("POST", "/login", url.Values{"key": {secret}}.Encode())
	session := in.Cookies()[0]
	if session.Name != "actlog" || session.Secure {
		t.Errorf("without TLS, the cookie is %+v", session)
	}
	as := func(method, path, body string, header ...string) *http.Response {
		return s.send(method, path, body, append(header, "Cookie", session.Name+"="+session.Value)...)
	}

	const records, asJSON = `{"records":[]}`, "application/json"
	want("a page", as("GET", "/runs/run", ""), 200, "")
	want("the API", as("GET", "/api/v1/plans/run", ""), 200, "")
	want("a made up session", s.send("GET", "/", "", "Cookie", "actlog=x"), 303, "/login?next=%2F")

	want("a write from elsewhere", as("POST", "/api/v1/records", records, "Content-Type", asJSON), 403, "")
	want("a write from another site",
		as("POST", "/api/v1/records", records, "Content-Type", asJSON, "Sec-Fetch-Site", "cross-site"), 403, "")
	want("a write from the same site",
		as("POST", "/api/v1/records", records, "Content-Type", asJSON, "Sec-Fetch-Site", "same-site"), 403, "")
	want("a write from a page", as("POST", "/api/v1/records", records, "Content-Type", asJSON, "Sec-Fetch-Site",
		"same-origin"), 200, "")

	want("what its key may not do", as("DELETE", "/api/v1/plans/run", "", "Sec-Fetch-Site", "same-origin"), 403, "")
	want("a wrong key beside it", as("GET", "/api/v1/plans/run", "", "Authorization", "Bearer x"), 401, "")
	want("another site logs out", as("POST", "/logout", "", "Sec-Fetch-Site", "cross-site"), 403, "")
	want("a page still", as("GET", "/runs/run", ""), 200, "")
	want("a page logs out", as("POST", "/logout", "", "Sec-Fetch-Site", "same-origin"), 303, "/login")
	want("a page after that", as("GET", "/runs/run", ""), 303, "/login?next=%2Fruns%2Frun")

	other, secret := keys(t, httpd.ScopeRead)
	s.door.SetKeys(other)
	session = s.send("POST", "/login", url.Values{"key": {secret}}.Encode()).Cookies()[0]
	want("a page with another key", as("GET", "/runs/run", ""), 200, "")

	s.door.SetKeys(all)
	want("a page after its key is gone", as("GET", "/runs/run", ""), 303, "/login?next=%2Fruns%2Frun")
	want("its key itself", s.send("POST", "/login", url.Values{"key": {secret}}.Encode()), 401, "")
	want("a long form", s.send("POST", "/login", "key="+strings.Repeat("x", 1<<20)), 400, "")
	s.door.SetKeys(nil)
	want("a login without keys", s.send("GET", "/login?next=/runs/run", ""), 303, "/runs/run")
}

// TestFailuresLockNobodyOut: S10. Who tries keys that are none is refused after five, by address. Good keys are let in
// all the same, how often ever, and others are not counted with them: neither other clients of a proxy, nor who has
// logged in.
func TestFailuresLockNobodyOut(t *testing.T) {
	t.Parallel()
	all, secret := keys(t, httpd.ScopeRead)
	proxies, err := httpd.ParseProxies([]string{"192.0.2.0/24"}) // where httptest's requests are from
	if err != nil {
		t.Fatal(err)
	}

	for name, proxies := range map[string]httpd.Proxies{"direct": nil, "behind a proxy": proxies} {
		t.Run(name, func(t *testing.T) {
			s := open(t, httpd.Config{Keys: all, Proxies: proxies})
			try := func(key, from string) string {
				got := s.send("POST", "/login", url.Values{"key": {key}}.Encode(), "X-Forwarded-For", "203.0.113.77, "+from)
				if (got.StatusCode == 303) != (len(got.Cookies()) == 1) ||
					(got.StatusCode == 429) != (got.Header.Get("Retry-After") != "") {
					t.Errorf("got.StatusCode = %d %v", got.StatusCode, got.Header)
				}
				return fmt.Sprint(got.StatusCode)
			}

			for range 12 {
				if got := try(secret, "203.0.113.1"); got != "303" {
					t.Fatalf("a good key: %s", got)
				}
			}

			var got []string
			for _, key := range []string{
				"actlog_a", "actlog_b", strings.Repeat("x", 300), "", "actlog_e", "actlog_f", "actlog_a",
			} {
				got = append(got, try(key, "203.0.113.1"), try(secret, "203.0.113.1"))
			}
			if want := "401 303 401 303 401 303 401 303 401 303 429 303 429 303"; strings.Join(got, " ") != want {
				t.Errorf("append = %q, want %q", got, want)
			}

			other := try("actlog_a", "203.0.113.2")
			if want := map[bool]string{true: "401", false: "429"}[proxies != nil]; other != want {
				t.Errorf("another client of the proxy: %s, want %s", other, want)
			}
		})
	}
}

// TestSessionsEndForGoodWithTheirKey: S11. A key that is removed and restored finds none of its sessions, on no server.
func TestSessionsEndForGoodWithTheirKey(t *testing.T) {
	t.Parallel()
	both, secret := keys(t, httpd.ScopeRead)
	without, other := keys(t, httpd.ScopeRead)
	s := open(t, httpd.Config{Keys: both})
	second := serve(t, s.store, apitest.Config{HTTP: httpd.Config{Keys: both}}, web.Runtime{})

	third := func(keys *httpd.Keys, changed time.Time) *site {
		fresh := *keys
		fresh.Changed = changed
		return serve(t, s.store, apitest.Config{HTTP: httpd.Config{Keys: &fresh}}, web.Runtime{})
	}
	login := func(on *site, key string) *http.Cookie {
		t.Helper()
		in := on.send("POST", "/login", url.Values{"key": {key}}.Encode())
		if in.StatusCode != 303 {
			t.Fatalf("in.StatusCode = %v", in.StatusCode)
		}
		return in.Cookies()[0]
	}
	want := func(what string, on *site, session *http.Cookie, status int) {
		t.Helper()
		if got := on.send("GET", "/api/v1/plans", "", "Cookie", session.Name+"="+session.Value); got.StatusCode != status {
			t.Errorf("%s: %d, want %d", what, got.StatusCode, status)
		}
	}

	session := login(s, secret)
	want("the session", second, session, 200)
	s.door.SetKeys(without)
	want("its key is gone", s, session, 401)
	s.door.SetKeys(both)
	want("its key is back", s, session, 401)
	want("its key was never gone elsewhere", second, session, 401)

	session = login(s, secret)
	want("a new session", s, session, 200)

	// This server was down when the key went, and when it came back.
	late := third(without, time.Now())
	if err := late.door.EndSessions(t.Context()); err != nil {
		t.Fatal(err)
	}
	want("a server without the key has started", s, session, 401)

	// A file that is older than the session may lack a key that is new.
	session = login(s, secret)
	old := third(without, time.Now().Add(-time.Minute))
	want("a server with an older file does not know the key", old, session, 401)
	mine := login(old, other)
	want("but leaves the session", s, session, 200)

	old.door.SetKeys(both) // it has the newer file now
	want("the key has arrived", old, session, 200)
	want("and the other one is gone", old, mine, 401)

	s.door.SetKeys(nil)
	s.door.SetKeys(both)
	want("no keys were needed for a while", s, session, 401)
}

// TestSessionsOfAKeyAreBounded: a key that begins sessions without end has the newest thousand.
func TestSessionsOfAKeyAreBounded(t *testing.T) {
	t.Parallel()
	all, secret := keys(t, httpd.ScopeRead)
	s := open(t, httpd.Config{Keys: all})

	first := s.send("POST", "/login", url.Values{"key": {secret}}.Encode()).Cookies()[0]
	storetest.Query[int64](t, s.store,
		`WITH more AS (INSERT INTO actlog.login SELECT sha256(i::text::bytea), key_sha256, expires_at + i * interval '1 ms' FROM actlog.login, generate_series(1, 1000) AS i RETURNING 1) SELECT count(*) FROM more`)
	newest := s.send("POST", "/login", url.Values{"key": {secret}}.Encode()).Cookies()[0]

	if n := storetest.Query[int64](t, s.store, "SELECT count(*) FROM actlog.login"); n != 1000 {
		t.Errorf("%d sessions", n)
	}
	for session, status := range map[*http.Cookie]int{first: 401, newest: 200} {
		if got := s.send("GET", "/api/v1/plans", "", "Cookie", session.Name+"="+session.Value); got.StatusCode != status {
			t.Errorf("got.StatusCode = %d, want %d", got.StatusCode, status)
		}
	}
}

// TestLoginLeadsNowhereElse: whatever a link to the login says, it leads back to this server.
func TestLoginLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	all, secret := keys(t, httpd.ScopeRead)
	s := open(t, httpd.Config{Keys: all})
	for next, want := range map[string]string{
		"/runs/run?at=x": "/runs/run?at=x", "/": "/", "": "/", "//evil.example": "/", "///evil.example": "/",
		"/\\evil.example": "/", "\\\\evil.example": "/",
		"https://evil.example/": "/", "https:evil.example": "/", "javascript:alert(1)": "/", "data:text/html,x": "/",
		"/\t/evil.example": "/", "/\n/evil.example": "/",
		"\t//evil.example": "/", " //evil.example": "/", "evil.example": "/", "?next=x": "/", "/\x00/evil.example": "/",
		"//user@evil.example": "/",
	} {
		if form := s.get("/login?"+url.Values{"next": {next}}.Encode(), 200); attr(form.one("name", "next"),
			"value") != want {
			t.Errorf("%q: the form leads to %q", next, attr(form.one("name", "next"), "value"))
		}

		in := s.send("POST", "/login", url.Values{"key": {secret}, "next": {next}}.Encode())
		if got := in.Header.Get("Location"); in.StatusCode != 303 || got != want {
			t.Errorf("%q: %d to %q", next, in.StatusCode, got)
		}
	}
}

// TestLoginNeedsRead: a key that may not read begins no session.
func TestLoginNeedsRead(t *testing.T) {
	t.Parallel()
	all, secret := keys(t, httpd.ScopeWrite)
	s := open(t, httpd.Config{Keys: all})
	if got := s.send("POST", "/login", "key="+secret); got.StatusCode != 403 || len(got.Cookies()) > 0 {
		t.Errorf("got.StatusCode = %d %v", got.StatusCode, got.Cookies())
	}
}

// TestAssets: what pages load needs no key, and is kept by browsers for good.
func TestAssets(t *testing.T) {
	t.Parallel()
	all, _ := keys(t, httpd.ScopeRead)
	s := open(t, httpd.Config{Keys: all})
	p := s.get("/login", http.StatusOK)

	var paths []string
	for n := range p.root.Descendants() {
		for _, key := range []string{"href", "src"} {
			if path := attr(n, key); strings.HasPrefix(path, "/assets/") {
				paths = append(paths, path)
			}
		}
	}

	for _, path := range paths {
		if got := s.send("GET", path, ""); got.StatusCode != 200 ||
			!strings.Contains(got.Header.Get("Cache-Control"), "immutable") || got.Header.Get("Content-Type") == "" {
			t.Errorf("%s: %d %v", path, got.StatusCode, got.Header)
		}
	}

	if got := s.send("GET", "/assets/none.css", ""); len(paths) != 3 || got.StatusCode != 404 {
		t.Errorf("got.StatusCode = %d %v", got.StatusCode, paths)
	}
}

// TestLongRun: of a long tree, sections come empty, and each is filled with the rows that follow the one before.
func TestLongRun(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what a page shows")
	t.Parallel()
	s := open(t, httpd.Config{})

	changes := []record.Change{
		&record.Plan{RootPlanID: "long", CurrentPlanID: "long", State: new(record.Failed)},
		&record.AgentExecution{RootPlanID: "long", PlanID: "long", StepID: "s", State: new(record.Failed)},
	}
	const calls = 3_000
	for i := range calls {
		changes = append(changes, &record.ActTool{
			RootPlanID: "long", StepID: "s", Seq: 0, ToolCallID: fmt.Sprint(i), CallIndex: new(int64(i)),
			State: new(map[bool]record.State{true: record.Failed, false: record.Completed}[i == 1_500]),
		})
	}
	storetest.Write(t, s.store, changes...)

	p := s.get("/runs/long", http.StatusOK)
	if open := p.one("aria-selected", "true"); attr(open, "id") != "call:s/0/1500" {
		t.Errorf("%s is open", attr(open, "id"))
	}

	var ids []string
	for _, section := range p.all("class", "section") {
		if from := attr(section, "data-from"); from != "" {
			section = s.get(from, http.StatusOK).root
		}
		for n := range section.Descendants() {
			if attr(n, "role") == "treeitem" {
				ids = append(ids, attr(n, "id"))
			}
		}
	}
	if len(ids) != calls+3 || ids[3] != "call:s/0/0" || ids[calls+2] != fmt.Sprint("call:s/0/", calls-1) ||
		len(slices.Compact(slices.Sorted(slices.Values(ids)))) != len(ids) {
		t.Errorf("%d rows", len(ids))
	}

	if under := s.get("/runs/long/rows?under=cycle:s/0", http.StatusOK).all("role", "treeitem"); len(under) != calls {
		t.Errorf("%d rows are under the cycle", len(under))
	}
	for _, path := range []string{
		"rows", "rows?under=x", "rows?after=x", "rows?under=cycle:s/0&after=x", "detail", "detail?at=x",
	} {
		s.get("/runs/long/"+path, http.StatusBadRequest)
	}
}

// TestSlowRun: a run that takes long to read is named before it is read. What is wrong with it then is said on its
// page.
func TestSlowRun(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	changes := []record.Change{
		&record.Plan{RootPlanID: "slow", CurrentPlanID: "slow", UserRequest: new("Read <all>"), State: new(record.Running)},
	}
	for i := range 20_000 {
		changes = append(changes, &record.ActTool{RootPlanID: "slow", StepID: "s", Seq: 0, ToolCallID: fmt.Sprint(i)})
	}
	storetest.Write(t, s.store, changes...)

	server := httptest.NewServer(s)
	defer server.Close()
	for _, encoding := range []string{"identity", "gzip"} {
		held, err := s.store.DB().Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = held.Rollback(context.Background()) }()
		if _, err := held.Exec(t.Context(), "LOCK TABLE actlog.wait_state"); err != nil { // the rows cannot be read
			t.Fatal(err)
		}

		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/runs/slow", nil)
		if err != nil {
			t.Fatal(err)
		}
		if encoding == "identity" { // else the client asks for gzip by itself
			r.Header.Set("Accept-Encoding", encoding)
		}
		resp, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}

		body, part := "", make([]byte, 4<<10)
		for !strings.Contains(body, "Reading <bdi>Read &lt;all&gt;</bdi>") {
			n, err := resp.Body.Read(part)
			if body += string(part[:n]); err != nil {
				t.Fatalf("%s: %v after %s", encoding, err, body)
			}
		}

		if err := held.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if body += string(rest); err != nil || !strings.Contains(body, `role="tree"`) || !strings.HasSuffix(body, "</html>") {
			t.Errorf("%s: %v, %d bytes", encoding, err, len(body))
		}
	}

	s.get("/runs/slow?fold=some", http.StatusBadRequest)
	s.get("/runs/slow?root=other", http.StatusNotFound)
	if said := text(s.get("/runs/slow?view=none", http.StatusOK).one("role", "alert")); !strings.HasPrefix(said, "view ") {
		t.Errorf("of a wrong view it says %q", said)
	}

	small := serve(t, s.store, apitest.Config{HTTP: httpd.Config{AnswerBytes: 4 << 20}}, web.Runtime{})
	if said := text(small.get("/runs/slow", http.StatusOK).one("role", "alert")); !strings.Contains(said,
		"larger than the server holds") {
		t.Errorf("of a run that is too large it says %q", said)
	}
}

// TestPatch: a run that goes on says where its changes are told. A patch has the rows that are asked for, those above
// them, and what each stands behind.
func TestPatch(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	s.writeFailure("run")

	if events := attr(s.get("/runs/run", http.StatusOK).one("role", "tree"), "data-events"); events != "" {
		t.Errorf("a run that has ended is followed at %q", events)
	}

	storetest.Write(t, s.store, &record.Plan{RootPlanID: "on", CurrentPlanID: "on", State: new(record.Running)},
		&record.AgentExecution{RootPlanID: "on", PlanID: "on", StepID: "s"})
	if events := attr(
		s.get("/runs/on", http.StatusOK).one("role", "tree"), "data-events",
	); !strings.HasPrefix(events, "/api/v1/plans/on/events?after=") || !strings.HasSuffix(events, "&lean=true&root=on") {
		t.Errorf("it is followed at %q", events)
	}

	p := s.get("/runs/run/patch?rows="+url.QueryEscape("call:run-r/0/c%2F1 step:nobody"), http.StatusOK)
	var got []string
	for _, holder := range p.all("class", "new-row") {
		got = append(got, attr(holder.FirstChild, "id")+" after "+attr(holder, "data-after"))
	}
	want := []string{
		"plan:run after ", "step:run-r after step:run-triage plan:run", "cycle:run-r/0 after step:run-r",
		"call:run-r/0/c%2F1 after cycle:run-r/0",
	}
	if !slices.Equal(got, want) || !strings.Contains(text(p.one("class", "new-head")), "no answer within 10 s") {
		t.Errorf("append = %q, want %q", got, want)
	}

	s.get("/runs/run/patch?rows="+strings.Repeat("+plan:run", 201), http.StatusBadRequest)
	s.get("/runs/nobody/patch?rows=plan:run", http.StatusNotFound)
}

// TestTooManyStreams: a run that nobody can follow, because the server has as many streams as it may, is shown all the
// same.
func TestTooManyStreams(t *testing.T) {
	t.Parallel()
	s := openWith(t, apitest.Config{MaxStreams: -1})
	storetest.Write(t, s.store, &record.Plan{RootPlanID: "on", CurrentPlanID: "on", State: new(record.Running)})
	if events := attr(s.get("/runs/on", http.StatusOK).one("role", "tree"), "data-events"); events != "" {
		t.Errorf("it is followed at %q", events)
	}
}

// TestPathsOfBrowsers: W8: a browser that asks for a path that is not quite that of a page is led to the page, and for
// any other one is answered with a page that says so. Programs get a problem, as before.
func TestPathsOfBrowsers(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	s.writeFailure("run/1")

	ask := func(path, accept string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		r.Header.Set("Accept", accept)
		s.ServeHTTP(w, r)
		return w
	}

	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8"
	for path, want := range map[string]string{
		"/runs": "/", "/runs/": "/", "/runs?state=FAILED": "/?state=FAILED", "/waits/": "/waits", "/charts/": "/charts",
		"/charts/?since=24h": "/charts?since=24h",
		"/conversations":     "/", "/conversations/": "/", "/search/": "/search", "/compare/": "/compare",
		"/runs/run%2F1/": "/runs/run%2F1", "/login/": "/login",
	} {
		w := ask(path, browser)
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != want {
			t.Errorf("GET %s: %d %q, want %s", path, w.Code, w.Header().Get("Location"), want)
			continue
		}
		if w = ask(want, browser); w.Code != http.StatusOK && !strings.HasPrefix(want, "/login") {
			t.Errorf("GET %s: %d", want, w.Code)
		}
	}

	for _, path := range []string{
		"/none", "/api/v1/none", "/runs/run%2F1/none", "/waits/none", "/a/b/c/", "//example.com/",
	} {
		w := ask(path, browser)
		if w.Code != http.StatusNotFound || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") ||
			!strings.Contains(w.Body.String(), "<h1>404 Not Found</h1>") ||
			!strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("GET %s: %d %v %.200s", path, w.Code, w.Header(), w.Body)
		}

		for _, accept := range []string{"", "*/*", "application/json", "application/json, text/html;q=0"} {
			if w := ask(path, accept); w.Code != http.StatusNotFound ||
				w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("GET %s for %q: %d %v", path, accept, w.Code, w.Header())
			}
		}
	}
}
