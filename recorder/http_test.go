package recorder_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
	"github.com/actlog/actlog/recorder"
)

// server answers requests without a network, so that tests can use synthetic time. Each answer is
// for one request, and the last one for all that follow.
type server struct {
	mu       sync.Mutex
	answers  []func(*http.Request) (*http.Response, error)
	requests []*http.Request
	bodies   [][]byte
	at       []time.Time
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}

	s.mu.Lock()
	answer := s.answers[min(len(s.requests), len(s.answers)-1)]
	s.requests, s.bodies = append(s.requests, r), append(s.bodies, body)
	s.at = append(s.at, time.Now())
	s.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	return answer(r)
}

// says answers with a status and a body; header holds names and values.
func says(status int, body string, header ...string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		h := http.Header{}
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
}

// accepts answers like a server that accepts everything.
func accepts(r *http.Request) (*http.Response, error) {
	items, err := wire.DecodeBody(r.Body, r.Header.Get("Content-Type"), r.Header.Get("Content-Encoding"), nil)
	if err != nil {
		return says(http.StatusBadRequest, err.Error())(r)
	}
	return says(http.StatusOK, fmt.Sprintf(`{"accepted":%d,"rejected":[]}`, len(items)))(r)
}

func breaks(*http.Request) (*http.Response, error) {
	return nil, errors.New("connection reset by peer")
}

func answering(answers ...func(*http.Request) (*http.Response, error)) *server {
	return &server{answers: answers}
}

func httpSink(t *testing.T, s http.RoundTripper, set ...func(*recorder.HTTPOptions)) *recorder.HTTPSink {
	t.Helper()
	options := recorder.HTTPOptions{Client: &http.Client{Transport: s, Timeout: 30 * time.Second}}
	for _, f := range set {
		f(&options)
	}
	sink, err := recorder.NewHTTP("http://ada:secret@actlog.example/base", options)
	ok(t, err)
	return sink
}

