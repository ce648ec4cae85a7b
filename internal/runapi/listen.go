package runapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/httpd"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/record"
)

// The levels of listeners, each with what those before it are told.
var levels = []string{"MINIMAL", "STANDARD", "VERBOSE"}

// heard is what a listener is told.
type heard struct {
	name  string
	level int // from which on
	key   string
	data  any
}

// heardOf returns all that a listener is told of a run as it stands, in order. Each has a key of its own.
func heardOf(t *traceJSON) (all []heard) {
	for i := range t.StepTraces {
		st := &t.StepTraces[i]
		if st.StartTime != nil {
			all = append(all, heard{"onStepStarted", 0, "started" + st.StepID, st})
		}
		if st.Reasoning != nil {
			all = append(all, heard{"onReasoningCaptured", 2, "reasoning" + st.StepID, map[string]any{"stepId": st.StepID, "reasoning": st.Reasoning}})
		}
		if n := len(st.Sources); n > 0 {
			all = append(all, heard{"onSourcesDiscovered", 1, fmt.Sprint("sources", n, st.StepID), map[string]any{"stepId": st.StepID, "sources": st.Sources}})
		}
		switch {
		case st.State == record.Failed:
			all = append(all, heard{"onStepFailed", 0, "ended" + st.StepID, st})
		case st.State.Terminal():
			all = append(all, heard{"onStepCompleted", 0, "ended" + st.StepID, st})
		}
	}
	if t.FinalState.Terminal() {
		all = append(all, heard{"onExecutionCompleted", 0, "execution", t})
	}
	return all
}

// silence is how long a stream says nothing before it says that it goes on.
const silence = 15 * time.Second

// listen streams what happens in a run until it has ended, from its beginning.
func (s *Server) listen(c echo.Context) error {
	id, err := httpd.NativeID(c, "planId")
	if err != nil {
		return err
	}
	q := httpd.QueryOf(c, "level")
	level := slices.Index(levels, cmp.Or(q.Text("level"), levels[1]))
	if q.Err == nil && level < 0 {
		q.Err = httpd.BadField("level", "must be MINIMAL, STANDARD or VERBOSE")
	}
	if q.Err != nil {
		return q.Err
	}
	d, err := s.reader(c).RunDetail(c.Request().Context(), id)
	if err != nil {
		return err
	}
	if s.talks.Add(1) > maxTalks {
		s.talks.Add(-1)
		return &httpd.Problem{Status: http.StatusServiceUnavailable, Detail: "the server has as many streams as it may; try again soon, or another server", RetryAfter: 5}
	}
	defer s.talks.Add(-1)
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	h.Set(gzhttp.HeaderNoCompression, "1")
	if err := httpd.AnswerTo(c).Stream(0); err != nil {
		return err
	}
	return s.tell(c, d, level)
}

// tell tells a listener what it has not heard, whenever something changed.
func (s *Server) tell(c echo.Context, d *store.RunDetail, level int) error {
	ctx, told, ended := c.Request().Context(), map[string]bool{}, false
	for !ended && ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, silence)
		err := s.watch.Wait(limited, d.Plan.RootPlanID, func() (bool, error) {
			t, err := s.traceOf(c, s.store.Within(func(int64) error { return nil }), func(int64) error { return nil }, d)
			if err != nil {
				return false, err
			}
			for _, e := range heardOf(&t) {
				if told[e.key] || e.level > level {
					continue
				}
				told[e.key] = true
				if err := sendHeard(c, e); err != nil {
					return false, err
				}
			}
			ended = t.FinalState.Terminal()
			return ended, nil
		})
		cancel()
		if err == nil && !ended {
			err = flushText(c, ":\n\n")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func sendHeard(c echo.Context, e heard) error {
	data, err := json.Marshal(e.data)
	if err != nil {
		return err
	}
	return flushText(c, fmt.Sprintf("event: %s\ndata: %s\n\n", e.name, data))
}
