package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/systeminfo"
	"github.com/chromedp/chromedp"
)

// browser is a headless Chromium.
type browser struct {
	ctx  context.Context //nolint:containedctx // chromedp keeps the browser in it
	stop func() error
}

// chromium returns the path of a Chromium; empty: there is none.
func chromium() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// browse starts a browser.
func browse(ctx context.Context, binary string) (*browser, error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(binary), chromedp.NoSandbox,
		chromedp.WindowSize(1440, 900))
	allocated, cancel := chromedp.NewExecAllocator(context.WithoutCancel(ctx), options...)
	ctx, _ = chromedp.NewContext(allocated) // Cancel ends it

	b := &browser{ctx, func() error {
		defer cancel()
		return chromedp.Cancel(ctx)
	}}
	if err := chromedp.Do(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", binary, err), b.stop())
	}
	return b, nil
}

// tab is a page in a process of its own.
type tab struct {
	ctx   context.Context //nolint:containedctx // chromedp keeps the tab in it
	close func()
}

// open opens a page in a new tab, in which a script runs first. The tab must be closed, also if it could not be opened.
func (b *browser) open(url, script string) (*tab, error) {
	ctx, cancel := chromedp.NewContext(b.ctx)
	ctx, end := context.WithTimeout(ctx, 2*time.Minute)
	t := &tab{ctx, func() { end(); cancel() }}

	err := chromedp.Do(ctx)
	if err == nil {
		_, err = chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument,
			page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
	}
	if err == nil {
		err = chromedp.Do(ctx, chromedp.Navigate(url))
	}
	return t, err
}

// evaluate returns what an expression is in a page, or what the promise brings that it is.
func evaluate[T any](t *tab, expression string) (T, error) {
	return chromedp.Run(t.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// memory returns the private memory of the tab's process, in MB: the largest of those that show pages, as no other tab
// is open.
func (t *tab) memory() (most float64, err error) {
	all, err := chromedp.CallBrowser(t.ctx, systeminfo.GetProcessInfo, cdp.Empty{})
	if err != nil {
		return 0, err
	}

	for _, p := range all.ProcessInfo {
		if p.Type != "renderer" {
			continue
		}
		mb, err := privateMB(p.ID)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // it has ended
			return 0, err
		}
		most = max(most, mb)
	}
	return most, nil
}

// privateMB returns the memory that only one process has.
func privateMB(pid int64) (mb float64, err error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	defer f.Close()

	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if name, amount, ok := strings.Cut(lines.Text(), ":"); ok && strings.HasPrefix(name, "Private_") {
			var kib float64
			if _, err := fmt.Sscan(amount, &kib); err != nil {
				return 0, err
			}
			mb += kib * 1024 / 1e6
		}
	}
	return mb, lines.Err()
}
