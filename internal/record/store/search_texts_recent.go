package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/search"
)

const (
	// RecentVersion says how the texts of recent runs are folded. Another number makes all of them again.
	RecentVersion = 1
	// mostRecentBytes is how long the texts of a run may be, at most, to be stored once more.
	mostRecentBytes = 4 << 20
	// mostPattern is how many characters of a word are looked for among recent texts. A text that is stored in pieces may
	// be cut within a word, but mostPattern characters of it, however they are escaped, are in two pieces at most. So
	// where it is cut, seamChars of both pieces are left together.
	mostPattern = 32
	seamChars   = 400
)

// inWord is a character that may belong to a word, or to an escape of JSON of such a character.
const inWord = `[A-Za-z0-9_\\` + "\u212a\u0130\u0307" + `-]`

// recentTexts returns, of each table with texts of a run, its alias, what its rows say, and which of them are of run u.
func recentTexts() (texts []recentTable) {
	for i, kind := range sectionKinds {
		if i == sectionPrompts {
			texts = append(texts, recentTable{"content", []string{"t.body"}, "t.root_plan_id = u.root AND t.part = u.part"})
			continue
		}

		table, where := fieldsql.TableOf(kind), "t.root_plan_id = u.root"
		if table.Partitioned {
			where += " AND t.part = u.part"
		}
		texts = append(texts, recentTable{table.Name, words(kind, "t.", func(*field.Field) bool { return true }), where})
	}
	return texts
}

type recentTable struct {
	name  string
	words []string
	where string
}

// recentBytes returns how long the texts of some runs are, in their order. Its parameters are
//
//	$1  their roots
//	$2  their partitions
var recentBytes = func() string {
	var sums []string
	for _, t := range recentTexts() {
		var lengths []string
		for _, w := range t.words {
			lengths = append(lengths, "COALESCE(octet_length("+w+"), 0)")
		}
		sums = append(sums, fmt.Sprintf("    COALESCE((SELECT sum(%s) FROM actlog.%s AS t WHERE %s), 0)",
			strings.Join(lengths, " + "), t.name, t.where))
	}
	return "SELECT (\n" + strings.Join(sums, "\n    +\n") + `
)::bigint
FROM unnest($1::text[], $2::date[]) WITH ORDINALITY AS u (root, part, n)
ORDER BY u.n`
}()

// recentFold returns what some runs say, folded, in their order; null: a word may be cut too often. Its parameters are
//
//	$1  their roots
//	$2  their partitions
//	$3  how many characters around a cut are left together
var recentFold = func() string {
	var folds []string
	for _, t := range recentTexts() {
		fold := "string_agg(actlog.search_fold(" + strings.Join(t.words, ", ") + `), E'\n')`
		folds = append(folds, "        (SELECT "+fold+" FROM actlog."+t.name+" AS t WHERE "+t.where+")")
	}

	of := "root_plan_id = u.root AND %[1]s.part = u.part"
	piece := func(name, hash, place string) string {
		return fmt.Sprintf(`        CROSS JOIN LATERAL (
            SELECT COALESCE(c.body, ( -- of a page
                SELECT d.body FROM actlog.content AS d WHERE d.`+fmt.Sprintf(of, "d")+` AND d.hash = c.parts[%[2]s]
            )) COLLATE "C" AS body
            FROM actlog.content AS c
            WHERE c.`+fmt.Sprintf(of, "c")+` AND c.hash = %[1]s
            OFFSET 0
        ) AS %[3]s`, hash, place, name)
	}
	prompts := sectionFields[sectionPrompts][0].Pieces.Column

	return `SELECT CASE WHEN NOT seam.short THEN concat_ws(E'\n', seam.fold,
` + strings.Join(folds, ",\n") + `
    ) END
FROM unnest($1::text[], $2::date[]) WITH ORDINALITY AS u (root, part, n)
CROSS JOIN LATERAL ( -- where a word may go on in the next piece
    SELECT string_agg(actlog.search_fold(right(a.body, $3::integer) || left(b.body, $3::integer)), E'\n') AS fold,
        COALESCE(bool_or(length(b.body) < $3::integer AND right(b.body, 1) ~ '` + inWord + `'), false) AS short
    FROM (
        SELECT DISTINCT p.a, p.b
        FROM (
            SELECT t.` + prompts + ` AS list
            FROM actlog.think_act_record AS t
            WHERE t.` + fmt.Sprintf(of, "t") + ` AND cardinality(t.` + prompts + `) > 1
            UNION ALL
            SELECT t.parts
            FROM actlog.content AS t
            WHERE t.` + fmt.Sprintf(of, "t") + ` AND cardinality(t.parts) > 1
        ) AS l
        CROSS JOIN LATERAL unnest(l.list[: cardinality(l.list) - 1], l.list[2 :]) AS p (a, b)
        OFFSET 0
    ) AS p
` + piece("a", "p.a", "cardinality(c.parts)") + "\n" + piece("b", "p.b", "1") + `
    WHERE right(a.body, 1) ~ '` + inWord + `' AND left(b.body, 1) ~ '` + inWord + `'
    OFFSET 0
) AS seam
ORDER BY u.n`
}()