// The caller does not notice a server that is away for a short time. It gets an error for a long one.
func TestHTTPRetries(t *testing.T) {
	t.Parallel()
	const key = "key-0123456789"

	tests := []struct {
		name     string
		server   *server
		is       error  // wrapped; nil: the write succeeds
		says     string // within the error
		requests int
		least    time.Duration // that the write takes
		most     time.Duration
	}{
		{"503, then fine", answering(says(503, ""), accepts), nil, "", 2, 50 * time.Millisecond, 100 * time.Millisecond},
		{"resets, then fine", answering(breaks, breaks, accepts), nil, "", 3, 150 * time.Millisecond, 300 * time.Millisecond},
		{"500, then fine", answering(says(500, `{"detail":"oops"}`), accepts), nil, "", 2, 0, time.Second},
		{
			"Retry-After in seconds", answering(says(429, "", "Retry-After", "7"), accepts), nil, "", 2, 7 * time.Second,
			7 * time.Second,
		},
		{"Retry-After as a date", answering(func(r *http.Request) (*http.Response, error) {
			return says(503, "", "Retry-After", time.Now().Add(9*time.Second).UTC().Format(http.TimeFormat))(r)
		}, accepts), nil, "", 2, 8 * time.Second, 9 * time.Second},
		{
			"an invalid Retry-After", answering(says(503, "", "Retry-After", "soon"), accepts), nil, "", 2, 0,
			100 * time.Millisecond,
		},
		{
			"Retry-After longer than RetryFor", answering(says(503, "", "Retry-After", "60"), accepts), record.ErrUnavailable,
			"503 Service Unavailable", 1, 0, 0,
		},
		{
			"away", answering(says(503, `{"detail":"the database is away, says `+key+`"}`)), record.ErrUnavailable,
			"the database is away, says [API key]", 0, 5 * time.Second, 15 * time.Second,
		},
		{"half an answer", answering(func(r *http.Request) (*http.Response, error) {
			resp, err := says(200, "")(r)
			resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"acc`), failing{}))
			return resp, err
		}, accepts), nil, "", 2, 0, 100 * time.Millisecond},
		{"slow", answering(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}), record.ErrUnavailable, "", 1, 30 * time.Second, 30 * time.Second},
		{"away, then slow", answering(says(503, "", "Retry-After", "14"), func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}), record.ErrUnavailable, "", 2, 44 * time.Second, 44 * time.Second},
	}

	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				sink := httpSink(t, test.server, func(o *recorder.HTTPOptions) { o.APIKey = key })
				start := time.Now()
				result, err := sink.Write(t.Context(), artifacts(3))

				if d := time.Since(start); d < test.least || d > test.most {
					t.Errorf("it took %s, want %s to %s", d, test.least, test.most)
				}
				if n := len(test.server.requests); test.requests != 0 && n != test.requests {
					t.Errorf("%d requests, want %d", n, test.requests)
				}
				for _, body := range test.server.bodies {
					if !bytes.Equal(body, test.server.bodies[0]) {
						t.Errorf("the body that was sent again differs: %s", body)
					}
				}

				if test.is == nil {
					if err != nil || result.Accepted != 3 {
						t.Errorf("sink.Write(artifacts(3)) = %+v, %v", result, err)
					}
					return
				}
				if !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.says) ||
					!strings.HasPrefix(err.Error(), "send 3 records to http://ada:xxxxx@actlog.example/base: ") {
					t.Errorf("sink.Write(artifacts(3)) = %v", err)
				}
				if strings.Contains(fmt.Sprint(err), key) || strings.Contains(err.Error(), "secret") {
					t.Errorf("the error shows credentials: %v", err)
				}
			})
		})
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// A failure that another try does not fix is returned at once, with the reason.
func TestHTTPRefusals(t *testing.T) {
	t.Parallel()
	const key = "key-0123456789"

	tests := []struct {
		name   string
		answer func(*http.Request) (*http.Response, error)
		says   string
	}{
		{
			"400", says(400, `{"detail":"the body is no JSON"}`),
			"the server refuses the request: 400 Bad Request: the body is no JSON",
		},
		{
			"401", says(401, `{"detail":"unknown key `+key+`"}`),
			"the server denies access: 401 Unauthorized: unknown key [API key]",
		},
		{"403", says(403, "<html>"), "the server denies access: 403 Forbidden"},
		{"404", says(404, ""), "the server refuses the request: 404 Not Found"},
		{"415", says(415, ""), "415 Unsupported Media Type"},
		{
			"422 of another server", says(422, `{"detail":"no such tenant"}`),
			"the answer is not that of an Actlog server: it accepts 0 and rejects 0 of 3 records",
		},
		{
			"redirect", says(307, "", "Location", "https://evil.example/?key="+key),
			"the server redirects to https://evil.example/ (307), which is not followed",
		},
		{"a web page", says(200, "<html>"), "the answer is not that of an Actlog server"},
		{"too few accounted for", says(200, `{"accepted":2,"rejected":[]}`), "accepts 2 and rejects 0 of 3 records"},
		{"an index out of range", says(207, `{"accepted":2,"rejected":[{"index":3}]}`), "rejects record 3 of 3"},
	}

	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := answering(test.answer)
			sink := httpSink(t, server, func(o *recorder.HTTPOptions) { o.APIKey = key })
			_, err := sink.Write(t.Context(), artifacts(3))

			if err == nil || !strings.Contains(err.Error(), test.says) || errors.Is(err, record.ErrUnavailable) {
				t.Errorf("sink.Write(artifacts(3)) = %v", err)
			}
			if len(server.requests) != 1 {
				t.Errorf("%d requests", len(server.requests))
			}
			if err != nil && (strings.Contains(err.Error(), key) || strings.Contains(err.Error(), "secret")) {
				t.Errorf("the error shows credentials: %v", err)
			}
			if got := server.requests[0].Header.Get("Authorization"); got != "Bearer "+key {
				t.Errorf("sent %q", got)
			}
		})
	}
}

// The caller's context ends a write, even between two attempts.
func TestHTTPContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := httpSink(t, answering(says(503, "", "Retry-After", "10"))).Write(ctx, artifacts(1))

		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, record.ErrUnavailable) ||
			time.Since(start) != time.Second {
			t.Errorf("Write = %v after %s", err, time.Since(start))
		}
	})
}

