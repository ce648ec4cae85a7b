package engine

import (
	"cmp"
	"slices"

	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// runTree is what is on record of the runs of a tree.
type runTree struct {
	plans  map[string]runstore.TreeRow
	steps  map[string][]runstore.TreeRow  // of a plan, in their order
	cycles map[string][]runstore.TreeRow  // of a step, in their order
	calls  map[cycleAt][]runstore.TreeRow // of a cycle, in their order
	waits  map[string][]runstore.TreeRow  // of a plan, which are open
	began  map[string][]string            // the plans that a call began, by the id of the call, in their order
}

func treeOf(rows []runstore.TreeRow) runTree {
	t := runTree{
		plans: map[string]runstore.TreeRow{}, steps: map[string][]runstore.TreeRow{},
		cycles: map[string][]runstore.TreeRow{}, calls: map[cycleAt][]runstore.TreeRow{},
		waits: map[string][]runstore.TreeRow{}, began: map[string][]string{},
	}
	slices.SortFunc(rows, func(a, b runstore.TreeRow) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Index, b.Index), cmp.Compare(a.StepID, b.StepID))
	})

	for _, r := range rows {
		switch r.Kind {
		case record.KindPlan:
			t.plans[r.PlanID] = r
			t.began[r.ID] = append(t.began[r.ID], r.PlanID)
		case record.KindAgentExecution:
			t.steps[r.PlanID] = append(t.steps[r.PlanID], r)
		case record.KindThinkAct:
			t.cycles[r.StepID] = append(t.cycles[r.StepID], r)
		case record.KindActTool:
			at := cycleAt{r.StepID, r.Seq}
			t.calls[at] = append(t.calls[at], r)
		case record.KindWait:
			t.waits[r.PlanID] = append(t.waits[r.PlanID], r)
		}
	}
	return t
}

// root returns the root plan: the one that no call began.
func (t *runTree) root() string { return t.began[""][0] }

// lastBegan returns the plan that the last attempt of a call began that began one.
func (t *runTree) lastBegan(callID string) (planID string, ok bool) {
	if all := t.began[callID]; len(all) > 0 {
		return all[len(all)-1], true
	}
	return "", false
}

func (t *runTree) callsOf(c runstore.TreeRow) []runstore.TreeRow {
	return t.calls[cycleAt{c.StepID, c.Seq}]
}
