package fieldsql

import (
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/record"
)

// Shape says what the rows of a statement set. A statement names nothing else, because
// Postgres sets each expression up again at every run.
type Shape struct {
	// Fields is a set of places in field.Fields, one bit each. Keys are always part of it.
	Fields uint64
	// Revs and Cut say whether any row has revisions, or fields that were cut.
	Revs, Cut bool
	// Reopens says whether any row may belong to a later attempt than the first. Then the
	// fields that an attempt resets are named although no row sets them, and rows may bring
	// earlier attempts.
	Reopens bool
	// Placed says that the part of all rows is a parameter, so that Postgres opens no other
	// partition. Otherwise each row takes it from its root plan. A placed tool call also checks
	// that its cycle is on record; if not, the statement fails with [StaleGuess].
	Placed bool
	// Grows says that the statements of cycles and tool calls add what they change to the roll-ups of
	// their steps, so the shape has to be placed. The statement of steps then leaves the roll-ups as
	// they are, and comes first. A statement fails with [StaleGuess] if a step is not on record, or if
	// a roll-up cannot be known without summing up all.
	Grows bool
	// Uncalled says that none of the steps has a tool call that is written with them, so that the latest
	// one of each stays what it is. To find that takes as long as to sum up all the others.
	Uncalled bool
}

// StaleGuess is the SQLSTATE of a statement that found a plan or a cycle not where it was
// expected. actlog.stale_guess raises it.
const StaleGuess = "YA001"

// WholeShape names every field.
func WholeShape(k record.Kind) Shape {
	return Shape{Fields: 1<<len(field.Fields(k)) - 1, Revs: true, Cut: true, Reopens: true}
}

// TraceShape names every field that spans can say something about: all but what is served
// once, and signs of life.
func TraceShape(k record.Kind) Shape {
	shape := WholeShape(k)
	for i, f := range field.Fields(k) {
		if f.Role == field.Once || f.Role == field.Heartbeat {
			shape.Fields &^= 1 << i
		}
	}
	return shape
}

// ShapeOf returns the shape that some rows of a kind need.
func ShapeOf(k record.Kind, rows ...*field.Row) (shape Shape) {
	for _, r := range rows {
		shape.Revs = shape.Revs || r.Revs != nil
		shape.Cut = shape.Cut || len(r.Cut) > 0

		for i, f := range field.Fields(k) {
			if f.Rule != field.Fixed && !f.In(r.Change).IsZero() {
				shape.Fields |= 1 << i
				if f.Rule == field.Attempt && f.In(r.Change).Elem().Int() > 1 {
					shape.Reopens, shape.Revs = true, true // a new attempt forgets revisions
				}
			}
		}
	}
	return shape
}

// Named returns the fields that a statement of the shape names. Their values are its first
// parameters, one array per field. Then follow the names of cut fields and the revisions, if
// the shape has them, and the earlier attempts, if it has [Shape.Past].
func (s Shape) Named(k record.Kind) (named []*field.Field) {
	set := func(place int) bool { return s.Fields&(1<<place) != 0 }
	for i, f := range field.Fields(k) {
		if !f.Stored() {
			continue
		}

		follows := f.Of != nil && set(f.Of.Index())
		if f.Key || set(i) || follows || f.Scoped && s.Reopens {
			named = append(named, f)
		}
	}
	return named
}

// Past reports whether rows of the shape may bring earlier attempts.
func (s Shape) Past(k record.Kind) bool { return s.Reopens && field.HasAttempts(k) }
