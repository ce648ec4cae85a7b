package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/record"
)

// Routes are those of the API.
func (s *Server) Routes() []httpd.Route {
	const (
		get  = http.MethodGet
		post = http.MethodPost
		del  = http.MethodDelete
	)
	read, open := httpd.ScopeRead, httpd.ScopeNone
	executor := func(method, path string, h echo.HandlerFunc) httpd.Route {
		return httpd.Route{
			Method: method, Path: "/api/executor/" + path, Need: read, Handle: h, Refuse: httpd.NotFoundWithoutBody,
		}
	}

	details := executor(get, "details/:planId", s.executorDetails)
	details.Spends = true // the exception of a plan

	return append(Health(s.store, s.server), []httpd.Route{
		details,
		executor(get, "details/", s.executorDetails),
		executor(del, "details/:planId", s.executorDelete),
		executor(del, "details/", s.executorDelete),
		executor(get, "agent-execution/:stepId", s.executorStep),
		executor(get, "agent-execution/", s.executorStep),
		{Method: post, Path: "/api/v1/records", Need: httpd.ScopeWrite, Handle: s.writeRecords},
		{Method: get, Path: "/api/v1/limits", Need: httpd.ScopeAny, Handle: s.limits},
		{Method: get, Path: "/api/v1/plans", Need: read, Handle: s.listPlans},
		{Method: get, Path: "/api/v1/ids", Need: read, Handle: s.planIDs},
		{Method: get, Path: "/api/v1/search", Need: read, Handle: s.searchTexts},
		{Method: get, Path: "/api/v1/plans/:planId", Need: read, Handle: s.plan},
		{Method: del, Path: "/api/v1/plans/:planId", Need: httpd.ScopeAdmin, Handle: s.deletePlan},
		{
			Method: get, Path: "/api/v1/plans/:planId/thoughts", Need: read,
			Handle: s.listAttached(record.KindThought, "thoughts"),
		},
		{
			Method: get, Path: "/api/v1/plans/:planId/artifacts", Need: read,
			Handle: s.listAttached(record.KindArtifact, "artifacts"),
		},
		{
			Method: get, Path: "/api/v1/plans/:planId/sources", Need: read,
			Handle: s.listAttached(record.KindSource, "sources"),
		},
		{Method: get, Path: "/api/v1/plans/:planId/waits", Need: read, Handle: s.listAttached(record.KindWait, "waits")},
		{Method: get, Path: "/api/v1/plans/:planId/failures", Need: read, Handle: s.listFailures},
		{Method: get, Path: "/api/v1/plans/:planId/search", Need: read, Handle: s.search},
		{Method: get, Path: "/api/v1/plans/:planId/records", Need: read, Handle: s.exportRecords, Long: true},
		{Method: get, Path: "/api/v1/plans/:planId/events", Need: read, Handle: s.planEvents, Stream: true},
		{Method: get, Path: "/api/v1/events", Need: read, Handle: s.allEvents, Stream: true},
		{Method: get, Path: "/api/v1/steps/:stepId", Need: read, Handle: s.step},
		{Method: get, Path: "/openapi.yaml", Need: open, Handle: func(c echo.Context) error {
			return c.Blob(http.StatusOK, "application/yaml", openAPI)
		}},
	}...)
}
