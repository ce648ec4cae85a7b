package field

import (
	"reflect"

	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/record"
)

// CutTexts puts marks in place of long texts, and their pieces and contents beside them. From then on
// rows are merged by their marks, here as in the database.
func (r *Row) CutTexts(z content.Sizes) {
	for _, f := range InPieces(r.Change.Kind()) {
		text, ok := f.Text(r.Change)
		if !ok || !z.Cuts(text) {
			continue
		}

		pieces, contents := z.CutText(text)
		f.In(r.Change).Set(reflect.ValueOf(new(content.Mark(text))))
		f.Pieces.In(r.Change).Set(reflect.ValueOf(content.Bytes(pieces)))
		r.Contents = append(r.Contents, contents...)
	}
}

// pieces returns the pieces of the text of c, if it is stored in pieces.
func (f *Field) pieces(c record.Change) (pieces [][]byte, ok bool) {
	if f.Pieces == nil {
		return nil, false
	}
	pieces = f.Pieces.In(c).Interface().([][]byte)
	text, _ := f.Text(c)
	return pieces, pieces != nil && content.IsMark(text)
}

// HideMarks leaves only the pieces of a text that is stored in pieces, and only the text of another one: so readers see
// it.
func HideMarks(c record.Change) {
	for _, f := range InPieces(c.Kind()) {
		if _, ok := f.pieces(c); ok {
			f.In(c).SetZero()
		} else {
			f.Pieces.In(c).SetZero()
		}
	}
}

// JoinTexts puts the texts that join makes in place of pieces, whether there is a mark beside them or nothing. Beside
// another text, pieces say nothing.
func JoinTexts(c record.Change, join func(f *Field, pieces []content.Hash) (string, error)) error {
	for _, f := range InPieces(c.Kind()) {
		pieces, ok := f.pieces(c)
		if ok || pieces != nil && f.In(c).IsZero() {
			text, err := join(f, content.Hashes(pieces))
			if err != nil {
				return err
			}
			f.In(c).Set(reflect.ValueOf(&text))
		}
		f.Pieces.In(c).SetZero()
	}
	return nil
}

// Named returns the contents that the row names directly.
func (r *Row) Named() (hashes [][]byte) {
	for _, f := range InPieces(r.Change.Kind()) {
		if text, ok := f.Text(r.Change); ok && content.IsMark(text) {
			hashes = append(hashes, f.Pieces.In(r.Change).Interface().([][]byte)...)
		}
	}
	return hashes
}
