package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/search"
	"github.com/actlog/actlog/record"
)

// TextSearch says what to look for in the texts of runs, and in which runs.
type TextSearch struct {
	// Text is what a text has. The error of a wrong one is for field q.
	Text string
	// Kinds are those of the rows whose texts are searched; none: all.
	Kinds []record.Kind
	// Filter chooses the runs, by State, Project, Name, UserID, ConversationID, Agent, Tag, Since and Until. Its other
	// members are not used.
	Filter PlanFilter
	// Environment is one of the plan's; empty: any.
	Environment string
	// From is where the search goes on; nil: with the newest run.
	From *TextPlace
	// Most is how many hits are returned.
	Most int
	// PerRun is how many hits of a run are returned, at most, and no more than Most; the others are counted. 0: all.
	PerRun int
	// Time is how long Postgres may read texts. Something is always read, so a search that goes on comes to its end.
	Time time.Duration
}

// TextPlace is a row of a run, in the order of the search. Skip is how many hits in the row are left out.
type TextPlace struct {
	PlanCursor
	RowPlace
	Skip int
}

// RowPlace is a place among the rows of a run: a section, and in it the key of a row as [record.Key] has it.
type RowPlace struct {
	Section int
	Parent  string
	Seq     int64
	ID      string
}

func (p RowPlace) compare(q RowPlace) int {
	return cmp.Or(p.Section-q.Section, strings.Compare(p.Parent, q.Parent), cmp.Compare(p.Seq, q.Seq),
		strings.Compare(p.ID, q.ID))
}

// TextHit is a text of a run that has what was looked for.
type TextHit struct {
	Run *TextRun
	Key record.Key
	// PlanID and StepID are the plan and the step that the row belongs to; StepID may be empty. Name is what an agent or a
	// tool is called.
	PlanID, StepID, Name string
	Field                string
	search.Snippet

	place RowPlace
	row   int // of the run among those read at once
}

// TextRun is a run with hits.
type TextRun struct {
	PlanCursor
	Title, Name, Project *string
	State                record.State
}

// TextsFound is what a search has found.
type TextsFound struct {
	Hits []TextHit
	// More is how many more hits runs have that have more than are returned of one, by the ids of their roots. Those in
	// Open may have even more: they were not searched to their end.
	More map[string]int
	Open map[string]bool
	// Next is where the search goes on; nil: all runs were searched.
	Next *TextPlace
	// Incomplete says that the time was over before the page was full.
	Incomplete bool
}

const (
	// firstRuns and mostRuns are how many runs are searched at once: few at first, because the newest may have all hits of
	// a page, and more while that takes less than twice fastRuns.
	firstRuns = 4
	mostRuns  = 1024
	fastRuns  = 30 * time.Millisecond
	// mostPrompts is how many prompts of a run are read at once. One is at first: it mostly has the text if any has.
	mostPrompts = 16
	// rareRuns is of how many runs at most one may have hits for the others to be ruled out first.
	rareRuns = 4
	// leastAsked is how long a statement may take, at least, that only saves reading.
	leastAsked = 50 * time.Millisecond
	// textTimeout is how long a statement may take in all: the pieces of the first run are read to their end.
	textTimeout = 10 * time.Second
	// leastIndexed is how many letters and digits a word needs in a row for the index of a past period.
	leastIndexed = 3
	// mostKnown is how many rows of a period and a table may have a word for the index to be used. If more have it, hits
	// are near.
	mostKnown = 2000
)

type textSearcher struct {
	*Reader
	TextSearch
	needle   search.Needle
	word     search.Word
	alike    [][]byte
	sections []bool // that are searched
	periods  []textPeriod
	runs     db.TextSearchRunsParams
	// candidates are runs that are searched in any case, newest first; noMoreCandidates: no others are. The others began
	// at olderFrom, or before.
	candidates       []db.TextSearchRunsRow
	noMoreCandidates bool
	olderFrom        PlanCursor
	end              time.Time
	from             TextPlace
	prompts          int            // how many are read of a run
	searched         int            // how many runs were
	shown            map[string]int // hits that are returned, by the ids of their roots
	out              TextsFound
}

// textPeriod is a past period whose detail has an index.
type textPeriod struct {
	from, to   time.Time
	partitions []string // by their tables
	asked      bool
	known      bool            // only runs among roots can have hits
	roots      map[string]bool // that may have hits in their detail
}

