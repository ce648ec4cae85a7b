package runapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/graph"
	"github.com/actlog/actlog/internal/runtime/runs"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// What this API does not know of a query is ignored, as in source 004.

// planGraph plans a graph, and answers when it is stored.
func (s *Server) planGraph(c echo.Context) error {
	raw, m, err := s.readBody(c)
	if err != nil {
		return err
	}

	o := objectOf(m, "", "prompt", "provider", "model")
	input := map[string]any{
		"prompt": o.text("prompt", maxBodyBytes), "provider": o.id("provider"), "model": o.id("model"), "draft": true,
	}
	if o.err != nil {
		return refused(o.err)
	}

	started, err := s.startGraph(c, input, raw, false)
	if err != nil {
		return err
	}

	d, err := s.awaitEnd(c, started)
	switch {
	case err != nil:
		return err
	case d.State != record.Completed:
		detail := why(d)
		if !strings.HasPrefix(detail, "Planning failed: ") && !strings.HasPrefix(detail, "Failed to parse ") {
			detail = "Planning failed: " + detail
		}
		return httpd.Refused(http.StatusInternalServerError, detail)
	}

	g, err := runs.ReadGraph(c.Request().Context(), s.reader(c).Reader, d.Plan.RootPlanID, d.Plan.CurrentPlanID)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, toGraph(started.PlanID, "draft", g, nil))
}

// awaitEnd waits until a run that nobody asks for later has ended, but not for a worker that does not live. Then, and
// when the client is gone before it began, nobody would expect the run to begin later: it is stopped. With an
// Idempotency-Key it stays, for the client that asks again.
func (s *Server) awaitEnd(c echo.Context, started engine.Started) (*runstore.RunDetail, error) {
	ctx, look := c.Request().Context(), s.config.PlanPatience/2
	for lacking := 0; ; {
		began := time.Now()
		d, err := s.await(c, started, look, answered)
		gone := ctx.Err() != nil
		switch {
		case err != nil && !gone || err == nil && d.State.Terminal():
			return d, err
		case err == nil && runs.Parked(d):
			return nil, parked(d)
		case !gone && time.Since(began) < look:
			return nil, record.ErrClosed
		case !gone && len(d.WaitingFor) > 0:
			lacking++
		default:
			lacking = 0
		}

		if lacking < 2 && !gone { // one look may come while a worker takes the place of another
			continue
		}

		after := context.WithoutCancel(ctx)
		if d, err = s.reader(c).RunDetail(after, started.PlanID); err != nil {
			return nil, err
		}
		kept := c.Request().Header.Get(idempotencyHeader) != ""
		if d.State == record.Pending && !kept {
			if err := s.stopUnbegun(after, c, d); err != nil {
				return nil, err
			}
		}

		if gone {
			return nil, ctx.Err()
		}
		return nil, noWorker(d, kept)
	}
}

// noWorker says that no worker can carry a run, and what becomes of the run.
func noWorker(d *runstore.RunDetail, kept bool) error {
	what := "The run was stopped: ask again when one lives."
	if kept || d.State != record.Pending {
		what = "The run begins when one lives: GET /api/v1/runs/" + d.Plan.CurrentPlanID + " has what comes of it."
	}
	return httpd.Later(10, "No worker can carry the run. It needs: "+strings.Join(d.WaitingFor, ", ")+
		". actlog serve --config and actlog work start workers. "+what)
}

// startGraph starts a run of executor dag. Its errors name the members of the body.
func (s *Server) startGraph(c echo.Context, input map[string]any, body []byte, held bool) (engine.Started, error) {
	key, err := idempotencyKey(c)
	if err != nil {
		return engine.Started{}, err
	}
	raw, err := json.Marshal(input)
	if err != nil {
		return engine.Started{}, err
	}

	started, err := s.starter.Start(c.Request().Context(), engine.Request{
		Executor: dagExecutor, Input: raw, Starter: httpd.KeyOf(c), Held: held, IdempotencyKey: key, Body: body,
	})
	if bad, ok := errors.AsType[*record.InvalidError](err); ok {
		named := *bad
		named.Field = strings.TrimPrefix(bad.Field, "input.")
		err = &named
	}
	if err != nil {
		return started, notStarted(err)
	}

	c.Response().Header().Set("Actlog-Plan-Id", started.PlanID)
	return started, nil
}

// storedGraph serves a graph, with the status of its newest execution that was started.
func (s *Server) storedGraph(c echo.Context) error {
	id, err := httpd.NativeID(c, "planId")
	if err != nil {
		return err
	}

	ctx, reader := c.Request().Context(), s.reader(c)
	g, err := runs.ReadGraph(ctx, reader.Reader, id, id)
	if err != nil {
		return err
	}

	newest, err := s.searchRuns(c, runstore.RunFilter{Executor: dagExecutor, Name: id, Limit: executionsPage})
	if err != nil {
		return err
	}

	of := id // one that was planned and carried out in the same run
	if at := slices.IndexFunc(newest, func(r runstore.RunSummary) bool { return r.State != record.Pending }); at >= 0 {
		of = newest[at].Plan.CurrentPlanID
	}

	e, err := runs.ReadExecution(ctx, reader, of)
	if errors.Is(err, record.ErrNotFound) { // it was not executed
		return c.JSON(http.StatusOK, toGraph(id, "draft", g, nil))
	}
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, toGraph(id, e.Status(), g, e.States()))
}