// N2: a request of which everything was refused is answered 422. That is decided for good, record by
// record, as with 207: it is not sent again, and the other requests of the write are.
func TestHTTPAllRefused(t *testing.T) {
	t.Parallel()
	server := answering(func(r *http.Request) (*http.Response, error) {
		items, err := wire.DecodeBody(r.Body, r.Header.Get("Content-Type"), r.Header.Get("Content-Encoding"), nil)
		switch {
		case err != nil:
			return nil, err
		case len(items) > 1:
			return says(200, fmt.Sprintf(`{"accepted":%d,"rejected":[]}`, len(items)))(r)
		}
		return says(
			422, `{"accepted":0,"rejected":[{"index":0,"code":"invalid_value","field":"value","message":"value must be nice"}]}`,
		)(r)
	})

	result, err := httpSink(t, server).Write(t.Context(), artifacts(1_001))
	ok(t, err)
	if result.Accepted != 1_000 || len(result.Rejected) != 1 || result.Rejected[0].Index != 1_000 ||
		result.Rejected[0].Err.Error() != "invalid_value: value must be nice" {
		t.Errorf("Write = %+v", result)
	}
	if len(server.requests) != 2 {
		t.Errorf("%d requests", len(server.requests))
	}
}

// Many records are split, and a refused one is named by its index among all of them.
func TestHTTPSplits(t *testing.T) {
	t.Parallel()
	rejectLast := func(r *http.Request) (*http.Response, error) {
		items, err := wire.DecodeBody(r.Body, r.Header.Get("Content-Type"), r.Header.Get("Content-Encoding"), nil)
		if err != nil {
			return nil, err
		}

		return says(
			207, fmt.Sprintf(
				`{"accepted":%d,"rejected":[{"index":%d,"code":"invalid_value","field":"value","message":"value must be nice"}]}`,
				len(items)-1, len(items)-1,
			),
		)(r)
	}

	server := answering(rejectLast)
	changes := artifacts(2_500)
	changes[1_500] = &record.Artifact{RootPlanID: "p", PlanID: "p", Name: "bad", Value: []byte("{")} // has no JSON to send
	result, err := httpSink(t, server).Write(t.Context(), changes)
	ok(t, err)

	var refused []int
	for _, r := range result.Rejected {
		refused = append(refused, r.Index)
	}
	if fmt.Sprint(refused) != "[999 1500 2000 2499]" || result.Accepted != 2_496 {
		t.Errorf("refused %v, accepted %d", refused, result.Accepted)
	}

	if e := result.Rejected[0].Err; e.Error() != "invalid_value: value must be nice" {
		t.Errorf("refused for %v", e)
	}
	if e := result.Rejected[1].Err; e.Error() != "invalid_value: value must be valid JSON" {
		t.Errorf("refused for %v", e)
	}
	if e := server.requests[0].Header.Get("Content-Encoding"); e != "gzip" || len(server.bodies[0]) > 20_000 {
		t.Errorf("sent %d bytes as %q", len(server.bodies[0]), e)
	}

	text := strings.Repeat("x", 3<<20)
	server = answering(accepts)
	changes = nil
	for i := range 5 {
		changes = append(changes, &record.Source{RootPlanID: "p", PlanID: "p", SourceID: fmt.Sprint(i), Snippet: &text})
	}

	sink := httpSink(t, server, func(o *recorder.HTTPOptions) { o.NoCompression = true })
	result, err = sink.Write(t.Context(), changes)
	if err != nil || result.Accepted != 5 || len(server.requests) != 3 ||
		server.requests[0].Header.Get("Content-Encoding") != "" {
		t.Errorf("got %+v, %v in %d requests", result, err, len(server.requests))
	}
	_, err = sink.Write(t.Context(), nil)
	if err != nil || len(server.requests) != 3 {
		t.Errorf("sink.Write(nil) = %v", err)
	}
}

