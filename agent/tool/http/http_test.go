package http_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/actlog/actlog/agent/tool"
	tools "github.com/actlog/actlog/agent/tool/http"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type object = map[string]any

// world are servers over TLS: api.example.com, and example.com, which is another host.
type world struct {
	t        *testing.T
	mu       sync.Mutex
	requests []string // "host method path header..."
	tools    *tool.Set
}

const secret = "hunter2hunter2"

// serve starts a server for the hosts, and tools that may use them.
func serve(t *testing.T, o tools.Options, handle http.HandlerFunc) *world {
	t.Helper()
	w := &world{t: t}
	s := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.mu.Lock()
		w.requests = append(w.requests,
			fmt.Sprintf("%s %s %s auth=%q x=%q key=%q body=%q", r.Method, r.Host, r.URL.RequestURI(),
				r.Header.Get("Authorization"),
				r.Header.Get("X-Mine"), r.Header.Get("Idempotency-Key"), body))
		w.mu.Unlock()
		handle(rw, r)
	}))
	t.Cleanup(s.Close)

	at := s.Listener.Addr().String()
	all, err := tools.ToolsAt(o, map[string]string{"api.example.com:443": at, "example.com:443": at, "example.com:80": at},
		pool(s))
	if err != nil {
		t.Fatal(err)
	}
	if w.tools, err = tool.NewSet(all...); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.requests)
}

// call calls a tool, after an approval if its policy wants one.
func (w *world) call(name string, arguments object) (tool.Result, error) {
	w.t.Helper()
	one, ok := w.tools.Get(name)
	if !ok {
		w.t.Fatalf("there is no %s", name)
	}
	b, err := json.Marshal(arguments)
	if err != nil {
		w.t.Fatal(err)
	}

	call, policy := tool.Call{ID: "call-1", Arguments: b}, one.Spec().Policy
	if policy.Approval {
		p, can, err := tool.PreviewOf(w.t.Context(), one, policy, call)
		if err != nil || !can {
			return tool.Failure(fmt.Sprint(err)), nil
		}
		call.Approved = p.Digest
	}
	return tool.Do(w.t.Context(), one, policy, call, 0)
}

// failure calls a tool and wants a failed result with a text.
func (w *world) failure(name string, arguments object, want string) {
	w.t.Helper()
	result, err := w.call(name, arguments)
	if err != nil || !result.Failed || !strings.Contains(result.Text, want) {
		w.t.Errorf("%s %v: got %q, %v, want %q", name, arguments, result.Text, err, want)
	}
}

var all = tools.Options{
	Hosts: []string{"api.example.com", "example.com"}, Methods: tools.Methods(), AllowPrivate: true,
	Headers: map[string]map[string]string{"api.example.com": {"Authorization": "Bearer " + secret}},
}

// A request reads: the host gets its secret, and the model gets the answer without it.
func TestRequest(t *testing.T) {
	t.Parallel()
	w := serve(t, all, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		rw.Header().Set("Set-Cookie", "session=1")
		fmt.Fprintf(rw, `{"you": %q}`, r.Header.Get("Authorization"))
	})

	result, err := w.call("http.request",
		object{"url": "https://API.example.com/a?b=c#d", "headers": object{"x-mine": "1"}})
	if err != nil || result.Failed {
		t.Fatalf("w.call = %v, %v", result, err)
	}

	want := "200 OK\nContent-Length: 32\nContent-Type: application/json\n\n{\"you\": \"[secret]\"}"
	if result.Text != want || strings.Contains(string(result.Data), secret) {
		t.Errorf("got %q, data %s", result.Text, result.Data)
	}
	if got, want := w.seen(),
		[]string{`GET api.example.com /a?b=c auth="Bearer hunter2hunter2" x="1" key="" body=""`}; !slices.Equal(got, want) {
		t.Errorf("w.seen() = %q", got)
	}
}

