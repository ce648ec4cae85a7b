package store

import (
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/feed"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/record"
)

// A transaction holds at most this much.
const (
	maxBatchRows  = 2_000
	maxBatchBytes = 8 << 20
)

// entry is a change on its way into the record. err is what became of it, set before its
// request is answered.
type entry struct {
	row  *field.Row
	size int
	err  error
}

// batch is what a transaction writes: the changes to each key, folded, and placeholders for
// parents that no change names. It does not change while it is sent; what is found out then is in sent.
type batch struct {
	rows    map[record.Key]*field.Row
	touched feed.Touched
	folded  int // changes that met another one
	// locked queues what comes once the root plans are locked: what lets the batch write to their trees. nil: it
	// does not come from their owner, see [batch.refuseOwned].
	locked func(*pgx.Batch)
	// ask queues what is asked once the rows are written, and then returns the batch that follows from the answers, in
	// the same transaction; nil: nothing does. last queues what comes after all rows. Each may be nil.
	ask, last func(*pgx.Batch)
	then      func() (*batch, error)
}

// trusted is locked of a batch whose trees the caller has chosen.
func trusted(*pgx.Batch) {}

// assumed is what a batch relies on, until its transaction finds otherwise. The zero value relies on nothing.
type assumed struct {
	// contents says that those are on record that are remembered, so that they are not sent.
	contents  bool
	partition time.Time // where all of its trees lie; zero: not known
	// known rows are on record, so they are not written.
	known map[record.Key]bool
	// writesRoots says that the batch writes to root plans, or begins trees.
	writesRoots bool
	// begins says that some of its trees may not be on record.
	begins bool
	// grows says that the batch adds to the roll-ups of steps, see [fieldsql.Shape.Grows].
	grows bool
	// called are the steps of which the batch writes tool calls; nil: not known.
	called map[record.Key]bool
}

func newBatch(entries []*entry) *batch {
	b := &batch{
		rows:    make(map[record.Key]*field.Row, 2*len(entries)),
		touched: feed.Touched{},
	}

	own := map[*field.Row]bool{} // rows of the batch, rather than an entry's
	for _, e := range entries {
		key := e.row.Change.Key()
		b.touched.Add(key.Root, key.Kind)
		r, ok := b.rows[key]
		if !ok {
			b.rows[key] = e.row
			continue
		}

		if !own[r] { // an entry may have to be written again, alone
			r = r.Clone()
			b.rows[key], own[r] = r, true
		}
		r.Learn(e.row)
		b.folded++
	}

	for root := range b.touched {
		b.placeholder(rootKey(root))
	}
	for _, e := range entries {
		b.addParents(e.row.Change)
	}
	return b
}

// addParents makes placeholders for what a change belongs to, below the root.
func (b *batch) addParents(c record.Change) {
	key := c.Key()
	plan := func(id string) {
		if id != "" && id != key.Root {
			b.placeholder(record.Key{Kind: record.KindPlan, Root: key.Root, ID: id})
		}
	}

	switch c := c.(type) {
	case *record.Plan:
		if c.ParentPlanID != nil {
			plan(*c.ParentPlanID)
		}
	case *record.AgentExecution:
		plan(c.PlanID)
	case *record.ThinkAct:
		b.placeholder(stepOf(key))
	case *record.ActTool:
		b.placeholder(stepOf(key))
		b.placeholder(cycleOf(key))
	default: // thoughts, artifacts, sources and waits belong to a plan
		plan(key.Parent)
	}
}

// placeholder makes the row of a plan, a step or a cycle that is known by its key only.
func (b *batch) placeholder(key record.Key) {
	if _, written := b.rows[key]; written {
		return
	}

	var c record.Change
	switch key.Kind {
	case record.KindAgentExecution:
		c = &record.AgentExecution{RootPlanID: key.Root, StepID: key.ID}
	case record.KindThinkAct:
		c = &record.ThinkAct{RootPlanID: key.Root, StepID: key.Parent, Seq: key.Seq}
	default:
		c = &record.Plan{RootPlanID: key.Root, CurrentPlanID: key.ID}
	}

	b.rows[key] = &field.Row{Change: c}
}

// littleOfSteps reports whether a batch has few of the cycles and tool calls of its steps, as far as
// the numbers of the cycles tell: so few that to add them up costs less than to sum up all.
func (b *batch) littleOfSteps(t *tuning) bool {
	rows, highest := 0, map[record.Key]int64{} // cycle of a step
	for key, row := range b.rows {
		if !fieldsql.TableOf(key.Kind).Partitioned {
			continue
		}
		step := stepOf(key)
		highest[step] = max(highest[step], key.Seq)
		if !keyOnly(row) {
			rows++
		}
	}

	there := int64(0)
	for _, seq := range highest {
		there += seq + 1
	}
	return there > int64(t.addingRow*rows+t.adding)
}

// keyOnly reports whether nothing is known of a row but its key.
func keyOnly(r *field.Row) bool {
	return fieldsql.ShapeOf(r.Change.Kind(), r) == fieldsql.Shape{}
}

// passes returns the rows in the order in which they are written, one statement per pass: root
// plans first, because everything else takes its partition from them and their locks keep
// other writers off their trees; then the plans below; and steps after what is rolled up in
// them, unless that adds to the roll-ups. Known rows are left out. Only the order of the roots matters
// to other writers: they are sorted, so that no two writers wait for each other.
func (b *batch) passes(a assumed) [][]*field.Row {
	order := []record.Kind{
		record.KindPlan, record.KindThinkAct, record.KindActTool, record.KindAgentExecution,
		record.KindThought, record.KindArtifact, record.KindSource, record.KindWait,
	}
	if a.grows {
		order[1] = record.KindAgentExecution
		order[2], order[3] = record.KindThinkAct, record.KindActTool
	}

	byKind := make(map[record.Kind][]*field.Row, len(order))
	var roots []*field.Row
	for key, r := range b.rows {
		switch {
		case key == rootKey(key.Root):
			roots = append(roots, r)
		case !a.known[key]:
			byKind[key.Kind] = append(byKind[key.Kind], r)
		}
	}

	passes := [][]*field.Row{roots}
	for _, kind := range order {
		if len(byKind[kind]) > 0 {
			passes = append(passes, byKind[kind])
		}
	}

	for _, rows := range passes {
		slices.SortFunc(rows, func(x, y *field.Row) int { return x.Change.Key().Compare(y.Change.Key()) })
	}
	return passes
}

func rootKey(root string) record.Key {
	return record.Key{Kind: record.KindPlan, Root: root, ID: root}
}

func cycleOf(key record.Key) record.Key {
	return record.Key{Kind: record.KindThinkAct, Root: key.Root, Parent: key.Parent, Seq: key.Seq}
}

func stepOf(key record.Key) record.Key {
	return record.Key{Kind: record.KindAgentExecution, Root: key.Root, ID: key.Parent}
}

// emptyRowBytes is rowBytes of a row without texts.
const emptyRowBytes = 256

// rowBytes estimates what a row takes in memory and on the wire.
func rowBytes(r *field.Row) int {
	n := emptyRowBytes
	for _, c := range r.Contents {
		n += c.Bytes()
	}

	for _, f := range field.Fields(r.Change.Kind()) {
		switch f.Type {
		case field.Text:
			s, _ := f.Text(r.Change)
			n += len(s)
		case field.JSON:
			n += f.In(r.Change).Len()
		case field.Texts:
			for _, s := range f.In(r.Change).Interface().([]string) {
				n += len(s) + 16
			}
		}
	}
	return n
}
