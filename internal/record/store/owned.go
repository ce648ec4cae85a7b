package store

import (
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/record"
)

// A tree may be owned: then only its owner writes to it, see [Store.WriteOwned]. The trees that the runtime runs are
// its own. A batch from outside checks, once it holds its root plans, that none of the plans that it names is owned. A
// tree becomes owned in the transaction that makes it, so nobody can write to it before.

const owned = "YA004"

// refuseOwned queues the statement that fails if any plan that the batch names is owned. If the place of its trees is
// known, [db.PlanLockOutside] does that.
func (b *batch) refuseOwned(q *pgx.Batch) {
	if plans := b.plans(); len(plans) > 0 { // a trace that goes on begins no plans, and its tree is not owned
		q.Queue(db.RunOwned, plans)
	}
}

// plans returns the plans that the batch names: root plans, sub-plans and parents.
func (b *batch) plans() []string {
	plans := make([]string, 0, len(b.touched))
	for key := range b.rows {
		if key.Kind == record.KindPlan {
			plans = append(plans, key.ID)
		}
	}
	return plans
}

// ownedPlans returns the plans that are owned, if that is why a batch failed.
func ownedPlans(err error) map[string]bool {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != owned {
		return nil
	}
	var ids []string
	if json.Unmarshal([]byte(refused.Detail), &ids) != nil {
		return nil
	}

	plans := make(map[string]bool, len(ids))
	for _, id := range ids {
		plans[id] = true
	}
	return plans
}

// namesOwned returns the field in which a change names one of some plans; empty: it names none.
func namesOwned(c record.Change, plans map[string]bool) string {
	key := c.Key()
	if plans[key.Root] {
		return "rootPlanId"
	}

	switch c := c.(type) {
	case *record.Plan:
		switch {
		case plans[c.CurrentPlanID]:
			return "currentPlanId"
		case c.ParentPlanID != nil && plans[*c.ParentPlanID]:
			return "parentPlanId"
		}
	case *record.AgentExecution:
		if plans[c.PlanID] {
			return "planId"
		}
	case *record.ThinkAct, *record.ActTool: // they name a step
	default: // thoughts, artifacts, sources and waits belong to a plan
		if plans[key.Parent] {
			return "planId"
		}
	}
	return ""
}

func errOwned(field string) *record.InvalidError {
	return &record.InvalidError{
		Code: record.CodeOwnedByRuntime, Field: field,
		Reason: "names a plan that the runtime runs, and only the runtime writes to its tree",
	}
}
