package runapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
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
	level int   // from which on
	step  int64 // its number; 0: the run
	part  string
	data  any
}

// The parts of what a listener is told of a step. That of sources has their number behind it.
const (
	partStarted   = "s"
	partReasoning = "r"
	partSources   = "q"
	partEnded     = "e"
)

// heardOf returns all that a listener is told of a run as it stands, in order.
func heardOf(t *traceJSON) (all []heard) {
	for i := range t.StepTraces {
		st := &t.StepTraces[i]
		if st.StartTime != nil {
			all = append(all, heard{"onStepStarted", 0, st.StepNumber, partStarted, st})
		}
		if st.Reasoning != nil {
			all = append(all, heard{"onReasoningCaptured", 2, st.StepNumber, partReasoning, map[string]any{"stepId": st.StepID, "reasoning": st.Reasoning}})
		}
		if n := len(st.Sources); n > 0 {
			all = append(all, heard{"onSourcesDiscovered", 1, st.StepNumber, partSources + strconv.Itoa(n), map[string]any{"stepId": st.StepID, "sources": st.Sources}})
		}
		switch {
		case st.State == record.Failed:
			all = append(all, heard{"onStepFailed", 0, st.StepNumber, partEnded, st})
		case st.State.Terminal():
			all = append(all, heard{"onStepCompleted", 0, st.StepNumber, partEnded, st})
		}
	}
	if t.FinalState.Terminal() {
		all = append(all, heard{"onExecutionCompleted", 0, 0, partEnded, t})
	}
	return all
}

// told has the parts that a listener was told, by the numbers of their steps. As a text it is the id of an event,
// such as 1-3.4s.4r: steps 1 to 3 have ended, and of step 4 the start and the reasoning were told. So a listener that
// comes back with it is told the rest, by any server.
type told map[int64]map[string]bool

// add notes an event, and reports whether it is new. Of a step that has ended nothing is.
func (t told) add(step int64, part string) bool {
	if t[step][partEnded] || t[step][part] {
		return false
	}
	if t[step] == nil || part == partEnded {
		t[step] = map[string]bool{}
	}
	t[step][part] = true
	return true
}

func (t told) String() string {
	var parts []string
	var from, to int64 // the newest steps that have ended, one after the other
	for _, step := range slices.Sorted(maps.Keys(t)) {
		switch {
		case !t[step][partEnded]:
			for _, part := range slices.Sorted(maps.Keys(t[step])) {
				parts = append(parts, fmt.Sprint(step, part))
			}
		case len(parts) > 0 && to > 0 && step == to+1 && parts[len(parts)-1] == span(from, to):
			to = step
			parts[len(parts)-1] = span(from, to)
		default:
			from, to = step, step
			parts = append(parts, span(from, to))
		}
	}
	return strings.Join(parts, ".")
}

// span is how the id of an event names steps that have ended.
func span(from, to int64) string {
	if from == to {
		return strconv.FormatInt(from, 10)
	}
	return fmt.Sprintf("%d-%d", from, to)
}

// maxTold bounds how many steps the id of an event may name.
const maxTold = 10_000

var toldPart = regexp.MustCompile(`^([0-9]{1,9})(?:-([0-9]{1,9})|([srq][0-9]{0,9}))?$`)

// readTold reads the id of an event; without one nothing was told.
func readTold(id string) (told, error) {
	t, wrong := told{}, httpd.BadField("Last-Event-ID", "must be the id of an event of this stream")
	if id == "" {
		return t, nil
	}
	for text := range strings.SplitSeq(id, ".") {
		m := toldPart.FindStringSubmatch(text)
		if m == nil {
			return nil, wrong
		}
		from, _ := strconv.ParseInt(m[1], 10, 64) // digits
		to, _ := strconv.ParseInt(cmp.Or(m[2], m[1]), 10, 64)
		if to < from || to-from+int64(len(t)) > maxTold {
			return nil, wrong
		}
		for step := from; step <= to; step++ {
			t.add(step, cmp.Or(m[3], partEnded))
		}
	}
	return t, nil
}

// hearings is what all listeners of a run are told, as it stands.
func (s *Server) hearings(ctx context.Context, rootPlanID, planID string) (all []heard, last bool, err error) {
	select {
	case s.hearing <- struct{}{}:
		defer func() { <-s.hearing }()
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	none := func(int64) error { return nil } // no answer holds it
	t, err := readTrace(ctx, s.store.Within(none), none, rootPlanID, planID)
	if err != nil {
		return nil, false, err
	}
	return heardOf(&t), t.FinalState.Terminal(), nil
}

// maxHearings is how many runs are read for their listeners at once.
const maxHearings = 2

// silence is how long a stream says nothing before it says that it goes on.
const silence = 15 * time.Second

// listen streams what happens in a run until it has ended, from its beginning, or from what Last-Event-ID names.
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
	before, err := readTold(c.Request().Header.Get("Last-Event-ID"))
	if err != nil {
		return err
	}
	d, err := s.reader(c).RunDetail(c.Request().Context(), id)
	if err != nil {
		return err
	}
	if before[0][partEnded] {
		return c.NoContent(http.StatusNoContent) // a browser that has heard all comes back no more
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
	if err := flushText(c, ":\n\n"); err != nil { // it is heard, before anything happens
		return err
	}
	return s.tell(c, d, level, before)
}

// tell tells a listener what it has not heard, whenever something changed. What is read of the run all of its
// listeners share: one that is slow gets the newest when it has read what came before.
func (s *Server) tell(c echo.Context, d *store.RunDetail, level int, before told) error {
	values, stop := s.heard.Follow(d.Plan.RootPlanID, d.Plan.CurrentPlanID)
	defer stop()
	for {
		var all []heard
		var open bool
		select {
		case all, open = <-values:
			if !open {
				return nil // it has ended, or the listener comes back
			}
		case <-time.After(silence):
			if err := flushText(c, ":\n\n"); err != nil {
				return err
			}
		case <-c.Request().Context().Done():
			return nil
		}
		for i := range all {
			if e := &all[i]; e.level <= level && before.add(e.step, e.part) {
				if err := sendHeard(c, e, before); err != nil {
					return err
				}
			}
		}
	}
}

func sendHeard(c echo.Context, e *heard, id told) error {
	data, err := json.Marshal(e.data)
	if err != nil {
		return err
	}
	return flushText(c, fmt.Sprintf("id: %s\nevent: %s\ndata: %s\n\n", id, e.name, data))
}