// WriteRecentTexts stores the folded words of runs in recent_text. The transaction must have locked the rows of these
// runs. It handles the first runs whose texts are at most so many bytes together, but at least one. Runs that are too
// large are marked as passed. It returns how many runs it has handled.
func (s *Store) WriteRecentTexts(
	ctx context.Context, tx pgx.Tx, runs []db.RecentDueRow, bytes int64,
) (handled int, err error) {
	chosen, passed, err := fitTexts(ctx, tx, runs, bytes)
	if err != nil {
		return 0, err
	}
	handled = len(chosen) + len(passed)

	failed, err := s.foldTexts(ctx, tx, chosen)
	if err != nil {
		return 0, err
	}
	if passed = append(passed, failed...); len(passed) > 0 {
		err = s.queries.RecentPass(ctx, tx, passed)
	}
	return handled, err
}

// fitTexts returns the first runs whose texts fit together into budget bytes, but at least one. tooLarge are the runs
// on the way whose texts exceed mostRecentBytes; they are skipped.
func fitTexts(
	ctx context.Context, tx pgx.Tx, runs []db.RecentDueRow, budget int64,
) (fit []db.RecentDueRow, tooLarge []string, err error) {
	roots, partitions := dueColumns(runs)
	rows, err := tx.Query(ctx, recentBytes, roots, partitions)
	if err != nil {
		return nil, nil, err
	}
	sizes, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, nil, err
	}

	for i, size := range sizes {
		if size > mostRecentBytes {
			tooLarge = append(tooLarge, roots[i])
			continue
		}
		if budget -= size; budget < 0 && len(fit) > 0 {
			break
		}
		fit = append(fit, runs[i])
	}
	return fit, tooLarge, nil
}

// foldTexts writes the words of runs. unfit are the runs of which a word may be cut too often.
func (s *Store) foldTexts(ctx context.Context, tx pgx.Tx, runs []db.RecentDueRow) (unfit []string, err error) {
	roots, partitions := dueColumns(runs)
	rows, err := tx.Query(ctx, recentFold, roots, partitions, seamChars)
	if err != nil {
		return nil, err
	}
	texts, err := pgx.CollectRows(rows, pgx.RowTo[*string])
	if err != nil {
		return nil, err
	}

	var kept db.RecentKeepParams
	for i, text := range texts {
		if text == nil {
			unfit = append(unfit, roots[i])
			continue
		}

		kept.RootPlanIds, kept.Folds = append(kept.RootPlanIds, roots[i]), append(kept.Folds, search.WordsOf(*text))
		kept.Ended = append(kept.Ended, runs[i].Ended)
	}
	return unfit, s.queries.RecentKeep(ctx, tx, kept)
}

func dueColumns(runs []db.RecentDueRow) (roots []string, partitions []time.Time) {
	for _, r := range runs {
		roots, partitions = append(roots, r.RootPlanID), append(partitions, r.Part)
	}
	return roots, partitions
}

// A slice of the index of recent texts has RunsOfSlice runs, or fewer that have so many bytes of words.
const (
	RunsOfSlice  = 2_048
	bytesOfSlice = 16 << 20
)

