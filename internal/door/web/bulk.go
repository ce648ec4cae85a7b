package web

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// bulkFields are the filters of the list that also say which runs are retried.
var bulkFields = []string{"state", "agent", "project", "tag", "since", "until"}

const (
	// bulkShown is how many of the runs that match are shown before they are retried.
	bulkShown = 10
	// bulkRate is how many runs a second are retried.
	bulkRate = 10
)

// bulkView is what is about to be retried, or a job that does it.
type bulkView struct {
	query   url.Values
	filter  runstore.BulkFilter
	matches int64
	some    []runstore.RunSummary
	key     string // what is sent twice starts one job
	job     *runstore.Bulk
	mayRun  bool
	now     time.Time
}

// retryAll returns the address where all runs of the list are retried; empty: they are none that can be, or the list
// is narrowed in a way in which jobs are not.
func (v *listView) retryAll() string {
	if len(v.wrong) > 0 || !canBeRetried(record.State(v.value("state"))) {
		return ""
	}

	q := url.Values{}
	for name := range v.query {
		switch {
		case slices.Contains(bulkFields, name):
			q.Set(name, v.value(name))
		case name != "cursor":
			return ""
		}
	}
	return "/bulk?" + q.Encode()
}

func canBeRetried(s record.State) bool {
	return s == record.Failed || s == record.Cancelled || s == record.Interrupted
}

// bulkFilter reads which runs are meant.
func bulkFilter(q *httpd.Query) (f runstore.BulkFilter, err error) {
	f = runstore.BulkFilter{
		State: record.State(q.Text("state")), Agent: q.Text("agent"), Project: q.Text("project"), Tag: q.Text("tag"),
		Since: optional.Value(q.Time("since")), Until: optional.Value(q.Time("until")),
	}
	if q.Err == nil && !canBeRetried(f.State) {
		q.Err = httpd.BadField("state", "must be FAILED, CANCELLED or INTERRUPTED")
	}
	return f, q.Err
}

// bulk shows which runs would be retried.
func (s *Server) bulk(c echo.Context) error {
	f, err := bulkFilter(httpd.QueryOf(c, bulkFields...))
	if err != nil {
		return err
	}

	v := &bulkView{query: c.QueryParams(), filter: f, key: rand.Text(), mayRun: httpd.May(c, httpd.ScopeRun), now: s.now()}
	v.matches, v.some, err = runstore.NewReader(s.lookup.Reader(c)).BulkMatches(c.Request().Context(), f, bulkShown)
	if errors.Is(err, store.ErrSlow) {
		return httpd.Later(10, err.Error())
	}
	if err != nil {
		return err
	}
	return send(c, http.StatusOK, bulkPage(v))
}

// startBulk starts a job that retries the runs that match.
func (s *Server) startBulk(c echo.Context) error {
	sent, err := s.form(c)
	if err != nil {
		return err
	}
	f, err := bulkFilter(httpd.QueryOf(c, bulkFields...))
	if err != nil {
		return err
	}

	asked := sha256.Sum256([]byte(c.QueryParams().Encode()))
	id, err := s.store.StartBulk(c.Request().Context(), runstore.NewBulk{
		Action: runstore.BulkRetry, Filter: f, Rate: bulkRate, Starter: httpd.KeyOf(c), IdempotencyKey: sent.Get("key"),
		RequestSHA256: hex.EncodeToString(asked[:]),
	})
	if errors.Is(err, runstore.ErrKeyUsed) {
		return httpd.Refused(http.StatusConflict, "This form was sent for other runs. Open it again.")
	}
	if err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, bulkPath(id))
}

func bulkPath(id string) string { return "/bulk/" + url.PathEscape(id) }

// bulkJob shows how far a job has come.
func (s *Server) bulkJob(c echo.Context) error {
	q := httpd.QueryOf(c)
	id := q.ID("bulkId")
	if q.Err != nil {
		return q.Err
	}

	job, err := runstore.NewReader(s.lookup.Reader(c)).Bulk(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return send(c, http.StatusOK, bulkJobPage(&bulkView{job: &job, mayRun: httpd.May(c, httpd.ScopeRun)}))
}

func (s *Server) stopBulk(c echo.Context) error {
	if _, err := s.form(c); err != nil {
		return err
	}
	q := httpd.QueryOf(c)
	id := q.ID("bulkId")
	if q.Err != nil {
		return q.Err
	}

	if err := s.store.StopBulk(c.Request().Context(), id); err != nil && !errors.Is(err, runstore.ErrEnded) {
		return err
	}
	return c.Redirect(http.StatusSeeOther, bulkPath(id))
}

// does says what the job does, as a word.
func (v *bulkView) does() string { return strings.ToLower(string(v.job.Action)) }