// What a request must not be is refused before anything is sent.
func TestRefused(t *testing.T) {
	t.Parallel()
	w := serve(t, all, func(http.ResponseWriter, *http.Request) {})
	for _, tt := range []struct {
		arguments object
		want      string
	}{
		{object{"url": "https://other.example.com/"},
			"url: requests to https://other.example.com are not allowed; allowed are: api.example.com, example.com"},
		{object{"url": "https://api.example.com.evil.com/"}, "not allowed"},
		{object{"url": "https://api.example.com:8443/"}, "not allowed"},
		{object{"url": "https://127.0.0.1/"}, "not allowed"},
		{object{"url": "https://api.example.com./"}, "not allowed"},
		{object{"url": "https://api.example.com@evil.com/"}, "must not have a user"},
		{object{"url": "https://me:pw@api.example.com/"}, "must not have a user"},
		{object{"url": "file:///etc/passwd"}, "url: it must begin with https:// or http://"},
		{object{"url": "gopher://api.example.com/"}, "url: it must begin"},
		{object{"url": "https:api.example.com"}, "url: it has no host"},
		{object{"url": "https://api.example.com/ \r\nX: y"}, "url: it is no URL"},
		{object{"url": "https://api.example.com/" + strings.Repeat("a", 9000)}, "more than 8192 bytes"},
		{object{"url": "http://api.example.com/"}, "must be encrypted"},
		{object{"url": "https://example.com/", "headers": object{"Host": "evil.com"}}, "headers: Host cannot be set"},
		{object{"url": "https://example.com/", "headers": object{"content-length": "1"}}, "cannot be set"},
		{object{"url": "https://example.com/", "headers": object{"Idempotency-Key": "1"}}, "cannot be set"},
		{object{"url": "https://example.com/", "headers": object{"X": "a\r\nHost: evil.com"}}, "no line breaks"},
		{object{"url": "https://example.com/", "headers": object{"X: y\r\nZ": "a"}}, "cannot have this name"},
		{object{"url": "https://example.com/", "headers": object{"x": "a", "X": "b"}}, "is there twice"},
		{object{"url": "https://api.example.com/", "headers": object{"authorization": "mine"}},
			"is set by the program for this host"},
		{object{"url": "https://example.com/", "method": "POST"}, "method: POST is one of the tool http.send"},
		{object{"url": "https://example.com/", "method": "CONNECT"}, `method: "CONNECT" is not allowed`},
		{object{"url": "https://example.com/", "method": "GET / HTTP/1.1\r\nX: y\r\n"}, "is not allowed"},
	} {
		w.failure("http.request", tt.arguments, tt.want)
	}

	w.failure("http.send", object{"url": "https://example.com/", "method": "GET"},
		"method: GET is one of the tool http.request")
	w.failure("http.send", object{"url": "https://example.com/", "method": "POST", "body": strings.Repeat("x", 50<<10)},
		"body: it has more than 49152 bytes")
	if got := w.seen(); len(got) > 0 {
		t.Errorf("sent %q", got)
	}
}

