package runstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/store"
)

// The states of messages.
const (
	MessagePending = "PENDING"
	MessageRead    = "READ"
	MessageUnread  = "UNREAD" // the run ended before
)

// maxUnread bounds how many messages to a run wait.
const maxUnread = 100

// Message is what somebody said to a run at work.
type Message struct {
	MessageID  string
	PlanID     string  // of the run that reads it
	To         *string // the step that is to read it; nil: the one that thinks next
	Text       string
	By         *string // nil: not known
	Interrupts bool    // the model call under way is cancelled for it
	State      string
	CreatedAt  time.Time
	ReadAt     *time.Time // nil: not yet
	StepID     *string    // of the cycle that read it
	Seq        *int64
}

// NewMessage is what somebody says to a run.
type NewMessage struct {
	MessageID  string
	PlanID     string
	To         string // a step of the run, or of one below it, that goes on; empty: the step of the run that thinks next
	Text       string // redacted
	By         Who
	Interrupts bool
	// IdempotencyKey, if it is set, is that of the request, whose hash is RequestSHA256.
	IdempotencyKey, RequestSHA256 string
}

// ErrNoReader means that a message is for a step that does not go on, or is none of the run.
var ErrNoReader = errors.New("is no step of the run that goes on")

// ErrManyUnread means that too many messages to a run wait.
var ErrManyUnread = fmt.Errorf("%d messages to the run wait to be read: say the rest later", maxUnread)

// Say says something to a run at work. The same request says it once. The error is [record.ErrNotFound] if there is no
// such run, [ErrEnded], [ErrNoReader], [ErrManyUnread] or [ErrKeyUsed].
func (s *Store) Say(ctx context.Context, n NewMessage) (m Message, err error) {
	err = s.InTx(ctx, func(ctx context.Context, tx *store.Tx) error {
		m, err = say(ctx, tx, n)
		return err
	})
	if err != nil {
		return m, fmt.Errorf("say something to run %s: %w", n.PlanID, err)
	}
	s.bell.RingNow()
	return m, nil
}

func say(ctx context.Context, tx *store.Tx, n NewMessage) (m Message, err error) {
	run, err := queries.RunStands(ctx, tx, n.PlanID)
	if err != nil {
		return m, pg.Translate(err)
	}
	if err := tx.Lock(ctx, run.RootPlanID); err != nil {
		return m, err
	}
	if m, before, err := saidBefore(ctx, tx, run.RootPlanID, n); before || err != nil {
		return m, err
	}

	m = Message{
		MessageID: n.MessageID, PlanID: n.PlanID, To: optional.Pointer(n.To), Text: n.Text, Interrupts: n.Interrupts,
		By: optional.Pointer(n.By.String()), State: MessagePending,
	}
	if n.To != "" {
		if m.PlanID, err = readerOf(ctx, tx, run.RootPlanID, n); err != nil {
			return m, err
		}
	}

	unread, err := queries.MessageCount(ctx, tx, db.MessageCountParams{RootPlanID: run.RootPlanID, PlanID: m.PlanID})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return m, ErrEnded
	case err != nil:
		return m, err
	case unread > maxUnread:
		return m, ErrManyUnread
	}

	m.CreatedAt, err = queries.MessageAdd(ctx, tx, db.MessageAddParams{
		RootPlanID: run.RootPlanID, MessageID: n.MessageID, PlanID: m.PlanID, ToStepID: m.To, Text: n.Text,
		SaidBy: optional.Pointer(n.By.Name), ClaimedBy: optional.Pointer(n.By.Claim), Interrupts: n.Interrupts,
		IdempotencyKey: optional.Pointer(n.IdempotencyKey), RequestSha256: optional.Pointer(n.RequestSHA256),
	})
	return m, err
}

// saidBefore returns the message if it was said before, by the same request or by this call, which is repeated.
func saidBefore(
	ctx context.Context, tx *store.Tx, rootPlanID string, n NewMessage,
) (m Message, before bool, err error) {
	row, err := queries.MessageSaid(ctx, tx, db.MessageSaidParams{
		RootPlanID: rootPlanID, MessageID: n.MessageID, IdempotencyKey: n.IdempotencyKey, SaidBy: n.By.Name,
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return m, false, nil
	case err == nil && optional.Value(row.RequestSha256) != n.RequestSHA256:
		return m, true, ErrKeyUsed
	}
	return messageOf(db.MessageListRow{
		MessageID: row.MessageID, PlanID: row.PlanID, ToStepID: row.ToStepID, Text: row.Text, SaidBy: row.SaidBy,
		Interrupts: row.Interrupts, State: row.State, CreatedAt: row.CreatedAt, ReadAt: row.ReadAt, StepID: row.StepID,
		Seq: row.Seq,
	}), true, err
}

// readerOf returns the run of the step that a message is for.
func readerOf(ctx context.Context, tx *store.Tx, rootPlanID string, n NewMessage) (planID string, err error) {
	planID, err = queries.MessageReader(ctx, tx, db.MessageReaderParams{
		RootPlanID: rootPlanID, PlanID: n.PlanID, StepID: n.To,
	})
	if !errors.Is(err, pgx.ErrNoRows) {
		return planID, err
	}

	run, err := queries.RunStands(ctx, tx, n.PlanID)
	if err == nil && run.Done {
		err = ErrEnded
	}
	if err != nil {
		return "", err
	}
	return "", ErrNoReader
}

func messageOf(row db.MessageListRow) Message {
	m := Message{
		MessageID: row.MessageID, PlanID: row.PlanID, To: row.ToStepID, Text: row.Text, By: optional.Pointer(row.SaidBy),
		Interrupts: row.Interrupts, State: row.State, CreatedAt: row.CreatedAt, ReadAt: row.ReadAt, StepID: row.StepID,
	}
	if row.Seq != nil {
		m.Seq = new(int64(*row.Seq))
	}
	return m
}

// SaidTo returns a page of the messages to a run and to the runs below it, in their order: those after a message;
// empty: the first. The error is [record.ErrNotFound] if there is no such run.
func (r *Reader) SaidTo(ctx context.Context, planID, after string, limit int) ([]Message, error) {
	rows, err := read(ctx, r.DB(), queries.MessageList, db.MessageListParams{
		PlanID: planID, After: after, Most: int32(limit),
	})
	if err == nil && len(rows) == 0 {
		_, err = read(ctx, r.DB(), queries.RunStands, planID)
	}
	if err != nil {
		return nil, fmt.Errorf("read what was said to run %s: %w", planID, err)
	}
	return all(rows, messageOf), nil
}

// Unread reports whether a message to a run waits for one of some steps of it.
func (s *Store) Unread(ctx context.Context, rootPlanID, planID string, steps ...string) (bool, error) {
	params := db.MessageUnreadParams{RootPlanID: rootPlanID, PlanID: planID}
	waiting, err := read(ctx, s.DB(), queries.MessageUnread, params)
	if err != nil {
		return false, fmt.Errorf("look for messages to run %s: %w", planID, err)
	}
	return concerns(waiting, steps), nil
}
