package upkeep

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/actlog/actlog/db"
)

const (
	callTable  = "actlog.act_tool_info" // which stands for others in some queries
	cycleTable = "actlog.think_act_record"
)

// endOfTime is after every part.
var endOfTime = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// linkPage is how many sub-plans get their links in one statement.
const linkPage = 1000

// saveLinks notes on every sub-plan of some parts which step it hangs under, as PlanTree finds
// it through the tool calls in a table. Plans are locked in the order of the writers.
func (u *Upkeep) saveLinks(ctx context.Context, conn db.DBTX, table string, from, to time.Time) error {
	save := strings.ReplaceAll(db.LinkSave, callTable, table)
	for day := from; day.Before(to); day = day.AddDate(0, 0, 1) {
		root, plan := new(""), new("")
		for n := linkPage; n == linkPage; {
			if err := conn.QueryRow(ctx, save, day, *root, *plan, linkPage).Scan(&n, &root, &plan); err != nil {
				return fmt.Errorf("save the links of sub-plans: %w", err)
			}
		}
	}
	return nil
}

// countCalls returns the statement that adds the tool calls in a table to their daily figures.
func countCalls(table string) string { return strings.ReplaceAll(db.DetailCount, callTable, table) }
