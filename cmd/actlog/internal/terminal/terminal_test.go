package terminal_test

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/actlog/actlog/cmd/actlog/internal/terminal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// every returns each character of Unicode once.
func every() string {
	var b strings.Builder
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if utf8.ValidRune(r) {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// obeyed reports whether a character may do something to a terminal or to who reads it.
func obeyed(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point) &&
		r != '\n' && r != '\t'
}

// S11: of all characters, none arrives that a terminal obeys or that nobody sees, however the text is cut into writes,
// and what was JSON is the same JSON.
func TestEveryCharacter(t *testing.T) {
	t.Parallel()
	all := every()
	raw := `{"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(all) + `":1}`
	var whole bytes.Buffer
	w := terminal.New(&whole)
	if _, err := io.WriteString(w, raw); err != nil {
		t.Fatal(err)
	}

	for name, got := range map[string]string{
		"Text": terminal.Text(raw), "Line": terminal.Line(raw), "Plain": terminal.Plain(raw), "Writer": whole.String(),
	} {
		if i := strings.IndexFunc(got, obeyed); i >= 0 {
			t.Errorf("%s lets %U through", name, []rune(got[i:])[0])
		}

		var back map[string]int
		if err := json.Unmarshal([]byte(got), &back); name != "Plain" && (err != nil || back[all] != 1) {
			t.Errorf("%s: not the same JSON: %v", name, err)
		}
	}

	var pieces bytes.Buffer
	w = terminal.New(&pieces)
	for piece := range slices.Chunk([]byte(raw), 7) {
		if _, err := w.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil || pieces.String() != whole.String() {
		t.Errorf("%v: other bytes in pieces", err)
	}
}

// S11: what is decided on shows each character that is not itself a shape or a plain space.
func TestExact(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"rm \u202egnp.x":           `rm \u202egnp.x`,
		"a\u00a0b\u3000c\u2800":    `a\u00a0b\u3000c\u2800`,
		"a\u200bb\u2060c\ufeffd":   `a\u200bb\u2060c\ufeffd`,
		"\u3164\u115f\u1160\uffa0": `\u3164\u115f\u1160\uffa0`,
		"x\ufe0f\U000e0100":        `x\ufe0f\udb40\udd00`,
		"\U000e0041":               `\udb40\udc41`,
		"\x1b[2J\x9b\u009b\x7f":    "\\u001b[2J\ufffd\\u009b\\u007f",
		"a\r\nb\tc":                "a\\u000d\nb\tc",
		"م\u200cخ 👩\u200d👧":        `م\u200cخ 👩\u200d👧`,
		"plain é 漢 — ok":           "plain é 漢 — ok",
	} {
		if got, _ := terminal.Exact(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}

	if _, escaped := terminal.Exact("a\u202eb\u200b \n"); escaped != 2 {
		t.Errorf("%d characters", escaped)
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a\r\nb\rc":              "a\nb\\u000dc",
		"\x1b]0;title\a":         `\u001b]0;title\u0007`,
		"\u009b31m \u0085":       `\u009b31m \u0085`,
		"\xff\xc3":               "\ufffd\ufffd",
		"❤\ufe0f 漢\u3000字\u00a0": "❤\ufe0f 漢\u3000字\u00a0",
		"two\nlines\t":           "two\nlines\t",
	} {
		if got := terminal.Text(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}

	if got := terminal.Plain("a\r\n\x1b[31mb\u202e漢\u3000"); got != "a\n[31mb漢\u3000" {
		t.Errorf("terminal.Plain = %q", got)
	}
	if got := terminal.Line("a\nb\tc"); got != `a\u000ab\u0009c` {
		t.Errorf("terminal.Line = %q", got)
	}
}

// TestJoiners: they pass where they form what is around them, however the text is cut into writes, and nowhere else.
func TestJoiners(t *testing.T) {
	t.Parallel()
	for _, same := range []string{
		"می\u200cخواهم", "URL\u200cها", "क्\u200dष", "👩\u200d👩\u200d👧", "❤\ufe0f\u200d🔥", "👩🏽\u200d🚀.",
	} {
		text, plain := terminal.Text(same), terminal.Plain(same)
		if line := terminal.Line(same); text != same || plain != same || line != same {
			t.Errorf("%q: %q, %q, %q", same, text, plain, line)
		}
	}

	for in, want := range map[string]string{
		"r\u200dm": `r\u200dm`, "\u200dم": `\u200dم`, "م\u200c": `م\u200c`, "م\u200c م": `م\u200c م`,
		"م \u200dم": `م \u200dم`, "م\u200c\n": `م\u200c` + "\n",
		"م\u200c\u200dم": `م\u200c\u200dم`, "م\u200b\u200dم": `م\u200b\u200dم`, "م\u200d\xff": `م\u200d` + "\ufffd",
		"م\u200d\x1b": `م\u200d\u001b`, "م\u200d\r\nم": `م\u200d` + "\nم",
	} {
		if got := terminal.Text(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
		if got := terminal.Plain(in); strings.ContainsAny(got, "\u200c\u200d") {
			t.Errorf("%q: Plain leaves %q", in, got)
		}
	}

	all := "م\u200cخ\u200d \u200dم❤\ufe0f\u200d🔥\u200d\r\nم\u200d\xf0\u200cم\u200d"
	for size := 1; size < len(all); size++ {
		var out bytes.Buffer
		w := terminal.New(&out)
		for piece := range slices.Chunk([]byte(all), size) {
			if _, err := w.Write(piece); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil || out.String() != terminal.Text(all) {
			t.Errorf("pieces of %d: %q, want %q (%v)", size, out.String(), terminal.Text(all), err)
		}
	}
}

// TestWriter checks what may be cut, what is left at the end, and whose colours pass.
func TestWriter(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		make   func(io.Writer) *terminal.Writer
		writes []string
		want   string
	}{
		"cut character":  {terminal.New, []string{"\xe2\x80", "\xaea"}, `\u202ea`},
		"cut line break": {terminal.New, []string{"a\r", "\nb"}, "a\nb"},
		"no character":   {terminal.New, []string{"a\xe2\x80"}, "a\ufffd\ufffd"},
		"\\r at the end": {terminal.New, []string{"a\r"}, `a\u000d`},
		"no colours":     {terminal.New, []string{"\x1b[31mred"}, `\u001b[31mred`},
		"colours":        {terminal.Coloured, []string{"\x1b[1m\x1b[31mred\x1b[0m\n"}, "\x1b[1m\x1b[31mred\x1b[0m\n"},
		"no other sequence": {
			terminal.Coloured, []string{"\x1b[2J\x1b[8m\x1b]0;t\a\x1b[0m\u009b2J\x1b"},
			`\u001b[2J\u001b[8m\u001b]0;t\u0007` + "\x1b[0m" + `\u009b2J\u001b`,
		},
		"colours of a Writer": {func(w io.Writer) *terminal.Writer {
			return terminal.Coloured(terminal.New(w))
		}, []string{"\x1b[2mx"}, "\x1b[2mx"},
	} {
		var out bytes.Buffer
		w := tt.make(&out)
		for _, s := range tt.writes {
			if n, err := io.WriteString(w, s); err != nil || n != len(s) {
				t.Errorf("%s: %d, %v", name, n, err)
			}
		}
		if err := w.Flush(); err != nil || out.String() != tt.want {
			t.Errorf("%s: %q, want %q (%v)", name, out.String(), tt.want, err)
		}
	}
}

// FuzzWriter: a text is written the same however it is cut, and is safe.
func FuzzWriter(f *testing.F) {
	f.Add("a\u202eb", 2)
	f.Add("م\u200cخ", 2)
	withoutJoiners := strings.NewReplacer("\u200c", "", "\u200d", "") // see TestJoiners
	f.Fuzz(func(t *testing.T, s string, at int) {
		var out bytes.Buffer
		w := terminal.New(&out)
		cut := min(max(at, 0), len(s))
		_, _ = io.WriteString(w, s[:cut])
		_, _ = io.WriteString(w, s[cut:])
		_ = w.Flush()

		if got := out.String(); got != terminal.Text(s) || strings.IndexFunc(withoutJoiners.Replace(got), obeyed) >= 0 ||
			!utf8.ValidString(got) {
			t.Errorf("%q: %q", s, got)
		}
	})
}
