package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/record"
)

//go:embed original.sql
var originalSQL string

// The tree of the comparison. To read it, the original needs
// 2 + plans + sub-plans + 2 * agents * sub-plans statements.
const (
	treeAgents     = 5
	treeSubPlans   = 20
	agentsOfSub    = 3
	treePlans      = 1 + treeSubPlans
	treeAllAgents  = treeAgents + treeSubPlans*agentsOfSub
	treeStatements = 2 + treePlans + treeSubPlans + 2*treeAllAgents*treeSubPlans
)

// largeTree makes the tree. Every cycle of the agents of the root has a tool call that starts a
// sub-plan.
func (t *text) largeTree() (root string, changes []record.Change) {
	r := rand.New(rand.NewPCG(t.seed, 2))
	root = record.NewPlanID()
	plan := func(id string, parent, call *string) {
		changes = append(changes, &record.Plan{
			RootPlanID: root, CurrentPlanID: id, ParentPlanID: parent, ToolCallID: call,
			Title: new(t.title(r)), Summary: new(t.answer(r)), State: new(record.Completed), StartTime: new(time.Now()),
			EndTime: new(time.Now()),
		})
	}
	agent := func(plan string, index, cycles int) (calls []string) {
		step := record.NewStepID()
		changes = append(changes, &record.AgentExecution{
			RootPlanID: root, PlanID: plan, StepID: step, StepIndex: new(int64(index)), AgentName: new("agent"),
			State:        new(record.Completed),
			AgentRequest: new(cut(r, t.prose, 300)), Result: new(t.answer(r)), StartTime: new(time.Now()),
			EndTime: new(time.Now()),
		})

		for seq := range int64(cycles) {
			call := record.NewToolCallID()
			calls = append(calls, call)
			changes = append(changes,
				&record.ThinkAct{
					RootPlanID: root, StepID: step, Seq: seq, ThinkInput: new(t.prompt(r)), ThinkOutput: new(t.answer(r)),
					State: new(record.Completed),
				},
				&record.ActTool{
					RootPlanID: root, StepID: step, Seq: seq, ToolCallID: call, Name: new("tool"), Parameters: new(t.arg(r)),
					Result: new(t.result(r)), State: new(record.Completed),
				})
		}
		return calls
	}

	plan(root, nil, nil)
	for i := range treeAgents {
		for _, call := range agent(root, i, treeSubPlans/treeAgents) {
			sub := record.NewSubPlanID()
			plan(sub, &root, &call)
			for j := range agentsOfSub {
				agent(sub, j, 3)
			}
		}
	}
	return root, changes
}

// measureTree reads the tree among 30,000 cycles and 45,000 tool calls: ours with one statement, the
// original with its 2,643 statements.
func measureTree(ctx context.Context, b *bench) (_ []figure, err error) {
	srv, err := b.served(ctx, "tree")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, srv.close()) }()
	db, s := srv.db, srv.store

	root, changes := b.text.largeTree()
	if err := write(ctx, s, changes); err != nil {
		return nil, err
	}

	if err := b.text.fill(ctx, s, 0, b.n(30_000/cyclesOfRun, 10)); err != nil {
		return nil, err
	}
	if _, err := db.pool.Exec(ctx, originalSQL); err != nil {
		return nil, fmt.Errorf("create the tables of the original: %w", err)
	}

	if err := db.settle(ctx); err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, db.url)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()

	ours, baseline, err := b.byTurns(ctx,
		func(ctx context.Context) (float64, error) {
			n := b.n(300, 10)
			return perSecond(n, func() error { return readLargeTree(ctx, s, root) })
		},
		func(ctx context.Context) (float64, error) {
			return perSecond(1, func() error { return readOriginal(ctx, conn, root) })
		})
	if err != nil {
		return nil, err
	}

	return []figure{against(fmt.Sprintf("%d plans, %d agents", treePlans, treeAllAgents), "trees/s", ours, baseline,
		fmt.Sprintf("%d statements", treeStatements), atLeast(100))}, nil
}

// perSecond calls do a number of times and returns the calls per second.
func perSecond(times int, do func() error) (float64, error) {
	start := time.Now()
	for range times {
		if err := do(); err != nil {
			return 0, err
		}
	}
	return float64(times) / time.Since(start).Seconds(), nil
}

func readLargeTree(ctx context.Context, s *store.Store, root string) error {
	p, _, err := s.PlanTree(ctx, "", root)
	if err != nil {
		return err
	}

	plans, agents := 0, 0
	var walk func(*tree.Plan)
	walk = func(p *tree.Plan) {
		plans++
		agents += len(p.Steps)
		for sub := range p.Children() {
			walk(sub)
		}
	}
	walk(p)
	return checkTree(plans, agents)
}

func checkTree(plans, agents int) error {
	if plans != treePlans || agents != treeAllAgents {
		return fmt.Errorf("the tree has %d plans and %d agents, want %d and %d", plans, agents, treePlans, treeAllAgents)
	}
	return nil
}

// readOriginal sends the statements that the original sends to show a tree. It only receives the
// rows; the original also builds objects of them with Hibernate.
func readOriginal(ctx context.Context, conn *pgx.Conn, root string) error {
	type plan struct {
		id   int64
		call *string
	}

	statements := 0
	agents := []int64{}
	subs := []string{}

	err := pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		ask := func(sql string, arg any, each func(pgx.Rows) error) error {
			statements++
			rows, err := tx.Query(ctx, sql, arg)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				if each == nil {
					continue
				}
				if err := each(rows); err != nil {
					return err
				}
			}
			return rows.Err()
		}

		if err := ask("SELECT * FROM original.plan_execution_record WHERE current_plan_id = $1", root, nil); err != nil {
			return err
		}

		var plans []plan
		err := ask("SELECT id, tool_call_id, p.* FROM original.plan_execution_record AS p WHERE root_plan_id = $1", root,
			func(rows pgx.Rows) error {
				var p plan
				plans = append(plans, p)
				return scanFirst(rows, &plans[len(plans)-1].id, &plans[len(plans)-1].call)
			})
		if err != nil {
			return err
		}

		for _, p := range plans {
			err := ask("SELECT id, a.* FROM original.agent_execution_record AS a WHERE plan_execution_id = $1", p.id,
				func(rows pgx.Rows) error {
					agents = append(agents, 0)
					return scanFirst(rows, &agents[len(agents)-1])
				})
			if err != nil {
				return err
			}

			if p.call == nil {
				continue
			}

			subs = append(subs, *p.call)
			if err := ask("SELECT * FROM original.act_tool_info WHERE tool_call_id = $1", *p.call, nil); err != nil {
				return err
			}
		}

		for range agents {
			for _, call := range subs {
				if err := ask("SELECT * FROM original.act_tool_info WHERE tool_call_id = $1", call, nil); err != nil {
					return err
				}
				if err := ask("SELECT c.* FROM original.think_act_record AS c LEFT JOIN original.act_tool_info AS t ON "+
					"t.think_act_record_id = c.id WHERE t.tool_call_id = $1", call, nil); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err == nil && statements != treeStatements {
		err = fmt.Errorf("sent %d statements, want %d", statements, treeStatements)
	}
	return errors.Join(err, checkTree(1+len(subs), len(agents)))
}

// scanFirst scans the first columns of a row.
func scanFirst(rows pgx.Rows, into ...any) error {
	return rows.Scan(append(into, make([]any, len(rows.FieldDescriptions())-len(into))...)...)
}