// SliceRecentTexts adds a slice to the index of recent texts, in a transaction, if there are so many runs for it, which
// are at most [RunsOfSlice], or so many bytes.
func (s *Store) SliceRecentTexts(ctx context.Context, tx pgx.Tx, runs int) (done bool, err error) {
	loose, err := s.queries.RecentLoose(ctx, tx, int32(runs))
	if err != nil || loose.Trees < int64(runs) && loose.Bytes < bytesOfSlice {
		return false, err
	}
	words, err := s.queries.RecentLooseWords(ctx, tx, db.RecentLooseWordsParams{Most: int32(runs), Bytes: bytesOfSlice})
	if err != nil || len(words) == 0 {
		return false, err
	}

	roots, grams := make([]string, len(words)), new(search.GramsOfRuns)
	for i, w := range words {
		roots[i] = w.RootPlanID
		grams.Add(i, w.Fold)
	}

	p := db.RecentSliceParams{RootPlanIds: roots}
	p.Grams, p.Runs = grams.Encode(RunsOfSlice)
	return true, s.queries.RecentSlice(ctx, tx, p)
}

const (
	// mostListed is how many runs of recent periods are listed, at most, because they may have the words. If more have
	// them, hits are near.
	mostListed = 5_000
	// mostOpen is how many are listed because they go on, and how many changes behind those that are kept are looked at.
	mostOpen = 20_000
	// mostLikely is how many runs may have the grams of the words.
	mostLikely = 20_000
)

// searchRecentGrams returns which runs of the slices have some grams. Nothing comes if texts are not stored, or no
// slice has a gram. Its parameters are
//
//	$1  the version
//	$2  the grams
const searchRecentGrams = `SELECT m.slice, m.runs
FROM (
    SELECT
    FROM actlog.recent_progress AS x
    WHERE x.seq IS NOT NULL AND x.before_at IS NULL AND x.version = $1::integer
    OFFSET 0
) AS g
CROSS JOIN actlog.recent_slice AS s
CROSS JOIN LATERAL unnest($2::integer[]) AS u (gram)
CROSS JOIN LATERAL (
    SELECT x.slice, x.runs FROM actlog.recent_gram AS x WHERE x.slice = s.slice AND x.gram = u.gram OFFSET 0
) AS m
ORDER BY m.slice`

// searchRecent returns the statement for the roots of recent runs that may have some words: those at some places of
// slices, and those in no slice, if they have the words; those without words; and those that have changed. It returns
// from which partition on runs are known, when the last of the others began, where a root comes from, and the root;
// nothing if texts are not stored. Its parameters are
//
//	$1  the version
//	$2  how many roots it returns that may have the words
//	$3  how many others it returns, and how many changes
//	$4  the slices of the places
//	$5  the positions of the places
//	$6  the pattern of the first word, and so on
func searchRecent(words int) string {
	var has []string
	for i := range words {
		has = append(has, fmt.Sprintf("t.fold LIKE $%d::text", 6+i))
	}
	like := strings.Join(has, " AND ")

	return `SELECT g.from_day, g.older_at, u.source, u.root
FROM (
    SELECT x.seq, x.from_day, x.older_at
    FROM actlog.recent_progress AS x
    WHERE x.seq IS NOT NULL AND x.before_at IS NULL AND x.version = $1::integer
    OFFSET 0
) AS g
LEFT JOIN LATERAL (
    SELECT 0 AS source, r.root_plan_id AS root
    FROM (
        SELECT t.root_plan_id
        FROM unnest($4::integer[], $5::integer[]) AS p (slice, position)
        CROSS JOIN LATERAL (
            SELECT t.root_plan_id, t.fold
            FROM actlog.recent_text AS t
            WHERE t.slice = p.slice AND t.position = p.position
            OFFSET 0
        ) AS t
        WHERE ` + like + `
        LIMIT $2::integer
    ) AS r
    UNION ALL
    SELECT 0, r.root_plan_id
    FROM (
        SELECT t.root_plan_id
        FROM actlog.recent_text AS t
        WHERE t.fold IS NOT NULL AND t.slice IS NULL AND ` + like + `
        LIMIT $2::integer
    ) AS r
    UNION ALL
    SELECT 1, r.root_plan_id
    FROM (SELECT t.root_plan_id FROM actlog.recent_text AS t WHERE t.fold IS NULL LIMIT $3::integer) AS r
    UNION ALL
    SELECT 2, c.root_plan_id
    FROM (SELECT t.root_plan_id FROM actlog.change AS t WHERE t.seq > g.seq LIMIT $3::integer) AS c
) AS u ON true`
}

