package scriptmodel_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// TestResponses has the same conversation over both APIs.
func TestResponses(t *testing.T) {
	t.Parallel()
	h, chat := serve(t, weather(), &scriptmodel.Options{Now: epoch})
	responses := func(body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/responses", strings.NewReader(body)))
		return w
	}
	start := `{"model":"m-1","instructions":"You know the weather.","tools":[{"type":"function","name":"now"}],"input":`
	asked := decode(t, chat(`{"model":"m-1","tools":[{"type":"function","function":{"name":"now"}}],"messages":[`+
		`{"role":"system","content":"You know the weather."},{"role":"user","content":"Will it rain?"}]}`))
	calls := asked.Choices[0].Message.ToolCalls

	w := responses(start + `"Will it rain?"}`)
	want := fmt.Sprintf(`{"id":"resp_%[1]s","object":"response","created_at":1700000000,"status":"completed","model":"m-1","instructions":"You know the weather.",`+
		`"output":[{"type":"message","id":"msg_%[1]s","status":"completed","role":"assistant","content":[{"type":"output_text","text":"I look.","annotations":[]}]},`+
		`{"type":"function_call","status":"completed","call_id":%[2]q,"name":"forecast","arguments":"{\"city\":\"Oslo\",\"days\":2}"},`+
		`{"type":"function_call","status":"completed","call_id":%[3]q,"name":"now","arguments":"{}"}],`+
		`"parallel_tool_calls":true,"tool_choice":"auto","tools":[{"type":"function","name":"now","description":"","parameters":null}],"metadata":{},"error":null,"incomplete_details":null,`+
		`"usage":{"input_tokens":21,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":11,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":32}}`,
		strings.TrimPrefix(asked.ID, "chatcmpl-"), calls[0].ID, calls[1].ID)

	got := fields(t, w)
	for _, call := range got["output"].([]any)[1:] {
		if id, _ := call.(map[string]any)["id"].(string); !strings.HasPrefix(id, "fc_") {
			t.Errorf("id %q", id)
		}
		delete(call.(map[string]any), "id")
	}
	var wanted map[string]any
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("status %d (-want +got):\n%s", w.Code, diff)
	}

	w = responses(fmt.Sprintf(start+
		`[{"role":"user","content":[{"type":"input_text","text":"Will it rain?"}]},{"type":"reasoning","summary":[]},`+
		`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}]},`+
		`{"type":"function_call","call_id":%[1]q,"name":"forecast","arguments":"{}"},{"type":"function_call","call_id":%[2]q,"name":"now","arguments":"{}"},`+
		`{"type":"function_call_output","call_id":%[1]q,"output":"sun"},{"type":"function_call_output","call_id":%[2]q,"output":[{"type":"input_text","text":"noon"}]}]}`, calls[0].ID, calls[1].ID))

	message, _ := fields(t, w)["output"].([]any)[0].(map[string]any)
	if diff := cmp.Diff([]any{
		map[string]any{"type": "output_text", "text": "forecast({}) says sun", "annotations": []any{}},
	}, message["content"]); diff != "" {
		t.Errorf("status %d (-want +got):\n%s", w.Code, diff)
	}
	seen := h.Requests()
	if last := seen[len(seen)-1]; last.Turn != 1 || len(last.Request.Messages) != 5 ||
		last.Request.Messages[2].Content != "I look." || len(last.Request.Messages[2].ToolCalls) != 2 {
		t.Errorf("last = %+v", last)
	}

	for body, param := range map[string]string{
		start + `"rain","stream":true}`:                     "stream",
		start + `"rain","previous_response_id":"resp_1"}`:   "previous_response_id",
		start + `[{"type":"item_reference","id":"msg_1"}]}`: "input[0].type",
		start + `[]}`: "",
		start + `[{"type":"function_call_output","call_id":"x","output":""}]}`: "messages.[1]",
		start + `7}`: "",
	} {
		w := responses(body)
		if a := decode(t, w); w.Code != http.StatusBadRequest || a.Error.Message == "" || a.Error.Param != param {
			t.Errorf("%s: status %d, %s", body, w.Code, w.Body)
		}
	}
}

// TestIncompleteResponses checks the reason and the tokens written to the cache, which a chat
// completion does not have.
func TestIncompleteResponses(t *testing.T) {
	t.Parallel()
	for finish, reason := range map[string]string{"length": "max_output_tokens", "content_filter": "content_filter"} {
		h, _ := serve(t, oneTurn(scriptmodel.Turn{
			Content: "and then", FinishReason: finish, Usage: &scriptmodel.Usage{Prompt: 9, Cached: 2, CacheWrite: 3},
		}), nil)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/responses",
			strings.NewReader(`{"model":"m-1","input":"hello"}`)))

		got := fields(t, w)
		if diff := cmp.Diff([]any{
			"incomplete", map[string]any{"reason": reason}, nil, map[string]any{"cached_tokens": 2.0, "cache_write_tokens": 3.0},
		},
			[]any{
				got["status"], got["incomplete_details"], got["instructions"],
				got["usage"].(map[string]any)["input_tokens_details"],
			}); diff != "" {
			t.Errorf("finish = %s (-want +got):\n%s", finish, diff)
		}
	}
}

func fields(t *testing.T, w *httptest.ResponseRecorder) (all map[string]any) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &all); err != nil || w.Code != http.StatusOK {
		t.Fatalf("status %d, %v in %s", w.Code, err, w.Body)
	}
	return all
}
