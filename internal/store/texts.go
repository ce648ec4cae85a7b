package store

import (
	"errors"

	"github.com/actlog/actlog/internal/content"
	"github.com/actlog/actlog/internal/fieldsql"
	"github.com/actlog/actlog/record"
)

// kindContent is the kind of rows with contents in a statement of sections.
const kindContent record.Kind = "content"

// contentSection reads the contents that the cycles of a statement name, each once. from selects the cycles, as c.
func contentSection(from string) fieldsql.Section {
	return fieldsql.Section{
		Kind: kindContent,
		Columns: []fieldsql.Column{
			{Name: "hash", Type: "bytea", SQL: "k.hash"},
			{Name: "parts", Type: "bytea[]", SQL: "k.parts"},
			{Name: "body", Type: "text", SQL: "k.body"},
		},
		From: `FROM actlog.contents_of((SELECT root_plan_id FROM asked), $2::date, ARRAY(
    SELECT unnest(c.think_input_parts)
    ` + from + ` AND c.think_input_parts IS NOT NULL
)) AS k`,
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

// contentRow is what a row of a content fills.
type contentRow struct {
	Hash  []byte
	Parts [][]byte
	Body  string
}

// next makes room for the next content.
func (t *texts) next() *contentRow {
	t.row = contentRow{}
	return &t.row
}

// read takes the content that was read into next, if one was.
func (t *texts) read() {
	if t.row.Hash == nil {
		return
	}
	c := content.Content{Hash: content.KeptHash(t.row.Hash), Body: t.row.Body}
	if t.row.Parts != nil {
		c.Parts = content.Hashes(t.row.Parts)
	}
	if t.all == nil {
		t.all = content.Texts{}
	}
	t.all.Add(c)
	t.bytes += c.Bytes()
	t.row = contentRow{}
}

// fill puts the prompt of a cycle in place of its mark, if it was read as it is kept. It asks for room.
func (t *texts) fill(c *record.ThinkAct, room Room) error {
	if c.ThinkInputParts == nil {
		return nil
	}
	if c.ThinkInput != nil && content.IsMark(*c.ThinkInput) {
		parts := content.Hashes(c.ThinkInputParts)
		if room != nil {
			if err := room(int64(t.all.Bytes(parts))); err != nil {
				return err
			}
		}
		c.ThinkInput = new(t.all.Text(parts))
	}
	c.ThinkInputParts = nil
	return nil
}
