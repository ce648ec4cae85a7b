package engine

import (
	"context"
	"time"
)

// Derive is derive, for tests that foresee the ids of rows.
var Derive = derive

// UnknownText is what a model reads of a call whose outcome nobody can tell.
const UnknownText = unknownText

// SetGrace sets how long a result waits for what begins after it.
func (e *Engine) SetGrace(d time.Duration) { e.grace = d }

// SetProgressEvery sets how often the progress of a call is put on record.
func (e *Engine) SetProgressEvery(d time.Duration) { e.progressEvery = d }

// Look does what the time has come for, once.
func (e *Engine) Look(ctx context.Context) {
	e.expire(ctx)
	for e.keepSchedules(ctx) {
	}
}
