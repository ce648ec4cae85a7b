package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// own puts a plan on record that the runtime owns, and its run. A sub-plan was started by call t of its root.
func own(t *testing.T, s *store.Store, rootPlanID, planID, title string) {
	t.Helper()
	plan := &record.Plan{RootPlanID: rootPlanID, CurrentPlanID: planID, Title: &title}
	if planID != rootPlanID {
		plan.ParentPlanID, plan.ToolCallID = &rootPlanID, new("t")
	}

	err := s.InTx(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		if err := tx.WriteOwned(ctx, []record.Change{plan}); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO actlog.run (root_plan_id, plan_id, executor, needs, input, owner) VALUES "+
			"($1, $2, 'agent', '{}', '{}', $1)",
			rootPlanID, planID)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestOwnedTreesAreRefused (S1) checks that no record from outside reaches the tree of a run, nor claims a place in it,
// and that each is refused by itself: good records beside it are written.
func TestOwnedTreesAreRefused(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	own(t, s, "run", "run", "Read.")
	own(t, s, "run", "sub", "the sub-plan")
	before := storetest.Dump(t, s, "run")

	type refusal struct {
		change record.Change
		field  string
	}
	var bad []refusal
	for _, plan := range []string{"run", "sub", "another"} {
		for _, c := range storetest.EveryKind("run", plan) {
			bad = append(bad, refusal{c, "rootPlanId"})
		}
	}
	for _, plan := range []string{"run", "sub"} {
		for _, c := range storetest.EveryKind("outside", plan) {
			switch c.Kind() {
			case record.KindThinkAct, record.KindActTool: // they name a step only
			case record.KindPlan:
				bad = append(bad, refusal{c, "currentPlanId"})
			default:
				bad = append(bad, refusal{c, "planId"})
			}
		}
		below := &record.Plan{RootPlanID: "outside", CurrentPlanID: "below", ParentPlanID: &plan, ToolCallID: new("t")}
		bad = append(bad, refusal{below, "parentPlanId"})
	}

	for _, good := range []int{0, 1, 200} { // alone, in a statement each, copied
		t.Run(fmt.Sprint(good, " good ones"), func(t *testing.T) {
			var changes []record.Change
			fields := map[int]string{}
			for i, b := range bad {
				fields[len(changes)] = b.field
				changes = append(changes, b.change)
				for n := range good {
					changes = append(changes, &record.ThinkAct{
						RootPlanID: fmt.Sprint("own-", good), StepID: fmt.Sprint("s", i), Seq: int64(n), ThinkInput: new("hello"),
					})
				}
			}

			result, err := s.Write(t.Context(), changes)
			if err != nil {
				t.Fatal(err)
			}
			if result.Accepted != len(bad)*good || len(result.Rejected) != len(bad) {
				t.Errorf("accepted %d and refused %d, want %d and %d", result.Accepted, len(result.Rejected), len(bad)*good,
					len(bad))
			}
			for _, r := range result.Rejected {
				if r.Err.Code != record.CodeOwnedByRuntime || r.Err.Field != fields[r.Index] {
					t.Errorf("%v is refused with %v, want %s of %s", changes[r.Index].Key(), r.Err, record.CodeOwnedByRuntime,
						fields[r.Index])
				}
			}

			if good > 0 {
				stored := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.think_act_record WHERE root_plan_id = $1",
					fmt.Sprint("own-", good))
				if stored != len(bad)*good {
					t.Errorf("%d good records are on record, want %d", stored, len(bad)*good)
				}
			}
		})
	}

	if after := storetest.Dump(t, s, "run"); after != before {
		t.Errorf("the tree of the run has changed:\n%s\nbefore:\n%s", after, before)
	}
}

