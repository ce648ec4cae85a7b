package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/actlog/actlog/record"
)

const (
	// pageFrames is how many frames a tree is scrolled.
	pageFrames = 300
	// pageUpdates is how many rows are added to a run while a page shows it, and pageEvery how often.
	pageUpdates = 1_000
	pageEvery   = 20 * time.Millisecond
)

// whenUsable is a script that notes when a page can be used: a key goes to the row before, and the detail of that row
// is there.
const whenUsable = `window.usable = new Promise((done) => {
	const row = () => document.querySelector("[aria-selected=true]")?.id;
	const detail = () => document.querySelector(".detail")?.textContent;
	let first, shown;
	function look() {
		if (first === undefined && detail() !== undefined) { first = row(); shown = detail(); }
		if (first !== undefined && row() === first) document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "k", bubbles: true }));
		if (first !== undefined && row() !== first && detail() !== shown) done(performance.now());
		else requestAnimationFrame(look);
	}
	requestAnimationFrame(look);
});`

// firstPaint is when the page was first painted. The browser tells it a moment after.
const firstPaint = `new Promise((done) => {
	new PerformanceObserver((list) => {
		const [paint] = list.getEntriesByName("first-contentful-paint");
		if (paint) done(paint.startTime);
	}).observe({ type: "paint", buffered: true });
})`

// whenSeen is a script that notes when rows are drawn that come while a page is shown.
const whenSeen = `window.seen = {};
new MutationObserver((changes) => {
	const ids = changes.flatMap((c) => [...c.addedNodes]).flatMap((n) => [n, ...(n.querySelectorAll?.(".row") ?? [])]).filter((n) => n.id?.includes("/new-")).map((n) => n.id);
	if (ids.length > 0) requestAnimationFrame(() => requestAnimationFrame(() => { for (const id of ids) window.seen[id] ??= Date.now(); }));
}).observe(document, { childList: true, subtree: true });`

// measurePage opens runs in a browser.
func measurePage(ctx context.Context, b *bench) (figures []figure, err error) {
	binary := chromium()
	if binary == "" {
		return []figure{alone("in a browser", "ms", nil, nil).noted("left out: no Chromium is installed")}, nil
	}

	srv, err := b.served(ctx, "page")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, srv.close()) }()

	chrome, err := browse(ctx, binary)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, chrome.stop()) }()

	for _, full := range []int{10_000, 100_000} {
		rows := b.n(full, 100)
		root, changes := runOfRows(rows, record.Failed)
		if err := write(ctx, srv.store, changes); err != nil {
			return nil, err
		}
		if err := srv.db.settle(ctx); err != nil {
			return nil, err
		}

		of, err := b.openings(ctx, srv, chrome, root, rows, full == 10_000)
		if err != nil {
			return nil, err
		}
		figures = append(figures, of...)
	}

	compared, err := b.compared(ctx, srv)
	if err != nil {
		return nil, err
	}
	seen, err := b.seen(ctx, srv, chrome)
	return append(append(figures, compared), seen...), err
}

// openings measures how long it takes until a run can be seen and used, and what that costs.
func (b *bench) openings(
	ctx context.Context, srv *served, chrome *browser, root string, rows int, short bool,
) (figures []figure, err error) {
	name := fmt.Sprintf("run of %d rows", rows)
	if short {
		read, _, err := b.byTurns(ctx, func(ctx context.Context) (float64, error) {
			start := time.Now()
			_, err := srv.store.Within(nil).Skeleton(ctx, "", root)
			return ms(time.Since(start)), err
		}, nil)
		if err != nil {
			return nil, err
		}
		figures = append(figures, alone(name+", skeleton", "ms", read, atMost(150)))
	}

	html, zipped, err := pageSize(ctx, srv.url+"/runs/"+root)
	if err != nil {
		return nil, err
	}

	var paint, usable, memory, frames []float64
	for turn := range b.repeats + 1 {
		o, err := b.opening(chrome, srv.url+"/runs/"+root)
		if err = errors.Join(err, ctx.Err()); err != nil {
			return nil, err
		}
		if turn == 0 {
			continue
		}
		paint, usable = append(paint, o.paint), append(usable, o.usable)
		memory, frames = append(memory, o.memory), append(frames, o.frame)
	}

	return append(figures,
		alone(name+", page", "kB", []float64{html}, nil),
		alone(name+", page, gzip", "kB", []float64{zipped}, atMost(400)),
		alone(name+", first paint", "ms", paint, atMost(300)),
		alone(name+", usable", "ms", usable, atMost(1_000)),
		alone(name+", scrolling, p95 of a frame", "ms", frames, atMost(20)),
		alone(name+", memory of the tab", "MB", memory, atMost(150))), nil
}

