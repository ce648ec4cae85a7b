//go:build linux

package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// awaitEvent waits for the next event of what the run is about.
var awaitEvent = scriptmodel.ToolCall{Name: "wait_for", Arguments: object{"event": "event:" + aboutPlace}}

// eventsEach is how many events a run waits for. All have the same key.
const eventsEach = 2

// waiting is a run that waits for events, which the driver sends.
var waiting = kind{name: "waiting", request: agentRun("waiting").request, beside: (*house).sendEvents}

// sendEvents sends the events of a run: before it waits for them, or later.
func (h *house) sendEvents(ctx context.Context, r *oneRun) {
	for n := range eventsEach {
		key := fmt.Sprintf("%s-event-%d", r.about, n)
		pause(ctx, time.Duration(h.pick(key, 5000))*time.Millisecond)
		event := object{"key": "event:" + r.about, "data": object{"n": n}}

		var first, again struct{ Woken int }
		h.call(ctx, http.MethodPost, "/events", key, event, &first)
		h.call(ctx, http.MethodPost, "/events", key, event, &again)
		if first != again && ctx.Err() == nil {
			h.violated("event %s woke %d runs, and %d when it was sent again", key, first.Woken, again.Woken)
		}
	}
}

// checkEvents checks that each event is on record once, and was taken by its run. Which call took which one is in the
// outlines.
func (h *house) checkEvents(ctx context.Context) (rows [][2]any, err error) {
	if err := h.none(ctx, "event that is not on record once: %s", fmt.Sprintf(
		`SELECT key || ' ' || count(*) FROM actlog.event GROUP BY key HAVING count(*) <> %d OR count(DISTINCT data::text) <> %[1]d`,
		eventsEach)); err != nil {
		return nil, err
	}

	if err := h.none(ctx, "run that did not take each of its events: %s", fmt.Sprintf(
		`SELECT root_plan_id || ' ' || count(*) FROM actlog.event_taken GROUP BY root_plan_id HAVING count(*) <> %d`,
		eventsEach)); err != nil {
		return nil, err
	}

	if err := h.none(ctx, "call that still waits for an event: %s",
		`SELECT root_plan_id || ' ' || tool_call_id FROM actlog.event_wait`); err != nil {
		return nil, err
	}

	var sent, taken int
	err = h.db.QueryRow(ctx, `SELECT (SELECT count(*) FROM actlog.event), (SELECT count(*) FROM actlog.event_taken)`).
		Scan(&sent, &taken)
	return [][2]any{{"events", fmt.Sprintf("%d, taken by runs and their forks %d times", sent, taken)}}, err
}
