package store_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// replicated is a store with a replica, and where that stands.
type replicated struct {
	*store.Store
	pair *pgtest.Pair
	log  *storetest.Log
}

// lag is how far behind a replica may be here.
const lag = 500 * time.Millisecond

func newReplicated(t *testing.T) *replicated {
	t.Helper()
	r := &replicated{pair: pgtest.NewPair(t), log: new(storetest.Log)}
	migrate(t, r.pair.Primary)
	r.Store = storetest.OpenURL(t, r.pair.Primary, func(c *store.Config) {
		c.ReplicaURL, c.ReplicaLag = r.pair.Standby, lag
		c.Logger = r.log.Logger()
	})
	r.untilUsed(t, true)
	return r
}

func (r *replicated) untilUsed(t *testing.T, used bool) {
	t.Helper()
	storetest.Until(t, fmt.Sprint("the replica is used: ", used), func() bool { return r.Stats().Replica.Used == used })
}

// list returns the root plans that a relaxed read lists, and whether it was made at the replica.
func (r *replicated) list(t *testing.T, after store.Mark) (roots []string, there bool) {
	t.Helper()
	before := r.Stats().Replica.Reads
	err := r.Relaxed(t.Context(), after, func(ctx context.Context, reader *store.Reader) error {
		plans, err := reader.Plans(ctx, store.PlanFilter{Limit: 1000})
		roots = nil
		for _, p := range plans {
			roots = append(roots, p.Record.RootPlanID)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return roots, r.Stats().Replica.Reads > before
}

func (r *replicated) write(t *testing.T, root string) store.Mark {
	t.Helper()
	storetest.Write(t, r.Store, &record.Plan{RootPlanID: root, CurrentPlanID: root})
	m, err := r.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// untilThere waits until a list is read at the replica, which a machine with much to do may delay. Wherever it is read,
// it has so many plans.
func (r *replicated) untilThere(t *testing.T, after store.Mark, plans int) {
	t.Helper()
	storetest.Until(t, "a list is read at the replica", func() bool {
		roots, there := r.list(t, after)
		if len(roots) != plans {
			t.Fatalf("the list has %v, read at the replica: %v", roots, there)
		}
		return there
	})
}

// TestReplicaHasOwnWrites: who reads with the mark of a write sees it, while others write, and mostly at the replica.
func TestReplicaHasOwnWrites(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)

	there := 0
	var mu sync.Mutex
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for n := range 50 {
				root := fmt.Sprintf("run-%d-%d", w, n)
				mark := r.write(t, root)
				roots, at := r.list(t, mark)
				if !strings.Contains(" "+strings.Join(roots, " ")+" ", " "+root+" ") {
					t.Errorf("%s was written at %v and is not in the list, read at the replica: %v", root, mark, at)
				}
				if at {
					mu.Lock()
					there++
					mu.Unlock()
				}
			}
		})
	}

	writers.Wait()
	t.Logf("%d of 200 reads were made at the replica", there)
	if there == 0 {
		t.Error("no read was made at the replica")
	}
}

// TestReplicaFallsBehind: a replica that does not follow is used for as long as it is not too far behind, without what
// a mark or a plan needs.
func TestReplicaFallsBehind(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	old := r.write(t, "old")
	r.untilThere(t, old, 1)

	pgtest.Exec(t, r.pair.Standby, "SELECT pg_wal_replay_pause()")
	storetest.Until(t, "it is paused", func() bool {
		return ask[string](t, r.pair.Standby, "SELECT pg_get_wal_replay_pause_state()") == "paused"
	})
	young := r.write(t, "young")
	if roots, there := r.list(t, young); len(roots) != 2 || there {
		t.Errorf("with the mark of the write the list has %v, read at the replica: %v", roots, there)
	}

	// What the replica lacks is looked for at the primary.
	if err := r.Relaxed(t.Context(), store.Mark{}, func(ctx context.Context, reader *store.Reader) error {
		return reader.Export(ctx, "", "young", func(record.Change) error { return nil })
	}); err != nil {
		t.Errorf("export of a new plan: %v", err)
	}

	r.untilUsed(t, false)
	if roots, there := r.list(t, store.Mark{}); len(roots) != 2 || there {
		t.Errorf("of a replica too far behind the list has %v, read there: %v", roots, there)
	}
	pgtest.Exec(t, r.pair.Standby, "SELECT pg_wal_replay_resume()")
	r.untilUsed(t, true)
	r.untilThere(t, young, 2)
	if s := r.log.String(); !strings.Contains(s, "reads are not made at the replica") {
		t.Errorf("the log:\n%s", s)
	}
}