// opening is what was measured when a page was opened.
type opening struct {
	paint, usable, frame float64 // ms
	memory               float64 // MB, after scrolling
}

func (b *bench) opening(chrome *browser, url string) (o opening, err error) {
	t, err := chrome.open(url, whenUsable)
	defer t.close()
	if err != nil {
		return o, err
	}

	if o.usable, err = evaluate[float64](t, "window.usable"); err != nil {
		return o, err
	}
	if o.paint, err = evaluate[float64](t, firstPaint); err != nil {
		return o, err
	}

	scrolling := fmt.Sprintf(`new Promise((done, fail) => {
		const took = [];
		const tree = document.querySelector(".tree");
		const view = getComputedStyle(tree).overflowY === "auto" ? tree : document.scrollingElement;
		let last = 0;
		function frame(now) {
			if (last) took.push(now - last);
			last = now;
			view.scrollTop += 300;
			if (took.length < %d) requestAnimationFrame(frame);
			else if (view.scrollTop > 0) done(took);
			else fail(new Error("the tree does not scroll"));
		}
		requestAnimationFrame(frame);
	})`, b.n(pageFrames, 20))

	frames, err := evaluate[[]float64](t, scrolling)
	if err != nil {
		return o, err
	}

	slices.Sort(frames)
	o.frame = percentile(frames, 0.95)
	o.memory, err = t.memory()
	return o, err
}

// pageSize returns how large a page is, and how large it is when it is sent, in kB.
func pageSize(ctx context.Context, url string) (html, zipped float64, err error) {
	client := newClient()
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, 0, err
	}
	r.Header.Set("Accept-Encoding", "gzip")

	body, err := ask(client, r)
	if err != nil {
		return 0, 0, err
	}

	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return 0, 0, err
	}
	n, err := io.Copy(io.Discard, z)
	return float64(n) / 1e3, float64(len(body)) / 1e3, err
}

// compared measures how long the server takes to compare two runs with texts, of which one lacks each hundredth call.
func (b *bench) compared(ctx context.Context, srv *served) (f figure, err error) {
	rows := b.n(10_000, 100)
	var roots [2]string
	for side := range roots {
		var changes []record.Change
		roots[side], changes = b.text.manyCalls(rows)
		for i := len(changes) - 1; i > 1 && side == 1; i -= 100 {
			changes = slices.Delete(changes, i, i+1)
		}
		if err := write(ctx, srv.store, changes); err != nil {
			return f, err
		}
	}

	if err := srv.db.settle(ctx); err != nil {
		return f, err
	}

	client := newClient()
	defer client.CloseIdleConnections()
	took, _, err := b.byTurns(ctx, func(ctx context.Context) (float64, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet,
			srv.url+"/compare?"+url.Values{"a": roots[:1], "b": roots[1:]}.Encode(), nil)
		if err != nil {
			return 0, err
		}
		start := time.Now()
		_, err = ask(client, r)
		return ms(time.Since(start)), err
	}, nil)
	return alone(fmt.Sprintf("two runs of %d rows of 4 kB, compared", rows), "ms", took, atMost(1_000)), err
}

// seen measures the time from the commit of a row until it is drawn on the page of a run that goes on.
func (b *bench) seen(ctx context.Context, srv *served, chrome *browser) ([]figure, error) {
	updates := b.n(pageUpdates, 20)
	var p50, p95 []float64
	for turn := range b.repeats + 1 {
		took, err := b.updates(ctx, srv, chrome, b.n(10_000, 100), updates)
		if err != nil {
			return nil, err
		}
		if turn > 0 {
			p50, p95 = append(p50, percentile(took, 0.5)), append(p95, percentile(took, 0.95))
		}
	}

	return []figure{
		alone("commit to screen, p95", "ms", p95, atMost(250)).noted("%d rows, one each %v, in a run of %d", updates,
			pageEvery, b.n(10_000, 100)),
		alone("the same, p50", "ms", p50, nil),
	}, nil
}