// recentRuns are the runs of recent periods that are known.
type recentRuns struct {
	fromDay time.Time  // those whose partition is not before it are among roots, or do not have the text
	olderAt *time.Time // no others began after this, but for those among roots; nil: there are no others
	roots   []string
}

// askRecent asks the index of recent texts for the runs that may have some words, or the beginnings of long ones.
// nil: it is not known, because texts are not stored, or too many may, or that is not known at the deadline, or
// Postgres failed for the moment: it only saves reading.
func (r *Reader) askRecent(ctx context.Context, deadline time.Time, words []string) (*recentRuns, error) {
	if len(words) == 0 {
		return nil, nil
	}
	type row struct {
		FromDay time.Time
		OlderAt *time.Time
		Source  *int
		Root    *string
	}

	var rows []row
	// Both statements see the same moment, so a run that gets into a slice is in one of their answers.
	err := pg.ReadTx(ctx, r.db, func(tx pgx.Tx) error {
		inSlices, positions, err := likelyRecent(ctx, tx, deadline, words)
		if err != nil {
			return err
		}
		args := []any{RecentVersion, mostListed, mostOpen, inSlices, positions}
		for _, w := range words {
			args = append(args, "%"+strings.ReplaceAll(w, "_", `\_`)+"%")
		}

		rows, err = within(ctx, tx, deadline, searchRecent(len(words)), args, pgx.RowToStructByPos[row])
		return err
	})
	switch {
	case errors.Is(err, ErrSlow), err != nil && pg.Transient(err) && ctx.Err() == nil:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("ask the index of recent texts: %w", pg.Translate(err))
	case len(rows) == 0:
		return nil, nil
	}

	found := &recentRuns{fromDay: rows[0].FromDay, olderAt: rows[0].OlderAt}
	most, of := [...]int{mostListed, mostOpen, mostOpen}, [3]int{}
	for _, row := range rows {
		if row.Root == nil {
			break
		}
		if of[*row.Source]++; of[*row.Source] >= most[*row.Source] {
			return nil, nil
		}
		found.roots = append(found.roots, *row.Root)
	}
	slices.Sort(found.roots)
	found.roots = slices.Compact(found.roots)
	return found, nil
}

// likelyRecent returns the places of the runs that have all grams of some words. The error is [ErrSlow] if they are
// too many.
func likelyRecent(
	ctx context.Context, tx pgx.Tx, deadline time.Time, words []string,
) (inSlice, positions []int, err error) {
	type row struct {
		Slice int
		Runs  []byte
	}

	grams := search.GramsOf(words)
	rows, err := within(ctx, tx, deadline, searchRecentGrams, []any{RecentVersion, grams}, pgx.RowToStructByPos[row])
	if err != nil {
		return nil, nil, err
	}

	for len(rows) > 0 {
		slice, having := rows[0].Slice, [][]byte{}
		for ; len(rows) > 0 && rows[0].Slice == slice; rows = rows[1:] {
			having = append(having, rows[0].Runs)
		}
		if len(having) < len(grams) {
			continue
		}

		for _, at := range search.RunsWithAll(having, RunsOfSlice) {
			inSlice, positions = append(inSlice, slice), append(positions, at)
		}
		if len(positions) > mostLikely {
			return nil, nil, ErrSlow
		}
	}
	return inSlice, positions, nil
}

// within reads rows in a transaction until a deadline. The error is [ErrSlow] if that is over.
func within[T any](
	ctx context.Context, tx pgx.Tx, deadline time.Time, sql string, args []any, to pgx.RowToFunc[T],
) (rows []T, err error) {
	left := time.Until(deadline)
	if left < time.Millisecond {
		return nil, ErrSlow
	}

	var q pgx.Batch
	milliseconds := strconv.FormatInt(left.Milliseconds(), 10)
	q.Queue("SELECT "+runSettings+", set_config('statement_timeout', $1, true)", milliseconds)
	q.Queue(sql, args...).Query(func(r pgx.Rows) (err error) {
		rows, err = pgx.CollectRows(r, to)
		return err
	})
	return rows, tx.SendBatch(ctx, &q).Close()
}
