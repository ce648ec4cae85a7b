package upkeep

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
)

// callTable is the table that stands for others in some queries.
const callTable = "actlog.act_tool_info"

// cycleTable is that of the cycles.
const cycleTable = "actlog.think_act_record"

// endOfTime is after every part.
var endOfTime = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// linkPage is how many sub-plans get their links in one statement.
const linkPage = 1000

// saveLinks notes on every sub-plan of some parts which step it hangs under, as PlanTree finds
// it through the tool calls in a table. Plans are locked in the order of the writers.
func (u *Upkeep) saveLinks(ctx context.Context, conn db.DBTX, table string, from, to time.Time) error {
	save := strings.ReplaceAll(db.LinkSave, callTable, table)
	for part := from; part.Before(to); part = part.AddDate(0, 0, 1) {
		root, plan := new(""), new("")
		for n := linkPage; n == linkPage; {
			if err := conn.QueryRow(ctx, save, part, *root, *plan, linkPage).Scan(&n, &root, &plan); err != nil {
				return fmt.Errorf("save the links of sub-plans: %w", err)
			}
		}
	}
	return nil
}

// forgetFound removes the texts of the tool calls, or cycles, in a table from the search. Fresh texts and the index of the
// search are changed by one server at a time.
func (u *Upkeep) forgetFound(ctx context.Context, tx pgx.Tx, table string, from, to time.Time) error {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtext('"+taskSearch+"'))"); err != nil {
		return fmt.Errorf("forget texts: %w", err)
	}
	if _, err := tx.Exec(ctx, strings.ReplaceAll(db.SearchForget, callTable, table), from, to); err != nil {
		return fmt.Errorf("forget texts: %w", err)
	}
	return nil
}

// forgetPage is how many steps or waits lose their texts in one statement.
const forgetPage = 1000

// forgetCopies removes what steps and waits copy from the tool calls of the periods that were dropped.
func (u *Upkeep) forgetCopies(ctx context.Context) error {
	periods, err := u.queries.DetailToForget(ctx, u.db)
	if err != nil {
		return fmt.Errorf("list the periods to forget: %w", err)
	}
	for _, p := range periods {
		if err := u.forgetPeriod(ctx, p.FromDay, p.ToDay); err != nil {
			return fmt.Errorf("forget texts of steps and waits: %w", err)
		}
	}
	return nil
}

func (u *Upkeep) forgetPeriod(ctx context.Context, from, to time.Time) error {
	steps := db.StepForgetParams{FromDay: from, ToDay: to, PageSize: forgetPage}
	for more := true; more; {
		page, err := u.queries.StepForget(ctx, u.db, steps)
		if err != nil {
			return err
		}
		steps.AfterRoot, steps.AfterStep = page.LastRoot, page.LastStep
		more = page.Size == forgetPage
	}

	waits := db.WaitForgetParams{FromDay: from, ToDay: to, PageSize: forgetPage}
	for more := true; more; {
		page, err := u.queries.WaitForget(ctx, u.db, waits)
		if err != nil {
			return err
		}
		waits.AfterRoot, waits.AfterPlan, waits.AfterWait = page.LastRoot, page.LastPlan, page.LastWait
		more = page.Size == forgetPage
	}
	return u.queries.DetailForgotten(ctx, u.db, db.DetailForgottenParams{FromDay: from, ToDay: to})
}

// countCalls returns the statement that adds the tool calls in a table to their daily figures.
func countCalls(table string) string { return strings.ReplaceAll(db.DetailCount, callTable, table) }
