package runstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// runOf returns a root run of an agent, a project, an owner and a concurrency key, each of which may be empty.
func runOf(id, agent, project, owner, key string) runstore.NewRun {
	r := newRun(id)
	r.Agent, r.Project = agent, project
	r.ConcurrencyKey, r.Priority = key, runstore.DefaultPriority
	if owner != "" {
		r.Owner = owner
	}
	return r
}

// within claims runs of which only some go on at once.
func within(t testing.TB, s *runstore.Store, worker string, n int, most runstore.Most) (claimed []runstore.Claimed) {
	t.Helper()
	for more := true; more && n > len(claimed); {
		var some []runstore.Claimed
		var err error
		some, more, err = s.Claim(context.Background(), runstore.Claim{
			WorkerID: worker, Provides: []string{}, Runs: n - len(claimed), LoneAt: -1, Most: most,
		})
		if err != nil {
			t.Fatal(err)
		}
		claimed = append(claimed, some...)
	}
	return claimed
}

func planIDs(claimed []runstore.Claimed) (ids []string) {
	for _, c := range claimed {
		ids = append(ids, c.PlanID)
	}
	return ids
}

// claims checks which runs a worker claims, in their order.
func claims(t *testing.T, s *runstore.Store, most runstore.Most, want ...string) []runstore.Claimed {
	t.Helper()
	claimed := within(t, s, "w", 10, most)
	got := planIDs(claimed)
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Fatalf("claimed %v, want %v", got, want)
	}
	return claimed
}

func finish(t testing.TB, s *runstore.Store, l runstore.Lease) {
	t.Helper()
	leaveIn(t, s, l, record.Completed, runstore.Finish(nil))
}

// leaveIn puts the state of a run on record, and does the rest of what ops say.
func leaveIn(t testing.TB, s *runstore.Store, l runstore.Lease, state record.State, ops ...runstore.RunOp) {
	t.Helper()
	plan := &record.Plan{RootPlanID: l.RootPlanID, CurrentPlanID: l.PlanID, State: &state}
	if err := s.WriteRun(context.Background(), l, []record.Change{plan}, ops...); err != nil {
		t.Fatal(err)
	}
}

// waitsFor checks the state of a run, and what it waits for.
func waitsFor(t *testing.T, s *runstore.Store, planID string, state record.State, want ...string) {
	t.Helper()
	d, err := s.Reader.RunDetail(t.Context(), planID)
	if err != nil {
		t.Fatal(err)
	}
	if d.State != state || !slices.Equal(d.WaitingFor, want) {
		t.Errorf("run %s is %s and waits for %q, want %s, %q", planID, d.State, d.WaitingFor, state, want)
	}
}

// TestPlaces checks that no more runs go on at once than there are places, that the others say what they wait for, and
// that a place is taken again as soon as it is free, however that came.
func TestPlaces(t *testing.T) {
	t.Parallel()
	for place, start := range map[string]func(id string) runstore.NewRun{
		"agent:a":   func(id string) runstore.NewRun { return runOf(id, "a", "", "", "") },
		"project:p": func(id string) runstore.NewRun { return runOf(id, "", "p", "", "") },
		"owner:o":   func(id string) runstore.NewRun { return runOf(id, "", "", "o", "") },
		"key:k":     func(id string) runstore.NewRun { return runOf(id, "", "", "", "k") },
	} {
		for end, free := range map[string]func(*testing.T, *runstore.Store, runstore.Lease){
			"ends": func(t *testing.T, s *runstore.Store, l runstore.Lease) {
				t.Helper()
				finish(t, s, l)
			},
			"waits": func(t *testing.T, s *runstore.Store, l runstore.Lease) {
				t.Helper()
				leaveIn(t, s, l, record.Waiting, runstore.Park(time.Time{}))
			},
			"pauses": func(t *testing.T, s *runstore.Store, l runstore.Lease) {
				t.Helper()
				alone := runstore.ModelWait{Away: runstore.Away{Model: "m"}, Alone: true}
				leaveIn(t, s, l, record.Paused, runstore.AwaitModels(time.Time{}, []runstore.ModelWait{alone}))
			},
			"is deleted": func(t *testing.T, s *runstore.Store, l runstore.Lease) {
				t.Helper()
				storetest.Exec(t, s.Store, "DELETE FROM actlog.run WHERE plan_id = $1", l.PlanID)
			},
		} {
			t.Run(place+" "+end, func(t *testing.T) {
				t.Parallel()
				s := open(t)
				addWorker(t, s, "w", time.Hour)
				for i := range 3 {
					startRun(t, s, start(fmt.Sprintf("r%d", i)))
				}

				most := runstore.Most{Places: map[string]int{"agent:a": 1, "project:p": 1}, PerOwner: 1, PerKey: 1}
				first := claims(t, s, most, "r0")
				waitsFor(t, s, "r1", record.Pending, place+" has 1 of 1")
				waitsFor(t, s, "r2", record.Pending, place+" has 1 of 1")
				claims(t, s, most)

				free(t, s, first[0].Lease)
				kept := place == "key:k" && (end == "waits" || end == "pauses") // until it ends
				if kept {
					claims(t, s, most)
					return
				}
				second := claims(t, s, most, "r1")
				claims(t, s, most)

				most.Places["agent:a"], most.Places["project:p"] = 2, 2
				most.PerOwner, most.PerKey = 2, 2
				if err := s.LookAtPlaces(t.Context()); err != nil {
					t.Fatal(err)
				}
				claims(t, s, most, "r2")
				finish(t, s, second[0].Lease)
				claims(t, s, most)
			})
		}
	}
}

