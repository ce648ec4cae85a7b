package api

import (
	"errors"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/wire"
	"github.com/actlog/actlog/record"
)

// writeRecords puts the records of a body on record and answers after commit.
func (s *Server) writeRecords(c echo.Context) error {
	r := c.Request()
	held := &lease{of: &s.bodies}
	defer held.giveBack()
	items, err := wire.DecodeHeld(r.Body, r.Header.Get(echo.HeaderContentType), r.Header.Get(echo.HeaderContentEncoding), held.take)
	switch {
	case err == nil:
	case errors.Is(err, errBusy):
		return errBusy
	case errors.Is(err, wire.ErrTooLarge), errors.Is(err, wire.ErrUnsupported):
		return err
	default:
		return &problem{Status: http.StatusBadRequest, Detail: err.Error()}
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
