package store_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/actlog/actlog/internal/record/embedpg"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestKilledBackends checks that no write fails or is lost when Postgres ends its connections.
func TestKilledBackends(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	s := storetest.OpenURL(t, db.URL, storetest.Patient)
	c := storetest.StartLoad(t, s)

	killed := 0
	for range 25 {
		c.Await(t, 10) // other writes are running
		killed += storetest.Kill(t, db.Pool, db.URL)
	}
	if killed == 0 {
		t.Error("no session was killed")
	}
	c.Check(t, s)
}

// TestKilledPostmaster checks that no acknowledged write is lost when Postgres is killed.
func TestKilledPostmaster(t *testing.T) {
	t.Parallel()
	pg, err := embedpg.Start(t.Context(), embedpg.Config{Dir: t.TempDir()}) // durable, unlike the server of pgtest
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pg.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})

	migrate(t, pg.URL())
	s := storetest.OpenURL(t, pg.URL(), storetest.Patient)
	c := storetest.StartLoad(t, s)
	for n := range 2 {
		c.Await(t, 50)
		if err := syscall.Kill(pg.PID(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		// Old backends may live for a moment, so a write that succeeds proves no restart.
		storetest.Until(t, "postgres is back", func() bool { return pg.Restarts() > n })
	}

	c.Await(t, 50)
	c.Check(t, s)
}

// TestReadsAfterRestart checks that a read succeeds when every connection of the pool is dead and
// none was idle long enough to be checked first.
func TestReadsAfterRestart(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	s := storetest.OpenURL(t, db.URL, func(c *store.Config) { c.MaxConns = 8 })
	storetest.Write(t, s, &record.Plan{RootPlanID: "p", CurrentPlanID: "p"})

	for range 5 {
		var conns []*pgxpool.Conn
		for range 8 {
			conn, err := store.Pool(s).Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
		}

		for _, conn := range conns {
			conn.Release()
		}
		storetest.Kill(t, db.Pool, db.URL)
		storetest.PlanTree(t, s, "p")
	}
}

// TestPostgresAway checks that writes, reads and Ready return ErrUnavailable during an outage, and
// that the store works again after it.
func TestPostgresAway(t *testing.T) {
	t.Parallel()
	o := storetest.NewOutage(t)
	storetest.Write(t, storetest.OpenURL(t, o.DB.URL), &record.Plan{
		RootPlanID: "p", CurrentPlanID: "p", Title: new("before"),
	})
	s := storetest.OpenURL(t, o.DB.URL, storetest.Impatient)
	o.Begin(t)

	for range 3 {
		if _, err := s.Write(t.Context(),
			[]record.Change{&record.Plan{RootPlanID: "p", CurrentPlanID: "p"}}); !errors.Is(err, record.ErrUnavailable) {
			t.Errorf("write: %v", err)
		}
	}
	if _, _, err := s.PlanTree(t.Context(), "", "p"); !errors.Is(err, record.ErrUnavailable) {
		t.Errorf("read: %v", err)
	}
	if _, err := s.Ready(t.Context()); !errors.Is(err, record.ErrUnavailable) {
		t.Errorf("ready: %v", err)
	}

	o.End(t)
	storetest.Write(t, storetest.OpenURL(t, o.DB.URL), &record.Plan{
		RootPlanID: "p", CurrentPlanID: "p", Summary: new("after"),
	})
	if p := storetest.PlanTree(t, s, "p").Record; *p.Title != "before" || *p.Summary != "after" {
		t.Errorf("plan = %+v", p)
	}
}

// TestHangingDatabase checks that every write gets an answer in time if Postgres does not answer,
// and that the store writes again when Postgres does.
func TestHangingDatabase(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	s := storetest.OpenURL(t, db.URL, smallQueue, func(c *store.Config) {
		c.Writers, c.RetryFor = 1, 500*time.Millisecond
	})

	storetest.Exec(
		t, s, `CREATE FUNCTION actlog.hang() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(3600); RETURN NEW; END $$`,
	)
	storetest.Exec(t, s, `CREATE TRIGGER hang BEFORE INSERT ON actlog.plan_execution_record
		FOR EACH ROW WHEN (NEW.title = 'hang') EXECUTE FUNCTION actlog.hang()`)

	hung := writing(t.Context(), s, []record.Change{&record.Plan{RootPlanID: "p", CurrentPlanID: "p", Title: new("hang")}})
	const hanging = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"
	storetest.Until(t, "a writer hangs", func() bool {
		return storetest.Query[int](t, s, "SELECT count(*) "+hanging) == 1
	})

	queued, inLine := writing(t.Context(), s, plans("queued", 1)), writing(t.Context(), s, plans("line", 2000))
	for what, done := range map[string]<-chan error{"being written": hung, "queued": queued, "in line": inLine} {
		if err := <-done; !errors.Is(err, record.ErrUnavailable) {
			t.Errorf("a write that is %s: %v", what, err)
		}
	}
	if rows, waiting := store.Queued(s); rows != 1 || waiting != 0 {
		t.Errorf("%d rows are still queued, %d callers wait", rows, waiting)
	}

	storetest.Query[bool](t, s, "SELECT bool_and(pg_terminate_backend(pid)) "+hanging)
	storetest.Until(t, "writes succeed again", func() bool {
		_, err := s.Write(t.Context(), plans("later", 1))
		return err == nil
	})
	if n := storetest.Query[int](t, s,
		"SELECT count(*) FROM actlog.plan_execution_record WHERE current_plan_id NOT LIKE 'later%'"); n != 0 {
		t.Errorf("%d plans of failed writes are on record", n)
	}
}

// plans returns n root plans whose ids begin with prefix.
func plans(prefix string, n int) (changes []record.Change) {
	for i := range n {
		id := fmt.Sprintf("%s%d", prefix, i)
		changes = append(changes, &record.Plan{RootPlanID: id, CurrentPlanID: id})
	}
	return changes
}

// writing starts a write and returns a channel for its error.
func writing(ctx context.Context, s *store.Store, changes []record.Change) <-chan error {
	done := make(chan error, 1)
	go func() {
		result, err := s.Write(ctx, changes)
		if err == nil && result.Accepted != len(changes) {
			err = fmt.Errorf("accepted %d of %d", result.Accepted, len(changes))
		}
		done <- err
	}()
	return done
}

// TestQueueIsBounded checks that callers wait in line when the queue is full, in their order and
// until their context ends.
func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	o := storetest.NewOutage(t)
	s := storetest.OpenURL(t, o.DB.URL, storetest.Patient, smallQueue)
	o.Begin(t)
	queued := func(wantRows, wantWaiting int) func() bool {
		return func() bool {
			rows, waiting := store.Queued(s)
			return rows == wantRows && waiting == wantWaiting
		}
	}

	large := writing(t.Context(), s, plans("large", 1500))
	storetest.Until(t, "the first is queued", queued(1500, 0))
	ctx, cancel := context.WithCancel(t.Context())
	tooMuch := writing(ctx, s, plans("too-much", 501))
	storetest.Until(t, "the second waits", queued(1500, 1))
	small := writing(t.Context(), s, plans("small", 400))
	storetest.Until(t, "the third waits behind it, although there is room for it", queued(1500, 2))

	cancel()
	if err := <-tooMuch; !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled write: %v", err)
	}
	storetest.Until(t, "the third is queued", queued(1900, 0))

	late, end := context.WithDeadline(t.Context(), *at(0))
	defer end()
	if err := <-writing(late, s, plans("late", 1500)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the write after its deadline: %v", err)
	}

	o.End(t)
	if err := errors.Join(<-large, <-small); err != nil {
		t.Error(err)
	}
	if !queued(0, 0)() {
		t.Error("the queue is not empty")
	}
	if n := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.plan_execution_record"); n != 1900 {
		t.Errorf("%d plans on record", n)
	}
}

