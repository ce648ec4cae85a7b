//go:build page

package web_test

import (
	"context"
	"fmt"
	"math"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// browser is a tab of Chromium.
type browser struct {
	t      *testing.T
	ctx    context.Context //nolint:containedctx // chromedp keeps the tab in it
	base   string
	server *httptest.Server
}

// browse opens a tab on a site. The test fails if a page logs an error, or asks another host for anything.
func browse(t *testing.T, s *site, width, height int) *browser {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.WindowSize(width, height))
	allocated, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocated)
	t.Cleanup(cancel)

	b := &browser{t, ctx, server.URL, server}
	b.do() // starts the browser
	b.ctx, cancel = context.WithTimeout(ctx, 5*time.Minute)
	t.Cleanup(cancel)

	var mu sync.Mutex
	var wrong []string
	err := chromedp.Listen(ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			wrong = append(wrong, fmt.Sprintf("exception: %+v", e.ExceptionDetails))
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.ConsoleAPICalledTypeError {
				wrong = append(wrong, fmt.Sprintf("console: %+v", e.Args))
			}
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(e.Request.URL, server.URL+"/") && !strings.HasPrefix(e.Request.URL, "about:") {
				wrong = append(wrong, "asks for "+e.Request.URL)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		for _, w := range wrong {
			t.Errorf("w = %v", w)
		}
	})
	return b
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *browser) open(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.base + path))
}

// call gives the browser a command.
func call[P, R any](b *browser, command cdp.Command[P, R], params P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, command, params); err != nil {
		b.t.Fatal(err)
	}
}

// value returns what an expression is in the page, or what the promise brings that it is.
func value[T any](b *browser, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

// until waits until an expression is true in the page.
func (b *browser) until(what, expression string) {
	b.t.Helper()
	storetest.Until(b.t, what, func() bool {
		holds, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](expression))
		if b.ctx.Err() != nil {
			b.t.Fatalf("%s: %v", what, err)
		}
		return err == nil && holds // an error: the next page is on its way
	})
}

