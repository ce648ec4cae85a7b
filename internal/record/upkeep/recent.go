package upkeep

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/store"
)

// The words of runs are stored once more, with an index, until their period has its own: see indexTexts.

const (
	// recentPeriodsEvery is how often upkeep looks whether a period has its index.
	recentPeriodsEvery = time.Minute
	// Of runs, so many are noted as changed, looked at, folded and deleted in one transaction, and so many slices are.
	touchesPage = 500
	addsPage    = 1_000
	foldsPage   = 100
	recentPage  = 2_000
	slicesPage  = 8
	// foldedBytes is how many bytes of texts are folded in one transaction, at least those of one run. A long one holds
	// up dropping partitions.
	foldedBytes = 512 << 10
	// restForOthers is how many times as long as it worked upkeep rests if Postgres works for others.
	restForOthers = 9
	// longestFold is how long the texts of some runs may be folded.
	longestFold = "SET LOCAL statement_timeout = '20s'"
)

// recents is what this process remembers between its looks at the change feed. Only one goroutine uses it at a time.
type recents struct {
	follower
	seq     int64     // up to which number of the feed the trees that changed were noted
	storing bool      // whether texts are stored
	periods time.Time // when periods are looked at next
	most    int       // how many runs are folded next; 0: a page
}

// maintainRecent stores the texts of recent runs until ctx ends.
func (u *Upkeep) maintainRecent(ctx context.Context) {
	r := recents{periods: u.now().Add(recentPeriodsEvery)} // nothing is pressing
	rest := func(ctx context.Context, more bool, took time.Duration) time.Duration {
		switch {
		case more:
			if others, err := u.queries.OthersAtWork(ctx, u.db); err != nil || others {
				return took * restForOthers
			}
			return took
		case !r.storing:
			return max(followEvery, min(r.periods.Sub(u.now()), recentPeriodsEvery))
		}
		return followEvery
	}

	u.follow(ctx, "keeping the texts of recent runs", func() (bool, error) { return u.makeRecent(ctx, &r) }, rest)
}

func (u *Upkeep) makeAllRecent(ctx context.Context) error {
	var r recents
	return untilDone(func() (bool, error) { return u.makeRecent(ctx, &r) })
}

// makeRecent does some of what is due, in several transactions. more reports that there is more.
func (u *Upkeep) makeRecent(ctx context.Context, r *recents) (more bool, err error) {
	r.storing = false
	if now := u.now(); !now.Before(r.periods) {
		r.periods = now.Add(recentPeriodsEvery)
		if err := u.inTurn(ctx, taskRecent, func(tx pgx.Tx) error { return u.recentPeriods(ctx, tx) }); err != nil {
			return false, fmt.Errorf("keep texts: %w", err)
		}
	}

	type stage = func(context.Context, pgx.Tx, *recents, db.RecentProgressRow) (bool, error)
	for _, stages := range [][]stage{{u.forgetRecent, u.touchRecent, u.addRecent}, {u.foldRecent}, {u.sliceRecent}} {
		err := u.inTurn(ctx, taskRecent, func(tx pgx.Tx) error {
			progress, err := u.queries.RecentProgress(ctx, tx)
			if err != nil || progress.Version > store.RecentVersion {
				return err
			}

			if progress.Seq < r.seq || !progress.Kept {
				*r = recents{periods: r.periods}
			}
			r.seq, r.storing = progress.Seq, progress.Kept

			for _, do := range stages {
				further, err := do(ctx, tx, r, progress)
				if err != nil {
					return err
				}
				more = more || further
			}
			return nil
		})
		if err != nil {
			*r = recents{storing: r.storing, periods: r.periods, most: r.most} // the transaction may not have been committed
			return false, fmt.Errorf("keep texts: %w", err)
		}
	}
	return more, nil
}

// recentPeriods begins to store texts, and ends that for periods that have an index of their own.
func (u *Upkeep) recentPeriods(ctx context.Context, tx pgx.Tx) error {
	progress, err := u.queries.RecentProgress(ctx, tx)
	if err != nil || progress.Version > store.RecentVersion {
		return err
	}
	periods, err := u.periodsToKeep(ctx, tx)
	if err != nil {
		return err
	}

	if progress.Kept && progress.Version == store.RecentVersion {
		if day := periods.firstUnindexed(progress.FromDay); day.After(progress.FromDay) {
			return u.queries.RecentRaise(ctx, tx, day)
		}
		return nil
	}

	if err := u.queries.RecentStop(ctx, tx, math.MaxInt64); err != nil {
		return err
	}
	if left, err := u.queries.RecentLeft(ctx, tx, endOfTime); err != nil || left { // they go first
		return err
	}
	return u.queries.RecentStart(ctx, tx, db.RecentStartParams{Version: store.RecentVersion, FromDay: periods.first()})
}

// keptPeriods are the periods of all partitions, oldest first. indexed has the first days of those with a complete
// text index.
type keptPeriods struct {
	today   time.Time
	current time.Time // when the current period began
	all     []period
	indexed map[time.Time]bool // by their first days
}