// TestRecordLargerThanQueue checks that a record with more bytes than the queue may hold is
// written.
func TestRecordLargerThanQueue(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, smallQueue)
	text := strings.Repeat("x", record.MaxTextBytes)
	storetest.Write(t, s, &record.ThinkAct{
		RootPlanID: "p", StepID: "s", Seq: 0, ThinkInput: &text, ThinkOutput: &text, ActionResult: &text,
	})

	if got := storetest.StepDetail(t, s, "s").Cycles[0].Record; *got.ActionResult != text {
		t.Error("the record is not complete")
	}
}

// TestCancelledWriteIsStillWritten checks that a queued write is committed even if its caller
// stops waiting.
func TestCancelledWriteIsStillWritten(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := storetest.OpenURL(t, db.URL)
	unlock := lockPlans(t, db.Pool)

	ctx, cancel := context.WithCancel(t.Context())
	done := writing(ctx, s, plans("p", 1))
	storetest.Until(t, "the write is queued", func() bool { rows, _ := store.Queued(s); return rows == 1 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}

	unlock()
	storetest.Until(t, "it is written", func() bool { rows, _ := store.Queued(s); return rows == 0 })
	storetest.PlanTree(t, s, "p0")
}

// TestClose checks that Close writes what is queued, and that it refuses the rest. If its context
// ends, every write gets an answer.
func TestClose(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		// expired says that the context of Close has ended.
		expired bool
		want    error // of a queued write
	}{
		{"drains the queue", false, nil},
		{"answers every write when its context ends", true, record.ErrClosed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			s, err := store.Open(t.Context(), store.Config{DatabaseURL: db.URL, QueueRows: 2000})
			if err != nil {
				t.Fatal(err)
			}

			unlock := lockPlans(t, db.Pool)
			var writes []<-chan error
			for i := range 5 { // the fourth fills the queue
				writes = append(writes, writing(t.Context(), s, plans(fmt.Sprintf("%d-", i), 500)))
			}
			storetest.Until(t, "the queue is full", func() bool {
				rows, waiting := store.Queued(s)
				return rows == 2000 && waiting == 1
			})

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.expired {
				cancel()
			}
			closed := make(chan error, 1)
			go func() { closed <- s.Close(ctx) }()
			storetest.Until(t, "no caller waits for room", func() bool { _, waiting := store.Queued(s); return waiting == 0 })

			if err := <-writing(t.Context(), s, plans("late", 1)); !errors.Is(err, record.ErrClosed) {
				t.Errorf("a write to a closed store: %v", err)
			}
			if !tt.expired {
				unlock()
			}
			if err := <-closed; (err != nil) != tt.expired {
				t.Errorf("close: %v", err)
			}

			var refusals int
			for _, w := range writes {
				switch err := <-w; {
				case errors.Is(err, tt.want):
				case errors.Is(err, record.ErrClosed):
					refusals++ // it waited for room
				default:
					t.Errorf("a write ended with %v", err)
				}
			}
			if tt.want == nil && refusals != 1 {
				t.Errorf("%d writes were refused, want 1", refusals)
			}

			unlock()
			want := map[bool]string{true: "0", false: "2000"}[tt.expired]
			if n := storetest.Lines(t, db.Pool, "SELECT count(*)::text FROM actlog.plan_execution_record")[0]; n != want {
				t.Errorf("%s plans on record, want %s", n, want)
			}
		})
	}
}

