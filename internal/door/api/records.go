package api

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/record"
)

// writeRecords puts the records of a body on record and answers after commit.
func (s *Server) writeRecords(c echo.Context) error {
	if q := httpd.QueryOf(c); q.Err != nil {
		return q.Err
	}

	r := c.Request()
	body, err := s.server.Body(c)
	defer body.Return()
	if err != nil {
		return err
	}

	items, err := wire.DecodeBody(body, r.Header.Get(echo.HeaderContentType), r.Header.Get(echo.HeaderContentEncoding),
		body.Take)
	if err != nil {
		return httpd.Unreadable(err)
	}

	answer := wire.Answer{Rejected: []wire.Rejection{}}
	var changes []record.Change
	var places []int // of the changes in the body
	for i, it := range items {
		if it.Err != nil {
			answer.Rejected = append(answer.Rejected, wire.Reject(i, it.Err))
			continue
		}
		changes, places = append(changes, it.Change), append(places, i)
	}

	result, err := s.store.Write(r.Context(), changes)
	if err != nil {
		return err
	}

	answer.Accepted = result.Accepted
	for _, rejected := range result.Rejected {
		answer.Rejected = append(answer.Rejected, wire.Reject(places[rejected.Index], rejected.Err))
	}
	slices.SortFunc(answer.Rejected, func(a, b wire.Rejection) int { return a.Index - b.Index })
	return sendJSON(c, statusOf(&answer), answer)
}

// statusOf returns the status of an answer. It is an error only if nothing was accepted, so
// that clients that look at nothing else do not take that for success.
func statusOf(a *wire.Answer) int {
	switch {
	case len(a.Rejected) == 0:
		return http.StatusOK
	case a.Accepted == 0:
		return http.StatusUnprocessableEntity
	}
	return http.StatusMultiStatus
}

// errHead ends an answer of which only the head is asked for.
var errHead = errors.New("the head is enough")

// exportRecords sends the whole tree of a plan as the records that make it, one per line, as
// they come from the database. If that breaks off, so does the answer.
func (s *Server) exportRecords(c echo.Context) error {
	q := httpd.QueryOf(c, "root", "contents")
	root, once := q.Text("root"), onceOf(q)
	id := q.ID("planId")
	if q.Err != nil {
		return q.Err
	}

	done, err := s.long.Take(c.Request().Context(), httpd.ClientOf(c))
	if err != nil {
		return err
	}
	defer done()

	out := bufio.NewWriterSize(recordsWriter{c}, 64<<10)
	begun := false
	write := func(line []byte, err error) error {
		begun = true
		if err == nil && c.Request().Method == http.MethodHead {
			err = errHead
		}
		if err == nil {
			_, err = out.Write(append(line, '\n'))
		}
		return err
	}

	export := func(ctx context.Context, r *store.Reader) error {
		if once {
			return r.ExportOnce(ctx, root, id, func(root string, has content.Content) error {
				return write(wire.EncodeContent(wire.Content{RootPlanID: root, Content: has}))
			}, func(change record.Change) error { return write(wire.EncodeOnce(change)) })
		}
		return r.Export(ctx, root, id, func(change record.Change) error { return write(wire.Encode(change)) })
	}

	var broken error // after the first record, an export cannot begin again
	err = s.lookup.Relaxed(c, func(ctx context.Context, r *store.Reader) error {
		err := export(ctx, r)
		if begun {
			broken, err = err, nil
		}
		return err
	})
	if err == nil {
		err = broken
	}

	switch {
	case errors.Is(err, errHead):
		c.Response().Header().Set(echo.HeaderContentType, wire.TypeNDJSON)
		return c.NoContent(http.StatusOK)
	case err != nil:
		return err
	}
	return out.Flush()
}

// recordsWriter streams records.
type recordsWriter struct{ c echo.Context }

func (w recordsWriter) Write(p []byte) (int, error) {
	if !w.c.Response().Committed { // not before: an error has another type
		if err := httpd.AnswerTo(w.c).Stream(streamedRow); err != nil {
			return 0, err
		}
		w.c.Response().Header().Set(echo.HeaderContentType, wire.TypeNDJSON)
	}
	return w.c.Response().Write(p)
}

type limitsJSON struct {
	MaxBodyBytes int `json:"maxBodyBytes"`
	MaxRecords   int `json:"maxRecords"`
	MaxTextBytes int `json:"maxTextBytes"`
	MaxIDBytes   int `json:"maxIdBytes"`
	MaxJSONDepth int `json:"maxJsonDepth"`
	MaxListItems int `json:"maxListItems"`
	MaxCount     int `json:"maxCount"`
}

func (s *Server) limits(c echo.Context) error {
	if q := httpd.QueryOf(c); q.Err != nil {
		return q.Err
	}
	return sendJSON(c, http.StatusOK, limitsJSON{
		MaxBodyBytes: wire.MaxBodyBytes, MaxRecords: wire.MaxRecords, MaxTextBytes: record.MaxTextBytes,
		MaxIDBytes: record.MaxIDBytes, MaxJSONDepth: record.MaxJSONDepth,
		MaxListItems: record.MaxListItems, MaxCount: record.MaxCount,
	})
}
