package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.yaml.in/yaml/v3"

	"github.com/actlog/actlog/agent/mcp"
	"github.com/actlog/actlog/agent/sandbox"
	"github.com/actlog/actlog/agent/tool"
)

// program returns this program as a server of a kind.
func program(t *testing.T, kind string) mcp.Server {
	t.Helper()
	at, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return mcp.Server{Command: []string{at}, Env: map[string]string{serverVariable: kind}}
}

// web returns a server over HTTP. Requests pass through each wrapper. Without sessions it speaks the
// protocol of 2026-07-28.
func web(t *testing.T, sessions bool, wrap ...func(http.Handler) http.Handler) mcp.Server {
	t.Helper()
	s := newServer()
	var handler http.Handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server {
		return s
	}, &sdk.StreamableHTTPOptions{Stateless: !sessions, PropagateRequestCancellation: true})
	for _, each := range wrap {
		handler = each(handler)
	}

	served := httptest.NewServer(handler)
	t.Cleanup(served.Close)
	return mcp.Server{URL: served.URL}
}

func newPool(t *testing.T, o mcp.Options) *mcp.Pool {
	t.Helper()
	p := mcp.NewPool(o)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func tools(t *testing.T, p *mcp.Pool, name string, s mcp.Server) *tool.Set {
	t.Helper()
	found, err := p.Tools(t.Context(), map[string]mcp.Server{name: s})
	if err != nil {
		t.Fatal(err)
	}

	set, err := tool.NewSet(found...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func call(ctx context.Context, t *testing.T, set *tool.Set, name string, c tool.Call) (tool.Result, error) {
	t.Helper()
	called, ok := set.Get(name)
	if !ok {
		t.Fatalf("no tool %s among %v", name, set.Names())
	}
	return tool.Do(ctx, called, called.Spec().Policy, c, 0)
}

func must(t *testing.T, set *tool.Set, name, arguments string) tool.Result {
	t.Helper()
	r, err := call(t.Context(), t, set, name, tool.Call{
		ID: "call-7", PlanID: "plan-7", Arguments: json.RawMessage(arguments),
	})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

// kinds are servers of both transports and of both generations of the protocol.
var kinds = map[string]func(t *testing.T) mcp.Server{
	"stdio":     func(t *testing.T) mcp.Server { t.Helper(); return program(t, "new") },
	"stdio old": func(t *testing.T) mcp.Server { t.Helper(); return program(t, "old") },
	"HTTP":      func(t *testing.T) mcp.Server { t.Helper(); return web(t, false) },
	"HTTP old":  func(t *testing.T) mcp.Server { t.Helper(); return web(t, true) },
}

// D4, D6, D11; settled detail 8.
func TestCalls(t *testing.T) {
	t.Parallel()
	for kind, server := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := server(t)
			s.Timeout = time.Minute // the machine may be busy
			set := tools(t, newPool(t, mcp.Options{}), "test", s)

			for _, tt := range []struct {
				name, arguments, want string
				failed                bool
			}{
				{"test-echo", `{"a":[1,"ä"]}`, `{"a":[1,"ä"]} call-7`, false},
				{"test-echo", ``, `{} call-7`, false},
				{"test-echo", `{ "n" : 9007199254740993, "t":"\u00e4\u007a" }`, `{"n":9007199254740993,"t":"äz"} call-7`, false},
				{"test-echo", `[1]`, "Bad arguments", true},
				{"test-echo", `{"target":"prod","target":"test"}`, `Bad arguments: the key "target" is there twice`, true}, // S6
				{"test-echo", `{"a":{"b":1,"\u0062":2}}`, `Bad arguments: the key "a.b" is there twice`, true},
				{"test-fail", `{}`, "no such thing", true},
				{"test-refuse", `{}`, "not today", true},
				{"test-nothing", `{}`, "Tool returned no output.", false},
				{"test-structured", `{}`, `{"answer":42}`, false},
				{"test-long", `{}`, fmt.Sprintf("(cut: the whole has %d bytes)", 3<<20), false},
				{
					"test-parts", `{}`, "A text.\n\n[image, image/png, 5 bytes]\n\n[audio, audio/wav, 3 bytes]\n\n" +
						"[resource a at https://example.org/a]\nThe page\n\n[resource at file:///b.txt]\ncontent of b\n\n" +
						"[resource at x://c, application/zip, 2 bytes]", false,
				},
			} {
				if r := must(t, set, tt.name, tt.arguments); r.Failed != tt.failed || !strings.Contains(r.Text, tt.want) {
					t.Errorf("%s %s: %.300q, failed %v; want %q", tt.name, tt.arguments, r.Text, r.Failed, tt.want)
				}
			}

			if r := must(t, set, "test-meta", ""); r.Text != "call-7 plan-7 true" {
				t.Errorf("with a plan: %s", r.Text)
			}
			if r, err := call(t.Context(), t, set, "test-meta", tool.Call{ID: "call-8"}); err != nil ||
				r.Text != "call-8 <nil> false" {
				t.Errorf("without a plan: %s %v", r.Text, err)
			}

			if r := must(t, set, "test-structured", ""); string(r.Data) != `{"answer":42}` {
				t.Errorf("r.Data = %s", r.Data)
			}
			if r := must(t, set, "test-parts", ""); len(r.Sources) != 3 || r.Sources[0].Type != "URL" ||
				r.Sources[1].Type != "FILE" || r.Sources[1].Snippet != "content of b" {
				t.Errorf("r.Sources = %+v", r.Sources)
			}
		})
	}
}

// S3, D5, D7: a human approves each call to a server that is not trusted, whatever it says. Hints make something looser
// only if the server is trusted, and those that are absent are the protocol's. Excluded tools are not offered.
func TestPolicies(t *testing.T) {
	t.Parallel()
	p := newPool(t, mcp.Options{})
	plain, trusted := program(t, "new"), program(t, "new")
	trusted.Trusted, trusted.Timeout = true, time.Minute
	trusted.Exclude = []string{"pid", "s*"}
	asks := tool.Policy{Approval: true, Writes: true, Timeout: 10 * time.Second}

	for _, tt := range []struct {
		server mcp.Server
		want   map[string]tool.Policy
		names  int
	}{
		{plain, map[string]tool.Policy{"echo": asks, "put": asks, "delete": asks, "pid": asks, "keep": asks}, 17},
		{trusted, map[string]tool.Policy{
			"echo":   {OnUnknown: tool.Retry, Timeout: time.Minute},
			"put":    {OnUnknown: tool.Retry, Writes: true, Timeout: time.Minute},
			"delete": {Approval: true, Writes: true, Timeout: time.Minute},
			"env":    {Writes: true, Timeout: time.Minute},
			"keep":   {Writes: true, Timeout: time.Minute},
		}, 15},
	} {
		set := tools(t, p, "s", tt.server)
		if len(set.Names()) != tt.names {
			t.Errorf("%d tools, want %d: %v", len(set.Names()), tt.names, set.Names())
		}

		for _, each := range set.Tools() {
			spec := each.Spec()
			if spec.Server != "s" || spec.Untrusted == tt.server.Trusted || spec.Destructive != (spec.Name == "s-delete") {
				t.Errorf("spec = %+v", spec)
			}
			if !tt.server.Trusted && spec.Policy != asks {
				t.Errorf("%s of a server that is not trusted: %+v", spec.Name, spec.Policy)
			}
		}

		for name, want := range tt.want {
			found, ok := set.Get("s-" + name)
			if !ok || found.Spec().Policy != want {
				t.Errorf("%s: %+v, want %+v", name, found, want)
			}
		}
	}
}

// S3: a server cannot take the name of another server's tool: neither to be called in its place, nor to have its
// policy, nor to keep it from being registered.
func TestNamesOfOtherServers(t *testing.T) {
	t.Parallel()
	p := newPool(t, mcp.Options{})
	found, err := p.Tools(t.Context(), map[string]mcp.Server{"a": program(t, "thief"), "a-b": program(t, "raw")})
	if err != nil {
		t.Fatal(err)
	}

	var names []string
	for _, each := range found {
		names = append(names, each.Spec().Server+": "+each.Spec().Name)
	}
	if want := []string{"a: a-fine", "a: a-b_fine", "a-b: a-b-fine"}; !cmp.Equal(names, want) {
		t.Errorf("names = %q, want %q", names, want)
	}
}

// Servers with the same configuration share a connection, and one that died is started again.
func TestPoolAndReconnect(t *testing.T) {
	t.Parallel()
	p := newPool(t, mcp.Options{})
	one, two := tools(t, p, "one", program(t, "new")), tools(t, p, "two", program(t, "new"))
	other := program(t, "new")
	other.Env["X"] = "y"
	three := tools(t, p, "three", other)

	first := must(t, one, "one-pid", "").Text
	if second := must(t, two, "two-pid", "").Text; second != first {
		t.Errorf("processes %s and %s, want one", first, second)
	}
	if third := must(t, three, "three-pid", "").Text; third == first {
		t.Error("another configuration shares the process")
	}

	kill(t, first)
	// Until the end of the process is seen, the outcome of a call is unknown. After that it works.
	for range 1000 {
		r, err := call(t.Context(), t, one, "one-pid", tool.Call{})
		if errors.Is(err, tool.ErrUnknown) {
			continue
		}
		if err != nil || r.Failed || r.Text == first {
			t.Errorf("after kill -9: %+v, %v", r, err)
		}
		return
	}
	t.Error("the server is not started again")
}

func kill(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err == nil {
		err = syscall.Kill(n, syscall.SIGKILL)
	}
	if err != nil {
		t.Error(err)
	}
}

// listener gets what the tool hang tells.
func listener(t *testing.T) (url string, heard chan string) {
	t.Helper()
	heard = make(chan string, 10)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		heard <- string(b)
	}))
	t.Cleanup(s.Close)
	return fmt.Sprintf(`{"tell":%q}`, s.URL), heard
}