// TestDeleteDuringWrites checks that writes to a tree that is deleted again and again make it from
// scratch, without an error and without rows whose parents are missing.
func TestDeleteDuringWrites(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := storetest.OpenURL(t, db.URL, storetest.Patient)
	root := record.NewPlanID()

	var writers sync.WaitGroup
	var stop atomic.Bool
	written := make(chan struct{})
	for w := range 4 {
		writers.Go(func() {
			for i := range int64(1 << 30) {
				last := stop.Load() // this write begins after the last deletion: it stays
				step := fmt.Sprintf("%s-s%d", root, w)
				result, err := s.Write(context.Background(), []record.Change{
					&record.AgentExecution{RootPlanID: root, PlanID: root + "p", StepID: step},
					&record.ActTool{RootPlanID: root, StepID: step, Seq: i, ToolCallID: fmt.Sprintf("t%d-%d", w, i)},
					&record.Wait{RootPlanID: root, PlanID: root + "p", WaitID: fmt.Sprint(w)},
				})

				if err != nil || result.Accepted != 3 {
					t.Errorf("write: %+v, %v", result, err)
				}
				if last {
					return
				}
				written <- struct{}{}
			}
		})
	}

	deleted := 0
	for range 40 {
		<-written
		for { // a writer may hold a lock
			tag, err := db.Pool.Exec(t.Context(), strings.NewReplacer("$root", root).Replace(`
				DELETE FROM actlog.wait_state WHERE root_plan_id = '$root';
				DELETE FROM actlog.act_tool_info WHERE root_plan_id = '$root';
				DELETE FROM actlog.think_act_record WHERE root_plan_id = '$root';
				DELETE FROM actlog.agent_execution_record WHERE root_plan_id = '$root';
				DELETE FROM actlog.plan_execution_record WHERE root_plan_id = '$root'`))
			if err == nil {
				deleted += int(tag.RowsAffected())
				break
			}
		}
	}

	stop.Store(true)
	finished := make(chan struct{})
	go func() { writers.Wait(); close(finished) }()
	for open := true; open; {
		select {
		case <-written:
		case <-finished:
			open = false
		}
	}

	if deleted == 0 {
		t.Error("nothing was deleted")
	}
	for what, sql := range map[string]string{
		"calls without their cycle": `SELECT count(*) FROM actlog.act_tool_info AS t WHERE NOT EXISTS (
			SELECT FROM actlog.think_act_record AS c WHERE c.root_plan_id = t.root_plan_id AND c.step_id = t.step_id AND c.seq = t.seq AND c.part = t.part)`,
		"cycles away from their step": `SELECT count(*) FROM actlog.think_act_record AS c WHERE NOT EXISTS (
			SELECT FROM actlog.agent_execution_record AS a WHERE a.root_plan_id = c.root_plan_id AND a.step_id = c.step_id AND a.part = c.part)`,
		"steps away from their root": `SELECT count(*) FROM actlog.agent_execution_record AS a WHERE NOT EXISTS (
			SELECT FROM actlog.plan_execution_record AS p WHERE p.root_plan_id = a.root_plan_id AND p.current_plan_id = a.root_plan_id AND p.part = a.part)`,
	} {
		if n := storetest.Query[int](t, s, sql); n != 0 {
			t.Errorf("storetest.Query[int](s, sql) = %d %s", n, what)
		}
	}

	p := storetest.PlanTree(t, s, root)
	if n := storetest.Query[int64](t, s, "SELECT count(*) FROM actlog.act_tool_info"); p.Total.ToolCalls != n || n == 0 {
		t.Errorf("%d calls on record, %d rolled up", n, p.Total.ToolCalls)
	}
}

