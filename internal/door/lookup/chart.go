package lookup

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/store"
)

const (
	// chartDays is how many days charts tell of if nothing else is asked, and maxChartDays the most.
	chartDays    = 7
	maxChartDays = 366
)

// Charts are the figures of a time, told apart in several ways.
type Charts struct {
	Filter store.ChartFilter
	Rows   map[store.ChartBy][]store.ChartRow
}

// Charts reads the charts for which the query of a request asks: of a time, and of a project. To read them takes a turn
// of the searches.
func (l *Lookup) Charts(c echo.Context) (charts Charts, err error) {
	ctx, end := c.Request().Context(), l.ListEnd()
	q := httpd.QueryOf(c, "since", "until", "project")
	since, until := q.Time("since"), q.Time("until")
	project := q.Text("project")

	if since == nil {
		since = new(time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-chartDays))
	}
	last := time.Now()
	if until != nil {
		last = *until
	}

	if q.Err == nil && last.Sub(*since) > maxChartDays*24*time.Hour {
		q.Err = httpd.BadField("since", "must be at most 366 days before until")
	}
	if q.Err == nil && until != nil && !until.After(*since) {
		q.Err = httpd.BadField("until", "must be after since")
	}
	if q.Err != nil {
		return charts, q.Err
	}

	done, err := l.TurnToSearch(ctx, c)
	if err != nil {
		return charts, err
	}
	defer done()

	charts.Filter = store.ChartFilter{Since: *since, Until: until, Project: project}
	charts.Rows = map[store.ChartBy][]store.ChartRow{}
	err = l.Relaxed(c, func(ctx context.Context, r *store.Reader) (err error) {
		for _, by := range []store.ChartBy{store.ByDay, store.ByModel, store.ByAgent, store.ByTool} {
			f := charts.Filter
			f.Timeout = time.Until(end)
			if charts.Rows[by], err = r.Chart(ctx, by, f); err != nil {
				return err
			}
		}
		return nil
	})

	switch {
	case errors.Is(err, store.ErrSlow):
		err = httpd.Later(10, "the charts take too long: choose a later since, or a project")
	case errors.Is(err, store.ErrNoReports):
		err = httpd.Refused(http.StatusServiceUnavailable,
			"the server's role may not read the reports: grant it actlog_report")
	}
	return charts, err
}
