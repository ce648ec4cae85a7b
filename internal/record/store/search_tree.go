package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/search"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/record"
)

// TreeSearch says what to look for in rows of a tree.
type TreeSearch struct {
	RootPlanID string
	// Keys are those of the rows: plans, steps, cycles, tool calls and waits. The answer has their order.
	Keys []record.Key
	// Text is what their texts have. The error of a wrong one is for field q.
	Text string
	// Skip is how many hits of the first row are left out.
	Skip int
	// Most is how many hits are returned, and Time how long Postgres may read. One row is always read.
	Most int
	Time time.Duration
}

// Hit is a text that has what was looked for.
type Hit struct {
	Row int // place in the keys
	// Kind is of what has the text: the row, or what stands beside a plan: a thought, an artifact or a source. ID is
	// the id of those, and StepID the step that they belong to; each may be empty.
	Kind       record.Kind
	ID, StepID string
	Field      string
	search.Snippet
}

// Unread is where a search ended before it had looked at everything: before a row, or after some of its hits.
type Unread struct{ Row, Skip int }

const (
	// firstFound and mostFound are how many rows are read at once: few at first, because the first may have all
	// hits of a page, and twice as many each time.
	firstFound = 256
	mostFound  = 4096
)

// SearchTree returns the first hits in rows of a tree, in their order; of a plan, those in what stands beside it come
// after its own. rest is nil if all rows were read. It reads the rows one by one, by their keys, and compares the texts
// here: Postgres knows no form of texts in which case, accents and escapes make no difference.
func (r *Reader) SearchTree(ctx context.Context, f TreeSearch) (hits []Hit, rest *Unread, err error) {
	needle, err := search.NewNeedle(f.Text)
	if err != nil {
		return nil, nil, &record.InvalidError{Code: record.CodeInvalidValue, Field: "q", Reason: err.Error()}
	}

	end := time.Now().Add(f.Time)
	for from, most := 0, firstFound; from < len(f.Keys); most = min(2*most, mostFound) {
		keys := f.Keys[from:min(from+most, len(f.Keys))]
		found, read, err := r.searchRows(ctx, needle, f.RootPlanID, keys, time.Until(end))
		if err != nil {
			return nil, nil, fmt.Errorf("search in %s: %w", f.RootPlanID, err)
		}

		for i := range found {
			found[i].Row += from
		}
		if from == 0 {
			found = skip(found, f.Skip)
		}
		hits = append(hits, found...)
		from += read

		if len(hits) > f.Most {
			return hits[:f.Most], after(hits[:f.Most], f.Skip), nil
		}
		if from < len(f.Keys) && !time.Now().Before(end) {
			return hits, &Unread{Row: from}, nil
		}
	}
	return hits, nil, nil
}

// skip leaves out hits of the first row.
func skip(hits []Hit, n int) []Hit {
	for n > 0 && len(hits) > 0 && hits[0].Row == 0 {
		hits, n = hits[1:], n-1
	}
	return hits
}

// after returns the place after the last of some hits. Of the first row, skipped were left out before them.
func after(hits []Hit, skipped int) *Unread {
	last := hits[len(hits)-1].Row
	u := &Unread{Row: last}
	if last == 0 {
		u.Skip = skipped
	}
	for i := len(hits) - 1; i >= 0 && hits[i].Row == last; i-- {
		u.Skip++
	}
	return u
}

// searchRows looks for a needle in rows, for a time. read is how many of the rows it has read: at least one.
func (r *Reader) searchRows(
	ctx context.Context, needle search.Needle, root string, keys []record.Key, left time.Duration,
) (hits []Hit, read int, err error) {
	kinds, c := make([]string, len(keys)), columnsOf(keys)
	for i, k := range keys {
		kinds[i] = string(k.Kind)
	}

	hits, err = pg.Read(ctx, r.db, func() (hits []Hit, err error) {
		read = len(keys)
		rows, err := r.db.Query(ctx, rowTexts, root, kinds, c.parents, c.seqs, c.ids, max(left, 0).Milliseconds())
		if err != nil {
			return nil, err
		}
		defer rows.Close()

		var taken int64 // the memory of the largest row; a row does not stay
		for rows.Next() {
			var place int
			var late bool
			var kind, id, step *string
			var texts []*string
			var attempts []byte
			if err := rows.Scan(&place, &late, &kind, &id, &step, &texts, &attempts); err != nil {
				return nil, err
			}

			if late {
				read = min(read, place)
				continue
			}

			var bytes int64
			for _, value := range rows.RawValues() {
				bytes += int64(len(value))
			}
			if bytes > taken && r.within != nil {
				if err := r.within(bytes - taken); err != nil {
					return nil, err
				}
				taken = bytes
			}

			hit := Hit{Row: place, Kind: record.Kind(*kind), ID: optional.Value(id), StepID: optional.Value(step)}
			if hits, err = addRowHits(hits, hit, field.Worded(hit.Kind), needle, texts, attempts); err != nil {
				return nil, err
			}
		}
		return hits, rows.Err()
	})

	hits = slices.DeleteFunc(hits, func(h Hit) bool { return h.Row >= read })
	slices.SortStableFunc(hits, func(a, b Hit) int {
		return cmp.Or(a.Row-b.Row, slices.Index(record.Kinds, a.Kind)-slices.Index(record.Kinds, b.Kind),
			strings.Compare(a.ID, b.ID))
	})
	return hits, read, err
}

