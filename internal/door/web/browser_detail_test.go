//go:build page

package web_test

import (
	"fmt"
	"strings"
	"testing"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestDetailInBrowser: the views, texts and messages of a row are changed in place, and the next row is shown in the
// same view. Texts and the address of a row are copied. On a narrow screen, the detail takes the place of the tree,
// also without scripts.
func TestDetailInBrowser(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	long := strings.Repeat("0123456789abcde\n", 10_000)

	storetest.Write(t, s.store,
		&record.Plan{
			RootPlanID: "run", CurrentPlanID: "run", Title: new("Read"), State: new(record.Running), UserRequest: &long,
		},
		&record.AgentExecution{
			RootPlanID: "run", PlanID: "run", StepID: "s", AgentName: new("reader"), AgentRequest: new("{\"a\":1}"),
			Result: new("**bold**"), State: new(record.Running),
		},
		&record.ThinkAct{
			RootPlanID: "run", StepID: "s", Seq: 0, ThinkInput: new(`[{"role":"user","content":"Go on."}]`),
			ThinkOutput: new("I do."),
		},
		&record.ThinkAct{
			RootPlanID: "run", StepID: "s", Seq: 1,
			ThinkInput: new(
				`[{"role":"user","content":"Go on."},{"role":"assistant","content":"I do."},{"role":"user","content":"And then?"}]`,
			), ThinkOutput: new("Nothing."),
		})

	b := browse(t, s, 1440, 900)
	// else nothing may be copied
	call(b, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	for _, name := range []string{"clipboard-read", "clipboard-write"} {
		call(b, cdpbrowser.SetPermission, cdpbrowser.SetPermissionParams{
			Permission: &cdpbrowser.PermissionDescriptor{Name: name}, Setting: cdpbrowser.PermissionSettingGranted,
		})
	}

	const detail = `document.querySelector(".detail").textContent`
	has := func(part string) { t.Helper(); b.until(part+" is there", fmt.Sprintf("%s.includes(%q)", detail, part)) }
	click := func(name string) {
		t.Helper()
		b.until(
			name+" is clicked", fmt.Sprintf(
				`(() => { const on = [...document.querySelectorAll(".detail a, .detail button")].find((e) => e.textContent.trim() === %q); on?.click(); return on !== undefined })()`, name,
			),
		)
	}

	copied := func(want string) {
		t.Helper()
		storetest.Until(t, "it is copied", func() bool { return value[string](b, "navigator.clipboard.readText()") == want })
	}

	b.open("/runs/run?at=plan:run")
	b.until("it is live", `document.querySelector(".live").innerText.includes("live")`)
	entries := value[int](b, "history.length")

	click("Show all")
	has("Copy")
	b.until("all of it is there",
		fmt.Sprintf(
			`document.querySelector(".detail pre").textContent.length === %d && location.search.includes("whole=userRequest")`,
			len(long),
		))

	b.press("j")
	has("**bold**")
	click("Copy")
	copied(`{"a":1}`) // As it is on record
	click("Raw")
	has("agentRequest")
	click("Copy")
	copied(`{"a":1}`)

	b.press("j")
	has("thinkInput")
	click("Readable")
	b.until("it is for reading", `document.querySelector(".look [aria-current]").textContent === "Readable"`)
	b.press("j")
	has("2 messages")
	if value[bool](b, detail+`.includes("I do.")`) {
		t.Error("what is known is not folded")
	}

	click("▸ 2 messages")
	has("I do.")
	click("Link")
	copied(b.base + "/runs/run?at=cycle%3As%2F1")
	b.press("k")
	b.press("k")
	has("**bold**")

	click("Markdown")
	b.until("it is Markdown", `document.querySelector(".marked strong")?.innerText === "bold"`)

	// What changes on record changes in place; what is looked at, and how, stays.
	value[any](b, `document.querySelector(".detail .look a").focus()`)
	storetest.Write(t, s.store, &record.AgentExecution{
		RootPlanID: "run", PlanID: "run", StepID: "s", AgentRequest: new("another"), Result: new("**bolder**"),
	})
	has("another")
	b.until("it is Markdown still",
		`document.querySelector(".marked strong")?.innerText === "bolder" && document.activeElement.innerText === "Readable"`)

	if n := value[int](b, "history.length"); n != entries {
		t.Errorf("%d entries in the history, then %d", entries, n)
	}

	const shown = `[".run-head", ".tools", ".tree", ".detail"].filter((e) => document.querySelector(e).getBoundingClientRect().height > 1).join(" ")`
	sees := func(want string) { t.Helper(); b.until("one sees "+want, fmt.Sprintf("%s === %q", shown, want)) }
	narrow := emulation.SetDeviceMetricsOverrideParams{Width: 390, Height: 800, DeviceScaleFactor: 1}
	call(b, emulation.SetDeviceMetricsOverride, narrow)
	b.open("/runs/run")
	sees(".run-head .tools .tree")

	b.do(chromedp.Click(`[id="cycle:s/0"]`))
	sees(".detail")
	has("cycle 1")
	click("‹ Read")
	sees(".run-head .tools .tree")
	b.until("the row has the focus", `document.activeElement.id === "cycle:s/0" && location.search === ""`)

	b.press(kb.ArrowUp)
	sees(".detail")
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.open("/runs/run")
	sees(".run-head .tools .tree")
	b.do(chromedp.Click(`[id="cycle:s/1"]`))
	sees(".detail")

	b.do(chromedp.Click(`.detail nav a:nth-child(2)`))
	has("thinkInput")
	if value[bool](b, `document.querySelector("button.copy").checkVisibility()`) {
		t.Error("without scripts there is a button to copy")
	}
	b.do(chromedp.Click(`.detail .back a`))
	sees(".run-head .tools .tree")
}
