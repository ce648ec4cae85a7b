package runapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/runtime/catalog"
	"github.com/actlog/actlog/internal/runtime/runstore"
)

// Routes are those of the runtime.
func (s *Server) Routes() []httpd.Route {
	const get, post = http.MethodGet, http.MethodPost
	route := func(method, path string, need httpd.Scope, h echo.HandlerFunc) httpd.Route {
		return httpd.Route{Method: method, Path: path, Need: need, Handle: h}
	}
	chat := func(method, path string, h echo.HandlerFunc) httpd.Route {
		return httpd.Route{Method: method, Path: "/v1/" + path, Need: httpd.ScopeRun, Handle: h, Refuse: refuseChatProblem}
	}
	// untilEnd is for what is open until a run has ended, whether it sends something on the way or not.
	untilEnd := func(r httpd.Route) httpd.Route {
		r.Stream = true
		return r
	}

	byGet := route(get, "/api/executor/executeByToolNameSync/:toolName", httpd.ScopeRun, s.executeByGet)
	byGet.Acts = true

	return []httpd.Route{
		untilEnd(route(get, "/api/v1/runs/:planId/listen", httpd.ScopeRead, s.listen)),
		route(post, "/api/v1/runs", httpd.ScopeRun, s.start),
		route(get, "/api/v1/runs", httpd.ScopeRead, s.list),
		route(get, "/api/v1/runs/:planId", httpd.ScopeRead, s.run),
		route(post, "/api/v1/runs/:planId/stop", httpd.ScopeRun, s.control(runstore.Stop)),
		route(post, "/api/v1/runs/:planId/pause", httpd.ScopeRun, s.control(runstore.Pause)),
		route(post, "/api/v1/runs/:planId/resume", httpd.ScopeRun, s.control(runstore.Resume)),
		route(post, "/api/v1/runs/:planId/retry", httpd.ScopeRun, s.retry),
		route(post, "/api/v1/runs/:planId/again", httpd.ScopeRun, s.again),
		route(post, "/api/v1/runs/:planId/fork", httpd.ScopeRun, s.fork),
		untilEnd(route(post, "/api/v1/plans/:planId/try", httpd.ScopeRun, s.try)),
		route(post, "/api/v1/events", httpd.ScopeRun, s.event),
		route(post, "/api/v1/runs/:planId/messages", httpd.ScopeRun, s.say),
		route(get, "/api/v1/runs/:planId/messages", httpd.ScopeRead, s.messages),
		route(post, "/api/v1/bulk", httpd.ScopeRun, s.bulk),
		route(get, "/api/v1/bulk/:bulkId", httpd.ScopeRead, s.bulkJob),
		route(post, "/api/v1/bulk/:bulkId/stop", httpd.ScopeRun, s.stopBulk),
		route(post, "/api/v1/runs/:planId/waits/:waitId", httpd.ScopeDecide, s.decide),
		route(get, "/api/v1/runs/:planId/trace", httpd.ScopeRead, s.trace),
		route(get, "/api/v1/schedules", httpd.ScopeRead, s.schedules),
		route(get, "/api/v1/schedules/:name", httpd.ScopeRead, s.schedule),
		route(http.MethodPut, "/api/v1/schedules/:name", httpd.ScopeRun, s.putSchedule),
		route(http.MethodDelete, "/api/v1/schedules/:name", httpd.ScopeRun, s.deleteSchedule),
		route(post, "/api/v1/schedules/:name/pause", httpd.ScopeRun, s.pauseSchedule(true)),
		route(post, "/api/v1/schedules/:name/resume", httpd.ScopeRun, s.pauseSchedule(false)),
		route(post, "/api/v1/schedules/:name/run", httpd.ScopeRun, s.runSchedule),
		route(get, "/api/v1/schedules/:name/ticks", httpd.ScopeRead, s.ticks),
		route(get, "/api/v1/cron", httpd.ScopeRead, s.cron),
		route(post, "/api/executor/submit-input/:planId", httpd.ScopeDecide, s.submitInput),
		route(post, "/api/executor/stopTask/:planId", httpd.ScopeRun, s.stopTask),
		route(get, "/api/executor/taskStatus/:planId", httpd.ScopeRead, s.taskStatus),
		route(post, "/api/executor/executeByToolNameAsync", httpd.ScopeRun, s.executeAsync),
		untilEnd(route(post, "/api/executor/executeByToolNameSync", httpd.ScopeRun, s.executeSync)),
		untilEnd(byGet),
		untilEnd(route(post, "/execution/agents/:name/run", httpd.ScopeRun, s.runAgent)),
		untilEnd(route(post, "/execution/agents/:name/stream", httpd.ScopeRun, s.streamAgent)),
		untilEnd(route(post, "/execution/workflows/simple/:name/run", httpd.ScopeRun, s.runWorkflow(simpleWorkflow))),
		untilEnd(route(post, "/execution/workflows/linear/:name/run", httpd.ScopeRun, s.runWorkflow(simpleWorkflow))),
		untilEnd(route(post, "/execution/workflows/custom/:name/run", httpd.ScopeRun, s.runWorkflow(customWorkflow))),
		route(get, "/execution/history", httpd.ScopeRead, s.sessions),
		route(get, "/execution/history/:sessionId", httpd.ScopeRead, s.history),
		route(http.MethodDelete, "/execution/history/:sessionId", httpd.ScopeAdmin, s.deleteSession),
		route(post, "/execution/history/cleanup", httpd.ScopeAdmin, s.cleanUp),
		route(get, "/execution/status", httpd.ScopeRead, s.facadeStatus),
		untilEnd(route(post, "/api/plan", httpd.ScopeRun, s.planGraph)),
		route(get, "/api/plan/:planId", httpd.ScopeRead, s.storedGraph),
		route(post, "/api/execute", httpd.ScopeRun, s.executeGraph),
		route(post, "/api/execute/:executionId/start", httpd.ScopeRun, s.startExecution),
		route(get, "/api/execution/:executionId/status", httpd.ScopeRead, s.execution(executionInfo)),
		route(get, "/api/execution/:executionId/result", httpd.ScopeRead, s.execution(executionResult)),
		route(get, "/api/execution/:executionId/load", httpd.ScopeRead, s.execution(executionDocument)),
		route(get, "/api/executions", httpd.ScopeRead, s.executions),
		route(get, "/api/providers", httpd.ScopeRead, s.providers),
		route(get, "/api/v1/agents", httpd.ScopeRead, s.runnable(items((*catalog.Catalog).Agents))),
		route(get, "/api/v1/tools", httpd.ScopeRead, s.runnable(readTools)),
		route(get, "/api/v1/models", httpd.ScopeRead, s.runnable(items((*catalog.Catalog).Models))),
		route(get, "/api/v1/executors", httpd.ScopeRead, s.runnable(items((*catalog.Catalog).Executors))),
		untilEnd(chat(post, "chat/completions", s.completion)),
		chat(get, "models", s.chatModels),
		chat(get, "models/:model", s.chatModel("model", "")),
		chat(get, "models/agent/:name", s.chatModel("name", agentModel)),
		untilEnd(route(get, "/ws/:executionId", httpd.ScopeRead, s.socket)),
	}
}
