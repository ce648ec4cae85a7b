package engine

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestGrowingMessage checks that the message of arguments is read as it arrives, wherever they are cut, and nothing
// else is.
func TestGrowingMessage(t *testing.T) {
	t.Parallel()
	read := func(arguments string, size func() int) string {
		var g growingMessage
		var text strings.Builder
		for arguments != "" {
			n := min(size(), len(arguments))
			text.WriteString(g.add(arguments[:n]))
			arguments = arguments[n:]
		}
		return text.String()
	}

	message := "A \"quote\", a \\ and\nGröße 漢字 \U0001F600 \u2028."
	plain, err := json.Marshal(map[string]string{"message": message})
	if err != nil {
		t.Fatal(err)
	}

	escaped := `{ "message" : "\ud83d\ude00 \u00e9 \/ \t","more":"x"}`
	for range 100 {
		if got := read(escaped, func() int { return 1 + rand.IntN(5) }); got != "\U0001F600 é / \t" {
			t.Fatalf("escaped: %q", got)
		}
	}

	for name, tt := range map[string]struct{ arguments, want string }{
		"whole": {string(plain), message}, "open": {`{"message":"half \u00`, "half "}, "no text": {`{"message":{"a":1}}`, ""},
		"another": {`{"other":"x","message":"y"}`, ""}, "none": {`{}`, ""}, "no JSON": {"{\"message\":\"a\nb", ""},
		"half a pair": {`{"message":"a\ud83dx"}`, "a\ufffdx"}, "long before": {
			strings.Repeat(" ", 200) + `{"message":"x"}`, "",
		},
	} {
		size := len(tt.arguments)
		if got := read(tt.arguments, func() int { return size }); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
