package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// A copy is marked, with the address of its original and without what terminals take for commands.
func TestCopyIsMarked(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	v := &view{w: &out}

	for said, want := range map[string]string{
		`{}`: "", `{"forkedFrom": null}`: "",
		`{"forkedFrom": "cycle:s/3"}`:              "copy of cycle:s/3",
		`{"forkedFrom": "x\u001b[31m\nnext line"}`: "copy of x [31m next line",
	} {
		var st stepView
		if err := json.Unmarshal([]byte(said), &st); err != nil {
			t.Fatal(err)
		}
		if got := v.copy(st.copied); got != want {
			t.Errorf("%s: %q, want %q", said, got, want)
		}
	}
}
