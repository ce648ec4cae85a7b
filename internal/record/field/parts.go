package field

import (
	"reflect"

	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/record"
)

// CutTexts puts marks in place of long texts, and their parts and contents beside them. From then on
// rows are merged by their marks, here as in the database.
func (r *Row) CutTexts(z content.Sizes) {
	for _, f := range tables[r.Change.Kind()].inParts {
		text, ok := f.Text(r.Change)
		if !ok || !z.Cuts(text) {
			continue
		}

		parts, contents := z.CutText(text)
		f.In(r.Change).Set(reflect.ValueOf(new(content.Mark(text))))
		f.Parts.In(r.Change).Set(reflect.ValueOf(content.Bytes(parts)))
		r.Contents = append(r.Contents, contents...)
	}
}

// kept returns the parts of the text of c, if it is kept in parts.
func (f *Field) kept(c record.Change) (parts [][]byte, ok bool) {
	if f.Parts == nil {
		return nil, false
	}
	parts = f.Parts.In(c).Interface().([][]byte)
	text, _ := f.Text(c)
	return parts, parts != nil && content.IsMark(text)
}

// HideMarks leaves only the parts of a text that is kept in parts, and only the text of another one: so readers see it.
func HideMarks(c record.Change) {
	for _, f := range tables[c.Kind()].inParts {
		if _, ok := f.kept(c); ok {
			f.In(c).SetZero()
		} else {
			f.Parts.In(c).SetZero()
		}
	}
}

// JoinTexts puts the texts that join makes in place of parts, whether there is a mark beside them or nothing. Beside
// another text, parts say nothing.
func JoinTexts(c record.Change, join func(f *Field, parts []content.Hash) (string, error)) error {
	for _, f := range tables[c.Kind()].inParts {
		parts, ok := f.kept(c)
		if ok || parts != nil && f.In(c).IsZero() {
			text, err := join(f, content.Hashes(parts))
			if err != nil {
				return err
			}
			f.In(c).Set(reflect.ValueOf(&text))
		}
		f.Parts.In(c).SetZero()
	}
	return nil
}

// Named returns the contents that the row names directly.
func (r *Row) Named() (hashes [][]byte) {
	for _, f := range tables[r.Change.Kind()].inParts {
		if text, ok := f.Text(r.Change); ok && content.IsMark(text) {
			hashes = append(hashes, f.Parts.In(r.Change).Interface().([][]byte)...)
		}
	}
	return hashes
}
