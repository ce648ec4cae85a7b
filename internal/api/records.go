package api

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/wire"
	"github.com/actlog/actlog/record"
)

// drainFor is how long a refused body is read on: a client that sends all of it
// before it reads would else see a broken connection and not the answer.
const drainFor = 2 * time.Second

// writeRecords puts the records of a body on record and answers after commit.
func (s *Server) writeRecords(c echo.Context) error {
	r := c.Request()
	items, err := wire.DecodeBody(r.Body, r.Header.Get(echo.HeaderContentType), r.Header.Get(echo.HeaderContentEncoding))
	if err != nil {
		drain(c)
		if !errors.Is(err, wire.ErrTooLarge) && !errors.Is(err, wire.ErrUnsupported) {
			return &problem{Status: http.StatusBadRequest, Detail: err.Error()}
		}
		return err
	}
	answer := wire.Answer{Rejected: []wire.Rejection{}}
	var changes []record.Change
	var places []int // of changes in the body
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
	if len(answer.Rejected) == 0 {
		return sendJSON(c, http.StatusOK, answer)
	}
	slices.SortFunc(answer.Rejected, func(a, b wire.Rejection) int { return a.Index - b.Index })
	return sendJSON(c, http.StatusMultiStatus, answer)
}

func drain(c echo.Context) {
	// Where the connection cannot set a deadline, the server closes it instead.
	if err := http.NewResponseController(c.Response().Writer).SetReadDeadline(time.Now().Add(drainFor)); err == nil {
		_, _ = io.Copy(io.Discard, c.Request().Body)
	}
	c.Response().Header().Set("Connection", "close")
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
	return sendJSON(c, http.StatusOK, limitsJSON{
		MaxBodyBytes: wire.MaxBodyBytes, MaxRecords: wire.MaxRecords, MaxTextBytes: record.MaxTextBytes,
		MaxIDBytes: record.MaxIDBytes, MaxJSONDepth: record.MaxJSONDepth,
		MaxListItems: record.MaxListItems, MaxCount: record.MaxCount,
	})
}
