package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/model/anthropic"
	"github.com/actlog/actlog/agent/model/openai"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

const key = "sk-secret-0123456789"

// provider makes the model of a provider whose server is at a URL that ends in /v1.
type provider struct {
	name string
	make func(url string, client *http.Client, timeout time.Duration) (model.Model, error)
}

var providers = []provider{
	{"openai", func(url string, client *http.Client, timeout time.Duration) (model.Model, error) {
		return openai.New(openai.Config{Model: "m-1", APIKey: key, BaseURL: url, HTTPClient: client, Timeout: timeout})
	}},
	{"anthropic", func(url string, client *http.Client, timeout time.Duration) (model.Model, error) {
		return anthropic.New(anthropic.Config{
			Model: "m-1", APIKey: key, BaseURL: strings.TrimSuffix(url, "/v1"), HTTPClient: client, Timeout: timeout,
		})
	}},
}

// at returns the model of a provider at a URL.
func (p provider) at(t *testing.T, url string, timeout time.Duration) model.Model {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	m, err := p.make(url, &http.Client{Transport: transport}, timeout)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// scripted returns the model of a provider that follows the turns of a script.
func (p provider) scripted(t *testing.T, turns ...scriptmodel.Turn) (model.Model, *scriptmodel.Server) {
	t.Helper()
	s, err := scriptmodel.Start(scriptmodel.Script{Scenes: []scriptmodel.Scene{{Name: "only", Turns: turns}}},
		&scriptmodel.Options{APIKey: key})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return p.at(t, s.URL(), time.Minute), s
}

var hello = model.Request{Messages: []model.Message{model.User("hello")}}

// kindOf returns the error of package model that err is.
func kindOf(t *testing.T, err error) *model.Error {
	t.Helper()
	var failed *model.Error
	if !errors.As(err, &failed) {
		t.Fatalf("%v is no error of package model", err)
	}

	if strings.Contains(err.Error(), key) || strings.Contains(fmt.Sprintf("%+v", failed), key) {
		t.Errorf("the key is in %v", err)
	}
	return failed
}

// TestConversation: a whole conversation with tools over both APIs. What the model said goes back as its
// provider said it, with the reasoning, whose signature the server checks. It is kept as JSON between.
func TestConversation(t *testing.T) {
	t.Parallel()
	for _, p := range providers {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			m, server := p.scripted(t,
				scriptmodel.Turn{
					Content: "Grüße, I look <at> both.", Reasoning: "There are two files, so there are two calls.",
					ToolCalls: []scriptmodel.ToolCall{
						{Name: "files-read_file", Arguments: map[string]any{"path": "a.go", "lines": 12345678901234567}},
						{Name: "everything-echo"},
						{Name: "files-read_file", Arguments: `{"path": "b.go`},
						{Name: "unknown-tool"},
					},
					Usage: &scriptmodel.Usage{Prompt: 100, Completion: 20, Cached: 60, CacheWrite: 30, Reasoning: 8},
				},
				scriptmodel.Turn{Reply: func(_ context.Context, req *scriptmodel.Request) (scriptmodel.Turn, error) {
					text := ""
					for _, r := range req.ToolResults() {
						text += fmt.Sprintf("%s(%s)=%s;", r.Name, r.Arguments, r.Content)
					}
					return scriptmodel.Turn{Content: text, FinishReason: "length"}, nil
				}},
			)

			if m.Name() != "m-1" || m.Provider() != p.name {
				t.Errorf("%s of %s", m.Name(), m.Provider())
			}

			req := model.Request{
				Messages: []model.Message{model.System("Be brief."), model.User("Read a and b.")},
				Tools: []model.ToolSpec{
					{
						Name: "files.read_file", Description: "Reads a file.",
						Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`),
					},
					{Name: "everything-echo"},
				},
				Temperature: new(0.25), MaxTokens: 77,
			}
			var deltas []string
			resp, err := m.Generate(t.Context(), req, func(d model.Delta) { deltas = append(deltas, d.Text) })
			if err != nil {
				t.Fatal(err)
			}

			calls := resp.Message.Calls()
			if len(calls) != 4 || len(deltas) < 2 {
				t.Fatalf("calls %v, deltas %q", calls, deltas)
			}
			raw := resp.Message.Raw
			want := &model.Response{
				ID: resp.ID, Model: "m-1",
				Message: model.Message{Role: model.RoleAssistant, Provider: p.name, Raw: raw, Parts: []model.Part{
					{Text: "Grüße, I look <at> both."},
					{
						Call: &model.ToolCall{
							ID: calls[0].ID, Name: "files.read_file", Arguments: `{"lines":12345678901234567,"path":"a.go"}`,
						},
					},
					{Call: &model.ToolCall{ID: calls[1].ID, Name: "everything-echo", Arguments: "{}"}},
					{Call: &model.ToolCall{ID: calls[2].ID, Name: "files.read_file", Arguments: `{"path": "b.go`}},
					{Call: &model.ToolCall{ID: calls[3].ID, Name: "unknown-tool", Arguments: "{}"}},
				}},
				Finish: model.FinishToolCalls,
				Usage: model.Usage{
					Input: new(int64(100)), Output: new(int64(20)), CacheRead: new(int64(60)), CacheWrite: new(int64(30)),
					Reasoning: new(int64(8)),
				},
			}
			if diff := cmp.Diff(want, resp); diff != "" {
				t.Errorf("resp (-want +got):\n%s", diff)
			}

			if said := strings.Join(deltas, ""); said != resp.Message.Text() {
				t.Errorf("deltas %q", deltas)
			}
			if !strings.Contains(string(raw), "There are two files, so there are two calls.") ||
				strings.Contains(string(raw), "files.read_file") {
				t.Errorf("raw %s", raw)
			}

			// What is on record says the same.
			record, err := json.Marshal(resp)
			if err != nil {
				t.Fatal(err)
			}
			var again model.Response
			if err := json.Unmarshal(record, &again); err != nil {
				t.Fatal(err)
			}

			if diff := cmp.Diff(resp, &again); diff != "" {
				t.Error(diff)
			}
			if second, err := json.Marshal(again); err != nil || string(second) != string(record) {
				t.Errorf("%v, %s became %s", err, record, second)
			}

			req.Messages = append(req.Messages, again.Message,
				model.Results(
					model.ToolResult{CallID: calls[0].ID, Name: calls[0].Name, Text: "A"},
					model.ToolResult{CallID: calls[1].ID, Name: calls[1].Name, Text: ""},
				),
				model.Results(
					model.ToolResult{CallID: calls[2].ID, Name: calls[2].Name, Text: "no JSON", Failed: true},
					model.ToolResult{CallID: calls[3].ID, Name: calls[3].Name, Text: "no such tool", Failed: true},
				),
				model.User("Well?"),
			)

			last, err := m.Generate(t.Context(), req, nil)
			if err != nil {
				t.Fatal(err)
			}
			const answered = `files-read_file({"lines":12345678901234567,"path":"a.go"})=A;everything-echo({})=;` +
				`files-read_file({"INVALID_JSON":"{\"path\": \"b.go"})=no JSON;unknown-tool({})=no such tool;`
			if last.Message.Text() != answered || last.Finish != model.FinishLength {
				t.Errorf("%s: %s", last.Finish, last.Message.Text())
			}

			// Another provider gets the parts.
			for i := range req.Messages {
				req.Messages[i].Provider, req.Messages[i].Raw = "another", json.RawMessage(`"of no use"`)
			}
			if last, err = m.Generate(t.Context(), req, nil); err != nil || last.Message.Text() != answered {
				t.Errorf("last = %v, %v", last, err)
			}

			sent := server.Requests()
			if n := len(sent); n != 3 || strings.Contains(string(sent[2].Body), "There are two files") ||
				!strings.Contains(string(sent[1].Body), "There are two files") {
				t.Errorf("%d requests, the last is %s", n, sent[n-1].Body)
			}
		})
	}
}