func (b *browser) press(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// TestKeysInBrowser: the cause is open on arrival, and the tree is used by keys and clicks: the detail follows, back
// leaves the run.
func TestKeysInBrowser(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	s.writeFailure("run")
	storetest.Write(t, s.store, &record.ActTool{
		RootPlanID: "run", StepID: "run-triage", Seq: 0, ToolCallID: "early", Name: new("look"), State: new(record.Failed),
		ErrorMessage: new("first"),
	})
	b := browse(t, s, 1440, 900)
	const detail = `document.querySelector("[aria-label=Detail]").innerText`

	b.open("/")
	b.do(chromedp.Click(".runs a"))
	b.until("the run is there", `document.querySelector("[aria-label=Cause]") !== null && `+detail+
		`.includes("no answer within 10 s")`)

	b.press("e")
	b.until("the other failure is open", detail+`.includes("first")`)
	if got := value[string](b, `document.querySelector(".count").innerText`); got != "2 of 2" {
		t.Errorf("it is %q", got)
	}
	b.press("e")
	b.until("it comes round", detail+`.includes("no answer within 10 s")`)

	selected := func(name string) {
		t.Helper()
		b.until(name+" is selected", `document.querySelector("[aria-selected=true] .name").innerText.includes("`+name+
			`") && document.activeElement.ariaSelected === "true"`)
	}

	b.press(kb.ArrowLeft)
	selected("cycle 3")
	before := value[int](b, "document.querySelectorAll('.row:not([hidden])').length")
	b.press(kb.ArrowLeft) // folds it
	if after := value[int](b, "document.querySelectorAll('.row:not([hidden])').length"); after != before-1 {
		t.Errorf("%d rows, then %d", before, after)
	}

	b.press(kb.ArrowRight)
	b.press(kb.ArrowRight)
	selected("run_sql")
	b.press(kb.Home)
	selected("Find stale pages")

	b.press("jj")
	selected("cycle 1")
	b.press("k")
	selected("triage")
	b.press(kb.End)
	selected("run_sql")

	if n := value[int](b, "history.length"); n > 3 {
		t.Errorf("%d entries in the history", n)
	}
	value[any](b, "history.back()")
	b.until("back is the list", `document.querySelector(".runs") !== null`)
}

// TestLiveInBrowser: what changes appears in its place. Focus, folds, the open detail and what is looked at stay. When
// the run ends, the page says so and stops listening.
func TestLiveInBrowser(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	running, done := new(record.Running), new(record.Completed)

	call := func(step string, seq, i int, state *record.State) *record.ActTool {
		return &record.ActTool{
			RootPlanID: "run", StepID: step, Seq: int64(seq), ToolCallID: fmt.Sprint("c", i), CallIndex: new(int64(i)),
			Name: new(fmt.Sprint("tool", i)), State: state, Result: new(fmt.Sprint("result ", i)),
		}
	}
	changes := []record.Change{
		&record.Plan{RootPlanID: "run", CurrentPlanID: "run", Title: new("Grow"), State: running, StartTime: storetest.At(0)},
		&record.AgentExecution{
			RootPlanID: "run", PlanID: "run", StepID: "a", StepIndex: new(int64(0)), AgentName: new("first"), State: running,
		},
	}

	for i := range 60 {
		changes = append(changes, call("a", 0, i, done))
	}
	storetest.Write(t, s.store, append(changes, &record.ThinkAct{RootPlanID: "run", StepID: "a", Seq: 1, State: done})...)

	b := browse(t, s, 1200, 500)
	b.open("/runs/run?at=call:a/0/c30")
	b.until("it is live", `document.querySelector(".live").innerText.includes("live")`)
	b.do(chromedp.Click(`[id="call:a/0/c30"]`))
	b.until("the detail is there", `document.querySelector(".detail").innerText.includes("result 30")`)

	place := func() float64 {
		return value[float64](b, `document.getElementById("call:a/0/c30").getBoundingClientRect().top`)
	}
	const ran = `document.querySelector("#head [data-ran]").innerText`
	since := value[string](b, ran)
	b.until("the time of the run counts on", ran+` !== "`+since+`" && /^[0-9]+h[0-9]+m[0-9]+s$/.test(`+ran+`)`)
	before := place()

	for i := range 20 { // one after the other, above and below what is looked at
		storetest.Write(t, s.store, call("a", 1, 100+i, running), call("a", 0, i, new(record.Failed)),
			&record.Wait{
				RootPlanID: "run", PlanID: "run", WaitID: fmt.Sprint("w", i), StepID: new("a"), ToolCallID: new("c5"),
				Title: new("Really?"),
			})
	}
	b.until("the new rows are there",
		`document.getElementById("call:a/1/c119") !== null && document.getElementById("wait:w19") !== null`)
	b.until("rows are renewed", `document.getElementById("call:a/0/c19").innerText.includes("failed")`)

	if after := place(); math.Abs(after-before) > 1 {
		t.Errorf("the row moved from %v to %v", before, after)
	}
	if got := value[string](b, "document.activeElement.id"); got != "call:a/0/c30" {
		t.Errorf("the focus is on %q", got)
	}

	order := value[string](
		b, `[...document.querySelectorAll(".row")].map((r) => r.id).filter((id) => id.startsWith("call:a/1") || id.startsWith("cycle")).join(" ")`,
	)
	if want := "cycle:a/0 cycle:a/1 call:a/1/c100 call:a/1/c101"; !strings.HasPrefix(order, want) {
		t.Errorf("the order is %s", order)
	}

	b.press(kb.ArrowLeft) // to the cycle
	b.press(kb.ArrowLeft) // folds it

	storetest.Write(t, s.store, call("a", 0, 59, new(record.Failed)), call("a", 0, 60, running),
		&record.AgentExecution{
			RootPlanID: "run", PlanID: "run", StepID: "b", StepIndex: new(int64(1)), AgentName: new("second"), State: running,
		})
	b.until("a step is there", `document.getElementById("step:b") !== null`)
	if value[bool](
		b, `document.getElementById("cycle:a/0").getAttribute("aria-expanded") !== "false" || !document.getElementById("call:a/0/c59").hidden || (document.getElementById("call:a/0/c60")?.hidden === false)`,
	) {
		t.Error("what was folded is open")
	}

	storetest.Write(t, s.store, &record.Plan{
		RootPlanID: "run", CurrentPlanID: "run", State: new(record.Failed), ErrorMessage: new("it broke"),
		EndTime: storetest.At(9),
	})
	b.until("it has ended", `document.querySelector(".live").innerText === "ended"`)
	b.until("the cause is there",
		`document.querySelector("[aria-label=Cause]") !== null && document.querySelector("#head .state").innerText.includes("failed")`)
}
