package live

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/actlog/actlog/internal/record/feed"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/record"
)

// want is what is to be read for somebody, and how far the reading has come.
type want struct {
	all     bool   // everything, whatever changed
	reset   bool   // everything, and what the client knows may be wrong
	primary string // where it is on record: another server has other rows, and other transactions of the same numbers

	// Of one tree: what these transactions wrote, of these kinds.
	xids  map[uint32]bool
	kinds map[record.Kind]bool
	// Of all root plans: these, with the kinds of their changes.
	plans map[string]map[string]bool

	begun  bool
	filter store.RowFilter // of one tree, once begun
}

// add adds a change; ofAll says that the want is of all root plans.
func (w *want) add(c *feed.Change, ofAll bool) {
	switch {
	case w.reset || w.all && !ofAll && !slices.Contains(c.Kinds, feed.Deleted):
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
	case slices.Contains(c.Kinds, feed.Deleted):
		w.reset = true
	default:
		if w.xids == nil {
			w.xids, w.kinds = map[uint32]bool{}, map[record.Kind]bool{}
		}
		w.xids[c.XID] = true
		for _, kind := range c.KindsWritten() {
			w.kinds[kind] = true
		}
		w.all = len(w.xids) > maxChanges
	}
}

// rawEvent is what was read for one event. Its rows or plans are not encoded yet.
type rawEvent struct {
	kind  string // the event's type; empty: the event only has a cursor
	rows  []store.Row
	plans []Plan
	last  bool   // the last one of what belongs together
	id    string // the cursor behind it
}

// event is an event on its way to one client.
type event struct {
	Event
	states map[string]record.State // of plans, as the event shows them
	last   bool                    // the last one of what belongs together
}

func (e *event) size() int { return len(e.Data) + 256 }

func encode(encoder Encoder, root string, raw []rawEvent) (events []event, err error) {
	for _, p := range raw {
		e := event{Event: Event{ID: p.id, Type: p.kind}, last: p.last}
		switch p.kind {
		case TypeRows:
			e.Data, err = encoder.Rows(root, p.rows)
			for _, r := range p.rows {
				if plan, ok := r.Record.(*record.Plan); ok {
					if e.states == nil {
						e.states = map[string]record.State{}
					}
					e.states[plan.CurrentPlanID] = *plan.State
				}
			}
		case TypePlans:
			e.Data, err = encoder.Plans(p.plans)
		case TypeReset, TypeDeleted:
			e.Data = []byte("{}")
		}
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}

	return events, nil
}

// finish marks the last of some events as the end of what belongs together, behind a cursor.
func finish(raw []rawEvent, cursor string) []rawEvent {
	if len(raw) == 0 {
		raw = append(raw, rawEvent{})
	}
	end := &raw[len(raw)-1]
	end.id, end.last = cursor, true
	return raw
}

// read reads the next events of what is wanted. more reports that there are others. If another server is the primary
// by then, everything is wanted.
func (h *Hub) read(ctx context.Context, root string, w *want) (raw []rawEvent, more bool, err error) {
	select {
	case h.reads <- struct{}{}:
		defer func() { <-h.reads }()
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}

	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	for {
		if root == "" {
			raw, more, err = h.readPlans(ctx, w)
		} else {
			raw, more, err = h.readTree(ctx, root, w)
		}

		primary := h.store.Primary()
		if err != nil || primary == w.primary {
			return raw, more, err
		}
		*w = want{reset: true, primary: primary}
	}
}

func (h *Hub) readTree(ctx context.Context, root string, w *want) (raw []rawEvent, more bool, err error) {
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
		if len(rows) == 0 { // every tree has its root
			return []rawEvent{{kind: TypeDeleted}}, false, nil
		}
		if w.reset {
			raw = append(raw, rawEvent{kind: TypeReset})
		}
	}

	if len(rows) > 0 {
		raw = append(raw, rawEvent{kind: TypeRows, rows: rows})
	}
	return raw, len(w.filter.Kinds) > 0, nil
}