// Cancellation reaches the server.
func TestCancel(t *testing.T) {
	t.Parallel()
	for kind, server := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := server(t)
			set := tools(t, newPool(t, mcp.Options{}), "test", s)
			arguments, heard := listener(t)

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() {
				r, err := call(ctx, t, set, "test-hang", tool.Call{Arguments: json.RawMessage(arguments)})
				done <- err
				if ctx.Err() == nil {
					heard <- fmt.Sprintf("ended early: %+v, %v", r, err)
				}
			}()

			if got := <-heard; !strings.HasPrefix(got, "begun") {
				t.Fatal(got)
			}
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("%v, want cancelled", err)
			}
			if got := <-heard; got != "cancelled" {
				t.Errorf("the server heard %q", got)
			}

			if r := must(t, set, "test-echo", ""); r.Failed {
				t.Errorf("the next call: %+v", r)
			}
		})
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	s := program(t, "new")
	s.Timeout = 3 * time.Second // enough for the call to arrive
	set := tools(t, newPool(t, mcp.Options{}), "test", s)
	arguments, heard := listener(t)

	if _, err := call(t.Context(), t, set, "test-hang",
		tool.Call{Arguments: json.RawMessage(arguments)}); !errors.Is(err, tool.ErrUnknown) ||
		!strings.Contains(err.Error(), "3s") {
		t.Errorf("%v, want an unknown outcome", err)
	}
	<-heard
	if got := <-heard; got != "cancelled" {
		t.Errorf("the server heard %q", got)
	}
}

