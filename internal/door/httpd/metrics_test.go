package httpd_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/apitest"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	c := serveWith(t, options{Server: func(c *apitest.Config) { c.HTTP.Version = "v1.2.3" }})
	c.Write(plan("secret-id"), step("secret-id", "secret-id", "s"))
	c.Details("secret-id")
	c.Get("/api/v1/plans/nobody")
	c.Get("/no/such/secret-path")
	c.Do("FROB", "/api/v1/plans", nil)

	body := string(wantStatus(t, c.Get("/metrics"), http.StatusOK).Body)
	for _, want := range []string{
		`actlog_http_requests_total{method="POST",route="/api/v1/records",status="2xx"} 1`,
		`actlog_http_requests_total{method="GET",route="/api/executor/details/:planId",status="2xx"} 1`,
		`actlog_http_requests_total{method="GET",route="/api/v1/plans/:planId",status="4xx"} 1`,
		`actlog_http_requests_total{method="GET",route="unmatched",status="4xx"} 1`,
		`actlog_http_requests_total{method="other",route="unmatched",status="4xx"} 1`,
		`actlog_http_request_duration_seconds_count{method="POST",route="/api/v1/records"} 1`,
		`actlog_http_requests_in_flight 1`, `actlog_http_body_bytes 0`, `actlog_http_body_bytes_max 2.01326592e+08`,
		`actlog_http_body_refused_total{limit="connection"} 0`, `actlog_http_body_slow_total 0`,
		`actlog_store_rows_total 2`, `actlog_store_batches_total 1`, `actlog_store_batch_duration_seconds_count 1`,
		`actlog_store_connections_max 4`,
		`version="v1.2.3"`, "go_goroutines ", "process_open_fds ",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(body, "secret") || t.Failed() {
		t.Errorf("string = %s", body)
	}
}
