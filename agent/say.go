package agent

import (
	"context"
	"encoding/json"
	"time"

	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// ErrManyUnread means that 100 messages to a run wait to be read.
var ErrManyUnread = runstore.ErrManyUnread

// MessageState says whether a message was read.
type MessageState string

// The states of messages.
const (
	MessagePending MessageState = runstore.MessagePending
	MessageRead    MessageState = runstore.MessageRead
	MessageUnread  MessageState = runstore.MessageUnread // the run ended before
)

// Message is what somebody said to a run at work.
type Message struct {
	ID        string
	PlanID    string // of the run that reads it
	To        string // the step that is to read it; empty: the one whose model is asked next
	Text      string // redacted
	By        string // empty: not known
	Interrupt bool
	State     MessageState
	CreatedAt time.Time
	ReadAt    *time.Time // nil: not yet
	StepID    string     // of the cycle that read it
	Seq       *int64     // of that cycle
}

// SayOptions say how a message is read.
type SayOptions struct {
	// To is the id of a step that goes on, of the run or of one below it. Default: the step of the run whose model is
	// asked next.
	To string
	// Interrupt cancels the call of the model that is under way, which is made again with the message. Tool calls go on.
	Interrupt bool
	// By is who says it, as the program knows them. May be empty.
	By string
	// IdempotencyKey makes Say safe to repeat: the same message by the same person with the same key is sent once.
	IdempotencyKey string
}

// Say says something to a run at work, in at most 16 KiB: its model reads it as a message of the user. An agent that is
// done is asked once more while a message waits for it; if the run ends otherwise, the message stays UNREAD. The error
// is a [*record.InvalidError] that names text or to, [ErrEnded], [ErrManyUnread], or wraps [record.ErrNotFound].
func (r *Runtime) Say(ctx context.Context, planID, text string, how SayOptions) (m Message, err error) {
	err = r.during(func() error {
		if err := checkAgain(planID, how.By, how.IdempotencyKey); err != nil {
			return err
		}
		if err := checkTexts(record.MaxIDBytes, map[string]string{"to": how.To}); err != nil {
			return err
		}

		body, err := json.Marshal([]any{text, how.To, how.Interrupt})
		if err != nil {
			return err
		}

		q := engine.SayRequest{
			PlanID: planID, Text: text, To: how.To, By: runstore.Who{Name: how.By}, IdempotencyKey: how.IdempotencyKey,
			Body: body,
		}
		if how.Interrupt {
			q.When = engine.WhenInterrupt
		}

		said, err := r.engine.Say(ctx, q)
		m = messageOf(said)
		return asField(err)
	}, "say something to run %s", planID)
	return m, err
}

// Said returns what was said to a run and to the runs below it, oldest first: at most so many messages, those after one
// of an id; empty: the first. The error wraps [record.ErrNotFound] if there is no such run.
func (r *Runtime) Said(ctx context.Context, planID, after string, limit int) (all []Message, err error) {
	err = r.during(func() error {
		if err := checkAgain(planID, "", ""); err != nil {
			return err
		}
		said, err := r.store.Reader.SaidTo(ctx, planID, after, limit)
		for _, m := range said {
			all = append(all, messageOf(m))
		}
		return err
	}, "read what was said to run %s", planID)
	return all, err
}

func messageOf(m runstore.Message) Message {
	return Message{
		ID: m.MessageID, PlanID: m.PlanID, To: optional.Value(m.To), Text: m.Text, By: optional.Value(m.By),
		Interrupt: m.Interrupts, State: MessageState(m.State), CreatedAt: m.CreatedAt, ReadAt: m.ReadAt,
		StepID: optional.Value(m.StepID), Seq: m.Seq,
	}
}
