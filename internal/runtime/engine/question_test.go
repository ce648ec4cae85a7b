package engine

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestNumberOf: what a human writes is a number, or is none, however long it takes to write it out.
func TestNumberOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]any{
		"1": 1.0, " -2.50 ": -2.5, "1e3": 1e3, "+7": 7.0, "9007199254740993": json.Number("9007199254740993"),
		"1e-999999999": 0.0, strings.Repeat("9", 400): nil, "0." + strings.Repeat("0", 1<<20) + "1": 0.0,
		"1e999999999": nil, "": nil, "one": nil, "inf": nil, "NaN": nil, "0x10": nil, "1_000": nil, "1/2": nil, "1e": nil,
	} {
		got, ok := numberOf(text)
		if !ok {
			got = nil
		}
		if fmt.Sprintf("%T %v", got, got) != fmt.Sprintf("%T %v", want, want) {
			t.Errorf("%.20q is %T %v, want %T %v", text, got, got, want, want)
		}
	}
}
