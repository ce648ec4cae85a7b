package openai_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/model/openai"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stand is a server in the place of another: requests to any host reach it.
type stand struct {
	*httptest.Server
	request *http.Request
	body    string
}

// answering returns a server that gives the same answer to every request: a stream of chunks.
func answering(t *testing.T, chunks ...string) *stand {
	t.Helper()
	s := new(stand)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.request, s.body = r, string(body)

		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, c := range chunks {
			_, _ = io.WriteString(w, "data: "+c+"\r\n\r\n")
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// RoundTrip implements [http.RoundTripper].
func (s *stand) RoundTrip(r *http.Request) (*http.Response, error) {
	at, err := url.Parse(s.URL)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = at.Scheme, at.Host
	return s.Client().Transport.RoundTrip(r)
}

// ask sends a request to the model that config says, which the server answers.
func (s *stand) ask(t *testing.T, config openai.Config, req model.Request) (*model.Response, error) {
	t.Helper()
	config.Model, config.HTTPClient = "m-1", &http.Client{Transport: s}
	m, err := openai.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return m.Generate(t.Context(), req, nil)
}

const stop = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`

func TestRequest(t *testing.T) {
	t.Parallel()
	req := model.Request{
		Messages: []model.Message{
			model.System("Be brief."), model.User("Which?"),
			{Role: model.RoleAssistant}, // said nothing
			{Role: model.RoleAssistant, Parts: []model.Part{{Text: "a"}, {Text: "b"}}},
			{
				Role: model.RoleAssistant, Provider: "openai", Raw: json.RawMessage(`{"role":"assistant","content":"c","x":1}`),
				Parts: []model.Part{{Text: "c"}},
			},
		},
		Tools: []model.ToolSpec{
			{Name: "form", Description: "Asks."}, {Name: "git.log", Schema: json.RawMessage(`{"type":"object"}`)},
		},
		Temperature: new(0.0), MaxTokens: 50,
		ResponseSchema: json.RawMessage(`{"type":"object","properties":{"b":{"type":"string"}}}`),
	}

	for _, row := range []struct {
		name, base, key string
		path, limit     string
	}{
		{"OpenAI by default", "", "sk-1", "api.openai.com/v1/chat/completions", `"max_completion_tokens":50`},
		{
			"OpenAI", "https://eu.api.openai.com/v1/", "sk-1", "eu.api.openai.com/v1/chat/completions",
			`"max_completion_tokens":50`,
		},
		{
			"Azure", "https://mine.openai.azure.com/openai/v1", "sk-1", "mine.openai.azure.com/openai/v1/chat/completions",
			`"max_completion_tokens":50`,
		},
		{"another", "http://localhost:11434/v1", "", "localhost:11434/v1/chat/completions", `"max_tokens":50`},
		{"a name that looks like it", "http://notopenai.com/v1", "", "notopenai.com/v1/chat/completions", `"max_tokens":50`},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := answering(t, `{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}`)
			if _, err := s.ask(t, openai.Config{BaseURL: row.base, APIKey: row.key}, req); err != nil {
				t.Fatal(err)
			}

			want := `{"model":"m-1","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Which?"},{"role":"assistant","content":"ab"},` +
				`{"role":"assistant","content":"c","x":1}],` +
				`"tools":[{"type":"function","function":{"name":"form","description":"Asks.","parameters":{"type":"object","properties":{}}}},` +
				`{"type":"function","function":{"name":"git-log","parameters":{"type":"object","properties":{}}}}],` +
				`"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object","properties":{"b":{"type":"string"}}},"strict":false}},` +
				`"temperature":0,` + row.limit + `,"stream":true,"stream_options":{"include_usage":true}}`
			if diff := cmp.Diff(want, s.body); diff != "" {
				t.Errorf("s.body (-want +got):\n%s", diff)
			}

			bearer := ""
			if row.key != "" {
				bearer = "Bearer " + row.key
			}
			if got := s.request.Host + s.request.URL.Path; got != row.path || s.request.Header.Get("Authorization") != bearer {
				t.Errorf("%s, authorization %q", got, s.request.Header.Get("Authorization"))
			}
		})
	}
}

// TestStrict: OpenAI enforces a schema if it can.
func TestStrict(t *testing.T) {
	t.Parallel()
	for schema, strict := range map[string]bool{
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`:                                                                                       true,
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`:                                                                                                                    false,
		`{"type":"object","properties":{"a":{"type":"string"},"b":{}},"required":["a"],"additionalProperties":false}`:                                                                                false,
		`{"type":"object","properties":{"l":{"type":"array","items":{"type":"object"}}},"required":["l"],"additionalProperties":false}`:                                                              false,
		`{"type":"object","properties":{"items":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/x"}]}},"required":["items"],"additionalProperties":false,"$defs":{"x":{"type":"string","enum":["not"]}}}`: true,
		`{"type":"object","properties":{"a":{"oneOf":[]}},"required":["a"],"additionalProperties":false}`:                                                                                            false,
		`{"type":"array","items":{"type":"string"}}`: false,
		`{"anyOf":[{"type":"string"}]}`:              false,
		`true`:                                       false,
	} {
		s := answering(t, stop)
		if _, err := s.ask(t, openai.Config{}, model.Request{ResponseSchema: json.RawMessage(schema)}); err != nil {
			t.Fatal(err)
		}

		if want := fmt.Sprintf(`"json_schema":{"name":"answer","schema":%s,"strict":%v}`, schema,
			strict); !strings.Contains(s.body, want) {
			t.Errorf("want %s in %s", want, s.body)
		}
	}
}

