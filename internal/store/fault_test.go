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

	"github.com/actlog/actlog/internal/embedpg"
	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/record"
)

// Faults heal in these tests, however slow the machine.
func patient(c *store.Config) { c.RetryFor = time.Hour }

func impatient(c *store.Config) { c.RetryFor = time.Millisecond }

// smallQueue holds one batch.
func smallQueue(c *store.Config) { c.QueueRows, c.QueueBytes = 2000, 8<<20 }

// until waits for what another goroutine is about to do.
func until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for !condition() {
		if t.Context().Err() != nil {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(time.Millisecond) // or it would take the processor from those it waits for
	}
}

// kill terminates the store's sessions and tells how many there were.
func kill(t testing.TB, pool *pgxpool.Pool, url string) (n int) {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	err = pool.QueryRow(context.Background(), `SELECT count(pg_terminate_backend(pid, 10000))
		FROM pg_stat_activity WHERE datname = $1 AND application_name = 'actlog'`, config.ConnConfig.Database).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// counters has writers write cycles of steps of their own, one after the other,
// until they are stopped. None may ever see an error.
type counters struct {
	root  string
	n     [8]int64 // acknowledged, by writer
	acked chan struct{}
	stop  chan struct{}
	ended chan struct{} // all writers
}

func startCounters(t *testing.T, s *store.Store) *counters {
	t.Helper()
	c := &counters{root: record.NewPlanID(), acked: make(chan struct{}), stop: make(chan struct{}), ended: make(chan struct{})}
	var wg sync.WaitGroup
	for w := range c.n {
		wg.Go(func() {
			for {
				result, err := s.Write(context.Background(), []record.Change{
					&record.ThinkAct{RootPlanID: c.root, StepID: c.step(w), Seq: c.n[w], InputTokens: new(int64(1))},
					&record.ActTool{RootPlanID: c.root, StepID: c.step(w), Seq: c.n[w], ToolCallID: fmt.Sprintf("%d-%d", w, c.n[w])},
				})
				if err != nil || result.Accepted != 2 {
					t.Errorf("an error came to the surface: %+v %v", result, err)
					return
				}
				c.n[w]++
				select {
				case c.acked <- struct{}{}:
				case <-c.stop:
					return
				}
			}
		})
	}
	go func() { wg.Wait(); close(c.ended) }()
	return c
}

// await waits for n writes to be acknowledged.
func (c *counters) await(t *testing.T, n int) {
	t.Helper()
	for range n {
		select {
		case <-c.acked:
		case <-c.ended:
			t.Fatal("the writers gave up")
		}
	}
}

func (c *counters) step(w int) string { return fmt.Sprintf("%s-s%d", c.root, w) }

// check stops the writers and compares what was acknowledged with the record.
func (c *counters) check(t *testing.T, s *store.Store) {
	t.Helper()
	close(c.stop)
	<-c.ended
	var sum int64
	for w, n := range c.n {
		sum += n
		st := stepDetail(t, s, c.step(w))
		for i, cycle := range st.Cycles {
			if cycle.Record.Seq != int64(i) || len(cycle.ToolCalls) != 1 {
				t.Fatalf("writer %d: cycle %d in place %d, with %d calls", w, cycle.Record.Seq, i, len(cycle.ToolCalls))
			}
		}
		if int64(len(st.Cycles)) != n || st.Figures.ModelCalls != n {
			t.Errorf("writer %d: %d cycles on record, %d rolled up, %d acknowledged", w, len(st.Cycles), st.Figures.ModelCalls, n)
		}
	}
	if total := planTree(t, s, c.root).Total; total.InputTokens != sum || total.ToolCalls != sum {
		t.Errorf("total %+v, acknowledged %d", total, sum)
	}
}

func TestKilledBackends(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	s := openURL(t, db.URL, patient)
	c := startCounters(t, s)
	killed := 0
	for range 25 {
		c.await(t, 10) // while others are under way
		killed += kill(t, db.Pool, db.URL)
	}
	if killed == 0 {
		t.Error("nothing was killed")
	}
	c.check(t, s)
}

func TestKilledPostmaster(t *testing.T) {
	t.Parallel()
	pg, err := embedpg.Start(t.Context(), embedpg.Config{Dir: t.TempDir()}) // durable, unlike that of pgtest
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pg.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	migrate(t, pg.URL())
	s := openURL(t, pg.URL(), patient)
	c := startCounters(t, s)
	for n := range 2 {
		c.await(t, 50)
		if err := syscall.Kill(pg.PID(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		// The dead one's backends may go on for a moment, so writes do not tell.
		until(t, "postgres is back", func() bool { return pg.Restarts() > n })
	}
	c.await(t, 50)
	c.check(t, s)
}

// TestReadsAfterARestart: every pooled connection is dead, none has been idle for
// long enough to be suspected.
func TestReadsAfterARestart(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	s := openURL(t, db.URL, func(c *store.Config) { c.MaxConns = 8 })
	write(t, s, &record.Plan{RootPlanID: "p", CurrentPlanID: "p"})
	for range 5 {
		var held []*pgxpool.Conn
		for range 8 {
			conn, err := store.Pool(s).Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, conn)
		}
		for _, conn := range held {
			conn.Release()
		}
		kill(t, db.Pool, db.URL)
		planTree(t, s, "p")
	}
}

// outage takes a database away, as if its server were gone, and brings it back.
type outage struct {
	admin *pgxpool.Pool
	db    *pgtest.DB
	name  string
}

func newOutage(t *testing.T) outage {
	t.Helper()
	db := pgtest.Fresh(t)
	var name string
	if err := db.Pool.QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	return outage{pgtest.Empty(t).Pool, db, name}
}

func (o outage) begin(t *testing.T) { t.Helper(); o.allow(t, false); kill(t, o.admin, o.db.URL) }

func (o outage) end(t *testing.T) { t.Helper(); o.allow(t, true) }

func (o outage) allow(t *testing.T, connections bool) {
	t.Helper()
	if _, err := o.admin.Exec(t.Context(), fmt.Sprintf("ALTER DATABASE %s ALLOW_CONNECTIONS %v", o.name, connections)); err != nil {
		t.Fatal(err)
	}
}

func TestPostgresAway(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	write(t, openURL(t, o.db.URL), &record.Plan{RootPlanID: "p", CurrentPlanID: "p", Title: new("before")})
	s := openURL(t, o.db.URL, impatient)
	o.begin(t)
	for range 3 {
		if _, err := s.Write(t.Context(), []record.Change{&record.Plan{RootPlanID: "p", CurrentPlanID: "p"}}); !errors.Is(err, record.ErrUnavailable) {
			t.Errorf("write: %v", err)
		}
	}
	if _, _, err := s.PlanTree(t.Context(), "p"); !errors.Is(err, record.ErrUnavailable) {
		t.Errorf("read: %v", err)
	}
	if err := s.Ready(t.Context()); !errors.Is(err, record.ErrUnavailable) {
		t.Errorf("ready: %v", err)
	}
	o.end(t)
	write(t, openURL(t, o.db.URL), &record.Plan{RootPlanID: "p", CurrentPlanID: "p", Summary: new("after")})
	if p := planTree(t, s, "p").Record; *p.Title != "before" || *p.Summary != "after" {
		t.Errorf("plan = %+v", p)
	}
}

// TestADatabaseThatHangs: everyone is answered in time, whatever the writers wait
// for and wherever their requests are. Later, writes go on.
func TestADatabaseThatHangs(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	s := openURL(t, db.URL, smallQueue, func(c *store.Config) { c.Writers, c.RetryFor = 1, 500*time.Millisecond })
	exec(t, s, `CREATE FUNCTION actlog.hang() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(3600); RETURN NEW; END $$`)
	exec(t, s, `CREATE TRIGGER hang BEFORE INSERT ON actlog.plan_execution_record
		FOR EACH ROW WHEN (NEW.title = 'hang') EXECUTE FUNCTION actlog.hang()`)
	hung := writing(t.Context(), s, []record.Change{&record.Plan{RootPlanID: "p", CurrentPlanID: "p", Title: new("hang")}})
	const hanging = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"
	until(t, "a writer hangs", func() bool { return query[int](t, s, "SELECT count(*) "+hanging) == 1 })
	behind, line := writing(t.Context(), s, plans("behind", 1)), writing(t.Context(), s, plans("line", 2000))
	for what, done := range map[string]<-chan error{"being written": hung, "queued": behind, "in line": line} {
		if err := <-done; !errors.Is(err, record.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if rows, waiting := store.Queued(s); rows != 1 || waiting != 0 {
		t.Errorf("%d rows are still queued, %d callers wait", rows, waiting)
	}
	query[bool](t, s, "SELECT bool_and(pg_terminate_backend(pid)) "+hanging)
	until(t, "writes go on", func() bool {
		_, err := s.Write(t.Context(), plans("later", 1))
		return err == nil
	})
	if n := query[int](t, s, "SELECT count(*) FROM actlog.plan_execution_record WHERE current_plan_id NOT LIKE 'later%'"); n != 0 {
		t.Errorf("%d plans are on record whose writers were turned away", n)
	}
}

func plans(prefix string, n int) (changes []record.Change) {
	for i := range n {
		id := fmt.Sprintf("%s%d", prefix, i)
		changes = append(changes, &record.Plan{RootPlanID: id, CurrentPlanID: id})
	}
	return changes
}

// writing starts a write and gives a channel for what becomes of it.
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

// TestTheQueueIsBounded: while Postgres is away, callers wait in line, in order,
// for as long as their context lets them.
func TestTheQueueIsBounded(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	s := openURL(t, o.db.URL, patient, smallQueue)
	o.begin(t)
	queued := func(wantRows, wantWaiting int) func() bool {
		return func() bool {
			rows, waiting := store.Queued(s)
			return rows == wantRows && waiting == wantWaiting
		}
	}
	large := writing(t.Context(), s, plans("large", 1500))
	until(t, "the first is let in", queued(1500, 0))
	ctx, cancel := context.WithCancel(t.Context())
	tooMuch := writing(ctx, s, plans("too-much", 501))
	until(t, "the second waits", queued(1500, 1))
	small := writing(t.Context(), s, plans("small", 400))
	until(t, "the third waits behind it, though there is room", queued(1500, 2))
	cancel()
	if err := <-tooMuch; !errors.Is(err, context.Canceled) {
		t.Errorf("who stopped waiting got %v", err)
	}
	until(t, "the third is let in", queued(1900, 0))

	late, end := context.WithDeadline(t.Context(), *at(0))
	defer end()
	if err := <-writing(late, s, plans("late", 1500)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("who came too late got %v", err)
	}
	o.end(t)
	if err := errors.Join(<-large, <-small); err != nil {
		t.Error(err)
	}
	if !queued(0, 0)() {
		t.Error("the queue is not empty")
	}
	if n := query[int](t, s, "SELECT count(*) FROM actlog.plan_execution_record"); n != 1900 {
		t.Errorf("%d plans on record", n)
	}
}

// TestARecordLargerThanTheQueue passes alone.
func TestARecordLargerThanTheQueue(t *testing.T) {
	t.Parallel()
	s := open(t, smallQueue)
	text := strings.Repeat("x", record.MaxTextBytes)
	write(t, s, &record.ThinkAct{RootPlanID: "p", StepID: "s", Seq: 0, ThinkInput: &text, ThinkOutput: &text, ActionResult: &text})
	if got := stepDetail(t, s, "s").Cycles[0].Record; *got.ActionResult != text {
		t.Error("it is not on record")
	}
}

func TestWhoLeavesTheQueueIsWrittenAllTheSame(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := openURL(t, db.URL)
	unlock := lock(t, db.Pool)
	ctx, cancel := context.WithCancel(t.Context())
	done := writing(ctx, s, plans("p", 1))
	until(t, "it is queued", func() bool { rows, _ := store.Queued(s); return rows == 1 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}
	unlock()
	until(t, "it is written", func() bool { rows, _ := store.Queued(s); return rows == 0 })
	planTree(t, s, "p0")
}

// lock holds up every writer until it is undone.
func lock(t *testing.T, pool *pgxpool.Pool) (unlock func()) {
	t.Helper()
	tx, err := pool.Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE actlog.plan_execution_record IN SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	unlock = sync.OnceFunc(func() {
		if err := tx.Rollback(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(unlock)
	return unlock
}

func TestClose(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		// of the context of Close
		expired bool
		want    error
	}{
		{"drains the queue", false, nil},
		{"answers everyone when its time is up", true, record.ErrClosed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			s, err := store.Open(t.Context(), store.Config{DatabaseURL: db.URL, QueueRows: 2000})
			if err != nil {
				t.Fatal(err)
			}
			unlock := lock(t, db.Pool)
			var writes []<-chan error
			for i := range 5 { // the queue is full with the fourth
				writes = append(writes, writing(t.Context(), s, plans(fmt.Sprintf("%d-", i), 500)))
			}
			until(t, "the queue is full", func() bool { rows, waiting := store.Queued(s); return rows == 2000 && waiting == 1 })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.expired {
				cancel()
			}
			closed := make(chan error, 1)
			go func() { closed <- s.Close(ctx) }()
			until(t, "nobody waits for room any more", func() bool { _, waiting := store.Queued(s); return waiting == 0 })
			if err := <-writing(t.Context(), s, plans("late", 1)); !errors.Is(err, record.ErrClosed) {
				t.Errorf("a write to a closed store: %v", err)
			}
			if !tt.expired {
				unlock()
			}
			if err := <-closed; (err != nil) != tt.expired {
				t.Errorf("close: %v", err)
			}
			var others int
			for _, w := range writes {
				switch err := <-w; {
				case errors.Is(err, tt.want):
				case errors.Is(err, record.ErrClosed):
					others++ // who waited for room
				default:
					t.Errorf("a write ended with %v", err)
				}
			}
			if tt.want == nil && others != 1 {
				t.Errorf("%d writes were not drained", others)
			}
			unlock()
			var n int
			if err := db.Pool.QueryRow(t.Context(), "SELECT count(*) FROM actlog.plan_execution_record").Scan(&n); err != nil {
				t.Fatal(err)
			}
			if want := map[bool]int{true: 0, false: 2000}[tt.expired]; n != want {
				t.Errorf("%d plans on record, want %d", n, want)
			}
		})
	}
}

// TestATreeIsDeletedMeanwhile: whoever tells of its cycles makes it anew.
func TestATreeIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := openURL(t, db.URL, patient)
	root := record.NewPlanID()
	var writers sync.WaitGroup
	var stop atomic.Bool
	told := make(chan struct{})
	for w := range 4 {
		writers.Go(func() {
			for i := range int64(1 << 30) {
				step := fmt.Sprintf("%s-s%d", root, w)
				result, err := s.Write(context.Background(), []record.Change{
					&record.AgentExecution{RootPlanID: root, PlanID: root + "p", StepID: step},
					&record.ActTool{RootPlanID: root, StepID: step, Seq: i, ToolCallID: fmt.Sprintf("t%d-%d", w, i)},
					&record.Wait{RootPlanID: root, PlanID: root + "p", WaitID: fmt.Sprint(w)},
				})
				if err != nil || result.Accepted != 3 {
					t.Errorf("an error came to the surface: %+v %v", result, err)
				}
				if stop.Load() {
					return
				}
				told <- struct{}{}
			}
		})
	}
	deleted := 0
	for range 40 {
		<-told
		for { // a writer may be in the way
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
		case <-told:
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
		if n := query[int](t, s, sql); n != 0 {
			t.Errorf("%d %s", n, what)
		}
	}
	p := planTree(t, s, root)
	if n := query[int64](t, s, "SELECT count(*) FROM actlog.act_tool_info"); p.Total.ToolCalls != n || n == 0 {
		t.Errorf("%d calls on record, %d rolled up", n, p.Total.ToolCalls)
	}
}

// TestRefusedAtCommit: a deferred constraint speaks last, when every statement
// has succeeded. Nothing is acknowledged before that.
func TestRefusedAtCommit(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	s := openURL(t, db.URL)
	exec(t, s, `CREATE FUNCTION actlog.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE check_violation; END $$`)
	exec(t, s, `CREATE CONSTRAINT TRIGGER refuse AFTER INSERT OR UPDATE ON actlog.plan_execution_record DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW WHEN (NEW.title = 'bad') EXECUTE FUNCTION actlog.refuse()`)
	result, err := s.Write(t.Context(), []record.Change{
		&record.Plan{RootPlanID: "good", CurrentPlanID: "good", Title: new("good")},
		&record.Plan{RootPlanID: "bad", CurrentPlanID: "bad", Title: new("bad")},
		&record.ThinkAct{RootPlanID: "good", StepID: "s", Seq: 1},
	})
	if err != nil || result.Accepted != 2 || len(result.Rejected) != 1 || result.Rejected[0].Index != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	planTree(t, s, "good")
	stepDetail(t, s, "s")
	if _, _, err := s.PlanTree(t.Context(), "bad"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("the refused plan: %v", err)
	}
}

// TestTheDatabaseRefusesOneOfManyRoots: the others of its root, and all other
// roots, are on record.
func TestTheDatabaseRefusesOneOfManyRoots(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	s := openURL(t, db.URL)
	exec(t, s, "ALTER TABLE actlog.act_tool_info ADD CONSTRAINT unforeseen CHECK (name <> 'bad')")
	var changes []record.Change
	var bad []int
	for i := range 700 {
		root := fmt.Sprintf("root-%d", i%100) // the changes of a root lie apart
		name := "good"
		if i == 0 || i == 350 || i == 450 || i == 699 { // 350 and 450: of one root
			name, bad = "bad", append(bad, i)
		}
		changes = append(changes, &record.ActTool{RootPlanID: root, StepID: root + "s", Seq: int64(i), ToolCallID: fmt.Sprint(i), Name: &name})
	}
	result, err := s.Write(t.Context(), changes)
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, r := range result.Rejected {
		got = append(got, r.Index)
	}
	if !slices.Equal(got, bad) || result.Accepted != 696 {
		t.Errorf("accepted %d, refused %v", result.Accepted, got)
	}
	if n := query[int](t, s, "SELECT count(*) FROM actlog.act_tool_info"); n != 696 {
		t.Errorf("%d calls on record", n)
	}
}

func TestChangeFeed(t *testing.T) {
	t.Parallel()
	s := open(t)
	rows := func() []string {
		var got []string
		r, err := store.Pool(s).Query(t.Context(), "DELETE FROM actlog.change RETURNING root_plan_id || ': ' || array_to_string(kinds, ' ')")
		if err != nil {
			t.Fatal(err)
		}
		for r.Next() {
			var line string
			if err := r.Scan(&line); err != nil {
				t.Fatal(err)
			}
			got = append(got, line)
		}
		slices.Sort(got)
		return got
	}
	plan := &record.Plan{RootPlanID: "a", CurrentPlanID: "a"}
	for _, tt := range []struct {
		name    string
		changes []record.Change
		want    []string
	}{
		{"one", []record.Change{plan}, []string{"a: plan"}},
		{"a repeat", []record.Change{plan}, []string{"a: plan"}},
		{"two roots, several kinds, in their order", []record.Change{
			&record.Wait{RootPlanID: "b", PlanID: "b", WaitID: "w"}, plan,
			&record.ActTool{RootPlanID: "a", StepID: "s", Seq: 0, ToolCallID: "t"},
			&record.Plan{RootPlanID: "a", CurrentPlanID: "sub"},
			&record.ThinkAct{RootPlanID: "b", StepID: "t", Seq: 0},
		}, []string{"a: plan actTool", "b: thinkAct wait"}},
		{"a refused one beside", []record.Change{plan, &record.Plan{RootPlanID: "c"}}, []string{"a: plan"}},
		{"only refused ones", []record.Change{&record.Plan{RootPlanID: "c"}}, nil},
		{"nothing", nil, nil},
	} {
		if _, err := s.Write(t.Context(), tt.changes); err != nil {
			t.Fatal(err)
		}
		if got := rows(); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// lineCount counts the lines of a log that hold a text.
type lineCount struct {
	with string
	n    atomic.Int64
}

func (l *lineCount) Write(line []byte) (int, error) {
	if strings.Contains(string(line), l.with) {
		l.n.Add(1)
	}
	return len(line), nil
}

// TestAnOutageDoesNotFloodTheLog, whatever waits and however often it is tried.
func TestAnOutageDoesNotFloodTheLog(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	log := lineCount{with: "writing is tried again"}
	s := openURL(t, o.db.URL, patient, func(c *store.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	o.begin(t)
	done := writing(t.Context(), s, plans("p", 1))
	until(t, "it is tried again and again", func() bool { return s.Stats().Retries >= 5 })
	if n := log.n.Load(); n == 0 || n >= 5 { // one in ten seconds
		t.Errorf("%d lines", n)
	}
	o.end(t)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestADiskThatIsFull: writes wait for room and say so in the end; reads and what
// makes room go on.
func TestADiskThatIsFull(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	var full atomic.Bool
	s := openURL(t, db.URL, func(c *store.Config) {
		c.RetryFor = 500 * time.Millisecond
		c.Room = func() error {
			if full.Load() {
				return errors.New("nothing is left")
			}
			return nil
		}
	})
	until(t, "it is written", func() bool { _, err := s.Write(t.Context(), plans("p", 2)); return err == nil })
	full.Store(true)
	if _, err := s.Write(t.Context(), plans("q", 1)); !errors.Is(err, store.ErrDiskFull) || !errors.Is(err, record.ErrUnavailable) || !strings.Contains(err.Error(), "nothing is left") {
		t.Errorf("error = %v", err)
	}
	planTree(t, s, "p0")
	if err := s.Ready(t.Context()); err != nil {
		t.Errorf("ready: %v", err)
	}
	if err := s.DeletePlan(t.Context(), "p1"); err != nil {
		t.Errorf("a delete: %v", err)
	}
	full.Store(false)
	until(t, "writes go on", func() bool { _, err := s.Write(t.Context(), plans("r", 1)); return err == nil })
	if _, _, err := s.PlanTree(t.Context(), "q0"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("what was refused: %v", err)
	}
}

// TestPostgresSaysThatItsDiskIsFull: it is tried again, then the error says so.
func TestPostgresSaysThatItsDiskIsFull(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	s := openURL(t, db.URL, func(c *store.Config) { c.RetryFor = 2 * time.Second })
	exec(t, s, `CREATE FUNCTION actlog.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE disk_full; END $$`)
	exec(t, s, `CREATE TRIGGER refuse BEFORE INSERT ON actlog.plan_execution_record FOR EACH ROW EXECUTE FUNCTION actlog.refuse()`)
	if _, err := s.Write(t.Context(), plans("p", 1)); !errors.Is(err, store.ErrDiskFull) || !errors.Is(err, record.ErrUnavailable) {
		t.Errorf("error = %v", err)
	}
	if s.Stats().Retries == 0 {
		t.Error("it was tried once")
	}
}
