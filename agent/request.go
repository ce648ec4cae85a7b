package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/record"
)

// Request asks for a run of an agent.
type Request struct {
	Agent   string // its name
	Request string // what it is to do
	// ConversationID is the conversation that the run belongs to. An agent with IncludeHistory is told what
	// was said before in it.
	ConversationID string
	// Project, UserID and Tags stand on record. The runs of one user take turns with those of others.
	Project, UserID string
	Tags            []string
	// Starter is who starts the run, as the program knows them. Conversations and idempotency keys are theirs: the same id of
	// another starter is another conversation. Where a policy says notStarter, they may not approve its calls. Empty: nobody.
	Starter string `json:",omitempty"`
	// Limits bound the run, beside those of its agent.
	Limits Limits
	// IdempotencyKey makes Start safe to repeat: the same request of the same starter with the same key is the same run.
	IdempotencyKey string
}

// Start puts a run on record and returns the id of its plan. A worker goes on with it: in this process, if
// it works, or in another. The error is a [*record.InvalidError] that names the field, wraps
// [record.ErrNotFound] if no agent of that name is registered here, or wraps [record.ErrUnavailable]: then
// the run may have been started, and an IdempotencyKey makes it safe to start it again.
func (r *Runtime) Start(ctx context.Context, q Request) (planID string, err error) {
	done, err := r.enter()
	if err == nil {
		defer done()
		planID, err = r.start(ctx, q)
	}
	if err != nil {
		return "", fmt.Errorf("start a run: %w", err)
	}
	return planID, nil
}

func (r *Runtime) start(ctx context.Context, q Request) (string, error) {
	if err := q.check(); err != nil {
		return "", err
	}
	input, err := json.Marshal(map[string]string{"agent": q.Agent, "request": q.Request})
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(q)
	if err != nil {
		return "", err
	}
	started, err := r.engine.Start(ctx, engine.Request{
		Executor: "agent", Name: q.Agent, Input: input, Starter: q.Starter, ConversationID: q.ConversationID, Project: q.Project, UserID: q.UserID, Tags: q.Tags,
		Limits: new(engine.Limits(q.Limits)), IdempotencyKey: q.IdempotencyKey, Body: body,
	})
	return started.PlanID, asField(err)
}

// check checks what a database could not keep.
func (q Request) check() error {
	texts := map[string]string{
		"agent": q.Agent, "conversationId": q.ConversationID, "project": q.Project, "userId": q.UserID, "idempotencyKey": q.IdempotencyKey,
		"starter": q.Starter,
	}
	if len(q.Tags) > record.MaxListItems {
		return invalid("tags", fmt.Sprintf("must not have over %d items", record.MaxListItems))
	}
	for i, tag := range q.Tags {
		texts[fmt.Sprintf("tags[%d]", i)] = tag
	}
	for field, text := range texts {
		if len(text) > record.MaxIDBytes || !storable(text) {
			return invalid(field, fmt.Sprintf("must be UTF-8 without NUL of at most %d bytes", record.MaxIDBytes))
		}
	}
	if len(q.Request) > record.MaxTextBytes || !storable(q.Request) {
		return invalid("request", fmt.Sprintf("must be UTF-8 without NUL of at most %d bytes", record.MaxTextBytes))
	}
	return nil
}

// storable reports whether Postgres can keep a text.
func storable(text string) bool { return utf8.ValidString(text) && !strings.Contains(text, "\x00") }

func invalid(field, reason string) error {
	return &record.InvalidError{Code: record.CodeInvalidValue, Field: field, Reason: reason}
}

// asField returns an error about a request with the name of the field in [Request].
func asField(err error) error {
	bad := new(record.InvalidError)
	if !errors.As(err, &bad) {
		return err
	}
	named := *bad
	if named.Field = strings.TrimPrefix(bad.Field, "input."); named.Field == "Idempotency-Key" {
		named.Field = "idempotencyKey"
	}
	return &named
}
