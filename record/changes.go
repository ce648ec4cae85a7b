package record

import (
	"cmp"
	"reflect"
	"slices"
	"unicode/utf8"
)

// Changes gives changes that, told where nothing is known of the row, make it
// again, and where it is known, change nothing: one for each revision that its
// fields were told at, so that whatever else is told of it meets what it would have
// met before. There is none for a step whose plan no one has told; cycles make such
// a step.
//
// What was cut has something behind it that does not fit: it is cut at the same
// place, and named, again.
func (r *Row) Changes() []Change {
	if step, ok := r.Change.(*AgentExecution); ok && step.PlanID == "" {
		return nil
	}
	var told []*retold
	at := func(rev int64, bytes int) Change {
		for _, t := range told {
			if t.rev == rev && (t.bytes == 0 || t.bytes+bytes <= maxRetoldBytes) {
				t.bytes += bytes
				return t.change
			}
		}
		told = append(told, &retold{change: r.retell(rev), rev: rev, bytes: bytes})
		return told[len(told)-1].change
	}
	fields := tables[r.Change.Kind()]
	cut := StillCut(r.Change, r.Cut)
	for i := range fields {
		f := &fields[i]
		if v := f.In(r.Change); f.Rev > 0 && !v.IsZero() {
			c := at(r.rev(f), textBytes(v))
			f.In(c).Set(v)
			if slices.Contains(cut, f.Name) {
				f.overfill(c, r.Change)
			}
		}
	}
	slices.SortStableFunc(told, func(a, b *retold) int { return cmp.Compare(a.rev, b.rev) })
	if len(told) == 0 {
		at(NoRevision, 0)
	}
	changes := make([]Change, len(told))
	for i, t := range told {
		changes[i] = t.change
	}
	for i := range fields { // times go by no revision
		if f := &fields[i]; f.Rule == Least || f.Rule == Greatest {
			f.In(changes[0]).Set(f.In(r.Change))
		}
	}
	return changes
}

// maxRetoldBytes bounds the texts of a change of [Row.Changes], or it may hold one
// that is longer: escaped as JSON they take up to six times as much, and a request
// holds 64 MiB.
const maxRetoldBytes = 8 << 20

// retold is a change of [Row.Changes] in the making.
type retold struct {
	change Change
	rev    int64
	bytes  int
}

// retell gives a change that says what each one about the row must.
func (r *Row) retell(rev int64) Change {
	c := New(r.Change.Kind())
	fields := tables[c.Kind()]
	for i := range fields {
		switch f := &fields[i]; {
		case f.Name == "rev" && rev != NoRevision:
			f.In(c).Set(reflect.ValueOf(&rev))
		case f.Key, f.Required, f.Rule == Attempt:
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
		if texts, ok := v.Interface().([]string); ok {
			for _, s := range texts {
				n += len(s)
			}
			return n
		}
		return v.Len()
	}
	return 0
}

// overflow takes more bytes than a cut at a character boundary leaves unused.
const overflow = "\U0010FFFF"

// overfill makes the field of c, which is what is left of a longer value, longer
// again. row is where the count of the characters of the whole is.
func (f *Field) overfill(c, row Change) {
	switch v := f.In(c); f.Type {
	case Text:
		s, _ := f.Text(c)
		v.Set(reflect.ValueOf(new(s + overflow)).Convert(v.Type()))
	case Texts:
		texts := slices.Clone(v.Interface().([]string))
		for i, s := range texts {
			if f.full(s) {
				texts[i] = s + overflow
			}
		}
		if len(texts) >= MaxListItems {
			texts = append(texts, "")
		}
		v.Set(reflect.ValueOf(texts))
	}
	// A string stands for JSON that was cut, see wasCut.
	if told, ok := c.(*ThinkAct); ok {
		whole := row.(*ThinkAct)
		switch {
		case f.Name == "thinkInput" && whole.InputCharCount == nil:
			told.InputCharCount = whole.ThinkInputChars
		case f.Name == "thinkOutput" && whole.OutputCharCount == nil:
			told.OutputCharCount = whole.ThinkOutputChars
		}
	}
}

// full tells whether a text could be what is left of a longer one: a cut at a
// character boundary leaves at most three bytes unused.
func (f *Field) full(s string) bool { return len(s) >= f.limit-utf8.UTFMax+1 }
