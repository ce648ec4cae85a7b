package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/record"
)

// Patient makes a store retry for as long as a test may run: faults end before it gives up, even
// on a slow machine.
func Patient(c *store.Config) { c.RetryFor = time.Hour }

// Impatient makes a store give up at once.
func Impatient(c *store.Config) { c.RetryFor = time.Millisecond }

// Until waits until a condition holds, which another goroutine or session brings about.
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !condition(); {
		// A pause, to leave the processor to the others.
		if time.Now().After(deadline) || pg.Pause(t.Context(), time.Millisecond) != nil {
			t.Fatalf("never: %s", what)
		}
	}
}

// Kill terminates the sessions of all stores in a database and returns how many there were.
func Kill(t testing.TB, pool *pgxpool.Pool, url string) (n int) {
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

// Pair starts two servers for a test, with the schema of the record.
func Pair(t testing.TB) *pgtest.Pair {
	t.Helper()
	pair := pgtest.NewPair(t)
	migrator, err := store.NewMigrator(t.Context(), pair.URL, Logger(t))
	if err == nil {
		err = errors.Join(migrator.Up(t.Context()), migrator.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// Outage takes a database away, as if its server were gone, and brings it back.
type Outage struct {
	DB    *pgtest.DB
	admin *pgxpool.Pool
	name  string
}

// NewOutage returns an outage of a database of its own, which has not begun.
func NewOutage(t testing.TB) Outage {
	t.Helper()
	db := pgtest.Fresh(t)
	var name string
	if err := db.Pool.QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	return Outage{db, pgtest.Empty(t).Pool, name}
}

// Begin ends all sessions of stores. There will be no others.
func (o Outage) Begin(t testing.TB) { t.Helper(); o.allow(t, false); Kill(t, o.admin, o.DB.URL) }

// End allows sessions again.
func (o Outage) End(t testing.TB) { t.Helper(); o.allow(t, true) }

func (o Outage) allow(t testing.TB, connections bool) {
	t.Helper()
	if _, err := o.admin.Exec(t.Context(),
		fmt.Sprintf("ALTER DATABASE %s ALLOW_CONNECTIONS %v", o.name, connections)); err != nil {
		t.Fatal(err)
	}
}

// Load is a number of writers. Each writes the cycles of a step of its own, one after the
// other. None of them may ever see an error.
type Load struct {
	// Acked receives a value for every write that was acknowledged. A writer waits until it is
	// received.
	Acked chan struct{}

	root  string
	n     [8]int64 // acknowledged, by writer
	stop  chan struct{}
	ended chan struct{} // all writers
}

// StartLoad starts the writers. Check ends them.
func StartLoad(t testing.TB, s *store.Store) *Load {
	t.Helper()
	l := &Load{root: record.NewPlanID(), Acked: make(chan struct{}), stop: make(chan struct{}), ended: make(chan struct{})}
	var wg sync.WaitGroup
	for w := range l.n {
		wg.Go(func() {
			for {
				result, err := s.Write(context.Background(), []record.Change{
					&record.ThinkAct{RootPlanID: l.root, StepID: l.step(w), Seq: l.n[w], InputTokens: new(int64(1))},
					&record.ActTool{RootPlanID: l.root, StepID: l.step(w), Seq: l.n[w], ToolCallID: fmt.Sprintf("%d-%d", w, l.n[w])},
				})
				if err != nil || result.Accepted != 2 {
					t.Errorf("a writer saw an error: %+v %v", result, err)
					return
				}

				l.n[w]++
				select {
				case l.Acked <- struct{}{}:
				case <-l.stop:
					return
				}
			}
		})
	}

	go func() { wg.Wait(); close(l.ended) }()
	return l
}

// Await waits until n writes are acknowledged.
func (l *Load) Await(t testing.TB, n int) {
	t.Helper()
	for range n {
		select {
		case <-l.Acked:
		case <-l.ended:
			t.Fatal("the writers gave up")
		}
	}
}

func (l *Load) step(w int) string { return fmt.Sprintf("%s-s%d", l.root, w) }

// Check stops the writers and compares what was acknowledged with the record.
func (l *Load) Check(t testing.TB, s *store.Store) {
	t.Helper()
	close(l.stop)
	<-l.ended

	var sum int64
	for w, n := range l.n {
		sum += n
		st := StepDetail(t, s, l.step(w))
		for i, cycle := range st.Cycles {
			if cycle.Record.Seq != int64(i) || len(cycle.ToolCalls) != 1 {
				t.Fatalf("writer %d: cycle %d in place %d, with %d calls", w, cycle.Record.Seq, i, len(cycle.ToolCalls))
			}
		}

		if int64(len(st.Cycles)) != n || st.Figures.ModelCalls != n {
			t.Errorf("writer %d: %d cycles on record, %d rolled up, %d acknowledged", w, len(st.Cycles), st.Figures.ModelCalls,
				n)
		}
	}

	if total := PlanTree(t, s, l.root).Total; total.InputTokens != sum || total.ToolCalls != sum {
		t.Errorf("total %+v, acknowledged %d", total, sum)
	}
}

// CheckNoDeadlocks checks that Postgres had to end no transaction as a deadlock.
func CheckNoDeadlocks(t testing.TB, s *store.Store) {
	t.Helper()
	if n := Query[int](t, s, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}
