package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// MaxMessageBytes bounds what is said to a run at once.
const MaxMessageBytes = 16 << 10

// When a message is read.
const (
	WhenNext      = "next"      // at the next boundary
	WhenInterrupt = "interrupt" // at once: the model call under way is cancelled
)

// SayRequest is what somebody says to a run at work.
type SayRequest struct {
	PlanID string
	Text   string
	To     string // a step that goes on; empty: the step of the run that thinks next
	When   string // empty: [WhenNext]
	By     runstore.Who
	// IdempotencyKey is that of the request; empty: none. Body must be the same if the key is.
	IdempotencyKey string
	Body           []byte
}

// Say says something to a run at work. The error is a [*record.InvalidError] that names a member, or one of
// [runstore.Store.Say].
func (e *Engine) Say(ctx context.Context, r SayRequest) (runstore.Message, error) {
	text := strings.ReplaceAll(strings.ToValidUTF8(r.Text, "\uFFFD"), "\x00", "\uFFFD")
	switch {
	case strings.TrimSpace(text) == "":
		return runstore.Message{}, NoInput("text")
	case len(text) > MaxMessageBytes:
		return runstore.Message{}, BadInput("text", fmt.Sprintf("must be at most %d bytes, not %d", MaxMessageBytes,
			len(text)))
	case r.When != "" && r.When != WhenNext && r.When != WhenInterrupt:
		return runstore.Message{}, BadInput("when", "must be "+WhenNext+" or "+WhenInterrupt)
	}

	parts, release := e.config.Parts()
	defer release()
	m, err := e.store.Say(ctx, runstore.NewMessage{
		MessageID: "message-" + uuid.Must(uuid.NewV7()).String(), PlanID: r.PlanID, To: r.To,
		Text: parts.Redact(text), Interrupts: r.When == WhenInterrupt,
		By:             runstore.Who{Name: r.By.Name, Claim: parts.Redact(r.By.Claim)},
		IdempotencyKey: r.IdempotencyKey, RequestSHA256: hash(r.Body),
	})
	if errors.Is(err, runstore.ErrNoReader) {
		err = BadInput("to", runstore.ErrNoReader.Error())
	}
	return m, err
}

// tellAgain notes what is on record that a cycle has read. request is that of the executor.
func (s *Step) tellAgain(c *cycle, request []model.Message) error {
	if c == nil || c.record.Messages == nil {
		return nil
	}
	var read []record.SteeringMessage
	if err := json.Unmarshal(c.record.Messages, &read); err != nil {
		return s.run.mismatch(fmt.Sprintf("cycle:%s/%d", s.id, c.record.Seq), "the messages cannot be read: %v", err)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.told.tell(c.record.Seq, request, read)
	return nil
}

// beginAsking puts the beginning of a model call on record, with the messages that it reads, in one transaction. It
// returns the whole request. said is what the executor tells the model.
func (s *Step) beginAsking(
	begin *record.ThinkAct, said []model.Message, changes ...record.Change,
) ([]model.Message, error) {
	played, err := s.readMessages(begin, said, playedIn(s.run.leased).messages(s.id, begin.Seq))
	if err != nil {
		return nil, err
	}

	var heard []record.SteeringMessage
	reads := runstore.Reading{StepID: s.id, Seq: begin.Seq}
	reads.Then = func(m []record.SteeringMessage) ([]record.Change, error) {
		heard = m
		return s.readMessages(begin, said, m)
	}

	changes = append(append(changes, begin), played...)
	if err := s.run.beginAll(beginning{changes: changes, reads: []runstore.Reading{reads}}); err != nil {
		return nil, err
	}
	s.run.hearing.noteHeard(heard)

	s.mu.Lock()
	defer s.mu.Unlock()
	return s.withMessages(begin.Seq, said), nil
}

// readMessages returns the change that puts on record what a cycle reads.
func (s *Step) readMessages(
	begin *record.ThinkAct, said []model.Message, read []record.SteeringMessage,
) ([]record.Change, error) {
	if len(read) == 0 {
		return nil, nil
	}
	row := &record.ThinkAct{
		RootPlanID: begin.RootPlanID, StepID: begin.StepID, Seq: begin.Seq, Attempt: begin.Attempt,
	}
	var err error
	if row.Messages, err = messagesJSON(read); err != nil {
		return nil, err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.told.tell(begin.Seq, said, read)
	row.ThinkInput, row.InputCharCount = s.recordedInput(s.withMessages(begin.Seq, said))
	return []record.Change{row}, nil
}

// messagesJSON encodes messages with as few escapes as possible: they must fit into a row.
func messagesJSON(m []record.SteeringMessage) (json.RawMessage, error) {
	var b bytes.Buffer
	to := json.NewEncoder(&b)
	to.SetEscapeHTML(false)
	if err := to.Encode(m); err != nil {
		return nil, fmt.Errorf("encode messages: %w", err)
	}
	return b.Bytes(), nil
}

// OnceMore reports whether the agent of the step, which is done, is asked once more, in the cycle of seq: a message
// waits that it has to read, or that cycle has read one before. A step whose executor does not ask that answers its
// last request once more instead.
func (s *Step) OnceMore(ctx context.Context, seq int64) (bool, error) {
	s.mu.Lock()
	s.hears = true
	c, ended := s.cycles[seq], s.ended != nil
	s.mu.Unlock()

	r := s.run
	if len(playedIn(r.leased).messages(s.id, seq)) > 0 {
		return true, nil
	}
	if c != nil && c.record.Messages != nil && !r.isAnew(c.record.Attempt, *c.record.State, c.record.ThinkStartTime) {
		return true, nil
	}
	if ended || !r.hearing.mayHaveUnread() {
		return false, nil
	}
	return r.engine.store.Unread(ctx, r.run.RootPlanID, r.run.PlanID, s.id)
}

// interrupted ends an attempt that a message interrupted.
func interrupted(row *record.ThinkAct, at time.Time) *record.ThinkAct {
	row.State, row.ThinkEndTime = new(record.Cancelled), &at
	row.ErrorKind, row.ErrorMessage = new("interrupted"), new("A message interrupted the call of the model.")
	return row
}

// withMessages returns a request of the executor with what the model was told besides, up to a cycle. The caller holds
// s.mu.
func (s *Step) withMessages(seq int64, request []model.Message) []model.Message {
	return s.told.with(seq, request)
}
