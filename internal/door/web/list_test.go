package web_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// parse returns the page of an answer.
func parse(t *testing.T, answer *http.Response) *page {
	t.Helper()
	root, err := html.Parse(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return &page{t, root}
}

// listed returns the rows of a list or of a piece of it, each as the texts of its cells.
func (p *page) listed() (rows []string) {
	for n := range p.root.Descendants() {
		if n.Data != "tr" || len(attr(n, "data-place")) == 0 {
			continue
		}

		var cells []string
		for c := range n.ChildNodes() {
			if c.Type == html.ElementNode && attr(c, "class") != "pick" && attr(c, "class") != "when" {
				cells = append(cells, text(c))
			}
		}
		rows = append(rows, strings.Join(cells, "|"))
	}
	return rows
}

// TestListSaysWhy: a run has its cause beside it, and one that waits what it asks; each leads to its row.
func TestListSaysWhy(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	s.writeFailure("run")
	failed := record.Failed
	at := storetest.At

	storetest.Write(t, s.store,
		&record.Plan{
			RootPlanID: "well", CurrentPlanID: "well", Title: new("Went well"), State: new(record.Completed), StartTime: at(0),
			EndTime: at(2),
		},
		&record.AgentExecution{RootPlanID: "well", PlanID: "well", StepID: "s", State: new(record.Completed)},
		&record.ThinkAct{
			RootPlanID: "well", StepID: "s", Seq: 2, State: &failed, ErrorKind: new("rate_limit"),
			InputTokens: new(int64(41_900)), CostUSD: new(0.25),
		})

	storetest.Write(t, s.store,
		&record.Plan{RootPlanID: "asks", CurrentPlanID: "asks", State: new(record.Waiting)},
		&record.Wait{
			RootPlanID: "asks", PlanID: "asks", WaitID: "w/1", Title: new("refund?"),
			StartTime: new(time.Now().Add(-200 * time.Second)),
		})
	storetest.Write(t, s.store, &record.Plan{
		RootPlanID: "alone", CurrentPlanID: "alone", State: &failed, ErrorKind: new("timeout"), ErrorMessage: new("too slow"),
	})

	p := s.get("/", http.StatusOK)
	rows := p.listed()
	want := []string{
		"✗ failed|alone|timeout: too slow|0|||",
		"◐ waiting|asks|asks: refund? 3m|0|||",
		"✓ completed|Went well|recovered: cycle 3 rate_limit|1|2s|42k|$0.2500",
	}
	if !slices.Equal(rows[:3], want) || !strings.HasPrefix(rows[3], "✗ failed|") ||
		!strings.Contains(rows[3], "|run_sql timeout: no answer within 10 s|") {
		t.Errorf("rows = %q, want %q", rows, want)
	}

	var links []string
	for _, c := range p.all("class", "cause") {
		links = append(links, attr(c.FirstChild, "href"))
	}

	if got := links[1]; got != "/runs/asks?at=wait%3Aw%252F1" {
		t.Errorf("the question is at %q", got)
	}
	for _, link := range links {
		if row := s.get(link, http.StatusOK).one("aria-selected", "true"); row == nil ||
			!strings.Contains(link, url.QueryEscape(attr(row, "id"))) {
			t.Errorf("%q opens %v", link, row)
		}
	}
}

// TestListPieces: the script of the list asks for rows as they are now, and for those that are newer. Two runs that are
// picked are compared, the older one first.
func TestListPieces(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	for _, id := range []string{"a b", "c/ü", "e"} {
		storetest.Write(t, s.store, &record.Plan{
			RootPlanID: id, CurrentPlanID: id, State: new(record.Running), Project: new("p"),
		})
	}

	p := s.get("/?project=p", http.StatusOK)
	holder := p.one("class", "list")
	if events := attr(holder, "data-events"); !strings.HasPrefix(events, "/api/v1/events?after=") {
		t.Errorf("it is followed at %q", events)
	}

	var places []string
	for n := range p.root.Descendants() {
		if place := attr(n, "data-place"); place != "" {
			places = append(places, place)
		}
	}

	newer := attr(holder, "data-newer")

	for place, want := range map[string][]string{
		places[0]: nil, places[2]: {"▶ running|e|||||", "▶ running|c/ü|||||"}, "": {
			"▶ running|e|||||", "▶ running|c/ü|||||", "▶ running|a b|||||",
		},
	} {
		rows := s.get(newer+"&after="+place, http.StatusOK).listed()
		for i := range rows {
			rows[i] = strings.ReplaceAll(rows[i], "|0", "|")
		}
		if !slices.Equal(rows, want) {
			t.Errorf("after %q come %q, want %q", place, rows, want)
		}
	}

	if rows := s.get("/list/newer?project=q", http.StatusOK).listed(); len(rows) > 0 {
		t.Errorf("of another project there is %q", rows)
	}
	if newer := attr(s.get("/?cursor="+places[0], http.StatusOK).one("class", "list"), "data-newer"); newer != "" {
		t.Errorf("on an older page newer ones come from %q", newer)
	}

	runs := url.Values{"runs": {url.PathEscape("c/ü") + " " + url.PathEscape("a b") + " nobody"}}
	if rows := s.get("/list/patch?"+runs.Encode(), http.StatusOK).listed(); len(rows) != 2 ||
		!strings.Contains(rows[0], "c/ü") || !strings.Contains(rows[1], "a b") {
		t.Errorf("rows = %q", rows)
	}

	for _, path := range []string{
		"/list/patch", "/list/patch?runs=", "/list/patch?runs=%25zz", "/list/patch?runs=%2500",
		"/list/patch?runs=" + strings.Repeat("a+", 201), "/list/newer?after=x", "/list/newer?cursor=", "/list/pair",
		"/list/pair?run=a", "/list/pair?run=a&run=b&run=c",
	} {
		s.get(path, http.StatusBadRequest)
	}
	if got := s.send("GET", "/list/pair?run=e&run=a+b", "").Header.Get("Location"); got != "/compare?a=a+b&b=e" {
		t.Errorf("they are compared at %q", got)
	}
}

// TestListNotFollowed: a list that nobody can follow now is shown all the same.
func TestListNotFollowed(t *testing.T) {
	t.Parallel()
	s := openWith(t, apitest.Config{MaxStreams: -1})
	s.writeFailure("run")
	p := s.get("/", http.StatusOK)
	if events := attr(p.one("class", "list"), "data-events"); events != "" || len(p.listed()) != 1 {
		t.Errorf("%d runs are followed at %q", len(p.listed()), events)
	}
}

// TestListFilters: the address has no filters that were left empty. The rarer ones are open if one of them is given.
func TestListFilters(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	for from, to := range map[string]string{"/?q=&state=FAILED&tool=": "/?state=FAILED", "/?q=": "/"} {
		if got := s.send("GET", from, ""); got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != to {
			t.Errorf("%s: %d to %q, want %q", from, got.StatusCode, got.Header.Get("Location"), to)
		}
	}

	open := func(path string) bool {
		for n := range s.get(path, http.StatusOK).root.Descendants() {
			if n.Data == "details" {
				return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "open" })
			}
		}
		t.Errorf("%s has no rarer filters", path)
		return false
	}
	if open("/?state=FAILED&since=24h") || !open("/?minDuration=5m") {
		t.Error("the rarer filters are open, or hidden while they hold")
	}

	p := s.get("/?failed=true&maxCost=0.5&tool=%22x", http.StatusOK)
	if got := attr(p.one("name", "tool"), "value"); got != `"x` {
		t.Errorf("the filter shows %q", got)
	}
	if empty := p.one("class", "empty"); text(empty) != "No run matches. Clear the filters" {
		t.Errorf("without a match it says %q", text(empty))
	}
}