// machinery is the field that says how something was done, and nothing of what was said and done: each call has the
// same policy.
const machinery = "policy"

// addRowHits adds the texts of a row that have a needle, those of some fields, and its earlier attempts.
func addRowHits(
	hits []Hit, hit Hit, fields []*field.Field, needle search.Needle, texts []*string, attempts []byte,
) ([]Hit, error) {
	add := func(name, text string) bool {
		s, ok := needle.In(text)
		if ok {
			hit.Field, hit.Snippet = name, s
			hits = append(hits, hit)
		}
		return ok
	}

	for i, f := range fields {
		if f.Name != machinery {
			add(f.Name, tree.Readable(f.Name, optional.Value(texts[i])))
		}
	}

	if attempts == nil {
		return hits, nil
	}
	past, err := field.PastAttempts(hit.Kind, attempts)
	for _, a := range past {
		if add("attempts", optional.Value(a.ErrorMessage)) || add("attempts", optional.Value(a.ErrorKind)) {
			break
		}
	}
	return hits, err
}

// rowTexts reads the texts of rows of a tree one by one, by their keys, and with a plan those of its thoughts,
// artifacts and sources. Its parameters are the root; of the rows their kinds, parents, numbers and ids as [record.Key]
// has them; and for how many milliseconds it reads. After that, except for the first row, it returns that it is late.
var rowTexts = func() string {
	keys := map[record.Kind]string{
		record.KindPlan:           "t.current_plan_id = u.id",
		record.KindAgentExecution: "t.step_id = u.id",
		record.KindThinkAct:       "t.step_id = u.parent AND t.seq = u.seq",
		// BETWEEN keeps Postgres from the index by tool_call_id: all calls of a tree may have the same.
		record.KindActTool: "t.step_id = u.parent AND t.seq = u.seq AND t.tool_call_id BETWEEN u.id AND u.id",
		record.KindWait:    "t.plan_id = u.parent AND t.wait_id = u.id",
	}

	var sections []string
	for _, kind := range record.Kinds {
		table, of := fieldsql.TableOf(kind), kind
		where := keys[kind]
		id, step := "NULL", "NULL"
		if where == "" { // it stands beside a plan
			all := fieldsql.Keys(kind)
			of, where = record.KindPlan, "t.plan_id = u.id"
			id, step = all[len(all)-1].SQL, "t.step_id"
		}
		if table.Partitioned {
			where += " AND " + inRootPartition
		}

		var texts []string
		for _, f := range field.Worded(kind) {
			texts = append(texts, "("+fieldsql.Whole(f, "t")+")::text")
		}

		attempts := "NULL"
		if field.HasAttempts(kind) {
			attempts = "t.attempts::text"
		}

		sections = append(sections, fmt.Sprintf(`    SELECT '%s' AS kind, %s::text AS id, %s::text AS step_id, ARRAY[%s] AS texts, %s::text AS attempts
    FROM actlog.%s AS t
    WHERE u.kind = '%s' AND NOT u.late AND t.root_plan_id = $1::text AND %s`,
			kind, id, step, strings.Join(texts, ", "), attempts, table.Name, of, where))
	}

	return `SELECT u.place, u.late, r.kind, r.id, r.step_id, r.texts, r.attempts
FROM (
    SELECT (k.n - 1)::integer AS place, k.kind, k.parent, k.seq, k.id,
        k.n > 1 AND clock_timestamp() > statement_timestamp() + $6::integer * interval '1 millisecond' AS late
    FROM unnest($2::text[], $3::text[], $4::integer[], $5::text[]) WITH ORDINALITY AS k (kind, parent, seq, id, n)
    OFFSET 0
) AS u
LEFT JOIN LATERAL (
` + strings.Join(sections, "\n    UNION ALL\n") + `
    OFFSET 0
) AS r ON true
WHERE u.late OR r.kind IS NOT NULL`
}()
