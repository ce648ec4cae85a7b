//go:build page

package web_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestListInBrowser: the empty page turns into the list with the first run. A run changes in its place. Newer ones are
// counted, and shown on a click. Two are picked and compared. Times and colours are as was chosen, also on the next
// page.
func TestListInBrowser(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	b := browse(t, s, 1440, 900)
	call(b, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kolkata"})
	const titles = `[...document.querySelectorAll(".runs .run")].map((e) => e.innerText).join()`

	write := func(id string, state record.State) {
		storetest.Write(t, s.store, &record.Plan{
			RootPlanID: id, CurrentPlanID: id, Title: new("Run " + id), State: &state, StartTime: storetest.At(0),
		})
	}

	b.open("/")
	b.until("the page is live", `document.querySelector(".live")?.innerText === "● live"`)
	value[any](b, `window.here = true; true`)
	write("a b", record.Running)
	b.until("the first run is there", titles+` === "Run a b" && window.here`)

	write("c", record.Running)
	b.until("it is counted", `document.querySelector(".newer")?.innerText === "↑ 1 newer"`)
	write("d", record.Running)
	b.until("both are counted", `document.querySelector(".newer")?.innerText === "↑ 2 newer"`)
	if got := value[string](b, titles); got != "Run a b" {
		t.Errorf("without a click, there is %q", got)
	}
	b.do(chromedp.Click(".newer a"))
	b.until("they are shown", titles+` === "Run d,Run c,Run a b" && !document.querySelector(".newer")`)

	pick := func(id string) {
		b.do(chromedp.Click(fmt.Sprintf(`input[value="%s"]`, id)))
	}
	const compare = `document.querySelector(".pair").disabled`
	pick("a b")
	if !value[bool](b, compare) {
		t.Error("one run can be compared")
	}

	pick("c")
	pick("d")
	value[any](
		b, `document.querySelector("[value='a b']").closest("tr").querySelector(".run a").focus(); scrollTo(0, 0); true`,
	)

	s.fail("a b")
	b.until("the run changes", `document.querySelector("tbody tr:last-child").innerText.includes("failed")`)
	if got := value[string](
		b, `document.querySelector("tbody tr:last-child .cause").innerText`,
	); !strings.Contains(got, "run_sql timeout") {
		t.Errorf("its cause is %q", got)
	}

	if got := value[string](b, titles+
		`+" "+[...document.querySelectorAll("input:checked")].map((e) => e.value)+" "+document.activeElement.innerText+" "+`+
		compare); got != "Run d,Run c,Run a b d,c Run a b false" {
		t.Errorf("the list is %q", got)
	}
	if err := s.store.DeletePlan(t.Context(), "a b"); err != nil {
		t.Fatal(err)
	}
	b.until("it is struck out", `document.querySelector("tbody tr:last-child").className === "gone"`)

	const when = `document.querySelector(".when time").innerText + document.querySelector("th .zone").innerText`
	if got := value[string](b, when); got != "2026-11-20 12:00:00UTC" {
		t.Errorf("it began at %q", got)
	}
	b.do(chromedp.Click(".times"))
	const local = "2026-11-20 17:30:00local"
	if got := value[string](b, when); got != local {
		t.Errorf("in India it began at %q", got)
	}

	const back = `getComputedStyle(document.body).backgroundColor`
	value[any](b, `[...document.querySelectorAll(".top button")].find((e) => e.innerText.includes("auto")).click(); true`)
	value[any](b, `[...document.querySelectorAll(".top button")].find((e) => e.innerText.includes("light")).click(); true`)
	if got := value[string](b, back); got != "rgb(22, 25, 29)" {
		t.Errorf("dark is %s", got)
	}

	write("e", record.Running)
	b.until("a newer one is offered", `document.querySelector(".newer a") !== null`)
	b.do(chromedp.Click(".newer a"))
	b.until("it is shown in local time", titles+`.startsWith("Run e") && `+when+` === "`+local+`"`)

	// A run stands where it was first seen until its start is told. Then it is in a later place, and it is not newer than
	// itself.
	storetest.Write(t, s.store, &record.Plan{RootPlanID: "f", CurrentPlanID: "f", Title: new("Run f")})
	b.until("one without a start is offered", `document.querySelector(".newer")?.innerText === "↑ 1 newer"`)
	b.do(chromedp.Click(".newer a"))
	for i, id := range []string{"f", "g"} {
		storetest.Write(t, s.store, &record.Plan{
			RootPlanID: id, CurrentPlanID: id, Title: new("Run " + id),
			StartTime: new(time.Date(2200+i, 1, 1, 0, 0, 0, 0, time.UTC)),
		})
		b.until("its start is shown",
			`document.querySelector("[value=f]").closest("tr").querySelector(".when time").innerText === "2200-01-01 05:30:00"`)
	}

	b.until("only the other is newer", `document.querySelector(".newer")?.innerText === "↑ 1 newer"`)

	b.do(chromedp.Click(".pair"))
	b.until("they are compared", `location.pathname + location.search === "/compare?a=c&b=d"`)
	b.open("/?state=FAILED")
	if got := value[string](b, `document.documentElement.dataset.scheme + `+back); got != "darkrgb(22, 25, 29)" {
		t.Errorf("the next page is %s", got)
	}
}

// fail writes that a run failed, because a tool gave no answer.
func (s *site) fail(root string) {
	s.t.Helper()
	storetest.Write(s.t, s.store,
		&record.Plan{RootPlanID: root, CurrentPlanID: root, State: new(record.Failed), EndTime: storetest.At(9)},
		&record.AgentExecution{RootPlanID: root, PlanID: root, StepID: "s", State: new(record.Failed)},
		&record.ActTool{
			RootPlanID: root, StepID: "s", Seq: 0, ToolCallID: "t", Name: new("run_sql"), State: new(record.Failed),
			ErrorKind: new("timeout"),
		})
}
