package field

import (
	"cmp"
	"reflect"
	"slices"

	"github.com/actlog/actlog/record"
)

// maxExportBytes bounds the texts of one change of [Row.Changes], unless a single text is
// longer. Escaped as JSON they take up to six times as much, and a request holds 64 MiB.
const maxExportBytes = 8 << 20

// Changes returns changes that make the row again where nothing of it is on record, and
// alter nothing where it is: one change for each revision that its fields have, so that any
// other change to the row has the same effect as before. A step whose plan is unknown has
// none; its cycles make it.
//
// A value that was cut is exported longer than its limit, so that it is cut at the same
// place, and named as cut, again. Earlier attempts come first. What a text in parts needs for that beside
// what it is kept in is added to Contents.
func (r *Row) Changes() (changes []record.Change) {
	if step, ok := r.Change.(*record.AgentExecution); ok && step.PlanID == "" {
		return nil
	}
	for _, p := range r.Past {
		changes = append(changes, p.ownChanges(r.Change)...)
	}
	return append(changes, r.ownChanges(r.Change)...)
}

// ownChanges returns the changes without those of earlier attempts. whole has what every change
// to the row must say.
func (r *Row) ownChanges(whole record.Change) []record.Change {
	var parts []*exportPart
	at := func(rev int64, bytes int) record.Change {
		for _, p := range parts {
			if p.rev == rev && (p.bytes == 0 || p.bytes+bytes <= maxExportBytes) {
				p.bytes += bytes
				return p.change
			}
		}
		parts = append(parts, &exportPart{change: r.skeleton(rev, whole), rev: rev, bytes: bytes})
		return parts[len(parts)-1].change
	}

	fields := Fields(r.Change.Kind())
	cut := StillCut(r.Change, r.Cut)
	for _, f := range fields {
		if v := f.In(r.Change); f.Rev > 0 && !v.IsZero() {
			bytes := textBytes(v)
			if f.Pieces != nil { // the same, whether it was read whole or as it is kept
				bytes = f.limit
			}

			c := at(r.rev(f), bytes)
			f.In(c).Set(v)
			if parts, ok := f.pieces(r.Change); ok {
				f.Pieces.In(c).Set(reflect.ValueOf(parts))
			}
			if slices.Contains(cut, f.Name) {
				r.overfill(f, c)
			}
		}
	}

	if len(parts) == 0 {
		at(NoRevision, 0)
	}
	slices.SortStableFunc(parts, func(a, b *exportPart) int { return cmp.Compare(a.rev, b.rev) })

	changes := make([]record.Change, len(parts))
	for i, p := range parts {
		changes[i] = p.change
	}
	for _, f := range fields { // times have no revision
		if f.Rule == Least || f.Rule == Greatest {
			f.In(changes[0]).Set(f.In(r.Change))
		}
	}
	return changes
}

// exportPart is a change of [Row.Changes] in the making.
type exportPart struct {
	change record.Change
	rev    int64
	bytes  int
}

// skeleton returns a change with what every change to the row must say.
func (r *Row) skeleton(rev int64, whole record.Change) record.Change {
	c := record.New(r.Change.Kind())

	for _, f := range Fields(c.Kind()) {
		switch {
		case f.Role == Revision && rev != NoRevision:
			f.In(c).Set(reflect.ValueOf(&rev))
		case f.Key, f.Required:
			f.In(c).Set(f.In(whole))
		case f.Rule == Attempt:
			f.In(c).Set(f.In(r.Change))
		}
	}
	return c
}

func textBytes(v reflect.Value) (n int) {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}

	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Slice:
		if list, ok := v.Interface().([]string); ok {
			for _, s := range list {
				n += len(s)
			}
			return n
		}
		return v.Len()
	}
	return 0
}
