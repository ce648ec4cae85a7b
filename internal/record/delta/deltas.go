package delta

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/recent"
	"github.com/actlog/actlog/record"
)

const (
	// pause is how long deltas are collected, to be sent together.
	pause = 50 * time.Millisecond
	// announceEvery is how often a process says which trees are watched there. Others believe it
	// for rememberFor.
	announceEvery = 2 * time.Second
	rememberFor   = 7 * time.Second
	// pendingBytes bounds what waits to be sent. Beyond it texts are dropped.
	pendingBytes = 1 << 20
	// pendingCost is what a delta takes besides its text.
	pendingCost = 512
	// maxElsewhere bounds the trees that are known to be watched in other processes.
	maxElsewhere = 20_000
)

// The channels of LISTEN and NOTIFY.
const (
	watchChannel = "actlog_watch" // says which trees are watched; senders of deltas listen
	deltaChannel = "actlog_delta" // carries deltas of these trees; watchers listen
)

// Deltas carries deltas to the watchers of this process, and to those of the other processes of
// the database. It costs nothing until the first one is sent or watched. It is safe for concurrent
// use.
type Deltas struct {
	db  *pg.DB
	log *slog.Logger
	id  string        // of this process, which ignores what it sent itself
	due chan struct{} // holds a token if there is something to send

	mu        sync.Mutex
	sent      recent.Map[Cycle, end] // also of what nobody watches
	pending   map[Cycle]*pending
	order     []*pending // the same, in the order in which they are sent
	bytes     int
	full      bool // texts were dropped since the last sending
	here      map[string]map[*watch]bool
	elsewhere map[string]time.Time // until when a tree counts as watched in another process
	announce  []string             // trees that the others have not heard of
	ask       bool                 // the others should announce theirs
	sending   bool                 // something was sent
	post      *pg.Post             // nil: nothing is running
	closed    bool

	stop    context.CancelFunc
	running sync.WaitGroup
}

type watch struct{ deliver func(Delta) }

// pending is a delta that still grows.
type pending struct {
	Delta
	text strings.Builder
}

// New returns the deltas of a database. The caller closes it.
func New(d *pg.DB, log *slog.Logger) *Deltas {
	return &Deltas{
		db: d, log: log, id: rand.Text(), due: make(chan struct{}, 1),
		pending: map[Cycle]*pending{}, here: map[string]map[*watch]bool{}, elsewhere: map[string]time.Time{},
	}
}

// Close ends the deliveries.
func (d *Deltas) Close() {
	d.mu.Lock()
	d.closed = true
	post := d.post
	d.mu.Unlock()

	if post != nil {
		d.stop()
		d.running.Wait()
		post.Close()
	}
}

// Delta sends a piece of the text of an answer to whoever watches the tree. It returns at once.
func (d *Deltas) Delta(rootPlanID, planID, stepID string, seq, attempt int64, text string) {
	if text = strings.ToValidUTF8(text, "\uFFFD"); text != "" {
		d.add(Cycle{RootPlanID: rootPlanID, PlanID: planID, StepID: stepID, Seq: seq}, attempt, false, text)
	}
}

// Reset says that the pieces of an answer that came so far are void, and that those of an attempt
// follow. It returns at once.
func (d *Deltas) Reset(rootPlanID, planID, stepID string, seq, attempt int64) {
	d.add(Cycle{RootPlanID: rootPlanID, PlanID: planID, StepID: stepID, Seq: seq}, attempt, true, "")
}

// Answer sends a piece of what an agent answers, as Delta does one of what a model writes.
func (d *Deltas) Answer(rootPlanID, planID, stepID string, seq, attempt int64, text string) {
	if text = strings.ToValidUTF8(text, "\uFFFD"); text != "" {
		d.add(Cycle{RootPlanID: rootPlanID, PlanID: planID, StepID: stepID, Seq: seq, Answer: true}, attempt, false, text)
	}
}

// ResetAnswer says that the pieces of what an agent answers that came so far are void, as Reset does.
func (d *Deltas) ResetAnswer(rootPlanID, planID, stepID string, seq, attempt int64) {
	d.add(Cycle{RootPlanID: rootPlanID, PlanID: planID, StepID: stepID, Seq: seq, Answer: true}, attempt, true, "")
}

// Progress sends how far an attempt of a tool call of a cycle has come. It returns at once.
func (d *Deltas) Progress(
	rootPlanID, planID, stepID string, seq int64, toolCallID string, attempt int64, p record.Progress,
) {
	text, err := json.Marshal(p)
	if err != nil {
		d.log.Warn("progress cannot be sent", "toolCallId", toolCallID, "error", err)
		return
	}
	c := Cycle{RootPlanID: rootPlanID, PlanID: planID, StepID: stepID, Seq: seq, ToolCallID: toolCallID}
	d.add(c, attempt, true, string(text))
}