// Each redirect is checked as the first URL was, and what one host may know does not go to the next.
func TestRedirects(t *testing.T) {
	t.Parallel()
	to := map[string]string{
		"/other": "https://example.com/end", "/out": "https://evil.com/", "/local": "http://169.254.169.254/latest",
		"/plain": "http://example.com/end",
		"/back":  "https://api.example.com/end", "/user": "https://a:b@example.com/", "/file": "file:///etc/passwd",
		"/loop": "/loop", "/none": "",
	}
	w := serve(t, all, func(rw http.ResponseWriter, r *http.Request) {
		location, ok := to[r.URL.Path]
		if ok {
			rw.Header()["Location"] = []string{location}
			rw.WriteHeader(http.StatusFound)
		}
	})

	mine := object{"X-Mine": "1"}
	for path, want := range map[string]string{
		"/out": "not followed: url: requests to https://evil.com are not allowed", "/local": "is not encrypted",
		"/plain": "is not encrypted",
		"/user":  "must not have a user", "/file": "must begin with", "/loop": "more than 5 redirects",
		"/none": "does not say where to",
	} {
		w.failure("http.request", object{"url": "https://api.example.com" + path}, want)
	}

	before := len(w.seen())
	for _, url := range []string{"https://api.example.com/other", "https://example.com/back"} {
		if result, err := w.call("http.request", object{"url": url, "headers": mine}); err != nil || result.Failed {
			t.Errorf("w.call = %v, %v", result, err)
		}
	}
	want := []string{
		`GET api.example.com /other auth="Bearer hunter2hunter2" x="1" key="" body=""`,
		`GET example.com /end auth="" x="" key="" body=""`,
		`GET example.com /back auth="" x="1" key="" body=""`,
		`GET api.example.com /end auth="Bearer hunter2hunter2" x="" key="" body=""`,
	}
	if got := w.seen()[before:]; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// A request that writes is sent once, as it was approved, and is not redirected.
func TestSend(t *testing.T) {
	t.Parallel()
	w := serve(t, all, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			http.Redirect(rw, r, "/elsewhere", http.StatusTemporaryRedirect)
			return
		}
		rw.WriteHeader(http.StatusCreated)
	})
	send, _ := w.tools.Get("http.send")
	policy := send.Spec().Policy
	if !policy.Approval || !policy.Writes {
		t.Errorf("policy = %+v", policy)
	}

	body := `{"url": "https://api.example.com/items", "method": "post", "headers": {"content-type": "text/plain"}, "body": "hello\nyou"}`
	call := tool.Call{ID: "call-7", Arguments: json.RawMessage(body)}
	p, _, err := tool.PreviewOf(t.Context(), send, policy, call)
	want := "POST https://api.example.com/items\nContent-Type: text/plain\nAuthorization: [secret]\n" +
		"Idempotency-Key: call-7\n\nhello\nyou"
	if err != nil || p.Kind != tool.PreviewRequest || p.Text != want {
		t.Errorf("p.Text = %q, %v", p.Text, err)
	}

	call.Approved = p.Digest
	other := call
	other.Arguments = json.RawMessage(strings.Replace(body, "you", "all", 1))
	if result, err := tool.Do(t.Context(), send, policy, other, 0); err != nil || result.Text != tool.ErrChanged.Error() {
		t.Errorf("result.Text = %q %v", result.Text, err)
	}
	if result, err := tool.Do(t.Context(), send, policy, call, 0); err != nil || result.Failed ||
		!strings.HasPrefix(result.Text, "201 Created") {
		t.Errorf("result.Text = %q %v", result.Text, err)
	}

	w.failure("http.send", object{"url": "https://api.example.com/moved", "method": "DELETE"}, "307 Temporary Redirect")
	wantSent := []string{
		`POST api.example.com /items auth="Bearer hunter2hunter2" x="" key="call-7" body="hello\nyou"`,
		`DELETE api.example.com /moved auth="Bearer hunter2hunter2" x="" key="call-1" body=""`,
	}
	if got := w.seen(); !slices.Equal(got, wantSent) {
		t.Errorf("w.seen() = %q", got)
	}
}

// If the connection breaks after a request that writes was sent, nobody knows; before, it failed.
func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	w := serve(t, all, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if _, err := w.call("http.send", object{"url": "https://api.example.com/", "method": "PUT"}); !errors.Is(err,
		tool.ErrUnknown) {
		t.Errorf("w.call = %v", err)
	}
	w.failure("http.request", object{"url": "https://api.example.com/"}, "the connection broke before the answer")
	if got := w.seen(); len(got) != 2 {
		t.Errorf("sent more than once: %q", got)
	}

	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	nobody, err := tools.ToolsAt(all, map[string]string{"example.com:443": closed.Addr().String()}, nil)
	if err != nil {
		t.Fatal(err)
	}

	w.tools, _ = tool.NewSet(nobody...)
	w.failure("http.send", object{"url": "https://example.com/", "method": "PUT"}, "example.com cannot be reached")
}