// TestKeysOfProjects checks that runs of two projects never wait for each other's keys, whatever their names are.
func TestKeysOfProjects(t *testing.T) {
	t.Parallel()
	s := open(t)
	addWorker(t, s, "w", time.Hour)
	startRun(t, s, runOf("r0", "", "a", "", "b/c"))
	startRun(t, s, runOf("r1", "", "a/b", "", "c"))
	startRun(t, s, runOf("r2", "", "a/b", "", "c"))
	claims(t, s, runstore.Most{PerKey: 1}, "r0", "r1")
	waitsFor(t, s, "r2", record.Pending, "key:c has 1 of 1")
}

// TestPlaceIsTakenAgain checks that a run that waited needs a place to go on, that it is PENDING meanwhile, and that
// one that lost its worker has kept it.
func TestPlaceIsTakenAgain(t *testing.T) {
	t.Parallel()
	s := open(t)
	addWorker(t, s, "w", time.Hour)
	addWorker(t, s, "lost", time.Second)
	most := runstore.Most{Places: map[string]int{"agent:a": 1}, PerKey: 1}
	for _, id := range []string{"r0", "r1"} {
		startRun(t, s, runOf(id, "a", "", "", ""))
	}

	first := claims(t, s, most, "r0")
	leaveIn(t, s, first[0].Lease, record.Waiting, runstore.Park(time.Time{}))
	if got := planIDs(within(t, s, "lost", 10, most)); !slices.Equal(got, []string{"r1"}) {
		t.Fatalf("claimed %v", got)
	}

	control(t, s, "r0", runstore.Pause) // it is due to pause, for which it needs no place
	paused := claims(t, s, most, "r0")
	leaveIn(t, s, paused[0].Lease, record.Paused, runstore.Park(time.Time{}))
	control(t, s, "r0", runstore.Resume)
	claims(t, s, most)
	waitsFor(t, s, "r0", record.Pending, "agent:a has 1 of 1")

	bury(t, s, "lost", 1)
	second := claims(t, s, most, "r1")
	finish(t, s, second[0].Lease)
	finish(t, s, claims(t, s, most, "r0")[0].Lease)
}

func control(t *testing.T, s *runstore.Store, planID string, action runstore.Action) {
	t.Helper()
	if err := s.Control(t.Context(), planID, action, ""); err != nil {
		t.Fatal(err)
	}
}

