package feed_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/feed"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// following collects what the feed of a store delivers.
type following struct {
	mu     sync.Mutex
	roots  map[string]int // how often each was delivered
	last   feed.Changes
	polls  int
	lost   int
	cancel context.CancelFunc
	ended  chan struct{}
}

// follow starts to follow the feed of a store, until the end of the test.
func follow(t *testing.T, s *store.Store) *following {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f := &following{roots: map[string]int{}, cancel: cancel, ended: make(chan struct{})}

	go func() {
		defer close(f.ended)
		s.Feed().Follow(ctx, func(c feed.Changes) {
			f.mu.Lock()
			defer f.mu.Unlock()
			for _, made := range c.Committed {
				f.roots[made.RootPlanID]++
			}
			f.last = c
			f.polls++
			if c.Lost {
				f.lost++
			}
		})
	}()

	t.Cleanup(func() { cancel(); <-f.ended })
	storetest.Until(t, "following has begun", func() bool { _, polls := f.at(); return polls > 0 })
	return f
}

// at returns the last delivery, and how many there were.
func (f *following) at() (last feed.Changes, polls int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last, f.polls
}

// times returns how often a change to a tree was delivered.
func (f *following) times(root string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.roots[root]
}

// losses returns how often changes may have been missed.
func (f *following) losses() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost
}

// appendChange appends to the feed in a transaction and returns it, still open.
func appendChange(t *testing.T, db *pgtest.DB, root string) pgx.Tx {
	t.Helper()
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })

	if _, err := tx.Exec(t.Context(), "INSERT INTO actlog.change (root_plan_id, kinds) VALUES ($1, '{plan}')",
		root); err != nil {
		t.Fatal(err)
	}
	return tx
}

