//go:build attack

package attack_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/actlog/actlog/record"
)

// S1: whoever may write records decides nothing of what agents do.

// Every kind of record and every field, of a run at every moment, by every door, with a key for writing and with one
// that may do everything: each is refused, what is shown stays as it was, and the run goes as an undisturbed one.
func TestS1RecordsOfARun(t *testing.T) {
	t.Parallel()
	h := open(t, setting{})
	for _, m := range moments {
		for i, d := range doors {
			what := m.name + ", " + d.name
			r := h.start(m.kind)
			r.reach()
			before := r.reads()
			h.refusesAll(what, d, []string{"write", "root"}[i%2], r.hostile())
			r.showsWhatItShowed(what, before)
			r.goesAsUndisturbed(what)
		}
	}
}

// The workers may be other processes than the server that takes the records.
func TestS1RecordsOfARunOfAnotherProcess(t *testing.T) {
	t.Parallel()
	h := open(t, setting{workers: true})
	for _, m := range moments {
		r := h.start(m.kind)
		r.reach()
		before := r.reads()
		h.refusesAll(m.name, doors[0], "write", r.hostile())
		r.showsWhatItShowed(m.name, before)
		r.goesAsUndisturbed(m.name)
	}
}

// Records under another root with the ids of the run's steps, calls and waits take nobody's place.
func TestS1Namesakes(t *testing.T) {
	t.Parallel()
	h := open(t, setting{})
	for _, m := range moments {
		r := h.start(m.kind)
		r.reach()
		before := r.reads()
		doors[0].send(h, "write", r.namesakes())
		r.showsWhatItShowed(m.name, before)
		r.goesAsUndisturbed(m.name)
	}
}

// The ids of what is below a run follow from its own. Whoever knows it may write before the run does: under its root
// that is refused, and under another root it changes neither what the run does nor what is shown of it.
func TestS1RecordsBeforeTheRun(t *testing.T) {
	t.Parallel()
	h := open(t, setting{})
	for _, where := range []string{"under its root", "under another root", "below a sub-plan of another root"} {
		for _, d := range doors {
			what := where + ", " + d.name
			r := h.start("late")
			r.reach()
			calls := derive("toolcall-", derive("step-", r.id, 0), 1, 0)
			child := derive("subplan-", calls)
			switch where {
			case "under its root":
				h.refusesAll(what, d, "write", append(predicted(r.id, r.id), predicted(r.id, child)...))
			case "under another root":
				root := record.NewPlanID()
				d.send(h, "write", append([]object{
					{
						"kind": "plan", "rootPlanId": root, "currentPlanId": child, "parentPlanId": root, "toolCallId": "x",
						"title": "forged",
					},
				}, predicted(root, child)...))
			default: // the id of the child is a root
				d.send(h, "write", append([]object{
					{
						"kind": "plan", "rootPlanId": child, "currentPlanId": child, "title": "forged", "state": "COMPLETED",
						"summary": "forged",
					},
				}, predicted(child, child)...))
			}

			h.tools.release(r.mark)
			r.waits()
			if got := r.planIDs(); !slices.Contains(got, child) {
				t.Errorf("%s: the child is not %s, as was predicted: %v", what, child, got)
			}
			r.shownByIDs(what)
			r.goesAsUndisturbed(what)
			r.shownByIDs(what + ", at the end")
		}
	}
}

// shownByIDs checks that reads by the ids of the run show the run itself: the same as if the root is named.
func (r *run) shownByIDs(what string) {
	r.h.t.Helper()
	var wrong []string
	same := func(path string) {
		by := r.h.call("owner", http.MethodGet, path, nil)
		named := r.h.call("owner", http.MethodGet, path+"?root="+r.id, nil)
		if by.status != http.StatusOK ||
			alsoUnder.ReplaceAllString(by.body, "") != alsoUnder.ReplaceAllString(named.body, "") {
			wrong = append(wrong, fmt.Sprintf("GET %s is %d %s", path, by.status, clipDiff(by.body)))
		}
	}

	for _, id := range r.planIDs() {
		same("/api/v1/plans/" + id)
		same("/api/executor/details/" + id)
		if a := r.h.call("owner", http.MethodGet, "/api/v1/runs/"+id, nil); a.object()["rootPlanId"] != r.id {
			wrong = append(wrong, fmt.Sprintf("the run %s is %d %s", id, a.status, clipDiff(a.body)))
		}
	}
	for _, id := range r.stepIDs() {
		same("/api/v1/steps/" + id)
		same("/api/executor/agent-execution/" + id)
	}
	if len(wrong) > 0 {
		r.h.t.Errorf("%s: %d reads by ids of the run show another tree; the first: %s", what, len(wrong), wrong[0])
	}
}

var (
	long = flag.Int("rounds", 40, "how many runs the random attacks take, without -short")
	seed = flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the random attacks")
)

// Records at random, in any order, by any door and any key, before, while and after a run does something: it ends as
// the undisturbed one.
func TestS1Random(t *testing.T) {
	t.Parallel()
	h := open(t, setting{workers: true})
	rounds, records := *long, 300
	if testing.Short() {
		rounds, records = 4, 100
	}

	t.Logf("-seed %d", *seed)
	random := rand.New(rand.NewPCG(*seed, 1))
	keys := []string{"write", "owner", "root"}
	for round := range rounds {
		r := h.start([]string{"parent", "approved", "asking", "late", "two", "slow", "orchestrator"}[round%7])
		attack := func() {
			pool := slices.Concat(r.hostile(), r.namesakes())
			for n := 0; n < records; {
				some := make([]object, 1+random.IntN(40))
				for i := range some {
					some[i] = pool[random.IntN(len(pool))]
				}
				doors[[]int{0, 0, 1, 3, 4}[random.IntN(5)]].send(h, keys[random.IntN(len(keys))], some)
				n += len(some)
			}
		}

		attack()
		r.reach()
		attack()
		h.tools.release(r.mark)
		if r.kind == "late" {
			r.waits()
		}

		attack()
		r.goesAsUndisturbed("random records")
		attack()
		if got, want := r.outcome(), h.undisturbed(r.kind); got.State != want.State || got.Result != want.Result {
			t.Errorf("after its end the run of %s is shown as %s %s", r.kind, got.State, got.Result)
		}
		if t.Failed() {
			return
		}
	}
}