// TestRefusedAtCommit checks that no change is acknowledged before the commit: a deferred
// constraint fails there, after every statement has succeeded.
func TestRefusedAtCommit(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	s := storetest.OpenURL(t, db.URL)
	storetest.Exec(
		t, s, `CREATE FUNCTION actlog.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE check_violation; END $$`,
	)
	storetest.Exec(t, s, `CREATE CONSTRAINT TRIGGER refuse AFTER INSERT OR UPDATE ON actlog.plan_execution_record DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW WHEN (NEW.title = 'bad') EXECUTE FUNCTION actlog.refuse()`)

	result, err := s.Write(t.Context(), []record.Change{
		&record.Plan{RootPlanID: "good", CurrentPlanID: "good", Title: new("good")},
		&record.Plan{RootPlanID: "bad", CurrentPlanID: "bad", Title: new("bad")},
		&record.ThinkAct{RootPlanID: "good", StepID: "s", Seq: 1},
	})
	if err != nil || result.Accepted != 2 || !slices.Equal(refused(result), []int{1}) {
		t.Fatalf("s.Write = %+v, %v", result, err)
	}

	storetest.PlanTree(t, s, "good")
	storetest.StepDetail(t, s, "s")
	if _, _, err := s.PlanTree(t.Context(), "", "bad"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("the refused plan: %v", err)
	}
}

// TestDatabaseRefusesSomeOfManyRoots checks that only the changes that Postgres refuses are
// missing. The others of the same root are on record, and so are all other roots.
func TestDatabaseRefusesSomeOfManyRoots(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	s := storetest.OpenURL(t, db.URL)
	storetest.Exec(t, s, "ALTER TABLE actlog.act_tool_info ADD CONSTRAINT unforeseen CHECK (name <> 'bad')")

	var changes []record.Change
	var bad []int
	for i := range 700 {
		root := fmt.Sprintf("root-%d", i%100) // the changes of a root are not neighbors
		name := "good"
		if i == 0 || i == 350 || i == 450 || i == 699 { // 350 and 450 have the same root
			name, bad = "bad", append(bad, i)
		}
		changes = append(changes, &record.ActTool{
			RootPlanID: root, StepID: root + "s", Seq: int64(i), ToolCallID: fmt.Sprint(i), Name: &name,
		})
	}

	result, err := s.Write(t.Context(), changes)
	if err != nil {
		t.Fatal(err)
	}
	if got := refused(result); !slices.Equal(got, bad) || result.Accepted != 696 {
		t.Errorf("accepted %d, refused %v", result.Accepted, got)
	}
	if n := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.act_tool_info"); n != 696 {
		t.Errorf("%d calls on record", n)
	}
}