func (h *Hub) readPlans(ctx context.Context, w *want) (raw []rawEvent, more bool, err error) {
	var plans []Plan
	if (w.all || w.reset) && !w.begun {
		live, err := h.store.LivePlans(ctx)
		if err != nil {
			return nil, false, err
		}
		if w.reset {
			raw = append(raw, rawEvent{kind: TypeReset})
		}
		for _, p := range live {
			plans = append(plans, Plan{PlanGlance: p, RootPlanID: p.Record.RootPlanID})
		}
	} else {
		var roots []string
		for root := range w.plans {
			if roots = append(roots, root); len(roots) == plansPerRead {
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
		raw = append(raw, rawEvent{kind: TypePlans, plans: plans})
	}
	return raw, len(w.plans) > 0, nil
}

// group is the streams of one tree, or of all root plans. Its hub's lock guards it.
type group struct {
	hub  *Hub
	root string
	// late streams still read for themselves what they missed. Live ones share what is read
	// for all.
	late, live map[*Stream]bool
	pending    *want // for live streams; nil: nothing
	busy       bool  // something is being read for them
	wake       chan struct{}
	ctx        context.Context // ends with the last stream
	stop       context.CancelFunc
}

func (g *group) each(do func(w *want)) {
	if len(g.live) > 0 {
		if g.pending == nil {
			g.pending = &want{primary: g.hub.primary}
		}
		do(g.pending)
		signal(g.wake)
	}

	for s := range g.late {
		if s.pending == nil {
			s.pending = &want{primary: g.hub.primary}
		}
		do(s.pending)
	}
}

func (g *group) add(c *feed.Change) { g.each(func(w *want) { w.add(c, g.root == "") }) }

func (g *group) reset() { g.each(func(w *want) { *w = want{reset: true, primary: g.hub.primary} }) }

// signal leaves a token in a channel that holds one.
func signal(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// take returns what is pending, and the cursor behind it.
func (g *group) take() (w *want, cursor string) {
	g.hub.mu.Lock()
	defer g.hub.mu.Unlock()
	w, g.pending = g.pending, nil
	g.busy = w != nil
	return w, g.hub.cursor
}

// run reads what changes, once for all live streams.
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
			raw, another, err := g.hub.read(g.ctx, g.root, w)
			if err == nil {
				if !another {
					raw = finish(raw, cursor)
				}
				err = g.send(raw, !another)
			}

			switch {
			case err == nil:
				more, failed = another, false
				continue
			case g.ctx.Err() != nil:
				return
			case !failed:
				g.hub.log.Warn("read changes for streams failed; it is tried again", "plan", g.root, "error", err)
			}

			failed = true
			_ = pg.Pause(g.ctx, retryAfter)
		}

		// A tree that takes long to read is read less often.
		_ = pg.Pause(g.ctx, max(interval-time.Since(began), time.Since(began)))
	}
}

// send gives events to the live streams, encoded once for each encoder. A stream that has no
// room for them is ended.
func (g *group) send(raw []rawEvent, last bool) error {
	encoded := map[Encoder][]event{}
	for {
		missing := g.deliver(encoded, last)
		if missing == nil {
			return nil
		}
		events, err := encode(missing, g.root, raw)
		if err != nil {
			return err
		}
		encoded[missing] = events
	}
}

// deliver gives events to the live streams, unless one is missing those of its encoder: then
// it returns that, and does nothing.
func (g *group) deliver(encoded map[Encoder][]event, last bool) (missing Encoder) {
	h := g.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range g.live {
		if _, ok := encoded[s.encoder]; !ok {
			return s.encoder
		}
	}

	g.busy = g.busy && !last
	for s := range g.live {
		for _, e := range encoded[s.encoder] {
			if s.bytes += e.size(); s.bytes > bufferBytes && len(s.buffer) > 0 {
				h.cut.Add(1)
				s.end(ErrSlow)
				delete(g.live, s) // it still leaves
				break
			}
			s.buffer = append(s.buffer, e)
		}
		signal(s.wake)
	}
	return nil
}
