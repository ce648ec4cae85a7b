package store

import (
	"errors"

	"github.com/actlog/actlog/internal/content"
	"github.com/actlog/actlog/internal/fieldsql"
	"github.com/actlog/actlog/record"
)

// kindContent is the kind of rows with contents in a statement of sections.
const kindContent record.Kind = "content"

// contentsOf returns what follows the start of a statement, see asked, so that it has cycle, the cycles
// that from selects, and named, the contents that they name directly. $2 is the part.
func contentsOf(from string) string {
	return `, cycle AS MATERIALIZED (
    SELECT c.*
    ` + from + `
), named AS MATERIALIZED (
    SELECT found.*
    FROM (SELECT DISTINCT u.hash FROM cycle CROSS JOIN LATERAL unnest(cycle.think_input_parts) AS u (hash)) AS n
    CROSS JOIN LATERAL (
        SELECT c.hash, c.parts, c.body
        FROM actlog.content AS c
        WHERE c.root_plan_id = (SELECT root_plan_id FROM asked) AND c.hash = n.hash AND c.part = $2::date
        OFFSET 0 -- else Postgres may read the whole partition, to look the contents up in memory
    ) AS found
)
`
}

// contentSections read the contents of a statement that has those of contentsOf: first those that are
// named directly, then the pieces of pages.
var contentSections = []fieldsql.Section{
	{Kind: kindContent, Columns: contentColumnsOf("n"), From: "FROM named AS n"},
	{Kind: kindContent, Columns: contentColumnsOf("found"), From: `FROM (SELECT DISTINCT u.hash FROM named CROSS JOIN LATERAL unnest(named.parts) AS u (hash)) AS n
CROSS JOIN LATERAL (
    SELECT c.hash, c.parts, c.body
    FROM actlog.content AS c
    WHERE c.root_plan_id = (SELECT root_plan_id FROM asked) AND c.hash = n.hash AND c.part = $2::date
    OFFSET 0
) AS found`},
}

func contentColumnsOf(alias string) []fieldsql.Column {
	return []fieldsql.Column{
		{Name: "hash", Type: "bytea", SQL: alias + ".hash"},
		{Name: "parts", Type: "bytea[]", SQL: alias + ".parts"},
		{Name: "body", Type: "text", SQL: alias + ".body"},
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
	c := content.Content{Hash: content.Hash(t.row.Hash), Body: t.row.Body}
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
	if content.IsMark(*c.ThinkInput) {
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
