package tool_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/tool"
)

func TestRetries(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		of     *tool.Retries
		failed int
		kind   tool.FailureKind
		again  bool
	}{
		{nil, 1, tool.OnTool, false},
		{&tool.Retries{Tries: 1}, 1, tool.OnTool, false},
		{&tool.Retries{Tries: 3}, 2, tool.OnTool, true},
		{&tool.Retries{Tries: 3}, 3, tool.OnTool, false},
		{&tool.Retries{Tries: 3}, 1, tool.OnTimeout, false},
		{&tool.Retries{Tries: 3, On: []tool.FailureKind{tool.OnTimeout}}, 1, tool.OnTimeout, true},
		{&tool.Retries{Tries: 3, On: []tool.FailureKind{tool.OnTimeout}}, 1, tool.OnTool, false},
		{&tool.Retries{Tries: 3}, 1, "wait_timed_out", false},
	} {
		if got := tt.of.Again(tt.failed, tt.kind); got != tt.again {
			t.Errorf("%+v after %d failures, the last by %s: %v", tt.of, tt.failed, tt.kind, got)
		}
	}

	for _, tt := range []struct {
		of   tool.Retries
		want []time.Duration
	}{
		{tool.Retries{}, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}},
		{tool.Retries{From: 40 * time.Second}, []time.Duration{40 * time.Second, time.Minute, time.Minute}},
		{tool.Retries{From: time.Hour}, []time.Duration{time.Hour, time.Hour}},
		{tool.Retries{Factor: 1}, []time.Duration{time.Second, time.Second}},
		{tool.Retries{Factor: 10, Most: 50 * time.Second}, []time.Duration{time.Second, 10 * time.Second, 50 * time.Second}},
	} {
		for i, want := range tt.want {
			if got := tt.of.Pause(i + 1); got != want {
				t.Errorf("%+v: pause %d is %s, want %s", tt.of, i+1, got, want)
			}
		}
	}
	if got := (&tool.Retries{Factor: 100}).Pause(tool.MaxTries); got != time.Minute {
		t.Errorf("the last pause is %s", got)
	}
}

// What the model must correct, or a human approve again, is not made again by itself.
func TestFinal(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		arguments string
		err       error
		final     bool
	}{
		{`{}`, errors.New("away"), false},
		{`{}`, fmt.Errorf("replace: %w", tool.ErrChanged), true},
		{`{"more":1}`, nil, true},
	} {
		failing := tool.Func("fail", "", func(context.Context, struct{}) (string, error) { return "", tt.err })
		got, err := tool.Do(t.Context(), failing, tool.Policy{}, tool.Call{Arguments: []byte(tt.arguments)}, 0)
		if err != nil || !got.Failed || got.Final != tt.final {
			t.Errorf("%s: %+v, %v", tt.arguments, got, err)
		}
	}
}
