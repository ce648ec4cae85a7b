package search_test

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/record/search"
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

// TestWord: whatever has a needle has its word in small ASCII letters, or a character that [search.Word.Alike] has.
func TestWord(t *testing.T) {
	t.Parallel()
	for needle, want := range map[string]search.Word{
		"the Order-4711 of": {Text: "order-4711", Bare: "-4711", InRow: 5},
		"a 12 b":            {Text: "12", InRow: 2},
		"3f-9a_001":         {Text: "3f-9a_001", Bare: "_001", InRow: 3},
		"größe":             {Text: "gr", InRow: 2},
		"数据":                {},
		"think":             {Text: "think", Alike: []string{"İ", "I\u0307", "\u212a"}, InRow: 5},
	} {
		n, err := search.NewNeedle(needle)
		if err != nil {
			t.Fatal(err)
		}

		if diff := cmp.Diff(want, n.Word()); diff != "" {
			t.Errorf("needle = %q (-want +got):\n%s", needle, diff)
		}
	}

	alike := func(s string) {
		text := "x" + s + "x"
		n, err := search.NewNeedle(text)
		if err != nil {
			return // it is no text
		}
		if w := n.Word(); len(w.Text) > 2 && !strings.Contains(strings.ToLower(text), w.Text) &&
			!slices.Contains(w.Alike, s) {
			t.Errorf("%q has the word %q, and what is like it is %q", text, w.Text, w.Alike)
		}
	}

	for r := rune(utf8.RuneSelf); r <= unicode.MaxRune; r++ {
		alike(string(r))
		if unicode.Is(unicode.M, r) {
			for c := range rune(utf8.RuneSelf) {
				alike(string([]rune{c, r}))
			}
		}
	}
}