// A server that is killed in the middle of a call leaves an unknown outcome, and so does the end of
// the pool.
func TestKilledInACall(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"new", "old"} {
		p := newPool(t, mcp.Options{})
		set := tools(t, p, "test", program(t, kind))
		for _, end := range []func(pid string){func(pid string) { kill(t, pid) }, func(string) { p.Close() }} {
			arguments, heard := listener(t)
			done := make(chan error, 1)
			go func() {
				r, err := call(t.Context(), t, set, "test-hang", tool.Call{Arguments: json.RawMessage(arguments)})
				done <- err
				heard <- fmt.Sprintf("ended early: %+v, %v", r, err)
			}()

			pid, begun := strings.CutPrefix(<-heard, "begun ")
			if !begun {
				t.Fatalf("kind = %v, %v", kind, pid)
			}

			end(pid)
			if err := <-done; !errors.Is(err, tool.ErrUnknown) {
				t.Errorf("%s: %v, want an unknown outcome", kind, err)
			}
		}

		if r := must(t, set, "test-echo", ""); !r.Failed || !strings.Contains(r.Text, "the pool is closed") {
			t.Errorf("after the end of the pool: %+v", r)
		}
	}
}

// A server that no longer reads holds up neither the time limit of a call nor the end of the pool.
func TestServerStopsReading(t *testing.T) {
	t.Parallel()
	s := program(t, "deaf")
	s.Timeout = time.Second
	p := newPool(t, mcp.Options{})
	set := tools(t, p, "test", s)
	long := json.RawMessage(fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 1<<20)))

	if _, err := call(t.Context(), t, set, "test-fine", tool.Call{Arguments: long}); !errors.Is(err, tool.ErrUnknown) {
		t.Errorf("%v, want an unknown outcome", err)
	}
}

