package httpd_test

import (
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
)

// TestAnswersReturnWhatTheyHold: N14: however a request ends. Nothing of an answer that is neither
// streamed nor flushed leaves before its handler has returned.
func TestAnswersReturnWhatTheyHold(t *testing.T) {
	t.Parallel()
	const size = 3 << 20

	take := func(c echo.Context) error { return httpd.AnswerTo(c).Take(size) }
	write := func(c echo.Context) error {
		_, err := io.CopyN(c.Response(), rand.Reader, size) // which compression does not make smaller
		return err
	}
	stream := func(c echo.Context) error { return httpd.AnswerTo(c).Stream(4 << 20) }
	flush := func(c echo.Context) error {
		c.Response().Flush()
		return nil
	}
	failed := func(echo.Context) error { return errors.New("failed") }

	for name, tt := range map[string]struct {
		does   []func(echo.Context) error
		status int // 0: the connection breaks
	}{
		"written":                {[]func(echo.Context) error{take, write}, http.StatusOK},
		"written without taking": {[]func(echo.Context) error{write, write}, http.StatusOK},
		"fails early":            {[]func(echo.Context) error{take, failed}, http.StatusInternalServerError},
		"fails late":             {[]func(echo.Context) error{take, write, failed}, http.StatusInternalServerError},
		"panics early": {[]func(echo.Context) error{take, func(echo.Context) error {
			panic("early")
		}}, http.StatusInternalServerError},
		"panics late": {[]func(echo.Context) error{take, write, func(echo.Context) error {
			panic("late")
		}}, http.StatusInternalServerError},
		"aborts": {[]func(echo.Context) error{take, write, func(echo.Context) error {
			panic(http.ErrAbortHandler)
		}}, 0},
		"too large":          {[]func(echo.Context) error{take, take, take, take}, http.StatusRequestEntityTooLarge},
		"grows too large":    {[]func(echo.Context) error{write, write, write, write}, http.StatusRequestEntityTooLarge},
		"streamed":           {[]func(echo.Context) error{stream, write, take, write, write, write}, http.StatusOK},
		"flushed":            {[]func(echo.Context) error{write, flush, take, write}, http.StatusOK},
		"flushed, fails":     {[]func(echo.Context) error{write, flush, take, write, failed}, 0},
		"flushed, too large": {[]func(echo.Context) error{write, flush, take, take, take, take}, 0},
		"streamed, fails":    {[]func(echo.Context) error{stream, write, failed}, 0},
	} {
		for _, encoding := range []string{"identity", "gzip", "zstd"} {
			t.Run(name+", "+encoding, func(t *testing.T) {
				t.Parallel()
				s := httpd.New(httpd.Config{Logger: slog.New(slog.DiscardHandler), AnswerBytes: 20 << 20})
				server := httptest.NewUnstartedServer(s.Handler(false,
					httpd.Route{Method: http.MethodGet, Path: "/", Handle: func(c echo.Context) error {
						for _, do := range tt.does {
							if err := do(c); err != nil {
								return err
							}
						}
						return nil
					}}))
				server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
				server.Start()
				defer server.Close()

				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Accept-Encoding", encoding)

				resp, err := server.Client().Do(r)
				if err != nil {
					if tt.status != 0 {
						t.Error(err)
					}
				} else {
					defer resp.Body.Close()
					if _, err := io.Copy(io.Discard, resp.Body); (err != nil) != (tt.status == 0) || err == nil &&
						resp.StatusCode != tt.status {
						t.Errorf("resp.StatusCode = %d, %v, want %d", resp.StatusCode, err, tt.status)
					}
				}

				server.Close() // waits for the handler
				if held, making := httpd.HeldAnswers(s); held != 0 || making != 0 {
					t.Errorf("%d bytes are held, %d answers are made", held, making)
				}
			})
		}
	}
}
