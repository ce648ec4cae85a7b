package scriptmodel_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func epoch() time.Time { return time.Unix(1_700_000_000, 0) }

// weather is a script with a tool call and an answer that quotes its result.
func weather() scriptmodel.Script {
	return scriptmodel.Script{
		Models: []string{"m-1", "m-2"},
		Scenes: []scriptmodel.Scene{{
			Name:  "weather",
			Match: scriptmodel.Match{System: "weather", User: "rain"},
			Turns: []scriptmodel.Turn{
				{Content: "I look.", ToolCalls: []scriptmodel.ToolCall{
					{Name: "forecast", Arguments: map[string]any{"city": "Oslo", "days": 2}},
					{Name: "now"},
				}},
				{Reply: func(_ context.Context, req *scriptmodel.Request) (scriptmodel.Turn, error) {
					r := req.ToolResults()
					return scriptmodel.Turn{Content: fmt.Sprintf("%s(%s) says %s", r[0].Name, r[0].Arguments, r[0].Content)}, nil
				}},
			},
		}},
	}
}

// serve returns a handler and a function that posts a chat completion request to it.
func serve(
	t *testing.T, script scriptmodel.Script, opts *scriptmodel.Options,
) (*scriptmodel.Handler, func(body string) *httptest.ResponseRecorder) {
	t.Helper()
	h, err := scriptmodel.NewHandler(script, opts)
	if err != nil {
		t.Fatal(err)
	}
	return h, func(body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions",
			strings.NewReader(body)))
		return w
	}
}

func oneTurn(turn scriptmodel.Turn) scriptmodel.Script {
	return scriptmodel.Script{Scenes: []scriptmodel.Scene{{Name: "only", Turns: []scriptmodel.Turn{turn}}}}
}

const hello = `{"model":"m-1","messages":[{"role":"user","content":"hello"}]}`

type answer struct {
	ID, Object, Model string
	Created           int64
	Choices           []struct {
		Index   int
		Message struct {
			Role      string
			Content   *string
			ToolCalls []scriptmodel.Call `json:"tool_calls"`
		}
		FinishReason string `json:"finish_reason"`
	}
	Usage json.RawMessage
	Error struct{ Message, Type, Param, Code string }
}

func decode(t *testing.T, w *httptest.ResponseRecorder) answer {
	t.Helper()
	var a answer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return a
}

func TestConversation(t *testing.T) {
	t.Parallel()
	h, post := serve(t, weather(), &scriptmodel.Options{Now: epoch})
	start := `{"model":"m-1","messages":[{"role":"developer","content":[{"type":"text","text":"You know the weather."}]},{"role":"user","content":"Will it rain?"}`

	w := post(start + `]}`)
	first := decode(t, w)
	if w.Code != http.StatusOK || len(first.Choices) != 1 || len(first.Choices[0].Message.ToolCalls) != 2 {
		t.Fatalf("status %d, %s", w.Code, w.Body)
	}
	calls := first.Choices[0].Message.ToolCalls

	want := fmt.Sprintf(`{"id":%q,"object":"chat.completion","created":1700000000,"model":"m-1",`+
		`"choices":[{"index":0,"message":{"role":"assistant","content":"I look.","refusal":null,"tool_calls":[`+
		`{"id":%q,"type":"function","function":{"name":"forecast","arguments":"{\"city\":\"Oslo\",\"days\":2}"}},`+
		`{"id":%q,"type":"function","function":{"name":"now","arguments":"{}"}}]},"logprobs":null,"finish_reason":"tool_calls"}],`+
		`"usage":{"prompt_tokens":9,"completion_tokens":11,"total_tokens":20,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}}`+"\n",
		first.ID, calls[0].ID, calls[1].ID)
	if diff := cmp.Diff(want, w.Body.String()); diff != "" {
		t.Errorf("w.Body.String() (-want +got):\n%s", diff)
	}

	if calls[0].ID == calls[1].ID || len(calls[0].ID) != 29 || !strings.HasPrefix(calls[0].ID, "call_") {
		t.Errorf("tool call ids %q, %q", calls[0].ID, calls[1].ID)
	}
	if again := decode(t, post(start+`]}`)); !cmp.Equal(first, again) {
		t.Errorf("a retry got another answer: %s", cmp.Diff(first, again))
	}

	asked, _ := json.Marshal(calls)
	w = post(start + fmt.Sprintf(`,{"role":"assistant","content":null,"tool_calls":%s},`+
		`{"role":"tool","tool_call_id":%q,"content":"noon"},{"role":"tool","tool_call_id":%q,"content":"sun"}]}`, asked,
		calls[1].ID, calls[0].ID))
	last := decode(t, w)
	if w.Code != http.StatusOK || *last.Choices[0].Message.Content != "now({}) says noon" ||
		last.Choices[0].FinishReason != "stop" {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}

	seen := h.Requests()
	if len(seen) != 3 || seen[2].Scene != "weather" || seen[2].Turn != 1 || seen[2].Status != 200 ||
		seen[2].Request.System() != "You know the weather." || seen[2].Request.Question() != "Will it rain?" {
		t.Errorf("recorded %+v", seen)
	}
}