// updates adds tool calls to a run whose page is open, and returns how long each took to the screen, in ms.
func (b *bench) updates(ctx context.Context, srv *served, chrome *browser, rows, n int) (took []float64, err error) {
	root, changes := runOfRows(rows, record.Running)
	if err := write(ctx, srv.store, changes); err != nil {
		return nil, err
	}

	t, err := chrome.open(srv.url+"/runs/"+root, whenSeen)
	defer t.close()
	if err != nil {
		return nil, err
	}
	if err := t.until(ctx, `document.querySelector(".live")?.innerText.includes("live") ?? false`); err != nil {
		return nil, err
	}

	committed := map[string]time.Time{}
	step := root + "-last"
	start := time.Now()
	for i := range n {
		if err := until(ctx, start.Add(time.Duration(i)*pageEvery)); err != nil {
			return nil, err
		}
		id := fmt.Sprintf("new-%d", i)
		if err := write(ctx, srv.store, []record.Change{callOf(root, step, 0, id, i)}); err != nil {
			return nil, err
		}
		committed["call:"+step+"/0/"+id] = time.Now()
	}

	if err := t.until(ctx, fmt.Sprintf("Object.keys(window.seen).length >= %d", n)); err != nil {
		return nil, err
	}
	seen, err := evaluate[map[string]float64](t, "window.seen")
	if err != nil {
		return nil, err
	}

	for id, at := range committed {
		when, ok := seen[id]
		if !ok {
			return nil, fmt.Errorf("the page did not show %s", id)
		}
		took = append(took, when-float64(at.UnixMicro())/1e3)
	}
	slices.Sort(took)
	return took, nil
}

// until waits until an expression is true in the page, for a minute at most.
func (t *tab) until(ctx context.Context, expression string) error {
	for end := time.Now().Add(time.Minute); ; {
		holds, err := evaluate[bool](t, expression)
		if err != nil || holds {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("the page does not come to %s", expression)
		}
		if err := wait(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// Of the runs that are opened, sub-plans have steps, these cycles, and each of them a call.
const (
	stepsOfSubPlan = 10
	cyclesOfStep   = 4
)

// runOfRows makes a run of so many rows, or a few more, all of which are seen when it is opened. Its last call failed,
// if it did.
func runOfRows(rows int, state record.State) (root string, changes []record.Change) {
	root = record.NewPlanID()
	start := time.Now().Add(-time.Hour)
	at := func() *time.Time { return new(start.Add(time.Duration(len(changes)) * 10 * time.Millisecond)) }
	changes = append(changes, &record.Plan{
		RootPlanID: root, CurrentPlanID: root, Title: new("A long run"), State: new(record.Running), StartTime: at(),
	})

	steps := 0
	step := func(plan, id string, state record.State) {
		steps++
		changes = append(changes, &record.AgentExecution{
			RootPlanID: root, PlanID: plan, StepID: id, StepIndex: new(int64(steps)), AgentName: new("agent"),
			ModelName: new("model"), State: &state, StartTime: at(), EndTime: at(),
		})
		for seq := range int64(cyclesOfStep) {
			changes = append(changes, &record.ThinkAct{
				RootPlanID: root, StepID: id, Seq: seq, ThinkOutput: new("I look it up."), InputTokens: new(int64(900)),
				OutputTokens: new(int64(40)), State: new(record.Completed), ThinkStartTime: at(), ThinkEndTime: at(),
			},
				callOf(root, id, seq, fmt.Sprintf("%s-%d", id, seq), 0))
		}
	}

	parts := root + "-parts"
	step(root, parts, record.Completed)
	for seq := int64(cyclesOfStep); len(changes) < rows-2*cyclesOfStep-2; seq++ {
		sub, call := record.NewSubPlanID(), record.NewToolCallID()
		changes = append(changes, callOf(root, parts, seq, call, 0),
			&record.Plan{
				RootPlanID: root, CurrentPlanID: sub, ParentPlanID: &root, ToolCallID: &call, Title: new("A part of it"),
				State: new(record.Completed), StartTime: at(), EndTime: at(),
			})
		for range stepsOfSubPlan {
			step(sub, record.NewStepID(), record.Completed)
		}
	}

	step(root, root+"-last", state)
	if state == record.Failed {
		failed := callOf(root, root+"-last", cyclesOfStep-1, "failed", 1)
		failed.State, failed.ErrorMessage = &state, new("timeout: no answer within 10 s")
		changes = append(changes, failed, &record.Plan{RootPlanID: root, CurrentPlanID: root, State: &state, EndTime: at()})
	}
	return root, changes
}

func callOf(root, step string, seq int64, id string, index int) *record.ActTool {
	return &record.ActTool{RootPlanID: root, StepID: step, Seq: seq, ToolCallID: id, CallIndex: new(int64(index)),
		Name: new("look_up"), Parameters: new(`{"word": "lamp"}`), Result: new("It stands in the corner."),
		State: new(record.Completed), StartTime: new(time.Now()), EndTime: new(time.Now())}
}