// periodsToKeep reads the periods, and which of them have a complete text index.
func (u *Upkeep) periodsToKeep(ctx context.Context, tx pgx.Tx) (k keptPeriods, err error) {
	if k.today, err = u.queries.Today(ctx, tx); err != nil {
		return k, err
	}
	k.current, k.indexed = store.PeriodStart(k.today, u.store.PartitionDays()), map[time.Time]bool{}

	partitions, err := listPartitions(ctx, tx, contentTable)
	if err != nil {
		return k, err
	}
	for _, p := range partitions {
		k.all = append(k.all, period{from: p.From, to: p.To})
	}

	indexed, err := u.queries.TextSearchPeriods(ctx, tx, db.TextSearchPeriodsParams{
		Tables: searchedTables, Suffix: new(store.SearchIndexSuffix),
	})
	for _, p := range indexed {
		k.indexed[*p.FromDay] = true
	}
	return k, err
}

// first returns the day from which on runs are kept at first: that of the first period that is not due for its index.
func (k keptPeriods) first() time.Time {
	for _, p := range k.all {
		if p.to.AddDate(0, 0, textIndexAfter).After(k.today) && !p.from.After(k.today) {
			return p.from
		}
	}
	return k.current
}

// firstUnindexed returns the first day, from day on, that is in a period without a text index. Runs from that day on
// need their words in recent_text.
func (k keptPeriods) firstUnindexed(day time.Time) time.Time {
	for _, p := range k.all {
		switch {
		case !p.to.After(day):
		case p.from.After(k.today):
			return day
		case p.from.After(day): // there was no partition for the day
			day = p.from
			fallthrough
		default:
			if !k.indexed[p.from] {
				return day
			}
			day = p.to
		}
	}
	return day
}

// forgetRecent deletes rows that are not needed any more.
func (u *Upkeep) forgetRecent(
	ctx context.Context, tx pgx.Tx, r *recents, _ db.RecentProgressRow,
) (more bool, err error) {
	swept, err := u.queries.RecentSweep(ctx, tx, slicesPage)
	if err != nil {
		return false, err
	}

	n, err := u.queries.RecentForget(ctx, tx, recentPage)
	if n > 0 && !r.storing {
		r.periods = u.now() // so that it begins again
	}
	return n > 0 || swept > 0, err
}

// sliceRecent adds what was folded to the index, when it is enough for a slice.
func (u *Upkeep) sliceRecent(
	ctx context.Context, tx pgx.Tx, _ *recents, progress db.RecentProgressRow,
) (more bool, err error) {
	if !progress.Kept {
		return false, nil
	}
	return u.store.SliceRecentTexts(ctx, tx, u.runsOfSlice)
}

func (u *Upkeep) touchRecent(
	ctx context.Context, tx pgx.Tx, r *recents, progress db.RecentProgressRow,
) (more bool, err error) {
	if !progress.Kept {
		return false, nil
	}

	touch := func(roots []string) error { return u.queries.RecentTouch(ctx, tx, roots) }
	made := func(upTo int64) error {
		r.seq = upTo
		return u.queries.RecentMade(ctx, tx, upTo)
	}
	return r.handle(ctx, u.queries, tx, feedRange{progress.Seq, progress.Head}, touchesPage, touch, made)
}

// addRecent adds trees that were on record before texts were stored.
func (u *Upkeep) addRecent(
	ctx context.Context, tx pgx.Tx, _ *recents, progress db.RecentProgressRow,
) (more bool, err error) {
	if !progress.Kept || progress.BeforeAt == nil {
		return false, nil
	}

	left, err := u.queries.RecentAdd(ctx, tx, db.RecentAddParams{
		BeforeAt: *progress.BeforeAt, BeforeID: progress.BeforeID, Most: addsPage,
	})
	return slices.Contains(left, true), err
}

// foldRecent folds what quiet trees say. If that fails, half as many are folded next, until the tree is
// found that is to blame, and passed over. If it goes well, there may be more again, but not many more than there is
// room for.
func (u *Upkeep) foldRecent(
	ctx context.Context, tx pgx.Tx, r *recents, progress db.RecentProgressRow,
) (more bool, err error) {
	if !progress.Kept {
		return false, nil
	}

	most := cmp.Or(r.most, foldsPage)
	due, err := u.queries.RecentDue(ctx, tx, db.RecentDueParams{FromDay: progress.FromDay, Most: int32(most)})
	if err != nil || len(due) == 0 {
		return false, err
	}

	var handled int
	err = pgx.BeginFunc(ctx, tx, func(some pgx.Tx) error {
		if _, err := some.Exec(ctx, longestFold); err != nil {
			return err
		}
		handled, err = u.store.WriteRecentTexts(ctx, some, due, foldedBytes)
		return err
	})
	switch {
	case err == nil && handled < len(due):
		r.most = min(2*handled, foldsPage)
		return true, nil
	case err == nil:
		r.most = min(2*most, foldsPage)
		return len(due) == most, nil
	case ctx.Err() != nil || pg.Transient(err) && !pg.TimedOut(err):
		return false, err
	case len(due) > 1:
		r.most = len(due) / 2
		return true, nil
	}

	u.counters.failures.Add(1)
	u.log.Warn("the texts of a run cannot be kept for the search, which reads them",
		"rootPlanId", due[0].RootPlanID, "error", err)
	return true, u.queries.RecentPass(ctx, tx, []string{due[0].RootPlanID})
}
