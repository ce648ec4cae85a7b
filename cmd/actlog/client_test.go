package main

import (
	"encoding/json"
	"testing"
)

func TestAnswer(t *testing.T) {
	t.Parallel()
	for result, want := range map[string]string{
		`null`: "", ``: "", `"a\nb"`: "a\nb",
		`{"agent_name":"a","status":"success","final_response":{"content":"Said."}}`: "Said.", `{"a":1}`: "{\n  \"a\": 1\n}",
	} {
		if got := (&runView{Result: json.RawMessage(result)}).answer(); got != want {
			t.Errorf("%s is shown as %q, want %q", result, got, want)
		}
	}
}
