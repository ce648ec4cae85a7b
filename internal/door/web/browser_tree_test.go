//go:build page

package web_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// writeLong writes a run of over ten thousand rows: steps with calls, of which three failed, and a sub-plan with many
// rows.
func (s *site) writeLong(root string) {
	s.t.Helper()
	done, failed := new(record.Completed), new(record.Failed)
	var changes []record.Change
	step := func(i int, plan string) string {
		id := fmt.Sprint(plan, "-s", i)
		changes = append(changes, &record.AgentExecution{
			RootPlanID: root, PlanID: plan, StepID: id, StepIndex: new(int64(i)), AgentName: new(fmt.Sprint("agent", i)),
			State: done,
		})
		return id
	}

	call := func(step string, i int, state *record.State) {
		changes = append(changes, &record.ActTool{
			RootPlanID: root, StepID: step, Seq: 0, ToolCallID: fmt.Sprint(i), CallIndex: new(int64(i)),
			Name: new(fmt.Sprint("tool", i)), State: state,
		})
	}

	changes = append(changes, &record.Plan{
		RootPlanID: root, CurrentPlanID: root, Title: new("Long"), State: done, StartTime: storetest.At(0),
		EndTime: storetest.At(60),
	})
	for i := range 12 {
		id := step(i, root)
		for j := range 1_000 {
			state := done
			if i == 1 && j == 500 || i == 5 && j == 999 || i == 11 && j == 700 {
				state = failed
			}
			call(id, j, state)
		}
	}

	sub := root + "-sub"
	changes = append(changes, &record.ActTool{
		RootPlanID: root, StepID: root + "-s0", Seq: 0, ToolCallID: "sub", CallIndex: new(int64(3)), Name: new("sub"),
		State: done,
	}, &record.Plan{
		RootPlanID: root, CurrentPlanID: sub, ParentPlanID: &root, ToolCallID: new("sub"), Title: new("Sub"), State: done,
	})

	id := step(0, sub)
	for i := range 400 {
		call(id, i, done)
	}
	storetest.Write(s.t, s.store, changes...)
}

// TestTreeInBrowser: a tree of twelve thousand rows is used by keys as a short one is: failures are visited wherever
// they are, and rows fold with those that are not on the page. The page is never loaded again.
func TestTreeInBrowser(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	s.writeLong("run")
	b := browse(t, s, 1200, 700)
	b.open("/runs/run")
	value[any](b, "window.same = true")

	selected := func(id, count string) {
		t.Helper()
		b.until(id+" is selected", fmt.Sprintf(`(() => {
			const row = document.activeElement, box = row.getBoundingClientRect();
			return row.id === %q && row.ariaSelected === "true" && box.top > -1 && box.bottom < innerHeight + 1 && (%q === "" || document.querySelector(".count").innerText === %[2]q) &&
				document.querySelectorAll("[aria-selected=true]").length === 1 && document.querySelectorAll(".row[tabindex='0']").length === 1 })()`, id, count))
	}
	failures := []string{"call:run-s1/0/500", "call:run-s5/0/999", "call:run-s11/0/700"}
	b.until("the first failure is open", `document.querySelector("[aria-selected=true]").id === "`+failures[0]+`"`)
	for _, i := range []int{1, 2, 0} {
		b.press("e")
		selected(failures[i], fmt.Sprint(i+1, " of 3"))
	}

	b.press("E")
	selected(failures[2], "3 of 3")
	b.do(chromedp.Click(".cause [data-key=e]"))
	selected(failures[0], "1 of 3")

	b.do(chromedp.Click(".path li:nth-child(2) a"))
	selected("step:run-s1", "3 failures")
	b.press(kb.Home)
	selected("plan:run", "3 failures")

	b.press("f") // with rows that are not on the page
	b.until("only the first row is there",
		`document.querySelector(".tree").scrollHeight === document.querySelector(".tree").clientHeight && document.getElementById("plan:run").ariaExpanded === "false"`)
	b.press(kb.End)
	selected("plan:run", "")
	b.press("e")
	selected(failures[0], "1 of 3")

	b.press(kb.End)
	selected("call:run-s11/0/999", "")
	b.press(kb.ArrowLeft + kb.ArrowLeft + kb.ArrowLeft) // to the cycle, folds it, to the step
	selected("step:run-s11", "")
	b.press(kb.ArrowLeft)
	b.until("the step is folded", `document.activeElement.ariaExpanded === "false"`)

	b.press("e")
	selected(failures[0], "1 of 3")
	b.press("E") // in what is folded
	selected(failures[2], "3 of 3")

	b.press("F")
	b.until("everything is folded but for the way to the row",
		`document.querySelectorAll(".row").length < 1100 && document.getElementById("step:run-s0").ariaExpanded === "false"`)
	selected(failures[2], "3 of 3")

	b.press("e")
	selected(failures[0], "1 of 3") // its rows came
	b.press("F")
	b.until("nothing is folded", `document.getElementById("step:run-s0").ariaExpanded === "true"`)
	selected(failures[0], "1 of 3")

	b.do(chromedp.Click("[data-fold=ok]"))
	b.until("what is well is folded",
		`document.getElementById("step:run-s0").ariaExpanded === "false" && document.getElementById("step:run-s1").ariaExpanded === "true" && location.search.includes("fold=ok")`)
	b.press(kb.Home + kb.ArrowRight)
	selected("step:run-s0", "")

	b.press(kb.ArrowRight + "*")
	b.until("its rows are there",
		`document.getElementById("call:run-s0/0/999") !== null || document.getElementById("cycle:run-s0/0") !== null`)
	if !value[bool](b, "window.same") {
		t.Error("the page was loaded again")
	}
}

