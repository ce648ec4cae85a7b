package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/door/lookup"
	"github.com/actlog/actlog/internal/record/report"
	"github.com/actlog/actlog/record"
)

type sqlArguments struct {
	Query   string `json:"query" jsonschema:"one SELECT, in the SQL of Postgres"`
	Rows    int    `json:"rows,omitempty" jsonschema:"the most rows to return"`
	Seconds int    `json:"seconds,omitempty" jsonschema:"how long the statement may take"`
}

var sqlBounds = map[string]limits{"query": {max: 20_000}, "rows": {1, 1_000, 200}, "seconds": {1, 20, 10}}

// cellBytes is how much of one value is shown.
const cellBytes = 4_000

type answered struct {
	Columns []column            `json:"columns"`
	Rows    [][]json.RawMessage `json:"rows"`
	// Complete reports that there are no other rows.
	Complete bool   `json:"complete"`
	Note     string `json:"note,omitempty"`
}

type column struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Comment string `json:"comment,omitempty"`
}

// sql runs a statement on the views of schema report.
func (s *Server) sql(c echo.Context, in sqlArguments) (any, error) {
	if !httpd.Storable(in.Query) {
		return nil, httpd.BadField("query", "must be without NUL")
	}

	ctx := c.Request().Context()
	done, err := s.statements.Take(ctx, httpd.ClientOf(c))
	if err != nil {
		return nil, err
	}
	defer done()

	after, err := lookup.MarkOf(c)
	if err != nil {
		return nil, err
	}

	b := report.Bounds{
		Rows: in.Rows, Bytes: maxItems, Cell: cellBytes, Time: time.Duration(in.Seconds) * time.Second, After: after,
	}
	result, err := s.reports.Query(ctx, in.Query, b)
	if err != nil {
		return nil, s.sqlRefusal(err, in.Seconds)
	}

	out := answered{Columns: make([]column, 0, len(result.Columns)), Rows: result.Rows, Complete: result.Complete}
	left := room(maxAnswer - maxItems)
	for _, col := range result.Columns {
		each := column{Name: col.Name, Type: col.Type}
		if !left.take(each) {
			return nil, httpd.BadField("query", "has too many columns: name those that are needed")
		}
		out.Columns = append(out.Columns, each)
	}

	switch {
	case !result.Complete:
		out.Note = fmt.Sprintf("There are more rows than these %d. Count, sum or group in SQL, or select fewer columns.",
			len(result.Rows))
	case result.Cut > 0:
		out.Note = fmt.Sprintf("Long values are cut to %d bytes.", cellBytes)
	}
	return out, nil
}

// sqlRefusal says what is wrong with a statement, or with the role for reports.
func (s *Server) sqlRefusal(err error, seconds int) error {
	statement, unsafe := new(report.StatementError), new(report.UnsafeError)
	problem := func(detail string) error { return &httpd.Problem{Status: http.StatusBadRequest, Detail: detail} }
	switch {
	case errors.As(err, &statement) && statement.TimedOut():
		return problem(fmt.Sprintf("query was stopped after %d s: narrow it down by time, such as happened_at >= now() - "+
			"interval '1 day', or aggregate less", seconds))
	case errors.As(err, &statement):
		return problem("query was refused: " + statement.Error() + ". describe_reports lists the views and their columns")
	case errors.Is(err, report.ErrOversized):
		return problem("query: " + err.Error() + ": select less of it, such as left(x, 1000)")
	case errors.As(err, &unsafe):
		s.log.Error("the role for reports is not used", "error", err)
		return problem("the server's role for reports may do more than it should, so it is not used; its log says what")
	case errors.Is(err, record.ErrUnavailable):
		s.log.Warn("the reports cannot be read", "error", err)
		return problem("the database of the reports cannot be reached right now")
	}
	return err
}

type reportsArguments struct {
	View string `json:"view,omitempty" jsonschema:"the name of a view, such as plan: returns what its columns mean"`
}

type describedView struct {
	Name    string   `json:"view"`
	Comment string   `json:"comment,omitempty"`
	Columns []string `json:"columns"`
}

// describeReports lists the views of schema report, or what the columns of one mean.
func (s *Server) describeReports(c echo.Context, in reportsArguments) (any, error) {
	ctx := c.Request().Context()
	done, err := s.statements.Take(ctx, httpd.ClientOf(c))
	if err != nil {
		return nil, err
	}
	defer done()

	if in.View == "" {
		views, err := s.reports.Views(ctx)
		if err != nil {
			return nil, s.sqlRefusal(err, 0)
		}
		all := make([]describedView, 0, len(views))
		for _, v := range views {
			all = append(all, describedView(v))
		}
		return map[string]any{"schema": "report", "views": all}, nil
	}

	var columns []report.ViewColumn
	if httpd.Storable(in.View) {
		if columns, err = s.reports.Columns(ctx, in.View); err != nil {
			return nil, s.sqlRefusal(err, 0)
		}
	}
	if len(columns) == 0 {
		return nil, httpd.BadField("view", "must be the name of a view, as describe_reports without view lists them")
	}

	all := make([]column, 0, len(columns))
	for _, col := range columns {
		all = append(all, column(col))
	}
	return map[string]any{"schema": "report", "view": in.View, "columns": all}, nil
}