// If something in between accepts less than the server, requests get smaller. A single record that
// is too large is refused, and the others are not.
func TestHTTPTooLarge(t *testing.T) {
	t.Parallel()
	server := answering(func(r *http.Request) (*http.Response, error) {
		if body, err := io.ReadAll(r.Body); err != nil {
			return nil, err
		} else if len(body) > 1_000 {
			return says(413, "<html>")(r)
		} else {
			r.Body = io.NopCloser(bytes.NewReader(body))
			return accepts(r)
		}
	})
	changes := artifacts(30)
	changes[17] = &record.Artifact{
		RootPlanID: "p", PlanID: "p", Name: "large", Value: []byte(`"` + strings.Repeat("x", 2_000) + `"`),
	}

	sink := httpSink(t, server, func(o *recorder.HTTPOptions) { o.NoCompression = true })
	result, err := sink.Write(t.Context(), changes)
	ok(t, err)
	if result.Accepted != 29 || len(result.Rejected) != 1 || result.Rejected[0].Index != 17 ||
		!strings.Contains(result.Rejected[0].Err.Reason, "413") {
		t.Errorf("sink.Write(changes) = %+v", result)
	}

	// Over the limit of a request texts are cut, and the server cuts the rest.
	server = answering(accepts)
	text := strings.Repeat("x", 6<<20)
	sink = httpSink(t, server)
	sink.LimitRecords(5 << 20)
	result, err = sink.Write(t.Context(), []record.Change{
		&record.ThinkAct{RootPlanID: "p", StepID: "s", ThinkInput: &text},
		&record.Artifact{RootPlanID: "p", PlanID: "p", Name: "large", Value: []byte(`"` + text + `"`)},
	})
	if err != nil || result.Accepted != 1 || len(result.Rejected) != 1 || result.Rejected[0].Index != 1 {
		t.Fatalf("sink.Write = %+v, %v", result, err)
	}

	items, err := wire.DecodeBody(bytes.NewReader(server.bodies[0]), wire.TypeNDJSON, "gzip", nil)
	ok(t, err)
	clean, cut, err := field.Clean(items[0].Change)
	ok(t, err)
	if c := clean.(*record.ThinkAct); *c.InputCharCount != 6<<20 || len(cut) != 1 ||
		len(*c.ThinkInput) != record.MaxTextBytes {
		t.Errorf("count %d, cut %q, %d bytes", *c.InputCharCount, cut, len(*c.ThinkInput))
	}
}

func TestNewHTTP(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"", "actlog.example", "ftp://actlog.example", "http://", "http://a\x7f:secret@b", "http://x:secret@a?b=c", ":8420",
	} {
		if _, err := recorder.NewHTTP(url, recorder.HTTPOptions{}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got %v", url, err)
		}
	}

	if _, err := recorder.NewHTTP("http://a", recorder.HTTPOptions{APIKey: "secret\n"}); err == nil ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("recorder.NewHTTP = %v", err)
	}
}

// TestNewHTTPNamesTheScheme (N26): addresses without http:// are a common mistake.
func TestNewHTTPNamesTheScheme(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"127.0.0.1:8520", "localhost:8520", "[::1]:8520", "actlog.example", "actlog.example/base", "//actlog.example",
		"ada:secret@actlog.example:8520", "ada:secret@127.0.0.1",
	} {
		_, err := recorder.NewHTTP(url, recorder.HTTPOptions{})
		if err == nil || !strings.Contains(err.Error(), "must begin with http:// or https://") ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got %v", url, err)
		}
	}

	if _, err := recorder.NewHTTP("HTTP://actlog.example", recorder.HTTPOptions{}); err != nil {
		t.Error(err)
	}
}