// SearchTexts returns the first hits in the texts of runs, newest run first; within a run, those of its plans, then of
// steps, cycles, tool calls and of what stands beside them. Of a prompt that is repeated by those after it, only the
// first is a hit.
func (r *Reader) SearchTexts(ctx context.Context, t TextSearch) (TextsFound, error) {
	needle, err := search.NewNeedle(t.Text)
	if err != nil {
		return TextsFound{}, &record.InvalidError{Code: record.CodeInvalidValue, Field: "q", Reason: err.Error()}
	}

	t.PerRun = min(t.PerRun, t.Most) // so that a page has room for those of each run
	s := &textSearcher{
		Reader: r, TextSearch: t, needle: needle, sections: make([]bool, sectionEnd), end: time.Now().Add(t.Time),
		prompts: 1, shown: map[string]int{},
	}

	s.olderFrom = PlanCursor{forever, lastOfAll}
	s.out.More, s.out.Open = map[string]int{}, map[string]bool{}
	s.word, s.alike = needle.Word(), [][]byte{}
	for _, alike := range s.word.Alike {
		s.alike = append(s.alike, []byte(alike))
	}
	for i, kind := range sectionKinds {
		s.sections[i] = len(t.Kinds) == 0 || slices.Contains(t.Kinds, kind)
	}

	f := &t.Filter
	before, after := f.between()
	s.from = TextPlace{PlanCursor: PlanCursor{forever, lastOfAll}}
	if t.From != nil {
		s.from = *t.From
	}
	s.runs = db.TextSearchRunsParams{
		BeforeTime: before.BeganAt, BeforeID: before.RootPlanID, AfterTime: after.BeganAt, AfterID: after.RootPlanID,
		State: orNil(string(f.State)), Project: orNil(f.Project), Name: orNil(f.Name), UserID: orNil(f.UserID),
		ConversationID: orNil(f.ConversationID),
		Tag:            orNil(f.Tag), Agent: orNil(f.Agent), Environment: orNil(t.Environment),
	}

	err = s.search(ctx)
	return s.out, pg.Wrap(err, "search texts")
}

func (s *textSearcher) search(ctx context.Context) error {
	if err := s.choosePeriods(ctx); err != nil {
		return err
	}

	for most := firstRuns; ; {
		start := time.Now()
		runs, err := s.nextRuns(ctx, most)
		if err != nil {
			return err
		}
		if len(runs) == 0 {
			return nil
		}

		likely, looked, err := s.likely(ctx, runs)
		if err != nil {
			return err
		}
		last := len(runs) < most && looked == len(runs)
		runs = runs[:looked]
		s.searched += looked

		var rest *TextPlace
		if len(likely) > 0 {
			if rest, err = s.searchRuns(ctx, likely); err != nil {
				return err
			}
		}
		switch {
		case len(s.out.Hits) > s.Most:
			s.out.Hits = s.out.Hits[:s.wholeRuns()]
			s.out.Next = s.afterHits()
			return nil
		case rest == nil && last:
			return nil
		case rest != nil && rest.Section == sectionPrompts:
			s.from, s.prompts = *rest, min(4*s.prompts, mostPrompts)
		case rest != nil:
			s.from, s.prompts = *rest, 1
		default:
			s.prompts = 1
			s.from = TextPlace{PlanCursor: runs[len(runs)-1].PlanCursor, RowPlace: RowPlace{Section: sectionEnd}}
		}

		switch took := time.Since(start); {
		case took < 2*fastRuns:
			most = min(4*most, mostRuns)
		case took > 4*fastRuns:
			most = max(most/2, firstRuns)
		}

		if err := s.yield(ctx, time.Since(start)); err != nil {
			return err
		}
		if !time.Now().Before(s.end) {
			s.out.Next, s.out.Incomplete = &s.from, len(s.out.Hits) < s.Most
			return nil
		}
	}
}

// yield leaves Postgres to others for as long as it has read for the search, if others want it now.
func (s *textSearcher) yield(ctx context.Context, took time.Duration) error {
	if took < fastRuns {
		return nil
	}

	others, err := pg.Read(ctx, s.db, func() (bool, error) { return s.queries.OthersAtWork(ctx, s.db) })
	if err != nil {
		return fmt.Errorf("look for others at work: %w", err)
	}
	if !others {
		return nil
	}
	return pg.Pause(ctx, min(took, time.Until(s.end)))
}

