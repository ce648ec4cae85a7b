package runapi

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/agent/plan"
	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/record"
)

// taskQuery says which operations and thoughts of the result of a task are wanted.
type taskQuery struct {
	given       string // a filter of it; empty: all are wanted
	tool        string
	operation   string
	success     *bool
	thoughtType record.ThoughtType
	iteration   *int64
	last        *int64
}

var thoughtTypes = []record.ThoughtType{
	record.ThoughtAnalysis, record.ThoughtDecision, record.ThoughtAction, record.ThoughtObservation,
	record.ThoughtConclusion, record.ThoughtError,
}

const maxLast = 1_000_000

// taskQueryOf reads the filters of a request for a run.
func taskQueryOf(c echo.Context) (q taskQuery, err error) {
	names := []string{"tool", "operation", "success", "thoughtType", "iteration", "last"}
	sent := httpd.QueryOf(c, names...)
	q.tool, q.operation = sent.Text("tool"), sent.Text("operation")
	q.thoughtType = record.ThoughtType(sent.Text("thoughtType"))

	if sent.Text("success") != "" {
		q.success = new(sent.Flag("success"))
	}
	if sent.Err != nil {
		return q, sent.Err
	}

	for _, name := range names {
		if sent.Text(name) != "" {
			q.given = name
		}
	}

	if q.thoughtType != "" && !slices.Contains(thoughtTypes, q.thoughtType) {
		return q, httpd.BadField("thoughtType", "must be one of "+strings.Trim(fmt.Sprint(thoughtTypes), "[]"))
	}
	if q.iteration, err = optionalInt(sent, "iteration", -1); err != nil {
		return q, err
	}
	q.last, err = optionalInt(sent, "last", 0)
	return q, err
}

// optionalInt reads a number of a query; nil if there is none.
func optionalInt(q *httpd.Query, name string, least int64) (*int64, error) {
	text := q.Text(name)
	if text == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > maxLast {
		return nil, httpd.BadField(name, fmt.Sprintf("must be a number from %d to %d", least, maxLast))
	}
	return &n, nil
}

// narrow leaves in a result what is wanted. The last thoughts are those of the thoughts that are wanted otherwise.
func (q taskQuery) narrow(r *plan.Result) {
	if q.tool != "" {
		r.Operations = r.Operations.ByTool(q.tool)
	}
	if q.operation != "" {
		r.Operations = r.Operations.ByOperation(q.operation)
	}
	if q.success != nil {
		r.Operations = r.Operations.BySuccess(*q.success)
	}

	if q.thoughtType != "" {
		r.ReasoningLog = r.ReasoningLog.ByType(q.thoughtType)
	}
	if q.iteration != nil {
		r.ReasoningLog = r.ReasoningLog.ByIteration(*q.iteration)
	}
	if q.last != nil {
		r.ReasoningLog = r.ReasoningLog.Last(int(*q.last))
	}
}
