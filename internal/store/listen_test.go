package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/record"
)

// following keeps what a store's feed delivers.
type following struct {
	mu     sync.Mutex
	roots  map[string]int // how often each was delivered
	last   store.Changes
	looks  int
	lost   int
	cancel context.CancelFunc
	ended  chan struct{}
}

func follow(t *testing.T, s *store.Store) *following {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f := &following{roots: map[string]int{}, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(f.ended)
		s.Follow(ctx, func(c store.Changes) {
			f.mu.Lock()
			defer f.mu.Unlock()
			for _, made := range c.Made {
				f.roots[made.RootPlanID]++
			}
			f.last = c
			f.looks++
			if c.Lost {
				f.lost++
			}
		})
	}()
	t.Cleanup(func() { cancel(); <-f.ended })
	until(t, "the feed begins", func() bool { _, looks := f.at(); return looks > 0 })
	return f
}

func (f *following) at() (last store.Changes, looks int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last, f.looks
}

func (f *following) times(root string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.roots[root]
}

func (f *following) losses() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost
}

// append appends to the feed in a transaction that stays open.
func appendChange(t *testing.T, db *pgtest.DB, root string) pgx.Tx {
	t.Helper()
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	if _, err := tx.Exec(t.Context(), "INSERT INTO actlog.change (root_plan_id, kinds) VALUES ($1, '{plan}')", root); err != nil {
		t.Fatal(err)
	}
	return tx
}