// B31: what errors are, and which of them pass.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		failure scriptmodel.Failure
		kind    model.Kind
		again   bool
	}{
		{scriptmodel.Failure{Status: 429, RetryAfter: scriptmodel.Duration(7 * time.Second)}, model.KindRateLimit, true},
		{scriptmodel.Failure{Status: 429, Code: "insufficient_quota", Type: "billing_error"}, model.KindQuota, false},
		{scriptmodel.Failure{Status: 529, Message: "Overloaded"}, model.KindOverloaded, true},
		{scriptmodel.Failure{Status: 503}, model.KindOverloaded, true},
		{scriptmodel.Failure{Status: 500}, model.KindServer, true},
		{scriptmodel.Failure{Status: 502}, model.KindServer, true},
		{scriptmodel.Failure{Status: 504}, model.KindTimeout, true},
		{scriptmodel.Failure{Status: 408}, model.KindTimeout, true},
		{scriptmodel.Failure{Status: 409}, model.KindServer, true},
		{scriptmodel.Failure{Status: 501}, model.KindInvalidRequest, false},
		{scriptmodel.Failure{Status: 400, Message: "unknown parameter"}, model.KindInvalidRequest, false},
		{scriptmodel.Failure{Status: 422}, model.KindInvalidRequest, false},
		{
			scriptmodel.Failure{Status: 400, Message: "prompt is too long: 210000 tokens > 200000 maximum"},
			model.KindContextLength, false,
		},
		{
			scriptmodel.Failure{Status: 400, Message: "This model's maximum context length is 4096 tokens."},
			model.KindContextLength, false,
		},
		{scriptmodel.Failure{Status: 413}, model.KindContextLength, false},
		{scriptmodel.Failure{Status: 400, Code: "content_filter", Type: "content_filter"}, model.KindContentFilter, false},
		{scriptmodel.Failure{Status: 401, Message: "wrong key " + key}, model.KindAuth, false},
		{scriptmodel.Failure{Status: 403}, model.KindAuth, false},
		{scriptmodel.Failure{Status: 402}, model.KindQuota, false},
		{scriptmodel.Failure{Status: 404}, model.KindNotFound, false},
		{scriptmodel.Failure{Status: 500, Message: strings.Repeat("é", 5000)}, model.KindServer, true},
	} {
		name := fmt.Sprint(row.failure.Status, " ", row.kind)
		row.failure.Times = 1
		for _, p := range providers {
			t.Run(p.name+" "+name, func(t *testing.T) {
				t.Parallel()
				m, server := p.scripted(t, scriptmodel.Turn{Content: "yes", Error: &row.failure})
				_, err := m.Generate(t.Context(), hello, nil)
				failed := kindOf(t, err)

				want := strings.ReplaceAll(row.failure.Message, key, "***")
				if want == "" {
					want = http.StatusText(row.failure.Status)
				}
				if failed.Kind != row.kind || failed.Retryable() != row.again || failed.Status != row.failure.Status ||
					failed.RetryAfter != time.Duration(row.failure.RetryAfter) || len(failed.Message) > 2010 ||
					!strings.HasPrefix(want, strings.TrimSuffix(failed.Message, "…")) || failed.Model != "m-1" ||
					failed.Provider != p.name {
					t.Errorf("failed = %+v", failed)
				}

				if n := len(server.Requests()); n != 1 {
					t.Errorf("%d requests, but trying again is up to the caller", n)
				}
				if resp, err := m.Generate(t.Context(), hello, nil); err != nil || resp.Message.Text() != "yes" {
					t.Errorf("then %v, %v", resp, err)
				}
			})
		}
	}
}

