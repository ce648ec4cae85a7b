package web

import (
	"cmp"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/view/words"
)

type waitsView struct {
	questions []store.OpenQuestion
	project   string
	cursor    string
	wrong     faults // with members of the query, which are left out
	next      string // the address of the newer ones; empty: there are none
	now       time.Time
}

const (
	// waitsList names the cursors of the list.
	waitsList = "waits"
	// waitsPage is how many questions a page has.
	waitsPage = 50
	// waitsTimeout is how long Postgres may look for them.
	waitsTimeout = 10 * time.Second
)

// waits lists the open questions of all runs, oldest first.
func (s *Server) waits(c echo.Context) error {
	v := &waitsView{project: c.QueryParam("project"), cursor: c.QueryParam("cursor"), now: s.now()}
	wrong, err := readWithout(c, func() error { return s.readWaits(c, v) })
	if err != nil {
		return err
	}
	if v.wrong = wrong; wrong["cursor"] != "" {
		v.cursor = ""
	}
	return send(c, wrong.status(), waitsPageOf(v))
}

// readWaits reads the questions for which a request asks.
func (s *Server) readWaits(c echo.Context, v *waitsView) error {
	q := httpd.QueryOf(c, "project", "cursor")
	filter := store.WaitFilter{Project: q.Text("project"), Limit: waitsPage + 1, Timeout: waitsTimeout}
	if at := q.Cursor(waitsList); at != nil {
		n, err := strconv.ParseInt(at.ID, 10, 64)
		if err != nil {
			q.Err = httpd.BadField("cursor", "must be one of this list, as it was given")
		}
		filter.After = &store.WaitCursor{AskedAt: at.Time, Number: n}
	}
	if q.Err != nil {
		return q.Err
	}

	var err error
	v.questions, err = s.lookup.Reader(c).OpenQuestions(c.Request().Context(), filter)
	if errors.Is(err, store.ErrSlow) {
		return httpd.Later(10, err.Error())
	}
	if err != nil {
		return err
	}

	if len(v.questions) > waitsPage {
		v.questions = v.questions[:waitsPage]
		last := v.questions[waitsPage-1].Cursor
		v.next = waitsPath(filter.Project,
			httpd.Cursor{Time: last.AskedAt, ID: strconv.FormatInt(last.Number, 10)}.Format(waitsList))
	}
	return nil
}

// with returns the address of the list behind a cursor; empty: from its beginning.
func (v *waitsView) with(cursor string) string {
	if v.wrong["project"] != "" {
		return waitsPath("", cursor)
	}
	return waitsPath(v.project, cursor)
}

func waitsPath(project, cursor string) string {
	query := url.Values{"project": {project}, "cursor": {cursor}}
	return strings.TrimSuffix("/waits?"+withValues(query).Encode(), "?")
}

func questionName(q *store.OpenQuestion) string {
	return words.Shorten(cmp.Or(optional.Value(q.Wait.Title), optional.Value(q.Wait.FormDescription), q.Wait.WaitID), 200)
}

// asked says when, for machines; empty: that is not known.
func asked(q *store.OpenQuestion) string {
	if q.Cursor.AskedAt.Year() <= 1 {
		return ""
	}
	return q.Cursor.AskedAt.UTC().Format(time.RFC3339Nano)
}

// age says for how long a question has been open.
func (v *waitsView) age(q *store.OpenQuestion) string {
	if asked(q) == "" {
		return ""
	}
	return words.Age(v.now.Sub(q.Cursor.AskedAt))
}

// expires says in how much time a question will have expired; ahead: it has not.
func (v *waitsView) expires(at time.Time) (when string, ahead bool) {
	if !at.After(v.now) {
		return "expired", false
	}
	return words.Age(at.Sub(v.now)), true
}

// noDeadline is said of a question that is open until it is answered.
const noDeadline = "no deadline"

func waitPath(q *store.OpenQuestion) string {
	return rowPath(q.Wait.RootPlanID, &q.Wait)
}

// runOf is what the run is called that asks.
func runOf(q *store.OpenQuestion) string { return cmp.Or(optional.Value(q.RunName), q.Wait.RootPlanID) }

// asker is who asks.
func asker(q *store.OpenQuestion) string {
	return cmp.Or(optional.Value(q.AgentName), optional.Value(q.Wait.StepID))
}
