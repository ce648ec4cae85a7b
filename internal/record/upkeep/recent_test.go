package upkeep_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// quiet opens the record, with its partitions. No upkeep takes a turn.
func quiet(t testing.TB, url string, options ...func(*store.Config)) *store.Store {
	t.Helper()
	s := storetest.OpenURL(t, url, options...)
	u, err := upkeep.Start(t.Context(), s, upkeep.Config{Logger: storetest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	u.Close()
	return s
}

// keepRecent keeps the texts of the runs that are due.
func keepRecent(t testing.TB, s *store.Store) {
	t.Helper()
	u := idle(t, s)
	upkeep.SetSlice(u, 4) // so that some runs are in slices, and some in none
	if err := upkeep.KeepRecent(u, t.Context()); err != nil {
		t.Fatal(err)
	}
}

// folded returns the runs whose texts are kept, and those that are passed over.
func folded(t testing.TB, s *store.Store) string {
	t.Helper()
	return storetest.Query[string](t, s,
		`SELECT COALESCE(string_agg(root_plan_id || CASE WHEN passed THEN ' passed' WHEN fold IS NULL THEN ' open' ELSE '' END, ', ' ORDER BY root_plan_id), '')
		FROM actlog.recent_text`)
}

// smallPieces cuts prompts as usual, but into smaller pieces.
func smallPieces(c *store.Config) {
	c.Contents = content.Sizes{Cut: 1, Least: 512, Average: 1024, Most: 2048}
}

// everywhere returns changes that say a text in every kind of row of a run that has ended.
func everywhere(root, text string) []record.Change {
	done := new(record.Completed)
	return []record.Change{
		&record.Plan{RootPlanID: root, CurrentPlanID: root, Title: new("plan " + text), State: done},
		&record.Plan{
			RootPlanID: root, CurrentPlanID: root + "-sub", ParentPlanID: &root, ToolCallID: new("c"),
			Summary: new("sub " + text), State: done,
		},
		&record.AgentExecution{RootPlanID: root, PlanID: root, StepID: root, Result: new("step " + text), State: done},
		&record.ThinkAct{
			RootPlanID: root, StepID: root, Seq: 0,
			ThinkInput: new("a prompt with some words before it: " + text + " some after it"), ThinkOutput: &text, State: done,
		},
		&record.ActTool{RootPlanID: root, StepID: root, Seq: 0, ToolCallID: "c", Result: &text, State: done},
		&record.Thought{RootPlanID: root, PlanID: root, ThoughtID: "t", Content: new("thought " + text)},
		&record.Artifact{RootPlanID: root, PlanID: root, Name: "a", Value: []byte(`{"artifact":true}`)},
		&record.Source{RootPlanID: root, PlanID: root, SourceID: "s", Snippet: new("source " + text)},
		&record.Wait{RootPlanID: root, PlanID: root, WaitID: "w", Title: new("wait " + text), State: new(record.Submitted)},
	}
}

// TestRecentTexts: with texts that are kept, a search has the same hits as one that reads everything, whatever they
// look like and however they are cut.
func TestRecentTexts(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	random := func(n int, of string) string {
		var b strings.Builder
		for range n {
			b.WriteByte(of[r.IntN(len(of))])
		}
		return b.String()
	}

	const hex, words = "0123456789abcdef", "abcdefghij      -_\\\n\""
	blob, talk := random(9_000, hex+"ABCDEF"), random(9_000, words)
	var escaped strings.Builder
	digits := random(1_000, hex)
	for _, c := range digits {
		fmt.Fprintf(&escaped, `\u%04x`, c)
	}

	texts := []string{
		"The Kelvin sign: \u212aelvin", "the İstanbul of I\u0307stanbul", `a \u0041pple, \\u0042anana`,
		`{"said":"he said \"come here\" twice"}`, "grüße", "na\u0308gel", "CAF\u00c9", "tab\tand\n\nline",
		strings.Repeat("deadbeef0123456789", 40), strings.Repeat("x", 300) + "needle-in-a-word" + strings.Repeat("y", 300),
		strings.Repeat("ab", 100) + `\u0041pricot` + strings.Repeat("zz", 100), "数据库 error 4711",
		`order-\u003481\u0032`, strings.Repeat(`\u003c\u0061\u002d12`, 40), blob, talk, escaped.String(),
		strings.Repeat("数据库", 900) + "boundary4711" + strings.Repeat("错误", 900), "100% of n_del",
	}
	needles := []string{
		"kelvin", "istanbul", "apple", "banana", `said "come here"`, "grüße", "nägel", "café", "and line", "d0123",
		"in-a-word", "apricot", "zzzz some after", "数据", "error 4711", "absent", "words before it", "id", "qzxjkvwqy",
		"order-4812", "-481", "<a-12<a-12", "boundary4711", "of n_del", "n_xel", "----------------------------------abc",
		"plan", "thought the kelvin", "artifact",
	}

	every := 30
	if pgtest.Nightly() {
		every = 1
	}
	for at := 0; at+40 < len(blob); at += 47 * every {
		needles = append(needles, blob[at:at+40])
	}
	for at := 0; at+12 < len(talk); at += 53 * every {
		needles = append(needles, talk[at:at+12], talk[at:at+4])
	}

	var acrossCuts []string // what the escapes stand for
	for at := 0; at+24 <= len(digits); at += 5 * every {
		acrossCuts = append(acrossCuts, digits[at:at+24])
	}
	needles = append(needles, acrossCuts...)

	for name, cut := range map[string]func(*store.Config){"in pieces": func(*store.Config) {}, "as usual": smallPieces,
		"whole": func(c *store.Config) {
			c.Contents.Cut = 1 << 30
		}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := quiet(t, pgtest.Fresh(t).URL, cut)
			for i, text := range texts {
				storetest.Write(t, s, everywhere(fmt.Sprintf("r%02d", i), text)...)
				root := fmt.Sprintf("prompt%02d", i) // says it nowhere else
				storetest.Write(t, s, &record.Plan{RootPlanID: root, CurrentPlanID: root, State: new(record.Completed)},
					&record.ThinkAct{
						RootPlanID: root, StepID: root, Seq: 0, ThinkInput: new("words before it: " + text + " some after it"),
					},
					&record.ThinkAct{
						RootPlanID: root, StepID: root, Seq: 1, ThinkInput: new("words before it: " + text + " some after it; and more"),
					})
			}

			all := func() map[string][]string {
				found := map[string][]string{}
				for _, needle := range needles {
					if strings.TrimSpace(needle) != "" {
						found[needle] = hits(t, s, needle)
						found["thoughts: "+needle] = hits(t, s, needle, record.KindThought, record.KindPlan)
					}
				}
				return found
			}
			want := all()
			for _, needle := range acrossCuts {
				if len(want[needle]) < 5 {
					t.Errorf("%s is found in %q", needle, want[needle])
				}
			}

			keepRecent(t, s)
			if open := storetest.Query[int](t, s,
				"SELECT count(*) FROM actlog.recent_text WHERE fold IS NULL AND NOT passed"); open > 0 {
				t.Errorf("%d runs are open", open)
			}
			if kept := storetest.Query[int](t, s,
				"SELECT count(*) FROM actlog.recent_text WHERE fold IS NOT NULL"); kept < len(texts) || name != "in pieces" &&
				kept < 2*len(texts) {
				t.Errorf("%d of %d runs are kept", kept, 2*len(texts))
			}

			if diff := cmp.Diff(want, all()); diff != "" {
				t.Errorf("with kept texts (-without +with):\n%s", diff)
			}
			if slices := storetest.Query[int](t, s, "SELECT count(DISTINCT slice) FROM actlog.recent_text"); slices < 2 {
				t.Errorf("%d slices", slices)
			}
		})
	}
}