// B31: an answer that is not complete is an error that passes, wherever it ends. It is never a short
// answer.
func TestCutAnswers(t *testing.T) {
	t.Parallel()
	for _, p := range providers {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			turn := scriptmodel.Turn{
				Content: "It is in two pieces, at least.", ToolCalls: []scriptmodel.ToolCall{
					{Name: "form", Arguments: `{"a":"bcdefghijklmnopqrstuvw"}`},
				},
			}

			for _, then := range []string{"cut", "end"} {
				for after := range 20 {
					turn.Break = &scriptmodel.Break{After: after, Then: then, Times: 1}
					m, _ := p.scripted(t, turn)
					resp, err := m.Generate(t.Context(), hello, nil)
					if err == nil {
						// There are not so many events, or only the end of the stream itself was not sent.
						whole := resp.Message.Text() == turn.Content && len(resp.Message.Calls()) == 1 &&
							resp.Finish == model.FinishToolCalls
						if !whole || after < 7 || then == "cut" && after < 8 {
							t.Errorf("then = %s after %d: %+v", then, after, resp)
						}
						continue
					}

					if failed := kindOf(t, err); failed.Kind != model.KindNetwork || !failed.Retryable() {
						t.Errorf("then = %s after %d: %v", then, after, err)
					}
					if resp, err := m.Generate(t.Context(), hello, nil); err != nil || resp.Message.Text() != turn.Content {
						t.Errorf("%s after %d: then %v, %v", then, after, resp, err)
					}
				}
			}
		})
	}
}