// treeOfTwo starts r0, and r1, of agent a. It returns the leases of x and y, which are below r0 and have its place.
func treeOfTwo(t *testing.T, s *runstore.Store, most runstore.Most) (x, y runstore.Lease) {
	t.Helper()
	startRun(t, s, runOf("r0", "a", "", "", ""))
	startRun(t, s, runOf("r1", "a", "", "", ""))
	root := claims(t, s, most, "r0")[0].Lease
	below := func(id string) runstore.RunOp {
		r := runOf(id, "a", "", "", "")
		r.RootPlanID, r.Parent = "r0", &runstore.ParentCall{PlanID: "r0", StepID: "s", ToolCallID: id}
		return runstore.Begin(r)
	}

	plans := []record.Change{
		&record.Plan{RootPlanID: "r0", CurrentPlanID: "x", ParentPlanID: new("r0"), ToolCallID: new("x")},
		&record.Plan{RootPlanID: "r0", CurrentPlanID: "y", ParentPlanID: new("r0"), ToolCallID: new("y")},
	}
	if err := s.WriteRun(t.Context(), root, plans, below("x"), below("y")); err != nil {
		t.Fatal(err)
	}
	leaveIn(t, s, root, record.Running, runstore.Park(time.Time{}))
	both := claims(t, s, most, "x", "y")
	return both[0].Lease, both[1].Lease
}

// pauseAndResume makes runs that wait go on again, as soon as there is a place.
func pauseAndResume(t *testing.T, s *runstore.Store, most runstore.Most, planIDs ...string) {
	t.Helper()
	for _, id := range planIDs {
		control(t, s, id, runstore.Pause)
		leaveIn(t, s, claims(t, s, most, id)[0].Lease, record.Paused, runstore.Park(time.Time{}))
		control(t, s, id, runstore.Resume)
	}
	claims(t, s, most)
}

// TestPlaceOfATree checks that a tree has one place for all of its runs, which it gives back when nothing in it goes
// on.
func TestPlaceOfATree(t *testing.T) {
	t.Parallel()
	s := open(t)
	addWorker(t, s, "w", time.Hour)
	most := runstore.Most{Places: map[string]int{"agent:a": 1}, PerKey: 1}
	x, y := treeOfTwo(t, s, most)

	leaveIn(t, s, x, record.Waiting, runstore.Park(time.Time{}))
	claims(t, s, most) // the other one goes on
	leaveIn(t, s, y, record.Waiting, runstore.Park(time.Time{}))
	other := claims(t, s, most, "r1")
	pauseAndResume(t, s, most, "x", "y")
	waitsFor(t, s, "r0", record.Pending, "agent:a has 1 of 1")

	finish(t, s, other[0].Lease)
	claims(t, s, most, "x")
	claims(t, s, most, "y") // with the place that x took for the tree
	if n := storetest.Query[int](t, s.Store, "SELECT taken FROM actlog.place WHERE place = 'agent:a'"); n != 1 {
		t.Errorf("the tree has %d places", n)
	}
}

