package httpd

import (
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
)

// request is what is noted of a request while it is served.
type request struct {
	id      string
	address netip.Addr // of the client
	key     *key       // nil: it has none, and needs none or is refused
	// byCookie: it has no key of its own, but the session of one.
	byCookie bool
	body     *countedBody
	// answer is nil over gRPC, whose library sends it.
	answer *Answer
	// refused is the status of the problem that answers it, which over gRPC is not that of the
	// answer; 0: none.
	refused int
	// broken: the answer failed when the client had a part of it.
	broken bool
	// began is when its head had been read.
	began time.Time
}

const requestKey = "request"

func requestOf(c echo.Context) *request {
	r, _ := c.Get(requestKey).(*request)
	return r
}

// ClientOf returns who sent a request.
func ClientOf(c echo.Context) Client {
	client := Client{Name: KeyOf(c), Connection: c.Request().RemoteAddr}
	address := requestOf(c).address
	if client.Name == "" {
		client.Name = networkOf(address)
	}
	if address != addressOf(client.Connection) { // a proxy has the requests of many clients in one connection
		client.Connection += " " + address.String()
	}
	return client
}

// KeyOf returns the name of the key that a request brought; empty if the server has no keys.
func KeyOf(c echo.Context) string {
	if k := requestOf(c).key; k != nil {
		return k.name
	}
	return ""
}

// May reports whether the sender of a request may do what needs a scope. Of routes that need no key, nobody may.
func May(c echo.Context, need Scope) bool {
	k := requestOf(c).key
	return k != nil && k.allows(need)
}

// AnswerTo returns the answer to a request.
func AnswerTo(c echo.Context) *Answer { return requestOf(c).answer }

// methodOf bounds what clients can make up.
func methodOf(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions:
		return r.Method
	}
	return "other"
}

// usableID keeps the id that a client gave its request if it can stand in a log and a header,
// and else makes one.
func usableID(id string) string {
	strange := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.:/+=@", r)
	}
	if id == "" || len(id) > 128 || strings.ContainsFunc(id, strange) {
		return rand.Text()
	}
	return id
}

// countedBody counts what is read of a body, and notes its end.
type countedBody struct {
	io.ReadCloser
	read  atomic.Int64
	ended atomic.Bool
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read.Add(int64(n))
	if errors.Is(err, io.EOF) {
		b.ended.Store(true)
	}
	return n, err
}

// drainFor is how long a refused body is read: a client that sends all of it before it reads
// would else see a broken connection instead of the answer.
const drainFor = 5 * time.Second

// drain reads the rest of the body of a request that is refused, unless it comes too slowly.
func drain(c echo.Context, slow bool) {
	r, noted := c.Request(), requestOf(c)
	if r.ContentLength == 0 || noted.body.ended.Load() || r.ProtoMajor > 1 { // HTTP/2 needs none
		return
	}

	c.Response().Header().Set("Connection", "close")
	if slow { // it would not come
		return
	}
	// If the connection cannot set a deadline, the server closes it instead.
	if err := http.NewResponseController(c.Response().Writer).SetReadDeadline(time.Now().Add(drainFor)); err == nil {
		_, _ = io.Copy(io.Discard, r.Body)
	}
}