func TestErrorsWithinAnswers(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		failure scriptmodel.Failure
		kind    model.Kind
	}{
		{scriptmodel.Failure{Status: 529, Type: "overloaded_error", Message: "Overloaded"}, model.KindOverloaded},
		{scriptmodel.Failure{Status: 500, Message: "boom"}, model.KindServer},
		{scriptmodel.Failure{Status: 429, Type: "rate_limit_error", Message: "slow down"}, model.KindRateLimit},
		{scriptmodel.Failure{Status: 503, Code: "503", Type: "overloaded_error", Message: "no room"}, model.KindOverloaded},
		{scriptmodel.Failure{Status: 400, Message: "no"}, model.KindInvalidRequest},
	} {
		for _, p := range providers {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				m, _ := p.scripted(t, scriptmodel.Turn{
					Content: "x", Break: &scriptmodel.Break{After: 2, Then: "end", Error: &row.failure},
				})

				_, err := m.Generate(t.Context(), hello, nil)
				if failed := kindOf(t, err); failed.Kind != row.kind || failed.Message != row.failure.Message ||
					failed.Status != 0 {
					t.Errorf("failed = %+v, want %s", failed, row.kind)
				}
			})
		}
	}
}

// TestSilence: an answer times out when nothing comes, before its first byte and between.
func TestSilence(t *testing.T) {
	t.Parallel()
	for _, p := range providers {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for _, turn := range []scriptmodel.Turn{
				{Content: "x", Delay: scriptmodel.Duration(time.Hour)},
				{Content: "x", Break: &scriptmodel.Break{Then: "hang"}},
				{Content: "x", Break: &scriptmodel.Break{After: 3, Then: "hang"}},
				{Content: "x", ChunkDelay: scriptmodel.Duration(time.Hour)},
			} {
				_, server := p.scripted(t, turn)
				m := p.at(t, server.URL(), 20*time.Millisecond)
				_, err := m.Generate(t.Context(), hello, nil)
				if failed := kindOf(t, err); failed.Kind != model.KindTimeout || !failed.Retryable() ||
					failed.Message != "nothing came for 20ms" {
					t.Errorf("m.Generate(hello, nil) = %v", err)
				}
			}
		})
	}
}

// TestCancel: the end of the caller's context ends the request, and is its cause.
func TestCancel(t *testing.T) {
	t.Parallel()
	for _, p := range providers {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			m, _ := p.scripted(t, scriptmodel.Turn{Content: "x", Break: &scriptmodel.Break{After: 3, Then: "hang"}})
			stopped := errors.New("the run was stopped")
			ctx, stop := context.WithCancelCause(t.Context())
			_, err := m.Generate(ctx, hello, func(model.Delta) { stop(stopped) })

			if failed := kindOf(t, err); failed.Kind != model.KindCancelled || failed.Retryable() || !errors.Is(err, stopped) {
				t.Errorf("m.Generate = %v", err)
			}
			if _, err := m.Generate(ctx, hello, nil); !errors.Is(err, stopped) {
				t.Errorf("m.Generate(hello, nil) = %v", err)
			}
		})
	}
}

