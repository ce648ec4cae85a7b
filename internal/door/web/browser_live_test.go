//go:build page

package web_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/door/web"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

const liveText = `document.querySelector(".live").innerText`

// writeRunning writes a run that goes on, with calls of one cycle.
func (s *site) writeRunning(root string, calls int) {
	s.t.Helper()
	running := new(record.Running)
	changes := []record.Change{
		&record.Plan{
			RootPlanID: root, CurrentPlanID: root, Title: new("Title " + root), State: running, StartTime: storetest.At(0),
		},
		&record.AgentExecution{
			RootPlanID: root, PlanID: root, StepID: root, AgentName: new("agent"), State: running, StartTime: storetest.At(0),
		},
		&record.ThinkAct{RootPlanID: root, StepID: root, Seq: 0, State: running},
	}
	for i := range calls {
		changes = append(changes, numbered(root, i, record.Completed))
	}
	storetest.Write(s.t, s.store, changes...)
}

// numbered is a call of the first cycle of a running run.
func numbered(root string, i int, state record.State) *record.ActTool {
	return &record.ActTool{
		RootPlanID: root, StepID: root, Seq: 0, ToolCallID: fmt.Sprint("c", i), CallIndex: new(int64(i)),
		Name: new(fmt.Sprint("tool", i)), State: &state, Result: new(fmt.Sprint("result ", i)),
	}
}

// kill ends the server of a browser as kill -9 does, and restart starts another at its address.
func (b *browser) kill() {
	_ = b.server.Listener.Close()
	b.server.CloseClientConnections()
	b.server.Close()
}

func (b *browser) restart(h http.Handler) {
	b.t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(b.t.Context(), "tcp", strings.TrimPrefix(b.base, "http://"))
	if err != nil {
		b.t.Fatal(err)
	}

	b.server = httptest.NewUnstartedServer(h)
	_ = b.server.Listener.Close()
	b.server.Listener = listener
	b.server.Start()
	b.t.Cleanup(b.server.Close)
}

// tab opens another tab of the browser.
func (b *browser) tab() *browser {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	b.t.Cleanup(cancel)
	other := &browser{b.t, ctx, b.base, b.server}
	other.do()

	// it is seen, too
	if _, err := chromedp.Call(other.ctx, emulation.SetFocusEmulationEnabled,
		emulation.SetFocusEmulationEnabledParams{Enabled: true}); err != nil {
		b.t.Fatal(err)
	}
	return other
}

// hide says to a page that it is seen or not.
func (b *browser) hide(hidden bool) {
	b.t.Helper()
	value[any](
		b, fmt.Sprintf(
			`Object.defineProperty(document, "hidden", { value: %t, configurable: true }); document.dispatchEvent(new Event("visibilitychange")); 0`, hidden,
		),
	)
}