// wholeRuns returns how many hits are a page: if those of a run are counted, a page ends with a run.
func (s *textSearcher) wholeRuns() int {
	n := s.Most
	if s.PerRun == 0 {
		return n
	}
	for s.out.Hits[n-1].Run.RootPlanID == s.out.Hits[n].Run.RootPlanID { // no run has them all
		n--
	}
	return n
}

// afterHits returns the place after the last hit, or after its run.
func (s *textSearcher) afterHits() *TextPlace {
	last := &s.out.Hits[len(s.out.Hits)-1]
	if s.PerRun > 0 {
		return &TextPlace{PlanCursor: last.Run.PlanCursor, RowPlace: RowPlace{Section: sectionEnd}}
	}

	at := &TextPlace{PlanCursor: last.Run.PlanCursor, RowPlace: last.place}
	if s.From != nil && s.From.PlanCursor == at.PlanCursor && s.From.RowPlace == at.RowPlace {
		at.Skip = s.From.Skip
	}
	for i := len(s.out.Hits) - 1; i >= 0 && s.out.Hits[i].Run.PlanCursor == at.PlanCursor &&
		s.out.Hits[i].place == at.RowPlace; i-- {
		at.Skip++
	}
	return at
}

type textRun struct {
	TextRun
	partition time.Time
	detail    bool // whether its detail is searched
}

func (s *textSearcher) nextRuns(ctx context.Context, most int) ([]*textRun, error) {
	rows, err := s.nextRows(ctx, most)
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}

	runs := make([]*textRun, len(rows))
	for i, row := range rows {
		run := &textRun{
			TextRun{PlanCursor{row.BeganAt.UTC(), row.RootPlanID}, row.Title, row.Name, row.Project, record.State(row.State)},
			row.Part, true,
		}

		for j := range s.periods {
			period := &s.periods[j]
			if row.Part.Before(period.from) || !row.Part.Before(period.to) {
				continue
			}
			if err := s.ask(ctx, period); err != nil {
				return nil, err
			}
			run.detail = !period.known || period.roots[row.RootPlanID]
		}
		runs[i] = run
	}
	return runs, nil
}

// nextRows returns the rows of the runs that are searched next: those that are listed, and others, in their order.
func (s *textSearcher) nextRows(ctx context.Context, most int) ([]db.TextSearchRunsRow, error) {
	place := func(row db.TextSearchRunsRow) PlanCursor { return PlanCursor{row.BeganAt, row.RootPlanID} }
	s.candidates = slices.DeleteFunc(s.candidates, func(row db.TextSearchRunsRow) bool {
		return compareCursors(place(row), s.from.PlanCursor) > 0
	})
	if s.noMoreCandidates {
		return s.candidates[:min(most, len(s.candidates))], nil
	}

	p, from := &s.runs, s.from.PlanCursor
	if compareCursors(s.olderFrom, from) < 0 {
		from = s.olderFrom
	}
	p.FromTime, p.FromID = from.BeganAt, from.RootPlanID
	p.Most = int32(most)
	args := []any{p.FromTime, p.FromID, p.BeforeTime, p.BeforeID, p.AfterTime, p.AfterID, p.State, p.Project, p.Name,
		p.UserID, p.ConversationID,
		p.Tag, p.Environment, p.Agent, p.Among, p.KnownFrom, p.KnownTo, p.Most}

	others, err := pg.Read(ctx, s.db, func() ([]db.TextSearchRunsRow, error) {
		return collectBefore(ctx, s.Reader, time.Now().Add(textTimeout), customPlan,
			pgx.RowToStructByPos[db.TextSearchRunsRow], db.TextSearchRuns, args...)
	})
	if err != nil {
		return nil, err
	}

	all := slices.Concat(s.candidates, others)
	slices.SortFunc(all, func(a, b db.TextSearchRunsRow) int { return compareCursors(place(b), place(a)) })
	all = slices.CompactFunc(all, func(a, b db.TextSearchRunsRow) bool { return a.RootPlanID == b.RootPlanID })
	if len(others) < most {
		s.candidates, s.noMoreCandidates = all, true
	}
	return all[:min(most, len(all))], nil
}