func finish(t *testing.T, end func(context.Context) error) {
	t.Helper()
	if err := end(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func plan(root string) *record.Plan {
	return &record.Plan{RootPlanID: root, CurrentPlanID: root, State: new(record.Running)}
}

func since(t *testing.T, s *store.Store, cursor, root string) []string {
	t.Helper()
	changes, err := s.ChangesSince(t.Context(), cursor, root)
	if err != nil {
		t.Fatal(err)
	}
	roots := map[string]bool{}
	for _, c := range changes {
		roots[c.RootPlanID] = true
	}
	return slices.Sorted(maps.Keys(roots))
}

// TestFeedWaitsForGaps: a number that is missing holds the cursor back, and nothing
// else, until it comes or can come no more.
func TestFeedWaitsForGaps(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := openURL(t, db.URL)
	write(t, s, plan("before"))
	f := follow(t, s)
	start, _ := f.at()
	if start.Cursor == "" || start.Gaps != 0 {
		t.Fatalf("at first: %+v", start)
	}
	early, gone := appendChange(t, db, "early"), appendChange(t, db, "gone")
	write(t, s, plan("later"))
	until(t, "what is later is delivered", func() bool { return f.times("later") == 1 })
	at, _ := f.at()
	if at.Gaps != 2 || at.Cursor != start.Cursor {
		t.Errorf("%+v, want two gaps and still %s", at, start.Cursor)
	}
	finish(t, gone.Rollback)
	write(t, s, plan("more"))
	until(t, "more is delivered", func() bool { return f.times("more") == 1 })
	if at, _ := f.at(); at.Cursor != start.Cursor {
		t.Errorf("the cursor passed a gap: %+v", at)
	}
	if got := since(t, s, start.Cursor, ""); !slices.Equal(got, []string{"later", "more"}) {
		t.Errorf("since the start: %q", got)
	}
	finish(t, early.Commit)
	until(t, "what is early is delivered", func() bool { return f.times("early") == 1 })
	until(t, "no gap is left", func() bool { at, _ := f.at(); return at.Gaps == 0 })
	end, _ := f.at()
	if got := since(t, s, end.Cursor, ""); len(got) > 0 {
		t.Errorf("since the end: %q", got)
	}
	if got := since(t, s, start.Cursor, "early"); !slices.Equal(got, []string{"early"}) {
		t.Errorf("of one tree: %q", got)
	}
	if f.times("later") != 1 || f.times("before") != 0 || f.losses() != 0 {
		t.Errorf("%+v", f.roots)
	}
}

// TestFeedBeginsBesideAWriter who took a number before, and commits after.
func TestFeedBeginsBesideAWriter(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := openURL(t, db.URL)
	slow := appendChange(t, db, "slow")
	write(t, s, plan("before"))
	f := follow(t, s)
	if at, _ := f.at(); at.Cursor != "" {
		t.Errorf("a cursor was given that may pass over what is not committed: %+v", at)
	}
	write(t, s, plan("after"))
	until(t, "others are not held up", func() bool { return f.times("after") == 1 })
	finish(t, slow.Commit)
	until(t, "it is told that something came", func() bool { return f.losses() == 1 })
	if at, _ := f.at(); at.Cursor == "" {
		t.Errorf("no cursor was given: %+v", at)
	}
}

// TestFeedIsNotHeldUp by a transaction that writes to another database.
func TestFeedIsNotHeldUp(t *testing.T) {
	t.Parallel()
	db, other := pgtest.New(t), pgtest.New(t)
	s := openURL(t, db.URL)
	appendChange(t, other, "elsewhere")
	f := follow(t, s)
	gone := appendChange(t, db, "gone")
	write(t, s, plan("p"))
	until(t, "it is delivered", func() bool { return f.times("p") == 1 })
	finish(t, gone.Rollback)
	until(t, "no gap is left", func() bool { at, _ := f.at(); return at.Gaps == 0 && at.Cursor != "" })
}

func TestStaleCursors(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := openURL(t, db.URL)
	f := follow(t, s)
	start, _ := f.at()
	write(t, s, plan("p"))
	until(t, "it is delivered", func() bool { return f.times("p") == 1 })
	now, _ := f.at()
	elsewhere := follow(t, openURL(t, pgtest.New(t).URL))
	foreign, _ := elsewhere.at()
	if _, err := s.ChangesSince(t.Context(), foreign.Cursor, ""); !errors.Is(err, store.ErrStaleCursor) {
		t.Errorf("a cursor of another database: %v", err)
	}
	for _, bad := range []string{"", "x", "-", "abc-1x", "12"} {
		var invalid *record.InvalidError
		if _, err := s.ChangesSince(t.Context(), bad, ""); !errors.As(err, &invalid) && !errors.Is(err, store.ErrStaleCursor) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	// Everything up to now is swept, but one that is later.
	if _, err := db.Pool.Exec(t.Context(), "UPDATE actlog.change SET at = now() - interval '2 days'"); err != nil {
		t.Fatal(err)
	}
	write(t, s, plan("q"))
	if err := store.SweepChanges(s, t.Context(), 24); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ChangesSince(t.Context(), start.Cursor, ""); !errors.Is(err, store.ErrStaleCursor) {
		t.Errorf("a cursor that lacks what was swept: %v", err)
	}
	if got := since(t, s, now.Cursor, ""); !slices.Equal(got, []string{"q"}) {
		t.Errorf("a cursor that lacks nothing: %q", got)
	}
}

// TestSweepKeepsWhatIsBehindTheYoung: the time of a change is when its transaction
// began, so times are not in the order of the numbers.
func TestSweepKeepsWhatIsBehindTheYoung(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := openURL(t, db.URL)
	if _, err := db.Pool.Exec(t.Context(), `INSERT INTO actlog.change (root_plan_id, kinds, at)
		SELECT 'r' || i, '{plan}', CASE WHEN i = 3 THEN now() ELSE now() - interval '2 days' END FROM generate_series(1, 5) AS i ORDER BY i`); err != nil {
		t.Fatal(err)
	}
	if err := store.SweepChanges(s, t.Context(), 24); err != nil {
		t.Fatal(err)
	}
	var left []string
	if err := db.Pool.QueryRow(t.Context(), "SELECT array_agg(root_plan_id ORDER BY seq) FROM actlog.change").Scan(&left); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(left, []string{"r3", "r4", "r5"}) {
		t.Errorf("left are %q", left)
	}
}

// TestFollowSurvives the loss of every connection: polling bridges it.
func TestFollowSurvives(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	s := openURL(t, db.URL, patient)
	f := follow(t, s)
	for i := range 5 {
		kill(t, db.Pool, db.URL)
		root := fmt.Sprint("p", i)
		write(t, s, plan(root))
		until(t, root+" is delivered", func() bool { return f.times(root) == 1 })
	}
	if f.losses() > 0 {
		t.Error("it was taken for another database")
	}
}

// TestFollowAsAServer: the roles of docs/operations.md may follow.
func TestFollowAsAServer(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	name, url := role(t, db)
	openURL(t, db.URL) // makes partitions, which the role may not
	if _, err := db.Pool.Exec(t.Context(), "GRANT USAGE ON SCHEMA actlog TO "+name+"; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA actlog TO "+name); err != nil {
		t.Fatal(err)
	}
	s := openURL(t, url)
	f := follow(t, s)
	write(t, s, plan("p"))
	until(t, "it is delivered", func() bool { return f.times("p") == 1 })
	if at, _ := f.at(); at.Cursor == "" {
		t.Errorf("%+v", at)
	}
}

// TestNotified: who follows need not wait for the next look.
func TestNotified(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := openURL(t, db.URL)
	conn, err := pgx.Connect(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "LISTEN actlog_change"); err != nil {
		t.Fatal(err)
	}
	write(t, s, plan("p"))
	if _, err := conn.WaitForNotification(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.DeletePlan(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.WaitForNotification(t.Context()); err != nil {
		t.Error(err)
	}
}

// rows reads all rows that a filter lets through, by kind and key.
func rows(t *testing.T, s *store.Store, root string, f store.RowFilter) map[record.Key]store.Row {
	t.Helper()
	all := map[record.Key]store.Row{}
	for len(f.Kinds) > 0 {
		page, err := s.Rows(t.Context(), root, &f)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page {
			all[r.Record.Key()] = r
		}
	}
	return all
}

// TestRowsOfATransaction: by the transactions that the feed names, exactly the rows are
// found that they wrote.
func TestRowsOfATransaction(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := openURL(t, db.URL)
	f := follow(t, s)
	root := record.NewPlanID()
	step := func(id string) *record.AgentExecution {
		return &record.AgentExecution{RootPlanID: root, PlanID: root, StepID: root + id, AgentName: new("a")}
	}
	write(t, s, plan(root), step("1"), step("2"),
		&record.ThinkAct{RootPlanID: root, StepID: root + "1", Seq: 0, ThinkInput: new("in"), InputTokens: new(int64(7))},
		&record.Wait{RootPlanID: root, PlanID: root, WaitID: "w"}, &record.Thought{RootPlanID: root, PlanID: root, ThoughtID: "t"},
		&record.Artifact{RootPlanID: root, PlanID: root, Name: "a", Value: []byte(`1`)}, &record.Source{RootPlanID: root, PlanID: root, SourceID: "s"})
	all := rows(t, s, root, store.RowFilter{Kinds: record.Kinds})
	if len(all) != 8 {
		t.Errorf("%d rows", len(all))
	}
	if r := all[step("1").Key()]; r.RollUps == nil || r.RollUps.Figures.InputTokens != 7 || r.RollUps.LatestRound != 1 {
		t.Errorf("%+v", r.RollUps)
	}
	if c := all[(&record.ThinkAct{RootPlanID: root, StepID: root + "1"}).Key()].Record.(*record.ThinkAct); *c.ThinkInput != "in" || *c.State != record.Pending {
		t.Errorf("%+v", c)
	}
	before, _ := f.at()
	call := &record.ActTool{RootPlanID: root, StepID: root + "1", Seq: 3, ToolCallID: "c", Result: new("out")}
	write(t, s, call)
	changes, err := s.ChangesSince(t.Context(), before.Cursor, root)
	if err != nil {
		t.Fatal(err)
	}
	filter := store.RowFilter{}
	for _, c := range changes {
		filter.XIDs = append(filter.XIDs, c.XID)
	}
	last := changes[slices.IndexFunc(changes, func(c store.Change) bool { return slices.Contains(c.Kinds, "actTool") })]
	filter.XIDs, filter.Kinds = []uint32{last.XID}, last.Touched()
	got := rows(t, s, root, filter)
	if len(got) != 3 || got[call.Key()].Record == nil || got[step("1").Key()].RollUps.Figures.ToolCalls != 1 {
		t.Errorf("%v", slices.Collect(maps.Keys(got)))
	}
	if filter.XIDs = []uint32{}; len(rows(t, s, root, filter)) != 0 {
		t.Error("rows of no transaction")
	}
}

// TestRowsInPages: many rows, and large ones.
func TestRowsInPages(t *testing.T) {
	t.Parallel()
	s := openURL(t, pgtest.New(t).URL)
	root := record.NewPlanID()
	var changes []record.Change
	large := make([]byte, 200<<10)
	for i := range large {
		large[i] = 'x'
	}
	for i := range int64(1200) {
		c := &record.ThinkAct{RootPlanID: root, StepID: fmt.Sprint(root, i%7), Seq: i}
		if i%100 == 0 {
			c.ThinkInput = new(string(large))
		}
		changes = append(changes, c)
	}
	write(t, s, changes...)
	f := store.RowFilter{Kinds: record.Kinds}
	seen, pages := map[record.Key]bool{}, 0
	for ; len(f.Kinds) > 0; pages++ {
		page, err := s.Rows(t.Context(), root, &f)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page {
			if seen[r.Record.Key()] {
				t.Fatalf("twice: %v", r.Record.Key())
			}
			seen[r.Record.Key()] = true
		}
	}
	if len(seen) != 1200+7+1 || pages < 6 {
		t.Errorf("%d rows in %d pages", len(seen), pages)
	}
}

// TestWritersBesideTheQueue tell the feed: by their transaction a row is found that
// another one wrote just before.
func TestWritersBesideTheQueue(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := openURL(t, db.URL)
	root := record.NewPlanID()
	f := follow(t, s)
	write(t, s, &record.Plan{RootPlanID: root, CurrentPlanID: root, State: new(record.Failed), Exception: new("no")})
	if _, found, err := s.ServeException(t.Context(), root, root); err != nil || !found {
		t.Fatal(found, err)
	}
	until(t, "both are delivered", func() bool { return f.times(root) == 2 })
}

// TestMovedRowsTellTheFeed: who moves rows into their partition writes them anew.
func TestMovedRowsTellTheFeed(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	for _, table := range store.PartitionedTables {
		if _, err := db.Pool.Exec(t.Context(), `DO $$ DECLARE child text; BEGIN
			FOR child IN SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'actlog.`+table+`'::regclass AND inhrelid <> 'actlog.`+table+`_default'::regclass
			LOOP EXECUTE 'DROP TABLE ' || child; END LOOP; END $$`); err != nil {
			t.Fatal(err)
		}
	}
	root := record.NewPlanID()
	call := &record.ActTool{RootPlanID: root, StepID: root, Seq: 0, ToolCallID: "c"}
	if _, err := db.Pool.Exec(t.Context(), `
		INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, part) VALUES ($1, $1, (now() AT TIME ZONE 'utc')::date)`, root); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Pool.Exec(t.Context(), `
		INSERT INTO actlog.agent_execution_record (root_plan_id, step_id, part) SELECT root_plan_id, root_plan_id, part FROM actlog.plan_execution_record`); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Pool.Exec(t.Context(), `
		INSERT INTO actlog.act_tool_info (root_plan_id, step_id, seq, tool_call_id, part) SELECT root_plan_id, step_id, 0, 'c', part FROM actlog.agent_execution_record`); err != nil {
		t.Fatal(err)
	}
	s := openURL(t, db.URL) // adds the partitions
	var xid uint32
	if err := db.Pool.QueryRow(t.Context(), "SELECT xmin::text::bigint FROM actlog.change WHERE root_plan_id = $1", root).Scan(&xid); err != nil {
		t.Fatal(err)
	}
	if got := rows(t, s, root, store.RowFilter{XIDs: []uint32{xid}, Kinds: record.Kinds}); got[call.Key()].Record == nil {
		t.Errorf("the feed does not lead to the row: %v", got)
	}
}

// TestFollowSurvivesAnOutage of the database, longer than a look.
func TestFollowSurvivesAnOutage(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	s := openURL(t, o.db.URL, patient)
	f := follow(t, s)
	for i := range 2 {
		o.begin(t)
		o.end(t)
		root := fmt.Sprint("p", i)
		write(t, s, plan(root))
		until(t, root+" is delivered", func() bool { return f.times(root) == 1 })
	}
	if f.losses() > 0 {
		t.Error("it was taken for another database")
	}
}
