//go:build page

package web_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/record"
)

// TestControlInBrowser: runs of a real worker are answered and controlled by clicks and keys.
func TestControlInBrowser(t *testing.T) {
	t.Parallel()
	script, err := axe()
	if err != nil {
		t.Fatal(err)
	}

	s := openShop(t, httpd.Config{})
	drawn := s.carry("dag", map[string]string{"prompt": "Tea or coffee?"})
	asks, pays := s.start("form"), s.start("refund")
	plans := s.carry("orchestrator", map[string]string{"request": "How many TODOs are there?"})
	question, approval := s.asks(asks), s.asks(pays)
	plan := s.asks(plans)
	b := browse(t, s.site, 1440, 900)

	loaded := func(what, condition string) {
		t.Helper()
		b.until(what, `document.readyState === "complete" && `+condition)
	}
	click := func(selector string) {
		t.Helper()
		b.do(chromedp.Click(selector))
	}
	look := func(what string) {
		t.Helper()
		b.fits(what, "")
		value[any](b, script+"; true")
		b.usable(what, "dark", 390)
		b.usable(what, "light", 1440)
	}
	const state = `document.querySelector("#head .state").innerText`

	b.open("/waits")
	loaded("three questions are there", `document.querySelectorAll(".question").length === 3`)
	look("questions")

	b.open(question)
	look("form")
	b.do(chromedp.SendKeys("#value-1", "9o"), chromedp.SendKeys("#value-4", "It broke.\n<b>Twice</b>"))
	click("[name=decision][value=submit]")
	loaded("mistakes are told", `document.querySelectorAll("[aria-invalid=true]").length === 7`)

	if got := value[string](
		b, `document.activeElement.id + " " + document.getElementById("value-1").value + " " + document.getElementById("value-4").value`,
	); got != "value-0 9o It broke.\n<b>Twice</b>" {
		t.Errorf("after mistakes: %q", got)
	}
	look("mistakes")

	b.do(chromedp.SendKeys("#value-0", "Ann"), chromedp.SetValue("#value-1", "9"), chromedp.SendKeys("#value-3", "1234"),
		chromedp.SetValue("#value-5", "APAC"))
	click("[name=value-6][value=lamp]")
	click("[name=value-7][value=cash]")
	click("#value-8")
	click("[name=decision][value=submit]")

	b.until(
		"it was answered", `document.querySelector(".answer") === null && document.querySelector(".detail").innerText.includes("submitted")`,
	)
	if got, want := s.ends(asks, record.Completed),
		`{"agreed":"true","amount":"9","how":"cash","items":"lamp","mail":"","name":"Ann","news":"false","pin":"[password]","region":"APAC","story":"It broke.\n\u003cb\u003eTwice\u003c/b\u003e"}`; got != want {
		t.Errorf("the agent got %s, want %s", got, want)
	}

	b.open(plan)
	look("plan")

	b.open(approval)
	look("approval")
	b.until("it is live", `document.querySelector(".live").innerText.includes("live")`)

	click("[name=action][value=pause]")
	b.until("it is paused", state+`.includes("paused") && document.querySelector("[value=resume]") !== null`)
	b.until("it is live", `document.querySelector(".live").innerText.includes("live")`)
	click("[name=action][value=resume]")
	b.until("it goes on", state+`.includes("waiting") && document.querySelector("[value=pause]") !== null`)

	b.do(chromedp.SendKeys("#text", "Fine"))
	click("[name=decision][value=approve]")
	b.until("it was approved", state+
		`.includes("completed") && document.querySelector(".detail").innerText.includes("Fine") &&
			[...document.querySelectorAll(".control button")].map(b => b.value).join() === "again"`)
	look("again")
	if got := s.ends(pays, record.Completed); got != "sent to Ann \u202ennA" {
		t.Errorf("it answers %q", got)
	}

	b.open("/start")
	look("start")
	click(".start li a")
	loaded("its form is there", `document.querySelector(".answer") !== null`)

	click(".answer .yes")
	loaded("it says what is missing", `document.activeElement.id === "input.request"`)
	look("clerk")
	b.do(chromedp.SendKeys(`[id="input.request"]`, "Hello."))
	click(".answer .yes")
	b.until("it has ended", state+`.includes("completed") && document.querySelector("h1 bdi").innerText === "Hello."`)

	s.ends(drawn, record.Failed)
	b.open("/runs/" + drawn)
	look("graph")
	click(".dag a")
	b.until(
		"its row is open", `document.querySelector(".row.at .name bdi").innerText === "Context" && document.querySelector(".detail h2").innerText === "Context"`,
	)

	b.open("/runs/" + plans)
	click(".control summary")
	look("stop")
	click("[name=action][value=stop]")
	b.until("it was stopped", state+`.includes("cancelled")`)
	s.ends(plans, record.Cancelled)

	look("stopped")
	click("[name=action][value=retry]")
	b.until("it asks anew", state+`.includes("waiting") && document.querySelector("[value=pause]") !== null`)
}