// TestRecentTextsFollow: a run that changes is found as it is, at once; its text is kept again when it is settled.
// Nothing is left of one that is gone.
func TestRecentTextsFollow(t *testing.T) {
	t.Parallel()
	s := quiet(t, pgtest.Fresh(t).URL)
	finds := func(text, want string) {
		t.Helper()
		var roots []string
		for _, hit := range hits(t, s, text) {
			if root, _, _ := strings.Cut(hit, " "); !slices.Contains(roots, root) {
				roots = append(roots, root)
			}
		}
		slices.Sort(roots)
		if got := strings.Join(roots, " "); got != want {
			t.Errorf("%s is found in %q, want %q", text, got, want)
		}
	}

	storetest.Write(t, s, everywhere("a", "firstly")...)
	storetest.Write(t, s, everywhere("b", "firstly")...)
	storetest.Write(t, s, &record.Plan{
		RootPlanID: "live", CurrentPlanID: "live", Title: new("firstly"), State: new(record.Running),
	})
	keepRecent(t, s)
	if got := folded(t, s); got != "a, b, live open" {
		t.Fatalf("kept: %s", got)
	}
	finds("firstly", "a b live")

	storetest.Write(t, s, &record.ActTool{
		RootPlanID: "a", StepID: "a", Seq: 1, ToolCallID: "late", Result: new("latecomer"),
	})
	storetest.Write(t, s, everywhere("c", "latecomer")...)
	storetest.Write(t, s, &record.Plan{RootPlanID: "live", CurrentPlanID: "live", Summary: new("latecomer")})
	finds("latecomer", "a c live") // the feed names them

	keepRecent(t, s)
	if got := folded(t, s); got != "a, b, c, live open" {
		t.Errorf("kept: %s", got)
	}
	finds("latecomer", "a c live")

	// A run that nobody touches is settled, and one that a person deletes is gone.
	storetest.Exec(t, s, "UPDATE actlog.recent_text SET touched_at = touched_at - interval '2 minutes'")
	if err := s.DeletePlan(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if got := folded(t, s); got != "a, c, live open" {
		t.Errorf("kept: %s", got)
	}

	keepRecent(t, s)
	if got := folded(t, s); got != "a, c, live" {
		t.Errorf("kept: %s", got)
	}
	finds("firstly", "a live")

	storetest.Write(t, s, &record.Thought{RootPlanID: "live", PlanID: "live", ThoughtID: "t", Content: new("it goes on")})
	keepRecent(t, s)
	if got := folded(t, s); got != "a, c, live open" {
		t.Errorf("kept: %s", got)
	}
	finds("goes", "live")

	// A row that is left over of a tree that was deleted meanwhile goes with the next look at the feed.
	storetest.Write(t, s, everywhere("gone", "firstly")...)
	if err := s.DeletePlan(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	storetest.Exec(t, s, "INSERT INTO actlog.recent_text SELECT 'gone', part, now(), now(), false, true, 'firstly' "+
		"FROM actlog.recent_text LIMIT 1")

	finds("firstly", "a live")
	keepRecent(t, s)
	if got := folded(t, s); got != "a, c, live open" {
		t.Errorf("kept: %s", got)
	}
}

// TestRecentTextsOfManyWriters: what was written is found at once, by whichever server, while others write, delete and
// keep texts.
func TestRecentTextsOfManyWriters(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	s, other := quiet(t, pg.URL), storetest.OpenURL(t, pg.URL)
	keepRecent(t, s)
	ctx, stop := context.WithCancel(t.Context())
	var keepers, writers sync.WaitGroup

	for _, s := range []*store.Store{s, other} {
		keepers.Go(func() {
			for ctx.Err() == nil {
				u := idle(t, s)
				upkeep.SetSlice(u, 3)
				if err := upkeep.KeepRecent(u, ctx); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}

	for w := range 3 {
		writers.Go(func() {
			for i := range 25 {
				s, root := []*store.Store{s, other}[i%2], fmt.Sprint("run-", w, "-", i%5)
				text := fmt.Sprintf("said-%d-%d", w, i)
				storetest.Write(t, s, &record.Plan{RootPlanID: root, CurrentPlanID: root, State: new(record.Completed)},
					&record.ActTool{RootPlanID: root, StepID: root, Seq: int64(i), ToolCallID: "c", Result: &text})
				if got := hits(t, other, text); len(got) != 1 {
					t.Errorf("%s is found in %q", text, got)
				}

				if i%7 == 6 {
					if err := s.DeletePlan(t.Context(), root); err != nil {
						t.Error(err)
					}
					if got := hits(t, other, text); len(got) != 0 {
						t.Errorf("%s is found in %q after it was deleted", text, got)
					}
				}
			}
		})
	}

	writers.Wait()
	stop()
	keepers.Wait()
	storetest.Until(t, "all texts are kept", func() bool { // a transaction that was broken off may still have the turn
		keepRecent(t, s)
		return !strings.Contains(folded(t, s), "open")
	})
	if got := folded(t, s); strings.Count(got, "run-") != storetest.Query[int](t, s,
		"SELECT count(*) FROM actlog.plan_execution_record") {
		t.Errorf("kept: %s", got)
	}
}

// TestRecentTextsPeriods: runs of past periods are not kept; those of a period that has its index are kept no longer.
// All are found, whenever they began.
func TestRecentTextsPeriods(t *testing.T) {
	t.Parallel()
	s := quiet(t, pgtest.Fresh(t).URL)
	for _, root := range []string{"old", "future", "new"} {
		storetest.Write(t, s, everywhere(root, "needle-4711")...)
	}
	storetest.Write(t, s, &record.Plan{
		RootPlanID: "future", CurrentPlanID: "future", StartTime: new(time.Now().AddDate(1, 0, 0)),
	})
	storetest.Age(t, s, storetest.OldMonday, "old", "future")

	finds := func() {
		t.Helper()
		var got []string
		for _, hit := range hits(t, s, "needle-4711", record.KindActTool) {
			got = append(got, strings.Fields(hit)[0])
		}
		if want := []string{"future", "new", "old"}; !slices.Equal(got, want) {
			t.Errorf("found in %s, want %s", got, want)
		}
		if n := len(hits(t, s, "needle-4711")); n != 27 {
			t.Errorf("%d hits, want 27", n)
		}
	}

	finds()
	keepRecent(t, s)
	if got := folded(t, s); got != "new" {
		t.Errorf("kept: %s", got)
	}
	finds()

	// As if the old period had been the present one.
	storetest.Exec(t, s, "UPDATE actlog.recent_progress SET from_day = $1::text::date, before_at = '9999-12-31', "+
		"before_id = '', older_at = NULL", storetest.OldMonday)
	keepRecent(t, s)
	if got := folded(t, s); got != "future, new, old" {
		t.Errorf("kept: %s", got)
	}
	finds()

	if err := upkeep.IndexTexts(idle(t, s), t.Context()); err != nil {
		t.Fatal(err)
	}
	keepRecent(t, s)
	if got := folded(t, s); got != "new" {
		t.Errorf("kept with an index: %s", got)
	}
	finds()

	storetest.Write(t, s, &record.ActTool{
		RootPlanID: "old", StepID: "old", Seq: 1, ToolCallID: "late", Result: new("latecomer"),
	})
	if got := hits(t, s, "latecomer"); len(got) != 1 {
		t.Errorf("late: %q", got)
	}
	keepRecent(t, s)
	if got := hits(t, s, "latecomer"); len(got) != 1 || folded(t, s) != "new" {
		t.Errorf("late: %q; kept: %s", got, folded(t, s))
	}
}

// TestRecentTextsBeginAgain: what is kept is given up when nobody can tell any more what has changed, and by another
// release. A newer release is left alone.
func TestRecentTextsBeginAgain(t *testing.T) {
	t.Parallel()
	s := quiet(t, pgtest.Fresh(t).URL)
	for i := range 3 {
		storetest.Write(t, s, everywhere(fmt.Sprint("r", i), "needle-4711")...)
	}
	finds := func() {
		t.Helper()
		if n := len(hits(t, s, "needle-4711", record.KindPlan)); n != 6 {
			t.Errorf("%d hits, want 6", n)
		}
	}

	keepRecent(t, s)
	for _, broken := range []string{
		"UPDATE actlog.recent_progress SET version = 0",
		"UPDATE actlog.recent_progress SET seq = -1; UPDATE actlog.change SET at = at - interval '25 hours'",
	} {
		storetest.Exec(t, s, "UPDATE actlog.recent_text SET fold = 'nothing'") // is made again
		storetest.Exec(t, s, broken)
		if err := upkeep.SweepChanges(idle(t, s), t.Context(), 24); err != nil {
			t.Fatal(err)
		}

		keepRecent(t, s)
		finds()
		if got := storetest.Query[int](t, s,
			"SELECT count(*) FROM actlog.recent_text WHERE fold LIKE '%needle-4711%'"); got != 3 {
			t.Errorf("%s: %d runs are kept again: %s", broken, got, folded(t, s))
		}
	}

	storetest.Exec(t, s, "UPDATE actlog.recent_progress SET version = version + 1; UPDATE actlog.recent_text SET fold "+
		"= 'nothing'")
	keepRecent(t, s)
	finds()
	if got := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.recent_text WHERE fold = 'nothing'"); got != 3 {
		t.Errorf("%d runs of a newer release are left", got)
	}
}

// TestRecentTextsTooLarge: the texts of a run that are too large are read, as are those that cannot be folded. The
// others are kept.
func TestRecentTextsTooLarge(t *testing.T) {
	t.Parallel()
	s := quiet(t, pgtest.Fresh(t).URL)
	storetest.Write(t, s, everywhere("a", "needle-4711")...)
	storetest.Write(t, s, everywhere("bad", "needle-4711 unfoldable")...)
	storetest.Write(t, s, everywhere("large", "needle-4711")...)
	for i := range 9 {
		storetest.Write(t, s, &record.Artifact{
			RootPlanID: "large", PlanID: "large", Name: fmt.Sprint("b", i),
			Value: []byte(`"` + strings.Repeat("large ", 100_000) + `"`),
		})
	}
	storetest.Write(t, s, everywhere("z", "needle-4711")...)

	storetest.Exec(t, s, `CREATE FUNCTION actlog.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF NEW.fold LIKE '%unfoldable%' THEN RAISE 'refused'; END IF; RETURN NEW; END $$;
		CREATE TRIGGER refuse BEFORE UPDATE ON actlog.recent_text FOR EACH ROW EXECUTE FUNCTION actlog.refuse()`)
	var log storetest.Log
	if err := upkeep.KeepRecent(upkeep.Idle(s, upkeep.Config{Logger: log.Logger()}), t.Context()); err != nil {
		t.Fatal(err)
	}

	if got := folded(t, s); got != "a, bad passed, large passed, z" {
		t.Errorf("kept: %s", got)
	}
	if said := log.String(); !strings.Contains(said, "rootPlanId=bad") {
		t.Errorf("logged:\n%s", said)
	}
	if n := len(hits(t, s, "needle-4711", record.KindWait)); n != 4 {
		t.Errorf("%d hits, want 4", n)
	}
}

// TestRecentTextsManyHits: if more runs have a word than are listed, the newest are read first, and the search comes to
// its end.
func TestRecentTextsManyHits(t *testing.T) {
	t.Parallel()
	s := quiet(t, pgtest.Fresh(t).URL)
	const runs = 400

	var changes []record.Change
	for i := range runs {
		root, text := fmt.Sprintf("r%03d", i), "common"
		if i%40 == 0 {
			text = "common and rare-4711"
		}
		changes = append(changes, &record.Plan{
			RootPlanID: root, CurrentPlanID: root, Title: &text, State: new(record.Completed),
			StartTime: new(time.Now().Add(-time.Duration(i) * time.Second)),
		})
	}
	storetest.Write(t, s, changes...)
	keepRecent(t, s)

	for text, want := range map[string]int{"common": runs, "rare-4711": 10, "common and": 10, "absent": 0} {
		for _, most := range []int{3, 500} {
			n := 0
			for search := (store.TextSearch{Text: text, Most: most, Time: time.Minute}); ; {
				found, err := s.SearchTexts(t.Context(), search)
				if err != nil {
					t.Fatal(err)
				}
				n += len(found.Hits)
				if search.From = found.Next; found.Next == nil {
					break
				}
			}

			if n != want {
				t.Errorf("%s in pages of %d: %d hits, want %d", text, most, n, want)
			}
		}
	}
}

// TestRecentTextsOfAWriter: a server whose role may only read and write keeps texts as well.
func TestRecentTextsOfAWriter(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	s := quiet(t, pg.URL)
	other := storetest.OpenURL(t, storetest.WriterURL(t, pg))
	for i := range 9 {
		storetest.Write(t, other, everywhere(fmt.Sprint("r", i), "needle-4711")...)
	}

	keepRecent(t, other)
	if got := folded(t, s); got != "r0, r1, r2, r3, r4, r5, r6, r7, r8" {
		t.Errorf("kept: %s", got)
	}
	if n := len(hits(t, other, "needle-4711", record.KindPlan)); n != 18 {
		t.Errorf("%d hits, want 18", n)
	}
}

// sliced returns the slices of the index of recent texts.
func sliced(t testing.TB, s *store.Store) string {
	t.Helper()
	return storetest.Query[string](t, s,
		`SELECT COALESCE(string_agg(DISTINCT slice::text, ' ' ORDER BY slice::text), 'none')
		FROM actlog.recent_gram`)
}

// TestRecentSlicesGo: a slice goes when all its runs are gone or have changed, whether there are older ones or not.
func TestRecentSlicesGo(t *testing.T) {
	t.Parallel()
	s := quiet(t, pgtest.Fresh(t).URL)
	for i := range 16 {
		storetest.Write(t, s, everywhere(fmt.Sprintf("r%02d", i), "needle-4711")...)
	}
	keepRecent(t, s)
	if got := sliced(t, s); got != "1 2 3 4" {
		t.Fatalf("slices %s", got)
	}

	// Of the runs of a slice, two change and two go.
	late := 0
	empty := func(slice int) {
		t.Helper()
		for i := range 4 {
			root := storetest.Query[string](t, s,
				"SELECT root_plan_id FROM actlog.recent_text WHERE slice = $1 ORDER BY root_plan_id LIMIT 1", slice)
			if i < 2 {
				late++
				storetest.Write(t, s, &record.Thought{
					RootPlanID: root, PlanID: root, ThoughtID: "late", Content: new("latecomer"),
				})
			} else if err := s.DeletePlan(t.Context(), root); err != nil {
				t.Fatal(err)
			}

			keepRecent(t, s)
			if n := len(hits(t, s, "latecomer")); n != late {
				t.Errorf("%d hits, want %d", n, late)
			}
		}
	}

	empty(2)
	if got := sliced(t, s); got != "1 3 4" {
		t.Errorf("slices %s", got)
	}
	empty(1)
	if got := sliced(t, s); got != "3 4 5" { // those that have changed are in the last
		t.Errorf("slices %s", got)
	}
	if n := len(hits(t, s, "needle-4711", record.KindPlan)); n != 24 {
		t.Errorf("%d hits, want 24", n)
	}
}

// TestRecentTextsOfLiveRuns: a run that goes on does not change slices again and again, and is folded the more
// seldom the longer it lasts.
func TestRecentTextsOfLiveRuns(t *testing.T) {
	t.Parallel()
	s := quiet(t, pgtest.Fresh(t).URL)
	const all = "live0, live1, live2, live3"
	for i := range 4 {
		root := fmt.Sprint("live", i)
		storetest.Write(t, s, &record.Plan{
			RootPlanID: root, CurrentPlanID: root, Title: new("needle-4711"), State: new(record.Running),
			StartTime: new(time.Now().Add(-2 * time.Hour)),
		})
	}

	quietFor := func(interval, kept, slices string) {
		t.Helper()
		storetest.Exec(t, s, "UPDATE actlog.recent_text SET touched_at = now() - $1::text::interval", interval)
		keepRecent(t, s)

		if got := folded(t, s); got != kept {
			t.Errorf("kept after %s: %s, want %s", interval, got, kept)
		}
		if got := sliced(t, s); got != slices {
			t.Errorf("slices after %s: %s, want %s", interval, got, slices)
		}
		if n := len(hits(t, s, "needle-4711")); n != 4 {
			t.Errorf("%d hits, want 4", n)
		}
	}

	keepRecent(t, s)
	quietFor("2 minutes", "live0 open, live1 open, live2 open, live3 open", "none")
	quietFor("35 minutes", all, "none")
	quietFor("25 hours", all, "1")
}

// TestRecentTextsPassOver: for each run whose words cannot be made, few pages are made in vain.
func TestRecentTextsPassOver(t *testing.T) {
	t.Parallel()
	s := quiet(t, pgtest.Fresh(t).URL)
	for i := range 60 {
		root, text := fmt.Sprintf("r%02d", i), "needle-4711"
		if i == 20 {
			text = "needle-4711 unfoldable"
		}
		storetest.Write(t, s, &record.Plan{
			RootPlanID: root, CurrentPlanID: root, Title: &text, State: new(record.Completed),
		})
	}

	storetest.Exec(t, s, `CREATE SEQUENCE actlog.refused;
		CREATE FUNCTION actlog.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF NEW.fold LIKE '%unfoldable%' THEN
				RAISE '% is refused', nextval('actlog.refused');
			END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER refuse BEFORE UPDATE ON actlog.recent_text FOR EACH ROW EXECUTE FUNCTION actlog.refuse()`)

	keepRecent(t, s)
	if n := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.recent_text WHERE fold IS NOT NULL"); n != 59 {
		t.Errorf("%d runs are kept: %s", n, folded(t, s))
	}
	if n := storetest.Query[int](t, s, "SELECT last_value FROM actlog.refused"); n > 14 {
		t.Errorf("%d pages were made in vain", n)
	}
}

// TestRecentTextsOutOfReach: a search that cannot ask the index of recent texts for the moment reads.
func TestRecentTextsOutOfReach(t *testing.T) {
	t.Parallel()
	s := quiet(t, pgtest.Fresh(t).URL)
	storetest.Write(t, s, everywhere("a", "needle-4711")...)
	keepRecent(t, s)

	storetest.Exec(t, s, `CREATE FUNCTION actlog.refuse() RETURNS integer LANGUAGE plpgsql AS $$ BEGIN
			RAISE 'too many connections' USING ERRCODE = '53300';
		END $$;
		ALTER TABLE actlog.recent_slice RENAME TO slice;
		CREATE VIEW actlog.recent_slice AS SELECT actlog.refuse() AS slice`)
	if n := len(hits(t, s, "needle-4711", record.KindPlan)); n != 2 {
		t.Errorf("%d hits, want 2", n)
	}
}

// TestRecentTextsHoldUpNobody: a tree that somebody is deleting is left alone, and what drops detail deletes the texts
// first.
func TestRecentTextsHoldUpNobody(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	s := quiet(t, pg.URL)
	storetest.Write(t, s, everywhere("a", "needle-4711")...)
	storetest.Write(t, s, everywhere("b", "needle-4711")...)
	keepRecent(t, s)
	storetest.Exec(t, s, "UPDATE actlog.recent_text SET fold = NULL")

	tx, err := pg.Pool.BeginTx(t.Context(), pgx.TxOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), "DELETE FROM actlog.recent_text WHERE root_plan_id = 'b'"); err != nil {
		t.Fatal(err)
	}

	keepRecent(t, s)
	if got := folded(t, s); got != "a, b open" {
		t.Errorf("kept: %s", got)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	keepRecent(t, s)
	if got := folded(t, s); got != "a" {
		t.Errorf("kept: %s", got)
	}
}
