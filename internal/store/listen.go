package store

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

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/record"
)

// The change feed: every transaction that writes to a row of the record also appends
// to actlog.change, a row a tree. The transaction of that row (xmin) is the one that
// wrote the rows of the tree: by it they are found. Nothing may write to them, in
// savepoints or elsewhere, without telling the feed.

const (
	// notifyEvery coalesces notifications: each is a transaction.
	notifyEvery = 20 * time.Millisecond
	// lookEvery is how often the feed is read where no notification comes through.
	lookEvery = time.Second
	// lookPause is how long it is left alone where many do.
	lookPause = 5 * time.Millisecond
	// lookRows is how much of it is read at once.
	lookRows = 5_000
	// maxMissing bounds the numbers that are waited for, one by one.
	maxMissing = 10_000
	// startPatience is how long the feed waits at its start for those who write.
	startPatience = time.Second
	// maxSilence is for how long the feed may not have been read and goes on: rows are
	// swept after an hour or later.
	maxSilence = 10 * time.Minute
	// maxChangesSince bounds what a cursor may have missed.
	maxChangesSince = 50_000

	changeChannel = "actlog_change"
	// Deleted stands among the kinds of a change that deleted rows, moved ones included.
	Deleted = "deleted"
)

// Change is what one transaction did to one tree.
type Change struct {
	RootPlanID string
	// Kinds are those that were told of, or [Deleted].
	Kinds []string
	// XID is the transaction. [Store.Rows] finds what it wrote.
	XID uint32
}

