//go:build page

package web_test

import (
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

// TestHostileInBrowser: whatever is on record, no page runs it, loads it, or is led away by it.
func TestHostileInBrowser(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	short, long := all()
	storetest.Write(t, s.store, poisoned("root "+short, long, short)...)

	looks := map[string]bool{}
	paths := slices.DeleteFunc(s.crawl("/", "/runs/"+url.PathEscape("root "+short),
		"/search?q="+url.QueryEscape(payloads[0])), func(path string) bool {
		u, err := url.Parse(path)
		if err != nil {
			t.Fatal(err)
		}

		q := u.Query()
		if text := "markdown"; q.Has(text) { // of each row, one text is enough
			q.Set(text, "")
		}
		if q.Get("view") == "readable" {
			q.Del("view")
		}

		look := u.Path + "?" + q.Encode()
		defer func() { looks[look] = true }()
		return looks[look]
	})

	paths = append(paths, "/?q="+url.QueryEscape(short), "/login?next="+url.QueryEscape(short))
	b := browse(t, s, 1440, 900)

	var mu sync.Mutex
	var wrong []string
	at := ""
	err := chromedp.Listen(b.ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := event.(type) {
		case *log.EventEntryAdded:
			if e.Entry.Level != "info" { // such as: the focus was elsewhere already
				wrong = append(wrong, at+": "+string(e.Entry.Level)+": "+e.Entry.Text)
			}
		case *cdppage.EventJavascriptDialogOpening:
			wrong = append(wrong, at+": a dialog: "+e.Message)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	call(b, log.Enable, cdp.Empty{})

	for _, path := range paths {
		mu.Lock()
		at = path
		mu.Unlock()
		b.open(path)

		found := value[string](b, `(() => {
			const tags = new Set("A ARTICLE FIELDSET G LEGEND PATH TEXT TEXTAREA BDI KBD MARK BUTTON CODE DD DETAILS DIV DL DT EM FIGCAPTION FIGURE FORM H1 H2 H3 HEADER HR INPUT LABEL LI MAIN NAV NOSCRIPT OL OPTION P PRE RECT SECTION SELECT SPAN STRONG SUMMARY SVG TABLE TBODY TD TH THEAD TIME TITLE TR UL BLOCKQUOTE BR DEL H4 H5 H6".split(" "));
			const bad = [...document.body.querySelectorAll("*")].filter((e) => !tags.has(e.tagName.toUpperCase()) || e.getAttributeNames().some((name) => name.startsWith("on") || name === "style" || name === "srcdoc"));
			const led = [...document.forms].filter((form) => new URL(form.action).origin !== location.origin);
			return [...bad, ...led].map((e) => e.outerHTML.slice(0, 200)).join("\n") + (window.hit ? " a script ran" : "");
		})()`)
		if found != "" {
			t.Errorf("%s has %s", path, found)
		}

		if to := value[string](b, "location.pathname"); !strings.HasPrefix(path, to) && !strings.HasPrefix(path, "/login") {
			t.Errorf("%s leads to %s", path, to)
		}
	}

	mu.Lock()
	defer mu.Unlock()
	for _, w := range wrong {
		t.Errorf("w = %v", w)
	}
}
