package runstore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// open opens an empty store.
func open(t testing.TB, options ...func(*store.Config)) *runstore.Store {
	t.Helper()
	return runstore.New(storetest.Open(t, options...))
}

// newRun returns a root run that needs nothing.
func newRun(id string) runstore.NewRun {
	return runstore.NewRun{
		Run: runstore.Run{
			RootPlanID: id, PlanID: id, Executor: "agent", Name: "reader", Input: json.RawMessage(`{"request":"Read."}`),
			Owner: id,
		},
		Needs: []string{},
	}
}

func startRun(t *testing.T, s *runstore.Store, r runstore.NewRun) {
	t.Helper()
	if err := s.StartRun(t.Context(), r,
		[]record.Change{&record.Plan{RootPlanID: r.RootPlanID, CurrentPlanID: r.PlanID, Title: new("Read.")}}); err != nil {
		t.Fatal(err)
	}
}

// addWorker registers a worker with a lease.
func addWorker(t *testing.T, s *runstore.Store, id string, lease time.Duration) {
	t.Helper()
	if _, err := s.AddWorker(t.Context(),
		runstore.Worker{ID: id, Host: "h", Release: "r", Provides: []string{}, Slots: 1}, lease); err != nil {
		t.Fatal(err)
	}
}

func claim(t *testing.T, s *runstore.Store, worker string, n int) []runstore.Claimed {
	t.Helper()
	claimed, err := enginetest.Claim(t.Context(), s, worker, []string{"executor:agent"}, n)
	if err != nil {
		t.Fatal(err)
	}
	return claimed
}

