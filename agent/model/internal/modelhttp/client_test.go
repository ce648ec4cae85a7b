package modelhttp_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/model/internal/modelhttp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client returns a client of a server.
func client(t *testing.T, serve http.HandlerFunc) *modelhttp.Client {
	t.Helper()
	server := httptest.NewServer(serve)
	t.Cleanup(server.Close)

	c, err := modelhttp.New(modelhttp.Config{
		Source:  modelhttp.Source{Provider: "mine", Model: "m-1", Secret: "secret-key"},
		BaseURL: server.URL + "/base/", Path: "/path", HTTP: server.Client(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestConnectionIsKept: after a complete stream, the same connection serves the next request.
func TestConnectionIsKept(t *testing.T) {
	t.Parallel()
	from := map[string]bool{}
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		from[r.RemoteAddr] = true
		if r.URL.Path != "/base/path" || r.Header.Get("User-Agent") != "actlog" {
			t.Errorf("r.URL = %s, %v", r.URL, r.Header)
		}
		_, _ = io.WriteString(w, "event: a\ndata: one\n\ndata: done\n\n")
	})

	events := ""
	for range 5 {
		if err := c.Post(t.Context(), 1, func(name string, data []byte) error {
			if events += name + "=" + string(data) + " "; string(data) == "done" {
				return modelhttp.ErrDone
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}

	if len(from) != 1 || events != strings.Repeat("a=one =done ", 5) {
		t.Errorf("%d connections, events %s", len(from), events)
	}
}

// TestReaderFails: the error of a reader is that of the request.
func TestReaderFails(t *testing.T) {
	t.Parallel()
	odd := errors.New("odd")
	for _, kind := range []string{"application/json; charset=utf-8", "text/event-stream"} {
		c := client(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = io.WriteString(w, "data: x\n\n")
		})
		if err := c.Post(t.Context(), 1, func(string, []byte) error { return odd }); !errors.Is(err, odd) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// TestRetryAfter: the three forms in which providers ask to wait.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		header   http.Header
		min, max time.Duration
	}{
		{http.Header{}, 0, 0},
		{http.Header{"Retry-After": {"20"}}, 20 * time.Second, 20 * time.Second},
		{http.Header{"Retry-After": {"0.5"}}, 500 * time.Millisecond, 500 * time.Millisecond},
		{http.Header{"Retry-After": {"20"}, "Retry-After-Ms": {"1500"}}, 1500 * time.Millisecond, 1500 * time.Millisecond},
		{http.Header{"Retry-After": {time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)}}, time.Minute, time.Hour},
		{http.Header{"Retry-After": {time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)}}, 0, 0},
		{http.Header{"Retry-After": {"soon"}}, 0, 0},
		{http.Header{"Retry-After": {"-5"}}, 0, 0},
		{http.Header{"Retry-After": {"1e300"}}, 0, 0},
		{http.Header{"Retry-After": {"NaN"}}, 0, 0},
	} {
		c := client(t, func(w http.ResponseWriter, _ *http.Request) {
			for name, values := range row.header {
				w.Header()[name] = values
			}
			w.WriteHeader(http.StatusServiceUnavailable)
		})

		err := c.Post(t.Context(), 1, func(string, []byte) error { return nil })
		var failed *model.Error
		if !errors.As(err, &failed) || failed.Kind != model.KindOverloaded || failed.RetryAfter < row.min ||
			failed.RetryAfter > row.max {
			t.Errorf("%v: %+v", row.header, failed)
		}
	}
}

// TestTooLarge: an answer that does not end is cut off.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusOK, http.StatusInternalServerError} {
		c := client(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			line := []byte("data: " + strings.Repeat("x", 1<<20) + "\n\n")
			for r.Context().Err() == nil {
				if _, err := w.Write(line); err != nil {
					return
				}
			}
		})

		events := 0
		err := c.Post(t.Context(), 1, func(string, []byte) error { events++; return nil })
		var failed *model.Error
		if !errors.As(err, &failed) || failed.Kind != model.KindServer || events > 64 || status == http.StatusOK &&
			failed.Message != "the answer is larger than 64 MiB" || len(failed.Message) > 2010 {
			t.Errorf("status %d: %d events, %v", status, events, err)
		}
	}
}

// TestKeyIsNotShown: whatever repeats the key, no error does.
func TestKeyIsNotShown(t *testing.T) {
	t.Parallel()
	c := client(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "data: secret-key\n\n")
	})

	for _, err := range []error{
		c.Post(t.Context(), 1, func(_ string, data []byte) error { return c.Unreadable(data, errors.New("odd secret-key")) }),
		c.Post(t.Context(), 1, func(_ string, data []byte) error { return c.Failed(data) }),
		c.Invalid(errors.New("bad secret-key")),
	} {
		if err == nil || strings.Contains(err.Error(), "secret-key") || !strings.Contains(err.Error(), "***") ||
			errors.Unwrap(err) != nil {
			t.Errorf("err = %v", err)
		}
	}
}

// TestSharedClient: without a client of its own, a model uses one that all share.
func TestSharedClient(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		_, _ = io.WriteString(w, "data: x\n\n")
	}))
	defer server.Close()

	c, err := modelhttp.New(modelhttp.Config{Source: modelhttp.Source{Model: "m-1"}, BaseURL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Post(t.Context(), 1, func(string, []byte) error {
		return nil
	}); err != nil || c.Timeout != 120*time.Second {
		t.Errorf("%v, timeout %s", err, c.Timeout)
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]string{
		"":           "{}",
		`{"a": 1}`:   `{"a": 1}`,
		`null`:       `{"INVALID_JSON":"null"}`,
		`"x"`:        `{"INVALID_JSON":"\"x\""}`,
		`{"a": 1} x`: `{"INVALID_JSON":"{\"a\": 1} x"}`,
	} {
		if got := modelhttp.Arguments(written); got != want {
			t.Errorf("%q: %s, want %s", written, got, want)
		}
	}
}
