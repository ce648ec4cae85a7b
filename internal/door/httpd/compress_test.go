package httpd_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/apitest"
)

// TestAnswersAreCompressed in the encoding that the client prefers.
func TestAnswersAreCompressed(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.Write(plan("p", obj{"title": strings.Repeat("quarterly ", 1000)}), plan("small"))
	plain := c.Get("/api/v1/plans/p", "Accept-Encoding", "identity")

	for accept, want := range map[string]string{
		"": "", "identity": "", "br": "", "gzip": "gzip", "zstd": "zstd", "gzip, zstd": "zstd", "gzip;q=0": "",
		"gzip;q=1, zstd;q=0.1": "gzip", "GZIP": "gzip",
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.Base+"/api/v1/plans/p", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", accept)
		if accept == "" {
			r.Header.Set("Accept-Encoding", "x") // none of ours; an empty one would be filled in
		}

		resp, err := c.HTTP.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()

		if got := resp.Header.Get("Content-Encoding"); got != want || resp.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%q: encoding %q, vary %q", accept, got, resp.Header.Get("Vary"))
		}
		if want != "" && len(raw) > 1000 {
			t.Errorf("%q: still %d bytes", accept, len(raw))
		}
		if got := apitest.Decompress(t, resp.Header.Get("Content-Encoding"), raw); !bytes.Equal(got, plain.Body) {
			t.Errorf("%q: another answer, %.200s", accept, got)
		}

		tag := resp.Header.Get("ETag")
		if tag != plain.Header.Get("ETag") {
			t.Errorf("%q: tag %s", accept, tag)
		}
		a := wantStatus(t, c.Get("/api/v1/plans/p", "If-None-Match", tag, "Accept-Encoding", accept), http.StatusNotModified)
		if len(a.Body) > 0 || a.Header.Get("Content-Encoding") != "" {
			t.Errorf("%q: 304 with %q", accept, a.Body)
		}
	}

	if a := c.Get("/api/v1/limits", "Accept-Encoding", "gzip"); a.Header.Get("Content-Encoding") != "" {
		t.Error("a small answer is compressed")
	}
	if a := c.Get("/api/v1/plans/nobody", "Accept-Encoding", "zstd"); a.Header.Get("Content-Encoding") != "" {
		t.Error("a small problem is compressed")
	}
}
