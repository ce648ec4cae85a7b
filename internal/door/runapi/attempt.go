package runapi

import (
	"time"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// attemptJSON is an attempt at a run, as records have it.
type attemptJSON struct {
	Attempt      int64        `json:"attempt"`
	State        record.State `json:"state"`
	StartTime    *time.Time   `json:"startTime"`
	EndTime      *time.Time   `json:"endTime"`
	ErrorMessage *string      `json:"errorMessage"`
	ErrorKind    *string      `json:"errorKind"`
	Truncated    []string     `json:"truncated"`
}

// attemptsOf returns which attempt at a run this is, and all of them; none if there was one only.
func attemptsOf(d *runstore.RunDetail) (attempt int64, all []attemptJSON) {
	own := field.AttemptOf(&d.Plan)
	all = []attemptJSON{}
	if own.Number == 1 {
		return 1, all
	}
	for _, a := range append(d.PastAttempts, own) {
		all = append(all, attemptJSON{
			a.Number, a.State, a.StartTime, a.EndTime, a.ErrorMessage, a.ErrorKind, orEmpty(a.Truncated),
		})
	}
	return own.Number, all
}
