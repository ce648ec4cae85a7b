//go:build page

package web_test

import (
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestCompareInBrowser: keys lead through the differences of two runs, and a conversation counts the runs that it has
// got since.
func TestCompareInBrowser(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	s.writeSteps("one", record.Completed, "list a", "read same")
	s.writeSteps("two", record.Completed, "list a", "read other")
	b := browse(t, s, 1440, 900)
	b.open("/compare?a=one&b=two")

	const count = `document.querySelector(".count")?.innerText`
	first := value[string](b, count)
	b.until("keys work", `document.querySelector(".top [data-key='?']") !== null`)
	b.press("e")
	b.until("the next is open", count+`.startsWith("2 of 2")`)

	const result = `document.querySelector(".detail [aria-label=result]")`
	b.until("its texts are there", result+` !== null`)
	got := value[string](b, result+`.innerText`)
	if !strings.HasPrefix(first, "1 of 2") || !strings.Contains(got, "same") || !strings.Contains(got, "other") {
		t.Errorf("%q, then the texts are %q", first, got)
	}
	b.until("keys work", `document.querySelector(".top [data-key='?']") !== null`)
	b.press("E")
	b.until("the one before is open", count+`.startsWith("1 of 2")`)

	turn := func(root string) {
		storetest.Write(t, s.store, &record.Plan{
			RootPlanID: root, CurrentPlanID: root, ConversationID: new("talk"), UserRequest: new("and " + root),
			State: new(record.Completed),
		})
	}
	turn("a")
	b.open("/conversations/talk")
	b.until("it is live", `document.querySelector(".live")?.innerText.includes("live")`)

	turn("b")
	turn("c")
	b.until("they are counted", `document.querySelector(".newer a")?.innerText === "2 newer runs"`)
	if n := value[int](b, `document.querySelectorAll("article").length`); n != 1 {
		t.Errorf("%d runs are shown", n)
	}
}
