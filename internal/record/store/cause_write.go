package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/record"
)

// levels are what report.failure calls the kinds of rows.
var levels = map[record.Kind]string{
	record.KindPlan: "plan", record.KindAgentExecution: "agent_execution", record.KindThinkAct: "think_act",
	record.KindActTool: "tool_call", record.KindWait: "wait",
}

type causeRow struct {
	Root      string      `json:"root_plan_id"`
	Partition string      `json:"part"`
	Detail    bool        `json:"detail"`
	Document  storedCause `json:"document"`
	Level     *string     `json:"level"`
	Plan      *string     `json:"plan_id"`
	Step      *string     `json:"step_id"`
	Seq       *int64      `json:"seq"`
	Call      *string     `json:"tool_call_id"`
	Kind      *string     `json:"cause_kind"`
	Tool      *string     `json:"cause_tool"`
	Text      *string     `json:"cause_text"`
	Recovered *bool       `json:"recovered"`
}

// causeRowOf returns the row of a tree. An open question is only for lists.
func causeRowOf(r db.CauseRowsRow, k storedCause, at tree.Node) causeRow {
	c := causeRow{Root: r.RootPlanID, Partition: r.Part.Format(time.DateOnly), Detail: r.Detail, Document: k}
	if k.Row == nil || at.Wait != nil && at.State() == record.Waiting {
		return c
	}

	c.Level, c.Plan = new(levels[k.Row.Kind]), &k.Row.Plan
	if at.Plan == nil { // of a plan, they say what started it
		c.Step, c.Call = k.Row.Step, k.Row.Call
	}
	if at.Cycle != nil || at.Call != nil {
		c.Seq = &k.Row.Seq
	}

	c.Kind, c.Tool = new(cmp.Or(optional.Value(k.Kind), strings.ToLower(string(at.State())))), k.Tool
	c.Text, c.Recovered = orNil(k.Text), &k.Recovered
	return c
}

// causesAtOnce is of how many trees the rows are read at once. Those of a tree can take megabytes.
const causesAtOnce = 10

// WriteCauses finds the causes of trees in a transaction, and writes them for the lists and reports. A tree of which
// the rows cannot be read has no cause until it changes; unreadable says why, one error for each such tree.
func (s *Store) WriteCauses(ctx context.Context, tx pgx.Tx, roots []string) (unreadable []error, err error) {
	for some := range slices.Chunk(roots, causesAtOnce) {
		bad, err := s.writeCauses(ctx, tx, some)
		if err != nil {
			return nil, err
		}
		unreadable = append(unreadable, bad...)
	}
	return unreadable, nil
}

func (s *Store) writeCauses(ctx context.Context, tx pgx.Tx, roots []string) (unreadable []error, err error) {
	rows, err := s.queries.CauseRows(ctx, tx, roots)
	if err != nil {
		return nil, err
	}

	found, there := []causeRow{}, map[string]bool{}
	for _, r := range rows {
		k, at, err := explain(r.RootPlanID, r.Rows)
		if err != nil {
			unreadable = append(unreadable, fmt.Errorf("read the cause of %s: %w", r.RootPlanID, err))
			continue
		}
		if k.Row != nil || k.Failed > 0 {
			there[r.RootPlanID] = true
			found = append(found, causeRowOf(r, k, at))
		}
	}

	encoded, err := json.Marshal(found)
	if err != nil {
		return nil, fmt.Errorf("keep causes: %w", err)
	}
	gone := slices.DeleteFunc(slices.Clone(roots), func(root string) bool { return there[root] })
	return unreadable, s.queries.CauseKeep(ctx, tx, db.CauseKeepParams{Causes: encoded, Gone: gone})
}
