package httpd_test

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// begin begins a stream, which goes on until the test ends or it is read to its end. It returns the status.
func begin(t *testing.T, c *client, path, key string, header ...string) (status string, body io.Reader) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)

	resp, err := c.HTTP.Do(c.As(key).Request(ctx, http.MethodGet, path, nil, header...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK && resp.Header.Get("Retry-After") == "" {
		t.Errorf("%d without Retry-After", resp.StatusCode)
	}
	return strconv.Itoa(resp.StatusCode), resp.Body
}

// TestShareOfStreams: S10. One key can have a quarter of all streams, of whatever kind they are. Others still get
// theirs, until there are as many as there may be.
func TestShareOfStreams(t *testing.T) {
	t.Parallel()
	var secrets []string
	var lines []string
	for _, name := range []string{"greedy", "b", "c", "d", "e"} {
		secret, line := apitest.NewKey(t, name, httpd.ScopeRead)
		secrets, lines = append(secrets, secret), append(lines, line)
	}
	again, line := apitest.NewKey(t, "greedy", httpd.ScopeRead) // a second key of the same name
	lines = append(lines, line)

	c := serveWith(t, options{Server: func(config *apitest.Config) {
		config.HTTP.Keys, config.HTTP.MaxStreams = apitest.Keys(t, lines...), 8
	}})
	storetest.Write(t, c.Store, &record.Plan{RootPlanID: "p", CurrentPlanID: "p", State: new(record.Running)})

	want := func(what string, key, path, status string) {
		t.Helper()
		if got, _ := begin(t, c, path, key); got != status {
			t.Errorf("%s: %s, want %s", what, got, status)
		}
	}

	want("the first", secrets[0], "/api/v1/events", "200")
	want("the second", secrets[0], "/api/v1/plans/p/events?deltas=true", "200")
	want("the third", secrets[0], "/api/v1/events", "429")
	want("the third, with another key of that name", again, "/api/v1/plans/p/events", "429")
	want("the third, of a run", secrets[0], "/api/v1/runs/p/listen", "429")
	want("the third, a WebSocket", secrets[0], "/ws/p", "429")

	for _, key := range secrets[1:4] {
		want("of another", key, "/api/v1/events", "200")
		want("of another", key, "/api/v1/events", "200")
	}
	want("more than all", secrets[4], "/api/v1/events", "503")
	wantStatus(t, c.As(secrets[0]).Get("/api/v1/plans"), http.StatusOK)
}

// TestStreamsEndWithTheirKeys, whatever sends them, and those of other keys go on.
func TestStreamsEndWithTheirKeys(t *testing.T) {
	t.Parallel()
	kept, keptLine := apitest.NewKey(t, "kept", httpd.ScopeRead)
	gone, goneLine := apitest.NewKey(t, "gone", httpd.ScopeRead)
	less, lessLine := apitest.NewKey(t, "less", httpd.ScopeRead)
	c := serveWith(t, options{Server: func(config *apitest.Config) {
		config.HTTP.Keys = apitest.Keys(t, keptLine, goneLine, lessLine)
	}})

	ended := make(chan string, 3)
	open := func(c echo.Context) error {
		key := httpd.KeyOf(c)
		if err := c.String(http.StatusOK, key); err != nil {
			return err
		}

		c.Response().Flush()
		<-c.Request().Context().Done()
		ended <- key
		return nil
	}

	door := c.Server.HTTP.Handler(false,
		httpd.Route{Method: http.MethodGet, Path: "/stream", Need: httpd.ScopeRead, Handle: func(c echo.Context) error {
			if err := httpd.AnswerTo(c).Stream(0); err != nil {
				return err
			}
			return open(c)
		}, Stream: true})
	streams := c.Behind(door)
	for _, key := range []string{kept, gone, less} {
		if status, _ := begin(t, streams, "/stream", key); status != "200" {
			t.Fatalf("status = %v", status)
		}
	}

	c.Server.HTTP.SetKeys(apitest.Keys(t, keptLine, strings.Replace(lessLine, ":read", ":write", 1)))
	if got := map[string]bool{<-ended: true, <-ended: true}; !got["gone"] || !got["less"] {
		t.Errorf("these have ended: %v", got)
	}
	if status, _ := begin(t, streams, "/stream", kept); status != "200" {
		t.Errorf("status = %v", status)
	}
	select {
	case key := <-ended:
		t.Errorf("%s has ended", key)
	default:
	}
}
