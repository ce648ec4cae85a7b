package store

import (
	"time"

	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/internal/record/recent"
	"github.com/actlog/actlog/record"
)

// places remembers in which partition the trees that were written to should lie, so that Postgres
// need not open every partition for a row, and which steps and cycles are on record, so that what
// belongs to them need not write them, too. These are guesses: the transaction checks the tree when it
// locks it, and the step and the cycle when it writes what belongs to them. So code that deletes steps
// or cycles has to hold the root plan. Detail of a period that is dropped goes with its calls.
type places struct {
	tuning        *tuning
	partitionDays int

	trees recent.Map[string, place]        // by root
	rows  recent.Map[record.Key, struct{}] // steps and cycles
}

type place struct {
	partition time.Time
	until     time.Time // after a wrong guess, the place is not relied on until then
}

// of returns what may be assumed for a batch: only contents if its trees do not lie in one place, or if that
// is not known. A tree that the batch begins should lie where new trees do.
func (p *places) of(b *batch) (a assumed) {
	a.contents = true
	now := time.Now()
	for root := range b.touched {
		at, ok := p.trees.Get(root)
		writesRoot := !keyOnly(b.rows[rootKey(root)])
		if !ok && writesRoot {
			at, ok = place{partition: likelyPartition(root, now, p.partitionDays)}, true
			a.begins = true
		}

		if !ok || now.Before(at.until) || !a.partition.IsZero() && !at.partition.Equal(a.partition) {
			return assumed{contents: true}
		}
		a.partition, a.writesRoots = at.partition, a.writesRoots || writesRoot
	}

	a.grows = b.littleOfSteps(p.tuning)
	a.known, a.called = map[record.Key]bool{}, map[record.Key]bool{}
	for key, row := range b.rows {
		if key.Kind == record.KindActTool {
			a.called[stepOf(key)] = true
		}
		if key.Kind != record.KindThinkAct && (key.Kind != record.KindAgentExecution || !a.grows) {
			continue
		}
		if _, known := p.rows.Get(key); known && keyOnly(row) {
			a.known[key] = true
		}
	}
	return a
}

// sure returns where a tree should lie that was written to; zero: that is not known, or was wrong.
func (p *places) sure(root string) time.Time {
	at, ok := p.trees.Get(root)
	if !ok || time.Now().Before(at.until) {
		return time.Time{}
	}
	return at.partition
}

// unknown counts the cycles and tool calls of a batch in trees that were not written to.
func (p *places) unknown(b *batch) (rows int) {
	known := make(map[string]bool, len(b.touched))
	for root := range b.touched {
		_, known[root] = p.trees.Get(root)
	}

	for key := range b.rows {
		if !known[key.Root] && fieldsql.TableOf(key.Kind).Partitioned {
			rows++
		}
	}
	return rows
}

// learn notes where the trees of a committed batch lie, or should. fresh are those that the
// batch began.
func (p *places) learn(b *batch, fresh newTrees) {
	now := time.Now()
	for root := range b.touched {
		if _, ok := p.trees.Get(root); ok {
			continue
		}

		partition, ok := fresh[root]
		if !ok {
			partition = likelyPartition(root, now, p.partitionDays)
		}
		p.trees.Set(root, place{partition: partition})
	}

	if len(b.rows) > p.tuning.fewRows && !b.littleOfSteps(p.tuning) {
		return // it does not push out the rows of live agents
	}

	for key := range b.rows {
		if key.Kind == record.KindThinkAct || key.Kind == record.KindAgentExecution {
			p.rows.Set(key, struct{}{})
		}
	}
}

// doubt notes that a guess about a tree of a batch was wrong, if there was one. It is not known which.
func (p *places) doubt(b *batch, a assumed) {
	if a.partition.IsZero() {
		return
	}
	for root := range b.touched {
		p.trees.Set(root, place{partition: a.partition, until: time.Now().Add(p.tuning.doubtFor)})
	}
}
