package store

import (
	"math"
	"strconv"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Pool is for tests that look behind the store.
func Pool(s *Store) *pgxpool.Pool { return s.pool }

// Queued tells how many rows are on their way, and how many callers wait for room.
func Queued(s *Store) (rows, waiting int) {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	return s.queue.rows, len(s.queue.line)
}

// What tests of partitions ask for.
var (
	PeriodStart       = periodStart
	PartitionedTables = partitionedTables
)

// Parts of upkeep, without the loop that a store with these settings has.
var (
	DropDetail     = (*Store).dropDetail
	DeleteOutdated = (*Store).deleteOutdated
	InterruptDead  = (*Store).interruptDead
	SweepChanges   = (*Store).sweepChanges
	DropSpans      = (*Store).dropSpans
	ReplaceDue     = (*Store).replaceDue
)

// PartitionsAhead is how many periods beyond the present one have partitions.
const PartitionsAhead = partitionsAhead

// LoadPrices reads the prices, as an open store does each minute.
var LoadPrices = (*Store).loadPrices

// Transact runs a transaction as those of several round trips are.
var Transact = (*Store).transact

// Held tells how many requests wait aside, by the root of their tree.
func Held(s *Store) map[string]int {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	held := map[string]int{}
	for root, h := range s.queue.held {
		held[root] = len(h.requests)
	}
	return held
}

// WriteWhole has a store write everything with the statements of everything.
func WriteWhole(s *Store) { s.statements.fewRows = 0 }

// AllShapes has a store keep statements of all shapes that come by.
func AllShapes(s *Store) *Store {
	s.statements.maxShapes = math.MaxInt
	return s
}

// CopyNew has a store copy what it can, however little it is.
func CopyNew(s *Store) *Store {
	s.manyRows = 0
	return s
}

// MaxProjected has a store make the rows of traces with more spans from time to time.
func MaxProjected(s *Store, spans int64) { s.maxProjected = spans }

// DoubtNothing has a store rely on where trees lie even where that was wrong before.
func DoubtNothing(s *Store) { s.places.doubtFor = 0 }

// Placed tells whether a store relies on where a tree lies.
func Placed(s *Store, root string) bool {
	at, ok := s.places.trees.get(root)
	return ok && at.until.IsZero()
}

// Places tells how many trees a store remembers at most.
const Places = 2 * maxYoung

// RememberPlaces has a store remember so many trees.
func RememberPlaces(s *Store, n int) (remembered int) {
	for i := range n {
		s.places.trees.set(strconv.Itoa(i), place{})
		s.places.trees.get("0")
	}
	return len(s.places.trees.young) + len(s.places.trees.old)
}