// Certificates are checked.
func TestCertificates(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = quiet
	s.StartTLS()
	defer s.Close()

	some, err := tools.ToolsAt(all, map[string]string{"example.com:443": s.Listener.Addr().String()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t}
	w.tools, _ = tool.NewSet(some...)
	w.failure("http.request", object{"url": "https://example.com/"}, "certificate")
}

// Answers have bounds, and only texts are shown.
func TestAnswers(t *testing.T) {
	t.Parallel()
	o := all
	o.MaxBytes = 100
	handle := func(rw http.ResponseWriter, r *http.Request) {
		h := rw.Header()
		switch r.URL.Path {
		case "/long":
			for range 1000 {
				io.WriteString(rw, strings.Repeat("é", 1000))
			}
		case "/binary":
			rw.Write([]byte{0x89, 'P', 'N', 'G', 0, 1})
		case "/zip":
			h.Set("Content-Encoding", "gzip")
			rw.Write([]byte{0x1f, 0x8b})

		case "/slow":
			rw.WriteHeader(http.StatusOK)
			rw.(http.Flusher).Flush()
			<-r.Context().Done()
			panic(http.ErrAbortHandler) // else it could end well at the same moment

		case "/short":
			h.Set("Content-Length", "50")
			io.WriteString(rw, "begin")
			rw.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)

		case "/headers":
			h.Set("Etag", strings.Repeat("x", 5000))
		case "/latin":
			h.Set("Content-Type", "text/plain; charset=iso-8859-1")
			rw.Write([]byte{'a', 0xe9})
		case "/missing":
			http.Error(rw, "no such thing", http.StatusNotFound)
		}
	}

	w := serve(t, o, handle)
	get := func(path string) tool.Result {
		t.Helper()
		result, err := w.call("http.request", object{"url": "https://example.com" + path})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}

	for path, want := range map[string]string{
		"/long":   strings.Repeat("é", 50) + "\n(the body is cut after 100 bytes)",
		"/binary": "(the body is not shown: it is binary (",
		"/zip":    "it is compressed, which was not asked for: gzip",
		"/short":  "begin\n(the connection broke before the end of the body)", "/headers": "(cut: the whole has 5000 bytes)",
		"/latin": "a\uFFFD",
	} {
		if got := get(path); got.Failed || !strings.Contains(got.Text, want) {
			t.Errorf("%s: %q", path, got.Text)
		}
	}
	if got := get("/missing"); !got.Failed || !strings.Contains(got.Text, "404 Not Found") ||
		!strings.Contains(got.Text, "no such thing") {
		t.Errorf("got.Text = %q", got.Text)
	}

	o.Timeout = 300 * time.Millisecond
	w = serve(t, o, handle)
	begun := time.Now()
	if got := get("/slow"); time.Since(begun) > 10*time.Second || !got.TimedOut && !strings.Contains(got.Text, "broke") {
		t.Errorf("get = %v after %s", got, time.Since(begun))
	}
}