// bury declares a worker dead that holds a number of runs.
func bury(t *testing.T, s *runstore.Store, worker string, runs int) {
	t.Helper()
	holders, err := s.Holders(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	i := slices.IndexFunc(holders, func(h runstore.Holder) bool { return h.WorkerID == worker })
	if i < 0 {
		t.Fatalf("%s is not among %+v", worker, holders)
	}
	if n, err := s.Bury(t.Context(), holders[i]); err != nil || n != runs {
		t.Fatalf("%d runs of %s were taken over, %v", n, worker, err)
	}
}

// claimOne claims the only run that there is to claim.
func claimOne(t *testing.T, s *runstore.Store, worker string) runstore.Claimed {
	t.Helper()
	claimed := claim(t, s, worker, 10)
	if len(claimed) != 1 {
		t.Fatalf("%s claimed %d runs, want 1", worker, len(claimed))
	}
	return claimed[0]
}

func planTitle(t *testing.T, s *runstore.Store, planID string) string {
	t.Helper()
	tree, _, err := s.PlanTree(t.Context(), "", planID)
	if err != nil {
		t.Fatal(err)
	}
	return *tree.Record.Title
}

func retitle(t *testing.T, s *runstore.Store, l runstore.Lease, to string, ops ...runstore.RunOp) error {
	t.Helper()
	return s.WriteRun(t.Context(), l,
		[]record.Change{&record.Plan{RootPlanID: l.RootPlanID, CurrentPlanID: l.PlanID, Title: &to}}, ops...)
}

// TestRunIsFenced checks that only the worker that claimed a run last can write to it, and that what a
// stale one writes leaves nothing.
func TestRunIsFenced(t *testing.T) {
	t.Parallel()
	s := open(t)
	startRun(t, s, newRun("p"))
	addWorker(t, s, "a", time.Second)
	addWorker(t, s, "b", time.Hour)

	first := claimOne(t, s, "a")
	if first.Lease.Epoch != 1 || first.Takeovers != 0 || first.Name != "reader" ||
		string(first.Input) != `{"request":"Read."}` || first.Desired != runstore.DesiredRun {
		t.Errorf("claimed %+v", first)
	}
	if err := retitle(t, s, first.Lease, "by a"); err != nil {
		t.Fatal(err)
	}
	if got := claim(t, s, "b", 10); len(got) != 0 {
		t.Errorf("b claimed what a holds: %+v", got)
	}

	bury(t, s, "a", 1)
	second := claimOne(t, s, "b")
	if second.Lease.Epoch != 2 || second.Takeovers != 1 {
		t.Errorf("taken over: %+v", second)
	}
	if err := retitle(t, s, first.Lease, "by a again", runstore.Finish(nil)); !errors.Is(err, runstore.ErrLeaseLost) {
		t.Errorf("the stale worker: %v", err)
	}
	if got := planTitle(t, s, "p"); got != "by a" {
		t.Errorf("the title is %q", got)
	}

	if got := claim(t, s, "b", 10); len(got) != 0 {
		t.Errorf("b claimed what it holds: %+v", got)
	}
	if err := retitle(t, s, second.Lease, "by b", runstore.Finish(nil)); err != nil {
		t.Fatal(err)
	}
	if err := retitle(t, s, second.Lease, "after the end"); !errors.Is(err, runstore.ErrLeaseLost) {
		t.Errorf("after the end: %v", err)
	}

	if err := s.WriteRun(t.Context(), second.Lease, []record.Change{&record.Plan{RootPlanID: "p"}}); err == nil ||
		errors.Is(err, runstore.ErrLeaseLost) {
		t.Errorf("a change that is not valid: %v", err)
	}
}

// TestNobodyWritesToADeletedRun checks that a worker which was away cannot bring back a tree that was deleted.
func TestNobodyWritesToADeletedRun(t *testing.T) {
	t.Parallel()
	s := open(t)
	startRun(t, s, newRun("p"))
	addWorker(t, s, "a", 0)
	held := claimOne(t, s, "a")

	if err := s.DeletePlan(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	if err := retitle(t, s, held.Lease, "again"); !errors.Is(err, runstore.ErrLeaseLost) {
		t.Errorf("write: %v", err)
	}
	if _, _, err := s.PlanTree(t.Context(), "", "p"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("the deleted plan: %v", err)
	}
}

// TestDeletionStopsRunsFirst (S1) checks that a tree is deleted when no worker holds its runs any more, and not before.
func TestDeletionStopsRunsFirst(t *testing.T) {
	t.Parallel()
	s := open(t)
	startRun(t, s, newRun("p"))
	addWorker(t, s, "a", time.Hour)
	held := claimOne(t, s, "a")

	deleted := make(chan error)
	go func() { deleted <- s.DeletePlan(t.Context(), "p") }()
	storetest.Until(t, "the run is asked to stop", func() bool {
		wanted, err := s.Wanted(t.Context(), "a", nil)
		return err == nil && len(wanted) == 1 && wanted[0].Desired == runstore.DesiredCancel
	})
	if err := retitle(t, s, held.Lease, "what it was doing", runstore.Finish(nil)); err != nil {
		t.Errorf("the worker cannot end what it was doing: %v", err)
	}

	if err := <-deleted; err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.PlanTree(t.Context(), "", "p"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("the deleted plan: %v", err)
	}
}

// TestDeletionWaitsForWorkers checks that a tree stays whose run a worker does not let go of.
func TestDeletionWaitsForWorkers(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t).URL
	s := runstore.New(storetest.OpenURL(t, url))
	startRun(t, s, newRun("p"))
	addWorker(t, s, "a", time.Hour)
	held := claimOne(t, s, "a")

	impatient := runstore.New(storetest.OpenURL(t, url, storetest.Impatient))
	if err := impatient.DeletePlan(t.Context(), "p"); !errors.Is(err, record.ErrUnavailable) {
		t.Errorf("the deletion: %v, want that it is not done yet", err)
	}
	if err := retitle(t, s, held.Lease, "still here"); err != nil {
		t.Errorf("the worker holds the run no more: %v", err)
	}
}

// TestOneWorkerClaims checks that a run is claimed once, however many try.
func TestOneWorkerClaims(t *testing.T) {
	t.Parallel()
	s := open(t)
	for i := range 30 {
		startRun(t, s, newRun(fmt.Sprint("p", i)))
	}

	var mu sync.Mutex
	var all sync.WaitGroup
	owners := map[string]int{}
	for i := range 5 {
		worker := fmt.Sprint("w", i)
		addWorker(t, s, worker, time.Hour)
		all.Go(func() {
			for {
				claimed, err := enginetest.Claim(t.Context(), s, worker, []string{}, 2)
				if err != nil {
					t.Error(err)
				}

				mu.Lock()
				for _, c := range claimed {
					owners[c.PlanID]++
				}
				n := len(owners)
				mu.Unlock()
				if err != nil || n == 30 {
					return
				}
			}
		})
	}

	all.Wait()
	for plan, n := range owners {
		if n != 1 {
			t.Errorf("%s was claimed %d times", plan, n)
		}
	}
}

// TestParking checks when a parked run is due: at its time, at a signal, and at once if a signal came
// since it was claimed.
func TestParking(t *testing.T) {
	t.Parallel()
	s := open(t)
	startRun(t, s, newRun("p"))
	addWorker(t, s, "w", time.Hour)
	due := func() bool { t.Helper(); return len(claim(t, s, "w", 1)) == 1 }
	lease := claimOne(t, s, "w").Lease

	parkAs := func(until time.Time) {
		t.Helper()
		if err := s.WriteRun(t.Context(), lease, nil, runstore.Park(until)); err != nil {
			t.Fatal(err)
		}
		lease.Epoch++ // of the next claim
	}
	// A signal to itself is as good as one of another run.
	signal := func(ops ...runstore.RunOp) {
		t.Helper()
		if err := s.WriteRun(t.Context(), lease, nil, append(ops, runstore.Signal("p"))...); err != nil {
			t.Fatal(err)
		}
	}

	parkAs(time.Time{})
	if due() {
		t.Fatal("due without a time or a signal")
	}
	if err := s.Control(t.Context(), "p", runstore.Pause, ""); err != nil {
		t.Fatal(err)
	}
	if !due() {
		t.Fatal("not due after it was asked to pause")
	}

	parkAs(time.Now().Add(time.Hour))
	if due() {
		t.Fatal("due an hour early")
	}
	if err := s.Control(t.Context(), "p", runstore.Resume, ""); err != nil {
		t.Fatal(err)
	}
	if !due() {
		t.Fatal("not due after it was asked to go on")
	}

	parkAs(time.Now().Add(-time.Hour))
	if !due() {
		t.Fatal("not due at its time")
	}

	signal()
	parkAs(time.Time{})
	if !due() {
		t.Fatal("a signal from before it parked is lost")
	}
	parkAs(time.Time{})
	if due() {
		t.Fatal("due by a signal that it has seen")
	}
}

// TestWorkersProvide checks that a worker takes only what it can carry, and that the others stay.
func TestWorkersProvide(t *testing.T) {
	t.Parallel()
	s := open(t)
	addWorker(t, s, "w", time.Hour)
	for _, need := range []string{"executor:agent", "model:large"} {
		r := newRun(need)
		r.Needs = []string{"executor:agent", need}
		startRun(t, s, r)
	}

	if got := claimOne(t, s, "w"); got.PlanID != "executor:agent" {
		t.Errorf("claimed %s", got.PlanID)
	}
}

// TestClaimsAreFair checks that an owner or a tree with many runs leaves room for the others.
func TestClaimsAreFair(t *testing.T) {
	t.Parallel()
	s := open(t)
	addWorker(t, s, "w", time.Hour)
	for i := range 20 {
		r := newRun(fmt.Sprintf("greedy-%d", i))
		r.Owner = "greedy"
		startRun(t, s, r)
	}

	r := newRun("wide")
	startRun(t, s, r)
	l := claim(t, s, "w", 21)
	i := slices.IndexFunc(l, func(c runstore.Claimed) bool { return c.PlanID == "wide" })

	var ops []runstore.RunOp
	var children []record.Change
	for n := range 10 {
		child := newRun("wide")
		child.PlanID, child.Owner = fmt.Sprint("wide-", n), "somebody"
		ops = append(ops, runstore.Begin(child))
		children = append(children, &record.Plan{
			RootPlanID: "wide", CurrentPlanID: child.PlanID, ParentPlanID: new("wide"), ToolCallID: new("c"),
		})
	}
	if err := s.WriteRun(t.Context(), l[i].Lease, children, ops...); err != nil {
		t.Fatal(err)
	}

	for _, c := range l {
		if c.PlanID != "wide" {
			if err := s.WriteRun(t.Context(), c.Lease, nil, runstore.Park(time.Now().Add(-time.Hour))); err != nil {
				t.Fatal(err)
			}
		}
	}

	late := newRun("late")
	startRun(t, s, late)
	var turns []string
	for _, c := range claim(t, s, "w", 3) {
		turns = append(turns, c.Owner)
	}
	slices.Sort(turns)
	if want := []string{"greedy", "late", "somebody"}; !slices.Equal(turns, want) {
		t.Errorf("the first turns go to %v, want %v", turns, want)
	}
}

// TestStartIsIdempotent checks that a key starts one run, whoever comes first, and that the plan of a
// second one is not on record.
func TestStartIsIdempotent(t *testing.T) {
	t.Parallel()
	s := open(t)
	var all sync.WaitGroup
	results := make([]error, 40)
	for i := range results {
		all.Go(func() {
			r := newRun(fmt.Sprint("p", i))
			r.IdempotencyKey, r.RequestSHA256 = "key", "hash"
			r.AgainOf = "other" // who asked is on record, too
			results[i] = s.StartRun(t.Context(), r, []record.Change{
				&record.Plan{RootPlanID: r.PlanID, CurrentPlanID: r.PlanID, Title: new("t")},
			})
		})
	}
	all.Wait()

	first := slices.Index(results, nil)
	if first < 0 {
		t.Fatal("none was started:", results)
	}

	for i, err := range results {
		before := new(runstore.StartedBeforeError)
		if i != first && (!errors.As(err, &before) || before.PlanID != fmt.Sprint("p", first) ||
			before.RequestSHA256 != "hash") {
			t.Errorf("start %d: %v", i, err)
		}
		if _, _, err := s.PlanTree(t.Context(), "", fmt.Sprint("p", i)); (err == nil) != (i == first) {
			t.Errorf("the plan of start %d: %v", i, err)
		}
	}
}

// TestLeaseOfAWorker checks heartbeats, what they bring, and the end of a worker.
func TestLeaseOfAWorker(t *testing.T) {
	t.Parallel()
	s := open(t)
	startRun(t, s, newRun("p"))
	worker := runstore.Worker{ID: "a", Host: "h", Release: "r", Provides: []string{}, Slots: 1}
	if _, err := s.AddWorker(t.Context(), worker, time.Hour); err != nil {
		t.Fatal(err)
	}

	lease := claimOne(t, s, "a").Lease
	if err := s.Control(t.Context(), "p", runstore.Stop, "ann"); err != nil {
		t.Fatal(err)
	}
	_, wanted, err := s.Beat(t.Context(), worker, nil, 0)
	if want := []runstore.Wanted{
		{RootPlanID: "p", PlanID: "p", Epoch: lease.Epoch, Desired: runstore.DesiredCancel},
	}; err != nil || !reflect.DeepEqual(wanted, want) {
		t.Errorf("the heartbeat brought %+v, %v", wanted, err)
	}

	holders, err := s.Holders(t.Context())
	if err != nil || len(holders) != 1 || holders[0].WorkerID != "a" || holders[0].Stopped {
		t.Fatalf("holders: %+v, %v", holders, err)
	}
	now, _, err := s.Beat(t.Context(), worker, nil, time.Hour)
	if err != nil || now.IsZero() {
		t.Errorf("a heartbeat that is late: %v, %v", now, err)
	}
	if n, err := s.Bury(t.Context(), holders[0]); err != nil || n != 0 {
		t.Errorf("a worker that sent a heartbeat since was declared dead: %d runs, %v", n, err)
	}

	// A run that is to stop cannot be asked for anything else.
	if err := s.Control(t.Context(), "p", runstore.Resume, ""); err != nil {
		t.Fatal(err)
	}
	addWorker(t, s, "b", time.Hour)
	if err := s.StopWorker(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}

	back := claimOne(t, s, "b")
	if back.Desired != runstore.DesiredCancel || back.Takeovers != 0 {
		t.Errorf("handed back: %+v", back)
	}
	if _, _, err := s.Beat(t.Context(), worker, nil, time.Hour); !errors.Is(err, runstore.ErrLeaseLost) {
		t.Errorf("a heartbeat after the end: %v", err)
	}

	var asked runstore.Desired
	if err := s.WriteRun(t.Context(), back.Lease, nil, runstore.Applied(), runstore.Finish(nil),
		runstore.Asked(&asked)); err != nil || asked != runstore.DesiredCancel {
		t.Fatalf("asked = %v, %v", asked, err)
	}
	if err := s.Control(t.Context(), "p", runstore.Pause, ""); !errors.Is(err, runstore.ErrEnded) {
		t.Errorf("pause after the end: %v", err)
	}
	if err := s.Control(t.Context(), "q", runstore.Pause, ""); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("pause what is not there: %v", err)
	}
}

