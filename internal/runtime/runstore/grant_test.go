package runstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

// asking is a worker that asks for parts of one limit.
type asking struct {
	t     *testing.T
	s     *runstore.Store
	id    string
	most  int64
	lasts bool
	whole bool
	round int64
}

func askers(t *testing.T, s *runstore.Store, most int64, lasts bool, ids ...string) (all []*asking) {
	t.Helper()
	for _, id := range ids {
		addWorker(t, s, id, time.Hour)
		all = append(all, &asking{t: t, s: s, id: id, most: most, lasts: lasts})
	}
	return all
}

// asks asks for units, and returns what was granted; none, if nothing was.
func (a *asking) asks(keep, wanted, liked int64) runstore.Grant {
	a.t.Helper()
	a.round++
	return a.late(a.round, keep, wanted, liked)
}

func (a *asking) late(round, keep, wanted, liked int64) runstore.Grant {
	a.t.Helper()
	granted, err := a.s.Grants(context.Background(), a.id, round, []runstore.Ask{{
		Limit: "model:m/x", Most: a.most, Keep: keep, Wanted: wanted, Liked: liked, Lasting: a.lasts, Whole: a.whole,
	}})
	if err != nil {
		a.t.Fatal(err)
	}
	if len(granted) == 0 {
		return runstore.Grant{}
	}
	return granted[0]
}

// gets checks what is granted for what.
func (a *asking) gets(keep, wanted, liked, units, aim int64) {
	a.t.Helper()
	want := runstore.Grant{Limit: "model:m/x", Units: units, Aim: aim}
	if got := a.asks(keep, wanted, liked); got != want {
		a.t.Errorf("%s keeps %d, wants %d, likes %d: %+v, want %+v", a.id, keep, wanted, liked, got, want)
	}
}

// TestGrantsAreFair checks how much each worker gets, step by step.
func TestGrantsAreFair(t *testing.T) {
	t.Parallel()
	s := open(t)
	all := askers(t, s, 10, false, "a", "b", "c")
	a, b := all[0], all[1]
	c := all[2]

	a.gets(0, 2, 2, 6, 6) // and half of what nobody wants
	b.gets(0, 2, 2, 3, 3) // half of its part of that
	a.gets(6, 2, 2, 6, 3)
	a.gets(3, 2, 2, 3, 3)

	c.gets(0, 20, 20, 4, 6)
	a.gets(3, 2, 2, 3, 2)
	a.gets(2, 2, 2, 2, 2)
	b.gets(2, 2, 2, 2, 2)
	c.gets(4, 20, 20, 6, 6)

	a.gets(2, 20, 20, 2, 4) // as many as the others, but b
	c.gets(6, 20, 20, 6, 4)
	c.gets(5, 20, 20, 5, 4) // one has ended
	a.gets(2, 20, 20, 3, 4)
	c.gets(4, 20, 20, 4, 4)
	a.gets(3, 20, 20, 4, 4)

	b.gets(0, 0, 2, 0, 0) // what it likes others want
	c.gets(0, 0, 0, 0, 0)
	a.gets(4, 4, 4, 7, 7)
	b.gets(0, 0, 2, 2, 2)
	a.gets(0, 0, 0, 0, 0)
	b.gets(2, 0, 0, 2, 0)
	b.gets(0, 0, 0, 0, 0)
}

// TestOnePlace checks that the only place goes from one worker that waits to the next, after each has had it for some
// time, and that nobody gets it twice while another one waits.
func TestOnePlace(t *testing.T) {
	t.Parallel()
	s := open(t)
	all := askers(t, s, 1, false, "a", "b", "c")
	all[0].gets(0, 1, 1, 1, 1)
	all[1].gets(0, 1, 1, 0, 0)
	all[2].gets(0, 1, 1, 0, 0)

	for _, turn := range []int{1, 2, 0, 1, 2, 0} {
		had := (turn + 2) % 3
		all[had].gets(1, 1, 1, 1, 1) // it has not had it for long
		storetest.Exec(t, s.Store, "UPDATE actlog.worker_grant SET grown_at = grown_at - INTERVAL '1 hour'")
		all[had].gets(1, 1, 1, 1, 0)
		all[turn].gets(0, 1, 1, 0, 1)
		all[had].gets(0, 1, 1, 0, 0)
		all[(turn+1)%3].gets(0, 1, 1, 0, 0)
		all[turn].gets(0, 1, 1, 1, 1)
	}

	// Clocks that are set change who comes first at most once.
	storetest.Exec(t, s.Store, "UPDATE actlog.worker_grant SET grown_at = grown_at + INTERVAL '1 day'")
	all[0].gets(1, 1, 1, 1, 0)
}

// TestWholeGrants checks that of what is of use as a whole only, each worker gets all that it wants when it is its
// turn.
func TestWholeGrants(t *testing.T) {
	t.Parallel()
	s := open(t)
	all := askers(t, s, 100, true, "a", "b", "c")
	a, b := all[0], all[1]
	c := all[2]
	for _, each := range all {
		each.whole = true
	}

	a.gets(0, 40, 40, 70, 70)
	b.gets(0, 40, 40, 30, 45)
	c.gets(0, 40, 40, 0, 40) // it got something longest ago
	a.gets(70, 40, 40, 70, 40)

	a.gets(40, 40, 40, 40, 40)
	b.gets(30, 40, 40, 30, 20)
	b.gets(20, 40, 40, 20, 20)
	c.gets(0, 40, 40, 40, 40)
	b.gets(20, 40, 40, 20, 40)

	a.gets(40, 80, 80, 40, 80) // it got something before the others
	c.gets(0, 0, 0, 0, 0)
	a.gets(40, 80, 80, 80, 80)
	b.gets(20, 40, 40, 20, 40)
	a.gets(40, 80, 80, 60, 60)
	a.gets(60, 60, 60, 60, 60)
	b.gets(20, 40, 40, 40, 40)
}