// TestStreamInBrowser: a stream is lost and resumed without a gap, whatever happens to the server. It rests while its
// page is hidden or paused. What ends it for good is said.
func TestStreamInBrowser(t *testing.T) {
	t.Parallel()
	all, secret := keys(t, httpd.ScopeRead)
	s := open(t, httpd.Config{Keys: all})
	s.writeRunning("run", 3)
	s.writeRunning("other", 3)
	streams := func(want int) func() bool { return func() bool { return s.hub.Stats().Streams == want } }

	b := browse(t, s, 1200, 700)
	b.open("/login?next=/runs/run")
	b.do(chromedp.SendKeys("[name=key]", secret+"\n"))
	b.until("it is live", liveText+` === "● live"`)
	value[any](b, "window.same = true")

	write := func(i int) {
		t.Helper()
		storetest.Write(t, s.store, numbered("run", i, record.Running))
	}
	has := func(i int) {
		t.Helper()
		b.until(fmt.Sprint("row ", i, " is there"), fmt.Sprintf(`document.getElementById("call:run/0/c%d") !== null`, i))
	}

	b.kill()
	b.until("it is lost", liveText+`.includes("last heard")`)
	b.until("what was there still is", `document.getElementById("call:run/0/c2") !== null`)
	write(3)

	var busy atomic.Bool
	busy.Store(true)
	s = serve(t, s.store, apitest.Config{HTTP: httpd.Config{Keys: all}}, web.Runtime{})
	b.restart(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if busy.Load() && strings.HasSuffix(r.URL.Path, "/events") {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"detail":"too many streams"}`)
			return
		}
		s.ServeHTTP(w, r)
	}))

	b.until("it says why", liveText+`.includes("503 too many streams, last heard")`)
	write(4)
	busy.Store(false)
	has(3)
	has(4)
	b.until("it is live again", liveText+` === "● live"`)

	for what, stop := range map[string]func(bool){
		"hidden": b.hide,
		"paused": func(bool) { b.do(chromedp.Click(".stream button")) },
	} {
		storetest.Until(t, "one stream is open", streams(1))
		stop(true)
		storetest.Until(t, "no stream is open while "+what, streams(0))
		i := len(what) + int(what[0])
		write(i)
		stop(false)
		has(i)
	}

	storetest.Write(t, s.store, &record.Plan{
		RootPlanID: "run", CurrentPlanID: "run", State: new(record.Completed), EndTime: storetest.At(9),
	})
	b.until("it has ended", liveText+` === "ended" && document.querySelector(".stream button") === null`)
	storetest.Until(t, "no stream is open", streams(0))
	if !value[bool](b, "window.same") {
		t.Error("the page was loaded again")
	}

	b.open("/runs/other")
	b.until("the other is live", liveText+` === "● live"`)
	if err := s.store.DeletePlan(t.Context(), "other"); err != nil {
		t.Fatal(err)
	}
	b.until("it is gone", liveText+
		` === "deleted" && document.querySelector("[role=alert]").innerText.includes("deleted") && document.querySelectorAll(".row").length === 6`)

	s.writeRunning("third", 3)
	b.open("/runs/third")
	b.until("the third is live", liveText+` === "● live"`)
	ended := func() {
		t.Helper()
		b.until("the session has ended",
			`document.querySelector(".live a")?.getAttribute("href") === "/login?next=" + encodeURIComponent(location.pathname + location.search)`)
	}

	other := b.tab()
	other.open("/")
	other.do(chromedp.Click("[action='/logout'] button"))
	ended()
	b.do(chromedp.Click(".live a"))
	b.do(chromedp.SendKeys("[name=key]", secret+"\n"))
	b.until("it is live again", `location.pathname === "/runs/third" && `+liveText+` === "● live"`)

	none, _ := keys(t, httpd.ScopeRead)
	s.door.SetKeys(none)
	s.hub.End() // as the command does
	ended()
}

// TestUpdatesInBrowser: during a thousand updates, focus, selection, folds, the marked text and what is looked at stay.
// New rows come to their places, whatever their order, and those out of view are counted. Who is at the end stays
// there.
func TestUpdatesInBrowser(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	s.writeRunning("run", 300)
	storetest.Write(t, s.store,
		&record.AgentExecution{
			RootPlanID: "run", PlanID: "run", StepID: "a", StepIndex: new(int64(0)), AgentName: new("folded"),
			State: new(record.Running),
		},
		&record.ActTool{RootPlanID: "run", StepID: "a", Seq: 0, ToolCallID: "x", State: new(record.Running)})

	b := browse(t, s, 1200, 600)
	b.open("/runs/run?at=call:run/0/c150")
	b.until("it is live", liveText+` === "● live"`)
	value[any](b, `document.querySelector('[id="cycle:a/0"] .fold').click()`)
	b.until("the cycle is folded", `document.getElementById("cycle:a/0").ariaExpanded === "false"`)
	b.do(chromedp.Click(`[id="call:run/0/c150"]`))
	b.until("the address is that of the row", `location.search.includes("c150") && location.search.includes("%3A")`)
	value[any](b, `getSelection().selectAllChildren(document.querySelector('[id="call:run/0/c148"] bdi'))`)

	const state = `JSON.stringify([Math.round(document.getElementById("call:run/0/c150").getBoundingClientRect().top), document.activeElement.id,
		document.querySelector("[aria-selected=true]").id, document.getElementById("cycle:a/0").ariaExpanded, getSelection().toString(), location.search])`
	before := value[string](b, state)
	for i := range 100 { // each with ten updates
		var changes []record.Change
		for j := range 9 {
			changes = append(changes, numbered("run", (i*37+j*31)%300, []record.State{record.Failed, record.Completed}[i%2]))
		}
		changes = append(changes, numbered("run", 300+i*7%100, record.Running), // in no order
			&record.ActTool{RootPlanID: "run", StepID: "a", Seq: 0, ToolCallID: fmt.Sprint("y", i), State: new(record.Running)})
		storetest.Write(t, s.store, changes...)
	}

	b.until("all new rows are there", `document.querySelectorAll('[id^="call:run/0"]').length === 400`)
	order := `[...document.querySelectorAll('[id^="call:run/0"]')].every((row, i) => row.id === "call:run/0/c" + i && row.ariaPosInSet === String(i + 1) && row.ariaSetSize === "400")`
	b.until("they are in their order, and numbered", order)
	b.until("what was folded is there",
		`document.querySelectorAll('[id^="call:a/0"]').length === 101 && [...document.querySelectorAll('[id^="call:a/0"]')].every((row) => row.hidden)`)

	if after := value[string](b, state); after != before {
		t.Errorf("%s became %s", before, after)
	}
	if n := value[int](b, `document.querySelectorAll(".row[tabindex='0']").length`); n != 1 {
		t.Errorf("%d rows are reached by Tab", n)
	}

	b.until("the new rows are counted", `document.querySelector(".unseen").innerText === "100 new ↓"`)
	b.do(chromedp.Click(".unseen"))
	b.until("a click goes there",
		`(() => { const r = document.getElementById("call:run/0/c300").getBoundingClientRect(); return r.top > 0 && r.bottom < innerHeight })()`)
	value[any](b, `document.querySelector(".tree").scrollTop = 1e6`)
	b.until(
		"the end is seen", `Math.floor(document.getElementById("call:run/0/c399").getBoundingClientRect().bottom) <= innerHeight`,
	)

	for i := 400; i < 420; i++ {
		storetest.Write(t, s.store, numbered("run", i, record.Running))
	}
	b.until("the end is followed",
		`Math.floor(document.getElementById("call:run/0/c419")?.getBoundingClientRect().bottom) <= innerHeight`)
}

// TestGrowingInBrowser: a long run grows while its empty sections are filled. Each row comes once, in its order, and is
// numbered.
func TestGrowingInBrowser(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	s.writeRunning("run", 3_000)
	b := browse(t, s, 1200, 700)
	b.open("/runs/run?at=call:run/0/c10")

	for i := range 5 {
		middle := numbered("run", 10_000+i, record.Running)
		middle.CallIndex = new(int64(1_000 + i*100))
		changes := []record.Change{middle}
		for j := range 50 {
			changes = append(changes, numbered("run", 3_000+(i*50+j)*7%250, record.Running)) // in no order
		}
		storetest.Write(t, s.store, changes...)
	}

	b.until("all rows are there, once and numbered", `(() => {
		const rows = [...document.querySelectorAll(".row[aria-level='4']")];
		return rows.length === 3255 && new Set(rows.map((r) => r.id)).size === 3255 && rows.every((r, i) => r.ariaPosInSet === String(i + 1) && r.ariaSetSize === "3255") })()`)

	var want []string
	for _, section := range s.get("/runs/run/tree", http.StatusOK).all("class", "section") {
		if from := attr(section, "data-from"); from != "" {
			section = s.get(from, http.StatusOK).root
		}
		want = append(want, ids(section)...)
	}
	if got := value[[]string](b, `[...document.querySelectorAll(".row")].map((r) => r.id)`); !slices.Equal(got, want) {
		t.Errorf("%d rows are in another order than the %d of the server", len(got), len(want))
	}
}

// TestSevenTabsInBrowser: five tabs of a browser keep a stream, and the others ask from time to time: each is usable. A
// stream that ends makes room for another.
func TestSevenTabsInBrowser(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	s.writeRunning("run", 3)
	b := browse(t, s, 1200, 700)
	tabs := []*browser{b}
	for range 6 {
		tabs = append(tabs, b.tab())
	}

	var live, asking []*browser
	for _, tab := range tabs {
		tab.open("/runs/run")
		tab.until("it listens", liveText+` !== ""`)
		if value[string](tab, liveText) == "● live" {
			live = append(live, tab)
		} else {
			asking = append(asking, tab)
		}
	}

	if len(live) != 5 || len(asking) != 2 || value[string](asking[0], liveText) != "every 5 s: 5 other tabs are live" {
		t.Fatalf("%d tabs are live, %d ask", len(live), len(asking))
	}

	storetest.Write(t, s.store, numbered("run", 3, record.Running))
	live[0].hide(true)
	for _, tab := range append(live[1:], asking...) {
		tab.until("the new row is there", `document.getElementById("call:run/0/c3") !== null`)
		tab.do(chromedp.Click(`[id="call:run/0/c1"]`))
		tab.until("its detail is there", `document.querySelector(".detail").innerText.includes("result 1")`)
	}
	storetest.Until(t, "one of them is live now", func() bool {
		return value[string](asking[0], liveText) == "● live" || value[string](asking[1], liveText) == "● live"
	})
}

// TestNoScriptInBrowser: without scripts, a long run has its rows, and links to the rest.
func TestNoScriptInBrowser(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	s.writeRunning("run", 2_500)
	b := browse(t, s, 1200, 700)
	if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}

	b.open("/runs/run?at=call:run/0/c1")
	if n := value[int](b, `document.querySelectorAll(".section noscript a").length`); n != 25 {
		t.Errorf("%d links to the rest", n)
	}
	follow := func(link, want string) {
		t.Helper()
		b.do(chromedp.Click(link))
		b.until(
			want+" is open", fmt.Sprintf(
				`document.querySelector("[aria-selected=true]").id === %q && document.querySelector(".detail").innerText !== ""`,
				want,
			),
		)
	}

	follow(".section noscript a", "call:run/0/c97")
	b.until("it is in view", `document.querySelector(".tree").scrollTop > 1000`)
	follow(`[id="call:run/0/c99"]`, "call:run/0/c99")
	follow("[data-fold=ok]", "call:run/0/c99")
	if !value[bool](b, `document.querySelector(".live") === null`) {
		t.Error("a script ran")
	}
}
