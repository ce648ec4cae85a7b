package runapi

import (
	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/runtime/runstore"
)

// agentResponseJSON is what a run of executor orchestrator answers, as its record has it.
type agentResponseJSON struct {
	Result  *string      `json:"result"`
	Trace   traceJSON    `json:"trace"`
	Sources []sourceJSON `json:"sources"`
}

// agentResponse returns the result of a run of the orchestrator; nil if it goes on.
func (s *Server) agentResponse(c echo.Context, d *runstore.RunDetail) (any, error) {
	if !d.State.Terminal() {
		return nil, nil //nolint:nilnil // there is none
	}
	t, err := s.traceOf(c, d)
	if err != nil {
		return nil, err
	}
	return agentResponseJSON{Result: t.Result, Trace: t, Sources: t.AllSources}, nil
}