// TestOwnedByChance (S1) writes random records, most of them of other trees, from several clients at a time: what is
// refused is what names a run, and no more.
func TestOwnedByChance(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	own(t, s, "run", "run", "Read.")
	before := storetest.Dump(t, s, "run")

	errs := make(chan error)
	const clients = 8
	for client := range clients {
		go func() {
			random := rand.New(rand.NewPCG(1, uint64(client)))
			errs <- func() error {
				for range 40 {
					var changes []record.Change
					for range 1 + random.IntN(30) {
						names := []string{"run", fmt.Sprint("a", random.IntN(20)), fmt.Sprint("b", random.IntN(20))}
						all := storetest.EveryKind(names[random.IntN(3)], names[random.IntN(3)])
						changes = append(changes, all[random.IntN(len(all))])
					}

					result, err := s.Write(t.Context(), changes)
					if err != nil {
						return err
					}
					for i, c := range changes {
						refused := slices.ContainsFunc(result.Rejected, func(r record.Rejection) bool { return r.Index == i })
						if refused != namesRun(c) {
							return fmt.Errorf("%+v was refused: %v", c, refused)
						}
					}
				}
				return nil
			}()
		}()
	}

	for range clients {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if after := storetest.Dump(t, s, "run"); after != before {
		t.Errorf("the tree of the run has changed:\n%s\nbefore:\n%s", after, before)
	}
}

// namesRun reports whether a change of [storetest.EveryKind] names the plan run.
func namesRun(c record.Change) bool {
	switch c := c.(type) {
	case *record.Plan:
		return c.RootPlanID == "run" || c.CurrentPlanID == "run"
	case *record.AgentExecution:
		return c.RootPlanID == "run" || c.PlanID == "run"
	}
	return c.Key().Root == "run" || c.Key().Parent == "run"
}

// TestRunsAreReadFirst (S1) checks that records under other roots, from before a run, do not stand in its place: ids of
// sub-plans and steps follow from that of the root plan.
func TestRunsAreReadFirst(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	own(t, s, "run", "run", "Read.")
	storetest.Write(t, s, storetest.EveryKind("sub", "sub")...)
	storetest.Write(t, s, storetest.EveryKind("outside", "sub")...)
	own(t, s, "run", "sub", "the sub-plan")

	if title := *storetest.PlanTree(t, s, "sub").Record.Title; title != "the sub-plan" {
		t.Errorf("plan sub is read as %q", title)
	}
	if err := s.DeletePlan(t.Context(), "sub"); !errors.As(err, new(*record.InvalidError)) {
		t.Errorf("DELETE of the sub-plan: %v, want that it is a sub-plan", err)
	}
}

// TestTracesStayOutOfRuns (S1) checks that the spans of a trace come into no tree of the runtime, also if a program of
// the release before let a record name the trace in it.
func TestTracesStayOutOfRuns(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, takeTraces)
	own(t, s, "run", "run", "Read.")
	trace := traceID(7)
	storetest.Exec(t, s, "UPDATE actlog.plan_execution_record SET trace_id = $1 WHERE root_plan_id = 'run'", trace)
	before := storetest.Dump(t, s, "run")

	writeSpans(t, s, agentTrace(t, trace)...)
	if after := storetest.Dump(t, s, "run"); after != before {
		t.Errorf("the tree of the run has changed:\n%s\nbefore:\n%s", after, before)
	}
	if tree := storetest.PlanTree(t, s, trace); len(tree.Steps) == 0 {
		t.Error("the trace has no tree of its own")
	}

	// The id of a trace that is the id of a run.
	own(t, s, traceID(8), traceID(8), "Read.")
	before = storetest.Dump(t, s, traceID(8))
	err := s.ReplaceTraces(t.Context(), tracesOf(t, withTraceID(agentTrace(t, trace), traceID(8))))
	if err == nil || !strings.Contains(err.Error(), string(record.CodeOwnedByRuntime)) {
		t.Errorf("spans of a run: %v, want %s", err, record.CodeOwnedByRuntime)
	}
	if after := storetest.Dump(t, s, traceID(8)); after != before {
		t.Errorf("the tree of the run has changed:\n%s\nbefore:\n%s", after, before)
	}
}