func (d *Deltas) add(c Cycle, attempt int64, reset bool, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	if !d.sending {
		d.sending = true
		d.listen()
	}

	at, known := d.sent.Get(c)
	if known && attempt < at.attempt {
		return // of a call that goes on although the run was lost
	}
	reset = reset || known && attempt > at.attempt
	if reset || !known {
		at = end{attempt: attempt}
	}

	piece := Delta{Cycle: c, Attempt: attempt, Reset: reset, Offset: at.offset}
	at.offset += int64(len(text))
	d.sent.Set(c, at)
	if len(d.here[c.RootPlanID]) == 0 && !time.Now().Before(d.elsewhere[c.RootPlanID]) {
		return
	}

	p := d.pending[c]
	if p != nil && reset {
		d.bytes -= p.text.Len()
		p.Delta = piece
		p.text.Reset()
	}

	cost := len(text)
	if p == nil {
		cost += pendingCost
	}
	if d.full = d.full || d.bytes+cost > pendingBytes; d.full {
		return
	}

	d.bytes += cost
	if p == nil {
		p = &pending{Delta: piece}
		d.pending[c], d.order = p, append(d.order, p)
	}
	p.text.WriteString(text)
	pg.Signal(d.due)
}

// Watch delivers the deltas of a tree until the caller calls stop. deliver returns at once. It may
// be called once more while stop is called.
func (d *Deltas) Watch(rootPlanID string, deliver func(Delta)) (stop func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return func() {}
	}

	w := &watch{deliver}
	if d.here[rootPlanID] == nil {
		d.here[rootPlanID] = map[*watch]bool{}
		d.announce = append(d.announce, rootPlanID)
		pg.Signal(d.due)
	}
	d.here[rootPlanID][w] = true
	d.listen()

	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.here[rootPlanID], w)
		if len(d.here[rootPlanID]) == 0 {
			delete(d.here, rootPlanID)
		}
		d.listen()
	}
}

func (d *Deltas) listen() {
	if d.closed {
		return
	}

	if d.post == nil {
		d.post = pg.NewPost(d.db, inbox{d}, d.log)
		ctx, stop := context.WithCancel(context.Background())
		d.stop = stop
		d.running.Go(func() { d.loop(ctx) })
	}

	switch {
	case len(d.here) > 0:
		d.post.Listen(watchChannel, deltaChannel)
	case d.sending:
		d.post.Listen(watchChannel)
	default:
		d.post.Listen()
	}
}

// inbox receives what other processes send.
type inbox struct{ *Deltas }

// Listening implements [pg.PostHandler].
func (d inbox) Listening() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.announceAll()
	d.ask = d.sending
	pg.Signal(d.due)
}

// Receive implements [pg.PostHandler].
func (d inbox) Receive(channel, text string) {
	var l letter
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		d.log.Debug("a notification cannot be read", "channel", channel, "error", err)
		return
	}

	switch {
	case l.From == d.id:
	case channel == watchChannel:
		d.heard(l.Watched, l.Ask)
	case l.Delta != nil:
		for _, w := range d.watches(l.RootPlanID) {
			w.deliver(*l.Delta)
		}
	}
}

// heard notes which trees are watched in another process, and answers if it asks.
func (d *Deltas) heard(watched []string, asked bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	until := time.Now().Add(rememberFor)
	for _, root := range watched {
		if _, known := d.elsewhere[root]; known || len(d.elsewhere) < maxElsewhere {
			d.elsewhere[root] = until
		}
	}

	if asked {
		d.announceAll()
		pg.Signal(d.due)
	}
}

func (d *Deltas) announceAll() { d.announce = slices.Collect(maps.Keys(d.here)) }

func (d *Deltas) watches(root string) []*watch {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.here[root]))
}

// loop sends what is due, every 50 ms at most, and announces the watched trees.
func (d *Deltas) loop(ctx context.Context) {
	announcing := time.NewTicker(announceEvery)
	defer announcing.Stop()

	for {
		select {
		case <-d.due:
		case <-announcing.C:
			d.refresh()
		case <-ctx.Done():
			return
		}

		d.flush()
		if pg.Pause(ctx, pause) != nil {
			return
		}
	}
}

// refresh announces all trees that are watched here, and forgets those of processes that are gone.
func (d *Deltas) refresh() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.announceAll()
	now := time.Now()
	maps.DeleteFunc(d.elsewhere, func(_ string, until time.Time) bool { return !now.Before(until) })
}

func (d *Deltas) flush() {
	d.mu.Lock()
	order := d.order
	announce, ask := d.announce, d.ask
	clear(d.pending)
	d.order, d.announce = nil, nil
	d.full, d.ask = false, false
	d.bytes = 0

	remote := map[string]bool{}
	for _, p := range order {
		remote[p.RootPlanID] = time.Now().Before(d.elsewhere[p.RootPlanID])
	}
	d.mu.Unlock()

	for _, text := range announcements(d.id, announce, ask) {
		d.post.Send(watchChannel, text)
	}

	for _, p := range order {
		p.Text = p.text.String()
		for _, w := range d.watches(p.RootPlanID) {
			w.deliver(p.Delta)
		}

		if remote[p.RootPlanID] {
			for _, text := range p.letters(d.id) {
				d.post.Send(deltaChannel, text)
			}
		}
	}
}
