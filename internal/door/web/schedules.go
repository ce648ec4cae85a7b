package web

import (
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/runstore"
)

type schedulesView struct {
	schedules []runstore.Schedule
	mayRun    bool
	cursor    string
	next      string // the address of the next page; empty: there is none
}

const (
	// schedulesList names the cursors of the list.
	schedulesList = "schedules"
	// schedulesPageSize is how many schedules a page has.
	schedulesPageSize = 50
)

// schedules lists the schedules, in the order of their names.
func (s *Server) schedules(c echo.Context) error {
	q := httpd.QueryOf(c, "cursor")
	at := q.Cursor(schedulesList)
	if q.Err != nil {
		return q.Err
	}

	v := &schedulesView{mayRun: httpd.May(c, httpd.ScopeRun), cursor: q.Text("cursor")}
	var err error
	reader := runstore.NewReader(s.lookup.Reader(c))
	v.schedules, err = reader.Schedules(c.Request().Context(), optional.Value(at).ID, schedulesPageSize+1)
	if err != nil {
		return err
	}

	if len(v.schedules) > schedulesPageSize {
		v.schedules = v.schedules[:schedulesPageSize]
		last := httpd.Cursor{ID: v.schedules[schedulesPageSize-1].Name}
		v.next = "/schedules?" + url.Values{"cursor": {last.Format(schedulesList)}}.Encode()
	}
	return send(c, http.StatusOK, schedulesPageOf(v))
}

// askSchedule pauses a schedule, lets it tick again, or starts what it starts.
func (s *Server) askSchedule(c echo.Context) error {
	name, err := httpd.NativeID(c, "name")
	if err != nil {
		return err
	}
	sent, err := s.form(c)
	if err != nil {
		return err
	}

	ctx := c.Request().Context()
	switch sent.Get("action") {
	case "pause", "resume":
		if err := s.runtime.Starter.PauseSchedule(ctx, name, sent.Get("action") == "pause"); err != nil {
			return err
		}
		return c.Redirect(http.StatusSeeOther, "/schedules")
	case "run":
		id, err := s.runtime.Starter.RunSchedule(ctx, name, httpd.KeyOf(c))
		if err != nil {
			return err
		}
		return c.Redirect(http.StatusSeeOther, runPath(id))
	}
	return httpd.BadField("action", "must be pause, resume or run")
}

func schedulePath(name string) string { return "/schedules/" + url.PathEscape(name) }

// tickTime is the time of a tick as the clock of its schedule shows it.
func tickTime(s *runstore.Schedule, at time.Time) string {
	zone, err := time.LoadLocation(s.Timezone)
	if err != nil { // this machine does not know it any more
		zone = time.UTC
	}
	return at.In(zone).Format("2006-01-02 15:04:05 MST")
}