func TestSeedChangesIDs(t *testing.T) {
	t.Parallel()
	script := oneTurn(scriptmodel.Turn{ToolCalls: []scriptmodel.ToolCall{{Name: "a"}}})
	_, one := serve(t, script, nil)
	_, two := serve(t, script, &scriptmodel.Options{Seed: "two"})

	a, b := decode(t, one(hello)).Choices[0].Message, decode(t, two(hello)).Choices[0].Message
	if a.ToolCalls[0].ID == b.ToolCalls[0].ID {
		t.Error("got the same id with another seed")
	}
	if a.Content != nil {
		t.Errorf("content %q with a tool call, want null", *a.Content)
	}
}

func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, body           string
		status               int
		message, param, code string
	}{
		{"malformed JSON", `{"model":`, 400, "could not parse the JSON body", "", ""},
		{"wrong type", `{"model":1}`, 400, "could not parse the JSON body", "", ""},
		{
			"content of a wrong type", `{"model":"m","messages":[{"role":"user","content":7}]}`, 400,
			"could not parse the JSON body", "", "",
		},
		{"no model", `{"messages":[{"role":"user","content":"x"}]}`, 400, "must provide a model", "model", ""},
		{"no messages", `{"model":"m","messages":[]}`, 400, "messages is empty", "messages", ""},
		{"more than one answer", `{"model":"m","n":2,"messages":[{"role":"user","content":"x"}]}`, 400, "n is 2", "n", ""},
		{
			"unknown role", `{"model":"m","messages":[{"role":"robot","content":"x"}]}`, 400, `unknown role "robot"`,
			"messages.[0].role", "",
		},
		{
			"empty assistant message", `{"model":"m","messages":[{"role":"assistant"}]}`, 400, "neither content nor tool_calls",
			"messages.[0]", "",
		},
		{
			"unanswered tool call", `{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"a"}]}]}`, 400,
			"must be followed by tool messages", "messages", "",
		},
		{
			"tool call answered late", `{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"a"}]},{"role":"user","content":"x"},{"role":"tool","tool_call_id":"a"}]}`, 400, "must be followed by tool messages", "messages.[1]", "",
		},
		{
			"tool call id twice", `{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"a"},{"id":"a"}]}]}`, 400,
			"used twice", "messages.[0]", "",
		},
		{
			"result without a tool call", `{"model":"m","messages":[{"role":"tool","tool_call_id":"b","content":"x"}]}`, 400,
			"no preceding assistant message", "messages.[0]", "",
		},
		{"unknown scene", hello, 400, `model "m-1", system prompt "", first user message "hello"`, "", "script_no_scene"},
		{"no more turns", `{"model":"m","messages":[{"role":"system","content":"weather"},{"role":"user","content":"rain"},{"role":"assistant","content":"1"},{"role":"assistant","content":"2"}]}`,
			400, `"weather" of the script has 2 turns, and this request has 2`, "", "script_no_turn"},
		{"too large", `{"model":"` + strings.Repeat("m", 2000) + `"}`, 413, "larger than 1000 bytes", "", ""},
	}

	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, post := serve(t, weather(), &scriptmodel.Options{MaxBody: 1000})
			w := post(row.body)
			e := decode(t, w).Error

			if w.Code != row.status || !strings.Contains(e.Message, row.message) || e.Param != row.param ||
				e.Code != row.code || e.Type != "invalid_request_error" {
				t.Errorf("status %d, %+v", w.Code, e)
			}
		})
	}
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	h, _ := serve(t, weather(), &scriptmodel.Options{APIKey: "secret", Now: epoch})
	rows := []struct {
		name, method, path, key string
		status                  int
		body                    string
	}{
		{
			"models", "GET", "/v1/models", "secret", 200,
			`{"object":"list","data":[{"id":"m-1","object":"model","created":1700000000,"owned_by":"script"},{"id":"m-2","object":"model","created":1700000000,"owned_by":"script"}]}`,
		},
		{
			"wrong key", "GET", "/v1/models", "guess", 401,
			`{"error":{"message":"Incorrect API key provided.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`,
		},
		{
			"no key", "POST", "/v1/chat/completions", "", 401,
			`{"error":{"message":"Incorrect API key provided.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`,
		},
		{
			"unknown path", "POST", "/v1/images", "secret", 404,
			`{"error":{"message":"Invalid URL (POST /v1/images)","type":"invalid_request_error","param":null,"code":null}}`,
		},
		{
			"wrong method", "GET", "/v1/chat/completions", "secret", 405,
			`{"error":{"message":"Not allowed to GET on /v1/chat/completions.","type":"invalid_request_error","param":null,"code":null}}`,
		},
	}

	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequestWithContext(t.Context(), row.method, row.path, nil)
			if row.key != "" {
				r.Header.Set("Authorization", "Bearer "+row.key)
			}

			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != row.status {
				t.Errorf("status %d, want %d", w.Code, row.status)
			}
			if diff := cmp.Diff(row.body+"\n", w.Body.String()); diff != "" {
				t.Errorf("w.Body.String() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name               string
		failure            scriptmodel.Failure
		retryAfter, errorT string
		code, message      string
	}{
		{
			"rate limit", scriptmodel.Failure{
				Status: 429, Message: "slow down", RetryAfter: scriptmodel.Duration(1500 * time.Millisecond), Times: 2,
			}, "2", "requests", "rate_limit_exceeded", "slow down",
		},
		{"server error", scriptmodel.Failure{Status: 500, Times: 2}, "", "server_error", "", "Internal Server Error"},
	}

	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, post := serve(t, oneTurn(scriptmodel.Turn{Content: "ok", Error: &row.failure}), nil)
			other := strings.Replace(hello, "hello", "good day", 1)
			for i, body := range []string{hello, other, hello, other} { // two conversations have separate counts
				w := post(body)
				e := decode(t, w).Error
				if w.Code != row.failure.Status || w.Header().Get("Retry-After") != row.retryAfter || e.Type != row.errorT ||
					e.Code != row.code || e.Message != row.message {
					t.Errorf("try %d: status %d, %+v, %v", i, w.Code, e, w.Header())
				}
			}

			for _, body := range []string{hello, other} {
				if w := post(body); w.Code != http.StatusOK {
					t.Errorf("after two failures: status %d, %s", w.Code, w.Body)
				}
			}
		})
	}

	t.Run("always", func(t *testing.T) {
		t.Parallel()
		_, post := serve(t, oneTurn(scriptmodel.Turn{Error: &scriptmodel.Failure{Status: 503}}), nil)
		for range 5 {
			if w := post(hello); w.Code != 503 {
				t.Errorf("status %d", w.Code)
			}
		}
	})
}