// Addresses are checked when they are dialled, so it does not matter which name leads to them.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]struct{ public, private bool }{
		"93.184.215.14:443": {true, true}, "[2606:4700::1111]:443": {true, true},
		"127.0.0.1:80": {false, true}, "10.0.0.1:80": {false, true}, "192.168.1.1:80": {false, true},
		"172.16.0.1:80": {false, true}, "[::1]:80": {false, true},
		"100.64.0.1:80": {false, true}, "[fd00::1]:80": {false, true}, "[::ffff:127.0.0.1]:80": {false, true},
		"[::ffff:10.0.0.1]:80": {false, true},
		"169.254.169.254:80":   {false, false}, "[fe80::1]:80": {false, false}, "[::ffff:169.254.169.254]:80": {false, false},
		"224.0.0.1:80": {false, false},
		"0.0.0.0:80":   {false, false}, "[::]:80": {false, false}, "[fd00:ec2::254]:80": {false, false},
		"100.100.100.200:80":   {false, false},
		"[64:ff9b::7f00:1]:80": {false, true}, "[2002:7f00:1::]:80": {false, true}, "[ff02::1]:80": {false, false},
		"255.255.255.255:80": {false, true}, "0.1.2.3:80": {false, true},
	} {
		network := "tcp4"
		if strings.HasPrefix(address, "[") {
			network = "tcp6"
		}

		if err := tools.Guard(false)(network, address); (err == nil) != want.public {
			t.Errorf("%s: %v", address, err)
		}
		if err := tools.Guard(true)(network, address); (err == nil) != want.private {
			t.Errorf("%s, private allowed: %v", address, err)
		}
	}

	o := all
	o.AllowPrivate = false
	w := serve(t, o, func(http.ResponseWriter, *http.Request) {})
	w.failure("http.request", object{"url": "https://example.com/"}, "it has an address of a private network")
	if got := w.seen(); len(got) > 0 {
		t.Errorf("sent %q", got)
	}
}

// No proxy of the environment is used.
func TestNoProxy(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter,
		*http.Request) {
		t.Error("a proxy was asked")
	}))
	defer proxy.Close()
	t.Setenv("HTTPS_PROXY", proxy.URL)
	t.Setenv("HTTP_PROXY", proxy.URL)

	w := serve(t, all, func(http.ResponseWriter, *http.Request) {})
	if result, err := w.call("http.request", object{"url": "https://example.com/"}); err != nil || result.Failed {
		t.Errorf("w.call = %v, %v", result, err)
	}
}

// Options are checked, and a host has exactly the names that its entry says.
func TestOptions(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]tools.Options{
		"hosts: name the hosts that requests may go to":  {},
		`hosts: "a/b" is no host`:                        {Hosts: []string{"a/b"}},
		`hosts: "*.com": too many hosts`:                 {Hosts: []string{"*.com"}},
		`hosts: "*" is no host`:                          {Hosts: []string{"*"}},
		`hosts: "ftp://a.com": want http:// or https://`: {Hosts: []string{"ftp://a.com"}},
		`hosts: "a.com:99999": no such port`:             {Hosts: []string{"a.com:99999"}},
		`methods: there is no "get"`:                     {Hosts: []string{"a.com"}, Methods: []string{"get"}},
		`headers: "b.com" is none of the hosts`: {Hosts: []string{"a.com"},
			Headers: map[string]map[string]string{"b.com": {"X": "y"}}},
		`headers: a.com: Host: the tool itself sets it`: {Hosts: []string{"a.com"},
			Headers: map[string]map[string]string{"a.com": {"Host": "y"}}},
		`headers: a.com: X: its value may only have printa`: {Hosts: []string{"a.com"},
			Headers: map[string]map[string]string{"a.com": {"X": "a\nb"}}},
		`maxBytes: want 1 to 61440`: {Hosts: []string{"a.com"}, MaxBytes: 1 << 20},
	} {
		if err := o.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("o.Check() = %v, want %s", err, want)
		}
	}

	o := tools.Options{Hosts: []string{"*.example.org", "http://plain.test:8080"}}
	some, err := tools.Tools(o)
	if err != nil || len(some) != 1 || some[0].Spec().Policy.Approval {
		t.Fatalf("some = %v, %v", some, err)
	}

	w := &world{t: t}
	w.tools, _ = tool.NewSet(some...)
	for _, url := range []string{"https://example.org/", "https://aexample.org/", "https://plain.test:8080/",
		"http://plain.test/"} {
		w.failure("http.request", object{"url": url}, "not allowed")
	}
}

// A context that ends is no failed result.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	w := serve(t, all, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})

	get, _ := w.tools.Get("http.request")
	if _, err := tool.Do(ctx, get, get.Spec().Policy,
		tool.Call{Arguments: json.RawMessage(`{"url": "https://example.com/"}`)}, 0); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
