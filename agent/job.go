package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/record"
)

// Job asks for a run.
type Job struct {
	// Work is what is run: a [Request], a [Talk], a [Flow], a [Task], a [Template], a [Graph], an [Orchestration], or an
	// [Input] of another executor.
	Work Work
	// ConversationID is the conversation that the run belongs to. What was said before in it is known to an agent with
	// IncludeHistory, to a Talk with History, and to an Orchestration.
	ConversationID string
	// Project, UserID and Tags are on record. The runs of one user take turns with those of others.
	Project, UserID string
	Tags            []string
	// Starter is who starts the run, as the program knows them. Conversations and idempotency keys are theirs: the same id
	// of another starter is another conversation. Where a policy says notStarter, they may not approve its calls. Empty:
	// nobody.
	Starter string
	// Priority is from 0 to 9; nil: 5. What has a higher one begins first.
	Priority *int `json:",omitempty"` // as if it were not there, in the hash of jobs that do not have it
	// ConcurrencyKey lets only one run of a project with the same key go on at once, in the order of their start. A
	// configuration may allow more. Empty: any number of them.
	ConcurrencyKey string `json:",omitempty"`
	// Limits bound the run, beside those of its agents.
	Limits Limits
	// IdempotencyKey makes Start safe to repeat: the same job of the same starter with the same key is the same run.
	IdempotencyKey string
	// StartAt is when the run may begin. Zero: at once.
	StartAt time.Time `json:",omitzero"`
	// ExpiresAt is when the run ends, CANCELLED with the error kind expired, if no worker has begun it. It must be after
	// StartAt. Zero: never.
	ExpiresAt time.Time `json:",omitzero"`
}

// Limits bound a run and all below it. 0 means no limit.
type Limits struct {
	Rounds    int64 // calls of models
	ToolCalls int64
	Tokens    int64 // to and from models
	CostUSD   float64
	Seconds   float64
}

// Start puts a run on record and returns the id of its plan. A worker goes on with it: in this process, if
// it works, or in another. The error is a [*record.InvalidError] that names the field, wraps
// [record.ErrNotFound] if nothing of that name is registered here, or wraps [record.ErrUnavailable]: then
// the run may have been started, and an IdempotencyKey makes it safe to start it again.
func (r *Runtime) Start(ctx context.Context, j Job) (planID string, err error) {
	err = r.during(func() error {
		planID, err = r.start(ctx, j)
		return err
	}, "start a run")
	return planID, err
}

func (r *Runtime) start(ctx context.Context, j Job) (string, error) {
	in, err := j.input()
	if err != nil {
		return "", err
	}

	q := engine.Request{
		Executor: in.Executor, Name: in.Name, ConversationID: j.ConversationID, Project: j.Project, UserID: j.UserID,
		Tags: j.Tags, Starter: j.Starter, Limits: new(engine.Limits(j.Limits)), IdempotencyKey: j.IdempotencyKey,
		Priority: j.Priority, ConcurrencyKey: j.ConcurrencyKey,
		StartAt: j.StartAt, ExpiresAt: j.ExpiresAt,
	}
	if in.Input != nil {
		if q.Input, err = json.Marshal(in.Input); err != nil {
			return "", invalid("input", "cannot be written as JSON")
		}
	}

	j.Work = nil
	if q.Body, err = json.Marshal([]any{in, j}); err != nil { // what makes two jobs the same
		return "", err
	}
	started, err := r.engine.Start(ctx, q)
	return started.PlanID, asField(err)
}

// input checks what a database could not keep, and returns what is run.
func (j Job) input() (in Input, err error) {
	ids := map[string]string{
		"conversationId": j.ConversationID, "project": j.Project, "userId": j.UserID, "starter": j.Starter,
		"idempotencyKey": j.IdempotencyKey, "concurrencyKey": j.ConcurrencyKey,
	}
	if len(j.Tags) > record.MaxListItems {
		return in, invalid("tags", fmt.Sprintf("must not have over %d items", record.MaxListItems))
	}
	for i, tag := range j.Tags {
		ids[fmt.Sprintf("tags[%d]", i)] = tag
	}

	if err := checkTexts(record.MaxIDBytes, ids); err != nil {
		return in, err
	}

	if j.Work == nil {
		return in, invalid("work", "is required")
	}
	return j.Work.input()
}

// asField returns an error about a request with the name of the field in [Job] or its work.
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
