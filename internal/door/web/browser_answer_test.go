//go:build page

package web_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/actlog/actlog/internal/door/httpd"
)

// TestAnswerHistoryInBrowser: W7: an answer adds one entry to the history, however often something was wrong with it
// and wherever the reader came from: back leads to the run as it was before.
func TestAnswerHistoryInBrowser(t *testing.T) {
	t.Parallel()
	s := openShop(t, httpd.Config{})
	b := browse(t, s.site, 1440, 900)

	for name, tt := range map[string]struct {
		request string
		from    func(question string)
		act     []string
	}{
		"from the waits": {"refund", func(string) {
			b.open("/waits")
			b.until("the waits", `document.readyState === "complete" && document.querySelector(".question a") !== null`)
			b.do(chromedp.Click(".question a"))
		}, []string{"[value=approve]"}},
		"by its address": {"refund", func(q string) { b.open(q) }, []string{"[value=approve]"}},
		"looked at":      {"refund", func(q string) { b.open(q + "&view=readable") }, []string{"[value=reject]"}},
		"from the tree": {"refund", func(q string) {
			b.open(q[:len("/runs/")+41])
			b.until(
				"the tree", `document.querySelector("a.row.wait") !== null && document.querySelector(".top [data-key='?']") !== null`,
			)
			b.do(chromedp.Click("a.row.wait"))
			b.until("it is open", `document.querySelector(".answer") !== null && location.search.includes("wait")`)
		}, []string{"[value=approve]"}},
		"at the third try": {"form", func(q string) { b.open(q) }, []string{"[value=submit]", "[value=submit]", "all"}},
	} {
		id := s.start(tt.request)
		tt.from(s.asks(id))
		b.until(name+": the form", `document.readyState === "complete" && document.querySelector(".answer") !== null`)

		before := value[int](b, "history.length")
		at := value[string](b, "location.href")
		for _, act := range tt.act {
			if act == "all" {
				b.do(chromedp.SendKeys("#value-0", "Ann"), chromedp.SetValue("#value-1", "9"),
					chromedp.SendKeys("#value-3", "1234"), chromedp.SetValue("#value-5", "APAC"))
				for _, c := range []string{"[name=value-6][value=lamp]", "[name=value-7][value=cash]", "#value-8"} {
					b.do(chromedp.Click(c))
				}
				act = "[value=submit]"
			}

			value[any](b, `for (const e of document.querySelectorAll("[aria-invalid]")) e.removeAttribute("aria-invalid")`)
			b.do(chromedp.Click("[name=decision]" + act))
			b.until(
				name+": told", `document.readyState === "complete" && (document.querySelector(".answer") === null ? document.querySelector(".detail") !== null : document.querySelector("[aria-invalid]") !== null)`,
			)
		}

		if after := value[int](b, "history.length"); after != before+1 {
			t.Errorf("%s: %d entries, then %d", name, before, after)
		}
		value[any](b, "history.back()")
		b.until(name+": back", `document.readyState === "complete" && location.href === "`+at+
			`" && document.querySelector(".detail h2") !== null && document.querySelector(".answer") === null`)
	}
}

// TestFoldsInBrowser: W12: rows that were folded or unfolded one by one are so after a reload, not those of another
// run. W15: the row of a link has the focus.
func TestFoldsInBrowser(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	s.writeFailure("run")
	s.writeFailure("other")
	s.writeLong("long")
	b := browse(t, s, 1200, 700)

	ready := func() {
		t.Helper()
		b.until("it is ready", `document.readyState === "complete" && document.querySelector(".top [data-key='?']") !== null`)
	}
	state := func(id string) string {
		return value[string](b, `document.getElementById("`+id+`").getAttribute("aria-expanded") ?? ""`)
	}

	b.open("/runs/run?at=step:run-triage")
	ready()
	if got := value[string](b, "document.activeElement.id"); got != "step:run-triage" {
		t.Errorf("the focus is on %q", got)
	}
	b.do(chromedp.Click(`[id="call:run-r/0/c%2F1"] .fold`))
	b.until("it is folded", `document.getElementById("step:run-counter").hidden`)

	value[any](b, "window.same = true; location.reload()")
	b.until("it is loaded again", `window.same === undefined`)
	ready()
	b.until("it is folded again", `document.getElementById("step:run-counter").hidden`)
	if got := state("call:run-r/0/c%2F1") + " " +
		value[string](b, "document.activeElement.id"); got != "false step:run-triage" {
		t.Errorf("after a reload: %s", got)
	}

	b.open("/runs/other?at=step:other-triage")
	ready()
	if got := state("call:other-r/0/c%2F1"); got != "true" {
		t.Errorf("another run is folded: %q", got)
	}

	b.open("/runs/run?at=step:run-counter") // a link to a row is stronger than a fold above it
	ready()
	if value[bool](b, `document.getElementById("step:run-counter").hidden`) {
		t.Error("the row of the link is folded away")
	}

	// Rows that come later are folded when they come, and those under a folded one come when it is unfolded.
	b.open("/runs/long?at=step:long-s3&fold=all")
	ready()
	b.do(chromedp.Click(`[id="step:long-s3"] .fold`))
	b.until("it is open", `document.getElementById("cycle:long-s3/0") !== null`)
	value[any](b, "window.same = true; location.reload()")
	b.until("it is loaded again", `window.same === undefined`)
	ready()
	b.until("it is open again", `document.getElementById("cycle:long-s3/0")?.hidden === false`)
}
