package field

import (
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/record"
)

// StillCut returns the fields of c whose present value was cut, sorted and never nil. names
// are those that were ever cut; a field whose value was replaced by a shorter one since is
// left out.
func StillCut(c record.Change, names []string) []string {
	still := []string{}
	for _, name := range names {
		if f := ByName(c.Kind(), name); f != nil && f.mayBeCut(c) {
			still = append(still, name)
		}
	}
	slices.Sort(still)
	return slices.Compact(still)
}

// mayBeCut reports whether the value in c could be what is left of a longer one.
func (f *Field) mayBeCut(c record.Change) bool {
	switch v := f.In(c); {
	case v.IsZero():
		return false
	case f.Type == Texts:
		list := v.Interface().([]string)
		return len(list) >= record.MaxListItems || slices.ContainsFunc(list, f.full)
	case f.Type == JSON:
		return v.Bytes()[0] == '"' // see quoteShortened
	default:
		if _, ok := f.pieces(c); ok { // the statement that read the mark has looked at the text
			return true
		}
		s, _ := f.Text(c)
		return f.full(s)
	}
}

// FullBytes is how long a text is, at least, that could be what is left of a longer one: a cut at a
// character boundary leaves at most three bytes unused.
func (f *Field) FullBytes() int { return f.limit - utf8.UTFMax + 1 }

func (f *Field) full(s string) bool { return len(s) >= f.FullBytes() }

// overflow takes more bytes than a cut at a character boundary leaves unused.
const overflow = "\U0010FFFF"

// overfill makes a field of c, which was cut, longer than its limit again: a reader of c then cuts it
// at the same place. r has the counts of the uncut text, and gets the content that a text in parts is
// longer by.
func (r *Row) overfill(f *Field, c record.Change) {
	switch v := f.In(c); f.Type {
	case Text:
		if parts, ok := f.pieces(c); ok {
			more := content.Content{Hash: content.HashOf(overflow), Body: overflow}
			f.Pieces.In(c).Set(reflect.ValueOf(append(slices.Clip(parts), more.Hash[:])))
			r.Contents = append(r.Contents, more)
			break
		}

		s, _ := f.Text(c)
		v.Set(reflect.ValueOf(new(s + overflow)).Convert(v.Type()))
	case Texts:
		list := slices.Clone(v.Interface().([]string))
		for i, s := range list {
			if f.full(s) {
				list[i] = s + overflow
			}
		}
		if len(list) >= record.MaxListItems {
			list = append(list, "")
		}
		v.Set(reflect.ValueOf(list))
	}

	// JSON that was cut is a string already, see wasCut.
	if out, ok := c.(*record.ThinkAct); ok {
		from := r.Change.(*record.ThinkAct)
		switch {
		case f.Name == "thinkInput" && from.InputCharCount == nil:
			out.InputCharCount = from.ThinkInputChars
		case f.Name == "thinkOutput" && from.OutputCharCount == nil:
			out.OutputCharCount = from.ThinkOutputChars
		}
	}
}
