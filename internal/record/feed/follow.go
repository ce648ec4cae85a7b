package feed

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/record"
)

const (
	// pollEvery is how often the feed is read if no notification arrives.
	pollEvery = time.Second
	// pollPause is the least time between two reads.
	pollPause = 5 * time.Millisecond
	// pollRows bounds one read.
	pollRows = 5_000
	// maxMissing bounds the numbers that are waited for one by one.
	maxMissing = 10_000
	// startPatience is how long the start of a follower waits for running writers.
	startPatience = time.Second
	// maxSilence is how long the feed may go unread before the follower starts again: rows are
	// swept after an hour or later.
	maxSilence = 10 * time.Minute
	// maxChangesSince bounds what a cursor may have missed.
	maxChangesSince = 50_000
)

// Changes is what one read of the feed found.
type Changes struct {
	// Committed are the changes that were committed, in no order, once each.
	Committed []Change
	// Primary is the server that they were read from, see [pg.DB.Primary].
	Primary string
	// Cursor stands for everything that was delivered so far, see [Feed.Since]. It is empty
	// while that is not known.
	Cursor string
	// Lost reports that changes may have been missed.
	Lost bool
	// Gaps is how many numbers are waited for: their transactions may yet commit.
	Gaps int
	// Lag is how long ago the oldest transaction of Made began.
	Lag time.Duration
}

// ErrStaleCursor means that it is not known any more what came after a cursor.
var ErrStaleCursor = errors.New("the cursor is too old, or of another database")

// Follow delivers what any server commits to the record, until ctx ends. The first delivery
// says that following has begun: whatever is committed later will be delivered.
func (f *Feed) Follow(ctx context.Context, deliver func(Changes)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wake, listening := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(listening)
		f.bell.Listen(ctx, wake)
	}()
	defer func() { cancel(); <-listening }()

	follower := &follower{feed: f}
	for ctx.Err() == nil {
		more, err := follower.poll(ctx, deliver)
		if err != nil && ctx.Err() == nil {
			follower.broken = true
			if f.failing.Due() {
				f.log.Warn("read change feed failed; it is tried again", "error", err)
			}
		}

		if !more {
			timer := time.NewTimer(pollEvery)
			select {
			case <-wake:
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
		}
		_ = pg.Pause(ctx, pollPause)
	}
}

// follower reads the feed. Transactions take their numbers before they commit, so a number may
// be missing although higher ones are there.
type follower struct {
	feed    *Feed
	primary string // that was there when the era was read
	era     string
	seq     int64 // the highest number that was looked at
	// missing are the numbers below seq that may yet come. Those that one read found missing
	// share a gap.
	missing map[int64]*gap
	// unknown is set while it is not known which numbers may come.
	unknown *gap

	polled time.Time // by the wall clock; zero: never
	broken bool      // the last read failed
	lost   bool      // changes may have been missed, which was not delivered yet
}

// gap lasts as long as a transaction lasts that may fill it.
type gap struct {
	writers map[string]bool // nil: not known yet
}

// closed keeps the writers that are still running, and reports whether there are none.
func (g *gap) closed(running map[string]bool) bool {
	if g.writers == nil {
		g.writers = maps.Clone(running)
	}
	maps.DeleteFunc(g.writers, func(id string, _ bool) bool { return !running[id] })
	return len(g.writers) == 0
}

// poll reads the feed once. more reports that there is more to read.
func (f *follower) poll(ctx context.Context, deliver func(Changes)) (more bool, err error) {
	if err := f.checkEra(ctx); err != nil {
		return false, err
	}

	var writers map[string]bool // read before the feed: what those that are gone wrote is visible to it
	if len(f.missing) > 0 || f.unknown != nil {
		if writers, err = f.writers(ctx); err != nil {
			return false, err
		}
	}

	rows, err := pg.Read(ctx, f.feed.db, func() ([]db.ChangeLookRow, error) {
		return f.feed.queries.ChangeLook(ctx, f.feed.db, db.ChangeLookParams{
			AfterSeq: f.seq, PageSize: pollRows, Missing: slices.Collect(maps.Keys(f.missing)),
		})
	})
	if err != nil {
		return false, err
	}
	if f.feed.db.Primary() != f.primary { // the rows may be of a feed whose numbers mean something else
		return true, nil
	}

	out := Changes{Primary: f.primary, Lost: f.lost}
	fresh, above := new(gap), 0
	for _, r := range rows {
		if r.Seq > f.seq {
			above++
			f.moveTo(r.Seq, fresh)
		} else {
			delete(f.missing, r.Seq)
		}
		if r.RootPlanID != "" {
			out.Committed = append(out.Committed, Change{RootPlanID: r.RootPlanID, Kinds: r.Kinds, XID: uint32(r.Xid)})
			out.Lag = max(out.Lag, time.Duration(r.AgeSeconds*float64(time.Second)))
		}
	}

	f.closeGaps(writers, fresh)
	if f.unknown != nil && f.unknown != fresh && f.unknown.closed(writers) {
		f.unknown, out.Lost = nil, true
	}

	out.Cursor, out.Gaps = f.cursor(), len(f.missing)
	f.lost = false
	f.polled = time.Now().Round(0) // the monotonic clock stops while the machine sleeps
	deliver(out)
	return above == pollRows, nil
}