// A server with sessions is started again. A call that it had is unknown, and is not made twice. A call
// that finds its session gone was not taken, and is made in a new one.
func TestHTTPServerStartedAgain(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]string{
		"plain text": "session not found\n",
		"JSON":       `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun, end := make(chan bool, 10), make(chan bool)
			var mu sync.Mutex
			var handler http.Handler

			begin := func() {
				s := newServer()
				s.AddTool(&sdk.Tool{Name: "wait", InputSchema: anyObject},
					func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
						begun <- true
						<-end
						return &sdk.CallToolResult{}, nil
					})
				t.Cleanup(func() { // what the first one would keep for ever
					for each := range s.Sessions() {
						each.Close()
					}
				})

				mu.Lock()
				defer mu.Unlock()
				handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil) // with sessions
			}

			begin()
			served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				h := handler
				mu.Unlock()
				h.ServeHTTP(&notFound{w, gone, false}, r)
			}))
			defer served.Close()
			defer close(end)

			p := newPool(t, mcp.Options{})
			set := tools(t, p, "web", mcp.Server{URL: served.URL})
			done := make(chan error, 1)
			go func() {
				_, err := call(t.Context(), t, set, "web-wait", tool.Call{})
				done <- err
			}()
			<-begun
			begin()

			if r := must(t, set, "web-echo", ""); r.Failed || r.Text != "{} call-7" {
				t.Errorf("must set = %+v", r)
			}
			if err := <-done; !errors.Is(err, tool.ErrUnknown) || len(begun) > 0 {
				t.Errorf("the call that the first server had: %v, made %d times more, want an unknown outcome", err, len(begun))
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// notFound says another body with the status 404.
type notFound struct {
	http.ResponseWriter
	body string
	is   bool
}

func (w *notFound) WriteHeader(status int) {
	if w.is = status == http.StatusNotFound; w.is && json.Valid([]byte(w.body)) {
		w.Header().Set("Content-Type", "application/json")
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *notFound) Write(b []byte) (int, error) {
	if !w.is {
		return w.ResponseWriter.Write(b)
	}
	_, err := io.WriteString(w.ResponseWriter, w.body)
	return len(b), err
}

func (w *notFound) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *notFound) Flush() { w.ResponseWriter.(http.Flusher).Flush() }

// A question of a server reaches the caller, who may answer at once or end the call.
func TestElicitation(t *testing.T) {
	t.Parallel()
	for kind, server := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := server(t)
			set := tools(t, newPool(t, mcp.Options{}), "test", s)

			var asked []tool.Question
			answers := func(a tool.Answer, err error) tool.Call {
				return tool.Call{ID: "call-7", Ask: func(_ context.Context, q tool.Question) (tool.Answer, error) {
					asked = append(asked, q)
					return a, err
				}}
			}

			parked := errors.New("parked")
			if _, err := call(t.Context(), t, set, "test-ask", answers(tool.Answer{}, parked)); !errors.Is(err, parked) {
				t.Errorf("%v, want the error of Ask", err)
			}
			r, err := call(t.Context(), t, set, "test-ask",
				answers(tool.Answer{Decision: tool.Accept, Values: map[string]any{"color": "red"}}, nil))
			if err != nil || r.Failed || r.Text != "accept red asked" {
				t.Errorf("call = %+v, %v", r, err)
			}

			if r, err := call(t.Context(), t, set, "test-ask",
				answers(tool.Answer{Decision: tool.Decline, Values: map[string]any{"color": "red"}}, nil)); err != nil ||
				r.Text != "decline <nil> asked" {
				t.Errorf("call = %+v, %v", r, err)
			}
			if r := must(t, set, "test-ask", ""); r.Text != "cancel <nil> asked" {
				t.Errorf("without anybody to ask: %+v", r)
			}

			old := strings.HasSuffix(kind, "old")
			for _, q := range asked {
				if q.Key != "1.1" || q.From != "test" || q.Message != "Which color?" ||
					!strings.Contains(string(q.Schema), `"color"`) || q.Held != old {
					t.Errorf("asked %+v", q)
				}
			}
			if len(asked) != 3 {
				t.Errorf("asked %d times, want 3", len(asked))
			}
		})
	}
}

// A schema that could be checked without an end, of a tool or of a question, ends nothing here.
func TestEndlessSchemas(t *testing.T) {
	t.Parallel()
	for kind, server := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := server(t)
			set := tools(t, newPool(t, mcp.Options{}), "test", s)
			ring, ok := set.Get("test-ring")
			if !ok {
				t.Fatalf("no such tool among %q", set.Names())
			}

			if err := tool.CheckArguments(ring, json.RawMessage(`{"x":1}`)); err != nil {
				t.Error(err)
			}
			if r := must(t, set, "test-ring", `{"x":1}`); r.Failed || r.Text != "called" {
				t.Errorf("must set = %+v", r)
			}

			if !strings.HasSuffix(kind, "old") {
				return // there, questions are answered with the next call, and not checked here
			}

			for schema, want := range map[string]string{
				`{"type":"object","properties":{"color":{"type":"string"}}}`: "accept red",
				`{"type":"object","properties":{"color":{"type":"number"}}}`: "not asked: ",
				ringSchema:                         "not asked: ",
				`{"type":"object","$ref":"#/not"}`: "not asked: ",
				`{"properties":{"color":{"type":"string","allOf":[{"$ref":"#/properties/color"}]}}}`:                 "not asked: ",
				`{"properties":{"color":{"type":"string","pattern":"(?:` + strings.Repeat("x", 3000) + `){1000}"}}}`: "not asked: ",
			} {
				answer := tool.Answer{Decision: tool.Accept, Values: map[string]any{"color": "red"}}
				r, err := call(t.Context(), t, set, "test-ask-ring", tool.Call{
					Arguments: json.RawMessage(`{"schema":` + schema + `}`),
					Ask:       func(context.Context, tool.Question) (tool.Answer, error) { return answer, nil },
				})
				if err != nil || r.Failed || !strings.HasPrefix(r.Text, want) {
					t.Errorf("%.100s: %+.300v, %v, want %q", schema, r, err, want)
				}
			}
		})
	}
}

// A question that may belong to another call is not put to anybody.
func TestElicitationOfOneOfTwoCalls(t *testing.T) {
	t.Parallel()
	set := tools(t, newPool(t, mcp.Options{}), "test", program(t, "old"))
	arguments, heard := listener(t)

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := call(ctx, t, set, "test-hang", tool.Call{Arguments: json.RawMessage(arguments)})
		done <- err
	}()
	<-heard

	r, err := call(t.Context(), t, set, "test-ask",
		tool.Call{Ask: func(context.Context, tool.Question) (tool.Answer, error) {
			t.Error("asked")
			return tool.Answer{}, nil
		}})
	if err != nil || r.Text != "cancel <nil> asked" {
		t.Errorf("call = %+v, %v", r, err)
	}
	cancel()
	<-done
}

// A server gets no variables of ours but PATH and HOME.
func TestEnvironment(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-planted")
	s := program(t, "new")
	s.Env["OWN"] = "value"
	got := must(t, tools(t, newPool(t, mcp.Options{}), "test", s), "test-env", "").Text

	want := map[string]bool{"PATH": true, "HOME": true, "OWN": true, serverVariable: true, "GOCOVERDIR": true}
	for line := range strings.SplitSeq(got, "\n") {
		if name, _, _ := strings.Cut(line, "="); !want[name] {
			t.Errorf("it has %s", line)
		}
	}
	if !strings.Contains(got, "OWN=value") {
		t.Error("it lacks its own variable")
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("redirected with %v", r.Header)
	}))
	defer elsewhere.Close()

	s := web(t, false, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.Header.Get("Authorization") {
			case "Bearer planted":
				next.ServeHTTP(w, r)
			case "Bearer moved":
				http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
			default:
				w.WriteHeader(http.StatusUnauthorized)
			}
		})
	})

	p := newPool(t, mcp.Options{})
	for token, want := range map[string]string{"": "Unauthorized", "moved": "redirects"} {
		s.Headers = map[string]string{"Authorization": "Bearer " + token}
		if _, err := p.Tools(t.Context(), map[string]mcp.Server{"web": s}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", token, err, want)
		}
	}

	s.Headers["Authorization"] = "Bearer planted"
	if r := must(t, tools(t, p, "web", s), "web-echo", ""); r.Failed {
		t.Errorf("tools = %+v", r)
	}
}

// D4: registration has a time-out. D5: a server has a command or a URL. Errors name the server and say why, and have no
// secrets.
func TestRegistrationFails(t *testing.T) {
	t.Parallel()
	silent := program(t, "silent")
	silent.RegisterTimeout = 300 * time.Millisecond
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	missing := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(missing.Close)

	huge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for range 20 {
			if _, err := w.Write(bytes.Repeat([]byte(" "), 1<<20)); err != nil {
				return
			}
		}
	}))
	t.Cleanup(huge.Close)

	for _, tt := range []struct {
		name   string
		server mcp.Server
		want   string
	}{
		{"silent", silent, `no answer within 300ms`},
		{"broken", program(t, "broken"), "cannot find module \uFFFD 'x'"},
		{"none", mcp.Server{Command: []string{"/no/such/program"}}, "no such file"},
		{"closed", mcp.Server{URL: closed.URL + "/?key=planted"}, "refused"},
		{"missing", mcp.Server{URL: missing.URL + "/?key=planted"}, "Not Found"},
		{"huge", mcp.Server{URL: huge.URL}, ""},
		{"endless", program(t, "endless"), "more than 1000 tools"},
		{
			"twins", program(t, "twins"),
			`tool "a b" of MCP server twins and tool "a_b" of MCP server twins both have the name twins-a_b`,
		},
		{"neither", mcp.Server{}, "command: "},
		{"both", mcp.Server{Command: []string{"x"}, URL: "http://x"}, "url: "},
		{"scheme", mcp.Server{URL: "ftp://planted@x"}, "url: "},
		{"negative", mcp.Server{URL: "http://x", Timeout: -1}, "timeout: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := mcp.NewPool(mcp.Options{})
			defer p.Close()
			_, err := p.Tools(context.Background(), map[string]mcp.Server{tt.name: tt.server})
			if err == nil || !strings.Contains(err.Error(), tt.name) || !strings.Contains(err.Error(), tt.want) ||
				strings.Contains(err.Error(), "planted") || len(err.Error()) > 5000 {
				t.Errorf("p.Tools = %.500v, want %q", err, tt.want)
			}
		})
	}
}

// A pool takes servers by value and by pointer, and says which is none of its own.
func TestPoolOfAnyServers(t *testing.T) {
	t.Parallel()
	p := mcp.Server{}.NewPool(slog.New(slog.DiscardHandler))
	defer p.Close()

	for name, tt := range map[string]struct {
		server tool.Server
		want   string
	}{
		"value":   {mcp.Server{}, "command: "},
		"pointer": {&mcp.Server{}, "command: "},
		"other":   {struct{ mcp.Server }{}, "no MCP server"},
	} {
		_, err := p.Tools(t.Context(), map[string]tool.Server{name: tt.server})
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// The configuration as section 8 of runtime.md has it.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	d := yaml.NewDecoder(strings.NewReader(`
everything: {command: [npx, -y, "@modelcontextprotocol/server-everything"], env: {}, exclude: [], trusted: true, timeout: 10s}
search:     {url: "http://127.0.0.1:9000/mcp", headers: {Authorization: Bearer x}, registerTimeout: 1m}
`))
	d.KnownFields(true)

	var got map[string]mcp.Server
	if err := d.Decode(&got); err != nil {
		t.Fatal(err)
	}

	want := map[string]mcp.Server{
		"everything": {
			Command: []string{"npx", "-y", "@modelcontextprotocol/server-everything"}, Env: map[string]string{},
			Exclude: []string{}, Trusted: true, Timeout: 10 * time.Second,
		},
		"search": {
			URL: "http://127.0.0.1:9000/mcp", Headers: map[string]string{"Authorization": "Bearer x"},
			RegisterTimeout: time.Minute,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	for name, s := range got {
		if err := s.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHostileTools(t *testing.T) {
	t.Parallel()
	p := newPool(t, mcp.Options{})
	if n := len(tools(t, p, "many", program(t, "many")).Names()); n != 700 {
		t.Errorf("%d tools, want 700", n)
	}

	set := tools(t, p, "my server", program(t, "hostile"))
	allowed := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	for _, each := range set.Tools() {
		spec := each.Spec()
		if !allowed.MatchString(spec.Name) || !strings.HasPrefix(spec.Name, "my_server-") || len(spec.Description) > 8<<10 ||
			len(spec.Schema) > 128<<10 {
			t.Errorf("%s: description of %d bytes, schema of %d", spec.Name, len(spec.Description), len(spec.Schema))
		}
	}

	var short []string
	for _, name := range set.Names() {
		if len(name) < 64 {
			short = append(short, name)
		}
	}
	if want := []string{
		"my_server-rm_-rf______31m", "my_server-_", "my_server-files_read", "my_server-chatty", "my_server-no-type",
	}; !cmp.Equal(short, want) || len(set.Names()) != 7 {
		t.Errorf("%q of %d, want %q and two long ones", short, len(set.Names()), want)
	}

	// Two servers whose names and tools meet.
	one, two := program(t, "twins"), program(t, "twins")
	one.Exclude, two.Exclude = []string{"a b"}, []string{"a_b"}
	if _, err := p.Tools(t.Context(), map[string]mcp.Server{"x y": one, "x_y": two}); err == nil ||
		!strings.Contains(err.Error(), "MCP server x y and") ||
		!strings.Contains(err.Error(), "MCP server x_y both have the name x_y-a_b") {
		t.Errorf("%v, want both servers", err)
	}
}

// locked is a buffer for a logger.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func TestStandardErrorIsBounded(t *testing.T) {
	t.Parallel()
	var log locked
	p := mcp.NewPool(mcp.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	tools(t, p, "noisy", program(t, "noisy"))
	if err := p.Close(); err != nil { // waits for the end of the server
		t.Fatal(err)
	}

	if got := log.b.String(); strings.Count(got, "\n") > 100 || len(got) > 20_000 ||
		!strings.Contains(got, "server=noisy line=line") || !strings.Contains(got, "n (cut)") {
		t.Errorf("%d lines, %d bytes", strings.Count(got, "\n"), len(got))
	}
}

// Lines on a server's standard output that are no messages are logged, whenever they come.
// What a tool returns and what it takes is passed on as the server wrote it.
func TestStrayLinesAndExactTexts(t *testing.T) {
	t.Parallel()
	var log locked
	p := mcp.NewPool(mcp.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	set := tools(t, p, "stray", program(t, "stray"))

	if got := must(t, set, "stray-exact", `{}`); got.Failed || got.Text != exactContent ||
		string(got.Data) != exactContent {
		t.Errorf("got.Text = %s and %s, want %s", got.Text, got.Data, exactContent)
	}
	offered, _ := set.Get("stray-exact")
	if got := string(offered.Spec().Schema); got != compact(t, exactSchema) {
		t.Errorf("schema %s, want %s", got, exactSchema)
	}

	if err := p.Close(); err != nil { // waits for the end of the server
		t.Fatal(err)
	}
	for _, line := range []string{
		"Listening on port 1234", "5", "[]", "[1]", "null", `{\"level\":\"info\"}`, `{\"jsonrpc\":\"2.0\"}`, "\uFFFD",
		"long long", "DEBUG: listing", "{", "DEBUG: working",
	} {
		quoted, plain := `line="`+line, `line=`+line
		if n := strings.Count(log.b.String(), quoted) + strings.Count(log.b.String(), plain); n < 1 {
			t.Errorf("no line %q in the log:\n%.3000s", line, log.b.String())
		}
	}
	if n := strings.Count(log.b.String(), "DEBUG: working"); n != 1 {
		t.Errorf("a line is in the log %d times", n)
	}
}

