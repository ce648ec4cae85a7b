package anthropic

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
	f.Add([]byte(`{"type":"message_start","message":{"id":"m"}}` + "\n" +
		`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"n","input":{}}}` + "\n" +
		`{"type":"content_block_delta","index":0,"delta":{"partial_json":"{"}}` + "\n" +
		`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":1}}` + "\n" +
		`{"type":"message_stop"}`))

	f.Add(
		[]byte(
			`{"type":"message","content":[{"type":"text","text":"x"},{"type":"thinking","thinking":"y","signature":"s"}],"stop_reason":"end_turn"}`,
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

		if _, err := encode(again.Message, "p"); err != nil {
			t.Error(err)
		}
	})
}