// TestNothingYet: before the first run, the page says how to send one to the address under which it was asked for.
func TestNothingYet(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	says := func(s *site, header ...string) string {
		t.Helper()
		return text(parse(t, s.send("GET", "/", "", header...)).one("class", "empty"))
	}

	if got := says(s); !strings.Contains(got, "curl http://example.com/api/v1/records ") ||
		!strings.Contains(got, "OTEL_EXPORTER_OTLP_ENDPOINT=http://example.com ") || strings.Contains(got, "KEY") {
		t.Errorf("says(s) = %v", got)
	}

	all, secret := keys(t, httpd.ScopeRead)
	s = open(t, httpd.Config{Keys: all})
	in := s.send("POST", "/login", url.Values{"key": {secret}}.Encode(), "X-Forwarded-Proto", "https")

	if got := says(
		s, "X-Forwarded-Proto", "https", "Cookie", in.Cookies()[0].String(),
	); !strings.Contains(got, "curl https://example.com/api/v1/records ") ||
		!strings.Contains(got, "Authorization: Bearer KEY") || !strings.Contains(got, "Authorization=Bearer%20KEY") ||
		!strings.Contains(got, "actlog key NAME") {
		t.Errorf("says = %v", got)
	}
}

// TestScheme: a page begins in the colours that were chosen.
func TestScheme(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	for cookie, want := range map[string]string{
		"": "", "actlog-scheme=dark": "dark", "actlog-scheme=light": "light", `actlog-scheme="><script>`: "",
	} {
		for n := range parse(t, s.send("GET", "/", "", "Cookie", cookie)).root.Descendants() {
			if n.Data == "html" && n.Type == html.ElementNode && attr(n, "data-scheme") != want {
				t.Errorf("%q: %q", cookie, attr(n, "data-scheme"))
			}
		}
	}
}