// shortly is until when a statement may take that only saves reading: without its answer, everything is read.
func (s *textSearcher) shortly() time.Time { return time.Now().Add(max(s.Time/4, leastAsked)) }

// likely returns those of some runs that may have hits, and how many of the runs it has looked at. While most runs have
// hits, it costs more than it saves: then all are likely, but for those whose detail has none.
func (s *textSearcher) likely(ctx context.Context, runs []*textRun) (likely []*textRun, looked int, err error) {
	rare := s.searched > 0 && rareRuns*len(s.shown) < s.searched
	if !rare && !slices.ContainsFunc(runs, func(run *textRun) bool { return !run.detail }) {
		return runs, len(runs), nil
	}

	roots, partitions, detail := textRunColumns(runs)
	args := []any{
		roots, partitions, detail, s.sections, max(time.Until(s.end), 0).Milliseconds(), s.word.Text, s.word.Bare,
		append([]string{}, s.word.Alike...),
	}

	type answer struct {
		Place int
		Late  bool
	}
	answers, err := pg.Read(ctx, s.db, func() ([]answer, error) {
		return collectBefore(ctx, s.Reader, time.Now().Add(textTimeout), runSettings, pgx.RowToStructByPos[answer],
			searchLikely, args...)
	})
	switch {
	case errors.Is(err, ErrSlow): // a run has many rows; the search in it keeps to its time
		return runs, len(runs), nil
	case err != nil:
		return nil, 0, fmt.Errorf("look for likely runs: %w", err)
	}

	for _, a := range answers {
		if a.Late {
			return likely, a.Place, nil
		}
		likely = append(likely, runs[a.Place])
	}
	return likely, len(runs), nil
}

// textRunColumns returns what a statement has to know of runs.
func textRunColumns(runs []*textRun) (roots []string, partitions []time.Time, detail []bool) {
	for _, run := range runs {
		roots, partitions = append(roots, run.RootPlanID), append(partitions, run.partition)
		detail = append(detail, run.detail)
	}
	return roots, partitions, detail
}

// choosePeriods finds the recent runs that may have hits, and the periods whose detail has an index, if the search can
// use these.
func (s *textSearcher) choosePeriods(ctx context.Context) error {
	if s.word.InRow < leastIndexed {
		return nil
	}
	if err := s.listFromTextIndex(ctx); err != nil {
		return err
	}
	if !s.sections[sectionCycles] && !s.sections[sectionCalls] {
		return nil
	}

	periods, err := s.indexedPeriods(ctx)
	if err != nil {
		return fmt.Errorf("look for indexes: %w", err)
	}
	s.periods = periods

	for i := range sectionEnd {
		if s.sections[i] && !inDetail(i) {
			return nil
		}
	}

	// Only detail is searched, so all other runs of these periods are passed over.
	s.runs.Among = []string{}
	for i := range s.periods {
		if err := s.ask(ctx, &s.periods[i]); err != nil {
			return err
		}
		if p := &s.periods[i]; p.known {
			s.runs.KnownFrom, s.runs.KnownTo = append(s.runs.KnownFrom, p.from), append(s.runs.KnownTo, p.to)
			for root := range p.roots {
				s.runs.Among = append(s.runs.Among, root)
			}
		}
	}
	return nil
}

// listFromTextIndex adds the runs of the current period that may match, as the index of their words says. It then sets
// s.olderFrom to where the runs begin that this index does not cover. Without a usable index it does nothing.
func (s *textSearcher) listFromTextIndex(ctx context.Context) error {
	recent, err := s.askRecent(ctx, time.Now().Add(max(s.Time/2, leastAsked)), s.needle.Words(leastIndexed, mostPattern))
	if err != nil || recent == nil {
		return err
	}

	p := &s.runs
	listed, err := pg.Read(ctx, s.db, func() ([]db.TextSearchListedRow, error) {
		return s.queries.TextSearchListed(ctx, s.db, db.TextSearchListedParams{
			Roots: recent.roots, FromTime: s.from.BeganAt, FromID: s.from.RootPlanID,
			BeforeTime: p.BeforeTime, BeforeID: p.BeforeID, AfterTime: p.AfterTime, AfterID: p.AfterID, State: p.State,
			Project: p.Project, Name: p.Name,
			UserID: p.UserID, ConversationID: p.ConversationID, Tag: p.Tag, Environment: p.Environment, Agent: p.Agent,
		})
	})
	if err != nil {
		return fmt.Errorf("list recent runs: %w", err)
	}
	for _, row := range listed {
		s.candidates = append(s.candidates, db.TextSearchRunsRow(row))
	}

	// From here on, the search in the other runs leaves out what this index covers.
	p.Among = []string{}
	p.KnownFrom, p.KnownTo = []time.Time{recent.fromDay}, []time.Time{forever}
	s.olderFrom = PlanCursor{RootPlanID: lastOfAll}
	if recent.olderAt != nil {
		s.olderFrom.BeganAt = *recent.olderAt
	}
	s.noMoreCandidates = recent.olderAt == nil
	return nil
}

