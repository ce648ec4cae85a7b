package web

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/api"
	"github.com/actlog/actlog/internal/httpd"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/internal/words"
	"github.com/actlog/actlog/record"
)

// listView is the list of runs.
type listView struct {
	api.PlanPage
	query url.Values
	now   time.Time
}

func (s *Server) list(c echo.Context) error {
	page, err := s.lists.PlanPage(c)
	if err != nil {
		return err
	}
	return send(c, http.StatusOK, listPage(&listView{page, c.QueryParams(), s.now()}))
}

// value returns a filter as it was given.
func (v *listView) value(name string) string { return v.query.Get(name) }

// filtered reports whether the list is narrowed.
func (v *listView) filtered() bool { return v.Filter.Narrows() }

// older returns the address of the next page; empty: there is none.
func (v *listView) older() string {
	if v.Next == nil {
		return ""
	}
	return v.with("cursor", httpd.Cursor(*v.Next).Format("plans"))
}

// newest returns the address of the first page.
func (v *listView) newest() string { return v.with("cursor", "") }

// with returns the address of the list with another value of a member.
func (v *listView) with(name, value string) string {
	q := url.Values{}
	for k, values := range v.query {
		for _, each := range values {
			if each != "" && k != name {
				q.Add(k, each)
			}
		}
	}
	if value != "" {
		q.Set(name, value)
	}
	return strings.TrimSuffix("/?"+q.Encode(), "?")
}

// states are those that a plan may be in.
func (v *listView) states() []record.State { return record.States(record.KindPlan) }

// runPath returns the address of a run.
func runPath(planID string) string { return "/runs/" + url.PathEscape(planID) }

// runName is what a run in a list is called.
func runName(p *store.PlanSummary) string {
	return cmp.Or(orZero(p.Record.Title), orZero(p.Record.Name), p.Record.RootPlanID)
}

// began says when a run began, or was first heard of.
func began(p *store.PlanSummary) time.Time {
	if p.Record.StartTime != nil {
		return *p.Record.StartTime
	}
	return p.Cursor.FirstSeenAt
}

// lasted says how long a run took, or for how long it has been running.
func (v *listView) lasted(p *store.PlanSummary) string {
	switch {
	case p.Total.DurationMs != nil:
		return words.Duration(time.Duration(*p.Total.DurationMs) * time.Millisecond)
	case p.Record.State.Terminal() || p.Record.StartTime == nil:
		return ""
	}
	return words.Duration(v.now.Sub(*p.Record.StartTime).Round(time.Second))
}

func orZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
