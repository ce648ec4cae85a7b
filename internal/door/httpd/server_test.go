package httpd_test

import (
	"net/http"
	"testing"
)

func TestDraining(t *testing.T) {
	t.Parallel()
	c := serve(t)
	wantStatus(t, c.Get("/readyz"), http.StatusOK)

	c.Server.HTTP.Drain()
	wantProblem(t, c.Get("/readyz"), http.StatusServiceUnavailable, nil)
	wantStatus(t, c.Get("/livez"), http.StatusOK)
	c.Write(plan("p"))
	c.Details("p")
}