// A message that is too long ends the connection with that reason; its caller need not wait.
func TestMessageThatIsTooLong(t *testing.T) {
	t.Parallel()
	p := newPool(t, mcp.Options{})
	_, err := p.Tools(t.Context(), map[string]mcp.Server{"huge": program(t, "huge")})
	if err == nil || !strings.Contains(err.Error(), "more than 16 MiB") {
		t.Errorf("%v, want the reason", err)
	}
}

// Over HTTP: answers of both content types, and events in several lines.
func TestExactTextsOverHTTP(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{
		"application/json", "text/event-stream", "text/event-stream; lines", "text/event-stream; no end",
		"text/event-stream; id",
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			url := answering(t, exactSchema, exactResult, func(w http.ResponseWriter, answer string) {
				media, form, _ := strings.Cut(kind, "; ")
				w.Header().Set("Content-Type", media)
				switch {
				case form == "lines":
					answer = ": waiting\n\nevent: message\r\nid: 7\nstray\ndata:" +
						strings.ReplaceAll(answer, `,"result"`, "\ndata: ,\"result\"") + "\n\n"

				case form == "no end": // of the last line
					answer = "data: " + answer
				case form == "id":
					answer = "data: " + answer + "\nid: 7"
				case media != "application/json":
					answer = "data: " + answer + "\n" // the stream ends before the blank line
				}
				_, _ = io.WriteString(w, answer)
			})

			set := tools(t, newPool(t, mcp.Options{}), "web", mcp.Server{URL: url})
			if got := must(t, set, "web-exact", `{}`); got.Failed || got.Text != exactContent {
				t.Errorf("got.Text = %s, want %s", got.Text, exactContent)
			}
			offered, _ := set.Get("web-exact")
			if got := string(offered.Spec().Schema); got != exactSchema {
				t.Errorf("schema %s, want %s", got, exactSchema)
			}
		})
	}
}

