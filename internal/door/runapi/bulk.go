package runapi

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/view/when"
	"github.com/actlog/actlog/record"
)

// bulkActions are what many runs can be asked for, by the words of requests.
var bulkActions = map[string]runstore.BulkAction{
	"retry": runstore.BulkRetry, "again": runstore.BulkAgain, "stop": runstore.BulkStop,
}

const (
	defaultRate = 10
	minRate     = 0.001
	maxRate     = 1000
	// bulkShown is how many of the runs that match are shown before a job is started.
	bulkShown = 10
)

// bulkJSON is a job that asks many runs for something.
type bulkJSON struct {
	BulkID    string       `json:"bulkId"`
	Action    string       `json:"action"`
	State     record.State `json:"state"`
	Matches   int64        `json:"matches"`
	Done      int64        `json:"done"`
	Failed    int64        `json:"failed"`
	Rate      float64      `json:"rate"`
	CreatedAt *time.Time   `json:"createdAt"`
	EndedAt   *time.Time   `json:"endedAt"`
}

// matchesJSON says which runs a job would ask.
type matchesJSON struct {
	Matches int64         `json:"matches"`
	Items   []runItemJSON `json:"items"`
}

// bulk starts a job that asks many runs for something, or says which it would ask.
func (s *Server) bulk(c echo.Context) error {
	if q := httpd.QueryOf(c); q.Err != nil {
		return q.Err
	}
	key, err := idempotencyKey(c)
	if err != nil {
		return err
	}
	raw, m, err := s.readBody(c)
	if err != nil {
		return err
	}

	job, dryRun, err := bulkOf(m)
	if err != nil {
		return refused(err)
	}
	if dryRun {
		return s.bulkMatches(c, job.Filter)
	}

	hash := sha256.Sum256(raw)
	job.Starter = httpd.KeyOf(c)
	job.IdempotencyKey, job.RequestSHA256 = key, hex.EncodeToString(hash[:])
	id, err := s.store.StartBulk(c.Request().Context(), job)
	if err != nil {
		return notAgain(err)
	}
	return s.sendBulk(c, http.StatusAccepted, id)
}

// bulkOf reads a request for a job. dryRun says that it only asks which runs match.
func bulkOf(m members) (job runstore.NewBulk, dryRun bool, err error) {
	o := objectOf(m, "", "action", "filter", "limits", "rate", "dryRun", "by")
	action, known := bulkActions[o.id("action")]
	job = runstore.NewBulk{Action: action, Claim: o.id("by"), Rate: defaultRate}
	if o.has("rate") {
		job.Rate = o.number("rate")
	}
	o.value("dryRun", &dryRun, "true or false")
	limits := o.newLimits()

	job.Filter = o.bulkFilter("filter")
	switch {
	case o.err != nil:
		return job, false, o.err
	case !known:
		return job, false, invalid("action", "must be retry, again or stop")
	case job.Rate < minRate || job.Rate > maxRate:
		return job, false, invalid("rate", fmt.Sprintf("must be from %g to %d", minRate, maxRate))
	case job.Filter == runstore.BulkFilter{}:
		return job, false, invalid("filter", "must say which runs are asked")
	case action == runstore.BulkStop && o.has("limits"):
		return job, false, invalid("limits", "are not for stop")
	}

	if o.has("limits") {
		job.Limits, err = json.Marshal(limits)
	}
	return job, dryRun, err
}

// bulkFilter reads which runs a job asks.
func (o *object) bulkFilter(name string) (f runstore.BulkFilter) {
	members := o.object(name)
	if members == nil {
		return f
	}

	in := objectOf(members, name+".", "state", "errorKind", "agent", "executor", "name", "project", "tag", "since",
		"until")
	f = runstore.BulkFilter{
		State: record.State(in.id("state")), ErrorKind: in.id("errorKind"), Executor: in.id("executor"), Name: in.id("name"),
		Agent: in.id("agent"), Project: in.id("project"), Tag: in.id("tag"),
		Since: in.when("since"), Until: in.when("until"),
	}
	if states := record.States(record.KindPlan); f.State != "" && !slices.Contains(states, f.State) {
		in.fail("state", "must be a state of plans: "+strings.Trim(fmt.Sprint(states), "[]"))
	}

	if o.err == nil {
		o.err = in.err
	}
	return f
}

// when reads a time, as lists take it.
func (o *object) when(name string) (at time.Time) {
	text := o.id(name)
	if text == "" {
		return at
	}
	at, ok := when.Time(text, time.Now(), time.UTC)
	if !ok {
		o.fail(name, "must be "+when.Forms)
	}
	return at
}

func (s *Server) bulkMatches(c echo.Context, f runstore.BulkFilter) error {
	matches, some, err := s.reader(c).BulkMatches(c.Request().Context(), f, bulkShown)
	if errors.Is(err, store.ErrSlow) {
		return httpd.Later(10, err.Error())
	}
	if err != nil {
		return err
	}

	out := matchesJSON{Matches: matches, Items: make([]runItemJSON, len(some))}
	for i := range some {
		out.Items[i] = toRunItem(&some[i])
	}
	return c.JSON(http.StatusOK, out)
}

func (s *Server) bulkJob(c echo.Context) error {
	q := httpd.QueryOf(c)
	id := q.ID("bulkId")
	if q.Err != nil {
		return q.Err
	}
	return s.sendBulk(c, http.StatusOK, id)
}

func (s *Server) stopBulk(c echo.Context) error {
	q := httpd.QueryOf(c)
	id := q.ID("bulkId")
	if q.Err != nil {
		return q.Err
	}

	err := s.store.StopBulk(c.Request().Context(), id)
	if errors.Is(err, runstore.ErrEnded) {
		return httpd.Refused(http.StatusConflict, "the job has ended")
	}
	if err != nil {
		return err
	}
	return s.sendBulk(c, http.StatusAccepted, id)
}

func (s *Server) sendBulk(c echo.Context, status int, id string) error {
	b, err := s.reader(c).Bulk(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return c.JSON(status, bulkJSON{
		BulkID: b.ID, Action: strings.ToLower(string(b.Action)), State: b.State, Matches: b.Matches, Done: b.Done,
		Failed: b.Failed, Rate: b.Rate, CreatedAt: b.CreatedAt, EndedAt: b.EndedAt,
	})
}