// TestControlGoesDown checks that what is asked of a run is asked of those below it, and of no other.
func TestControlGoesDown(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := runstore.New(storetest.OpenURL(t, db.URL))
	startRun(t, s, newRun("p"))
	addWorker(t, s, "w", time.Hour)
	lease := claimOne(t, s, "w").Lease

	for _, pair := range [][2]string{{"p", "a"}, {"a", "b"}, {"p", "c"}} {
		child := newRun("p")
		child.PlanID, child.Parent = pair[1], &runstore.ParentCall{PlanID: pair[0], StepID: "s", ToolCallID: "t"}
		change := &record.Plan{RootPlanID: "p", CurrentPlanID: pair[1], ParentPlanID: &pair[0], ToolCallID: new("t")}
		if err := s.WriteRun(t.Context(), lease, []record.Change{change}, runstore.Begin(child)); err != nil {
			t.Fatal(err)
		}
	}

	if err := s.Control(t.Context(), "a", runstore.Pause, ""); err != nil {
		t.Fatal(err)
	}
	var paused []string
	if err := db.Pool.QueryRow(t.Context(),
		"SELECT array_agg(plan_id ORDER BY plan_id) FROM actlog.run WHERE desired = 'PAUSE'").Scan(&paused); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(paused, []string{"a", "b"}) {
		t.Errorf("paused are %v", paused)
	}
}

