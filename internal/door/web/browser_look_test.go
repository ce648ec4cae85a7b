//go:build page

package web_test

import (
	"flag"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/record"
)

var pictures = flag.String("pictures", "", "`folder` into which pictures of all pages are written")

// TestEveryPageFitsInBrowser: no page is wider than its window, and nothing on it moves by itself.
func TestEveryPageFitsInBrowser(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	failed, well := s.scene(time.Now())
	hard, deepest := s.hardScene(time.Now().AddDate(0, 0, -2))
	hardAt := func(at string) string { return "/runs/" + hard + "?" + url.Values{"at": {at}}.Encode() }
	b := browse(t, s, 1440, 900)

	for name, path := range map[string]string{
		"list": "/", "waits": "/waits", "run": "/runs/" + failed, "well": "/runs/" + well,
		"cycle": "/runs/" + failed + "?at=cycle:" + failed + "-researcher/1", "live": "/runs/run-41",
		"conversation": "/conversations/ticket-4507", "compare": "/compare?a=" + well + "&b=" + failed,
		"search": "/search?q=page", "search-nothing": "/search", "found": "/runs/" + failed + "?q=page",
		"failures": "/runs/" + failed + "?show=failures",
		"hard":     "/runs/" + hard, "hard-call": hardAt(deepest), "hard-plan": hardAt("plan:" + hard),
		"hard-step": hardAt("step:agent-7"), "hard-list": "/?q=Hard", "hard-search": "/search?q=a&limit=100",
		"hard-slow":    "/runs/" + hard + "?show=slow",
		"hard-compare": "/compare?a=" + hard + "&b=" + failed, "none": "/?agent=nobody", "charts": "/charts",
		"charts-month": "/charts?since=30d", "missing": "/runs/none", "login": "/login",
	} {
		b.fits(name, path)
	}
}

// moved is what moved since a page was opened, once its script ran and its stream is there.
const moved = `new Promise((done) => {
	const all = [];
	new PerformanceObserver((list) => {
		for (const { hadRecentInput, sources } of list.getEntries()) {
			if (!hadRecentInput) for (const { node, previousRect: p, currentRect: c } of sources) all.push((node?.outerHTML ?? "?").slice(0, 80) + " " + [p.x, p.y, p.width, p.height] + " to " + [c.x, c.y, c.width, c.height]);
		}
	}).observe({ type: "layout-shift", buffered: true });
	setTimeout(() => done(all.join("\\n")), 300);
})`

// fits checks that a page is not wider than its window, wide and narrow, light and dark. Without a path, it is the page
// that is open.
func (b *browser) fits(name, path string) {
	b.t.Helper()

	for _, look := range []struct {
		name, scheme  string
		width, height int64
	}{
		{"", "light", 1440, 720}, {"-dark", "dark", 1440, 720}, {"-narrow", "light", 390, 844},
		{"-narrow-dark", "dark", 390, 844},
	} {
		b.look(look.scheme, look.width, look.height)
		if path != "" && look.scheme == "light" {
			b.open(path)
			if moved := value[string](b, moved); moved != "" {
				b.t.Errorf("on %s there moves by itself, in a window %d wide: %s", name, look.width, moved)
			}
		}
		if wide := value[int64](b, `document.scrollingElement.scrollWidth`); wide > look.width {
			b.t.Errorf("%s is %d wide in a window of %d", name, wide, look.width)
		}
		if *pictures == "" {
			continue
		}

		png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
		if err != nil {
			b.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(*pictures, name+look.name+".png"), png, 0o644); err != nil {
			b.t.Fatal(err)
		}
	}

	b.look("light", 1440, 900)
}

// look gives the window a size and a colour scheme.
func (b *browser) look(scheme string, width, height int64) {
	b.t.Helper()
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1,
	})
}

// TestOutcomesFitInBrowser: so do the pages of runs of each executor, which are usable by everyone.
func TestOutcomesFitInBrowser(t *testing.T) {
	t.Parallel()
	script, err := axe()
	if err != nil {
		t.Fatal(err)
	}

	s := openShop(t, httpd.Config{})
	flow := s.carry("workflow", map[string]string{"workflow": "two", "input": "Why is the sky blue?"})
	drawn := s.carry("dag", map[string]string{"prompt": "Tea or coffee?"})
	house := s.carry("orchestrator", map[string]string{"request": "How many TODOs are there?"})

	s.answers(house, "accept")
	s.ends(flow, record.Completed)
	s.ends(house, record.Completed)
	s.ends(drawn, record.Failed)
	s.writeTask("task", `{"constraints":{}}`)

	b := browse(t, s.site, 1440, 900)
	for name, path := range map[string]string{
		"workflow": "/runs/" + flow, "dag": "/runs/" + drawn + "?at=plan:" + drawn, "orchestrator": "/runs/" + house,
		"task": "/runs/task?at=plan:task", "talk": "/conversations/talk",
	} {
		b.fits(name, path)
		value[any](b, script+"; true")
		b.usable(name, "dark", 390)
		b.usable(name, "light", 1440)
	}
}

// TestWrongFiltersFitInBrowser: so do pages with filters that are wrong.
func TestWrongFiltersFitInBrowser(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	s.writeFailure("run")
	b := browse(t, s, 1440, 900)

	for name, path := range map[string]string{
		"wrong-list": "/?since=yesterday&state=LOUD&minCost=x", "wrong-charts": "/charts?since=yesterday",
		"wrong-compare": "/compare?a=run&b=none", "wrong-search": "/search?q=a&since=yesterday&kind=x",
	} {
		b.fits(name, path)
	}
}
