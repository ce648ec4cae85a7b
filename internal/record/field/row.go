package field

import (
	"bytes"
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/record"
)

// NoRevision stands in [Row.Revs] for a field that was written without a revision, or never.
const NoRevision int64 = -1

// Row is what one or more changes to one key say together.
type Row struct {
	Change record.Change
	// Revs holds the revision of each field that has one, at [Field.Rev] - 1. It is nil if
	// no change came with a revision.
	Revs []int64
	// Cut names the fields whose values were cut.
	Cut []string
	// Past holds the attempts before the row's own, in their order: rows that have nothing but
	// the number of their attempt, the Scoped fields and their revisions.
	Past []*Row
	// Contents are what texts are kept in that [Row.CutTexts] cut, and what [Row.Changes] adds to them.
	Contents []content.Content
}

// NewRow cleans a change and makes a row of it. The error is a [*record.InvalidError].
func NewRow(c record.Change) (*Row, error) {
	clean, cut, err := Clean(c)
	if err != nil {
		return nil, err
	}

	r := &Row{Change: clean, Cut: cut}
	rev := clean.Revision()
	if rev == nil {
		return r, nil
	}

	r.Revs = noRevisions(clean.Kind())
	for _, f := range Fields(clean.Kind()) {
		if f.Rev > 0 && !f.In(clean).IsZero() {
			r.Revs[f.Rev-1] = *rev
		}
	}
	return r, nil
}

func noRevisions(k record.Kind) []int64 { return slices.Repeat([]int64{NoRevision}, Revisions(k)) }

// Learn adds a later change to r, by the rules of each field. The merge statements do the
// same to the row in the database.
func (r *Row) Learn(later *Row) {
	fields := Fields(r.Change.Kind())
	attempts := r.compareAttempts(later)
	switch {
	case attempts > 0:
		r.addPast(r.ownAttempt())
	case attempts < 0:
		r.addPast(later.ownAttempt())
	}
	for _, p := range later.Past {
		r.addPast(p.Clone())
	}
	if r.Revs == nil && later.Revs != nil {
		r.Revs = noRevisions(r.Change.Kind())
	}

	for _, f := range fields {
		if f.Rule == Fixed || f.Scoped && attempts < 0 {
			continue
		}

		old, new := f.In(r.Change), f.In(later.Change)
		if f.Scoped && attempts > 0 {
			old.Set(new)
			if f.Rev > 0 && r.Revs != nil {
				r.Revs[f.Rev-1] = later.rev(f)
			}
			continue
		}

		if f.Rule == Follows || !r.takes(f, later) { // Follows is copied with its field, below
			continue
		}
		old.Set(new)
		if f.Rev > 0 && later.rev(f) != NoRevision {
			r.Revs[f.Rev-1] = later.rev(f)
		}
		for _, follower := range fields {
			if follower.Of == f {
				follower.In(r.Change).Set(follower.In(later.Change))
			}
		}
	}

	r.addCut(later.Cut)
	r.Contents = append(r.Contents, later.Contents...)
}

func (r *Row) addCut(names []string) {
	for _, name := range names {
		if !slices.Contains(r.Cut, name) {
			r.Cut = append(r.Cut, name)
		}
	}
}

func (r *Row) rev(f *Field) int64 {
	if r.Revs == nil {
		return NoRevision
	}
	return r.Revs[f.Rev-1]
}

// compareAttempts is positive if later belongs to a higher attempt than r. A change that
// names no attempt belongs to the first: if it belonged to the present one, the result
// would depend on when it arrives.
func (r *Row) compareAttempts(later *Row) int {
	f := attemptField(r.Change.Kind())
	if f == nil {
		return 0
	}
	return cmp.Compare(attempt(f, later.Change), attempt(f, r.Change))
}

func attempt(f *Field, c record.Change) int64 {
	if v := f.In(c); !v.IsNil() {
		return v.Elem().Int()
	}
	return 1
}

// ownAttempt returns what r says about its own attempt, as it is kept in Past, or nil if it
// says nothing.
func (r *Row) ownAttempt() *Row {
	p := &Row{Change: record.New(r.Change.Kind())}
	number := attemptField(r.Change.Kind())
	hasOwn := !number.In(r.Change).IsZero()
	for _, f := range Fields(r.Change.Kind()) {
		v := f.In(r.Change)
		if !f.Key && !f.Scoped || v.IsZero() {
			continue
		}

		f.In(p.Change).Set(v)
		hasOwn = hasOwn || f.Scoped
		if f.Rev > 0 && r.rev(f) != NoRevision {
			if p.Revs == nil {
				p.Revs = noRevisions(r.Change.Kind())
			}
			p.Revs[f.Rev-1] = r.rev(f)
		}
	}

	if !hasOwn {
		return nil
	}
	number.In(p.Change).Set(reflect.ValueOf(new(attempt(number, r.Change))))
	p.shortenTexts()
	return p
}

