// Package feed owns the change feed: which trees each transaction touched, in which order,
// and how a reader follows it without a gap.
//
// Every transaction that writes to a row of the record also appends to actlog.change, one row
// per tree. The transaction of that row (xmin) is the one that wrote the rows of the tree:
// they are found by it. So every writer has to append to the feed, and none may write in a
// savepoint.
package feed

import (
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/record"
)

// Deleted stands among the kinds of a change that deleted rows, or moved them.
const Deleted = "deleted"

// Change is what one transaction did to one tree.
type Change struct {
	RootPlanID string
	// Kinds are those of the changes that were written, or [Deleted].
	Kinds []string
	// XID is the transaction, by which its rows are found.
	XID uint32
}

// kindsBelow are the kinds whose rows are below those of a kind. All are below plans.
var kindsBelow = map[record.Kind][]record.Kind{
	record.KindAgentExecution: {record.KindThinkAct, record.KindActTool},
	record.KindThinkAct:       {record.KindActTool},
}

// KindsWritten returns the kinds whose rows the change may have written: those that it names, and their parents
// (roll-ups).
func (c *Change) KindsWritten() (kinds []record.Kind) {
	named := func(k record.Kind) bool { return slices.Contains(c.Kinds, string(k)) }
	for _, k := range record.Kinds {
		if k == record.KindPlan || named(k) || slices.ContainsFunc(kindsBelow[k], named) {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// Touched collects what a transaction writes: kinds by root plan.
type Touched map[string]map[record.Kind]bool

// Add notes that the transaction writes a kind to a tree.
func (t Touched) Add(root string, kind record.Kind) {
	if t[root] == nil {
		t[root] = map[record.Kind]bool{}
	}
	t[root][kind] = true
}

// AddAll adds all that another one has.
func (t Touched) AddAll(other Touched) {
	for root, kinds := range other {
		for kind := range kinds {
			t.Add(root, kind)
		}
	}
}

// Append queues the statement that appends to the feed, as the last one of a transaction.
func (t Touched) Append(q *pgx.Batch) {
	roots := slices.Sorted(maps.Keys(t))
	kinds := make([]string, len(roots))
	for i, root := range roots {
		var names []string
		for _, kind := range append(slices.Clone(record.Kinds), Deleted) {
			if t[root][kind] {
				names = append(names, string(kind))
			}
		}
		kinds[i] = strings.Join(names, ",")
	}

	q.Queue(db.ChangeAppend, roots, kinds)
}

// Feed is the change feed of a database. It is safe for concurrent use.
type Feed struct {
	bell    *pg.Bell
	db      *pg.DB
	log     *slog.Logger
	reads   *pg.DB // for those who ask
	queries *db.Queries
	failing pg.Seldom // limits a log line
}

// Start returns the feed of a database and starts to notify other servers of what is
// committed here. [Feed.Since] uses reads. The caller closes it.
func Start(d, reads *pg.DB, log *slog.Logger) *Feed {
	return &Feed{bell: pg.NewBell(d, "actlog_change", log), db: d, log: log, reads: reads, queries: db.New()}
}

// Close ends the notifications.
func (f *Feed) Close() { f.bell.Close() }

// Grew says that a transaction that appended to the feed was committed. Servers that are not notified
// of it find it within a second.
func (f *Feed) Grew() { f.bell.Ring() }