func TestReply(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name   string
		turn   scriptmodel.Turn
		err    error
		status int
		text   string
	}{
		{"answer", scriptmodel.Turn{Content: "yes"}, nil, 200, "yes"},
		{"error", scriptmodel.Turn{}, errors.New("no idea"), 500, `Reply of scene \"only\", turn 0: no idea`},
		{"nothing", scriptmodel.Turn{}, nil, 500, "neither content nor tool calls"},
		{"failure", scriptmodel.Turn{Error: &scriptmodel.Failure{Status: 429}}, nil, 429, "Too Many Requests"},
		{"another Reply", scriptmodel.Turn{Reply: func(context.Context, *scriptmodel.Request) (scriptmodel.Turn, error) {
			return scriptmodel.Turn{}, nil
		}}, nil, 500, "returned a turn with a Reply"},
	}

	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h, post := serve(t, oneTurn(scriptmodel.Turn{Reply: func(context.Context,
				*scriptmodel.Request) (scriptmodel.Turn, error) {
				return row.turn, row.err
			}}), nil)

			w := post(hello)
			if w.Code != row.status || !strings.Contains(w.Body.String(), row.text) {
				t.Errorf("status %d, %s", w.Code, w.Body)
			}
			if seen := h.Requests(); len(seen) != 1 || seen[0].Status != row.status {
				t.Errorf("recorded %+v", seen)
			}
		})
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	type details struct {
		Cached    int `json:"cached_tokens"`
		Reasoning int `json:"reasoning_tokens"`
	}

	type usage struct {
		Prompt           int     `json:"prompt_tokens"`
		Completion       int     `json:"completion_tokens"`
		Total            int     `json:"total_tokens"`
		PromptDetails    details `json:"prompt_tokens_details"`
		CompletionDetail details `json:"completion_tokens_details"`
	}

	long := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("é", 4800) +
		`"},{"role":"assistant","content":"1234"},{"role":"user","content":"12345678"}]}`
	rows := []struct {
		name, body string
		turns      []scriptmodel.Turn
		want       usage
	}{
		{"given", hello, []scriptmodel.Turn{
			{Content: "x", Usage: &scriptmodel.Usage{Prompt: 100, Completion: 20, Cached: 64, Reasoning: 8}},
		},
			usage{100, 20, 120, details{Cached: 64}, details{Reasoning: 8}}},
		{
			"computed from the texts", hello, []scriptmodel.Turn{{Content: "123456789"}},
			usage{Prompt: 2, Completion: 3, Total: 5},
		},
		{"with a cached prefix", long, []scriptmodel.Turn{{Content: "x"}, {Content: "123"}},
			usage{1203, 1, 1204, details{Cached: 1152}, details{}}},
	}

	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, post := serve(t, scriptmodel.Script{Scenes: []scriptmodel.Scene{{Name: "s", Turns: row.turns}}}, nil)
			var got usage
			if err := json.Unmarshal(decode(t, post(row.body)).Usage, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestStream(t *testing.T) {
	t.Parallel()
	script := oneTurn(scriptmodel.Turn{
		Content: "Grüße an alle, die lesen.", ToolCalls: []scriptmodel.ToolCall{
			{Name: "a", Arguments: "{\"long\":\"arguments\"}"}, {Name: "b"},
		},
	})
	_, post := serve(t, script, &scriptmodel.Options{Now: epoch})
	whole := decode(t, post(hello))
	ids := whole.Choices[0].Message.ToolCalls

	deltas := []string{
		`{"role":"assistant","content":""}`,
		`{"content":"Grüße an alle, d"}`,
		`{"content":"ie lesen."}`,
		`{"tool_calls":[{"index":0,"id":"` + ids[0].ID + `","type":"function","function":{"name":"a","arguments":""}}]}`,
		`{"tool_calls":[{"index":0,"function":{"arguments":"{\"long\":\"argumen"}}]}`,
		`{"tool_calls":[{"index":0,"function":{"arguments":"ts\"}"}}]}`,
		`{"tool_calls":[{"index":1,"id":"` + ids[1].ID + `","type":"function","function":{"name":"b","arguments":""}}]}`,
		`{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}`,
		`{}`,
	}
	head := `{"id":"` + whole.ID + `","object":"chat.completion.chunk","created":1700000000,"model":"m-1",`

	for _, withUsage := range []bool{false, true} {
		t.Run(fmt.Sprintf("usage %v", withUsage), func(t *testing.T) {
			t.Parallel()
			var want []string
			tail := "}"
			if withUsage {
				tail = `,"usage":null}`
			}
			for i, d := range deltas {
				finish := "null"
				if i == len(deltas)-1 {
					finish = `"tool_calls"`
				}
				want = append(want, head+`"choices":[{"index":0,"delta":`+d+`,"logprobs":null,"finish_reason":`+finish+`}]`+tail)
			}

			body := strings.Replace(hello, "{", `{"stream":true,`, 1)
			if withUsage {
				body = strings.Replace(body, "{", `{"stream_options":{"include_usage":true},`, 1)
				want = append(want, head+`"choices":[],"usage":`+string(whole.Usage)+`}`)
			}
			want = append(want, "[DONE]")

			w := post(body)
			if ct := w.Header().Get("Content-Type"); ct != "text/event-stream" || !w.Flushed {
				t.Errorf("content type %q, flushed %v", ct, w.Flushed)
			}
			var got []string
			for lines := bufio.NewScanner(w.Body); lines.Scan(); {
				if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
					got = append(got, data)
				} else if lines.Text() != "" {
					t.Errorf("line %q", lines.Text())
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("append(got, data) (-want +got):\n%s", diff)
			}
		})
	}

	t.Run("an error is not a stream", func(t *testing.T) {
		t.Parallel()
		_, post := serve(t, weather(), nil)
		if w := post(strings.Replace(hello, "{", `{"stream":true,`, 1)); w.Code != 400 ||
			w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("status %d, %v", w.Code, w.Header())
		}
	})
}

