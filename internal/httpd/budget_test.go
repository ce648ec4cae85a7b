package httpd_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/actlog/actlog/internal/apitest"
	"github.com/actlog/actlog/internal/wire"
)

// TestBodiesInFlightAreBounded: a body that does not fit is answered 503, until others are done.
func TestBodiesInFlightAreBounded(t *testing.T) {
	t.Parallel()
	c := serveWith(t, options{Server: func(c *apitest.Config) { c.HTTP.BodyBytes = 1 << 20 }})
	slow := c.Dial()
	fmt.Fprintf(slow, "POST /api/v1/records HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: 900100\r\n\r\n", wire.TypeNDJSON)
	if _, err := io.CopyN(slow, endless(' '), 900_000); err != nil {
		t.Fatal(err)
	}
	for c.BodyBytes() < 900_000 {
		c.Get("/livez")
	}
	body := bytes.Repeat([]byte(" "), 300_000)
	for _, packed := range [][]byte{nil, apitest.Gzip(t, body)} { // what counts is what it becomes
		encoding := "gzip"
		if packed == nil {
			packed, encoding = body, ""
		}
		a := c.Do(http.MethodPost, "/api/v1/records", bytes.NewReader(packed), "Content-Type", wire.TypeNDJSON, "Content-Encoding", encoding)
		wantProblem(t, a, http.StatusServiceUnavailable, nil)
		if a.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
	c.Write(plan("small")) // a small one still fits
	if _, err := fmt.Fprintf(slow, "%100s", ""); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(slow), nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
	for c.BodyBytes() > 0 {
		c.Get("/livez")
	}
	if _, a := c.PostBody(wire.TypeNDJSON, body); a.Accepted != 0 {
		t.Errorf("%+v", a)
	}
}