// shortenTexts bounds the texts of an attempt in Past.
func (r *Row) shortenTexts() {
	for _, f := range Fields(r.Change.Kind()) {
		if s, ok := f.Text(r.Change); ok && f.Scoped && len(s) > record.MaxAttemptTextBytes {
			f.In(r.Change).Set(reflect.ValueOf(new(Shorten(s, record.MaxAttemptTextBytes))))
		}
	}
}

// addPast adds an attempt to Past, or to what Past has of it. p may be nil.
func (r *Row) addPast(p *Row) {
	if p == nil {
		return
	}

	i, found := slices.BinarySearchFunc(r.Past, p, func(at, p *Row) int { return p.compareAttempts(at) })
	if found {
		r.Past[i].Learn(p)
		return
	}
	r.Past = slices.Insert(r.Past, i, p)
	r.Past = r.Past[max(0, len(r.Past)-record.MaxPastAttempts):]
}

// takes reports whether the later value of a field replaces r's.
func (r *Row) takes(f *Field, later *Row) bool {
	old, new := f.In(r.Change), f.In(later.Change)
	switch {
	case new.IsZero():
		return false
	case old.IsZero():
		return true
	}

	order := f.compare(new, old)
	switch f.Rule {
	case Least:
		return order < 0
	case Greatest, Attempt:
		return order > 0
	case Forward:
		if c := cmp.Compare(finality(new), finality(old)); c != 0 {
			return c > 0
		}
	}

	switch newRev, oldRev := later.rev(f), r.rev(f); {
	case newRev == NoRevision:
		return order != 0
	case newRev != oldRev:
		return newRev > oldRev
	default: // two values of one revision: any rule will do that is the same everywhere
		return order > 0
	}
}

// finality orders states by how final they are: live, unknown, cut off, and then every
// real outcome. actlog.settles does the same in SQL.
func finality(state reflect.Value) int {
	switch s := record.State(state.Elem().String()); {
	case !s.Terminal():
		return 0
	case s == record.Unknown:
		return 1
	case s == record.Interrupted:
		return 2
	default:
		return 3
	}
}

// Equal reports whether two values of the field are the same. Both are set.
func (f *Field) Equal(a, b reflect.Value) bool { return f.compare(a, b) == 0 }

// compare orders two values of the field as the database does.
func (f *Field) compare(a, b reflect.Value) int {
	if a.Kind() == reflect.Pointer {
		a, b = a.Elem(), b.Elem()
	}

	switch f.Type {
	case Int:
		return cmp.Compare(a.Int(), b.Int())
	case Float:
		return cmp.Compare(a.Float(), b.Float())
	case Bool:
		return cmp.Compare(strconv.FormatBool(a.Bool()), strconv.FormatBool(b.Bool()))
	case Time:
		return a.Interface().(time.Time).Compare(b.Interface().(time.Time))
	case Texts:
		return slices.Compare(a.Interface().([]string), b.Interface().([]string))
	case JSON:
		return bytes.Compare(a.Bytes(), b.Bytes())
	default:
		return cmp.Compare(a.String(), b.String())
	}
}

// Replace returns r with what a source says now in place of what it said before. Values of
// r that the source did not say before belong to others and stay. before and now may be
// nil: the source said nothing, or says nothing any more. Sources know no attempts: what they
// say counts for the first one if that is on record, else for the row's own.
func (r *Row) Replace(before, now *Row) *Row {
	out := r.Clone()
	scoped := out
	if len(out.Past) > 0 && attempt(attemptField(r.Change.Kind()), out.Past[0].Change) == 1 {
		scoped = out.Past[0]
	}

	value := func(row *Row, f *Field) reflect.Value {
		if row == nil {
			return reflect.Zero(f.In(r.Change).Type())
		}
		return f.In(row.Change)
	}

	for _, f := range Fields(r.Change.Kind()) {
		owner := f
		if f.Of != nil {
			owner = f.Of
		}
		if f.Rule == Fixed {
			continue
		}

		from, to := r, out
		if f.Scoped {
			from, to = scoped, scoped
		}
		if stands := owner.In(from.Change); stands.IsZero() || owner.cameFrom(value(before, owner), stands) {
			f.In(to.Change).Set(value(now, f))
		}
	}

	if scoped != out {
		scoped.shortenTexts()
	}
	if now != nil {
		out.addCut(now.Cut)
		out.Contents = append(out.Contents, now.Contents...)
	}
	return out
}

// cameFrom reports whether the current value is the one of a source. Only a source
// writes UNKNOWN: nobody else closes what fell silent.
func (f *Field) cameFrom(source, current reflect.Value) bool {
	switch {
	case source.IsZero():
		return false
	case f.Rule == Forward && record.State(current.Elem().String()) == record.Unknown:
		return true
	}
	return f.Equal(current, source)
}

// Clone returns a copy whose fields can be set without changing r.
func (r *Row) Clone() *Row {
	out := &Row{
		Change: CloneChange(r.Change), Revs: slices.Clone(r.Revs), Cut: slices.Clone(r.Cut),
		Contents: slices.Clone(r.Contents),
	}
	for _, p := range r.Past {
		out.Past = append(out.Past, p.Clone())
	}
	return out
}
