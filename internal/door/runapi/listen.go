package runapi

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/runtime/runstore"
)

// The levels of listeners, each with the events of those before it.
var levels = []string{"MINIMAL", "STANDARD", "VERBOSE"}

// listen streams what happens in a run until it has ended, from its beginning, or from what Last-Event-ID names.
func (s *Server) listen(c echo.Context) error {
	q := httpd.QueryOf(c, "level")
	level := slices.Index(levels, cmp.Or(q.Text("level"), levels[1]))
	if q.Err == nil && level < 0 {
		q.Err = httpd.BadField("level", "must be MINIMAL, STANDARD or VERBOSE")
	}
	id := q.ID("planId")
	if q.Err != nil {
		return q.Err
	}

	before, err := readDelivered(c.Request().Header.Get("Last-Event-ID"))
	if err != nil {
		return err
	}
	d, err := s.reader(c).RunDetail(c.Request().Context(), id)
	if err != nil {
		return err
	}

	if before[0][heardEnded] {
		return c.NoContent(http.StatusNoContent) // a browser that has heard all comes back no more
	}
	if err := beginEvents(c); err != nil {
		return err
	}
	if err := flushText(c, stillOpen); err != nil { // it is heard, before anything happens
		return err
	}
	return s.sendNew(c, d, level, before)
}

// sendNew sends a listener the events that it does not have, whenever something changed. All listeners of a run share
// what is read of it: one that is slow gets the newest when it has read what came before.
func (s *Server) sendNew(c echo.Context, d *runstore.RunDetail, level int, before delivered) error {
	values, stop := s.listenerEvents.Follow(d.Plan.RootPlanID, d.Plan.CurrentPlanID)
	defer stop()
	for {
		var all []listenerEvent
		var open bool
		select {
		case all, open = <-values:
			if !open {
				return nil // it has ended, or the listener comes back
			}
		case <-time.After(silence):
			if err := flushText(c, stillOpen); err != nil {
				return err
			}
		case <-c.Request().Context().Done():
			return nil
		}

		for i := range all {
			if e := &all[i]; e.level <= level && before.add(e.step, e.kind) {
				if err := sendData(c, fmt.Sprintf("id: %s\nevent: %s\n", before, e.name), e.data); err != nil {
					return err
				}
			}
		}
	}
}
