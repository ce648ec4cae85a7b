package upkeep_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// hits returns where runs say a text.
func hits(t testing.TB, s *store.Store, text string, kinds ...record.Kind) (all []string) {
	t.Helper()
	found, err := s.SearchTexts(t.Context(), store.TextSearch{Text: text, Kinds: kinds, Most: 500, Time: time.Minute})
	if err != nil || found.Next != nil {
		t.Fatalf("s.SearchTexts = %v, %v", err, found.Next)
	}

	for _, h := range found.Hits {
		all = append(all, fmt.Sprint(h.Run.RootPlanID, " ", h.Key.Kind, " ", h.Key.Seq, " ", h.Field, ": ", h.Before, "[",
			h.Match, "]"))
	}
	return all
}

// textIndexes returns the indexes for the search in texts that are complete.
func textIndexes(t testing.TB, s *store.Store) string {
	t.Helper()
	return storetest.Query[string](t, s,
		`SELECT COALESCE(string_agg(c.relname, ' ' ORDER BY c.relname), '') FROM pg_class AS c JOIN pg_index AS x ON x.indexrelid = c.oid
		WHERE c.relname LIKE '%\_search%' AND c.relname ~ '_p[0-9]{8}_' AND x.indisvalid`)
}

// TestTextIndex: only periods that are over have an index, which is used, and with which a search has the same hits.
func TestTextIndex(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	s := open(t, pg.URL)
	texts := []string{
		"The Kelvin sign: \u212aelvin", "the İstanbul of I\u0307stanbul", `a \u0041pple, \\u0042anana`,
		`{"said":"he said \"come here\" twice"}`, "grüße", "na\u0308gel", "CAF\u00c9", "tab\tand\n\nline",
		strings.Repeat("deadbeef0123456789", 40), strings.Repeat("x", 300) + "needle-in-a-word" + strings.Repeat("y", 300),
		strings.Repeat("ab", 100) + `\u0041pricot` + strings.Repeat("zz", 100), "数据库 error 4711",
		`order-\u003481\u0032`, strings.Repeat(`\u003c\u0061\u002d12`, 40),
	}
	needles := []string{
		"kelvin", "istanbul", "apple", "banana", `said "come here"`, "grüße", "nägel", "café", "and line", "d0123",
		"in-a-word", "apricot", "zzzz some after", "数据", "error 4711", "absent", "words before it", "id", "qzxjkvwqy",
		"order-4812", "-481", "<a-12<a-12",
	}

	var roots []string
	for i, text := range texts {
		for _, when := range []string{"old", "new"} {
			root := fmt.Sprintf("%s%02d", when, i)
			if when == "old" {
				roots = append(roots, root)
			}

			storetest.Write(t, s, &record.Plan{RootPlanID: root, CurrentPlanID: root, Title: &text},
				&record.ThinkAct{
					RootPlanID: root, StepID: root, Seq: 0,
					ThinkInput: new("a prompt with some words before it: " + text + " some after it"),
				},
				&record.ThinkAct{
					RootPlanID: root, StepID: root, Seq: 1,
					ThinkInput: new("a prompt with some words before it: " + text + " some after it; and more"), ThinkOutput: &text,
				},
				&record.ActTool{RootPlanID: root, StepID: root, Seq: 0, ToolCallID: "c", Result: &text})
		}
	}
	storetest.Age(t, s, storetest.OldMonday, roots...)

	all := func() map[string][]string {
		found := map[string][]string{}
		for _, needle := range needles {
			found[needle] = hits(t, s, needle)
			found["detail: "+needle] = hits(t, s, needle, record.KindThinkAct, record.KindActTool)
		}
		return found
	}
	want := all()

	var wg sync.WaitGroup
	for range 3 { // servers
		wg.Go(func() {
			if err := upkeep.IndexTexts(idle(t, s), t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := upkeep.IndexTexts(idle(t, s), t.Context()); err != nil {
		t.Fatal(err)
	}

	day := strings.ReplaceAll(storetest.OldMonday, "-", "")
	indexes := fmt.Sprintf("act_tool_info_p%[1]s%[2]s content_p%[1]s%[2]s think_act_record_p%[1]s%[2]s", day,
		store.SearchIndexSuffix)
	if got := textIndexes(t, s); got != indexes {
		t.Fatalf("indexes %s, want %s", got, indexes)
	}

	if diff := cmp.Diff(want, all()); diff != "" {
		t.Errorf("with the index (-without +with):\n%s", diff)
	}
	if n := len(want["error 4711"]); n != 8 {
		t.Errorf("%d hits: %s", n, want["error 4711"])
	}
	storetest.Until(t, "all indexes are used", func() bool {
		hits(t, s, "kelvin")
		return storetest.Query[int](t, s,
			"SELECT count(*) FROM pg_stat_user_indexes WHERE indexrelname LIKE '%'||$1 AND idx_scan > 0",
			store.SearchIndexSuffix) == 3
	})

	// What comes late is found as well.
	storetest.Write(t, s, &record.ActTool{
		RootPlanID: "old00", StepID: "old00", Seq: 1, ToolCallID: "late", Result: new("latecomer"),
	},
		&record.ThinkAct{RootPlanID: "old00", StepID: "old00", Seq: 2, ThinkInput: new("a prompt of the latecomer")})
	if got := hits(t, s, "latecomer"); len(got) != 2 {
		t.Errorf("late: %s", got)
	}

	// An index that was broken off, or is of another release, is made again.
	storetest.Exec(t, s, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = $1::text::regclass",
		"actlog.content_p"+day+store.SearchIndexSuffix)
	storetest.Exec(
		t, s, fmt.Sprintf("ALTER INDEX actlog.act_tool_info_p%[1]s%[2]s RENAME TO act_tool_info_p%[1]s_search0", day,
			store.SearchIndexSuffix),
	)
	if got := hits(t, s, "latecomer"); len(got) != 2 {
		t.Errorf("without an index: %s", got)
	}

	if err := upkeep.IndexTexts(idle(t, s), t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := textIndexes(t, s); got != indexes {
		t.Errorf("made again: %s, want %s", got, indexes)
	}

	storetest.Exec(t, s, "UPDATE actlog.plan_execution_record SET told_state = 'COMPLETED'")
	dropDetail(t, s)
	gone(t, s, storetest.OldMonday)
	if got := textIndexes(t, s); got != "" {
		t.Errorf("the indexes %s are left", got)
	}
}

// TestTextIndexWithoutTrigrams: it is said once, and a search finds the same.
// TestDropDetailWhileItIsIndexed: an index that waits for a long report holds up neither writers nor readers. The drop
// gives way, and succeeds later.
func TestDropDetailWhileItIsIndexed(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	s := open(t, pg.URL, storetest.Patient)
	storetest.WriteTree(t, s, "old", record.Completed)
	storetest.Age(t, s, storetest.OldMonday, "old")

	report, err := pg.Pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = report.Rollback(context.Background()) }()
	if _, err := report.Exec(t.Context(), "SELECT count(*) FROM actlog.content"); err != nil {
		t.Fatal(err)
	}

	done := make(chan error, 1)
	go func() { done <- upkeep.IndexTexts(idle(t, s), t.Context()) }()
	storetest.Until(t, "the index waits", func() bool {
		return storetest.Query[bool](t, s,
			"SELECT EXISTS (SELECT FROM pg_stat_progress_create_index WHERE phase LIKE 'waiting for old%')")
	})

	if err := upkeep.DropDetail(idle(t, storetest.OpenURL(t, pg.URL)), t.Context(), 30); err == nil {
		t.Error("the drop did not give way")
	}
	storetest.Write(t, s, &record.ActTool{
		RootPlanID: "old", StepID: "old-a", Seq: 7, ToolCallID: "late", Result: new("latecomer"),
	})
	if got := hits(t, s, "latecomer"); len(got) != 1 {
		t.Errorf("found %q", got)
	}

	if err := report.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := hits(t, s, "latecomer"); len(got) != 1 {
		t.Errorf("with the index: %q", got)
	}
	dropDetail(t, s)
	gone(t, s, storetest.OldMonday)
}

func TestTextIndexWithoutTrigrams(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	s := open(t, pg.URL)
	storetest.Write(t, s, &record.Plan{RootPlanID: "old", CurrentPlanID: "old"},
		&record.ThinkAct{RootPlanID: "old", StepID: "s", Seq: 0, ThinkInput: new("a needle")})
	storetest.Age(t, s, storetest.OldMonday, "old")

	writer := storetest.WriterURL(t, pg)
	var log storetest.Log
	other := storetest.OpenURL(t, writer, logTo(&log))
	u := upkeep.Idle(other, upkeep.Config{Logger: log.Logger()})
	for range 2 { // neither owns the tables, so another server may do it
		if err := upkeep.IndexTexts(u, t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if said := log.String(); strings.Contains(said, "pg_trgm") {
		t.Errorf("logged:\n%s", said)
	}

	role, err := url.Parse(writer)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range upkeep.PartitionedTables {
		storetest.Exec(t, s, fmt.Sprintf("ALTER TABLE actlog.%s_p%s OWNER TO %s", table,
			strings.ReplaceAll(storetest.OldMonday, "-", ""), role.User.Username()))
	}

	for range 2 {
		if err := upkeep.IndexTexts(u, t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if said := log.String(); strings.Count(said, "create the extension pg_trgm") != 1 {
		t.Errorf("logged:\n%s", said)
	}
	if got := hits(t, other, "needle"); !slices.Equal(got, []string{"old thinkAct 0 thinkInput: a [needle]"}) ||
		textIndexes(t, s) != "" {
		t.Errorf("found %q", got)
	}
}