// TestFirstDecisionCounts checks that a wait is decided once, and that the run that waits is due then.
func TestFirstDecisionCounts(t *testing.T) {
	t.Parallel()
	s := open(t)
	startRun(t, s, newRun("p"))
	addWorker(t, s, "w", time.Hour)
	lease := claimOne(t, s, "w").Lease
	past := time.Now().Add(-time.Minute)

	err := s.WriteRun(t.Context(), lease, []record.Change{
		&record.Wait{
			RootPlanID: "p", PlanID: "p", WaitID: "w", Type: new(record.WaitUserInput),
			FormInputs: json.RawMessage(`[{"label":"City"}]`),
		},
		&record.Wait{RootPlanID: "p", PlanID: "p", WaitID: "late", ExpiresAt: &past},
	}, runstore.Park(time.Time{}))
	if err != nil {
		t.Fatal(err)
	}
	decide := func(wait string, f func(*record.Wait) (*record.Wait, error)) error {
		return s.Decide(t.Context(), "p", "p", wait, f)
	}

	var all sync.WaitGroup
	results := make([]error, 6)
	for i := range results {
		all.Go(func() {
			results[i] = decide("w", func(w *record.Wait) (*record.Wait, error) {
				if *w.Type != record.WaitUserInput || string(w.FormInputs) != `[{"label":"City"}]` {
					t.Errorf("the wait is %+v", w)
				}
				return &record.Wait{
					RootPlanID: "p", PlanID: "p", WaitID: "w", State: new(record.Submitted), DecidedBy: new(fmt.Sprint(i)),
				}, nil
			})
		})
	}
	all.Wait()

	if first := slices.Index(results, nil); first < 0 || slices.Contains(results[first+1:], nil) {
		t.Errorf("decided: %v", results)
	}
	for _, err := range results {
		if err != nil && !errors.Is(err, runstore.ErrDecided) {
			t.Error(err)
		}
	}

	claimOne(t, s, "w")
	never := func(*record.Wait) (*record.Wait, error) { return nil, errors.New("never asked") }
	if err := decide("late", never); !errors.Is(err, runstore.ErrDecided) {
		t.Errorf("an expired wait: %v", err)
	}
	if err := decide("other", never); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("a wait that is not there: %v", err)
	}
}

