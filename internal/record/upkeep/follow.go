package upkeep

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/pg"
)

const (
	// followEvery is how often upkeep looks for trees that have changed.
	followEvery = time.Second
	// changesPage is how many numbers of the change feed one transaction reads.
	changesPage = 5_000
)

// follow calls do until ctx ends, and pauses in between as rest says. If do fails, it is called again after a while.
func (u *Upkeep) follow(
	ctx context.Context, what string, do func() (more bool, err error),
	rest func(ctx context.Context, more bool, took time.Duration) time.Duration,
) {
	for {
		start, pause := u.now(), followEvery
		more, err := do()
		switch {
		case err == nil:
			pause = rest(ctx, more, u.now().Sub(start))
		case !pg.Locked(err) && ctx.Err() == nil:
			u.counters.failures.Add(1)
			u.log.Warn(what+" failed; it is tried again", "error", err)
			pause = 3 * followEvery
		}

		if pg.Pause(ctx, pause) != nil {
			return
		}
	}
}

func untilDone(do func() (more bool, err error)) error {
	for {
		if more, err := do(); err != nil || !more {
			return err
		}
	}
}

// follower handles the trees that the change feed names. Transactions do not end in the order of the numbers that
// they have in the feed. So each look starts at the same number, until all transactions with lower ones have ended.
type follower struct {
	// head was the highest number of the feed at some time, and writers were the transactions that were open then. Once
	// these have ended, no change up to head can become visible any more.
	head    int64
	writers []string
	// handled has the trees behind that number that are handled, each with the number of its latest change that was seen.
	handled map[string]int64
}

// feedRange is what of the change feed is due: the numbers behind one, up to the highest.
type feedRange struct{ after, head int64 }

// handle calls do with a page of the trees that have changed, and made when all of them are handled up to a number.
// more reports that others are due now.
func (f *follower) handle(
	ctx context.Context, queries *db.Queries, tx db.DBTX, due feedRange, page int,
	do func(roots []string) error, made func(upTo int64) error,
) (more bool, err error) {
	if due.head <= due.after {
		return false, nil
	}
	// They are read after the head, so a transaction with a lower number that is not visible yet is among them.
	writers, err := queries.ChangeWriters(ctx, tx)
	if err != nil {
		return false, err
	}

	complete, upTo := f.completeUpTo(due.head, writers), due.head
	if complete > due.after {
		upTo = min(upTo, due.after+changesPage)
	}
	changed, err := queries.ChangedTrees(ctx, tx, db.ChangedTreesParams{AfterSeq: due.after, UpTo: upTo})
	if err != nil {
		return false, err
	}

	changed = slices.DeleteFunc(changed, func(c db.ChangedTreesRow) bool { return f.handled[c.RootPlanID] >= c.Seq })
	whole := len(changed) <= page
	changed = changed[:min(len(changed), page)]
	roots := make([]string, len(changed))
	for i, c := range changed {
		roots[i] = c.RootPlanID
	}

	if len(roots) > 0 {
		if err := do(roots); err != nil {
			return false, err
		}
	}

	if f.handled == nil {
		f.handled = map[string]int64{}
	}
	for _, c := range changed {
		f.handled[c.RootPlanID] = c.Seq
	}
	if !whole { // the others in transactions of their own: a long one holds up dropping partitions
		return true, nil
	}

	if complete = min(complete, upTo); complete > due.after {
		if err := made(complete); err != nil {
			return false, err
		}
		maps.DeleteFunc(f.handled, func(_ string, seq int64) bool { return seq <= complete })
	}

	if len(writers) == 0 || complete > 0 || f.head == 0 { // nothing noted before can change any more
		f.head, f.writers = due.head, writers
	}
	return upTo < due.head && complete > due.after, nil
}

// completeUpTo returns the number up to which no change can be missing any more; 0: it is not known. The writers were
// read after the head.
func (f *follower) completeUpTo(head int64, writers []string) int64 {
	switch {
	case len(writers) == 0:
		return head
	case !slices.ContainsFunc(f.writers, func(id string) bool { return slices.Contains(writers, id) }):
		return f.head
	}
	return 0
}
