package httpd_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/record/wire"
)

// rawPost sends a request as a plain client does, which writes all it has before it reads, and
// returns the status of the answer.
func rawPost(c *client, contentType string, contentLength int, body io.Reader) int {
	c.T.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.Base, "http://"))
	if err != nil {
		c.T.Fatal(err)
	}
	defer conn.Close()

	fmt.Fprintf(
		conn, "POST /api/v1/records HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n",
		contentType, contentLength,
	)
	if _, err := io.Copy(conn, body); err != nil {
		c.T.Errorf("the server did not take the body: %v", err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		c.T.Error(err)
	}

	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		c.T.Fatalf("no answer: %v", err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); err != nil {
		c.T.Error(err)
	}
	return resp.StatusCode
}

// endless is one byte over and over.
type endless byte

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

func TestAPlainClientSeesWhyItsBodyIsRefused(t *testing.T) {
	t.Parallel()
	c := serve(t)

	for name, tt := range map[string]struct {
		contentType, start string
		size               int
		want               int
	}{
		"too large":  {wire.TypeNDJSON, "", 65 << 20, http.StatusRequestEntityTooLarge},
		"unreadable": {wire.TypeJSON, "[", 8 << 20, http.StatusBadRequest},
	} {
		body := io.MultiReader(strings.NewReader(tt.start), io.LimitReader(endless('x'), int64(tt.size-len(tt.start))))
		if got := rawPost(c, tt.contentType, tt.size, body); got != tt.want {
			t.Errorf("%s: %d", name, got)
		}
	}
}

// TestABodyThatBreaksOff writes nothing, although whole records arrived.
func TestABodyThatBreaksOff(t *testing.T) {
	t.Parallel()
	c := serve(t)
	if got := rawPost(c, wire.TypeJSON, 10_000,
		strings.NewReader(`{"records":[`+`{"kind":"plan","rootPlanId":"p","currentPlanId":"p"}`+
			`,`)); got != http.StatusBadRequest {
		t.Errorf("status %d", got)
	}
	wantStatus(t, c.Get(details+"p"), http.StatusNotFound)
}
