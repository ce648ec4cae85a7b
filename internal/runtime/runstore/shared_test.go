package runstore_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// gate keeps a store from beginning a transaction while it is closed.
type gate struct {
	mu      sync.Mutex
	shut    atomic.Bool
	waiting atomic.Int64 // transactions
}

func (g *gate) close() { g.mu.Lock(); g.shut.Store(true) }

func (g *gate) open() { g.shut.Store(false); g.mu.Unlock() }

// pass is a Config.CheckRoom.
func (g *gate) pass() error {
	if g.shut.Load() {
		g.waiting.Add(1)
		defer g.waiting.Add(-1)
		g.mu.Lock()
		defer g.mu.Unlock()
	}
	return nil
}

// many is a store with a number of runs, p00 and so on, that a worker holds.
type many struct {
	*runstore.Store
	t      *testing.T
	gate   gate
	leases []runstore.Lease
	// queued is called when all writes are queued that are to share a transaction. nil: nothing is.
	queued func()
}

func holdMany(t *testing.T, runs int) *many {
	t.Helper()
	return holdManyAt(t, pgtest.New(t).URL, runs)
}

// holdManyAt is holdMany for a database.
func holdManyAt(t *testing.T, url string, runs int) *many {
	t.Helper()
	m := &many{t: t}
	m.Store = runstore.New(storetest.OpenURL(t, url, func(c *store.Config) { c.CheckRoom = m.gate.pass }))
	addWorker(t, m.Store, "w", time.Hour)
	for i := range runs {
		startRun(t, m.Store, newRun(fmt.Sprintf("p%02d", i)))
	}

	held := map[string]runstore.Lease{}
	for _, c := range claim(t, m.Store, "w", runs) {
		held[c.PlanID] = c.Lease
	}
	for i := range runs {
		m.leases = append(m.leases, held[fmt.Sprintf("p%02d", i)])
	}
	return m
}

// together writes for the first two runs, and for all others while these cannot be sent. It returns what came of each,
// and how many transactions were committed.
func (m *many) together(write func(i int) error) (errs []error, transactions uint64) {
	m.t.Helper()
	before := m.Stats()
	errs = make([]error, len(m.leases))
	m.gate.close()
	var all sync.WaitGroup
	for i := range 2 { // one for each writer
		all.Go(func() { errs[i] = write(i) })
		storetest.Until(m.t, "a write is about to be sent", func() bool { return m.gate.waiting.Load() == int64(i)+1 })
	}

	for i := 2; i < len(m.leases); i++ {
		all.Go(func() { errs[i] = write(i) })
	}
	storetest.Until(m.t, "all writes are queued", func() bool { return m.Stats().QueueRows == len(m.leases) })
	if m.queued != nil {
		m.queued()
	}
	m.gate.open()
	all.Wait()
	return errs, m.Stats().Batches - before.Batches
}

// retitle is a write that succeeds.
func (m *many) retitle(i int, to string, ops ...runstore.RunOp) error {
	return retitle(m.t, m.Store, m.leases[i], to, ops...)
}

// only checks that the write of one run failed, with an error that is as it should be, and that all others are on
// record.
func (m *many) only(at int, errs []error, expected func(error) bool) {
	m.t.Helper()
	for i, err := range errs {
		want := "together"
		switch {
		case i != at && err != nil:
			m.t.Errorf("run %d beside the one that fails: %v", i, err)
		case i == at && !expected(err):
			m.t.Errorf("run %d, which is to fail: %v", i, err)
		case i == at:
			want = "Read."
		}
		if got := planTitle(m.t, m.Store, fmt.Sprintf("p%02d", i)); got != want {
			m.t.Errorf("the title of run %d is %q, want %q", i, got, want)
		}
	}
}

// TestBoundariesShareATransaction checks that what many runs write at the same time is committed together, and that
// each is told what it should do.
func TestBoundariesShareATransaction(t *testing.T) {
	t.Parallel()
	m := holdMany(t, 50)
	if err := m.Control(t.Context(), "p07", runstore.Pause, ""); err != nil {
		t.Fatal(err)
	}

	asked := make([]runstore.Desired, len(m.leases))
	errs, transactions := m.together(func(i int) error { return m.retitle(i, "together", runstore.Asked(&asked[i])) })
	m.only(-1, errs, nil)
	if transactions != 3 { // the first two, and all others
		t.Errorf("%d runs were written in %d transactions", len(errs), transactions)
	}

	for i, desired := range asked {
		want := runstore.DesiredRun
		if i == 7 {
			want = runstore.DesiredPause
		}
		if desired != want {
			t.Errorf("run %d should %s, want %s", i, desired, want)
		}
	}
}

