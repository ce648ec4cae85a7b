//go:build page

package web_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// axe returns the script of axe-core, which checks pages for what keeps people from using them.
var axe = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "axe")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "axe"))); err != nil {
		return "", err
	}

	npm := exec.Command("npm", "ci", "--loglevel=error", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", npm, err, out)
	}
	script, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
	return string(script), err
})

// TestAxeInBrowser: axe-core finds nothing on any page, wide and narrow, light and dark.
func TestAxeInBrowser(t *testing.T) {
	t.Parallel()
	script, err := axe()
	if err != nil {
		t.Fatal(err)
	}

	s := open(t, httpd.Config{})
	b := browse(t, s, 1440, 900)
	check := func(what, path string) {
		t.Helper()
		b.open(path)
		b.until("the page is there", `document.readyState === "complete"`)
		value[any](b, script+"; true")
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{1440, 390} {
				b.usable(what, scheme, width)
			}
		}
	}

	check("no runs", "/")
	s.writeFailure("run")
	s.writeFailure("other")
	storetest.Write(t, s.store, &record.Plan{
		RootPlanID: "other", CurrentPlanID: "other", UserRequest: new("another goal"), Summary: new("done"),
		ConversationID: new("talk"),
	})

	storetest.Write(t, s.store, &record.Plan{
		RootPlanID: "live", CurrentPlanID: "live", Title: new("Goes on"), State: new(record.Running),
		StartTime: storetest.At(0),
	},
		&record.Wait{RootPlanID: "live", PlanID: "live", WaitID: "w", Title: new("Really?"), State: new(record.Waiting)},
		&record.ThinkAct{RootPlanID: "live", StepID: "s", Seq: 0, ThinkInput: new(`[{"role":"user","content":"Go."}]`)},
		&record.ThinkAct{RootPlanID: "live", StepID: "s", Seq: 1,
			ThinkInput: new(`[{"role":"user","content":"Go."},{"role":"user","content":"On."}]`),
			ThinkOutput: new(
				`[{"role":"assistant","parts":[{"type":"reasoning","content":"Hm."},{"type":"text","content":"# I\n\n[look](https://example.com)\n\n| a |\n|---|\n| 1 |"}],"finish_reason":"stop"}]`,
			)},
		&record.ActTool{
			RootPlanID: "live", StepID: "s", Seq: 1, ToolCallID: "c", Name: new("look"), Parameters: new("{}"),
			ErrorMessage: new("no"), State: new(record.Failed),
		})

	for what, path := range map[string]string{
		"runs": "/", "rarer filters": "/?failed=true", "nothing found": "/?name=nobody", "a run": "/runs/run",
		"a run that goes on": "/runs/live", "a question": "/runs/live?at=wait:w",
		"a chat":         "/runs/live?at=cycle:s/1",
		"all of a chat":  "/runs/live?at=cycle:s/1&earlier=true&markdown=thinkOutput/0/1",
		"JSON":           "/runs/live?at=cycle:s/1&view=json",
		"open questions": "/waits", "search in texts": "/search?q=search", "nothing to search": "/search",
		"no text": "/search?q=nowhere&state=FAILED", "found texts": "/runs/run?q=search",
		"failures":    "/runs/run?show=failures",
		"no such row": "/runs/run?at=step:none", "no such run": "/runs/none", "login": "/login",
		"a wrong filter": "/?state=odd",
		"two runs":       "/compare?a=run&b=other", "the same run": "/compare?a=run&b=run",
		"charts":         "/charts",
		"a conversation": "/conversations/talk",
	} {
		check(what, path)
	}
}

// usable checks that axe-core, which the page has loaded, finds nothing on it in a look.
func (b *browser) usable(what, scheme string, width int64) {
	b.t.Helper()
	b.look(scheme, width, 900)
	found := value[[]string](
		b, `axe.run().then((r) => r.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + n.html.slice(0, 200) + " " + n.failureSummary)))`,
	)
	for _, f := range found {
		b.t.Errorf("%s, %s, %d: %s", what, scheme, width, strings.Join(strings.Fields(f), " "))
	}
}
