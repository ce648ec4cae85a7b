package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// found returns the ids that a search finds, page by page.
func found(t testing.TB, s *store.Store, f store.PlanFilter) []string {
	t.Helper()
	if f.Limit == 0 {
		f.Limit = 3
	}

	ids := []string{}
	for {
		plans, err := s.Plans(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range plans {
			ids = append(ids, p.Record.RootPlanID)
		}

		if len(plans) < f.Limit {
			return ids
		}
		f.Before = &plans[len(plans)-1].Cursor
	}
}

// index moves all fresh texts into a slice.
func index(t testing.TB, s *store.Store) {
	t.Helper()
	if err := s.DB().Transact(t.Context(), func(tx pgx.Tx) error {
		_, err := s.IndexFresh(t.Context(), tx, 0)
		return err
	}); err != nil {
		t.Fatal(err)
	}

	if n := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.search_fresh"); n != 0 {
		t.Fatalf("%d fresh texts are left", n)
	}
}

// indexMissing adds the trees that the search does not know.
func indexMissing(t testing.TB, s *store.Store) {
	t.Helper()
	for after := new(store.Beginning()); after != nil; {
		if err := s.DB().Transact(t.Context(), func(tx pgx.Tx) (err error) {
			after, err = s.IndexMissing(t.Context(), tx, *after)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// sweep deletes the slices whose trees are all gone.
func sweep(t testing.TB, s *store.Store) {
	t.Helper()
	for slice, more := int32(0), true; more; more = slice > 0 {
		if err := s.DB().Transact(t.Context(), func(tx pgx.Tx) (err error) {
			slice, err = s.SweepSlices(t.Context(), tx, slice)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// wordyTree has a word of its own in each text that is searched, and others in texts that are not.
func wordyTree() []record.Change {
	return []record.Change{
		&record.Plan{
			RootPlanID: "p", CurrentPlanID: "p", Title: new("The TITLE"), UserRequest: new("request of\nÄnne"),
			Summary: new("summary"), ErrorMessage: new("disk_full: 100%"), ErrorKind: new("ENOSPC"), Project: new("sales"),
		},
		&record.Plan{
			RootPlanID: "p", CurrentPlanID: "p-sub", ParentPlanID: new("p"), ToolCallID: new("t"), Title: new("subtitle"),
		},
		&record.AgentExecution{
			RootPlanID: "p", PlanID: "p-sub", StepID: "s", AgentName: new("researcher"), AgentRequest: new("unsearched"),
			ErrorMessage: new("stepped on"), ErrorKind: new("StepError"),
		},
		&record.ThinkAct{
			RootPlanID: "p", StepID: "s", ThinkInput: new("prompted"), ErrorMessage: new("ECONNREFUSED 10.0.0.1"),
			ErrorKind: new("RateLimited"),
		},
		&record.ActTool{
			RootPlanID: "p", StepID: "s", ToolCallID: "t", Name: new("get_weather"), Parameters: new("argued"),
			ErrorMessage: new("at src/main.go:42"), ErrorKind: new("TimeoutError"),
		},
		&record.Plan{RootPlanID: "q", CurrentPlanID: "q", Title: new("another")},
	}
}

// N15: a search finds titles, requests, summaries, agents, tools and errors anywhere in a tree, before
// and after they are in the index, and after the index was made from the records.
func TestSearchFindsTexts(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	storetest.Write(t, s, wordyTree()...)
	check := func(when string) {
		t.Helper()
		for _, q := range []string{
			"title", "TITLE the", "subtitle", "request änne", "summ", "Disk_Full", "100%", "enospc", "RESEARCHER", "search",
			"stepped", "steperror", "refused", "10.0.0.1",
			"ratelimited", "get_weather", "weather", "main.go:42", "timeout", "title weather refused timeout", "of", "%",
		} {
			if got := found(t, s, store.PlanFilter{Query: q}); !slices.Equal(got, []string{"p"}) {
				t.Errorf("%s, %q finds %q", when, q, got)
			}
		}

		for _, q := range []string{
			"unsearched", "prompted", "argued", "title nothing", "title another", "itl3", "le", `\`, "titlesubtitle",
		} {
			if got := found(t, s, store.PlanFilter{Query: q}); len(got) > 0 {
				t.Errorf("%s, %q finds %q", when, q, got)
			}
		}

		if got := found(t, s, store.PlanFilter{Query: "title", Project: "sales"}); !slices.Equal(got, []string{"p"}) {
			t.Errorf("%s, of the project: %q", when, got)
		}
		if got := found(t, s, store.PlanFilter{Query: "title", Project: "other"}); len(got) > 0 {
			t.Errorf("%s, of another project: %q", when, got)
		}
	}

	check("fresh")
	index(t, s)
	check("indexed")

	if _, err := s.DB().Exec(t.Context(),
		"DELETE FROM actlog.search_text; DELETE FROM actlog.search_slice; DELETE FROM actlog.search_member; DELETE FROM "+
			"actlog.search_gram"); err != nil {
		t.Fatal(err)
	}
	if got := found(t, s, store.PlanFilter{Query: "title"}); len(got) > 0 {
		t.Fatalf("without an index: %q", got)
	}
	indexMissing(t, s)
	check("from the records")

	// What a tree learns later is found with what it had.
	storetest.Write(t, s, &record.ActTool{RootPlanID: "p", StepID: "s", Seq: 1, ToolCallID: "u", Name: new("late_tool")})
	for range 2 {
		for _, q := range []string{"late_tool", "title late_tool"} {
			if got := found(t, s, store.PlanFilter{Query: q}); !slices.Equal(got, []string{"p"}) {
				t.Errorf("%q finds %q", q, got)
			}
		}
		index(t, s)
	}
	check("indexed twice")
}

// N15: a text that is already known costs no further row.
func TestSearchKeepsATextOnce(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for range 3 {
		storetest.Write(t, s, wordyTree()...)
		storetest.Write(t, s, &record.ActTool{
			RootPlanID: "p", StepID: "s", Seq: 1, ToolCallID: "u", Name: new("get_weather"),
		})
	}

	if n := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.search_fresh"); n != 2 {
		t.Errorf("%d fresh rows", n)
	}
}

// N15: a deleted tree is not found, and is found again if it is written again.
func TestSearchForgetsDeletedTrees(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for _, indexed := range []bool{false, true} {
		storetest.Write(t, s, wordyTree()...)
		if indexed {
			index(t, s)
		}
		if err := s.DeletePlan(t.Context(), "p"); err != nil {
			t.Fatal(err)
		}
		if got := found(t, s, store.PlanFilter{Query: "title"}); len(got) > 0 {
			t.Errorf("deleted, but found: %q", got)
		}
	}

	storetest.Write(t, s, wordyTree()...)
	if got := found(t, s, store.PlanFilter{Query: "title"}); !slices.Equal(got, []string{"p"}) {
		t.Errorf("written again: %q", got)
	}

	for _, id := range []string{"p", "q"} {
		if err := s.DeletePlan(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}

	sweep(t, s)
	for _, table := range []string{"search_fresh", "search_text", "search_slice", "search_member", "search_gram"} {
		if n := storetest.Query[int](t, s, "SELECT count(*) FROM actlog."+table); n != 0 {
			t.Errorf("%s has %d rows", table, n)
		}
	}
}

// N15: a slice goes when all of its trees are deleted, also if an older tree lives.
func TestSearchSweepsSlicesOfDeletedTrees(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	const slicesMade = 40
	for i := range slicesMade {
		var changes []record.Change
		for _, id := range []string{fmt.Sprint("a", i), fmt.Sprint("b", i)} {
			changes = append(changes, &record.Plan{RootPlanID: id, CurrentPlanID: id, Title: new("the title")})
		}
		storetest.Write(t, s, changes...)
		index(t, s)
	}

	want := []string{}
	for i := range slicesMade {
		gone := []string{fmt.Sprint("a", i), fmt.Sprint("b", i)}
		if i%4 == 0 {
			want, gone = append(want, gone[i/4%2]), slices.Delete(gone, i/4%2, i/4%2+1)
		}
		if _, err := s.DeleteTrees(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
	}

	sweep(t, s)
	if n := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.search_slice"); n != slicesMade/4 {
		t.Errorf("%d slices are left", n)
	}
	for _, table := range []string{"search_member", "search_gram"} {
		if n := storetest.Query[int](t, s, "SELECT count(DISTINCT slice) FROM actlog."+table); n != slicesMade/4 {
			t.Errorf("%s has %d slices", table, n)
		}
	}

	slices.Reverse(want)
	if got := found(t, s, store.PlanFilter{Query: "title"}); !slices.Equal(got, want) {
		t.Errorf("finds %q, want %q", got, want)
	}
}

// N15: a tree that another session deleted, and that is written again, is found by all of its texts, also
// by those that this process knew before.
func TestSearchForgetsWhatOthersDelete(t *testing.T) {
	t.Parallel()
	for _, indexed := range []bool{false, true} {
		t.Run(fmt.Sprintf("indexed=%v", indexed), func(t *testing.T) {
			t.Parallel()
			pg := pgtest.New(t)
			a, b := storetest.OpenURL(t, pg.URL), storetest.OpenURL(t, pg.URL)
			tool := &record.ActTool{RootPlanID: "p", StepID: "s", ToolCallID: "t", Name: new("get_weather")}
			title := &record.Plan{RootPlanID: "p", CurrentPlanID: "p", Title: new("the title")}

			for range 2 {
				storetest.Write(t, a, title, tool)
				storetest.Write(t, a, tool)
				if indexed {
					index(t, a)
				}
				if err := b.DeletePlan(t.Context(), "p"); err != nil {
					t.Fatal(err)
				}

				storetest.Write(t, b, &record.Plan{RootPlanID: "p", CurrentPlanID: "p", Summary: new("from b")})
				storetest.Write(t, a, tool) // relies on the place of the tree
				if got := found(t, a, store.PlanFilter{Query: "get_weather from"}); !slices.Equal(got, []string{"p"}) {
					t.Errorf("the tool is not found: %q", got)
				}
				storetest.Write(t, a, title)
				if got := found(t, a, store.PlanFilter{Query: "title get_weather from"}); !slices.Equal(got, []string{"p"}) {
					t.Errorf("the title is not found: %q", got)
				}
			}

			before := storetest.Query[int](t, a, "SELECT count(*) FROM actlog.search_fresh")
			storetest.Write(t, a, title, tool)
			storetest.Write(t, a, tool)
			if n := storetest.Query[int](t, a, "SELECT count(*) FROM actlog.search_fresh"); n != before {
				t.Errorf("known texts made %d rows", n-before)
			}
		})
	}
}

// N15: when the rows of a trace move to the tree of a native plan, nothing is left of their texts, and
// they are found again if they come back.
func TestSearchForgetsTreesOfTracesThatMove(t *testing.T) {
	t.Parallel()
	for _, indexed := range []bool{false, true} {
		t.Run(fmt.Sprintf("indexed=%v", indexed), func(t *testing.T) {
			t.Parallel()
			s := storetest.OpenURL(t, pgtest.New(t).URL, takeTraces)
			spans, id := agentTrace(t, traceID(0)), traceID(0)
			writeSpans(t, s, spans...)
			tool := storetest.Query[string](t, s, "SELECT min(name) FROM actlog.act_tool_info")
			if indexed {
				index(t, s)
			}

			storetest.Write(t, s, &record.Plan{RootPlanID: "native", CurrentPlanID: "native", TraceID: &id})
			if err := store.ReplaceDue(s); err != nil {
				t.Fatal(err)
			}

			if got := found(t, s, store.PlanFilter{Query: tool}); !slices.Equal(got, []string{"native"}) {
				t.Errorf("%q finds %q", tool, got)
			}
			if n := storetest.Query[int](t, s,
				"SELECT (SELECT count(*) FROM actlog.search_text WHERE root_plan_id = $1) + (SELECT count(*) FROM "+
					"actlog.search_fresh WHERE root_plan_id = $1)", id); n != 0 {
				t.Errorf("%d rows of texts are left", n)
			}

			if err := s.DeletePlan(t.Context(), "native"); err != nil {
				t.Fatal(err)
			}
			writeSpans(t, s, spans...)
			if got := found(t, s, store.PlanFilter{Query: tool}); !slices.Equal(got, []string{id}) {
				t.Errorf("%q finds %q", tool, got)
			}
		})
	}
}

// N15: whether attempts meet in a batch, in the database, or are read from the records: the errors of
// all of them are found.
func TestSearchFindsErrorsOfAttempts(t *testing.T) {
	t.Parallel()
	attempt := func(root string, n int64) []record.Change {
		message, kind := new(fmt.Sprintf("failure %d", n)), new(fmt.Sprintf("Kind%d", n))
		return []record.Change{
			&record.AgentExecution{RootPlanID: root, PlanID: root, StepID: root + "-s", Attempt: &n, ErrorMessage: message},
			&record.ThinkAct{RootPlanID: root, StepID: root + "-s", Attempt: &n, ErrorKind: kind},
			&record.ActTool{
				RootPlanID: root, StepID: root + "-s", ToolCallID: "t", Attempt: &n, ErrorMessage: new("tool " + *message),
			},
		}
	}

	s := storetest.Open(t)
	storetest.Write(t, s, slices.Concat(attempt("together", 1), attempt("together", 2), attempt("together", 3))...)
	storetest.Write(t, s, slices.Concat(attempt("backwards", 3), attempt("backwards", 1), attempt("backwards", 2))...)
	for n := range int64(3) {
		storetest.Write(t, s, attempt("apart", n+1)...)
	}

	all := []string{"apart", "backwards", "together"}
	check := func(when string) {
		t.Helper()
		for _, q := range []string{
			"failure 1", "failure 2", "failure 3", "kind1", "kind2", "kind3", `"tool failure 1"`, "tool 1 2 3 kind1 kind2",
		} {
			got := found(t, s, store.PlanFilter{Query: strings.Trim(q, `"`)})
			if slices.Sort(got); !slices.Equal(got, all) {
				t.Errorf("%s, %q finds %q", when, q, got)
			}
		}
	}

	check("fresh")
	storetest.Exec(t, s, "DELETE FROM actlog.search_fresh")
	indexMissing(t, s)
	check("from the records")
}

// N15: if a tree has more texts than are searched, the title and the request of its root plan are
// among those that are, however its records come.
func TestSearchKeepsTextsOfRootPlansFirst(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	large := func(i int) *string { return new(strings.Repeat(fmt.Sprintf("%d ", i), 4000)) }
	for tree := range 3 {
		id := fmt.Sprint("p", tree)
		changes := []record.Change{}
		for i := range 30 {
			changes = append(changes, &record.AgentExecution{
				RootPlanID: id, PlanID: id, StepID: fmt.Sprint(id, "-s", i), ErrorMessage: large(1000 + i),
			},
				&record.Plan{
					RootPlanID: id, CurrentPlanID: fmt.Sprint("a", id, i), ParentPlanID: &id, ToolCallID: new("t"),
					ErrorMessage: large(2000 + i),
				})
		}

		changes = append(changes, &record.Plan{
			RootPlanID: id, CurrentPlanID: id, Title: new("the title"), UserRequest: new("the request"), Summary: large(3),
		})
		storetest.Write(t, s, changes...)
	}

	check := func(when string) {
		t.Helper()
		if got := found(t, s, store.PlanFilter{Query: "title request 3"}); len(got) != 3 {
			t.Errorf("%s: finds %q", when, got)
		}
		if got := found(t, s, store.PlanFilter{Query: "2000"}); len(got) != 3 {
			t.Errorf("%s: a sub-plan: %q", when, got)
		}
	}

	check("fresh")
	storetest.Exec(t, s, "DELETE FROM actlog.search_fresh")
	indexMissing(t, s)
	check("from the records")
}

// N15: whatever is in the index and whatever is not, pages of a search have each match once, in the
// order of the list: by when runs began, whenever that is told, and however far it is from when they came.
func TestSearchPages(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what a search finds")
	t.Parallel()
	pg := pgtest.New(t)
	s := storetest.OpenURL(t, pg.URL)
	words, now := []string{"red", "green", "blue", "x", "dark red"}, time.Now()

	rapid.Check(t, func(rt *rapid.T) {
		for _, table := range []string{
			"search_fresh", "search_text", "search_slice", "search_member", "search_gram", "agent_execution_record",
			"plan_execution_record", "change",
		} {
			execSQL(t, pg.Pool, "DELETE FROM actlog."+table)
		}
		execSQL(t, pg.Pool, "INSERT INTO actlog.search_deletion AS d (deletions) VALUES (1) ON CONFLICT (id) DO UPDATE "+
			"SET deletions = d.deletions + 1")

		texts, agents := map[string]string{}, map[string][]string{}
		n, others := rapid.IntRange(1, 12).Draw(rt, "steps"), false
		for i := range n {
			id := fmt.Sprint("plan-", rapid.IntRange(0, 8).Draw(rt, "plan"))
			word := rapid.SampledFrom(words).Draw(rt, "word")
			texts[id] += " " + word + "\n"
			agents[id] = append(agents[id], word)
			step := &record.AgentExecution{RootPlanID: id, PlanID: id, StepID: fmt.Sprint(id, "-", i), AgentName: &word}
			start := &record.Plan{
				RootPlanID: id, CurrentPlanID: id,
				StartTime: new(now.AddDate(rapid.SampledFrom([]int{-1, 0, 0, 1}).Draw(rt, "year"), 0,
					rapid.IntRange(-2, 2).Draw(rt, "day"))),
			}

			switch rapid.IntRange(0, 5).Draw(rt, "start") {
			case 0: // as runs that are imported
				storetest.Write(t, s, start, step)
			case 1: // alone, maybe of a tree that is in the index
				storetest.Write(t, s, step)
				if rapid.Bool().Draw(rt, "indexed before") {
					index(t, s)
				}
				storetest.Write(t, s, start)
			case 2: // by another program, which upkeep finds
				others = true
				storetest.Write(t, s, step)
				execSQL(t, pg.Pool, fmt.Sprintf("UPDATE actlog.plan_execution_record SET start_time = '%s' WHERE root_plan_id "+
					"= '%s'", start.StartTime.Format(time.RFC3339Nano), id))
				indexMissing(t, s)
				// It leaves trees with fresh texts to the next move, which knows their start.
			default:
				storetest.Write(t, s, step)
			}

			switch rapid.IntRange(0, 6).Draw(rt, "then") {
			case 0:
				index(t, s)
			case 1:
				indexMissing(t, s)
			case 2: // clocks of servers differ
				execSQL(t, pg.Pool, fmt.Sprintf("UPDATE actlog.plan_execution_record SET first_seen_at = first_seen_at - "+
					"interval '%d min' WHERE root_plan_id = '%s' AND NOT EXISTS (SELECT FROM actlog.search_member WHERE "+
					"root_plan_id = '%s')", rapid.IntRange(0, 2).Draw(rt, "before"), id, id))
			}
		}
		if others { // a server may have taken their start back, and remembers that it said its own: the next round finds that
			indexMissing(t, s)
		}

		rows, _ := s.DB().Query(t.Context(),
			"SELECT root_plan_id FROM actlog.plan_execution_record ORDER BY COALESCE(start_time, first_seen_at) DESC, "+
				"root_plan_id DESC")
		order, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if got := found(t, s, store.PlanFilter{}); !slices.Equal(got, order) {
			rt.Fatalf("the list has %q, want %q", got, order)
		}

		for _, q := range []string{"red", "green", "red green", "dark", "x", "blue x", "nothing"} {
			for _, agent := range []string{"", "red"} { // a filter refuses some
				want := slices.DeleteFunc(slices.Clone(order), func(id string) bool {
					return agent != "" && !slices.Contains(agents[id], agent) ||
						slices.ContainsFunc(strings.Fields(q), func(word string) bool { return !strings.Contains(texts[id], word) })
				})
				for limit := range 3 {
					if got := found(t, s, store.PlanFilter{Query: q, Agent: agent, Limit: limit + 1}); !slices.Equal(got, want) {
						rt.Fatalf("%q of agent %q finds %q, want %q", q, agent, got, want)
					}
				}
			}
		}
	})
}

func TestSearchRefusesQueries(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for _, q := range []string{" ", strings.Repeat("x", 4096)} {
		var invalid *record.InvalidError
		if _, err := s.Plans(t.Context(), store.PlanFilter{Query: q, Limit: 1}); !errors.As(err, &invalid) ||
			invalid.Field != "q" {
			t.Errorf("%.10q: %v", q, err)
		}
	}

	for _, q := range []string{
		"'", `"`, "!", "&", "|", "(", ")", ":*", "<->", `\`, "%", "_", "$1", "--", ";", "'; DROP", "{", "}", "^", "[a-z]",
		"a.*", "…",
	} {
		if got := found(t, s, store.PlanFilter{Query: q}); len(got) > 0 {
			t.Errorf("%q finds %q", q, got)
		}
	}
}

// N15, P5: no statement of a search reads all plans, or all of the index.
func TestSearchQueryPlans(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what Postgres plans and reads")
	t.Parallel()
	pg := pgtest.Fresh(t)
	execSQL(t, pg.Pool, `
		INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, part, first_seen_at, title, told_state)
		SELECT id, id, DATE '2026-01-05', now() - make_interval(secs => i), 'Title number' || i || CASE WHEN i % 2000 = 0 THEN ' rare' ELSE '' END, 'COMPLETED'
		FROM generate_series(1, 6000) AS i, LATERAL (SELECT 'plan-' || md5(i::text) AS id) AS x; ANALYZE`)

	s := storetest.OpenURL(t, pg.URL)
	indexMissing(t, s)
	storetest.Write(t, s, &record.Plan{RootPlanID: "fresh", CurrentPlanID: "fresh", Title: new("a fresh title")})

	for _, q := range []string{"rare", "number4000", "number2000 title"} {
		if n := len(found(t, s, store.PlanFilter{Query: q, Limit: 500})); n == 0 || n > 4 {
			t.Errorf("%q finds %d plans", q, n)
		}
	}
	if n := len(found(t, s, store.PlanFilter{Query: "title", Limit: 500})); n != 6_001 {
		t.Errorf("all pages have %d plans", n)
	}

	ids := storetest.Query[[]string](t, s,
		"SELECT array_agg(root_plan_id) FROM (SELECT root_plan_id FROM actlog.plan_execution_record ORDER BY "+
			"first_seen_at LIMIT 2000) AS x")
	forever, after := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), "\U0010FFFF"
	for _, tt := range []struct {
		name, sql, mode string
		most            int // rows that any part of the plan may read
		args            []any
	}{
		{"fresh", db.SearchFresh, "force_generic_plan", 10, []any{[]string{"%nothing%"}, []string{}, forever, after}},
		{
			"slices", db.SearchSlices, "force_generic_plan", 50, []any{
				forever, after, forever, after, 1 << 30, 16, []int64{1, 2, 3},
			},
		},
		{
			"matches", db.SearchMatches, "force_generic_plan", 10, []any{
				forever, after, time.Time{}, "", []string{"%nothing%"}, []string{}, []int32{1, 2}, []int32{5, 6},
			},
		},
		{"texts of records", fieldsql.Searched(), "force_generic_plan", 10, []any{ids[:2], 8192}},
		{"next fresh", db.SearchFreshFirst, "force_generic_plan", 10, []any{4096, 1 << 20}},
		{"missing", db.SearchMissing, "force_generic_plan", 20, []any{forever.AddDate(-1, 0, 0), "", 10}},
		{"hold", db.SearchHold, "force_generic_plan", 10, []any{ids[:2]}},
		{"sweep", db.SearchSliceSweep, "force_generic_plan", 10, []any{0, 16}},
		{"append", db.SearchAppend, "force_generic_plan", 10, []any{ids[:2], ids[:2], []bool{true, true}, 0}},
		{"delete fresh", db.TreeDeleteSearchFresh, "force_generic_plan", 10, []any{ids[:2]}},
		{"delete texts", db.TreeDeleteSearchText, "force_generic_plan", 10, []any{ids[:2]}},
		{
			"list", store.PlanListSQL, "force_custom_plan", 2000, []any{
				ids, forever, after, time.Time{}, "", nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, 51,
			},
		},
		{
			"list of one state", store.PlanListSQL, "force_custom_plan", 2000, []any{
				ids, forever, after, time.Time{}, "", "FAILED", nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil,
				nil, 51,
			},
		},
	} {
		plan := explain(t, s, tt.mode, tt.sql, tt.args...)
		for _, line := range strings.Split(plan, "\n") {
			if strings.Contains(line, "never executed") {
				continue
			}

			if strings.Contains(line, "Seq Scan") && !strings.Contains(line, "search_deletion") { // of one row
				t.Errorf("%s: %s\n%s", tt.name, strings.TrimSpace(line), plan)
			}
			if m := regexp.MustCompile(`rows=(\d+) loops=(\d+)`).FindStringSubmatch(line); m != nil {
				var rows, loops int
				_, _ = fmt.Sscan(m[1], &rows)
				_, _ = fmt.Sscan(m[2], &loops)
				if rows*loops > tt.most {
					t.Errorf("%s reads %d rows: %s\n%s", tt.name, rows*loops, strings.TrimSpace(line), plan)
				}
			}
			if m := regexp.MustCompile(
				`Rows Removed by (?:Filter|Join Filter|Index Recheck): (\d+)`,
			).FindStringSubmatch(line); m != nil {
				var rows int
				if _, _ = fmt.Sscan(m[1], &rows); rows > tt.most {
					t.Errorf("%s reads %d rows: %s\n%s", tt.name, rows, strings.TrimSpace(line), plan)
				}
			}
		}
	}
}

// explain runs a statement and returns its plan.
func explain(t testing.TB, s *store.Store, mode, sql string, args ...any) string {
	t.Helper()
	var plan []string
	err := s.DB().Transact(t.Context(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SELECT set_config('plan_cache_mode', $1, true)", mode); err != nil {
			return err
		}

		rows, err := tx.Query(t.Context(), "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) "+sql, args...)
		if err != nil {
			return err
		}
		plan, err = pgx.CollectRows(rows, pgx.RowTo[string])
		for i, line := range plan { // arrays of ids are long
			plan[i] = line[:min(len(line), 300)]
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(plan, "\n")
}

// N15: a tree that was begun without the index, by a server of the release before or by another
// program, is found by all of its texts, also if it got more since: whether its new texts are moved
// into the index first, or the runs from before are added first, or there are none to be added.
func TestSearchFindsTreesBegunBefore(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		backfill bool // is pending
		steps    []func(testing.TB, *store.Store)
	}{
		{"moved, then added", true, []func(testing.TB, *store.Store){index, indexMissing}},
		{"added, then moved", true, []func(testing.TB, *store.Store){indexMissing, index}},
		{"added", true, []func(testing.TB, *store.Store){indexMissing}},
		{"moved", false, []func(testing.TB, *store.Store){index}},
		{"repaired, then moved", false, []func(testing.TB, *store.Store){indexMissing, index, indexMissing}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			pg := pgtest.New(t)
			s := storetest.OpenURL(t, pg.URL)
			storetest.Write(t, s,
				&record.Plan{RootPlanID: "p", CurrentPlanID: "p", Title: new("early title"), UserRequest: new("early request")},
				&record.ActTool{RootPlanID: "p", StepID: "s", ToolCallID: "t", Name: new("early_tool")},
				&record.Plan{RootPlanID: "other", CurrentPlanID: "other", Title: new("early other")})

			execSQL(t, pg.Pool, "DELETE FROM actlog.search_fresh")
			if tt.backfill {
				execSQL(t, pg.Pool, "INSERT INTO actlog.search_backfill DEFAULT VALUES")
			}

			s = storetest.OpenURL(t, pg.URL) // the server after the update
			storetest.Write(t, s, &record.ActTool{RootPlanID: "p", StepID: "s", Seq: 1, ToolCallID: "u", Name: new("late_tool")})
			storetest.Write(t, s, &record.Plan{RootPlanID: "whole", CurrentPlanID: "whole", Title: new("late and whole")})
			for _, step := range tt.steps {
				step(t, s)
			}

			for _, q := range []string{"early title", "request", "early_tool", "late_tool", "early title late_tool"} {
				if got := found(t, s, store.PlanFilter{Query: q}); !slices.Equal(got, []string{"p"}) {
					t.Errorf("%q finds %q", q, got)
				}
			}
			if incomplete, err := s.SearchIncomplete(t.Context()); err != nil || incomplete {
				t.Errorf("incomplete: %v, %v", incomplete, err)
			}
			if n := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.search_member WHERE root_plan_id = 'whole'"); n > 1 {
				t.Errorf("a tree that the fresh texts have whole is in %d slices", n)
			}
		})
	}
}

// N15: texts with many different characters, or many large texts, make smaller slices: nothing that is
// indexed at once has no bound.
func TestSearchIndexesInBoundedSteps(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what Postgres plans and reads")
	t.Parallel()
	const plans = `INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, part, first_seen_at, title, user_request, summary, error_message)
		SELECT 'p' || i, 'p' || i, DATE '2026-01-05', now() - make_interval(secs => i), 'a ' || t.text, 'b ' || t.text, 'c ' || t.text, 'd ' || t.text FROM generate_series(1, %d) AS i, (SELECT repeat('%s', %d) AS text) AS t;`
	const fresh = "INSERT INTO actlog.search_fresh (root_plan_id, said_at, text) SELECT root_plan_id, first_seen_at, " +
		"title || E'\\n' || user_request || E'\\n' || summary || E'\\n' || error_message FROM actlog.plan_execution_record;"

	step := func(t *testing.T, s *store.Store, least int) (more bool) {
		t.Helper()
		err := s.DB().Transact(t.Context(), func(tx pgx.Tx) (err error) {
			more, err = s.IndexFresh(t.Context(), tx, least)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return more
	}

	t.Run("few large fresh texts", func(t *testing.T) {
		t.Parallel()
		s := storetest.OpenURL(t, pgtest.Fresh(t).URL)
		storetest.Exec(t, s, fmt.Sprintf(plans+fresh, 700, "text ", 3200))
		for step(t, s, store.FreshTexts) {
		}

		if n := storetest.Query[int](t, s, "SELECT COALESCE(sum(length(text)), 0) FROM actlog.search_fresh"); n > 10<<20 {
			t.Errorf("a search has to read %d bytes of fresh texts", n)
		}
		if n := len(found(t, s, store.PlanFilter{Query: "text", Limit: 100})); n != 700 {
			t.Errorf("finds %d", n)
		}
	})

	t.Run("one more line for large trees", func(t *testing.T) {
		t.Parallel()
		s := storetest.OpenURL(t, pgtest.Fresh(t).URL)
		storetest.Exec(t, s, fmt.Sprintf(plans, 700, "text ", 3200)+`
			INSERT INTO actlog.search_text SELECT root_plan_id, repeat(title, 3) FROM actlog.plan_execution_record;
			INSERT INTO actlog.search_fresh (root_plan_id, text) SELECT root_plan_id, 'late' FROM actlog.plan_execution_record, generate_series(1, 2)`)
		step(t, s, 0)

		if n := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.search_member"); n < 300 || n > 400 {
			t.Errorf("%d trees of 48 kB were indexed at once", n)
		}
		for step(t, s, 0) {
		}
		if n := len(found(t, s, store.PlanFilter{Query: "late text", Limit: 100})); n != 700 {
			t.Errorf("finds %d", n)
		}
	})

	t.Run("large records", func(t *testing.T) {
		t.Parallel()
		s := storetest.OpenURL(t, pgtest.Fresh(t).URL)
		storetest.Exec(t, s, fmt.Sprintf(plans, 1100, "text ", 2000))
		if err := s.DB().Transact(t.Context(), func(tx pgx.Tx) error {
			_, err := s.IndexMissing(t.Context(), tx, store.Beginning())
			return err
		}); err != nil {
			t.Fatal(err)
		}

		if n := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.search_text"); n == 0 || n > 800 {
			t.Errorf("%d trees of 32 kB were indexed at once", n)
		}
		indexMissing(t, s)
		if n := len(found(t, s, store.PlanFilter{Query: "text", Limit: 100})); n != 1100 {
			t.Errorf("finds %d", n)
		}
	})

	t.Run("many grams", func(t *testing.T) {
		t.Parallel()
		s := storetest.OpenURL(t, pgtest.Fresh(t).URL)
		storetest.Exec(t, s, fmt.Sprintf(plans, 12, "x", 1))
		r := rand.New(rand.NewPCG(1, 2))
		for i := range 12 {
			text := make([]rune, 16_000)
			for i := range text {
				text[i] = rune(0x4e00 + r.IntN(20_000))
			}
			storetest.Exec(t, s, fmt.Sprintf("INSERT INTO actlog.search_fresh (root_plan_id, text) VALUES ('p%d', '%s')", i+1,
				string(text)+"天天地"))
		}

		index(t, s)
		if n := storetest.Query[int](t, s,
			"SELECT max(n) FROM (SELECT count(*) AS n FROM actlog.search_gram GROUP BY slice) AS x"); n > 150_000 {
			t.Errorf("a slice has %d grams", n)
		}
		if got := found(t, s, store.PlanFilter{Query: "天天地"}); len(got) != 12 || got[0] != "p1" || got[11] != "p12" {
			t.Errorf("finds %q", got)
		}
	})
}
