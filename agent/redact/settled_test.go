package redact_test

import (
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/redact"
)

// X3: only what may be the beginning of something to replace is held back.
func TestSettled(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		patterns   []string
		text, held string // the end of it
	}{
		{nil, "All of it, also sk-abc and a@b", ""},
		{[]string{"api-key"}, "The sky is blue", ""},
		{[]string{"api-key"}, "The key is sk-abcdef", "sk-abcdef"},
		{[]string{"api-key"}, "The key is s", "s"},
		{[]string{"api-key"}, "This is text", ""},
		{[]string{"email"}, "Write to ann.o", "ann.o"},
		{[]string{"email"}, "Write to ", ""},
		{[]string{"email"}, "Write to Ann, ", ""},
		{[]string{"credit-card"}, "Paid with 5555 5555 5", " 5555 5555 5"},
		{[]string{"credit-card"}, "Some words", ""},
		{[]string{"bearer-token"}, "Authorization: Bearer ", "Bearer "},
		{[]string{"bearer-token"}, "Authorization: Bearer abc then", ""},
		{[]string{"private-key"}, "Here: -----BEGIN RSA PRIVATE KEY-----\nabc\n", "-----BEGIN RSA PRIVATE KEY-----\nabc\n"},
		{[]string{"private-key"}, "A dash -", "-"},
		{[]string{`secret-\d+`}, "It is secret-12", "secret-12"},
		{[]string{`secret-\d+`}, "It is secret-12.", ""},
		{[]string{`(?i)pin: \d{4}`}, "Größe 漢字 PIN: 12", "PIN: 12"},
		{[]string{`secret-\d+`, "email"}, "It is se", "se"},
	} {
		r, err := redact.New(tt.patterns...)
		if err != nil {
			t.Fatal(err)
		}
		// However it arrives, it comes to the same.
		from := 0
		for end := range tt.text {
			from = r.Settled(tt.text[:end], from)
		}
		for _, from := range []int{0, from} {
			if held := tt.text[r.Settled(tt.text, from):]; held != tt.held {
				t.Errorf("%s of %q: held back is %q, want %q", strings.Join(tt.patterns, " "), tt.text, held, tt.held)
			}
		}
	}
}