// TestGrantsOfGone checks that nobody gets what a worker had before it was declared dead, that what lasts counts beyond
// that, and that the worker gets nothing any more.
func TestGrantsOfGone(t *testing.T) {
	t.Parallel()
	for _, lasts := range []bool{false, true} {
		t.Run(fmt.Sprint(lasts), func(t *testing.T) {
			t.Parallel()
			s := open(t)
			all := askers(t, s, 4, lasts, "lost", "b")
			lost, b := all[0], all[1]
			lost.gets(0, 3, 3, 3, 3)
			// A clock that is set ends no lease.
			storetest.Exec(t, s.Store,
				"UPDATE actlog.worker SET lease_until = lease_until - INTERVAL '1 day' WHERE worker_id = 'lost'")
			b.gets(0, 4, 4, 1, 2)

			bury(t, s, "lost", 0)
			if got := lost.asks(3, 3, 3); got != (runstore.Grant{}) {
				t.Errorf("a dead worker was granted %+v", got)
			}
			if lasts {
				b.gets(1, 4, 4, 1, 1)
			} else {
				b.gets(1, 4, 4, 4, 4)
			}

			gone, err := s.GrantsOfGone(t.Context())
			if want := map[bool][]string{true: {"lost"}}[lasts]; err != nil || !slices.Equal(gone, want) {
				t.Errorf("%v are gone, want %v, %v", gone, want, err)
			}
			addWorker(t, s, "c", time.Hour) // forgets what is older than a minute
			if err := s.ForgetGrants(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			if lasts {
				b.gets(1, 4, 4, 1, 1)
			}

			if err := s.ForgetGrants(t.Context(), []string{"lost"}); err != nil {
				t.Fatal(err)
			}
			b.gets(1, 4, 4, 4, 4)
			if n := storetest.Query[int](t, s.Store, "SELECT count(*) FROM actlog.worker_grant"); n != 1 {
				t.Errorf("%d grants are left", n)
			}
		})
	}
}

// TestOldGrantsAreForgotten checks that a worker that begins long after others have stopped does not wait for what they
// used.
func TestOldGrantsAreForgotten(t *testing.T) {
	t.Parallel()
	s := open(t)
	a := askers(t, s, 4, true, "a")[0]
	a.gets(0, 4, 4, 4, 4)
	if err := s.StopWorker(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	storetest.Exec(t, s.Store, "UPDATE actlog.worker SET stopped_at = stopped_at - INTERVAL '2 minutes'")
	askers(t, s, 4, true, "b")[0].gets(0, 4, 4, 4, 4)
}

// TestLateRound checks that what a worker asked and gave up waiting for changes nothing when it arrives later.
func TestLateRound(t *testing.T) {
	t.Parallel()
	s := open(t)
	a := askers(t, s, 4, false, "a")[0]
	a.asks(0, 1, 1)
	a.round++ // of which nobody has heard
	a.gets(2, 4, 4, 4, 4)

	if got := a.late(2, 0, 0, 0); got != (runstore.Grant{}) {
		t.Errorf("it was granted %+v", got)
	}
	if n := storetest.Query[int](t, s.Store, "SELECT units FROM actlog.worker_grant"); n != 4 {
		t.Errorf("it has %d units", n)
	}
}

// TestGrantsAreNeverTooMany checks that the parts of all workers together are never more than there is, whatever they
// ask for at the same time, also if they do not learn what they were granted.
func TestGrantsAreNeverTooMany(t *testing.T) {
	t.Parallel()
	const most, workers = 7, 5
	s := open(t)
	var ids []string
	for i := range workers {
		ids = append(ids, fmt.Sprintf("w%d", i))
	}

	done := make(chan map[string]int64)
	for i, a := range askers(t, s, most, false, ids...) {
		go func() {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			var units, aim int64
			for range 150 {
				used := r.Int64N(max(min(units, aim), 0) + 1)
				keep := max(used, min(units, aim))
				units = keep

				g := a.asks(keep, used+r.Int64N(4), used)
				if g.Units < keep {
					t.Errorf("it keeps %d and has %d", keep, g.Units)
				}
				if r.IntN(4) > 0 { // else the answer is lost
					units, aim = g.Units, g.Aim
				}
			}
			done <- map[string]int64{a.id: units}
		}()
	}

	for left := workers; left > 0; {
		select {
		case <-done:
			left--
		default:
			if n := storetest.Query[int](t, s.Store, "SELECT COALESCE(sum(units), 0) FROM actlog.worker_grant"); n > most {
				t.Fatalf("the workers have %d units together", n)
			}
		}
	}
	if n := storetest.Query[int](t, s.Store, "SELECT count(*) FROM actlog.worker_grant"); n != workers {
		t.Errorf("%d workers have grants", n)
	}
}