// answering starts a server with one tool, exact, whose answers write writes. It returns its address.
func answering(t *testing.T, schema, result string, write func(w http.ResponseWriter, answer string)) string {
	t.Helper()
	results := map[string]string{
		"initialize": `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`,
		"tools/list": `{"tools":[{"name":"exact","inputSchema":` + schema + `}]}`,
		"tools/call": result,
	}
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil || request.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}

		result, ok := results[request.Method]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		write(w, `{"jsonrpc":"2.0","id":`+string(request.ID)+`,"result":`+result+`}`)
	}))
	t.Cleanup(served.Close)
	return served.URL
}

// Arguments are checked by the schema of a server, also if it does not say that they are an object.
func TestSchemasThatNameNoObject(t *testing.T) {
	t.Parallel()
	for _, typed := range []string{"", `"type":["object","null"],`} {
		schema := `{` + typed + `"properties":{"n":{"type":"integer"}},"required":["n"]}`
		url := answering(t, schema, exactResult, func(w http.ResponseWriter, answer string) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answer)
		})
		set := tools(t, newPool(t, mcp.Options{}), "web", mcp.Server{URL: url})

		if got := must(t, set, "web-exact", `{"n":1}`); got.Failed || got.Text != exactContent {
			t.Errorf("%s: got %s, want %s", schema, got.Text, exactContent)
		}
		for _, bad := range []string{`{}`, `{"n":"x"}`} {
			if got := must(t, set, "web-exact", bad); !got.Failed || !strings.HasPrefix(got.Text, "Bad arguments: ") {
				t.Errorf("%s with %s: got %s, want bad arguments", schema, bad, got.Text)
			}
		}
	}
}