// TestClaimPassesLocks checks that no claim waits for whoever has locked a run that waits for the place of its tree,
// and that this run goes on later.
func TestClaimPassesLocks(t *testing.T) {
	t.Parallel()
	s := open(t)
	addWorker(t, s, "w", time.Hour)
	most := runstore.Most{Places: map[string]int{"agent:a": 1}, PerKey: 1}
	x, y := treeOfTwo(t, s, most)

	leaveIn(t, s, x, record.Waiting, runstore.Park(time.Time{}))
	leaveIn(t, s, y, record.Waiting, runstore.Park(time.Time{}))
	other := claims(t, s, most, "r1")
	pauseAndResume(t, s, most, "x", "y")
	finish(t, s, other[0].Lease)

	if err := s.DB().Transact(t.Context(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SELECT FROM actlog.run WHERE plan_id = 'y' FOR UPDATE"); err != nil {
			return err
		}
		x = claims(t, s, most, "x")[0].Lease
		claims(t, s, most)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	leaveIn(t, s, x, record.Waiting, runstore.Park(time.Time{}))
	claims(t, s, most, "y")
}

// TestIdlePlaces checks that the place of a tree in which nothing goes on is given back, also if the worker that let go
// of it did not do that, and that no other tree loses its own.
func TestIdlePlaces(t *testing.T) {
	t.Parallel()
	s := open(t)
	addWorker(t, s, "w", time.Hour)
	most := runstore.Most{Places: map[string]int{"agent:a": 2}, PerKey: 1}
	for _, id := range []string{"idle", "held", "r0", "r1"} {
		startRun(t, s, runOf(id, "a", "", "", ""))
	}
	claims(t, s, most, "idle", "held")
	// As a worker of an earlier release does.
	storetest.Exec(t, s.Store, "UPDATE actlog.run SET worker_id = NULL WHERE plan_id = 'idle'")

	claims(t, s, most)
	if err := s.LookAtPlaces(t.Context()); err != nil {
		t.Fatal(err)
	}
	claims(t, s, most, "r0")
	if err := s.LookAtPlaces(t.Context()); err != nil {
		t.Fatal(err)
	}
	claims(t, s, most)
}

// TestClaimOfOthers checks that a worker does not take the turn of claims for runs that it cannot carry.
func TestClaimOfOthers(t *testing.T) {
	t.Parallel()
	s := open(t)
	addWorker(t, s, "w", time.Hour)
	r := runOf("r0", "a", "", "", "")
	r.Needs = []string{"executor:other"}
	startRun(t, s, r)
	claims(t, s, runstore.Most{}) // counts what has happened to places

	if err := s.DB().Transact(t.Context(), func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock(hashtextextended('actlog.place', 0))")
		if err == nil {
			claims(t, s, runstore.Most{}) // else it waits for the lock until it fails
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// TestPriority checks that what has a higher priority is claimed first, also for a place, and that runs with the same
// key go on in the order of their start, whatever else they wait for.
func TestPriority(t *testing.T) {
	t.Parallel()
	s := open(t)
	addWorker(t, s, "w", time.Hour)
	most := runstore.Most{Places: map[string]int{"agent:a": 1}, PerKey: 1}
	for i, priority := range []int{5, 0, 9, 5, 9} {
		r := runOf(fmt.Sprintf("r%d", i), "a", "", "", "")
		r.Priority = priority
		startRun(t, s, r)
	}

	var order []string
	for range 5 {
		claimed := within(t, s, "w", 10, most)
		order = append(order, planIDs(claimed)...)
		for _, c := range claimed {
			finish(t, s, c.Lease)
		}
	}
	if got := strings.Join(order, " "); got != "r2 r4 r0 r3 r1" {
		t.Errorf("they went on as %s", got)
	}

	holder := runOf("holder", "a", "", "", "")
	startRun(t, s, holder)
	held := claims(t, s, most, "holder")
	startRun(t, s, runOf("k0", "a", "", "", "k")) // waits for the agent
	later := runOf("k1", "b", "", "", "k")
	later.Priority = 9
	startRun(t, s, later)

	claims(t, s, most)
	waitsFor(t, s, "k0", record.Pending, "agent:a has 1 of 1")
	waitsFor(t, s, "k1", record.Pending, "key:k has 0 of 1")
	finish(t, s, held[0].Lease)
	finish(t, s, claims(t, s, most, "k0")[0].Lease)
	claims(t, s, most, "k1")
}

// TestNoPlaceIsLost checks that a run that was made due for a place and does not take it leaves it to the next one.
func TestNoPlaceIsLost(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*testing.T, *runstore.Store, runstore.Most){
		"stopped": func(t *testing.T, s *runstore.Store, most runstore.Most) {
			t.Helper()
			control(t, s, "r1", runstore.Stop)
			finish(t, s, claims(t, s, most, "r1")[0].Lease)
		},
		"paused": func(t *testing.T, s *runstore.Store, most runstore.Most) {
			t.Helper()
			control(t, s, "r1", runstore.Pause)
			leaveIn(t, s, claims(t, s, most, "r1")[0].Lease, record.Paused, runstore.Park(time.Time{}))
		},
		"deleted": func(t *testing.T, s *runstore.Store, _ runstore.Most) {
			t.Helper()
			storetest.Exec(t, s.Store, "DELETE FROM actlog.run WHERE plan_id = 'r1'")
		},
		"waits for another place": func(t *testing.T, s *runstore.Store, most runstore.Most) {
			t.Helper()
			startRun(t, s, runOf("o0", "b", "", "o", ""))
			claims(t, s, most, "o0")
		},
	} {
		for _, key := range []string{"", "k"} {
			t.Run(name+" "+key, func(t *testing.T) {
				t.Parallel()
				s := open(t)
				addWorker(t, s, "w", time.Hour)
				most := runstore.Most{Places: map[string]int{"agent:a": 1}, PerOwner: 1, PerKey: 1}
				startRun(t, s, runOf("r0", "a", "", "", key))
				startRun(t, s, runOf("r1", "a", "", "o", key))
				startRun(t, s, runOf("r2", "a", "", "", key))
				first := claims(t, s, most, "r0")

				if name == "waits for another place" && key != "" {
					t.Skip("r2 comes after r1, which has not begun")
				}
				leave(t, s, most)
				finish(t, s, first[0].Lease)
				claims(t, s, most, "r2")
			})
		}
	}
}

// TestPlacesUnderRace checks that workers that claim, park and end runs at the same time never exceed a limit, and that
// all runs come to their ends.
func TestPlacesUnderRace(t *testing.T) {
	t.Parallel()
	s := open(t)
	most := runstore.Most{Places: map[string]int{"agent:a": 3, "agent:b": 2, "project:p": 4}, PerOwner: 2, PerKey: 1}
	const runs, workers = 150, 8
	placesOf := map[string][]string{}
	for i := range runs {
		id := fmt.Sprintf("r%03d", i)
		r := runOf(id, []string{"a", "b", "c"}[i%3], []string{"p", "q"}[i%2], fmt.Sprintf("o%d", i%7), "")
		places := []string{"agent:" + r.Agent, "project:" + r.Project, "owner:" + r.Owner}
		if i%5 == 0 {
			r.ConcurrencyKey = fmt.Sprintf("k%d", i%2)
			places = append(places, "key:"+r.Project+r.ConcurrencyKey)
		}
		r.Priority = i % 10
		placesOf[id] = places
		startRun(t, s, r)
	}

	limits := func(place string) int {
		switch {
		case strings.HasPrefix(place, "owner:"):
			return most.PerOwner
		case strings.HasPrefix(place, "key:"):
			return most.PerKey
		case most.Places[place] > 0:
			return most.Places[place]
		}
		return runs
	}

	var mu sync.Mutex
	taken, left := map[string]int{}, runs
	has := map[string]map[string]bool{}

	enter := func(id string) {
		mu.Lock()
		defer mu.Unlock()
		if has[id] == nil {
			has[id] = map[string]bool{}
		}
		for _, place := range placesOf[id] {
			if !has[id][place] {
				has[id][place] = true
				taken[place]++
			}
			if taken[place] > limits(place) {
				t.Errorf("%s: %d go on", place, taken[place])
			}
		}
	}
	leave := func(id string, ends bool) {
		mu.Lock()
		defer mu.Unlock()
		for _, place := range placesOf[id] {
			if ends || !strings.HasPrefix(place, "key:") {
				has[id][place] = false
				taken[place]--
			}
		}
		if ends {
			left--
		}
	}
	goesOn := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return left > 0
	}

	var all sync.WaitGroup
	deadline := time.Now().Add(time.Minute)
	for w := range workers {
		id := fmt.Sprintf("w%d", w)
		addWorker(t, s, id, time.Hour)
		all.Go(func() {
			var held []runstore.Claimed
			for goesOn() && time.Now().Before(deadline) {
				claimed := within(t, s, id, 1+rand.IntN(3), most)
				for _, c := range claimed {
					enter(c.PlanID)
				}
				held = append(held, claimed...)
				if len(held) == 0 || len(claimed) > 0 && len(held) < 3 { // so that most places are taken
					continue
				}

				c := held[0]
				held = held[1:]
				if parks := rand.IntN(3) == 0; parks {
					leave(c.PlanID, false)
					leaveIn(t, s, c.Lease, record.Waiting, runstore.Park(time.Now()))
					continue
				}
				leave(c.PlanID, true)
				finish(t, s, c.Lease)
			}
		})
	}
	all.Wait()

	if left > 0 {
		t.Errorf("%d runs have not ended", left)
	}
	within(t, s, "w0", 1, most) // counts the last ones
	if n := storetest.Query[int](t, s.Store, "SELECT COALESCE(sum(taken), 0) FROM actlog.place"); n != 0 {
		t.Errorf("%d places are taken by nobody", n)
	}
}

// TestClaimsTakeTurns checks that claims at the same moment, none of which sees what another one takes, do not take
// more places than there are.
func TestClaimsTakeTurns(t *testing.T) {
	t.Parallel()
	s := open(t)
	const workers = 6
	for round := range 15 {
		most := runstore.Most{Places: map[string]int{fmt.Sprintf("agent:a%d", round): 2}, PerKey: 1}
		for i := range workers {
			addWorker(t, s, fmt.Sprintf("w%d-%d", round, i), time.Hour)
			startRun(t, s, runOf(fmt.Sprintf("r%d-%d", round, i), fmt.Sprintf("a%d", round), "", "", ""))
		}

		begin := make(chan struct{})
		var all sync.WaitGroup
		claimed := make([]int, workers)

		for i := range workers {
			all.Go(func() {
				<-begin
				claimed[i] = len(within(t, s, fmt.Sprintf("w%d-%d", round, i), 1, most))
			})
		}
		close(begin)
		all.Wait()
		if sum := claimed[0] + claimed[1] + claimed[2] + claimed[3] + claimed[4] + claimed[5]; sum != 2 {
			t.Errorf("round %d: %v were claimed", round, claimed)
		}
	}
}

// meanwhile starts f while another session holds a lock, and commits a change of that session when f has come so far.
func meanwhile(t *testing.T, s *runstore.Store, lock string, f func(), soFar func() bool, change string) {
	t.Helper()
	var going sync.WaitGroup
	defer going.Wait()
	if err := s.DB().Transact(t.Context(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), lock); err != nil {
			return err
		}
		going.Go(f)
		storetest.Until(t, "it comes so far", soFar)

		_, err := tx.Exec(t.Context(), change)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// TestPlaceIsChecked checks that what a claim knows of a run still holds when it takes it: the run changes after the
// claim has looked at what is due.
func TestPlaceIsChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before func(*testing.T, *runstore.Store)
		change string
	}{
		"resumed": {
			func(t *testing.T, s *runstore.Store) {
				t.Helper()
				control(t, s, "r1", runstore.Pause)
			},
			"UPDATE actlog.run SET desired = 'RUN', signals = signals + 1 WHERE plan_id = 'r1'",
		},
		"idle": {
			func(t *testing.T, s *runstore.Store) {
				t.Helper()
				leaveIn(t, s, claims(t, s, runstore.Most{}, "r1")[0].Lease, record.Running, runstore.Release())
			},
			"UPDATE actlog.run SET placed = false WHERE plan_id = 'r1'",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			addWorker(t, s, "w", time.Hour)
			startRun(t, s, runOf("r1", "a", "", "", ""))
			c.before(t, s)
			first := runOf("r0", "a", "", "", "")
			first.Priority = 9
			startRun(t, s, first)

			// A claim asks which places r0 takes after it has looked at what is due.
			storetest.Exec(t, s.Store, `CREATE OR REPLACE FUNCTION actlog.places_of(agent text, project text, owner text, root_plan_id text)
				RETURNS text[] LANGUAGE plpgsql AS $$
				BEGIN PERFORM pg_advisory_xact_lock(42); RETURN ARRAY['agent:' || agent]; END $$`)
			waits := func() bool {
				return storetest.Query[int](t, s.Store, `SELECT count(*) FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database
					WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.objid = 42 AND NOT l.granted`) == 1
			}

			var claimed []runstore.Claimed
			meanwhile(t, s, "SELECT pg_advisory_xact_lock(42)", func() {
				claimed = within(t, s, "w", 2, runstore.Most{Places: map[string]int{"agent:a": 1}, PerKey: 1})
			}, waits, c.change)
			if got := planIDs(claimed); !slices.Equal(got, []string{"r0"}) {
				t.Errorf("claimed %v, for one place", got)
			}
		})
	}
}

// TestClaimedToPause checks that a run that was claimed to pause does so, also if it is resumed before its worker knows
// more of it.
func TestClaimedToPause(t *testing.T) {
	t.Parallel()
	s := open(t)
	addWorker(t, s, "w", time.Hour)
	startRun(t, s, runOf("r0", "a", "", "", ""))
	control(t, s, "r0", runstore.Pause)
	isHeld := func() bool {
		return storetest.Query[bool](t, s.Store, "SELECT worker_id IS NOT NULL FROM actlog.run WHERE plan_id = 'r0'")
	}

	// What a run is, is read after it was claimed, and with it the table that is locked.
	var claimed []runstore.Claimed
	meanwhile(t, s, "LOCK TABLE actlog.model_wait IN ACCESS EXCLUSIVE MODE", func() {
		claimed = within(t, s, "w", 1, runstore.Most{})
	}, isHeld, "UPDATE actlog.run SET desired = 'RUN', signals = signals + 1")
	if len(claimed) != 1 || claimed[0].Desired != runstore.DesiredPause {
		t.Errorf("claimed %+v", claimed)
	}
}