// checkEra starts the follower, and starts it again if the feed may not be the one that it
// knows: then changes may have been missed.
func (f *follower) checkEra(ctx context.Context) error {
	primary, silent := f.feed.db.Primary(), time.Since(f.polled) > maxSilence
	if !f.broken && !f.polled.IsZero() && !silent && f.primary == primary {
		return nil
	}

	era, err := f.feed.era(ctx, f.feed.db)
	if err != nil {
		return err
	}

	if era != f.era || silent {
		f.lost = f.lost || !f.polled.IsZero()
		if err := f.start(ctx, era); err != nil {
			return err
		}
	}
	f.primary, f.broken = primary, false
	return nil
}

// closeGaps forgets missing numbers whose transactions are gone.
func (f *follower) closeGaps(writers map[string]bool, fresh *gap) {
	closed := map[*gap]bool{fresh: false}
	maps.DeleteFunc(f.missing, func(_ int64, g *gap) bool {
		if _, known := closed[g]; !known {
			closed[g] = g.closed(writers)
		}
		return closed[g]
	})
}

// moveTo moves on to a number. Those in between are missing.
func (f *follower) moveTo(seq int64, fresh *gap) {
	if int64(len(f.missing))+seq-f.seq > maxMissing {
		clear(f.missing)
		f.unknown = fresh
	} else {
		for missing := f.seq + 1; missing < seq; missing++ {
			f.missing[missing] = fresh
		}
	}
	f.seq = seq
}

// start begins at the end of the feed, once the transactions are over that may have taken
// lower numbers. It does not wait for long: a forgotten session may hold one open.
func (f *follower) start(ctx context.Context, era string) error {
	seq, err := pg.Read(ctx, f.feed.db, func() (int64, error) { return f.feed.queries.ChangeHead(ctx, f.feed.db) })
	if err != nil {
		return err
	}

	before, began := new(gap), time.Now()
	for {
		writers, err := f.writers(ctx)
		if err != nil {
			return err
		}
		if before.closed(writers) {
			before = nil
			break
		}

		if time.Since(began) > startPatience {
			break
		}
		if err := pg.Pause(ctx, pollPause); err != nil {
			return err
		}
	}

	f.era, f.seq = era, seq
	f.missing, f.unknown = map[int64]*gap{}, before
	return nil
}

// writers returns the transactions that may have taken numbers and are not over.
func (f *follower) writers(ctx context.Context) (map[string]bool, error) {
	ids, err := pg.Read(ctx, f.feed.db, func() ([]string, error) { return f.feed.queries.ChangeWriters(ctx, f.feed.db) })
	writers := make(map[string]bool, len(ids))
	for _, id := range ids {
		writers[id] = true
	}
	return writers, err
}

// cursor stands before the lowest number that may yet come.
func (f *follower) cursor() string {
	if f.unknown != nil {
		return ""
	}
	seq := f.seq
	for missing := range f.missing {
		seq = min(seq, missing-1)
	}
	return formatCursor(f.era, seq)
}

// era names the feed: the numbers of another database, or of one that was restored with less
// on record, mean something else.
func (f *Feed) era(ctx context.Context, d *pg.DB) (string, error) {
	return pg.Read(ctx, d, func() (string, error) { return f.queries.ChangeEra(ctx, d) })
}

func formatCursor(era string, seq int64) string {
	hash := sha256.Sum256([]byte(era))
	return fmt.Sprintf("%x-%d", hash[:6], seq)
}

// Since returns what any server committed after a cursor of [Feed.Follow], perhaps with some
// of what came before, of all trees or of one. The error is [ErrStaleCursor] if that is not
// known any more, because the feed is swept, and a [*record.InvalidError] if cursor is none.
func (f *Feed) Since(ctx context.Context, cursor, rootPlanID string) ([]Change, error) {
	_, number, _ := strings.Cut(cursor, "-")
	seq, err := strconv.ParseInt(number, 10, 64)
	if err != nil || seq < 0 {
		return nil, &record.InvalidError{
			Code: record.CodeInvalidValue, Field: "after", Reason: "must be a cursor, the id of an event",
		}
	}

	primary := f.reads.Primary()
	era, err := f.era(ctx, f.reads)
	if err != nil {
		return nil, err
	}
	if formatCursor(era, seq) != cursor {
		return nil, ErrStaleCursor
	}

	params := db.ChangeSinceParams{AfterSeq: seq, Most: maxChangesSince + 1, RootPlanID: optional.Pointer(rootPlanID)}
	rows, err := pg.Read(ctx, f.reads, func() ([]db.ChangeSinceRow, error) {
		return f.queries.ChangeSince(ctx, f.reads, params)
	})
	if err != nil {
		return nil, err
	}

	// Read after the changes: what is there now was not swept before.
	oldest, err := pg.Read(ctx, f.reads, func() (int64, error) { return f.queries.ChangeOldest(ctx, f.reads) })
	if err != nil {
		return nil, err
	}
	if oldest == 0 || oldest > seq+1 || len(rows) > maxChangesSince || f.reads.Primary() != primary {
		return nil, ErrStaleCursor
	}

	changes := make([]Change, len(rows))
	for i, r := range rows {
		changes[i] = Change{RootPlanID: r.RootPlanID, Kinds: r.Kinds, XID: uint32(r.Xid)}
	}
	return changes, nil
}