func (r *Reader) indexedPeriods(ctx context.Context) (periods []textPeriod, err error) {
	tables := slices.Sorted(maps.Keys(SearchedTables))
	rows, err := pg.Read(ctx, r.db, func() ([]db.TextSearchPeriodsRow, error) {
		return r.queries.TextSearchPeriods(ctx, r.db, db.TextSearchPeriodsParams{
			Tables: tables, Suffix: new(SearchIndexSuffix),
		})
	})

	for _, row := range rows {
		periods = append(periods, textPeriod{from: *row.FromDay, to: *row.ToDay, partitions: row.Partitions})
	}
	return periods, err
}

// ask asks the indexes of a period once for the runs that may have hits. If they are many, or it takes long, all runs
// may.
func (s *textSearcher) ask(ctx context.Context, p *textPeriod) error {
	if p.asked {
		return nil
	}
	p.asked = true

	like := "%" + strings.ReplaceAll(s.word.Text, "_", `\_`) + "%"
	roots, err := pg.Read(ctx, s.db, func() ([]string, error) {
		return collectBefore(ctx, s.Reader, s.shortly(), indexSettings, pgx.RowTo[string], searchKnown(p.partitions), like,
			s.word.Text, mostKnown)
	})
	switch {
	case errors.Is(err, ErrSlow), pg.State(err) == "42P01": // dropped meanwhile
		return nil
	case err != nil:
		return fmt.Errorf("ask the index: %w", err)
	case len(roots) >= mostKnown:
		return nil
	}

	p.known, p.roots = true, make(map[string]bool, len(roots))
	for _, root := range roots {
		p.roots[root] = true
	}
	return nil
}

