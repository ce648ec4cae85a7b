package web_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

const (
	runTool = "/api/executor/executeByToolNameSync/clerk?request=Go."
	details = "/api/executor/details/broken"
)

// snapshot is all that is in the database, but for what workers and the feed do by themselves.
func (s *site) snapshot() string {
	s.t.Helper()
	tables := storetest.Lines(s.t, s.store.DB(), `SELECT c.relname FROM pg_class AS c
		WHERE c.relnamespace = 'actlog'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname NOT IN ('worker', 'change', 'schema_version') ORDER BY 1`)

	var all strings.Builder
	for _, table := range tables {
		all.WriteString(table + " " +
			strings.Join(storetest.Lines(s.t, s.store.DB(),
				"SELECT count(*) || ' ' || COALESCE(md5(string_agg(t::text, ',' ORDER BY t::text)), '') FROM actlog."+table+
					" AS t"), "") + "\n")
	}
	return all.String()
}

// throws puts a plan on record whose exception nobody has seen.
func (s *site) throws() {
	s.t.Helper()
	storetest.Write(s.t, s.store, &record.Plan{RootPlanID: "broken", CurrentPlanID: "broken", Exception: new("boom")})
}

// S5: every GET route that changes something is marked. Of a browser's session, it does nothing.
func TestGETsThatAct(t *testing.T) {
	t.Parallel()
	all, secret := keys(t, httpd.ScopeRead, httpd.ScopeWrite, httpd.ScopeRun, httpd.ScopeDecide, httpd.ScopeAdmin)
	s := openShop(t, httpd.Config{Keys: all})
	s.throws()
	s.ends(s.start("Go."), record.Completed)
	session := s.send("POST", "/login", url.Values{"key": {secret}}.Encode()).Cookies()[0]

	path := func(r httpd.Route) string {
		return strings.NewReplacer(":planId", "broken", ":toolName", "clerk", ":stepId", "s", ":sessionId", "s",
			":conversationId", "c", ":executionId", "broken", ":name", "x").Replace(r.Path)
	}
	var marked []string
	for _, r := range s.routes {
		if r.Method != http.MethodGet || r.Stream && !r.Acts { // streams begin nothing, unless they are marked
			continue
		}

		before, to := s.snapshot(), path(r)
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			got := s.send(method, to, "", "Cookie", session.Name+"="+session.Value, "Sec-Fetch-Site", "none")
			if r.Acts && got.StatusCode != http.StatusForbidden {
				t.Errorf("%s %s with a session: %d", method, to, got.StatusCode)
			}
		}

		if r.Acts || r.Spends {
			marked = append(marked, r.Path)
		} else {
			s.send("GET", to, "", "Authorization", "Bearer "+secret)
		}
		if diff := cmp.Diff(before, s.snapshot()); diff != "" {
			t.Errorf("GET %s changes something (-before +after):\n%s", to, diff)
		}
	}

	slices.Sort(marked)
	if want := []string{
		"/api/executor/details/:planId", "/api/executor/executeByToolNameSync/:toolName",
	}; !slices.Equal(marked, want) {
		t.Errorf("marked are %q, want %q", marked, want)
	}

	before := s.snapshot()
	for _, header := range [][]string{
		{}, {"Sec-Fetch-Site", "none"}, {"Sec-Fetch-Site", "same-origin"}, {"Sec-Fetch-Site", "cross-site"},
		{"Referer", "https://evil.example/"},
	} {
		header = append(header, "Cookie", session.Name+"="+session.Value)
		if got := s.send("GET", runTool, "", header...); got.StatusCode != http.StatusForbidden {
			t.Errorf("a link with %v starts a run: %d", header, got.StatusCode)
		}
		if got := s.send("GET", details, "", header...); got.StatusCode != http.StatusOK {
			t.Errorf("a link with %v: %d", header, got.StatusCode)
		}
	}

	if s.snapshot() != before {
		t.Error("a link did something")
	}

	if got := s.send("GET", runTool, ""); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a key: %d", got.StatusCode)
	}
	for _, header := range [][]string{
		{"Authorization", "Bearer " + secret}, {"X-Api-Key", secret, "Cookie", session.Name + "=" + session.Value},
	} {
		s.throws()
		if got := s.send("GET", runTool, "", header...); got.StatusCode != http.StatusOK {
			t.Errorf("with a key: %d", got.StatusCode)
		}
	}

	if got := s.send("GET", details, "", "Authorization", "Bearer "+
		secret); got.StatusCode != http.StatusInternalServerError {
		t.Errorf("the exception, once: %d", got.StatusCode)
	}
}