// Over a real connection: one that breaks in the middle of an answer, a redirect that a client would
// follow, and a server that is gone.
func TestHTTPNetwork(t *testing.T) {
	t.Parallel()
	var requests int
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the redirect was followed")
	}))
	t.Cleanup(elsewhere.Close)

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		switch requests {
		case 1: // no answer
			panic(http.ErrAbortHandler)
		case 2: // half an answer
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"accepted":`)
		case 3:
			w.WriteHeader(http.StatusTooManyRequests)
		case 4:
			items, err := wire.DecodeBody(r.Body, r.Header.Get("Content-Type"), r.Header.Get("Content-Encoding"), nil)
			if err != nil {
				t.Error(err)
			}
			_ = json.NewEncoder(w).Encode(wire.Answer{Accepted: len(items)})
		default:
			http.Redirect(w, r, elsewhere.URL, http.StatusPermanentRedirect)
		}
	}))
	t.Cleanup(server.Close)

	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	sink, err := recorder.NewHTTP(server.URL, recorder.HTTPOptions{
		Client: &http.Client{Transport: transport}, APIKey: "k",
	})
	ok(t, err)
	write(t, sink, artifacts(100)...)
	if _, err := sink.Write(t.Context(), artifacts(1)); err == nil || !strings.Contains(err.Error(), "redirects") {
		t.Errorf("sink.Write(artifacts(1)) = %v", err)
	}

	server.Close()
	impatient, err := recorder.NewHTTP(server.URL, recorder.HTTPOptions{
		Client: &http.Client{Transport: transport}, RetryFor: -1,
	})
	ok(t, err)
	if _, err := impatient.Write(t.Context(), artifacts(1)); !errors.Is(err, record.ErrUnavailable) {
		t.Errorf("impatient.Write(artifacts(1)) = %v", err)
	}
}

// A Buffer waits as long as the server asks it to, even during a Flush.
func TestBufferHonoursRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := answering(says(503, "", "Retry-After", "300"), accepts)
		b := recorder.NewBuffer(httpSink(t, server), recorder.BufferOptions{})
		write(t, b, artifacts(3)...)

		time.Sleep(time.Second)
		ok(t, b.Flush(t.Context()))
		if d := server.at[1].Sub(server.at[0]); len(server.at) != 2 || d != 300*time.Second {
			t.Errorf("%d requests, the second after %s", len(server.at), d)
		}
		closeNow(t, b)
	})
}

// serveRecord starts a server with an empty record of the test's own.
func serveRecord(t *testing.T) (url string, s *store.Store) {
	t.Helper()
	s = storetest.Open(t)
	server := httptest.NewServer(apitest.New(t, s, apitest.Config{HTTP: httpd.Config{Logger: storetest.Logger(t)}}))
	t.Cleanup(server.Close)
	return server.URL, s
}

// Through the real server a run is on record as it was written: at once without a Buffer, after
// Flush with one.
func TestHTTPRoundTrip(t *testing.T) {
	t.Parallel()
	for _, buffered := range []bool{false, true} {
		t.Run(fmt.Sprint("buffered ", buffered), func(t *testing.T) {
			t.Parallel()
			url, s := serveRecord(t)
			transport := &http.Transport{}
			t.Cleanup(transport.CloseIdleConnections)
			plain, err := recorder.NewHTTP(url, recorder.HTTPOptions{Client: &http.Client{Transport: transport}})
			ok(t, err)

			var sink recorder.Sink = plain
			flush := func() {}
			if buffered {
				b := recorder.NewBuffer(plain, recorder.BufferOptions{FlushEvery: time.Hour})
				t.Cleanup(func() { closeNow(t, b) })
				sink, flush = b, func() { ok(t, b.Flush(t.Context())) }
			}

			rec := recorder.New(sink, recorder.Options{})
			long := strings.Repeat("ab\x00é\xff\n", 700_000) // is cleaned, and cut
			ctx, plan, err := rec.StartPlan(t.Context(), recorder.PlanInfo{
				Title: "T", Tags: []string{"x"}, Metadata: map[string]any{"a": 1},
			})
			ok(t, err)

			ctx, step, err := plan.StartStep(ctx, recorder.StepInfo{AgentName: "reader"})
			ok(t, err)
			cycle, err := step.StartCycle(ctx, recorder.CycleInfo{ThinkInput: long})
			ok(t, err)
			ok(t, cycle.EndThink(ctx, recorder.ThinkResult{Output: "yes", InputTokens: 3, CostUSD: new(0.25)}))
			toolCtx, call, err := cycle.StartTool(ctx, recorder.ToolInfo{Name: "look", Parameters: map[string]int{"n": 1}})
			ok(t, err)

			ok(t, errors.Join(
				call.End(toolCtx, recorder.ToolResult{Result: "found"}), cycle.End(ctx, recorder.CycleResult{}),
				step.Fail(ctx, nil), plan.End(ctx, recorder.PlanResult{Summary: "S"}),
			))
			flush()

			p, _, err := s.PlanTree(t.Context(), "", plan.ID())
			ok(t, err)
			if *p.Record.State != record.Completed || *p.Record.Summary != "S" || p.Record.Tags[0] != "x" ||
				p.Total.ToolCalls != 1 || *p.Total.CostUSD != 0.25 {
				t.Errorf("plan is %+v", p.Record)
			}

			d, err := s.StepDetail(t.Context(), "", step.ID())
			ok(t, err)
			if c := d.Cycles[0].Record; *d.Record.State != record.Failed || len(*c.ThinkInput) > record.MaxTextBytes ||
				!strings.HasPrefix(*c.ThinkInput, "ab\uFFFDé\uFFFD\n") {
				t.Errorf("step is %+v", d.Record)
			}
			if tool := d.Cycles[0].ToolCalls[0].Record; *tool.Parameters != `{"n":1}` || *tool.Result != "found" {
				t.Errorf("tool call is %+v", tool)
			}

			// The error names what the server refuses.
			err = errors.Join(plan.Artifact(ctx, recorder.ArtifactInfo{Name: strings.Repeat("n", 300)}), func() error {
				if b, ok := sink.(*recorder.Buffer); ok {
					return b.Flush(t.Context())
				}
				return nil
			}())
			var invalid *record.InvalidError
			if !errors.As(err, &invalid) || invalid.Field != "name" {
				t.Errorf("errors.Join = %v", err)
			}
		})
	}
}