// searchRuns searches runs from s.from on. rest is where it ended, if it did before the last of them.
func (s *textSearcher) searchRuns(ctx context.Context, runs []*textRun) (rest *TextPlace, err error) {
	roots, partitions, detail := textRunColumns(runs)
	first, skip := RowPlace{}, 0 // skip is how many hits of the first row were returned before
	if runs[0].PlanCursor == s.from.PlanCursor {
		first, skip = s.from.RowPlace, s.from.Skip
	}
	args := []any{roots, partitions, detail, s.sections, first.Section, first.Parent, first.Seq, first.ID,
		max(time.Until(s.end), 0).Milliseconds(), s.Most + 2, s.prompts, s.word.Text, []byte(s.word.Bare), s.alike}

	// end is the first place that was not read.
	type place struct {
		run int
		RowPlace
		skip int
	}

	var hits []TextHit
	var end *place
	var left map[int]int // how many hits of a run were left out
	stop := func(at place) {
		if end == nil || cmp.Or(at.run-end.run, at.compare(end.RowPlace)) < 0 {
			end = &at
		}
	}

	hits, err = pg.Read(ctx, s.db, func() (hits []TextHit, err error) {
		end, left = nil, map[int]int{}
		err = s.beforeWith(ctx, time.Now().Add(textTimeout), runSettings, searchTexts, args, func(rows pgx.Rows) error {
			type count struct{ rows, hits int }
			counts := map[[2]int]*count{}
			var taken int64 // the memory of the largest row; a row does not stay
			for rows.Next() {
				var run int
				var section *int
				var parent, id, plan, step, name *string
				var seq *int64
				var texts []*string
				var attempts []byte
				if err := rows.Scan(&run, &section, &parent, &seq, &id, &plan, &step, &name, &texts, &attempts); err != nil {
					return err
				}

				if section == nil {
					stop(place{run: run})
					continue
				}

				at := place{run: run, RowPlace: RowPlace{*section, optional.Value(parent), *seq, optional.Value(id)}}
				c := counts[[2]int{run, *section}]
				if c == nil {
					c = new(count)
					counts[[2]int{run, *section}] = c
				}
				if c.rows++; *section == sectionPrompts && c.hits > 0 {
					continue
				}
				if texts == nil {
					stop(at)
					continue
				}

				var bytes int64
				for _, value := range rows.RawValues() {
					bytes += int64(len(value))
				}
				if bytes > taken && s.within != nil {
					if err := s.within(bytes - taken); err != nil {
						return err
					}
					taken = bytes
				}

				kind := sectionKinds[*section]
				hit := TextHit{
					Run: &runs[run].TextRun, Key: record.Key{Kind: kind, Parent: at.Parent, Seq: at.Seq, ID: at.ID},
					PlanID: optional.Value(plan), StepID: optional.Value(step), Name: optional.Value(name),
					place: at.RowPlace, row: run,
				}
				had := len(hits)
				if hits, err = s.add(hits, hit, texts, attempts); err != nil {
					return err
				}
				inRow := len(hits) - had
				c.hits += inRow

				switch most := s.Most + 2; {
				case *section == sectionPrompts && c.hits == 0 && c.rows == s.prompts, *section != sectionPrompts && c.rows == most:
					at.skip = inRow
					stop(at)
				}
				if run == 0 && at.RowPlace == first {
					hits = slices.Delete(hits, had, had+min(skip, inRow))
				}

				switch enough := s.Most + 1; { // the others are not on the page
				case len(hits) <= 8*enough:
				case s.PerRun > 0:
					hits = s.fewOfEach(hits, left)
				default:
					sortTextHits(hits)
					hits = hits[:enough]
				}
			}
			return rows.Err()
		})
		return hits, err
	})
	if err != nil {
		return nil, err
	}

	sortTextHits(hits)
	if s.PerRun > 0 {
		hits = s.fewOfEach(hits, left)
	}
	for i := range hits {
		at := place{run: hits[i].row, RowPlace: hits[i].place}
		if end != nil {
			if c := cmp.Or(at.run-end.run, at.compare(end.RowPlace)); c > 0 || c == 0 && end.skip == 0 {
				break
			}
		}
		s.out.Hits = append(s.out.Hits, hits[i])
		s.shown[hits[i].Run.RootPlanID]++
	}

	for run, n := range left {
		if root := runs[run].RootPlanID; (end == nil || run <= end.run) && s.shown[root] >= s.PerRun {
			s.out.More[root] += n
		}
	}

	if end == nil {
		return nil, nil
	}
	if root := runs[end.run].RootPlanID; s.PerRun > 0 && s.shown[root] >= s.PerRun { // what else it says is not looked for
		s.out.Open[root] = true
		return &TextPlace{PlanCursor: runs[end.run].PlanCursor, RowPlace: RowPlace{Section: sectionEnd}}, nil
	}
	return &TextPlace{runs[end.run].PlanCursor, end.RowPlace, end.skip}, nil
}

// fewOfEach returns the first hits of each run, as many as are shown of it, and counts the others.
func (s *textSearcher) fewOfEach(hits []TextHit, left map[int]int) (few []TextHit) {
	sortTextHits(hits)
	kept := map[int]int{}
	for i := range hits {
		h := &hits[i]
		if kept[h.row] == s.PerRun-min(s.PerRun, s.shown[h.Run.RootPlanID]) {
			left[h.row]++
			continue
		}
		kept[h.row]++
		few = append(few, *h)
	}
	return few
}

func sortTextHits(hits []TextHit) {
	slices.SortStableFunc(hits, func(a, b TextHit) int { return cmp.Or(a.row-b.row, a.place.compare(b.place)) })
}

// add adds the texts of a row that have what is looked for.
func (s *textSearcher) add(hits []TextHit, hit TextHit, texts []*string, attempts []byte) ([]TextHit, error) {
	in, err := addRowHits(nil, Hit{Kind: hit.Key.Kind}, sectionFields[hit.place.Section], s.needle, texts, attempts)
	for _, h := range in {
		hit.Field, hit.Snippet = h.Field, h.Snippet
		hits = append(hits, hit)
	}
	return hits, err
}