// S5: where no keys are needed, a GET that acts is for programs, and for scripts of the server's own pages.
func TestGETsThatActWithoutKeys(t *testing.T) {
	t.Parallel()
	s := openShop(t, httpd.Config{})
	s.throws()
	before := s.snapshot()
	const host = "http://example.com" // of requests in tests

	for _, header := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "none"},
		{"Sec-Fetch-Mode", "navigate"}, {"Sec-Fetch-Dest", "image"},
		{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "navigate"},
		{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "no-cors"}, {"Cookie", "a=b"},
		{"Sec-Fetch-Site", "same-origin", "Cookie", "a=b"}, {"Origin", "http://evil.example"}, {"Origin", "null"},
		{"Referer", "http://evil.example/x"}, {"Referer", "http://example.com:81/"},
		{"User-Agent", "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/80.0"},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			if got := s.send(method, runTool, "", header...); got.StatusCode != http.StatusForbidden {
				t.Errorf("method = %s with %v: %d", method, header, got.StatusCode)
			}
			if got := s.send(method, details, "", header...); got.StatusCode != http.StatusOK {
				t.Errorf("%s details with %v: %d", method, header, got.StatusCode)
			}
		}
	}

	if s.snapshot() != before {
		t.Error("a browser did something")
	}
	for _, header := range [][]string{
		{}, {"User-Agent", "curl/8.5.0"}, {"Referer", host + "/"}, {"Sec-Fetch-Site", "same-origin"},
		{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors", "User-Agent", "Mozilla/5.0"},
	} {
		if got := s.send("GET", runTool, "", header...); got.StatusCode != http.StatusOK {
			t.Errorf("with %v: %d", header, got.StatusCode)
		}
	}

	if got := s.send("GET", details, "", "User-Agent", "curl/8.5.0"); got.StatusCode != http.StatusInternalServerError {
		t.Errorf("the exception, once: %d", got.StatusCode)
	}
	s.get("/runs/broken", http.StatusOK)
}

// S9: the page refuses an approval of who started the run, says so, and keeps the form. Another one's counts.
func TestThePageKeepsTheStarterFromApproving(t *testing.T) {
	t.Parallel()
	all, secret := keys(t, httpd.ScopeRead, httpd.ScopeRun, httpd.ScopeDecide)
	s := openShop(t, httpd.Config{Keys: all})
	starts := func(name string) (id, at string) {
		t.Helper()
		started, err := s.engine.Start(t.Context(), engine.Request{
			Executor: "agent", Starter: name, Input: []byte(`{"agent":"clerk","request":"refund"}`),
		})
		if err != nil {
			t.Fatal(err)
		}

		at = s.asks(started.PlanID)
		storetest.Exec(
			t, s.store, `UPDATE actlog.act_tool_info SET policy = '{"approval":{"notStarter":true},"writes":true}' WHERE root_plan_id = $1`, started.PlanID,
		)
		return started.PlanID, at
	}

	decides := func(at, form string) *http.Response {
		return s.send("POST", at, form, "Authorization", "Bearer "+secret)
	}

	id, at := starts("reader")
	got := decides(at, "decision=approve&text=mine")
	p := parse(t, got)

	if said := text(p.one("role", "alert")); got.StatusCode != http.StatusForbidden ||
		!strings.Contains(said, "who started the run may not approve this") {
		t.Errorf("%d: %s", got.StatusCode, said)
	}
	if kept := p.chosen().Get("text"); strings.TrimSpace(kept) != "mine" {
		t.Errorf("kept is %q", kept)
	}

	if got := decides(at, "decision=reject&text=mine"); got.StatusCode != http.StatusSeeOther {
		t.Errorf("got.StatusCode = %d", got.StatusCode)
	}
	s.ends(id, record.Completed)

	id, at = starts("ann")
	if got := decides(at, "decision=approve"); got.StatusCode != http.StatusSeeOther {
		t.Errorf("got.StatusCode = %d", got.StatusCode)
	}
	s.ends(id, record.Completed)
}

// S4: a run that the page starts is its reader's.
func TestThePageStartsForItsReader(t *testing.T) {
	t.Parallel()
	all, secret := keys(t, httpd.ScopeRead, httpd.ScopeRun)
	s := openShop(t, httpd.Config{Keys: all})
	got := s.send("POST", "/start?executor=agent&name=clerk", url.Values{"key": {"k"}, "input.request": {"Go."}}.Encode(),
		"Authorization", "Bearer "+secret)
	if got.StatusCode != http.StatusSeeOther {
		t.Fatalf("%d: %s", got.StatusCode, text(parse(t, got).root))
	}

	if starter := storetest.Query[string](t, s.store, "SELECT starter FROM actlog.run"); starter != "reader" {
		t.Errorf("it is %s's", starter)
	}
	s.ends(storetest.Query[string](t, s.store, "SELECT plan_id FROM actlog.run"), record.Completed)
}
