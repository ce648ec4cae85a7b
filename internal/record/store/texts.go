package store

import (
	"bytes"
	"errors"
	"maps"
	"slices"

	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/record"
)

// kindContent is the kind of rows with contents in a statement of sections.
const kindContent record.Kind = "content"

// contentSection reads the contents that the cycles of a statement name, each once. from selects the cycles, as c; root
// and partition say where they lie.
func contentSection(root, partition, from string) fieldsql.Section {
	return fieldsql.Section{
		Kind: kindContent,
		Columns: []fieldsql.Column{
			{Name: "hash", Type: "bytea", SQL: "k.hash"},
			{Name: "parts", Type: "bytea[]", SQL: "k.parts"},
			{Name: "body", Type: "text", SQL: "k.body"},
		},
		From: `FROM actlog.contents_of(` + root + `, ` + partition + `, ARRAY(
    SELECT unnest(c.think_input_parts)
    ` + from + ` AND c.think_input_parts IS NOT NULL
)) AS k`,
		Sort: []fieldsql.Column{{Name: "by_hash", Type: "bytea", SQL: "k.hash"}},
	}
}

// maxHeldContents is how much of contents is held while a step is streamed.
const maxHeldContents = 8 << 20

// errManyContents means that a step has more.
var errManyContents = errors.New("the step has more contents than can be held")

// texts collects contents from rows, and puts texts together from them.
type texts struct {
	all   content.Texts
	bytes int
	row   contentRow // is being read
}

type contentRow struct {
	Hash  []byte
	Parts [][]byte
	Body  string
}

// content returns the content of a row; ok is false if the row was not filled.
func (r *contentRow) content() (c content.Content, ok bool) {
	if r.Hash == nil {
		return c, false
	}
	c = content.Content{Hash: content.HashFromBytes(r.Hash), Body: r.Body}
	if r.Parts != nil {
		c.Pieces = content.Hashes(r.Parts)
	}
	return c, true
}

// next makes room for the next content.
func (t *texts) next() *contentRow {
	t.row = contentRow{}
	return &t.row
}

// read takes the content that was read into next, if one was.
func (t *texts) read() {
	c, ok := t.row.content()
	if !ok {
		return
	}

	if t.all == nil {
		t.all = content.Texts{}
	}
	t.all.Add(c)
	t.bytes += c.Bytes()
	t.row = contentRow{}
}

func (t *texts) sorted() []content.Content {
	return slices.SortedFunc(maps.Values(t.all), func(a, b content.Content) int {
		return bytes.Compare(a.Hash[:], b.Hash[:])
	})
}

// fill puts the texts of a row that was read as it is stored in place of their marks. It asks for room.
func (t *texts) fill(c record.Change, room Room) error {
	return field.JoinTexts(c, func(_ *field.Field, parts []content.Hash) (string, error) {
		if room != nil {
			if err := room(int64(t.all.Bytes(parts))); err != nil {
				return "", err
			}
		}
		return t.all.Text(parts), nil
	})
}