// TestALostLeaseFailsAlone checks that a run that another worker holds, or that has ended, fails alone among those that
// share its transaction.
func TestALostLeaseFailsAlone(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]string{
		"taken over": "UPDATE actlog.run SET worker_id = 'other', epoch = epoch + 1 WHERE plan_id = $1",
		"ended":      "UPDATE actlog.run SET worker_id = NULL, done = true WHERE plan_id = $1",
		"deleted":    "DELETE FROM actlog.run WHERE plan_id = $1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := holdMany(t, 30)
			storetest.Exec(t, m.Store.Store, lose, "p11")

			errs, transactions := m.together(func(i int) error { return m.retitle(i, "together") })
			m.only(11, errs, func(err error) bool { return errors.Is(err, runstore.ErrLeaseLost) })
			if transactions != 3 { // the first two, and those of the others that are held
				t.Errorf("the others were written in %d transactions: the fence says which one is lost", transactions)
			}
		})
	}
}

// TestWhatIsAskedFailsAlone checks that a run that should not go on begins nothing and is told why, and that the others
// go on.
func TestWhatIsAskedFailsAlone(t *testing.T) {
	t.Parallel()
	for action, want := range map[runstore.Action]runstore.Desired{
		runstore.Pause: runstore.DesiredPause, runstore.Stop: runstore.DesiredCancel,
	} {
		t.Run(string(action), func(t *testing.T) {
			t.Parallel()
			m := holdMany(t, 30)
			if err := m.Control(t.Context(), "p11", action, ""); err != nil {
				t.Fatal(err)
			}

			asked := make([]runstore.Desired, len(m.leases))
			errs, _ := m.together(func(i int) error {
				return m.retitle(i, "together", runstore.GoesOn(), runstore.Asked(&asked[i]))
			})
			m.only(11, errs, func(err error) bool { return errors.Is(err, runstore.ErrAsked) })
			if asked[11] != want || asked[12] != runstore.DesiredRun {
				t.Errorf("they should %s and %s, want %s and %s", asked[11], asked[12], want, runstore.DesiredRun)
			}
		})
	}
}

// TestABadRowFailsAlone checks that a run whose row Postgres refuses fails alone, and that one whose row is no row
// never meets the others.
func TestABadRowFailsAlone(t *testing.T) {
	t.Parallel()
	m := holdMany(t, 30)
	storetest.Exec(t, m.Store.Store,
		"ALTER TABLE actlog.plan_execution_record ADD CONSTRAINT unforeseen CHECK (title <> 'bad')")

	errs, _ := m.together(func(i int) error {
		if i == 11 {
			return m.retitle(i, "bad")
		}
		return m.retitle(i, "together")
	})
	m.only(11, errs, func(err error) bool { return err != nil && strings.Contains(err.Error(), "unforeseen") })

	err := m.WriteRun(t.Context(), m.leases[11], []record.Change{&record.Plan{RootPlanID: "p11"}})
	if !errors.As(err, new(*record.InvalidError)) {
		t.Errorf("a change that is not valid: %v", err)
	}
}

// TestALostRaceFailsAlone checks that a run whose write loses a race again and again does not keep others waiting.
func TestALostRaceFailsAlone(t *testing.T) {
	t.Parallel()
	m := holdMany(t, 30)
	for _, statement := range []string{
		`CREATE FUNCTION public.lose() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN RAISE EXCEPTION 'lost' USING ERRCODE = 'serialization_failure'; END $$`,
		`CREATE TRIGGER lose BEFORE INSERT OR UPDATE ON actlog.plan_execution_record FOR EACH ROW
			WHEN (NEW.title = 'race') EXECUTE FUNCTION public.lose()`,
	} {
		storetest.Exec(t, m.Store.Store, statement)
	}

	start := time.Now()
	errs, _ := m.together(func(i int) error {
		if i == 11 {
			return m.retitle(i, "race")
		}
		return m.retitle(i, "together")
	})
	m.only(11, errs, func(err error) bool { return errors.Is(err, record.ErrUnavailable) })
	if took := time.Since(start); took > store.DefaultRetryFor/2 {
		t.Errorf("the others waited for %v", took)
	}
}

