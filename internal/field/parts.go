package field

import (
	"reflect"

	"github.com/actlog/actlog/internal/content"
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

// Named returns the contents that the row names directly.
func (r *Row) Named() (hashes [][]byte) {
	for _, f := range tables[r.Change.Kind()].inParts {
		if text, ok := f.Text(r.Change); ok && content.IsMark(text) {
			hashes = append(hashes, f.Parts.In(r.Change).Interface().([][]byte)...)
		}
	}
	return hashes
}
