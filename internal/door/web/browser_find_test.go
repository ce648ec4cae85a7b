//go:build page

package web_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestFindInBrowser: lists stand in place of the tree, are used by keys, and Esc goes back to the tree with its focus,
// scroll, folds and detail. Meanwhile the tree of a run that goes on stays current.
func TestFindInBrowser(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	running, failed := new(record.Running), new(record.Failed)
	changes := []record.Change{
		&record.Plan{RootPlanID: "run", CurrentPlanID: "run", Title: new("Grow"), State: running, StartTime: storetest.At(0)},
		&record.AgentExecution{
			RootPlanID: "run", PlanID: "run", StepID: "a", StepIndex: new(int64(0)), AgentName: new("first"), State: running,
			StartTime: storetest.At(0),
		},
	}

	call := func(i int, state *record.State) *record.ActTool {
		return &record.ActTool{
			RootPlanID: "run", StepID: "a", Seq: int64(i / 10), ToolCallID: fmt.Sprint("c", i), CallIndex: new(int64(i)),
			Name: new(fmt.Sprint("tool", i)), State: state, Result: new(fmt.Sprint("result ", i)),
		}
	}

	for i := range 60 {
		changes = append(changes, call(i, new(record.Completed)))
	}
	changes = append(changes, &record.ActTool{
		RootPlanID: "run", StepID: "a", Seq: 2, ToolCallID: "c25", State: failed, ErrorMessage: new("it broke"),
	})
	storetest.Write(t, s.store, changes...)

	b := browse(t, s, 1200, 500)
	b.open("/runs/run?at=call:a/3/c30")
	b.until("it is live", `document.querySelector(".controls").innerText.includes("live")`)
	b.do(chromedp.Click(`[id="cycle:a/1"] .fold`)) // folds it
	b.until("it is folded", `document.getElementById("call:a/1/c15").hidden`)
	b.do(chromedp.Click(`[id="call:a/3/c33"]`))

	const detail = `document.querySelector("[aria-label=Detail]").innerText`
	b.until("the detail is there", detail+`.includes("result 33")`)
	place := func() float64 {
		return value[float64](b, `document.getElementById("call:a/3/c33").getBoundingClientRect().top`)
	}
	before := place()

	b.press("/")
	b.until("the field has the focus", `document.activeElement.name === "q"`)
	value[any](b, `document.activeElement.value = ""`) // keys that are sent like this are typed, too
	b.press("RESULT 5" + kb.Enter)
	b.until(
		"texts are found", `document.querySelectorAll(".hit mark").length === 11 && document.querySelector("[role=tree]").hidden`,
	)

	b.press(kb.ArrowDown)
	b.until("the first is open", detail+`.includes("result 5") && document.activeElement.dataset.at === "call:a/0/c5"`)
	b.press("jj" + kb.End + "k")
	b.until("another is open", detail+
		`.includes("result 58") && location.search.includes("c58") && location.search.includes("q=")`)

	// the tree stays current behind the list, and so does the detail of the list
	storetest.Write(t, s.store, call(60, running), call(33, failed))
	b.until("there are new rows",
		`document.getElementById("call:a/6/c60") !== null && document.getElementById("call:a/3/c33").innerText.includes("failed")`)
	if got := value[string](b, `document.querySelector(".failures").innerText`); got != "2" {
		t.Errorf("the failures are %q", got)
	}
	if got := value[bool](b, detail+`.includes("result 58")`); !got {
		t.Error("the detail of the list is not there any more")
	}

	b.press(kb.Escape)
	b.until(
		"the tree is back", `document.querySelector(".found") === null && !document.querySelector("[role=tree]").hidden`,
	)
	b.until("its detail is back, as it is now", detail+`.includes("result 33") && `+detail+`.includes("failed")`)

	if got := value[string](b, "document.activeElement.id"); got != "call:a/3/c33" {
		t.Errorf("the focus is on %q", got)
	}
	if after := place(); math.Abs(after-before) > 1 {
		t.Errorf("the row moved from %v to %v", before, after)
	}
	if !value[bool](
		b, `document.getElementById("call:a/1/c15").hidden && location.search.includes("c33") && !location.search.includes("q=")`,
	) {
		t.Error("the tree is not as it was: " + value[string](b, "location.search"))
	}

	b.do(chromedp.Click(`[data-show=failures]`))
	b.until("failures are listed", `document.querySelector(".found").innerText.includes("it broke")`)
	b.do(chromedp.Click(`.found li:last-child .totree`))
	b.until("the row is shown in the tree",
		`document.querySelector(".found") === null && document.querySelector("[aria-selected=true]").id.startsWith("call:a/")`)

	b.do(chromedp.Click(`[data-show=slow]`))
	b.until("slow rows are listed", `document.querySelector(".found")?.innerText.includes("own time")`)
	b.press("e") // leads back to the tree
	b.until("a failure is open in the tree",
		`document.querySelector(".found") === null && document.querySelector("[aria-selected=true] .state").innerText.includes("failed")`)

	storetest.Write(t, s.store, &record.Plan{RootPlanID: "run", CurrentPlanID: "run", State: failed})
	b.open("/runs/run?q=result%205&at=call:a/0/c5") // a page that came with its list
	b.until("its script is there", `document.querySelector("[data-key='?']") !== null`)
	b.press(kb.Escape)
	b.until(
		"the tree is there", `document.querySelector(".found") === null && document.activeElement.id === "call:a/0/c5" && !location.search.includes("q=")`,
	)

	b.do(chromedp.Click(`[data-copy]`))
	b.until("the cause is copied", `document.querySelector(".said")?.innerText.includes("cop")`)
}