// TestAFormThatWaitsFailsAlone checks that a statement of one run that fails does not fail others.
func TestAFormThatWaitsFailsAlone(t *testing.T) {
	t.Parallel()
	m := holdMany(t, 20)
	wait := &record.Wait{RootPlanID: "p11", PlanID: "p11", WaitID: "first", State: new(record.Waiting)}
	if err := m.WriteRun(t.Context(), m.leases[11], []record.Change{wait}); err != nil {
		t.Fatal(err)
	}

	errs, _ := m.together(func(i int) error { return m.retitle(i, "together", runstore.FormFree("second")) })
	m.only(11, errs, func(err error) bool { return errors.Is(err, runstore.ErrFormWaits) })
}

// TestWhoLeavesIsNotWritten checks that what is not being sent when its caller leaves is never written.
func TestWhoLeavesIsNotWritten(t *testing.T) {
	t.Parallel()
	m := holdMany(t, 30)
	left, leave := context.WithCancel(t.Context())
	m.queued = func() {
		leave()
		storetest.Until(t, "one has left", func() bool { return m.Stats().QueueRows == len(m.leases)-1 })
	}

	errs, _ := m.together(func(i int) error {
		if i != 11 {
			return m.retitle(i, "together")
		}
		change := &record.Plan{RootPlanID: "p11", CurrentPlanID: "p11", Title: new("left")}
		return m.WriteRun(left, m.leases[i], []record.Change{change})
	})
	m.only(11, errs, func(err error) bool { return errors.Is(err, context.Canceled) })
}

// TestALockedRunWaitsAlone checks that a run whose tree another session holds does not keep others waiting.
func TestALockedRunWaitsAlone(t *testing.T) {
	t.Parallel()
	m := holdMany(t, 20)
	tx, err := m.DB().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }() // it has ended

	if _, err := tx.Exec(t.Context(),
		"SELECT FROM actlog.plan_execution_record WHERE root_plan_id = 'p11' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}

	var written atomic.Int64
	ended := make(chan error, 1)
	go func() {
		storetest.Until(t, "all other runs are written", func() bool { return written.Load() == int64(len(m.leases)-1) })
		ended <- tx.Commit(context.WithoutCancel(t.Context()))
	}()

	errs, _ := m.together(func(i int) error {
		err := m.retitle(i, "together")
		written.Add(1)
		return err
	})
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	m.only(-1, errs, nil)
}

// TestKilledConnections checks that every boundary that was acknowledged is on record, and none twice, when connections
// are killed at any moment, also while they commit.
func TestKilledConnections(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	s := runstore.New(storetest.OpenURL(t, db.URL, storetest.Patient))
	addWorker(t, s, "w", time.Hour)
	const runs = 20
	for i := range runs {
		startRun(t, s, newRun(fmt.Sprintf("p%02d", i)))
	}

	stop := make(chan struct{})
	var acknowledged atomic.Int64
	var all sync.WaitGroup
	for _, c := range claim(t, s, "w", runs) {
		all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				title := fmt.Sprint("boundary ", n)
				if err := retitle(t, s, c.Lease, title); err != nil {
					t.Errorf("run %s, boundary %d: %v", c.PlanID, n, err)
					return
				}
				if got := planTitle(t, s, c.PlanID); got != title {
					t.Errorf("run %s has title %q after %q was acknowledged", c.PlanID, got, title)
					return
				}
				acknowledged.Add(1)
			}
		})
	}

	killed := 0
	for range 20 {
		seen := acknowledged.Load()
		storetest.Until(t, "boundaries are acknowledged", func() bool { return acknowledged.Load() > seen+20 || t.Failed() })
		killed += storetest.Kill(t, db.Pool, db.URL)
	}
	close(stop)
	all.Wait()
	if killed == 0 {
		t.Error("no session was killed")
	}
}

// swallower is a way to Postgres on which an answer is lost: that to a transaction in which a text is sent. The
// connection ends with it.
type swallower struct {
	network, address string // of Postgres
	text             []byte
	swallowed        atomic.Bool
}

// swallow returns the URL of such a way.
func swallow(t *testing.T, url, text string) (*swallower, string) {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	s := &swallower{text: []byte(text)}
	s.network, s.address = pgconn.NetworkAddress(config.Host, config.Port)

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { s.pass(t, client) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close() // ends Accept
		all.Wait()
	})

	at := listener.Addr().(*net.TCPAddr) //nolint:forcetypeassert // it listens on TCP
	return s, fmt.Sprintf("host=127.0.0.1 port=%d user=%s password=%s dbname=%s sslmode=disable", at.Port, config.User,
		cmp.Or(config.Password, "none"), config.Database)
}

