package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// MaxEventBytes bounds the data of an event, as JSON.
const MaxEventBytes = 256 << 10

// EventRequest asks to send an event to the runs of a project.
type EventRequest struct {
	Key     string
	Data    json.RawMessage // nil: null
	Project string          // empty: the default one
	By      runstore.Who
	// IdempotencyKey is that of the request; empty: none. Body must be the same if the key is.
	IdempotencyKey string
	Body           []byte
}

// SendEvent sends an event, and returns how many runs it woke. Those that begin to wait for it within a day get it,
// too. What must not be on record is replaced in its key and its data. The error is a [*record.InvalidError] that names
// the field, or one of [runstore.Store.SendEvent].
func (e *Engine) SendEvent(ctx context.Context, r EventRequest) (woken int, err error) {
	data := r.Data
	if len(data) == 0 {
		data = json.RawMessage("null")
	}
	switch {
	case r.Key == "":
		return 0, &record.InvalidError{Code: record.CodeMissingField, Field: "key", Reason: "is required"}
	case checkEventKey("key", r.Key) != nil:
		return 0, BadInput("key", mustBeKey)
	case len(r.Project) > record.MaxIDBytes || !isStorable(r.Project):
		return 0, BadInput("project", mustBeKey)
	case len(data) > MaxEventBytes:
		return 0, BadInput("data", fmt.Sprintf("must not be longer than %d bytes as JSON", MaxEventBytes))
	case !json.Valid(data) || !utf8.Valid(data):
		return 0, BadInput("data", "must be JSON")
	}

	parts, release := e.config.Parts()
	defer release()
	data = json.RawMessage(parts.Redact(string(data)))
	if !json.Valid(data) {
		return 0, BadInput("data", "holds what must not be on record, in a form that is no JSON without it")
	}

	sent := runstore.Event{
		Project: r.Project, Key: parts.Redact(r.Key), Data: data, By: r.By, IdempotencyKey: r.IdempotencyKey,
	}
	if r.IdempotencyKey != "" {
		sent.RequestSHA256 = hash(r.Body)
	}
	woken, err = e.store.SendEvent(ctx, sent)
	if errors.Is(err, runstore.ErrKeyUsed) {
		err = BadInput("Idempotency-Key", runstore.ErrKeyUsed.Error())
	}
	return woken, err
}

var mustBeKey = fmt.Sprintf("must be UTF-8 without NUL of at most %d bytes", record.MaxIDBytes)

// checkEventKey checks the key of an event, which is in a field.
func checkEventKey(field, key string) error {
	if len(key) > record.MaxIDBytes || !isStorable(key) {
		return errors.New(field + ": " + mustBeKey)
	}
	return nil
}

func isStorable(text string) bool { return utf8.ValidString(text) && !strings.Contains(text, "\x00") }

// wakeForEvents wakes the runs that wait for events whose senders were lost.
func (e *Engine) wakeForEvents(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, e.config.Lease)
	defer cancel()
	if err := e.store.WakeForEvents(limited); err != nil && cmp.Or(ctx.Err(), limited.Err()) == nil { // it looks again
		e.config.Logger.Debug("runs that wait for an event cannot be woken; it is tried again", "error", err)
	}
}
