package store

import "time"

// tuning holds the thresholds of the store. Tests set other values.
type tuning struct {
	// fewRows have a statement of their own shape: to set up the whole one takes longer than
	// they do.
	fewRows int
	// maxShapes bounds the shapes of a kind, whose plans each connection keeps. Later shapes
	// are written by the whole statement.
	maxShapes int
	// manyRows are worth more than one round trip if they can be copied.
	manyRows int
	// A row that is added to the roll-ups of its step costs as much as to sum up so many cycles, and
	// to add at all costs as much as to sum up adding.
	addingRow, adding int
	// doubtFor is how long a store does not rely on a guess about a tree that was wrong.
	doubtFor time.Duration
	// maxProjected is how many spans a trace may have for its rows to be made whenever spans
	// come. The rows of a larger one are made when enough of it is new, or a little later.
	maxProjected int64
}

func defaultTuning() *tuning {
	return &tuning{
		fewRows: 16, maxShapes: 32, manyRows: 64, addingRow: 8, adding: 16, doubtFor: time.Minute, maxProjected: maxProjected,
	}
}

// maxProjected is the default of tuning.maxProjected: a trace of more spans is large.
const maxProjected = 10_000
