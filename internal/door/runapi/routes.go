package runapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/runtime/runstore"
)

// Routes are those of the runtime.
func (s *Server) Routes() []httpd.Route {
	const get, post = http.MethodGet, http.MethodPost
	runs := func(method, path string, need httpd.Scope, h echo.HandlerFunc) httpd.Route {
		return httpd.Route{Method: method, Path: "/api/v1/runs" + path, Need: need, Handle: h}
	}
	executor := func(method, path string, need httpd.Scope, h echo.HandlerFunc) httpd.Route {
		return httpd.Route{Method: method, Path: "/api/executor/" + path, Need: need, Handle: h}
	}

	byGet := executor(get, "executeByToolNameSync/:toolName", httpd.ScopeRun, s.executeByGet)
	byGet.Acts = true

	execution := func(method, path string, need httpd.Scope, h echo.HandlerFunc) httpd.Route {
		return httpd.Route{Method: method, Path: "/execution/" + path, Need: need, Handle: h}
	}
	graphs := func(method, path string, need httpd.Scope, h echo.HandlerFunc) httpd.Route {
		return httpd.Route{Method: method, Path: path, Need: need, Handle: h}
	}

	// untilEnd is for what is open until a run has ended, whether it sends something on the way or not.
	untilEnd := func(r httpd.Route) httpd.Route {
		r.Stream = true
		return r
	}
	chat := func(method, path string, h echo.HandlerFunc) httpd.Route {
		return httpd.Route{Method: method, Path: "/v1/" + path, Need: httpd.ScopeRun, Handle: h, Refuse: refuseChatProblem}
	}

	return []httpd.Route{
		untilEnd(runs(get, "/:planId/listen", httpd.ScopeRead, s.listen)),
		runs(post, "", httpd.ScopeRun, s.start),
		runs(get, "", httpd.ScopeRead, s.list),
		runs(get, "/:planId", httpd.ScopeRead, s.run),
		runs(post, "/:planId/stop", httpd.ScopeRun, s.control(runstore.Stop)),
		runs(post, "/:planId/pause", httpd.ScopeRun, s.control(runstore.Pause)),
		runs(post, "/:planId/resume", httpd.ScopeRun, s.control(runstore.Resume)),
		runs(post, "/:planId/waits/:waitId", httpd.ScopeDecide, s.decide),
		runs(get, "/:planId/trace", httpd.ScopeRead, s.trace),
		executor(post, "submit-input/:planId", httpd.ScopeDecide, s.submitInput),
		executor(post, "stopTask/:planId", httpd.ScopeRun, s.stopTask),
		executor(get, "taskStatus/:planId", httpd.ScopeRead, s.taskStatus),
		executor(post, "executeByToolNameAsync", httpd.ScopeRun, s.executeAsync),
		untilEnd(executor(post, "executeByToolNameSync", httpd.ScopeRun, s.executeSync)),
		untilEnd(byGet),
		untilEnd(execution(post, "agents/:name/run", httpd.ScopeRun, s.runAgent)),
		untilEnd(execution(post, "agents/:name/stream", httpd.ScopeRun, s.streamAgent)),
		untilEnd(execution(post, "workflows/simple/:name/run", httpd.ScopeRun, s.runWorkflow(simpleWorkflow))),
		untilEnd(execution(post, "workflows/linear/:name/run", httpd.ScopeRun, s.runWorkflow(simpleWorkflow))),
		untilEnd(execution(post, "workflows/custom/:name/run", httpd.ScopeRun, s.runWorkflow(customWorkflow))),
		execution(get, "history", httpd.ScopeRead, s.sessions),
		execution(get, "history/:sessionId", httpd.ScopeRead, s.history),
		execution(http.MethodDelete, "history/:sessionId", httpd.ScopeAdmin, s.deleteSession),
		execution(post, "history/cleanup", httpd.ScopeAdmin, s.cleanUp),
		execution(get, "status", httpd.ScopeRead, s.facadeStatus),
		untilEnd(graphs(post, "/api/plan", httpd.ScopeRun, s.planGraph)),
		graphs(get, "/api/plan/:planId", httpd.ScopeRead, s.storedGraph),
		graphs(post, "/api/execute", httpd.ScopeRun, s.executeGraph),
		graphs(post, "/api/execute/:executionId/start", httpd.ScopeRun, s.startExecution),
		graphs(get, "/api/execution/:executionId/status", httpd.ScopeRead, s.execution(executionInfo)),
		graphs(get, "/api/execution/:executionId/result", httpd.ScopeRead, s.execution(executionResult)),
		graphs(get, "/api/execution/:executionId/load", httpd.ScopeRead, s.execution(executionDocument)),
		graphs(get, "/api/executions", httpd.ScopeRead, s.executions),
		graphs(get, "/api/providers", httpd.ScopeRead, s.providers),
		graphs(get, "/api/v1/agents", httpd.ScopeRead, s.runnable(readAgents)),
		graphs(get, "/api/v1/tools", httpd.ScopeRead, s.runnable(readTools)),
		graphs(get, "/api/v1/models", httpd.ScopeRead, s.runnable(readModels)),
		graphs(get, "/api/v1/executors", httpd.ScopeRead, s.runnable(readExecutors)),
		untilEnd(chat(post, "chat/completions", s.completion)),
		chat(get, "models", s.chatModels),
		chat(get, "models/:model", s.chatModel("model", "")),
		chat(get, "models/agent/:name", s.chatModel("name", agentModel)),
		untilEnd(graphs(get, "/ws/:executionId", httpd.ScopeRead, s.socket)),
	}
}
