package record

import (
	"bytes"
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"time"
)

// NoRevision stands in [Row.Revs] where a field was told without a revision, or
// not at all.
const NoRevision int64 = -1

// Row is what one or more changes to one key say together.
type Row struct {
	Change Change
	// Revs holds the revision of each field that has one, by [Field.Rev] - 1; nil
	// where no change came with a revision.
	Revs []int64
	// Cut names the fields whose values were cut.
	Cut []string
}

// NewRow cleans a change and makes a row of it. The error is an [*InvalidError].
func NewRow(c Change) (*Row, error) {
	clean, cut, err := Clean(c)
	if err != nil {
		return nil, err
	}
	r := &Row{Change: clean, Cut: cut}
	rev := clean.Revision()
	if rev == nil {
		return r, nil
	}
	r.Revs = slices.Repeat([]int64{NoRevision}, Revisions(clean.Kind()))
	fields := tables[clean.Kind()]
	for i := range fields {
		f := &fields[i]
		if f.Rev > 0 && !f.In(clean).IsZero() {
			r.Revs[f.Rev-1] = *rev
		}
	}
	return r, nil
}

// Placeholder makes the row of a parent that is known by its key only.
func Placeholder(c Change) *Row { return &Row{Change: c} }

// Learn adds to r what a later arrival says about the same key. The statements
// of the write path do the same to the row in the database.
func (r *Row) Learn(later *Row) {
	fields := tables[r.Change.Kind()]
	attempts := r.compareAttempts(later)
	if r.Revs == nil && later.Revs != nil {
		r.Revs = slices.Repeat([]int64{NoRevision}, len(later.Revs))
	}
	for i := range fields {
		f := &fields[i]
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
		if f.Rule == Follows { // decided with its text, below
			continue
		}
		if !r.takes(f, later) {
			continue
		}
		old.Set(new)
		if f.Rev > 0 && later.rev(f) != NoRevision {
			r.Revs[f.Rev-1] = later.rev(f)
		}
		for j := range fields {
			if fields[j].Of == f {
				fields[j].In(r.Change).Set(fields[j].In(later.Change))
			}
		}
	}
	for _, name := range later.Cut {
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

// compareAttempts is positive where later speaks of a higher attempt than r. A
// change that names none speaks of the first: were it the present one, what it
// says would depend on when it arrives.
func (r *Row) compareAttempts(later *Row) int {
	fields := tables[r.Change.Kind()]
	for i := range fields {
		if f := &fields[i]; f.Rule == Attempt {
			return cmp.Compare(attempt(f, later.Change), attempt(f, r.Change))
		}
	}
	return 0
}

func attempt(f *Field, c Change) int64 {
	if v := f.In(c); !v.IsNil() {
		return v.Elem().Int()
	}
	return 1
}

// takes tells whether the later value of a field replaces r's.
func (r *Row) takes(f *Field, later *Row) bool {
	old, new := f.In(r.Change), f.In(later.Change)
	switch {
	case new.IsZero():
		return false
	case old.IsZero():
		return true
	}
	order := compareValues(f, new, old)
	switch f.Rule {
	case Least:
		return order < 0
	case Greatest, Attempt:
		return order > 0
	case Forward:
		if c := cmp.Compare(State(new.Elem().String()).rank(), State(old.Elem().String()).rank()); c != 0 {
			return c > 0
		}
	}
	switch newRev, oldRev := later.rev(f), r.rev(f); {
	case newRev == NoRevision:
		return order != 0
	case newRev != oldRev:
		return newRev > oldRev
	default: // two things said at once: any rule will do that is the same everywhere
		return order > 0
	}
}

// Equal tells whether two told values of the field are the same.
func (f *Field) Equal(a, b reflect.Value) bool { return compareValues(f, a, b) == 0 }

// compareValues orders two told values of a field as the database does.
func compareValues(f *Field, a, b reflect.Value) int {
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

// Clone gives a row that can learn without r noticing.
func (r *Row) Clone() *Row {
	c := New(r.Change.Kind())
	reflect.ValueOf(c).Elem().Set(reflect.ValueOf(r.Change).Elem())
	return &Row{Change: c, Revs: slices.Clone(r.Revs), Cut: slices.Clone(r.Cut)}
}
