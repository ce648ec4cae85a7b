package runstore

import (
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/record"
)

// maxReadByCycle bounds how many messages a cycle reads, so that its row can keep them. The next one reads the others.
const maxReadByCycle = 32

// ErrUnread means that a message waits for a step that the write would end, see [Heard]. Nothing was written.
var ErrUnread = errors.New("a message waits to be read")

// concerns reports whether messages that wait for steps, empty: for any, concern some steps.
func concerns(waiting, steps []string) bool {
	return slices.ContainsFunc(waiting, func(to string) bool {
		return to == "" && len(steps) > 0 || slices.Contains(steps, to)
	})
}

// Reading is a cycle that begins, and reads the messages that wait for its step.
type Reading struct {
	StepID string
	Seq    int64
	// Then returns the changes that follow from what the cycle reads, with what it read before. It may be called again.
	// It is not called if no message waits.
	Then func([]record.SteeringMessage) ([]record.Change, error)
}

// hearing is what a write has to do with the messages to its run.
type hearing struct {
	ends  []string // the steps that it ends
	reads []Reading
}

// ask adds to a write what it asks about the messages to its run.
func (h *hearing) ask(w *store.OwnedWrite) {
	if len(h.ends) > 0 {
		h.askUnread(w)
	}
	if len(h.reads) > 0 {
		h.askRead(w)
	}
}

func (h *hearing) askUnread(w *store.OwnedWrite) {
	var waiting []string
	addAsks(w, func(q *pgx.Batch) {
		q.Queue(db.MessageUnread, w.RootPlanID, w.Hold.PlanID).Query(func(rows pgx.Rows) (err error) {
			waiting, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
	}, func() ([]record.Change, error) {
		if concerns(waiting, h.ends) {
			return nil, ErrUnread
		}
		return nil, nil
	})
}

func (h *hearing) askRead(w *store.OwnedWrite) {
	steps, seqs := make([]string, len(h.reads)), make([]int32, len(h.reads))
	for i, each := range h.reads {
		steps[i], seqs[i] = each.StepID, int32(each.Seq)
	}

	var found []db.MessageReadRow
	addAsks(w, func(q *pgx.Batch) {
		q.Queue(db.MessageRead, steps, seqs, w.RootPlanID, w.Hold.PlanID, maxReadByCycle).Query(
			func(rows pgx.Rows) (err error) {
				found, err = pgx.CollectRows(rows, pgx.RowToStructByPos[db.MessageReadRow])
				return err
			})
	}, func() (changes []record.Change, err error) {
		for _, each := range h.reads {
			next, err := each.Then(readBy(each.StepID, found))
			if err != nil {
				return nil, err
			}
			changes = append(changes, next...)
		}
		return changes, nil
	})
}

// readBy returns the messages that a step has read.
func readBy(stepID string, found []db.MessageReadRow) (messages []record.SteeringMessage) {
	for _, row := range found {
		if row.StepID == stepID {
			messages = append(messages, record.SteeringMessage{
				MessageID: row.MessageID, Text: row.Text, By: optional.Pointer(row.SaidBy), CreatedAt: row.CreatedAt,
			})
		}
	}
	return messages
}

// addAsks adds a question to a write, and what follows from its answer.
func addAsks(w *store.OwnedWrite, asks func(*pgx.Batch), then func() ([]record.Change, error)) {
	asksBefore, thenBefore := w.Asks, w.Then
	if asksBefore == nil {
		w.Asks, w.Then = asks, then
		return
	}

	w.Asks = func(q *pgx.Batch) {
		asksBefore(q)
		asks(q)
	}
	w.Then = func() ([]record.Change, error) {
		changes, err := thenBefore()
		if err != nil {
			return nil, err
		}
		next, err := then()
		return append(changes, next...), err
	}
}
