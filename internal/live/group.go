package live

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/record"
)

// want is what is to be read for someone, and how far that has come.
type want struct {
	all   bool // whatever changed
	reset bool // all, and what the client knows may be wrong

	// Of one tree: what these transactions wrote, of these kinds.
	xids  map[uint32]bool
	kinds map[record.Kind]bool
	// Of all: these root plans, and of what kinds they were told.
	plans map[string]map[string]bool

	begun  bool
	filter store.RowFilter // of one tree, once begun
}

// add adds a change; of a tree, or of all.
func (w *want) add(c *store.Change, ofAll bool) {
	switch {
	case w.reset || w.all && !ofAll && !slices.Contains(c.Kinds, store.Deleted):
	case ofAll:
		if w.plans == nil {
			w.plans = map[string]map[string]bool{}
		}
		kinds := w.plans[c.RootPlanID]
		if kinds == nil {
			kinds = map[string]bool{}
			w.plans[c.RootPlanID] = kinds
		}
		for _, kind := range c.Kinds {
			kinds[kind] = true
		}
		if len(w.plans) > maxChanges {
			w.reset, w.plans = true, nil
		}
	case slices.Contains(c.Kinds, store.Deleted):
		w.reset = true
	default:
		if w.xids == nil {
			w.xids, w.kinds = map[uint32]bool{}, map[record.Kind]bool{}
		}
		w.xids[c.XID] = true
		for _, kind := range c.Touched() {
			w.kinds[kind] = true
		}
		w.all = len(w.xids) > maxChanges
	}
}

// item is an event on its way, with what it says of how plans stand.
type item struct {
	Event
	states map[string]record.State
	end    bool // of what belongs together
}

func (it *item) size() int { return len(it.Data) + 256 }

