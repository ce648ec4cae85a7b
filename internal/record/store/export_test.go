package store

import (
	"context"
	"math"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/record"
)

// LostBy returns what the statements of a way back would remove.
func LostBy(down string) (loss Loss) {
	loss.addStatements(down)
	return loss
}

// Pool returns the connections of a store.
func Pool(s *Store) *pgxpool.Pool { return s.db.Pool }

// Queued returns how many rows are queued or being written, and how many callers wait for room.
func Queued(s *Store) (rows, waiting int) {
	rows, _, waiting = s.queue.size()
	return rows, waiting
}

// ReplaceDue makes the rows of traces that are due, as an open store does each second.
func ReplaceDue(s *Store) error { return s.replaceDue(s.ladder.sending) }

// LoadPrices reads the prices, as an open store does each minute.
var LoadPrices = (*Store).load

// Locked returns the roots of trees that count as locked, with the number of requests that wait for
// each.
func Locked(s *Store) map[string]int {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()

	waiting := map[string]int{}
	for root, tree := range s.queue.locked {
		waiting[root] = len(tree.requests)
	}
	return waiting
}

// WriteWhole makes a store use only statements that name every field.
func WriteWhole(s *Store) { s.sender.tuning.fewRows = 0 }

// AllShapes makes a store keep one statement per shape, without a limit.
func AllShapes(s *Store) *Store {
	s.sender.tuning.maxShapes = math.MaxInt
	return s
}

// CopyNew makes a store copy the detail of new trees even if it is only one row.
func CopyNew(s *Store) *Store {
	s.sender.tuning.manyRows = 0
	return s
}

// AlwaysAdd makes a store add to the roll-ups of steps what it writes, however little there is.
func AlwaysAdd(s *Store) *Store {
	s.sender.tuning.addingRow, s.sender.tuning.adding = -1, -1
	s.sender.tuning.doubtFor = 0
	return s
}

// MaxProjected sets the number of spans up to which a store makes the rows of a trace at once.
func MaxProjected(s *Store, spans int64) { s.sender.tuning.maxProjected = spans }

// DoubtNothing makes a store rely on the place of a tree even after it was wrong.
func DoubtNothing(s *Store) { s.sender.tuning.doubtFor = 0 }

// Placed reports whether a store knows the place of a tree and relies on it.
func Placed(s *Store, root string) bool {
	at, ok := s.sender.places.trees.Get(root)
	return ok && at.until.IsZero()
}

// The statements of the reads.
var (
	PlanTreeSQL      = planTree.SQL
	FindSQL          = rowTexts
	PlanListSQL      = planListRead.SQL
	StepDetailSQL    = stepDetail.SQL
	StepRowsSQL      = stepRows.SQL
	EarlierCyclesSQL = earlierCycles.SQL
	CycleDetailSQL   = cycleDetail.SQL

	OpenQuestionsSQL = openQuestions.SQL
)

// WriteUnmarked writes changes as if their trees had turned out to be marked.
func WriteUnmarked(ctx context.Context, s *Store, changes ...record.Change) error {
	entries, _ := s.prepare(changes)
	_, err := s.sender.sendBatch(ctx, newBatch(entries), givenUp{marks: true}, 0)
	return err
}

// Remembers reports whether a store remembers the projection of a trace.
func Remembers(s *Store, id string) bool {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	r := s.memory.known[id]
	return r != nil && r.projection != nil
}

// HeartStatements returns the statements that read a tree, a step and a cycle, and those that write each kind, by name.
func HeartStatements() map[string]string {
	all := map[string]string{
		"tree": planTree.SQL, "skeleton": skeleton.SQL, "step": stepDetail.SQL, "cycle": cycleDetail.SQL,
	}

	for _, kind := range record.Kinds {
		name := strings.TrimSuffix(fieldsql.TableOf(kind).Name, "_record")
		all["merge_"+name] = fieldsql.Merge(kind, fieldsql.WholeShape(kind))
		if replacements[kind] != "" {
			all["replace_"+name] = replacements[kind]
		}
	}
	return all
}
