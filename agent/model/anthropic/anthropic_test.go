package anthropic_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/model/anthropic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stand is a server that gives the same answer to every request.
type stand struct {
	*httptest.Server
	request *http.Request
	body    string
}

// answering returns a server whose answers have these events.
func answering(t *testing.T, events ...string) *stand {
	t.Helper()
	s := new(stand)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.request, s.body = r, string(body)

		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range events {
			_, _ = io.WriteString(w, "event: any\ndata: "+e+"\n\n")
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// ask sends a request to the model that config says, which the server answers.
func (s *stand) ask(t *testing.T, config anthropic.Config, req model.Request) (*model.Response, error) {
	t.Helper()
	config.Model = "m-1"
	config.BaseURL, config.HTTPClient = s.URL, s.Client()
	m, err := anthropic.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return m.Generate(t.Context(), req, nil)
}

const whole = `{"type":"message","id":"msg_1","model":"m-1-x","role":"assistant","content":[{"type":"text","text":"x"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":1}}`

func TestRequest(t *testing.T) {
	t.Parallel()

	for _, row := range []struct {
		name   string
		config anthropic.Config
		req    model.Request
		want   string
	}{
		{"plain", anthropic.Config{APIKey: "sk-1"}, model.Request{Messages: []model.Message{model.User("x")}},
			`{"model":"m-1","max_tokens":16384,"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"stream":true}`},
		{"all", anthropic.Config{APIKey: "sk-1", MaxTokens: 5, Cache: true}, model.Request{
			Messages: []model.Message{
				model.System("Be brief."), model.System("Be kind."), model.User("Which?"), model.User(""),
				{
					Role: model.RoleAssistant, Parts: []model.Part{
						{Text: "I look."}, {Call: &model.ToolCall{ID: "a", Name: "git.log", Arguments: "[1]"}},
						{Call: &model.ToolCall{ID: "b", Name: "form"}},
					},
				},
				model.Results(model.ToolResult{CallID: "a", Text: "x", Failed: true}), model.Results(model.ToolResult{CallID: "b"}),
				model.System("Come to an end."),
				{Role: model.RoleAssistant},
				{
					Role: model.RoleAssistant, Provider: "anthropic",
					Raw: json.RawMessage(
						`{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"s+/="},{"type":"text","text":"y"}]}`,
					), Parts: []model.Part{{Text: "y"}},
				},
			},
			Tools: []model.ToolSpec{
				{Name: "form", Description: "Asks."}, {Name: "git.log", Schema: json.RawMessage(`{"type":"object"}`)},
			},
			Temperature: new(0.0), MaxTokens: 50,
			ResponseSchema: json.RawMessage(`{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"string"}}}`),
		}, `{"model":"m-1","max_tokens":50,"system":[{"type":"text","text":"Be brief."},{"type":"text","text":"Be kind."}],"messages":[` +
			`{"role":"user","content":[{"type":"text","text":"Which?"}]},` +
			`{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"a","name":"git-log","input":{"INVALID_JSON":"[1]"}},{"type":"tool_use","id":"b","name":"form","input":{}}]},` +
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"x","is_error":true},{"type":"tool_result","tool_use_id":"b"},{"type":"text","text":"Come to an end."}]},` +
			`{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"s+/="},{"type":"text","text":"y"}]}],` +
			`"tools":[{"name":"form","description":"Asks.","input_schema":{"type":"object","properties":{}}},{"name":"git-log","input_schema":{"type":"object","properties":{}}}],` +
			`"temperature":0,"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"string"}},"additionalProperties":false}}},` +
			`"cache_control":{"type":"ephemeral"},"stream":true}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := answering(t, whole)
			if _, err := s.ask(t, row.config, row.req); err != nil {
				t.Fatal(err)
			}

			if diff := cmp.Diff(row.want, s.body); diff != "" {
				t.Errorf("s.body (-want +got):\n%s", diff)
			}
			h := s.request.Header
			if s.request.URL.Path != "/v1/messages" || h.Get("X-Api-Key") != "sk-1" ||
				h.Get("Anthropic-Version") != "2023-06-01" || h.Get("Content-Type") != "application/json" {
				t.Errorf("s.request.URL = %s, %v", s.request.URL, h)
			}
		})
	}
}

// TestSchema: a schema is brought into the form that the API enforces. The order of properties stays.
func TestSchema(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{"type":"object","properties":{"z":{"type":"object"},"a":{"type":"array","minItems":1,"items":{"properties":{}}}},"required":["z"]}`: `{"type":"object","properties":{"z":{"type":"object","additionalProperties":false},"a":{"type":"array","minItems":1,"items":{"properties":{},"additionalProperties":false}}},"required":["z"],"additionalProperties":false}`,
		`{"type":"object","properties":{},"additionalProperties":true,"minProperties":1}`:                                                     `{"type":"object","properties":{},"additionalProperties":false,"description":"{\"minProperties\":1}"}`,
		`{"type":"object","additionalProperties":{"type":"integer","maximum":9}}`:                                                             `{"type":"object","additionalProperties":{"type":"integer","description":"{\"maximum\":9}"}}`,
		`{"type":"string","description":"A word.","minLength":2,"maxLength":9,"format":"uuid","pattern":"^a"}`:                                `{"type":"string","description":"A word.\n{\"minLength\":2,\"maxLength\":9}","format":"uuid","pattern":"^a"}`,
		`{"type":"string","format":"color"}`: `{"type":"string","description":"{\"format\":\"color\"}"}`,
		`{"type":"array","minItems":3}`:      `{"type":"array","description":"{\"minItems\":3}"}`,
		`{"oneOf":[{"type":"null"},{"$ref":"#/$defs/x","description":"y"}],"$defs":{"x":{"type":"object"}}}`: `{"anyOf":[{"type":"null"},{"$ref":"#/$defs/x"}],"$defs":{"x":{"type":"object","additionalProperties":false}}}`,
		`{"anyOf":[{"const":1}],"oneOf":[{"const":1}]}`:                                                      `{"anyOf":[{"const":1}],"description":"{\"oneOf\":[{\"const\":1}]}"}`,
	} {
		s := answering(t, whole)
		if _, err := s.ask(t, anthropic.Config{}, model.Request{ResponseSchema: json.RawMessage(schema)}); err != nil {
			t.Fatal(err)
		}

		if want := `"output_config":{"format":{"type":"json_schema","schema":` + want +
			`}}`; !strings.Contains(s.body, want) {
			t.Errorf("want %s\nin %s", want, s.body)
		}
	}

	for schema, want := range map[string]string{
		`[]`:                                   "responseSchema: not a JSON object",
		`null`:                                 "responseSchema: not a JSON object",
		`{"properties":{"a":true}}`:            "responseSchema: properties: a: not a JSON object",
		`{"anyOf":{}}`:                         "responseSchema: anyOf: json: cannot unmarshal object",
		`{"description":5,"minProperties":1}`:  "responseSchema: description: json: cannot unmarshal number",
		`{"items":{"anyOf":[{"items":"x"}]}}`:  "responseSchema: items: anyOf: items: not a JSON object",
		`{"additionalProperties":{"items":5}}`: "responseSchema: additionalProperties: items: not a JSON object",
	} {
		_, err := answering(t, whole).ask(t, anthropic.Config{}, model.Request{ResponseSchema: json.RawMessage(schema)})
		if err == nil || !strings.Contains(err.Error(), "anthropic m-1: invalid_request: "+want) {
			t.Errorf("%s: %v, want %s", schema, err, want)
		}
	}
}