// TestServers: the answers of servers differ.
func TestServers(t *testing.T) {
	t.Parallel()
	call := func(id, name, arguments string) model.Part {
		return model.Part{Call: &model.ToolCall{ID: id, Name: name, Arguments: arguments}}
	}
	delta := func(delta string) string {
		return `{"id":"c1","model":"m-1-x","choices":[{"index":0,"delta":` + delta + `}]}`
	}
	calls := func(calls string) string { return delta(`{"role":"assistant","tool_calls":[` + calls + `]}`) }

	for _, row := range []struct {
		name   string
		chunks []string
		parts  []model.Part
		finish model.Finish
		usage  model.Usage
		raw    string
	}{
		{
			"role in each chunk, no index, stop instead of tool_calls",
			[]string{
				delta(`{"role":"assistant","content":"I "}`), delta(`{"role":"assistant","content":"see"}`),
				calls(`{"id":"a","type":"function","function":{"name":"x","arguments":"{\"n\""}}`),
				calls(`{"function":{"arguments":":1}"}}`),
				calls(`{"id":"b","type":"function","function":{"name":"y","arguments":"{}"}}`), stop, "[DONE]",
			},
			[]model.Part{{Text: "I see"}, call("a", "x", `{"n":1}`), call("b", "y", "{}")}, model.FinishToolCalls, model.Usage{},
			`{"content":"I see","role":"assistant","tool_calls":[{"function":{"arguments":"{\"n\":1}","name":"x"},"id":"a","type":"function"},{"function":{"arguments":"{}","name":"y"},"id":"b","type":"function"}]}`,
		},
		{
			"one index for all calls",
			[]string{
				calls(`{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}}`),
				calls(`{"index":0,"id":"b","function":{"name":"x","arguments":""}}`), stop,
			},
			[]model.Part{call("a", "x", "{}"), call("b", "x", "")}, model.FinishToolCalls, model.Usage{},
			`{"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"x"},"id":"a","type":"function"},{"function":{"arguments":"{}","name":"x"},"id":"b","type":"function"}]}`,
		},
		{
			"pieces of two calls in turns, a new id and the name in each",
			[]string{
				calls(
					`{"index":0,"id":"a","type":"function","function":{"name":"x","arguments":"{\"n\":"}},{"index":1,"id":"b","type":"function","function":{"name":"y","arguments":"{\"m\":"}}`,
				),
				calls(
					`{"index":1,"id":"b2","function":{"arguments":"2}"}},{"index":0,"id":"a","type":"function","function":{"name":"x","arguments":"1}"}}`,
				),
				`{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`,
			},
			[]model.Part{call("a", "x", `{"n":1}`), call("b", "y", `{"m":2}`)}, model.FinishToolCalls, model.Usage{},
			`{"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{\"n\":1}","name":"x"},"id":"a","type":"function"},{"function":{"arguments":"{\"m\":2}","name":"y"},"id":"b","type":"function"}]}`,
		},
		{
			"what it thinks, with what belongs to it",
			[]string{
				delta(`{"content":"","reasoning_details":[{"type":"reasoning.text","index":0,"format":"f-1","text":"Is it"}]}`),
				delta(`{"content":null,"reasoning_details":[{"type":"reasoning.text","index":0,"format":"f-1","text":" so?"}]}`),
				delta(`{"reasoning_details":[{"type":"reasoning.encrypted","index":0,"format":"f-1","data":"x+/="}]}`),
				calls(
					`{"index":0,"id":"a","type":"function","extra_content":{"google":{"thought_signature":"s+/="}},"function":{"name":"x","arguments":"{}"}}`,
				), stop,
			},
			[]model.Part{call("a", "x", "{}")}, model.FinishToolCalls, model.Usage{},
			`{"content":"","reasoning_details":[{"format":"f-1","index":0,"text":"Is it so?","type":"reasoning.text"},{"data":"x+/=","format":"f-1","index":0,"type":"reasoning.encrypted"}],` +
				`"role":"assistant","tool_calls":[{"extra_content":{"google":{"thought_signature":"s+/="}},"function":{"arguments":"{}","name":"x"},"id":"a","type":"function"}]}`,
		},
		{
			"what it thinks, without an index",
			[]string{
				delta(`{"reasoning":"Is","reasoning_details":[{"type":"reasoning.text","text":"Is"}]}`),
				delta(`{"reasoning":" it?","reasoning_details":[{"type":"reasoning.text","text":" it?"}]}`),
				delta(`{"content":"yes","reasoning_details":[{"type":"reasoning.summary","summary":"s"}]}`), stop,
			},
			[]model.Part{{Text: "yes"}}, model.FinishStop, model.Usage{},
			`{"content":"yes","reasoning":"Is it?","reasoning_details":[{"text":"Is it?","type":"reasoning.text"},{"summary":"s","type":"reasoning.summary"}],"role":"assistant"}`,
		},
		{
			"a refusal",
			[]string{delta(`{"content":null,"refusal":"I "}`), delta(`{"refusal":"won't."}`), stop},
			[]model.Part{{Text: "I won't."}}, model.FinishRefusal, model.Usage{},
			`{"content":null,"refusal":"I won't.","role":"assistant"}`,
		},
		{
			"content in parts, which then is a text",
			[]string{
				delta(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}`), delta(`{"content":"yes"}`),
				stop,
			},
			[]model.Part{{Text: "yes"}}, model.FinishStop, model.Usage{}, "",
		},
		{
			"other choices, a reason that is new, and counts without reasoning",
			[]string{
				`{"id":"c1","model":"m-1-x","choices":[{"index":1,"delta":{"content":"no"},"finish_reason":"stop"},{"index":0,"delta":{"content":"yes"},"finish_reason":"eos"}],"usage":null}`,
				`{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":14,"completion_tokens_details":{"reasoning_tokens":5},"prompt_tokens_details":null}}`,
			},
			[]model.Part{{Text: "yes"}}, "eos",
			model.Usage{Input: new(int64(7)), Output: new(int64(7)), Reasoning: new(int64(5))},
			`{"content":"yes","role":"assistant"}`,
		},
		{
			"cached tokens by LiteLLM",
			[]string{delta(`{"content":"yes"}`), stop,
				`{"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":600,"cache_creation_tokens":300,` +
					`"cache_creation_token_details":{"ephemeral_5m_input_tokens":100,"ephemeral_1h_input_tokens":200}}}}`},
			[]model.Part{{Text: "yes"}}, model.FinishStop,
			model.Usage{
				Input: new(int64(1000)), Output: new(int64(2)), CacheRead: new(int64(600)), CacheWrite: new(int64(300)),
				CacheWrite1h: new(int64(200)),
			},
			`{"content":"yes","role":"assistant"}`,
		},
		{
			"cached tokens by DeepSeek",
			[]string{
				delta(`{"content":"yes"}`), stop,
				`{"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":2,"prompt_cache_hit_tokens":600,"prompt_cache_miss_tokens":400}}`,
			},
			[]model.Part{{Text: "yes"}}, model.FinishStop, model.Usage{
				Input: new(int64(1000)), Output: new(int64(2)), CacheRead: new(int64(600)),
			},
			`{"content":"yes","role":"assistant"}`,
		},
		{
			"nothing", []string{
				delta(`{"role":"assistant"}`), `{"choices":[{"index":0,"delta":{},"finish_reason":"content_filter"}]}`,
			}, []model.Part{}, model.FinishContentFilter, model.Usage{}, `{"content":null,"role":"assistant"}`,
		},
		{
			"a refusal among the parts of the content",
			[]string{delta(`{"content":[{"type":"refusal","refusal":"I won't."}]}`), stop},
			[]model.Part{{Text: "I won't."}}, model.FinishRefusal, model.Usage{},
			`{"content":[{"refusal":"I won't.","type":"refusal"}],"role":"assistant"}`,
		},
		{
			"a refusal that only the provider behind a gateway calls so", []string{
				delta(`{"content":"I won't."}`),
				`{"choices":[{"index":0,"delta":{},"finish_reason":"stop","native_finish_reason":"REFUSAL"}]}`,
			},
			[]model.Part{{Text: "I won't."}}, model.FinishRefusal, model.Usage{}, `{"content":"I won't.","role":"assistant"}`,
		},
		{
			"Gemini's words", []string{
				delta(`{"content":"Well"}`), `{"choices":[{"index":0,"delta":{},"finish_reason":"content_filter: RECITATION"}]}`,
			},
			[]model.Part{{Text: "Well"}}, model.FinishContentFilter, model.Usage{}, `{"content":"Well","role":"assistant"}`,
		},
		{
			"a prompt that is blocked", []string{
				delta(`{"role":"assistant"}`), `{"promptFeedback":{"blockReason":"OTHER"},"choices":[]}`,
			},
			[]model.Part{}, model.FinishContentFilter, model.Usage{}, `{"content":null,"role":"assistant"}`,
		},
		{
			"an upper case limit", []string{
				delta(`{"content":"x"}`), `{"choices":[{"index":0,"delta":{},"finish_reason":"MAX_TOKENS"}]}`,
			},
			[]model.Part{{Text: "x"}}, model.FinishLength, model.Usage{}, `{"content":"x","role":"assistant"}`,
		},
		{
			"the old name of tool calls",
			[]string{delta(`{"content":"x"}`), `{"choices":[{"index":0,"delta":{},"finish_reason":"function_call"}]}`},
			[]model.Part{{Text: "x"}}, model.FinishToolCalls, model.Usage{}, `{"content":"x","role":"assistant"}`,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			resp, err := answering(t, row.chunks...).ask(t, openai.Config{Provider: "mine"}, model.Request{})
			if err != nil {
				t.Fatal(err)
			}

			want := &model.Response{
				ID: "c1", Model: "m-1-x", Finish: row.finish, Usage: row.usage,
				Message: model.Message{
					Role: model.RoleAssistant, Parts: row.parts, Provider: "mine", Raw: json.RawMessage(row.raw),
				},
			}
			if row.raw == "" {
				want.Message.Raw = nil
			}
			if diff := cmp.Diff(want, resp); diff != "" {
				t.Errorf("resp (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCallWithoutID: calls get ids that no other call has, which are sent back.
func TestCallWithoutID(t *testing.T) {
	t.Parallel()
	s := answering(t, `{"choices":[{"index":0,"message":{"tool_calls":[{"id":"","type":"function","function":{"name":"x","arguments":"{}"}},`+
		`{"type":"function","function":{"name":"x","arguments":"{}"}},{"type":"odd"}]},"finish_reason":"stop"}]}`)

	seen := map[string]bool{}
	for range 2 {
		resp, err := s.ask(t, openai.Config{}, model.Request{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range resp.Message.Calls() {
			if seen[c.ID] = true; !strings.HasPrefix(c.ID, "call_") ||
				!strings.Contains(string(resp.Message.Raw), `"id":"`+c.ID+`"`) {
				t.Errorf("%+v in %s", c, resp.Message.Raw)
			}
		}
	}

	if len(seen) != 4 {
		t.Errorf("ids %v", seen)
	}
}

// TestMisfits: pieces that do not fit together are an error, not half an answer.
func TestMisfits(t *testing.T) {
	t.Parallel()
	many := strings.Repeat(`{"id":"a","function":{"name":"x"}},{"id":"b","function":{"name":"x"}},`, 6000)
	for _, row := range []struct{ first, then string }{
		{`{"role":"assistant"}`, `{"role":{"name":"x"}}`},
		{
			`{"tool_calls":[{"index":{},"id":"a","function":{"name":"x"}}]}`,
			`{"tool_calls":[{"index":[],"id":"a","function":"y"}]}`,
		},
		{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"x"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"name":["y"]}}]}`,
		},
		{`{"tool_calls":"x"}`, `{"tool_calls":[]}`},
		{`{"tool_calls":[` + many + `{}]}`, `{}`},
		{`{"content":5}`, `{"audio":{"id":"1"}},"finish_reason":5`},
	} {
		resp, err := answering(t, `{"choices":[{"delta":`+row.first+`}]}`, `{"choices":[{"delta":`+row.then+`}]}`,
			stop).ask(t, openai.Config{}, model.Request{})
		if err == nil || !strings.Contains(err.Error(), "server: the answer cannot be read") {
			t.Errorf("%.200s: %+v, %v", row, resp, err)
		}
	}
}
