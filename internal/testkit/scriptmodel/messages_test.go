package scriptmodel_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// serveMessages returns a handler and a function that posts a request to the Messages API.
func serveMessages(
	t *testing.T, script scriptmodel.Script, opts *scriptmodel.Options,
) (*scriptmodel.Handler, func(body string) *httptest.ResponseRecorder) {
	t.Helper()
	h, _ := serve(t, script, opts)
	return h, func(body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/messages", strings.NewReader(body))
		r.Header.Set("X-Api-Key", "secret")
		h.ServeHTTP(w, r)
		return w
	}
}

// TestMessages has the same conversation over two APIs.
func TestMessages(t *testing.T) {
	t.Parallel()
	_, chat := serve(t, weather(), nil)
	h, post := serveMessages(t, weather(), &scriptmodel.Options{APIKey: "secret"})
	asked := decode(t, chat(`{"model":"m-1","tools":[{"type":"function","function":{"name":"now"}}],"messages":[`+
		`{"role":"system","content":"You know the weather."},{"role":"user","content":"Will it rain?"}]}`))
	one, two := toolUse(asked, 0), toolUse(asked, 1)
	start := `{"model":"m-1","max_tokens":9,"tools":[{"name":"now"}],"system":[{"type":"text","text":"You know the weather."}],"messages":[{"role":"user","content":"Will it rain?"}`

	w := post(start + `]}`)
	want := fmt.Sprintf(`{"id":"msg_%s","type":"message","role":"assistant","model":"m-1","content":[{"type":"text","text":"I look."},`+
		`{"type":"tool_use","id":%q,"name":"forecast","input":{"city":"Oslo","days":2}},{"type":"tool_use","id":%q,"name":"now","input":{}}],`+
		`"stop_reason":"tool_use","stop_sequence":null,`+
		`"usage":{"input_tokens":21,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":11}}`+"\n",
		strings.TrimPrefix(asked.ID, "chatcmpl-"), one, two)
	if diff := cmp.Diff(want, w.Body.String()); diff != "" || w.Code != http.StatusOK {
		t.Errorf("status %d (-want +got):\n%s", w.Code, diff)
	}

	w = post(start + fmt.Sprintf(`,{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"I look."},`+
		`{"type":"tool_use","id":%[1]q,"name":"forecast","input":{"city": "Oslo"}},{"type":"tool_use","id":%[2]q,"name":"now","input":{}}]},`+
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":%[2]q,"content":"noon"},`+
		`{"type":"tool_result","tool_use_id":%[1]q,"content":[{"type":"text","text":"sun"}],"is_error":true},{"type":"text","text":"Well?"}]},`+
		`{"role":"system","content":"Be brief."}]}`, one, two))
	if got := fields(t, w); got["stop_reason"] != "end_turn" {
		t.Errorf("fields(w) = %v", got)
	}

	seen := h.Requests()
	last := seen[len(seen)-1]
	if diff := cmp.Diff([]scriptmodel.Message{
		{Role: "system", Content: "You know the weather."},
		{Role: "user", Content: "Will it rain?"},
		{Role: "assistant", Content: "I look.", ToolCalls: []scriptmodel.Call{
			{ID: one, Type: "function", Function: scriptmodel.Function{Name: "forecast", Arguments: `{"city": "Oslo"}`}},
			{ID: two, Type: "function", Function: scriptmodel.Function{Name: "now", Arguments: `{}`}},
		}},
		{Role: "tool", ToolCallID: two, Content: "noon"},
		{Role: "tool", ToolCallID: one, Content: "sun"},
		{Role: "user", Content: "Well?"},
		{Role: "system", Content: "Be brief."},
	}, last.Request.Messages); diff != "" || last.Turn != 1 {
		t.Errorf("turn %d (-want +got):\n%s", last.Turn, diff)
	}
}

// toolUse returns the id that a tool call of a chat completion has in the Messages API.
func toolUse(a answer, i int) string {
	return strings.Replace(a.Choices[0].Message.ToolCalls[i].ID, "call_", "toolu_", 1)
}

// TestMessagesUsage checks that the input tokens leave out those of the cache, and how the turn
// ended.
func TestMessagesUsage(t *testing.T) {
	t.Parallel()
	for finish, reason := range map[string]string{"": "end_turn", "length": "max_tokens", "content_filter": "refusal"} {
		_, post := serveMessages(t, oneTurn(scriptmodel.Turn{
			Content: "x", FinishReason: finish, Usage: &scriptmodel.Usage{
				Prompt: 100, Completion: 20, Cached: 60, CacheWrite: 30,
			},
		}), nil)

		got := fields(t, post(strings.Replace(hello, "{", `{"max_tokens":9,`, 1)))
		want := map[string]any{
			"input_tokens": 10.0, "cache_read_input_tokens": 60.0, "cache_creation_input_tokens": 30.0, "output_tokens": 20.0,
		}
		if diff := cmp.Diff(want, got["usage"]); diff != "" || got["stop_reason"] != reason {
			t.Errorf("%q: stop reason %v (-want +got):\n%s", finish, got["stop_reason"], diff)
		}
	}
}