func (s *swallower) pass(t *testing.T, client net.Conn) {
	t.Helper()
	server, err := net.Dial(s.network, s.address)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = client.Close() }() // either may have ended
	var said atomic.Bool

	go func() {
		defer func() { _ = server.Close() }()
		copyChunks(server, client, func(chunk []byte) bool {
			if bytes.Contains(chunk, s.text) && s.swallowed.CompareAndSwap(false, true) {
				said.Store(true)
			}
			return true
		})
	}()
	copyChunks(client, server, func(chunk []byte) bool {
		readyAgain := bytes.HasSuffix(chunk, []byte("Z\x00\x00\x00\x05I")) // it has committed
		return !said.Load() || !readyAgain
	})
}

// copyChunks copies until one side ends, or pass says no.
func copyChunks(to io.Writer, from io.Reader, pass func([]byte) bool) {
	chunk := make([]byte, 1<<20)
	for {
		n, err := from.Read(chunk)
		if err != nil || !pass(chunk[:n]) {
			return
		}
		if _, err := to.Write(chunk[:n]); err != nil {
			return
		}
	}
}

// TestALostAnswer checks what is said of runs whose transaction was committed, but nobody heard of it: those that can
// be written again have succeeded, and of one that was let go of it is not known. It did not lose its lease to anybody.
func TestALostAnswer(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	way, url := swallow(t, db.URL, "unheard")
	m := holdManyAt(t, url, 20)

	errs, _ := m.together(func(i int) error {
		if i == 11 {
			return m.retitle(i, "unheard", runstore.Park(time.Time{}))
		}
		return m.retitle(i, "together")
	})
	if !way.swallowed.Load() {
		t.Fatal("no answer was lost")
	}

	for i, err := range errs {
		if i == 11 {
			if !errors.Is(err, record.ErrUnavailable) || errors.Is(err, runstore.ErrLeaseLost) {
				t.Errorf("the run that was let go of: %v, want that its outcome is not known", err)
			}
		} else if err != nil {
			t.Errorf("run %d: %v", i, err)
		}
	}
	if got := planTitle(t, m.Store, "p11"); got != "unheard" {
		t.Errorf("the run that was let go of has title %q", got)
	}
}

// TestNoDeadlocks checks that two workers, and people who stop and pause their runs, never wait for each other.
func TestNoDeadlocks(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	stores := []*runstore.Store{
		runstore.New(storetest.OpenURL(t, db.URL)), runstore.New(storetest.OpenURL(t, db.URL)),
	}
	const runs = 20
	for i := range runs {
		startRun(t, stores[0], newRun(fmt.Sprintf("p%02d", i)))
	}

	ended := time.Now().Add(2 * time.Second)
	var all sync.WaitGroup
	var boundaries atomic.Int64
	for w, s := range stores {
		worker := fmt.Sprint("w", w)
		addWorker(t, s, worker, time.Hour)
		for slot := range runs / 2 {
			all.Go(func() {
				for time.Now().Before(ended) {
					for _, c := range claim(t, s, worker, 1) {
						var err error
						for n := 0; n < 5 && err == nil; n++ {
							err = retitle(t, s, c.Lease, fmt.Sprint(worker, slot, n))
							boundaries.Add(1)
						}
						if err == nil {
							err = s.WriteRun(t.Context(), c.Lease, nil, runstore.Release())
						}
						if err != nil && !errors.Is(err, runstore.ErrLeaseLost) {
							t.Errorf("%s writes run %s: %v", worker, c.PlanID, err)
						}
					}
				}
			})
		}

		all.Go(func() {
			for n := 0; time.Now().Before(ended); n++ {
				if err := s.HandBack(t.Context(), worker, nil); err != nil {
					t.Errorf("hand back: %v", err)
				}
				action := []runstore.Action{runstore.Pause, runstore.Resume}[n%2]
				if err := s.Control(t.Context(), fmt.Sprintf("p%02d", n%runs), action, ""); err != nil {
					t.Errorf("%s: %v", action, err)
				}
			}
		})
	}

	all.Wait()
	storetest.CheckNoDeadlocks(t, stores[0].Store)
	if boundaries.Load() < 100 {
		t.Errorf("only %d boundaries were written", boundaries.Load())
	}
}