// TestKeysOfRunsInBrowser: keys lead to the runs beside one in the filtered list, over its pages; they are listed, can
// be switched off, and do nothing in fields.
func TestKeysOfRunsInBrowser(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	for i := range 12 {
		state := []record.State{record.Failed, record.Completed}[i%2]
		id := fmt.Sprintf("run%02d", i)
		storetest.Write(t, s.store, &record.Plan{
			RootPlanID: id, CurrentPlanID: id, Title: new("Title " + id), State: &state, StartTime: storetest.At(i * 100),
			EndTime: storetest.At(i*100 + 1),
		})
	}

	b := browse(t, s, 1200, 700)
	at := func(id string) {
		t.Helper()
		b.until(id+" is open", `location.pathname === "/runs/`+id+
			`" && document.querySelector("[aria-selected=true][tabindex='0']") !== null`)
	}

	b.open("/?state=FAILED&limit=2")
	b.do(chromedp.Click(`[href="/runs/run08"]`))
	at("run08")
	for _, step := range []struct {
		key, id string
	}{{"]", "run06"}, {"]", "run04"}, {"[", "run06"}, {"[", "run08"}, {"[", "run10"}} {
		b.press(step.key)
		at(step.id)
	}

	b.press("[")
	b.until("there is none", `document.querySelector(".said").innerText === "There is no newer run in the list."`)
	value[any](b, "history.go(-6)")
	b.until("back is the list as it was",
		`document.querySelector(".runs") !== null && location.search === "?state=FAILED&limit=2"`)

	b.do(chromedp.Navigate("about:blank"))
	b.open("/runs/run05") // cold
	at("run05")
	b.press("[")
	at("run06")
	b.press("]]")
	b.until("one of the older is open",
		`location.pathname <= "/runs/run05" && document.querySelector("[tabindex='0'].row") !== null`)

	b.press("?")
	b.until("the keys are listed", `document.querySelector("dialog").innerText.includes("the next failure")`)
	b.press("e") // nothing happens
	b.do(chromedp.Click("dialog input"))
	b.press(kb.Escape)
	b.until("the list is closed", `document.querySelector("dialog") === null`)

	b.press("?")
	b.press("F")
	if value[bool](b, `document.querySelector("dialog") !== null`) {
		t.Error("the keys are not off")
	}

	b.do(chromedp.Click("[data-key='?']"), chromedp.Click("dialog input"), chromedp.Click("dialog button"))
	b.press("r")
	b.until("the keys are on", `document.querySelector(".said").innerText === "Nothing runs."`)
	b.press("c")
	b.until("the link is copied", `document.querySelector(".said").innerText.includes("link")`)
}