func TestMessagesStream(t *testing.T) {
	t.Parallel()
	_, post := serveMessages(t, oneTurn(scriptmodel.Turn{
		Content:   "Grüße an alle, die lesen.",
		ToolCalls: []scriptmodel.ToolCall{{Name: "a", Arguments: `{"long":"arguments"}`}, {Name: "b", Arguments: "not JSON"}},
		Usage:     &scriptmodel.Usage{Prompt: 100, Completion: 20, Cached: 60, CacheWrite: 30},
	}), nil)

	body := strings.Replace(hello, "{", `{"max_tokens":9,`, 1)
	var whole struct {
		ID      string
		Content []struct{ ID string }
	}
	if err := json.Unmarshal(post(body).Body.Bytes(), &whole); err != nil {
		t.Fatal(err)
	}

	const usage = `"usage":{"input_tokens":10,"cache_creation_input_tokens":30,"cache_read_input_tokens":60,"output_tokens":`
	want := ""
	for _, event := range []string{
		`{"type":"message_start","message":{"id":"` + whole.ID +
			`","type":"message","role":"assistant","model":"m-1","content":[],"stop_reason":null,"stop_sequence":null,` +
			usage + `1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Grüße an alle, d"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"ie lesen."}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"` + whole.Content[1].ID +
			`","name":"a","input":{}}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"long\":\"argumen"}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"ts\"}"}}`,
		`{"type":"content_block_stop","index":1}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"` + whole.Content[2].ID +
			`","name":"b","input":{}}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"not JSON"}}`,
		`{"type":"content_block_stop","index":2}`,
		`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},` + usage + `20}}`,
		`{"type":"message_stop"}`,
	} {
		name, _, _ := strings.Cut(strings.TrimPrefix(event, `{"type":"`), `"`)
		want += "event: " + name + "\ndata: " + event + "\n\n"
	}

	w := post(strings.Replace(body, "{", `{"stream":true,`, 1))
	if diff := cmp.Diff(want, w.Body.String()); diff != "" || w.Header().Get("Content-Type") != "text/event-stream" ||
		!w.Flushed {
		t.Errorf("%v, flushed %v (-want +got):\n%s", w.Header(), w.Flushed, diff)
	}
}

func TestMessagesErrors(t *testing.T) {
	t.Parallel()
	const start, user = `{"model":"m-1","max_tokens":9,"messages":[`, `{"role":"user","content":"hello"}`
	rows := []struct {
		name, body    string
		failure       scriptmodel.Failure
		kind, message string
		status        int
	}{
		{
			name: "no max_tokens", body: hello, status: 400, kind: "invalid_request_error",
			message: "max_tokens: a number above 0 is required",
		},
		{
			name: "no messages", body: start + `]}`, status: 400, kind: "invalid_request_error",
			message: "messages: messages is empty",
		},
		{
			name: "role", body: start + `{"role":"tool","content":"x"}]}`, status: 400, kind: "invalid_request_error",
			message: `messages.0.role: unknown role "tool"`,
		},
		{
			name: "late result", body: start +
				`{"role":"user","content":[{"type":"text","text":"x"},{"type":"tool_result","tool_use_id":"a"}]}]}`,
			status: 400, kind: "invalid_request_error",
			message: "messages.0.content.1: tool results must come first in their message",
		},
		{
			name:   "result without a call",
			body:   start + user + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]}`,
			status: 400, kind: "invalid_request_error",
			message: `messages.[1]: tool message with tool_call_id "a", but no preceding assistant message has this tool call`,
		},
		{
			name: "rate limit", body: start + user + `]}`, failure: scriptmodel.Failure{Status: 429}, status: 429,
			kind: "rate_limit_error", message: "Too Many Requests",
		},
		{
			name: "overload", body: start + user + `]}`,
			failure: scriptmodel.Failure{Status: 529, Message: "Overloaded", RetryAfter: scriptmodel.Duration(time.Second)},
			status:  529, kind: "overloaded_error", message: "Overloaded",
		},
		{
			name: "fault", body: start + user + `]}`, failure: scriptmodel.Failure{Status: 500}, status: 500, kind: "api_error",
			message: "Internal Server Error",
		},
	}

	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			turn := scriptmodel.Turn{Content: "x"}
			if row.failure.Status != 0 {
				turn.Error = &row.failure
			}

			_, post := serveMessages(t, oneTurn(turn), nil)
			w := post(row.body)
			want, err := json.Marshal(map[string]any{
				"type": "error", "error": map[string]any{"type": row.kind, "message": row.message},
			})
			if err != nil {
				t.Fatal(err)
			}

			if diff := cmp.Diff(string(want), sorted(t, w)); diff != "" || w.Code != row.status ||
				(w.Header().Get("Retry-After") != "") != (row.failure.RetryAfter > 0) {
				t.Errorf("status %d, %v (-want +got):\n%s", w.Code, w.Header(), diff)
			}
		})
	}

	t.Run("key", func(t *testing.T) {
		t.Parallel()
		_, post := serveMessages(t, oneTurn(scriptmodel.Turn{Content: "x"}), &scriptmodel.Options{APIKey: "another"})
		if w := post(start + user + `]}`); w.Code != http.StatusUnauthorized ||
			!strings.Contains(w.Body.String(), "authentication_error") {
			t.Errorf("status %d, %s", w.Code, w.Body)
		}
	})
}

// sorted returns the body of an answer with the keys of its objects in order.
func sorted(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &all); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}

	b, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
