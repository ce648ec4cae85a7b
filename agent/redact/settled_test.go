package redact_test

import (
	"math/rand/v2"
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
		{[]string{`[0-9]{4}\B`}, "pin 1234", "1234"},
		{[]string{`[0-9]{4}\b`}, "pin 1234", "1234"},
		{[]string{`[0-9]{4}\b`}, "pin 1234 ", ""},
		{[]string{`[0-9]{4}$`}, "pin 1234", "1234"},
		{[]string{`(?m)^pin [0-9]{4}$`}, "a\npin 1234", "pin 1234"},
		{[]string{`foo$`, `(?:bar)`}, "my foob", "foob"},
		{[]string{`^abc`, `(?:X)`}, "Xab", "ab"},
		{[]string{"api-key"}, "The task", ""},
	} {
		r, err := redact.New(tt.patterns...)
		if err != nil {
			t.Fatal(err)
		}

		// However it arrives, it comes to the same.
		settled := r.Settling()
		for end := range tt.text {
			settled(tt.text[:end])
		}
		for _, settled := range []func(string) int{r.Settling(), settled} {
			if held := tt.text[settled(tt.text):]; held != tt.held {
				t.Errorf("%s of %q: held back is %q, want %q", strings.Join(tt.patterns, " "), tt.text, held, tt.held)
			}
		}
	}
}

// However a text is cut, what is let out is how the whole begins.
func TestSettledIsAPrefix(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	pick := func(of ...string) string { return of[random.IntN(len(of))] }

	var expression func(depth int) string
	expression = func(depth int) string {
		var e strings.Builder
		for range 1 + random.IntN(3) {
			switch n := random.IntN(10); {
			case n < 4 || depth == 0:
				e.WriteString(pick("a", "b", "ab", "[ab]", "[^a]", " ", "."))
			case n < 6:
				e.WriteString(pick(`\b`, `\B`, `^`, `$`, `\A`, `\z`, `(?m:^)`, `(?m:$)`))
			case n < 8:
				e.WriteString("(?:" + expression(depth-1) + "|" + expression(depth-1) + ")")
			default:
				e.WriteString("(?:" + expression(depth-1) + ")" + pick("*", "+", "?", "{2}", "*?", "+?", "{1,3}"))
			}
		}
		return e.String()
	}

	held := 0
	for range 20_000 {
		patterns := []string{"(?:" + expression(2) + ")", "(?:" + expression(1) + ")"}[:1+random.IntN(2)]
		r, err := redact.New(patterns...)
		if err != nil {
			continue // it matches the empty text
		}

		long := random.IntN(8) == 0 // so that not all of it is searched again
		var text strings.Builder
		if long {
			text.WriteString(strings.Repeat(pick("c", "-"), 20))
		}
		for range 1 + random.IntN(9) { // of more, all may be replaced after too many rounds
			text.WriteString(pick("a", "b", " ", "\n", "-", "ä"))
		}

		whole, _ := r.Text(text.String())
		if long && strings.Count(whole, "[redacted]") > 8 {
			continue // maybe after too many rounds
		}

		settled := r.Settling()
		for end := range text.String() {
			from := settled(text.String()[:end])
			shown, _ := r.Text(text.String()[:from])
			if !strings.HasPrefix(whole, shown) {
				t.Fatalf("%q of %q: %q is let out at %d, and the whole is %q", patterns, text.String(), shown, end, whole)
			}
			held += end - from
		}
	}
	if held == 0 {
		t.Error("nothing was held back")
	}
}