func TestRequestsAreBounded(t *testing.T) {
	t.Parallel()
	h, post := serve(t, oneTurn(scriptmodel.Turn{Content: "x"}), &scriptmodel.Options{KeepRequests: 2})
	for i := range 5 {
		post(strings.Replace(hello, "hello", fmt.Sprint(i), 1))
	}

	seen := h.Requests()
	if len(seen) != 2 || seen[0].Request.Question() != "3" || seen[1].Request.Question() != "4" {
		t.Errorf("kept %+v", seen)
	}
}

func TestServerConcurrently(t *testing.T) {
	t.Parallel()
	s, err := scriptmodel.Start(scriptmodel.Script{Scenes: []scriptmodel.Scene{{Name: "echo", Turns: []scriptmodel.Turn{
		{
			Error: &scriptmodel.Failure{Status: 500, Times: 1},
			Reply: func(_ context.Context, req *scriptmodel.Request) (scriptmodel.Turn, error) {
				return scriptmodel.Turn{Content: req.Question()}, nil
			},
		},
	}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()

	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}

	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			question := fmt.Sprintf("question %d", i)
			for _, status := range []int{500, 200} {
				resp, err := client.Post(s.URL()+"/chat/completions", "application/json",
					strings.NewReader(strings.Replace(hello, "hello", question, 1)))
				if err != nil {
					t.Error(err)
					return
				}

				body, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode != status || (status == 200 && !strings.Contains(string(body), `"`+question+`"`)) {
					t.Errorf("%s: status %d, %s", question, resp.StatusCode, body)
				}
			}
		})
	}
	wg.Wait()

	if n := len(s.Requests()); n != 40 {
		t.Errorf("%d requests recorded, want 40", n)
	}
}