// TestHalfALine: a stream that stops within a line is no other than one that stops between.
func TestHalfALine(t *testing.T) {
	t.Parallel()
	for _, p := range providers {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()

			for _, row := range []struct {
				name    string
				timeout time.Duration
				stop    func(r *http.Request)
				want    model.Kind
			}{
				{"silence", 20 * time.Millisecond, func(r *http.Request) { <-r.Context().Done() }, model.KindTimeout},
				{"cut", time.Minute, func(*http.Request) { panic(http.ErrAbortHandler) }, model.KindNetwork},
				{"end", time.Minute, func(*http.Request) {}, model.KindNetwork},
			} {
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, ": hello\n\ndata: {\"id\":")
					_ = http.NewResponseController(w).Flush()
					row.stop(r)
				}))
				defer server.Close()

				_, err := p.at(t, server.URL+"/v1", row.timeout).Generate(t.Context(), hello, nil)
				if failed := kindOf(t, err); failed.Kind != row.want {
					t.Errorf("%s: %v", row.name, err)
				}
			}
		})
	}
}

// TestNetwork: no server, a server that leaves, and one that sends the client elsewhere.
func TestNetwork(t *testing.T) {
	t.Parallel()
	for _, p := range providers {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			_ = listener.Close()
			_, err = p.at(t, "http://"+listener.Addr().String()+"/v1", time.Minute).Generate(t.Context(), hello, nil)
			if failed := kindOf(t, err); failed.Kind != model.KindNetwork || failed.Err == nil {
				t.Errorf("Generate = %v", err)
			}

			m, _ := p.scripted(t, scriptmodel.Turn{Content: "x", Whole: true, Break: &scriptmodel.Break{}})
			_, err = m.Generate(t.Context(), hello, nil)
			if failed := kindOf(t, err); failed.Kind != model.KindNetwork {
				t.Errorf("m.Generate(hello, nil) = %v", err)
			}

			elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				t.Error("the redirect was followed")
			}))
			defer elsewhere.Close()
			redirect := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
			defer redirect.Close()

			_, err = p.at(t, redirect.URL+"/v1", time.Minute).Generate(t.Context(), hello, nil)
			if failed := kindOf(t, err); failed.Kind != model.KindInvalidRequest ||
				failed.Status != http.StatusTemporaryRedirect {
				t.Errorf("Generate = %v", err)
			}
		})
	}
}

// TestWholeAnswers: a server that does not stream is understood.
func TestWholeAnswers(t *testing.T) {
	t.Parallel()
	for _, p := range providers {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			m, _ := p.scripted(t, scriptmodel.Turn{
				Content: "It is all here.", Reasoning: "hm", Whole: true,
				ToolCalls: []scriptmodel.ToolCall{{Name: "a", Arguments: map[string]any{"n": 12345678901234567}}, {Name: "b"}},
				Usage:     &scriptmodel.Usage{Prompt: 5, Completion: 3},
			})

			text := ""
			resp, err := m.Generate(t.Context(), hello, func(d model.Delta) { text += d.Text })
			if err != nil {
				t.Fatal(err)
			}

			calls := resp.Message.Calls()
			if text != "It is all here." || resp.Message.Text() != text || len(calls) != 2 ||
				calls[0].Arguments != `{"n":12345678901234567}` || calls[0].ID == calls[1].ID ||
				calls[1].Name != "b" || resp.Finish != model.FinishToolCalls || *resp.Usage.Input != 5 ||
				!strings.Contains(string(resp.Message.Raw), `"hm"`) {
				t.Errorf("d.Text = %q, %+v", text, resp)
			}
		})
	}
}

