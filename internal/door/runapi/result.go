package runapi

import (
	"encoding/json"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/executor"
	"github.com/actlog/actlog/internal/runtime/graph"
	"github.com/actlog/actlog/internal/runtime/runs"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// answerOf returns what a run answers: JSON, unless its executor answers texts.
func answerOf(d *runstore.RunDetail) any {
	switch text := d.Plan.Summary; {
	case text == nil:
		return nil
	case !executor.About(d.Executor).AnswersText && json.Valid([]byte(*text)):
		return json.RawMessage(*text)
	default:
		return *text
	}
}

// results read what came of the runs of those executors that have more to show than what a run answers.
var results = map[string]func(s *Server, c echo.Context, d *runstore.RunDetail, q taskQuery) (any, error){
	runs.TaskExecutor: (*Server).taskResult,
	"orchestrator":    (*Server).agentResponse,
	dagExecutor:       (*Server).graphResult,
}

// taskResult returns the result of a run of a task, as far as it is wanted; of a template and before the end, what
// the run answers.
func (s *Server) taskResult(c echo.Context, d *runstore.RunDetail, q taskQuery) (any, error) {
	result, err := runs.TaskResult(c.Request().Context(), s.reader(c).Reader, d)
	if err != nil || result == nil {
		return answerOf(d), err
	}
	q.narrow(result)
	return result, nil
}

// agentResponseJSON is what a run of executor orchestrator answers, as its record has it.
type agentResponseJSON struct {
	Result  *string      `json:"result"`
	Trace   traceJSON    `json:"trace"`
	Sources []sourceJSON `json:"sources"`
}

// agentResponse returns the result of a run of the orchestrator; nil if it goes on.
func (s *Server) agentResponse(c echo.Context, d *runstore.RunDetail, _ taskQuery) (any, error) {
	if !d.State.Terminal() {
		return nil, nil //nolint:nilnil // there is none
	}
	t, err := s.traceOf(c, d)
	if err != nil {
		return nil, err
	}
	return agentResponseJSON{Result: t.Result, Trace: t, Sources: t.AllSources}, nil
}

// graphResultJSON is the result of a run of executor dag.
type graphResultJSON struct {
	Status  string            `json:"status"`
	Results map[string]string `json:"node_results"`
	Logs    []string          `json:"execution_logs"`
}

// graphResult returns the result of a run that has ended: of one that planned and no more, its graph.
func (s *Server) graphResult(c echo.Context, d *runstore.RunDetail, _ taskQuery) (any, error) {
	if !d.State.Terminal() {
		return nil, nil //nolint:nilnil // there is none
	}

	e, err := runs.ExecutionOf(c.Request().Context(), s.reader(c).Reader, d)
	switch {
	case err != nil:
		return nil, err
	case optional.Value(d.Name) != graph.Draft:
		return graphResultJSON{e.Status(), e.Results(), e.Logs}, nil
	case d.State != record.Completed:
		return nil, nil //nolint:nilnil // there is none
	}
	return toGraph(d.Plan.CurrentPlanID, "draft", e.Graph, nil), nil
}