func TestCloseEndsPause(t *testing.T) {
	t.Parallel()
	thinking := make(chan struct{})
	s, err := scriptmodel.Start(oneTurn(scriptmodel.Turn{Reply: func(context.Context,
		*scriptmodel.Request) (scriptmodel.Turn, error) {
		close(thinking)
		return scriptmodel.Turn{Content: "late", Delay: scriptmodel.Duration(time.Hour)}, nil
	}}), nil)
	if err != nil {
		t.Fatal(err)
	}

	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}

	done := make(chan error)
	go func() {
		resp, err := client.Post(s.URL()+"/chat/completions", "application/json", strings.NewReader(hello))
		if err == nil {
			_ = resp.Body.Close()
		}
		done <- err
	}()

	<-thinking
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err == nil {
		t.Error("the request was answered")
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	rows := []struct{ name, script, err string }{
		{"complete", `{"models":["m"],"delay":"0s","scenes":[{"name":"s","match":{"system":"a","user":"b","model":"c"},"turns":[
			{"content":"x","toolCalls":[{"name":"t","arguments":{"n":12345678901234567890}}],"usage":{"promptTokens":1,"completionTokens":2},"delay":"5ms","finishReason":"length"},
			{"error":{"status":429,"message":"m","retryAfter":"1s","times":3},"content":"y"}]}]}`, ""},
		{"not JSON", `scenes`, "invalid character"},
		{"two values", `{"scenes":[{"name":"s","turns":[{"content":"x"}]}]} {}`, "more text after"},
		{"unknown field", `{"scenes":[{"name":"s","turns":[{"contents":"x"}]}]}`, `unknown field "contents"`},
		{"bad delay", `{"scenes":[{"name":"s","turns":[{"content":"x","delay":"soon"}]}]}`, "invalid duration"},
		{"no scenes", `{"scenes":[]}`, "no scenes"},
		{"negative delay", `{"delay":"-1s","scenes":[{"name":"s","turns":[{"content":"x"}]}]}`, "negative delay"},
		{
			"negative delay of a turn", `{"scenes":[{"name":"s","turns":[{"content":"x","delay":"-1s"}]}]}`,
			`scene "s", turn 0: negative delay`,
		},
		{"scene without a name", `{"scenes":[{"turns":[{"content":"x"}]}]}`, `scene name ""`},
		{
			"scene name twice", `{"scenes":[{"name":"s","turns":[{"content":"x"}]},{"name":"s","turns":[{"content":"x"}]}]}`,
			`scene name "s"`,
		},
		{"no turns", `{"scenes":[{"name":"s"}]}`, "has no turns"},
		{"empty turn", `{"scenes":[{"name":"s","turns":[{}]}]}`, "neither content nor tool calls"},
		{
			"no answer after the errors", `{"scenes":[{"name":"s","turns":[{"error":{"status":500,"times":1}}]}]}`,
			"neither content nor tool calls",
		},
		{
			"finish reason", `{"scenes":[{"name":"s","turns":[{"content":"x","finishReason":"tired"}]}]}`,
			`unknown finish reason "tired"`,
		},
		{"tool without a name", `{"scenes":[{"name":"s","turns":[{"toolCalls":[{}]}]}]}`, "tool call without a name"},
		{"not an error status", `{"scenes":[{"name":"s","turns":[{"error":{"status":200}}]}]}`, "error with status 200"},
	}

	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, err := scriptmodel.Parse([]byte(row.script))
			if row.err == "" && err != nil || row.err != "" && (err == nil || !strings.Contains(err.Error(), row.err)) {
				t.Errorf("error %v, want %q", err, row.err)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "script.json")
	if err := os.WriteFile(
		file, []byte(
			`{"scenes":[{"name":"s","turns":[{"toolCalls":[{"name":"t","arguments":{"n":12345678901234567890}}],"finishReason":"length"}]}]}`,
		), 0o600,
	); err != nil {
		t.Fatal(err)
	}

	script, err := scriptmodel.Load(file)
	if err != nil {
		t.Fatal(err)
	}

	_, post := serve(t, script, nil)
	choice := decode(t, post(hello)).Choices[0]
	if got := choice.Message.ToolCalls[0].Function.Arguments; got != `{"n":12345678901234567890}` ||
		choice.FinishReason != "length" {
		t.Errorf("arguments %s, finish reason %s", got, choice.FinishReason)
	}
	if _, err := scriptmodel.Load(file + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

func TestReplyWithAnswerIsRefused(t *testing.T) {
	t.Parallel()
	_, err := scriptmodel.Start(oneTurn(scriptmodel.Turn{Content: "x",
		Reply: func(context.Context, *scriptmodel.Request) (scriptmodel.Turn, error) {
			return scriptmodel.Turn{}, nil
		}}), nil)
	if err == nil || !strings.Contains(err.Error(), "both a Reply and an answer") {
		t.Errorf("error %v", err)
	}
}
