package agent

import (
	"context"
	"encoding/json"

	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// EventOptions say how an event is sent.
type EventOptions struct {
	// Project is that of the runs which may take it: no others do. Empty: that of jobs without one.
	Project string
	// By is who sends it, as the program knows them. May be empty.
	By string
	// IdempotencyKey makes Event safe to repeat: the same event by the same person with the same key is sent once.
	IdempotencyKey string
}

// Event sends an event, and returns how many runs it woke: those of the project that wait for its key, in an agent's
// call of wait_for or in [workflow.Facade]. Runs that begin to wait for it within 24 hours get it, too, each once. data
// is written as JSON, of at most 256 KiB. The error is a [*record.InvalidError] that names the field, or one of the
// database: then it is not known whether the event was sent.
//
// [workflow.Facade]: https://pkg.go.dev/github.com/actlog/actlog/agent/workflow#Facade
func (r *Runtime) Event(ctx context.Context, key string, data any, how EventOptions) (woken int, err error) {
	err = r.during(func() error {
		if err := checkTexts(record.MaxIDBytes, map[string]string{
			"key": key, "project": how.Project, "by": how.By, "idempotencyKey": how.IdempotencyKey,
		}); err != nil {
			return err
		}

		raw, err := json.Marshal(data)
		if err != nil {
			return invalid("data", "cannot be written as JSON: "+err.Error())
		}
		body, err := json.Marshal([]any{key, json.RawMessage(raw), how.Project})
		if err != nil {
			return err
		}

		woken, err = r.engine.SendEvent(ctx, engine.EventRequest{
			Key: key, Data: raw, Project: how.Project, By: runstore.Who{Name: how.By},
			IdempotencyKey: how.IdempotencyKey, Body: body,
		})
		return asField(err)
	}, "send event %q", key)
	return woken, err
}