// TestBlocks: every block goes back as it came, with what belongs to it.
func TestBlocks(t *testing.T) {
	t.Parallel()
	events := []string{
		`{"type":"message_start","message":{"id":"msg_1","model":"m-1-x","content":[],"stop_reason":null,"usage":{"input_tokens":10,"cache_read_input_tokens":5,"cache_creation_input_tokens":null,"output_tokens":1}}}`,
		`{"type":"ping"}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking","data":"x+/="}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":"The "}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"sky"}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"citations_delta","citation":{"cited_text":"blue","start":12345678901234567}}}`,
		`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_1","name":"a-b","input":{}}}`,
		`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}`,
		`{"type":"content_block_start","index":4,"content_block":{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{}}}`,
		`{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"{\"query\": 1}"}}`,
		`{"type":"something_new","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"pause_turn","stop_sequence":null},"usage":{"output_tokens":9,"output_tokens_details":{"thinking_tokens":4}}}`,
		`{"type":"message_stop"}`,
	}
	request := model.Request{Tools: []model.ToolSpec{{Name: "a.b"}}}

	resp, err := answering(t, events...).ask(t, anthropic.Config{Provider: "mine"}, request)
	if err != nil {
		t.Fatal(err)
	}

	want := &model.Response{
		ID: "msg_1", Model: "m-1-x", Finish: "pause_turn",
		Usage: model.Usage{Input: new(int64(15)), CacheRead: new(int64(5)), Output: new(int64(9)), Reasoning: new(int64(4))},
		Message: model.Message{
			Role: model.RoleAssistant, Provider: "mine", Parts: []model.Part{
				{Text: "The sky"}, {Call: &model.ToolCall{ID: "toolu_1", Name: "a.b", Arguments: "{}"}},
			},
			Raw: json.RawMessage(`{"content":[{"data":"x+/=","type":"redacted_thinking"},{"citations":[{"cited_text":"blue","start":12345678901234567}],"text":"The sky","type":"text"},` +
				`{"id":"toolu_1","input":{},"name":"a-b","type":"tool_use"},{"id":"srv_1","input":{"query":1},"name":"web_search","type":"server_tool_use"}],"role":"assistant"}`),
		},
	}
	if diff := cmp.Diff(want, resp); diff != "" {
		t.Errorf("resp (-want +got):\n%s", diff)
	}
}

