package redact_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/actlog/actlog/agent/redact"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func redactor(t testing.TB, patterns ...string) *redact.Redactor {
	t.Helper()
	r, err := redact.New(patterns...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestKinds(t *testing.T) {
	t.Parallel()
	all := redactor(t, redact.Kinds()...)
	key := strings.Repeat("a1B2", 12)

	for _, tt := range []struct{ text, want string }{
		{"write to bob.o+x@mail.example.co.uk.", "write to [email]."},
		{"jürgen@münchen.example, <a@b.c>", "[email], <[email]>"},
		{"no mail: a@b, @c.de, a @ b.cd", "no mail: a@b, @c.de, a @ b.cd"},
		{"Authorization: Bearer abc.def-123=", "Authorization: [bearer-token]"},
		{"authorization: bearer\n  abc", "authorization: [bearer-token]"},
		{"the bearer", "the bearer"},
		{"sk-proj-" + key + " and ghp_" + key + ".", "[api-key] and [api-key]."},
		{"AKIAABCDEFGHIJKLMNOP AIza" + key[:35], "[api-key] [api-key]"},
		{"xoxb-1234567890-abc glpat-" + key[:20] + " sk_live_" + key[:16], "[api-key] [api-key] [api-key]"},
		{"risk-free and sk-short", "risk-free and sk-short"},
		{"eyJhbGci.eyJzdWIi.c2ln", "[jwt]"},
		{"-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nrest", "[private-key]\nrest"},
		{"-----BEGIN PRIVATE KEY-----\nabc cut", "[private-key]"},
		{"card 4111 1111 1111 1111 2030, 4111111111111111", "card [credit-card] 2030, [credit-card]"},
		{"378282246310005 and 3782-822463-10005", "[credit-card] and [credit-card]"},
		{"order 12 4111-1111-1111-1111", "order 12 [credit-card]"},
		{"4111111111111112 is none", "4111111111111112 is none"},
		{"123456789012345678901234567890", "123456789012345678901234567890"},
		{"call +49 (30) 123456-78 or +14155550123.", "call [phone] or [phone]."},
		{"1 +2 +345 + 12345678901", "1 +2 +345 + 12345678901"},
		{"from 10.0.0.1:8080, ip:192.168.1.20.", "from [ip]:8080, ip:[ip]."},
		{"[2001:db8::1]:443 ip:fe80::1, ::1 ::ffff:10.0.0.1", "[[ip]]:443 ip:[ip], [ip] [ip]"},
		{"v1.2.3.4 1.2.3 999.1.1.1 12:30:45 std::vector a::b ::", "v1.2.3.4 1.2.3 999.1.1.1 12:30:45 std::vector a::b ::"},
		{"", ""},
	} {
		got, _ := all.Text(tt.text)
		if got != tt.want {
			t.Errorf("%q: %q, want %q", tt.text, got, tt.want)
		}
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	r := redactor(t, "email", `order-\d+`, "email")
	text, counts := r.Text("a@b.cd e@f.gh order-17")
	if want := (redact.Counts{"email": 2, "redacted": 1}); text != "[email] [email] [redacted]" ||
		!cmp.Equal(counts, want) {
		t.Errorf("r.Text = %q %v", text, counts)
	}
	if text, counts := r.Text("nothing"); text != "nothing" || counts != nil {
		t.Errorf("r.Text = %q %v", text, counts)
	}

	var none *redact.Redactor
	if text, counts := none.Text("a@b.cd"); text != "a@b.cd" || counts != nil {
		t.Errorf("nil: %q %v", text, counts)
	}
}

// Errors name the pattern by its number, and do not repeat it: it may be a secret.
func TestBadPatterns(t *testing.T) {
	t.Parallel()
	_, err := redact.New("emial", "email", `hunter2(`, `a*`, `[z-a]hunter2`)
	if err == nil {
		t.Fatal("no error")
	}

	for _, want := range []string{
		`pattern 1: no kind is called "emial"`, "there are: private-key",
		"pattern 3: not a regular expression (RE2): missing closing )",
		"pattern 4: the regular expression matches the empty text", "pattern 5: not a regular",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("redact.New = %v, want %s", err, want)
		}
	}
	if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "pattern 2") {
		t.Error(err)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	r := redactor(t, "email", `q\d`)
	for _, tt := range []struct{ text, want string }{
		{
			`{"a@b.cd": "x\u0040y.com",  "n": 1.50, "l": ["a@b.cd", true, null]}`,
			`{"[email]": "[email]",  "n": 1.50, "l": ["[email]", true, null]}`,
		},
		{`"me\u0040x.yz <b>\n"`, `"[email] <b>\n"`},
		{`{"in": "{\"to\":\"x\\u0040y.com\"}"}`, `{"in": "{\"to\":\"[email]\"}"}`},
		{`{"in": "{\"x@y.com\":1}"}`, `{"in": "{\"[email]\":1}"}`},
		{`{"in": "{\"a\":\"q1\" cut"}`, `{"in": "{\"a\":\"[redacted]\" cut"}`},
		{`not json: a@b.cd`, `not json: [email]`},
		{`{"k" : "q\\" , "q1":"q\"1"}`, `{"k" : "q\\" , "[redacted]":"q\"1"}`},
		{`12`, `12`},
	} {
		got, _ := r.JSON([]byte(tt.text))
		if string(got) != tt.want {
			t.Errorf("%s: %s, want %s", tt.text, got, tt.want)
		}
	}

	_, counts := r.JSON([]byte(`["a@b.cd", "q1 q2", "{\"a\":\"a@b.cd\"}"]`))
	if want := (redact.Counts{"email": 2, "redacted": 2}); !cmp.Equal(counts, want) {
		t.Errorf("counts = %v", counts)
	}
}

// A text that was redacted does not change again, whatever the patterns say.
func TestTwiceIsOnce(t *testing.T) {
	t.Parallel()
	for _, patterns := range [][]string{
		{`[a-z]+`}, {`\b\d`}, {`^\d`}, {`\d$`}, {`\[`}, {`\]x`}, {`[^ ]`}, {`(?s).+`}, {`redacted\]`}, {"email", `[\w.]+`},
		{`\\n?`}, {`"`}, {`u00`},
	} {
		r := redactor(t, patterns...)
		for _, text := range []string{
			"1234567890123 abc", "[email]12[redacted]", "[[redacted]]x]", "a@b.cd [ema",
			`{"a":"[1]\n\u0040 \\x","b":"{\"c\":\"\\u0041 1\"}"}`, "\xff\x00[",
		} {
			same(t, r, text)
		}
	}
}

func same(t *testing.T, r *redact.Redactor, text string) {
	t.Helper()
	once, _ := r.Text(text)
	if twice, counts := r.Text(once); twice != once || counts != nil {
		t.Errorf("%q: %q, then %q", text, once, twice)
	}

	first, _ := r.JSON([]byte(text))
	if second, counts := r.JSON(first); string(second) != string(first) || counts != nil {
		t.Errorf("JSON %q: %q, then %q", text, first, second)
	}
	if json.Valid([]byte(text)) && !json.Valid(first) {
		t.Errorf("JSON %q: %q is not", text, first)
	}
	if utf8.ValidString(text) && !utf8.ValidString(once) {
		t.Errorf("%q: %q is not UTF-8", text, once)
	}
}

// Texts that are made to take long are done in a time that grows with their length: the test would
// not end otherwise.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	const size = 4 << 20
	r := redactor(t, append(redact.Kinds(), `\b\d`, "tok-[a-z]{8,}")...)
	for _, part := range []string{
		"a@", "a.b@c.", "1", "1 ", "4111 1111 1111 1111 ", "+1", ":", "1.", "1:", "eyJ-", "sk-", "[email]", "[", "Bearer ",
		"-----BEGIN PRIVATE KEY-----", "[\"", "\\u0040", "\xff",
	} {
		t.Run(fmt.Sprintf("%q", part), func(t *testing.T) {
			t.Parallel()
			text := strings.Repeat(part, size/len(part)/16)
			r.Text(text)
			quoted, err := json.Marshal([]string{text})
			if err != nil {
				t.Fatal(err)
			}
			r.JSON(quoted)
		})
	}

	long := strings.Repeat("no secrets here, only words. ", size/29) + "a@b.cd"
	if got, counts := r.Text(long); counts["email"] != 1 || !strings.HasSuffix(got, " [email]") {
		t.Errorf("counts = %v", counts)
	}

	// JSON in JSON in JSON.
	nested := `"a\u0040b.cd"`
	for range 10 {
		b, err := json.Marshal([]string{nested})
		if err != nil {
			t.Fatal(err)
		}
		nested = string(b)
	}
	if _, counts := r.JSON([]byte(nested)); counts["email"] != 1 {
		t.Errorf("counts = %v", counts)
	}
}

func FuzzRedact(f *testing.F) {
	for _, text := range []string{
		"a@b.cd", `{"a":"x\u0040y.com"}`, "[email]1.2.3.4", "4111 1111 1111 1111", "::1 +1234567890", `["[\"1\"]"]`,
	} {
		f.Add(text, `\b\d`)
	}

	f.Fuzz(func(t *testing.T, text, pattern string) {
		patterns := redact.Kinds()
		if redact.Check(pattern) == nil && len(pattern) < 50 {
			patterns = append(slices.Clip(patterns), pattern)
		}
		same(t, redactor(t, patterns...), text)
	})
}