// TestDefinitionsHaveVersions checks that a body is pinned once, however many pin it at once.
func TestDefinitionsHaveVersions(t *testing.T) {
	t.Parallel()
	s := open(t)
	var all sync.WaitGroup
	versions := make([]int, 12)
	for i := range versions {
		all.Go(func() {
			p, err := s.Pin(t.Context(), "agent.reader", "agent", fmt.Appendf(nil, `{"n":%d}`, i%3))
			if err != nil {
				t.Error(err)
			}
			versions[i] = p.Version
		})
	}
	all.Wait()

	for i, v := range versions {
		if v < 1 || v > 3 || v != versions[i%3] {
			t.Fatalf("versions %v", versions)
		}
	}

	body, err := s.Definition(t.Context(), runstore.Pinned{ID: "agent.reader", Version: versions[1]})
	if err != nil || string(body) != `{"n":1}` {
		t.Errorf("the body is %s, %v", body, err)
	}
}

// TestClockSetBack checks that runs that were due stay due when the clock of the database is set back, and that
// those that wait for a later time still do.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, id := range []string{"due", "later"} {
		startRun(t, s, newRun(id))
	}
	addWorker(t, s, "w", time.Hour)

	// As if the clock had been an hour ahead until now.
	storetest.Exec(t, s.Store, "UPDATE actlog.run SET due_at = now() + INTERVAL '59 minutes' WHERE plan_id = 'due'")
	storetest.Exec(t, s.Store, "UPDATE actlog.run SET due_at = now() + INTERVAL '61 minutes' WHERE plan_id = 'later'")
	if got := claim(t, s, "w", 10); len(got) != 0 {
		t.Fatalf("claimed %+v", got)
	}

	if err := s.ClockSetBack(t.Context(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if c := claimOne(t, s, "w"); c.PlanID != "due" {
		t.Errorf("claimed %s", c.PlanID)
	}
}

// TestFinishClosesWhatIsLive: the end of a run closes what is live in it and ends the runs below it, in one
// transaction, and nobody writes to them any more.
func TestFinishClosesWhatIsLive(t *testing.T) {
	t.Parallel()
	s := open(t)
	startRun(t, s, newRun("p"))
	addWorker(t, s, "w", time.Hour)
	lease := claimOne(t, s, "w").Lease

	child := newRun("p")
	child.PlanID, child.Parent = "c", &runstore.ParentCall{PlanID: "p", StepID: "s", ToolCallID: "t"}
	rows := []record.Change{
		&record.AgentExecution{RootPlanID: "p", PlanID: "p", StepID: "s", State: new(record.Running)},
		&record.ThinkAct{RootPlanID: "p", StepID: "s", Seq: 0, State: new(record.Running), ThinkStartTime: new(time.Now())},
		&record.ActTool{
			RootPlanID: "p", StepID: "s", Seq: 0, ToolCallID: "t", State: new(record.Running), Attempt: new(int64(2)),
		},
		&record.Plan{
			RootPlanID: "p", CurrentPlanID: "c", ParentPlanID: new("p"), ToolCallID: new("t"), State: new(record.Running),
		},
		&record.AgentExecution{RootPlanID: "p", PlanID: "c", StepID: "cs"},
		&record.AgentExecution{RootPlanID: "p", PlanID: "p", StepID: "done", State: new(record.Completed)},
		&record.Wait{RootPlanID: "p", PlanID: "c", WaitID: "w", State: new(record.Waiting)},
	}
	write(t, s, lease, rows, runstore.Begin(child))
	below := claimOne(t, s, "w")

	var found []string
	closes := func(live []runstore.Live) (changes []record.Change) {
		found = nil
		for _, row := range live {
			found = append(
				found, strings.TrimSpace(fmt.Sprintf("%s %s %s%s %s %t %t", row.Kind, row.PlanID, row.StepID, row.ID, row.State,
					row.Thinks, row.Starts)),
			)
		}
		return []record.Change{&record.Plan{RootPlanID: "p", CurrentPlanID: "c", State: new(record.Cancelled)}}
	}

	write(t, s, lease, []record.Change{&record.Plan{RootPlanID: "p", CurrentPlanID: "p", State: new(record.Failed)}},
		runstore.Finish(closes))
	slices.Sort(found)
	want := []string{
		"actTool p st RUNNING false true", "agentExecution c cs IDLE false false", "agentExecution p s RUNNING false false",
		"plan c  RUNNING false false", "thinkAct p s RUNNING true false", "wait c w WAITING false false",
	}
	if !slices.Equal(found, want) {
		t.Errorf("live are\n%s, not\n%s", strings.Join(found, "\n"), strings.Join(want, "\n"))
	}

	if err := retitle(t, s, below.Lease, "late"); !errors.Is(err, runstore.ErrLeaseLost) {
		t.Errorf("a run below wrote: %v", err)
	}
	if state := storetest.Query[string](t, s.Store,
		"SELECT state FROM actlog.plan_execution_record WHERE current_plan_id = 'c'"); state != "CANCELLED" {
		t.Errorf("the plan below is %s", state)
	}

	wanted, err := s.Wanted(t.Context(), "w", []string{"c"})
	if stop := []runstore.Wanted{
		{RootPlanID: "p", PlanID: "c", Epoch: below.Lease.Epoch, Desired: runstore.DesiredCancel},
	}; err != nil || !reflect.DeepEqual(wanted, stop) {
		t.Errorf("the worker is told %+v, %v", wanted, err)
	}
	if err := s.WriteRun(t.Context(), lease, nil, runstore.Finish(closes)); !errors.Is(err, runstore.ErrLeaseLost) {
		t.Errorf("it ended twice: %v", err)
	}
}

// TestRunsBeginInNewTrees (S1) checks that a run does not begin in a tree of which something was recorded before,
// whatever that is.
func TestRunsBeginInNewTrees(t *testing.T) {
	t.Parallel()
	s := open(t)
	for i := range storetest.EveryKind("", "") {
		root := fmt.Sprint("before-", i)
		c := storetest.EveryKind(root, root)[i]
		storetest.Write(t, s.Store, c)

		err := s.StartRun(t.Context(), newRun(root), []record.Change{
			&record.Plan{RootPlanID: root, CurrentPlanID: root, Title: new("Read.")},
		})
		if err == nil {
			t.Errorf("a run begins in a tree that has a %s", c.Kind())
		}
		if n := storetest.Query[int](t, s.Store, "SELECT count(*) FROM actlog.run WHERE root_plan_id = $1", root); n != 0 {
			t.Errorf("a tree that has a %s has %d runs", c.Kind(), n)
		}
	}
}

// TestOnlyArtifactsOfRuns (S1) checks that what a run goes on from was produced by a run.
func TestOnlyArtifactsOfRuns(t *testing.T) {
	t.Parallel()
	s := open(t)
	graph := &record.Artifact{
		RootPlanID: "recorded", PlanID: "recorded", Name: "graph", Value: json.RawMessage(`{"nodes":[]}`),
	}
	storetest.Write(t, s.Store, graph)
	if _, err := s.RunArtifact(t.Context(), "recorded", "graph"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("an artifact that was recorded: %v, want not found", err)
	}

	run := newRun("run")
	err := s.StartRun(t.Context(), run, []record.Change{
		&record.Plan{RootPlanID: "run", CurrentPlanID: "run"},
		&record.Artifact{RootPlanID: "run", PlanID: "run", Name: "graph", Value: json.RawMessage(`{"nodes":[1]}`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if value, err := s.RunArtifact(t.Context(), "run", "graph"); err != nil || string(value) != `{"nodes":[1]}` {
		t.Errorf("an artifact of a run: %s, %v", value, err)
	}
}