func compact(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A connection that nobody uses is closed, and opened again when it is needed.
func TestIdle(t *testing.T) {
	t.Parallel()
	p := newPool(t, mcp.Options{Idle: time.Millisecond})
	set := tools(t, p, "test", program(t, "new"))
	first := must(t, set, "test-pid", "").Text
	n, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}

	for deadline := time.Now().Add(time.Minute); syscall.Kill(n, 0) == nil; { // until it is gone
		if time.Now().After(deadline) {
			t.Fatal("the server is not stopped")
		}
		time.Sleep(time.Millisecond) // nothing says when a process ends that is not ours to wait for
	}

	if r := must(t, set, "test-pid", ""); r.Failed || r.Text == first {
		t.Errorf("must set = %+v, was %s", r, first)
	}
}

// A server that ignores that its input ends, and SIGTERM, is killed.
func TestStubbornServer(t *testing.T) {
	t.Parallel()
	p := mcp.NewPool(mcp.Options{})
	pid := must(t, tools(t, p, "test", program(t, "stubborn")), "test-pid", "").Text
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}

	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(n, 0); err == nil {
		t.Error("it is still there")
	}

	if _, err := p.Tools(t.Context(), map[string]mcp.Server{"test": program(t, "new")}); err == nil ||
		!strings.Contains(err.Error(), "closed") {
		t.Errorf("a closed pool: %v", err)
	}
}