// TestReplicaIsFrozen: what is read at a replica that stops to answer is read at the primary instead, soon.
func TestReplicaIsFrozen(t *testing.T) {
	t.Parallel()
	pair := pgtest.NewPair(t)
	migrate(t, pair.Primary)
	address := pgtest.NewAddress(t, pair.Standby)
	r := &replicated{pair: pair, log: new(storetest.Log), Store: storetest.OpenURL(t, pair.Primary, func(c *store.Config) {
		c.ReplicaURL = address.URL
	})}
	r.untilUsed(t, true)
	r.untilThere(t, r.write(t, "run"), 1)

	began, calls := time.Now(), 0
	if err := r.Relaxed(t.Context(), store.Mark{}, func(ctx context.Context, reader *store.Reader) error {
		if calls++; calls == 1 {
			address.Freeze(t, pair.Standby)
		}
		_, err := reader.Plans(ctx, store.PlanFilter{Limit: 10})
		return err
	}); err != nil || calls != 2 {
		t.Errorf("the read was made %d times: %v", calls, err)
	}
	t.Logf("answered after %v", time.Since(began))

	r.untilUsed(t, false)
	address.Freeze(t, "")
	r.untilUsed(t, true)
	r.untilThere(t, store.Mark{}, 1)
}

// TestOneOfTwoReplicasFallsBehind: then the other one is read.
func TestOneOfTwoReplicasFallsBehind(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	ahead := r.pair.Another(t)
	s := storetest.OpenURL(t, r.pair.Primary, func(c *store.Config) {
		c.ReplicaURL, c.ReplicaLag = pgtest.Both(t, r.pair.Standby, ahead), lag
		c.Logger = r.log.Logger()
	})

	two := &replicated{Store: s, pair: r.pair, log: r.log}
	two.untilUsed(t, true)
	var readers sync.WaitGroup
	for range 8 { // so that there are connections to both
		readers.Go(func() { two.untilThere(t, store.Mark{}, 0) })
	}
	readers.Wait()

	pgtest.Exec(t, r.pair.Standby, "SELECT pg_wal_replay_pause()")
	two.untilThere(t, r.write(t, "run"), 1)
	time.Sleep(lag)
	for range 100 {
		if roots, there := two.list(t, store.Mark{}); len(roots) != 1 || !there {
			t.Errorf("the list has %v, read at a replica: %v", roots, there)
		}
	}
	if s := s.Stats().Replica; !s.Used || s.Passed > 10 {
		t.Errorf("s.Stats().Replica = %+v", s)
	}
}

// TestReplicaIsPromoted: a replica that became a primary of its own is not read any more.
func TestReplicaIsPromoted(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)

	r.pair.Set(t, "synchronous_standby_names", "")
	r.pair.Promote(t)
	r.untilUsed(t, false)
	if roots, there := r.list(t, r.write(t, "run")); len(roots) != 1 || there {
		t.Errorf("the list has %v, read at what was the replica: %v", roots, there)
	}
}

// TestReplicaOfAnother: a server of another cluster is not read.
func TestReplicaOfAnother(t *testing.T) {
	t.Parallel()
	pair, other := pgtest.NewPair(t), pgtest.NewPair(t)
	migrate(t, pair.Primary)
	for _, url := range []string{other.Standby, pair.Primary, "postgres://127.0.0.1:1/nowhere"} {
		r := &replicated{pair: pair, Store: storetest.OpenURL(t, pair.Primary, func(c *store.Config) { c.ReplicaURL = url })}
		if roots, there := r.list(t, r.write(t, "run")); len(roots) != 1 || there {
			t.Errorf("the list has %v, read at %s: %v", roots, url, there)
		}
	}
}

// TestReplicaEndsReads: a replica ends a read that is in the way of what it has to follow. The read is made at the
// primary.
func TestReplicaEndsReads(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	pgtest.Exec(t, r.pair.Standby, "ALTER SYSTEM SET max_standby_streaming_delay = '0'", "SELECT pg_reload_conf()")
	r.write(t, "run")

	calls := 0
	err := r.Relaxed(t.Context(), store.Mark{}, func(ctx context.Context, reader *store.Reader) error {
		calls++
		return reader.Export(ctx, "", "run", func(record.Change) error {
			if calls > 1 {
				return nil
			}

			pgtest.Exec(t, r.pair.Primary, "ALTER TABLE actlog.plan_execution_record ADD COLUMN in_the_way integer")
			storetest.Until(t, "the replica ended the read", func() bool {
				return ask[int](t, r.pair.Standby, "SELECT sum(confl_lock) FROM pg_stat_database_conflicts") > 0
			})
			return nil
		})
	})
	if calls != 2 || err != nil {
		t.Errorf("the read was made %d times: %v", calls, err)
	}
}

// ask returns the only value of a query, on a connection of its own.
func ask[T any](t *testing.T, url, sql string) (v T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()

	if err := conn.QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}
