package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/model/internal/modelhttp"
)

// FuzzAnswer reads any events, one a line: they are an answer that can be kept and sent back, or an error.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"x","tool_calls":[{"index":0,"id":"a","function":{"name":"n","arguments":"{"}}]}}]}` + "\n" +
		`{"choices":[{"index":0,"delta":{"refusal":"no","tool_calls":[{"index":0,"function":{"arguments":"}"}}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}`))
	f.Add(
		[]byte(
			`{"choices":[{"message":{"content":[{"type":"text","text":"x"}],"tool_calls":[{},{"id":""}]},"finish_reason":"length"}]}`,
		),
	)

	f.Fuzz(func(t *testing.T, events []byte) {
		said := ""
		a := answer{source: modelhttp.Source{Provider: "p", Model: "m"}, onDelta: func(d model.Delta) { said += d.Text }}
		for line := range bytes.SplitSeq(events, []byte("\n")) {
			if err := a.read("", line); errors.Is(err, modelhttp.ErrDone) {
				break
			} else if failed := (*model.Error)(nil); err != nil && !errors.As(err, &failed) {
				t.Fatalf("%v is no error of package model", err)
			} else if err != nil {
				return
			}
		}

		resp, err := a.response(nil)
		if err != nil {
			return
		}
		if text := resp.Message.Text(); text != said {
			t.Errorf("text %q, deltas %q", text, said)
		}

		first, err := json.Marshal(resp)
		if err != nil {
			t.Fatal(err)
		}
		var again model.Response
		if err := json.Unmarshal(first, &again); err != nil {
			t.Fatal(err)
		}
		if second, err := json.Marshal(again); err != nil || !bytes.Equal(first, second) {
			t.Errorf("json.Marshal(again) = %v\n%s\n%s", err, first, second)
		}

		if m, err := encodeMessage(again.Message, "p"); err != nil || len(m) > 1 {
			t.Errorf("encodeMessage = %v, %v", m, err)
		}
	})
}
