package runstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/record"
)

// Event is something that happened, which runs of a project wait for by its key.
type Event struct {
	Project string // empty: the default one
	Key     string
	Data    json.RawMessage // what the runs get
	By      Who             // who sends it
	// IdempotencyKey, if it is set, is that of the request, whose hash is RequestSHA256.
	IdempotencyKey, RequestSHA256 string
}

// SendEvent puts an event on record, and wakes the runs that wait for it. It returns how many these were. A request
// that was made before sends nothing, and returns what it returned then. The error is [ErrKeyUsed], or one of the
// database: then it is not known whether the event was sent. One that is on record wakes all nevertheless.
func (s *Store) SendEvent(ctx context.Context, e Event) (woken int, err error) {
	id, err := s.addEvent(ctx, e)
	if err == nil {
		err = s.wakeFor(ctx, id)
	}
	if err == nil {
		var n int32
		n, err = queries.EventWoken(ctx, s.DB(), id)
		woken = int(n)
	}
	if err != nil {
		return 0, fmt.Errorf("send an event: %w", pg.Translate(err))
	}
	return woken, nil
}

// addEvent puts an event on record, or returns the one that the same request has sent.
func (s *Store) addEvent(ctx context.Context, e Event) (id int64, err error) {
	project := cmp.Or(e.Project, DefaultProject)
	id, err = queries.EventAdd(ctx, s.DB(), db.EventAddParams{
		Project: project, Key: e.Key, Data: e.Data, SentBy: e.By.Name, ClaimedBy: optional.Pointer(e.By.Claim),
		IdempotencyKey: optional.Pointer(e.IdempotencyKey), RequestSha256: optional.Pointer(e.RequestSHA256),
	})
	if !errors.Is(err, pgx.ErrNoRows) {
		return id, err
	}

	before, err := queries.EventByKey(ctx, s.DB(), db.EventByKeyParams{
		IdempotencyKey: e.IdempotencyKey, SentBy: e.By.Name, Project: project,
	})
	if err == nil && before.RequestSha256 != e.RequestSHA256 {
		err = ErrKeyUsed
	}
	return before.EventID, err
}

// wakeFor wakes the runs that wait for an event, unless that was done before. The event is committed: a run that
// begins to wait puts that on record before it looks for events, so one of the two sees the other.
func (s *Store) wakeFor(ctx context.Context, eventID int64) error {
	err := s.InTx(ctx, func(ctx context.Context, tx *store.Tx) error {
		if err := queries.EventTurn(ctx, tx, eventID); err != nil {
			return err
		}
		return queries.EventWake(ctx, tx, eventID)
	})
	if err == nil {
		s.bell.RingNow()
	}
	return err
}

// wakeAtOnce bounds for how many events [Store.WakeForEvents] wakes runs.
const wakeAtOnce = 100

// WakeForEvents wakes the runs that wait for events whose senders were lost before they had done so.
func (s *Store) WakeForEvents(ctx context.Context) error {
	open, err := queries.EventOpen(ctx, s.DB(), wakeAtOnce)
	for _, id := range open {
		err = errors.Join(err, s.wakeFor(ctx, id))
	}
	if err != nil {
		return fmt.Errorf("wake runs for events: %w", pg.Translate(err))
	}
	return nil
}

// AwaitEvent notes that a tool call waits for the event with a key, or until a time. One of them may be missing.
func AwaitEvent(toolCallID, key string, until time.Time) RunOp {
	return RunOp{queue: func(q *pgx.Batch, l Lease) {
		q.Queue(db.EventWaitAdd, toolCallID, optional.Pointer(key), optional.Pointer(until), l.RootPlanID, l.PlanID)
	}}
}

// TakeEvent ends the wait of an attempt of a tool call, if it is over: then end returns the changes that end the call
// with the data of the event, which the run takes in the same transaction; nil: the time is over. It is told, too,
// if the call still waits, and may be called again: what it is told last holds.
func TakeEvent(
	toolCallID string, attempt int64, end func(over bool, data json.RawMessage) []record.Change,
) RunOp {
	return RunOp{queue: func(*pgx.Batch, Lease) {}, follows: func(w *store.OwnedWrite) {
		var over []json.RawMessage
		addAsks(w, func(q *pgx.Batch) {
			take := q.Queue(db.EventTake, w.RootPlanID, w.Hold.PlanID, toolCallID, attempt)
			take.Query(func(rows pgx.Rows) (err error) {
				over, err = pgx.CollectRows(rows, pgx.RowTo[json.RawMessage])
				return err
			})
		}, func() ([]record.Change, error) {
			if len(over) == 0 {
				return end(false, nil), nil
			}
			return end(true, over[0]), nil
		})
	}}
}