// page reads the next part of what is wanted. more: there is another.
func (h *Hub) page(ctx context.Context, root string, w *want) (items []item, more bool, err error) {
	select {
	case h.reads <- struct{}{}:
		defer func() { <-h.reads }()
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	if root == "" {
		return h.pageOfAll(ctx, w)
	}
	first := !w.begun
	if first {
		w.filter = store.RowFilter{Kinds: record.Kinds}
		if !w.all && !w.reset {
			w.filter.XIDs = slices.AppendSeq([]uint32{}, maps.Keys(w.xids))
			w.filter.Kinds = slices.DeleteFunc(slices.Clone(record.Kinds), func(k record.Kind) bool { return !w.kinds[k] })
		}
	}
	rows, err := h.store.Rows(ctx, root, &w.filter)
	if err != nil {
		return nil, false, err
	}
	w.begun = true
	if first && (w.all || w.reset) {
		if len(rows) == 0 { // a tree has its root
			return []item{{Event: Event{Type: TypeDeleted, Data: []byte("{}")}}}, false, nil
		}
		if w.reset {
			items = append(items, item{Event: Event{Type: TypeReset, Data: []byte("{}")}})
		}
	}
	if len(rows) > 0 {
		data, err := h.config.Rows(root, rows)
		if err != nil {
			return nil, false, err
		}
		it := item{Event: Event{Type: TypeRows, Data: data}}
		for _, r := range rows {
			if p, ok := r.Record.(*record.Plan); ok {
				if it.states == nil {
					it.states = map[string]record.State{}
				}
				it.states[p.CurrentPlanID] = *p.State
			}
		}
		items = append(items, it)
	}
	return items, len(w.filter.Kinds) > 0, nil
}

// pageOfAll is page for all root plans.
func (h *Hub) pageOfAll(ctx context.Context, w *want) (items []item, more bool, err error) {
	var plans []Plan
	if (w.all || w.reset) && !w.begun {
		live, err := h.store.LivePlans(ctx)
		if err != nil {
			return nil, false, err
		}
		if w.reset {
			items = append(items, item{Event: Event{Type: TypeReset, Data: []byte("{}")}})
		}
		for _, p := range live {
			plans = append(plans, Plan{PlanGlance: p, RootPlanID: p.Record.RootPlanID})
		}
	} else {
		var roots []string
		for root := range w.plans {
			if roots = append(roots, root); len(roots) == plansAtOnce {
				break
			}
		}
		found, err := h.store.GlanceAt(ctx, roots)
		if err != nil {
			return nil, false, err
		}
		for _, p := range found {
			root := p.Record.RootPlanID
			plans = append(plans, Plan{PlanGlance: p, RootPlanID: root, Kinds: slices.Sorted(maps.Keys(w.plans[root]))})
		}
		for _, root := range roots {
			if !slices.ContainsFunc(found, func(p store.PlanGlance) bool { return p.Record.RootPlanID == root }) {
				plans = append(plans, Plan{RootPlanID: root, Deleted: true})
			}
			delete(w.plans, root)
		}
	}
	w.begun = true
	if len(plans) > 0 {
		data, err := h.config.Plans(plans)
		if err != nil {
			return nil, false, err
		}
		items = append(items, item{Event: Event{Type: TypePlans, Data: data}})
	}
	return items, len(w.plans) > 0, nil
}

// group is the streams of one tree, or of all root plans. What it has is guarded by its
// hub.
type group struct {
	hub  *Hub
	root string
	// late are those that still read for themselves what they missed, live those that
	// share what is read for all.
	late, live map[*Stream]bool
	pending    *want // for those that are live; nil: nothing
	busy       bool  // something is being read for them
	wake       chan struct{}
	ctx        context.Context // ends with the last of them
	stop       context.CancelFunc
}

func (g *group) each(do func(w *want)) {
	if len(g.live) > 0 {
		if g.pending == nil {
			g.pending = new(want)
		}
		do(g.pending)
		signal(g.wake)
	}
	for s := range g.late {
		if s.pending == nil {
			s.pending = new(want)
		}
		do(s.pending)
	}
}

func (g *group) add(c *store.Change) { g.each(func(w *want) { w.add(c, g.root == "") }) }

func (g *group) reset() { g.each(func(w *want) { *w = want{reset: true} }) }

// signal wakes who waits for a channel that holds a token.
func signal(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// take gives what is pending, and the cursor that it leads to.
func (g *group) take() (w *want, cursor string) {
	g.hub.mu.Lock()
	defer g.hub.mu.Unlock()
	w, g.pending = g.pending, nil
	g.busy = w != nil
	return w, g.hub.cursor
}

// run reads what changes, once for all.
func (g *group) run() {
	for {
		select {
		case <-g.wake:
		case <-g.ctx.Done():
			return
		}
		w, cursor := g.take()
		if w == nil {
			continue
		}
		began := time.Now()
		for more, failed := true, false; more; {
			var items []item
			var err error
			if items, more, err = g.hub.page(g.ctx, g.root, w); err != nil {
				if g.ctx.Err() != nil {
					return
				}
				if !failed {
					g.hub.config.Logger.Warn("changes could not be read for streams; they are tried again", "plan", g.root, "error", err)
				}
				more, failed = true, true
				pause(g.ctx, retryAfter)
				continue
			}
			if !more {
				items = ending(items, cursor)
			}
			g.send(items, !more)
		}
		// A tree that takes long to read is read less often.
		pause(g.ctx, max(interval-time.Since(began), time.Since(began)))
	}
}

// ending has the last of some items end what belongs together.
func ending(items []item, cursor string) []item {
	if len(items) == 0 {
		items = append(items, item{})
	}
	last := &items[len(items)-1]
	last.ID, last.end = cursor, true
	return items
}

// send gives items to those who are live. Who has no room for them is cut.
func (g *group) send(items []item, last bool) {
	h := g.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	g.busy = g.busy && !last
	for s := range g.live {
		for i := range items {
			if s.bytes += items[i].size(); s.bytes > bufferBytes && len(s.buffer) > 0 {
				h.cut.Add(1)
				s.end(ErrSlow)
				delete(g.live, s) // it still leaves
				break
			}
			s.buffer = append(s.buffer, items[i])
		}
		signal(s.wake)
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