// finish commits or rolls back.
func finish(t *testing.T, end func(context.Context) error) {
	t.Helper()
	if err := end(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func plan(root string) *record.Plan {
	return &record.Plan{RootPlanID: root, CurrentPlanID: root, State: new(record.Running)}
}

// since returns the trees that changed after a cursor.
func since(t *testing.T, s *store.Store, cursor, root string) []string {
	t.Helper()
	changes, err := s.Feed().Since(t.Context(), cursor, root)
	if err != nil {
		t.Fatal(err)
	}

	roots := map[string]bool{}
	for _, c := range changes {
		roots[c.RootPlanID] = true
	}
	return slices.Sorted(maps.Keys(roots))
}

// TestGaps checks that a missing number stops the cursor, but not the deliveries, until the
// number arrives or its transaction has ended.
func TestGaps(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := storetest.OpenURL(t, db.URL)
	storetest.Write(t, s, plan("before"))
	f := follow(t, s)
	start, _ := f.at()
	if start.Cursor == "" || start.Gaps != 0 {
		t.Fatalf("at first: %+v", start)
	}

	early, gone := appendChange(t, db, "early"), appendChange(t, db, "gone")
	storetest.Write(t, s, plan("later"))
	storetest.Until(t, "the later change is delivered", func() bool { return f.times("later") == 1 })
	at, _ := f.at()
	if at.Gaps != 2 || at.Cursor != start.Cursor {
		t.Errorf("%+v, want two gaps and still %s", at, start.Cursor)
	}

	finish(t, gone.Rollback)
	storetest.Write(t, s, plan("more"))
	storetest.Until(t, "more is delivered", func() bool { return f.times("more") == 1 })
	if at, _ := f.at(); at.Cursor != start.Cursor {
		t.Errorf("the cursor passed a gap: %+v", at)
	}
	if got := since(t, s, start.Cursor, ""); !slices.Equal(got, []string{"later", "more"}) {
		t.Errorf("since the start: %q", got)
	}

	finish(t, early.Commit)
	storetest.Until(t, "the early change is delivered", func() bool { return f.times("early") == 1 })
	storetest.Until(t, "no gap is left", func() bool { at, _ := f.at(); return at.Gaps == 0 })

	end, _ := f.at()
	if got := since(t, s, end.Cursor, ""); len(got) > 0 {
		t.Errorf("since the end: %q", got)
	}
	if got := since(t, s, start.Cursor, "early"); !slices.Equal(got, []string{"early"}) {
		t.Errorf("of one tree: %q", got)
	}
	if f.times("later") != 1 || f.times("before") != 0 || f.losses() != 0 {
		t.Errorf("f.roots = %+v", f.roots)
	}
}

// TestFollowStartsDuringAWrite checks a follower that starts while a transaction is open. The
// transaction has taken its number, and commits later.
func TestFollowStartsDuringAWrite(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := storetest.OpenURL(t, db.URL)
	slow := appendChange(t, db, "slow")
	storetest.Write(t, s, plan("before"))
	f := follow(t, s)
	if at, _ := f.at(); at.Cursor != "" {
		t.Errorf("there is a cursor that may be past a change that is not committed: %+v", at)
	}

	storetest.Write(t, s, plan("after"))
	storetest.Until(t, "the other change is delivered", func() bool { return f.times("after") == 1 })
	finish(t, slow.Commit)
	storetest.Until(t, "a loss is reported", func() bool { return f.losses() == 1 })
	if at, _ := f.at(); at.Cursor == "" {
		t.Errorf("there is no cursor: %+v", at)
	}
}

// TestWritersOfAnotherDatabase checks that a gap does not wait for a transaction in another
// database.
func TestWritersOfAnotherDatabase(t *testing.T) {
	t.Parallel()
	db, other := pgtest.New(t), pgtest.New(t)
	s := storetest.OpenURL(t, db.URL)
	appendChange(t, other, "elsewhere")
	f := follow(t, s)

	gone := appendChange(t, db, "gone")
	storetest.Write(t, s, plan("p"))
	storetest.Until(t, "it is delivered", func() bool { return f.times("p") == 1 })
	finish(t, gone.Rollback)
	storetest.Until(t, "no gap is left", func() bool { at, _ := f.at(); return at.Gaps == 0 && at.Cursor != "" })
}

// TestStaleCursors checks cursors of another database, invalid ones, and those whose changes
// were swept.
func TestStaleCursors(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := storetest.OpenURL(t, db.URL)
	f := follow(t, s)
	start, _ := f.at()
	storetest.Write(t, s, plan("p"))
	storetest.Until(t, "it is delivered", func() bool { return f.times("p") == 1 })
	now, _ := f.at()

	elsewhere := follow(t, storetest.OpenURL(t, pgtest.New(t).URL))
	foreign, _ := elsewhere.at()
	if _, err := s.Feed().Since(t.Context(), foreign.Cursor, ""); !errors.Is(err, feed.ErrStaleCursor) {
		t.Errorf("a cursor of another database: %v", err)
	}
	for _, bad := range []string{"", "x", "-", "abc-1x", "12"} {
		var invalid *record.InvalidError
		if _, err := s.Feed().Since(t.Context(), bad, ""); !errors.As(err, &invalid) && !errors.Is(err, feed.ErrStaleCursor) {
			t.Errorf("%q: %v", bad, err)
		}
	}

	// All changes up to now are swept. There is one more.
	if _, err := db.Pool.Exec(t.Context(), "UPDATE actlog.change SET at = now() - interval '2 days'"); err != nil {
		t.Fatal(err)
	}
	storetest.Write(t, s, plan("q"))
	if err := storetest.Upkeep(t, s, upkeep.Config{ChangeHours: 24}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}

	if _, err := s.Feed().Since(t.Context(), start.Cursor, ""); !errors.Is(err, feed.ErrStaleCursor) {
		t.Errorf("a cursor before a swept change: %v", err)
	}
	if got := since(t, s, now.Cursor, ""); !slices.Equal(got, []string{"q"}) {
		t.Errorf("a cursor after the swept changes: %q", got)
	}
}

// TestFollowAfterLostConnections checks that no change is missed when all connections are lost.
func TestFollowAfterLostConnections(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	s := storetest.OpenURL(t, db.URL, storetest.Patient)
	f := follow(t, s)
	for i := range 5 {
		storetest.Kill(t, db.Pool, db.URL)
		root := fmt.Sprint("p", i)
		storetest.Write(t, s, plan(root))
		storetest.Until(t, root+" is delivered", func() bool { return f.times(root) == 1 })
	}

	if f.losses() > 0 {
		t.Error("the feed was taken for that of another database")
	}
}

// TestFollowWithFewPrivileges checks that the role of a server in docs/operations.md may follow.
func TestFollowWithFewPrivileges(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	storetest.Upkeep(t, storetest.OpenURL(t, db.URL), upkeep.Config{}) // adds partitions, which the role may not
	s := storetest.OpenURL(t, storetest.WriterURL(t, db))
	f := follow(t, s)

	storetest.Write(t, s, plan("p"))
	storetest.Until(t, "it is delivered", func() bool { return f.times("p") == 1 })
	if at, _ := f.at(); at.Cursor == "" {
		t.Errorf("at = %+v", at)
	}
}

// TestNotifications checks that writes and deletions notify followers, which then need not wait
// for their next poll.
func TestNotifications(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := storetest.OpenURL(t, db.URL)

	conn, err := pgx.Connect(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "LISTEN actlog_change"); err != nil {
		t.Fatal(err)
	}

	storetest.Write(t, s, plan("p"))
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

// TestWritesWithoutTheQueue checks that a statement that does not go through the queue of the
// store appends to the feed, too.
func TestWritesWithoutTheQueue(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := storetest.OpenURL(t, db.URL)
	root := record.NewPlanID()
	f := follow(t, s)

	storetest.Write(t, s, &record.Plan{
		RootPlanID: root, CurrentPlanID: root, State: new(record.Failed), Exception: new("no"),
	})
	if _, found, err := s.ServeException(t.Context(), root, root); err != nil || !found {
		t.Fatalf("found = %v, %v", found, err)
	}
	storetest.Until(t, "both are delivered", func() bool { return f.times(root) == 2 })
}

// TestFollowAfterAnOutage checks that no change is missed after outages.
func TestFollowAfterAnOutage(t *testing.T) {
	t.Parallel()
	o := storetest.NewOutage(t)
	s := storetest.OpenURL(t, o.DB.URL, storetest.Patient)
	f := follow(t, s)
	for i := range 2 {
		o.Begin(t)
		o.End(t)
		root := fmt.Sprint("p", i)
		storetest.Write(t, s, plan(root))
		storetest.Until(t, root+" is delivered", func() bool { return f.times(root) == 1 })
	}

	if f.losses() > 0 {
		t.Error("the feed was taken for that of another database")
	}
}

// TestFollowAfterAFailover checks that nothing is missed if the old primary gave numbers to changes that the new one
// lacks.
func TestFollowAfterAFailover(t *testing.T) {
	t.Parallel()
	pair := storetest.Pair(t)
	s := storetest.OpenURL(t, pair.URL, storetest.Patient)
	f := follow(t, s)

	pgtest.Exec(t, pair.Standby, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
	pgtest.Exec(t, pair.Primary, "SET synchronous_commit = local", `DO $$ BEGIN
		WHILE EXISTS (SELECT FROM pg_stat_replication) LOOP PERFORM pg_sleep(0.01); END LOOP;
	END $$`, "INSERT INTO actlog.change (root_plan_id, kinds) SELECT 'lost', '{plan}' FROM generate_series(1, 100)")
	storetest.Until(t, "what will be lost is delivered", func() bool { return f.times("lost") == 100 })

	pair.Promote(t)
	storetest.Write(t, s, plan("p"))
	storetest.Until(t, "it is delivered, or all is read again", func() bool {
		return f.times("p") == 1 || f.losses() == 1
	})
}
