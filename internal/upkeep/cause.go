package upkeep

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/pg"
)

const (
	// causesEvery is how often upkeep looks for trees that have changed.
	causesEvery = time.Second
	// causesPage is how many trees have their causes found in one transaction, and changesPage how many numbers of the
	// change feed one transaction reads.
	causesPage  = 200
	changesPage = 5_000
)

// causes is what this process remembers between its looks at the change feed. Only one goroutine uses it at a time.
type causes struct {
	settling
	// made has the trees whose causes are up to date, each with the number of its latest change that was seen.
	made map[string]int64
}

// settling tells up to which number the change feed is whole. Transactions do not end in the order of their numbers.
type settling struct {
	// head was the highest number of the feed at some time, and writers were the transactions that were open then. Once
	// these have ended, no change up to head can become visible any more.
	head    int64
	writers []string
}

// upTo returns up to which number no change can be missing any more; 0: that is not known. The writers were read after the head.
func (s *settling) upTo(head int64, writers []string) int64 {
	switch {
	case len(writers) == 0:
		return head
	case !slices.ContainsFunc(s.writers, func(id string) bool { return slices.Contains(writers, id) }):
		return s.head
	}
	return 0
}

// saw notes what was seen, if what was noted before is settled.
func (s *settling) saw(head int64, writers []string, settled int64) {
	if len(writers) == 0 || settled > 0 || s.head == 0 {
		s.head, s.writers = head, writers
	}
}

// keepCauses keeps the causes of all trees up to date until ctx ends.
func (u *Upkeep) keepCauses(ctx context.Context) {
	c := causes{made: map[string]int64{}}
	for {
		pause, start := causesEvery, u.now()
		more, err := u.makeCauses(ctx, &c)
		switch {
		case err != nil && !pg.Locked(err) && ctx.Err() == nil:
			u.counters.failures.Add(1)
			u.log.Warn("finding the causes of failures failed; it is tried again", "error", err)
			pause = 3 * causesEvery
		case more: // leave room for others
			pause = u.now().Sub(start)
		}
		if pg.Pause(ctx, pause) != nil {
			return
		}
	}
}

// makeAllCauses finds the causes of all trees that are due.
func (u *Upkeep) makeAllCauses(ctx context.Context) error {
	c := causes{made: map[string]int64{}}
	for more := true; more; {
		var err error
		if more, err = u.makeCauses(ctx, &c); err != nil {
			return err
		}
	}
	return nil
}

// makeCauses finds the causes of some trees again: of those that have changed, of those whose detail was dropped, and
// of those that were on record before causes were kept. more reports that others are due now.
func (u *Upkeep) makeCauses(ctx context.Context, c *causes) (more bool, err error) {
	for _, part := range []func(context.Context, pgx.Tx, *causes) (bool, error){u.changedCauses, u.droppedCauses, u.missingCauses} {
		err := u.inTurn(ctx, taskCauses, func(tx pgx.Tx) error {
			further, err := part(ctx, tx, c)
			more = more || further
			return err
		})
		if err != nil {
			*c = causes{made: map[string]int64{}} // the transaction may not have been committed
			return false, fmt.Errorf("find causes: %w", err)
		}
	}
	return more, nil
}

// changedCauses finds the causes of trees that have changed. Transactions do not end in the order of the numbers that
// they have in the feed. So each look starts at the same number, until all transactions with lower ones have ended.
func (u *Upkeep) changedCauses(ctx context.Context, tx pgx.Tx, c *causes) (more bool, err error) {
	progress, err := u.queries.CauseProgress(ctx, tx)
	if err != nil || progress.Head <= progress.Seq {
		return false, err
	}
	// Read after the head: whoever has a lower number, and is not visible yet, is among them.
	writers, err := u.queries.ChangeWriters(ctx, tx)
	if err != nil {
		return false, err
	}
	settled := c.upTo(progress.Head, writers)
	upTo := progress.Head
	if settled > progress.Seq {
		upTo = min(upTo, progress.Seq+changesPage)
	}
	due, err := u.queries.CauseDue(ctx, tx, db.CauseDueParams{AfterSeq: progress.Seq, UpTo: upTo})
	if err != nil {
		return false, err
	}
	var roots []string
	for _, d := range due {
		if c.made[d.RootPlanID] < d.Seq {
			roots = append(roots, d.RootPlanID)
		}
	}
	whole := len(roots) <= causesPage
	roots = roots[:min(len(roots), causesPage)]
	if err := u.writeCauses(ctx, tx, roots); err != nil {
		return false, err
	}
	for _, d := range due {
		if whole || slices.Contains(roots, d.RootPlanID) {
			c.made[d.RootPlanID] = d.Seq
		}
	}
	if !whole { // the others in other transactions: a long one delays whoever drops partitions
		return true, nil
	}

	if settled = min(settled, upTo); settled > progress.Seq {
		if err := u.queries.CauseMade(ctx, tx, settled); err != nil {
			return false, err
		}
	}
	for root, seq := range c.made {
		if seq <= settled {
			delete(c.made, root)
		}
	}
	c.saw(progress.Head, writers, settled)
	return upTo < progress.Head && settled > progress.Seq, nil
}

// droppedCauses finds the causes again of trees whose detail was dropped, so that they have no text of it.
func (u *Upkeep) droppedCauses(ctx context.Context, tx pgx.Tx, _ *causes) (more bool, err error) {
	roots, err := u.queries.CauseDropped(ctx, tx, causesPage)
	if err != nil || len(roots) == 0 {
		return false, err
	}
	return len(roots) == causesPage, u.writeCauses(ctx, tx, roots)
}

// missingCauses finds the causes of trees that were on record before causes were kept, the newest first.
func (u *Upkeep) missingCauses(ctx context.Context, tx pgx.Tx, _ *causes) (more bool, err error) {
	progress, err := u.queries.CauseProgress(ctx, tx)
	if err != nil || progress.BeforeAt == nil {
		return false, err
	}
	page, err := u.queries.CauseMissing(ctx, tx, db.CauseMissingParams{BeforeAt: *progress.BeforeAt, BeforeID: progress.BeforeID, Most: causesPage})
	if err != nil {
		return false, err
	}
	roots := make([]string, len(page))
	for i, p := range page {
		roots[i] = p.RootPlanID
	}
	if err := u.writeCauses(ctx, tx, roots); err != nil {
		return false, err
	}

	looked := db.CauseLookedParams{}
	if len(page) == causesPage {
		last := &page[len(page)-1]
		looked = db.CauseLookedParams{BeforeAt: &last.BeganAt, BeforeID: &last.RootPlanID}
	}
	return len(page) == causesPage, u.queries.CauseLooked(ctx, tx, looked)
}

// writeCauses finds the causes of trees, and writes them. A tree of which the rows cannot be read is logged, and
// looked at again when it changes.
func (u *Upkeep) writeCauses(ctx context.Context, tx pgx.Tx, roots []string) error {
	unreadable, err := u.store.KeepCauses(ctx, tx, roots)
	for _, bad := range unreadable {
		u.counters.failures.Add(1)
		u.log.Warn("the cause of a failure cannot be found", "error", bad)
	}
	return err
}
