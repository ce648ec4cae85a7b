package httpd_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/pgtest"
)

// TestEveryErrorIsAProblem tries every operation with every failure that all share.
func TestEveryErrorIsAProblem(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what is refused, and in which words")
	t.Parallel()
	secret, line := apitest.NewKey(t, "all", httpd.ScopeRead, httpd.ScopeWrite, httpd.ScopeAdmin, httpd.ScopeRun,
		httpd.ScopeDecide)
	weak, weakLine := apitest.NewKey(t, "weak", httpd.ScopeWrite)

	loopback := serveWith(t, options{Server: func(c *apitest.Config) { c.LoopbackOnly = true }})
	keyed := serveWith(t, options{Server: func(c *apitest.Config) { c.HTTP.Keys = apitest.Keys(t, line, weakLine) }})
	closed := serve(t)
	closed.CloseStore()

	for _, r := range requests() {
		unknown, unread := []int{404, 200}, []int{503, 200}
		if status, runs := r.runs(); runs {
			unknown, unread = []int{status}, []int{status}
		}

		if strings.HasPrefix(r.path, "/api/executor/") && r.method == http.MethodPost {
			unknown = []int{400}
		}
		if r.route == "/api/v1/bulk" && r.method == http.MethodPost { // of no runs
			unknown = []int{202}
		}
		if isChat(r.route) { // agents are in the configuration, which has none
			unknown, unread = []int{404, 200}, []int{404, 200}
		}

		for name, tt := range map[string]struct {
			answer answer
			want   []int
		}{
			"foreign host":   {r.do(loopback, "Host", "evil.example"), []int{403}},
			"no key":         {r.do(keyed), []int{401, 200}},
			"a weak key":     {r.do(keyed.As(weak)), []int{403, 200}},
			"unknown":        {r.do(keyed.As(secret)), unknown},
			"another method": {keyed.As(secret).Do(http.MethodPatch, r.path, nil), []int{405}},
			"a closed store": {r.do(closed), unread},
		} {
			a := tt.answer
			if a.Status != tt.want[0] && a.Status != tt.want[len(tt.want)-1] {
				t.Errorf("r.method = %s %s, %s: %d %s", r.method, r.path, name, a.Status, a.Body)
				continue
			}

			switch {
			case a.Status < 400:
			case strings.HasPrefix(r.path, "/api/executor/") && a.Status == http.StatusNotFound:
				if len(a.Body) > 0 {
					t.Errorf("%s %s, %s: body %q", r.method, r.path, name, a.Body)
				}
			case r.own() && (a.Status == http.StatusBadRequest || a.Status == http.StatusNotFound):
				if p, _ := a.JSON(t).(obj); p["error"] == nil {
					t.Errorf("r.method = %s %s, %s: %s", r.method, r.path, name, a.Body)
				}
			case isChat(r.route) && a.Status != http.StatusMethodNotAllowed:
				said, _ := a.JSON(t).(obj)["error"].(obj)
				if message, _ := said["message"].(string); len(strings.Fields(message)) < 5 || said["type"] == "" {
					t.Errorf("r.method = %s %s, %s: %s", r.method, r.path, name, a.Body)
				}
			case strings.HasPrefix(r.path, "/v1/") && a.Status != http.StatusMethodNotAllowed:
				wantRefused(t, a, a.Status, "application/json", " ")
			default:
				p, _ := a.JSON(t).(obj)
				detail, _ := p["detail"].(string)
				if a.Header.Get("Content-Type") != "application/problem+json" || p["status"] != float64(a.Status) ||
					len(strings.Fields(detail)) < 5 {
					t.Errorf("r.method = %s %s, %s: %s %s", r.method, r.path, name, a.Header.Get("Content-Type"), a.Body)
				}
				if a.Status == http.StatusServiceUnavailable && a.Header.Get("Retry-After") == "" {
					t.Errorf("%s %s, %s: no Retry-After", r.method, r.path, name)
				}
			}
		}
	}
}

func TestUnknownRoutes(t *testing.T) {
	t.Parallel()
	c := serve(t)
	wantProblem(t, c.Get("/api/v2/plans"), http.StatusNotFound, nil)
	wantProblem(t, c.Do(http.MethodPut, "/api/v1/plans", nil), http.StatusMethodNotAllowed, nil)
}