// TestOddAnswers: bodies that are no answers are errors.
func TestOddAnswers(t *testing.T) {
	t.Parallel()

	for _, row := range []struct {
		name        string
		status      int
		kind, body  string
		want        model.Kind
		wantMessage string
	}{
		{"page", 200, "text/html", "<html>Welcome</html>", model.KindNetwork, "the answer ended before it was complete"},
		{"nothing", 200, "text/event-stream", "", model.KindNetwork, "the answer ended before it was complete"},
		{
			"no JSON", 200, "application/json", "<html>", model.KindServer,
			"the answer cannot be read: invalid character '<' looking for beginning of value in <html>",
		},
		{
			"no event", 200, "text/event-stream", "data: {\"type\":\n\n", model.KindServer,
			"the answer cannot be read: unexpected EOF in {\"type\":",
		},
		{"empty object", 200, "application/json", "{}", model.KindNetwork, "the answer ended before it was complete"},
		{"proxy", 502, "text/html", "<html>Bad gateway</html>", model.KindServer, "<html>Bad gateway</html>"},
		{
			"detail", 422, "application/json", `{"detail":[{"msg":"field required"}]}`, model.KindInvalidRequest,
			`[{"msg":"field required"}]`,
		},
		{
			"error as text", 404, "application/json", `{"error":"model 'm-1' not found"}`, model.KindNotFound,
			"model 'm-1' not found",
		},
		{
			"error beside", 400, "application/json", `{"object":"error","message":"the context window is full","code":400}`,
			model.KindContextLength, "the context window is full",
		},
		{"nothing said", 418, "", "", model.KindInvalidRequest, "I'm a teapot"},
	} {
		for _, p := range providers {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", row.kind)
					w.WriteHeader(row.status)
					_, _ = io.WriteString(w, row.body)
				}))
				defer server.Close()

				resp, err := p.at(t, server.URL+"/v1", time.Minute).Generate(t.Context(), hello, nil)
				if resp != nil {
					t.Fatalf("%s: %+v", row.name, resp)
				}
				if failed := kindOf(t, err); failed.Kind != row.want || failed.Message != row.wantMessage {
					t.Errorf("%s: %+v", row.name, failed)
				}
			})
		}
	}
}

// TestInvalidRequests: requests that no provider can get are refused before they are sent.
func TestInvalidRequests(t *testing.T) {
	t.Parallel()
	for _, p := range providers {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			m := p.at(t, "http://127.0.0.1:1/v1", time.Minute)
			for want, req := range map[string]model.Request{
				`tools "files.read" and "files-read" would both be offered as "files-read"`: {
					Tools: []model.ToolSpec{{Name: "files.read"}, {Name: "files-read"}},
				},
				`messages[1]: unknown role "boss"`: {
					Messages: []model.Message{model.User("x"), {Role: "boss", Parts: []model.Part{{Text: "y"}}}},
				},
				"encode request: ": {Tools: []model.ToolSpec{{Name: "a", Schema: json.RawMessage("{")}}},
			} {
				_, err := m.Generate(t.Context(), req, nil)
				if failed := kindOf(t, err); failed.Kind != model.KindInvalidRequest || !strings.HasPrefix(failed.Message, want) ||
					failed.Provider != p.name {
					t.Errorf("m.Generate(req, nil) = %v, want %s", err, want)
				}
			}

			for _, url := range []string{"localhost:11434/v1", "ftp://host/v1", "http:///v1", "http://%/v1"} {
				if m, err := p.make(url, nil, 0); err == nil ||
					!strings.Contains(err.Error(), "base URL of model m-1 is not an absolute HTTP URL") {
					t.Errorf("%s: %v, %v", url, m, err)
				}
			}
			if m, err := p.make("http://host/v1", nil, -time.Second); err == nil {
				t.Errorf("p.make = %v", m)
			}
		})
	}
}