// TestChangeFeed checks the rows that a write adds to the change feed: one per root, with the kinds
// that were written.
func TestChangeFeed(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	plan := &record.Plan{RootPlanID: "a", CurrentPlanID: "a"}

	for _, tt := range []struct {
		name    string
		changes []record.Change
		want    []string
	}{
		{"one change", []record.Change{plan}, []string{"a: plan"}},
		{"the same change again", []record.Change{plan}, []string{"a: plan"}},
		{"two roots and several kinds, which are ordered", []record.Change{
			&record.Wait{RootPlanID: "b", PlanID: "b", WaitID: "w"}, plan,
			&record.ActTool{RootPlanID: "a", StepID: "s", Seq: 0, ToolCallID: "t"},
			&record.Plan{RootPlanID: "a", CurrentPlanID: "sub"},
			&record.ThinkAct{RootPlanID: "b", StepID: "t", Seq: 0},
		}, []string{"a: plan actTool", "b: thinkAct wait"}},
		{"one accepted and one refused", []record.Change{plan, &record.Plan{RootPlanID: "c"}}, []string{"a: plan"}},
		{"only refused changes", []record.Change{&record.Plan{RootPlanID: "c"}}, nil},
		{"no changes", nil, nil},
	} {
		if _, err := s.Write(t.Context(), tt.changes); err != nil {
			t.Fatal(err)
		}

		got := storetest.Lines(t, store.Pool(s),
			"DELETE FROM actlog.change RETURNING root_plan_id || ': ' || array_to_string(kinds, ' ')")
		slices.Sort(got)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// lineCounter counts the lines of a log that contain a text.
type lineCounter struct {
	text string
	n    atomic.Int64
}

func (l *lineCounter) Write(line []byte) (int, error) {
	if strings.Contains(string(line), l.text) {
		l.n.Add(1)
	}
	return len(line), nil
}

// TestOutageDoesNotFloodLog checks that a write that is tried again and again logs at most one line
// in ten seconds.
func TestOutageDoesNotFloodLog(t *testing.T) {
	t.Parallel()
	o := storetest.NewOutage(t)
	log := lineCounter{text: "write failed; it is tried again"}
	s := storetest.OpenURL(t, o.DB.URL, storetest.Patient, func(c *store.Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})

	o.Begin(t)
	done := writing(t.Context(), s, plans("p", 1))
	storetest.Until(t, "the write was tried five times", func() bool { return s.Stats().Retries >= 5 })
	if n := log.n.Load(); n == 0 || n >= 5 { // one line in ten seconds
		t.Errorf("%d lines in the log", n)
	}

	o.End(t)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestFullDisk checks that writes wait for room on the disk and then return ErrDiskFull. Reads and
// deletes work meanwhile.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	var full atomic.Bool
	s := storetest.OpenURL(t, db.URL, func(c *store.Config) {
		c.RetryFor = 500 * time.Millisecond
		c.CheckRoom = func() error {
			if full.Load() {
				return errors.New("nothing is left")
			}
			return nil
		}
	})
	storetest.Until(t, "a write succeeds", func() bool {
		_, err := s.Write(t.Context(), plans("p", 2))
		return err == nil
	})

	full.Store(true)
	if _, err := s.Write(t.Context(), plans("q", 1)); !errors.Is(err, record.ErrDiskFull) ||
		!errors.Is(err, record.ErrUnavailable) || !strings.Contains(err.Error(), "nothing is left") {
		t.Errorf("error = %v", err)
	}

	storetest.PlanTree(t, s, "p0")
	if _, err := s.Ready(t.Context()); err != nil {
		t.Errorf("ready: %v", err)
	}
	if err := s.DeletePlan(t.Context(), "p1"); err != nil {
		t.Errorf("delete: %v", err)
	}

	full.Store(false)
	storetest.Until(t, "writes succeed again", func() bool {
		_, err := s.Write(t.Context(), plans("r", 1))
		return err == nil
	})
	if _, _, err := s.PlanTree(t.Context(), "", "q0"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("the refused plan: %v", err)
	}
}

// TestPostgresReportsFullDisk checks that a write is tried again if Postgres reports a full disk,
// and that it then returns ErrDiskFull.
func TestPostgresReportsFullDisk(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	s := storetest.OpenURL(t, db.URL, func(c *store.Config) { c.RetryFor = 2 * time.Second })

	storetest.Exec(
		t, s, `CREATE FUNCTION actlog.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE disk_full; END $$`,
	)
	storetest.Exec(
		t, s, `CREATE TRIGGER refuse BEFORE INSERT ON actlog.plan_execution_record FOR EACH ROW EXECUTE FUNCTION actlog.refuse()`,
	)

	if _, err := s.Write(t.Context(), plans("p", 1)); !errors.Is(err, record.ErrDiskFull) ||
		!errors.Is(err, record.ErrUnavailable) {
		t.Errorf("error = %v", err)
	}
	if s.Stats().Retries == 0 {
		t.Error("the write was tried only once")
	}
}