func TestFinish(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]model.Finish{
		"end_turn": model.FinishStop, "stop_sequence": model.FinishStop, "tool_use": model.FinishToolCalls,
		"max_tokens":                    model.FinishLength,
		"model_context_window_exceeded": model.FinishLength, "refusal": model.FinishRefusal, "REFUSAL": model.FinishRefusal,
		"MAX_TOKENS":           model.FinishLength,
		"guardrail_intervened": model.FinishContentFilter,
	} {
		resp, err := answering(t, strings.Replace(whole, "end_turn", reason, 1)).ask(t, anthropic.Config{}, model.Request{})
		if err != nil || resp.Finish != want || *resp.Usage.Input != 3 || resp.Usage.CacheRead != nil {
			t.Errorf("%s: %+v, %v", reason, resp, err)
		}
	}
}

// TestMisfits: events that do not fit together are errors.
func TestMisfits(t *testing.T) {
	t.Parallel()
	for event, want := range map[string]string{
		`{"type":"content_block_start","index":1}`:                   "server: the answer cannot be read",
		`{"type":"content_block_delta","index":0,"delta":{}}`:        "server: the answer cannot be read",
		`{"type":"content_block_delta","index":-1,"delta":{}}`:       "server: the answer cannot be read",
		`{"type":"content_block_start","index":"x"}`:                 "server: the answer cannot be read",
		`{"type":"message_stop"}`:                                    "network: the answer ended before it was complete",
		`{"type":"message","content":[null],"stop_reason":null}`:     "network: the answer ended before it was complete",
		`{"type":"content_block_start","index":0}`:                   "network: the answer ended before it was complete",
		`{"type":"message_delta","delta":{"stop_reason":"refusal"}}`: "network: the answer ended before it was complete",
		`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use"}}` + "\n\ndata: " +
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}`: "a text for a block of " +
			"another type",
		`{"type":"error"}`: "server: the answer is an error without a message",
	} {
		resp, err := answering(t, `{"type":"message_start"}`, event).ask(t, anthropic.Config{}, model.Request{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v", event, resp, err)
		}
	}

	if m, err := anthropic.New(anthropic.Config{Model: "m-1", MaxTokens: -1}); err == nil {
		t.Errorf("anthropic.New = %+v", m)
	}
	if m, err := anthropic.New(anthropic.Config{}); err == nil ||
		err.Error() != "anthropic: name of the model is missing" {
		t.Errorf("anthropic.New = %+v, %v", m, err)
	}
}

// TestCacheWrites checks that what the cache keeps for an hour is counted apart.
func TestCacheWrites(t *testing.T) {
	t.Parallel()
	for usage, want := range map[string]model.Usage{
		`{"input_tokens":10,"cache_creation_input_tokens":300,"cache_creation":{"ephemeral_5m_input_tokens":100,"ephemeral_1h_input_tokens":200},"output_tokens":2}`: {
			Input: new(int64(310)), CacheWrite: new(int64(300)), CacheWrite1h: new(int64(200)), Output: new(int64(2)),
		},
		`{"input_tokens":10,"cache_creation":{"ephemeral_5m_input_tokens":100,"ephemeral_1h_input_tokens":200},"output_tokens":2}`: {
			Input: new(int64(310)), CacheWrite: new(int64(300)), CacheWrite1h: new(int64(200)), Output: new(int64(2)),
		},
		`{"input_tokens":10,"cache_creation_input_tokens":0,"cache_creation":null,"output_tokens":2}`: {
			Input: new(int64(10)), CacheWrite: new(int64(0)), Output: new(int64(2)),
		},
	} {
		resp, err := answering(t, `{"type":"message_start","message":{"id":"m","model":"m-1","usage":`+usage+`}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"yes"}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}`, `{"type":"message_stop"}`,
		).ask(t, anthropic.Config{}, model.Request{})
		if err != nil {
			t.Errorf("%s: %v", usage, err)
			continue
		}

		if diff := cmp.Diff(want, resp.Usage); diff != "" {
			t.Errorf("usage = %s (-want +got):\n%s", usage, diff)
		}
	}
}
