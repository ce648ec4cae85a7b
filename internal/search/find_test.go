package search_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/actlog/actlog/internal/search"
)

func TestNeedle(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ needle, text, want string }{
		"plain":                  {"timeout", "run_sql: Timeout after 10 s", "run_sql: [Timeout] after 10 s"},
		"white space":            {"no \n answer", "there was no\t\tanswer", "there was [no answer]"},
		"composed and not":       {"caf\u00c9", "the cafe\u0301 is open", "the [cafe\u0301] is open"},
		"other lengths in lower": {"x", "\u212aelvin x", "\u212aelvin [x]"},
		"patterns are texts":     {"100%_", "is 100%_ done, 100 not", "is [100%_] done, 100 not"},
		"escaped letter":         {"café", `{"to": "caf\u00e9 1"}`, `{"to": "[café] 1"}`},
		"escaped pair":           {"😀", `"\ud83d\ude00 ok"`, `"[😀] ok"`},
		"half a pair":            {"ok", `"\ud83d ok"`, `"\ud83d [ok]"`},
		"escaped line":           {"one two", `{"a":"one\ntwo"}`, `{"a":"[one two]"}`},
		"escaped quotes":         {`say "no"`, `{"a":"say \"no\""}`, `{"a":"[say "no"]"}`},
		"JSON in JSON":           {`"über"`, `{"a":"{\"b\":\"\\u00fcber\"}"}`, `{"a":"{"b":["über"]}"}`},
		"a path is no escape":    {`\new\t`, `C:\new\table`, `C:[\new\t]able`},
		"nothing":                {"absent", "present", ""},
		"what cannot be printed": {"a", "\x1b[31mb\u202e a", "[31mb [a]"},
		"long": {"needle", strings.Repeat("ä ", 100) + "needle" + strings.Repeat(" ö", 100),
			"…" + strings.Repeat(" ä", 26) + " [needle]" + strings.Repeat(" ö", 53) + " …"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, err := search.NewNeedle(row.needle)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if s, ok := n.In(row.text); ok {
				got = s.Before + "[" + s.Match + "]" + s.After
			}
			if got != row.want {
				t.Errorf("got  %q\nwant %q", got, row.want)
			}
		})
	}
	for _, wrong := range []string{"", " \n", strings.Repeat("a", search.MaxQueryBytes+1)} {
		if _, err := search.NewNeedle(wrong); err == nil {
			t.Errorf("%q may be looked for", wrong)
		}
	}
}

// FuzzNeedle: what was found is in the text.
func FuzzNeedle(f *testing.F) {
	f.Add("a \u0301b", "A\u0301  B")
	f.Add("\u0130", "i\u0130")
	f.Add("\xb8", strings.Repeat("\xa2", 200)) // not UTF-8: nowhere does a character begin
	f.Fuzz(func(t *testing.T, needle, text string) {
		n, err := search.NewNeedle(needle)
		if err != nil {
			return
		}
		s, ok := n.In(text)
		if len(text) <= search.MaxTextBytes && strings.Contains(search.Fold(text), search.Fold(needle)) && !ok {
			t.Fatalf("%q is not found in %q", needle, text)
		}
		if !utf8.ValidString(s.Before+s.Match+s.After) && utf8.ValidString(text) {
			t.Fatalf("%q is cut to %q", text, s)
		}
	})
}