// executeGraph puts an execution of a stored graph on record, which begins when it is started.
func (s *Server) executeGraph(c echo.Context) error {
	raw, m, err := s.readBody(c)
	if err != nil {
		return err
	}

	o := objectOf(m, "", "plan_id", "scheduling")
	id, scheduling := o.id("plan_id"), o.id("scheduling")
	switch {
	case o.err != nil:
		return refused(o.err)
	case id == "":
		return refused(missing("plan_id"))
	}

	if _, err := runs.ReadGraph(c.Request().Context(), s.reader(c).Reader, id, id); err != nil {
		return err
	}
	started, err := s.startGraph(c, map[string]any{"plan_id": id, "scheduling": scheduling}, raw, true)
	if err != nil {
		return err
	}

	status := "starting"
	if started.Before {
		d, err := s.reader(c).RunDetail(c.Request().Context(), started.PlanID)
		if err != nil {
			return err
		}
		status = runs.ExecutionStatus(d.State)
	}
	return c.JSON(http.StatusOK, map[string]string{"execution_id": started.PlanID, "plan_id": id, "status": status})
}

// startExecution starts an execution, once.
func (s *Server) startExecution(c echo.Context) error {
	id, err := httpd.NativeID(c, "executionId")
	if err != nil {
		return err
	}
	if _, _, err := s.readBody(c); err != nil {
		return err
	}

	ctx := c.Request().Context()
	if _, err := runs.ReadExecution(ctx, s.reader(c), id); err != nil {
		return err
	}

	err = s.store.Begin(ctx, id, httpd.KeyOf(c))
	for _, conflict := range []error{runstore.ErrBegun, runstore.ErrEnded} {
		if errors.Is(err, conflict) {
			return httpd.Refused(http.StatusConflict, conflict.Error())
		}
	}
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, struct {
		Status      string `json:"status"`
		ExecutionID string `json:"execution_id"`
	}{"started", id})
}

// execution serves an execution as it stands, in a form.
func (s *Server) execution(form func(*runs.Execution) any) echo.HandlerFunc {
	return func(c echo.Context) error {
		id, err := httpd.NativeID(c, "executionId")
		if err != nil {
			return err
		}
		e, err := runs.ReadExecution(c.Request().Context(), s.reader(c), id)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, form(e))
	}
}

type executionItemJSON struct {
	ExecutionID string     `json:"execution_id"`
	PlanID      string     `json:"plan_id"`
	Title       *string    `json:"title"`
	Status      string     `json:"status"`
	StartedAt   *time.Time `json:"started_at"`
	CompletedAt *time.Time `json:"completed_at"`
}

const (
	executionsPage = 50
	// executionsPages bounds how many pages of runs are looked through: some only planned.
	executionsPages = 20
)

// executions serves the newest executions.
func (s *Server) executions(c echo.Context) error {
	all := []executionItemJSON{}
	filter := runstore.RunFilter{Executor: dagExecutor, Limit: executionsPage}
	for range executionsPages {
		found, err := s.searchRuns(c, filter)
		if err != nil {
			return err
		}

		for i := range found {
			r := &found[i]
			item := executionItemJSON{
				r.Plan.CurrentPlanID, r.Plan.CurrentPlanID, r.Plan.Title, runs.ExecutionStatus(r.State),
				cmp.Or(r.Plan.StartTime, r.CreatedAt), r.Plan.EndTime,
			}

			if name := optional.Value(r.Name); name == graph.Draft {
				continue
			} else if name != "" {
				item.PlanID = name
			}

			all = append(all, item)
		}

		if len(found) <= filter.Limit || len(all) >= executionsPage {
			break
		}
		last := &found[len(found)-1]
		filter.Before = &runstore.RunCursor{CreatedAt: *last.CreatedAt, PlanID: last.Plan.CurrentPlanID}
	}
	return c.JSON(http.StatusOK, map[string]any{"executions": all[:min(len(all), executionsPage)]})
}

// providersJSON are the providers that nodes may name: kinds of providers, and configured models.
type providersJSON struct {
	Providers []string            `json:"providers"`
	Default   map[string]string   `json:"default_models"`
	Models    map[string][]string `json:"models"`
}

func (s *Server) providers(c echo.Context) error {
	out := providersJSON{Providers: []string{}, Default: map[string]string{}, Models: map[string][]string{}}
	for _, m := range s.catalog.Models() {
		for _, provider := range []string{m.Provider, m.Name} {
			if _, known := out.Models[provider]; !known {
				out.Providers = append(out.Providers, provider)
			}
			if _, known := out.Default[provider]; !known || m.Name == "default" || m.Name == provider {
				out.Default[provider] = m.Model
			}
			if !slices.Contains(out.Models[provider], m.Model) {
				out.Models[provider] = append(out.Models[provider], m.Model)
			}
		}
	}

	slices.Sort(out.Providers)
	return c.JSON(http.StatusOK, out)
}