// Touched gives the kinds of which a change may have written rows: those that it told
// of, and the ones above them.
func (c *Change) Touched() (kinds []record.Kind) {
	told := func(k record.Kind) bool { return slices.Contains(c.Kinds, string(k)) }
	for _, k := range record.Kinds {
		if k == record.KindPlan || told(k) ||
			k == record.KindAgentExecution && (told(record.KindThinkAct) || told(record.KindActTool)) ||
			k == record.KindThinkAct && told(record.KindActTool) {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// Changes is what became known of the feed at one look.
type Changes struct {
	// Made are those that were committed, in no order, once each.
	Made []Change
	// Cursor stands for all that was delivered up to here: see [Store.ChangesSince].
	// Empty: it is not known how much that is.
	Cursor string
	// Lost tells that there may have been changes that were not delivered.
	Lost bool
	// Gaps is how many numbers are waited for: of transactions that may yet commit.
	Gaps int
	// Lag is how long ago the oldest transaction of Made began.
	Lag time.Duration
}

// ErrStaleCursor says that what came after a cursor is not known any more.
var ErrStaleCursor = errors.New("the cursor is too old, or of another database")

// changed has those who follow the feed know that it grew.
func (s *Store) changed() {
	select {
	case s.grown <- struct{}{}:
	default:
	}
}

// notify tells the servers of this database that the feed grew: after commit, as a
// notification inside a transaction makes commits wait for each other, and on a
// connection of its own. One that gets lost costs them a second.
func (s *Store) notify() {
	var conn *pgx.Conn
	defer func() { closeConn(conn) }()
	for attempt := 0; ; {
		select {
		case <-s.grown:
		case <-s.upkeep.Done():
			return
		}
		err := func() (err error) {
			ctx, cancel := context.WithTimeout(s.upkeep, 5*time.Second)
			defer cancel()
			if conn == nil {
				if conn, err = s.connect(ctx); err != nil {
					return err
				}
			}
			_, err = conn.Exec(ctx, "NOTIFY "+changeChannel)
			return err
		}()
		wait := notifyEvery
		if err != nil {
			closeConn(conn)
			conn, wait = nil, backoff(attempt)
			attempt++
			s.log.Debug("no notification was sent", "error", err)
		} else {
			attempt = 0
		}
		if pause(s.upkeep, wait) != nil {
			return
		}
	}
}

// connect gives a connection beside the pool.
func (s *Store) connect(ctx context.Context) (*pgx.Conn, error) {
	config := s.pool.Config().ConnConfig
	config.Tracer = nil // it does what no caller asked for
	return pgx.ConnectConfig(ctx, config)
}

func closeConn(conn *pgx.Conn) {
	if conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // it is of no use any more
}

// listen wakes whoever waits for the feed to grow, until ctx ends. Where notifications
// do not come through, as behind a pooler of transactions, nobody is woken.
func (s *Store) listen(ctx context.Context, wake chan<- struct{}) {
	for attempt := 0; ctx.Err() == nil; attempt++ {
		err := func() error {
			conn, err := s.connect(ctx)
			if err != nil {
				return err
			}
			defer closeConn(conn)
			if _, err := conn.Exec(ctx, "LISTEN "+changeChannel); err != nil {
				return err
			}
			for attempt = 0; ; {
				select {
				case wake <- struct{}{}: // also at first: what came before was missed
				default:
				}
				if _, err := conn.WaitForNotification(ctx); err != nil {
					return err
				}
			}
		}()
		if ctx.Err() == nil {
			s.log.Debug("not listening for changes; they are looked for each second", "error", err)
		}
		_ = pause(ctx, backoff(attempt))
	}
}

// Follow delivers what is committed to the record by any server, until ctx ends. The
// first delivery says that it has begun: whatever is committed later will be delivered.
func (s *Store) Follow(ctx context.Context, deliver func(Changes)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wake, listening := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(listening)
		s.listen(ctx, wake)
	}()
	defer func() { cancel(); <-listening }()

	f := &follower{store: s}
	for ctx.Err() == nil {
		more, err := f.look(ctx, deliver)
		if err != nil && ctx.Err() == nil {
			f.broken = true
			if s.followLogged.due() {
				s.log.Warn("changes cannot be followed for now", "error", err)
			}
		}
		timer := time.NewTimer(lookEvery)
		switch {
		case more:
		default:
			select {
			case <-wake:
			case <-timer.C:
			case <-ctx.Done():
			}
		}
		timer.Stop()
		_ = pause(ctx, lookPause)
	}
}

// follower reads the feed. Numbers are taken before their transactions commit, so what
// is committed may lack some that come later.
type follower struct {
	store *Store
	era   string
	seq   int64 // what is above it was not looked at
	// missing are the numbers below seq that may come yet; those that were found
	// missing at one look share a gap.
	missing map[int64]*gap
	// unknown is set where it is not known which numbers may come.
	unknown *gap

	looked time.Time // by the wall clock; zero: never
	broken bool      // the last look failed
}

// gap is waited for while one of the transactions lasts that may fill it.
type gap struct {
	writers map[string]bool // nil: not known yet
}

// closed narrows a gap to the writers that there are still, and tells whether there
// are none.
func (g *gap) closed(now map[string]bool) bool {
	if g.writers == nil {
		g.writers = maps.Clone(now)
	}
	maps.DeleteFunc(g.writers, func(id string, _ bool) bool { return !now[id] })
	return len(g.writers) == 0
}

// look reads the feed once. more tells that there is more of it.
func (f *follower) look(ctx context.Context, deliver func(Changes)) (more bool, err error) {
	s := f.store
	lost := false
	if f.broken || f.looked.IsZero() || time.Since(f.looked) > maxSilence {
		era, err := read(ctx, s, func(conn db.DBTX) (string, error) { return s.reads.ChangeEra(ctx, conn) })
		if err != nil {
			return false, err
		}
		if era != f.era || time.Since(f.looked) > maxSilence {
			lost = !f.looked.IsZero()
			if err := f.start(ctx, era); err != nil {
				return false, err
			}
		}
		f.broken = false
	}
	var writers map[string]bool // before the look: whose are over by now is seen by it
	if len(f.missing) > 0 || f.unknown != nil {
		if writers, err = f.writers(ctx); err != nil {
			return false, err
		}
	}
	rows, err := read(ctx, s, func(conn db.DBTX) ([]db.ChangeLookRow, error) {
		return s.reads.ChangeLook(ctx, conn, db.ChangeLookParams{AfterSeq: f.seq, PageSize: lookRows, Missing: slices.Collect(maps.Keys(f.missing))})
	})
	if err != nil {
		return false, err
	}
	out := Changes{Lost: lost}
	fresh, above := new(gap), 0
	for _, r := range rows {
		if r.Seq > f.seq {
			above++
			f.pass(r.Seq, fresh)
		} else {
			delete(f.missing, r.Seq)
		}
		if r.RootPlanID != "" {
			out.Made = append(out.Made, Change{RootPlanID: r.RootPlanID, Kinds: r.Kinds, XID: uint32(r.Xid)})
			out.Lag = max(out.Lag, time.Duration(r.AgeSeconds*float64(time.Second)))
		}
	}
	gone := map[*gap]bool{}
	for seq, g := range f.missing {
		if g == fresh {
			continue
		}
		if _, judged := gone[g]; !judged {
			gone[g] = g.closed(writers)
		}
		if gone[g] {
			delete(f.missing, seq)
		}
	}
	if f.unknown != nil && f.unknown != fresh && f.unknown.closed(writers) {
		f.unknown, out.Lost = nil, true
	}
	out.Cursor, out.Gaps = f.cursor(), len(f.missing)
	f.looked = time.Now().Round(0) // the other clock sleeps with the machine
	deliver(out)
	return above == lookRows, nil
}

// pass moves on to a number; those in between are missing.
func (f *follower) pass(seq int64, fresh *gap) {
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

// start begins at the end of the feed, once those are over that may have taken numbers
// below it; or without them, where one stays, as in a session that was forgotten.
func (f *follower) start(ctx context.Context, era string) error {
	s := f.store
	seq, err := read(ctx, s, func(conn db.DBTX) (int64, error) { return s.reads.ChangeHead(ctx, conn) })
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
		if err := pause(ctx, lookPause); err != nil {
			return err
		}
	}
	f.era, f.seq, f.missing, f.unknown = era, seq, map[int64]*gap{}, before
	return nil
}

func (f *follower) writers(ctx context.Context) (map[string]bool, error) {
	ids, err := read(ctx, f.store, func(conn db.DBTX) ([]string, error) { return f.store.reads.ChangeWriters(ctx, conn) })
	writers := make(map[string]bool, len(ids))
	for _, id := range ids {
		writers[id] = true
	}
	return writers, err
}

// cursor stands before the lowest number that may come yet.
func (f *follower) cursor() string {
	if f.unknown != nil {
		return ""
	}
	seq := f.seq
	for missing := range f.missing {
		seq = min(seq, missing-1)
	}
	return formatChangeCursor(f.era, seq)
}

func formatChangeCursor(era string, seq int64) string {
	of := sha256.Sum256([]byte(era))
	return fmt.Sprintf("%x-%d", of[:6], seq)
}

// ChangesSince gives what was committed after a cursor of [Store.Follow], on any
// server of the database, perhaps with some of what came before; of one tree only where
// one is named. [ErrStaleCursor] where that is not known any more: the feed is kept for
// Config.ChangeHours; an [*record.InvalidError] where it is no cursor.
func (s *Store) ChangesSince(ctx context.Context, cursor, rootPlanID string) ([]Change, error) {
	_, number, _ := strings.Cut(cursor, "-")
	seq, err := strconv.ParseInt(number, 10, 64)
	if err != nil || seq < 0 {
		return nil, &record.InvalidError{Code: record.CodeInvalidValue, Field: "after", Reason: "must be a cursor, as the id of an event gave it"}
	}
	era, err := read(ctx, s, func(conn db.DBTX) (string, error) { return s.reads.ChangeEra(ctx, conn) })
	if err != nil {
		return nil, err
	}
	if formatChangeCursor(era, seq) != cursor {
		return nil, ErrStaleCursor
	}
	rows, err := read(ctx, s, func(conn db.DBTX) ([]db.ChangeSinceRow, error) {
		return s.reads.ChangeSince(ctx, conn, db.ChangeSinceParams{AfterSeq: seq, RootPlanID: orNil(rootPlanID), Most: maxChangesSince + 1})
	})
	if err != nil {
		return nil, err
	}
	// After the read: what was there then was not swept before.
	oldest, err := read(ctx, s, func(conn db.DBTX) (int64, error) { return s.reads.ChangeOldest(ctx, conn) })
	if err != nil {
		return nil, err
	}
	if oldest == 0 || oldest > seq+1 || len(rows) > maxChangesSince {
		return nil, ErrStaleCursor
	}
	changes := make([]Change, len(rows))
	for i, r := range rows {
		changes[i] = Change{RootPlanID: r.RootPlanID, Kinds: r.Kinds, XID: uint32(r.Xid)}
	}
	return changes, nil
}