// A pool that is closed while it connects leaves nothing behind.
func TestCloseWhileConnecting(t *testing.T) {
	t.Parallel()
	arguments, heard := listener(t)
	var in struct{ Tell string }
	if err := json.Unmarshal([]byte(arguments), &in); err != nil {
		t.Fatal(err)
	}

	s := program(t, "silent")
	s.Env["TELL"] = in.Tell
	p := mcp.NewPool(mcp.Options{})
	done := make(chan error)
	go func() {
		_, err := p.Tools(context.Background(), map[string]mcp.Server{"silent": s})
		done <- err
	}()

	pid, err := strconv.Atoi(strings.TrimPrefix(<-heard, "begun "))
	if err != nil {
		t.Fatal(err)
	}

	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); err == nil {
		t.Error("the server is still there")
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), "the pool is closed") {
		t.Error(err)
	}
}

// Many calls at the same time, while the server is killed now and then.
func TestManyCalls(t *testing.T) {
	t.Parallel()
	set := tools(t, newPool(t, mcp.Options{}), "test", program(t, "new"))

	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 25 {
				id := fmt.Sprintf("%d-%d", i, j)
				r, err := call(t.Context(), t, set, "test-echo", tool.Call{ID: id})
				if err == nil && r.Text != "{} "+id || err != nil && !errors.Is(err, tool.ErrUnknown) {
					t.Errorf("call = %+v, %v", r, err)
				}

				if i == 0 && j%10 == 5 {
					if r, err := call(t.Context(), t, set, "test-pid", tool.Call{}); err == nil && !r.Failed {
						kill(t, r.Text)
					}
				}
			}
		})
	}
	all.Wait()
}

// S8: a server that is started by its command cannot read the memory, environment and open files of this
// process, whoever runs both, and does not stop it. In a stricter sandbox it reaches only the files that it is
// given.
func TestSandbox(t *testing.T) {
	if lacks := (sandbox.Sandbox{Mode: sandbox.Processes}).Lacks(); lacks != "" {
		t.Log("there is no sandbox here: " + lacks)
		return
	}

	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("planted"), 0o600); err != nil {
		t.Fatal(err)
	}
	script := `{ cat /proc/$PPID/environ; ls -l /proc/$PPID/fd/; head -c 1 /proc/$PPID/maps; kill -0 $PPID && echo signal; } >$OUT 2>&1; cat ` + secret + ` >>$OUT; exit 1`

	for want, box := range map[string]sandbox.Sandbox{"planted": {}, "": {Mode: sandbox.Auto}} {
		out := filepath.Join(t.TempDir(), "out")
		if err := os.WriteFile(out, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		box.Write = []string{out}

		p := newPool(t, mcp.Options{})
		s := mcp.Server{Command: []string{"sh", "-c", script}, Env: map[string]string{"OUT": out}, Sandbox: box}
		if _, err := p.Tools(t.Context(), map[string]mcp.Server{"test": s}); err == nil {
			t.Error("it is a server")
		}

		text, err := os.ReadFile(out)
		if err != nil || !bytes.Contains(text, []byte("denied")) || bytes.Contains(text, []byte("signal")) ||
			bytes.Contains(text, []byte("PATH=")) || bytes.Contains(text, []byte("->")) {
			t.Errorf("%q: %q %v", box.Mode, text, err)
		}
		if strings.HasSuffix(string(text), "planted") != (want == "planted") {
			t.Errorf("%q: files: %q", box.Mode, text)
		}
	}
}
