package loosejson_test

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/actlog/actlog/internal/record/loosejson"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestWords: NaN and Infinity are values where a number may be, and nowhere else.
func TestWords(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]struct{ strict, quoted string }{
		`NaN`:                          {`0.0`, `"NaN"`},
		`[NaN,Infinity,-Infinity]`:     {`[0.0,0.000000,-0.000000]`, `["NaN","Infinity","-Infinity"]`},
		`{"a": {"b" :[ NaN ]}, "c":1}`: {`{"a": {"b" :[ 0.0 ]}, "c":1}`, `{"a": {"b" :[ "NaN" ]}, "c":1}`},
		`{"NaN":"NaN, \"Infinity\"",` + "\n" + `"x":Infinity}`: {
			`{"NaN":"NaN, \"Infinity\"",` + "\n" + `"x":0.000000}`, `{"NaN":"NaN, \"Infinity\"",` + "\n" + `"x":"Infinity"}`,
		},
		`["a\\",-Infinity]`: {`["a\\",-0.000000]`, `["a\\","-Infinity"]`},
	} {
		if got := loosejson.Strict(in); got != want.strict || len(got) != len(in) || !json.Valid([]byte(got)) {
			t.Errorf("%s is %s, want %s", in, got, want.strict)
		}
		if got := loosejson.Quoted(in); got != want.quoted || !json.Valid([]byte(got)) {
			t.Errorf("%s is quoted %s, want %s", in, got, want.quoted)
		}
		if !loosejson.Valid(in) {
			t.Errorf("%s is not valid", in)
		}
	}

	for _, in := range []string{
		`NaNa`, `[NaNa]`, `[aNaN]`, `[-NaN]`, `[+Infinity]`, `[1NaN]`, `[NaN1]`, `[nan]`, `[infinity]`, `[- Infinity]`,
		`[--Infinity]`,
		`{NaN:1}`, `{NaN: 1}`, `[NaN`, `[NaN NaN]`, `[Infinity.0]`, `["a"NaN]`, `-`, ``, `[NaN.]`,
	} {
		if loosejson.Valid(in) {
			t.Errorf("%s is valid", in)
		}
	}
}

// documents are JSON of many forms.
var documents = []string{
	`[{"role": "user", "parts": [{"type": "text", "content": "Please compare \"a\" \\ \n \ud83d\ude00 \u6771 日本 😀 x"}]}, {"role":"tool","n":-1.5e+3,"ok":true,"no":null,"x":[[],{}]}]`,
	`{"messages":[["user","Hi"],{"content":"a","arguments":{"b":[1,{"c":"d"}]}}],"NaN":[NaN,-Infinity]}`,
	` [ { "name" : "look" , "arguments" : { "q" : "lamp" , "n" : 1 } } ] `,
}

// TestEveryCut: wherever JSON is cut, what is before the cut is JSON again, in valid UTF-8, and nothing is made up.
func TestEveryCut(t *testing.T) {
	t.Parallel()
	for _, doc := range documents {
		for i := range len(strings.TrimSpace(doc)) {
			for _, mark := range []string{
				"", "...", "…", "[truncated]", "... [truncated]", "…(1,234 more characters)", "\n<truncated>", " ...truncated",
				"... 12 bytes omitted",
			} {
				cut := strings.ToValidUTF8(doc[:i], "\uFFFD") + mark
				whole, ok := loosejson.Complete(cut)

				if begins := strings.TrimSpace(doc[:i]) != ""; ok != begins {
					t.Fatalf("%q: %v", cut, ok)
				}
				if ok && (!loosejson.Valid(whole) || !utf8.ValidString(whole)) {
					t.Fatalf("%q became %q", cut, whole)
				}
			}
		}

		if whole, ok := loosejson.Complete(doc); ok {
			t.Errorf("%s is whole, and became %s", doc, whole)
		}
	}
}

func TestComplete(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`[{"role":"user","content":"Which la`:                  `[{"role":"user","content":"Which la"}]`,
		`[{"role":"user","content":"a\`:                        `[{"role":"user","content":"a"}]`,
		`[{"role":"user","content":"a\\`:                       `[{"role":"user","content":"a\\"}]`,
		`[{"role":"user","content":"a\u67`:                     `[{"role":"user","content":"a"}]`,
		`[{"role":"user","content":"a\u6771`:                   `[{"role":"user","content":"a\u6771"}]`,
		`[{"role":"user","content":"a\ud83d`:                   `[{"role":"user","content":"a"}]`,
		`[{"role":"user","content":"a\ud83d\ude`:               `[{"role":"user","content":"a"}]`,
		`[{"role":"user","content":"a\\ud83d`:                  `[{"role":"user","content":"a\\ud83d"}]`,
		"[{\"role\":\"user\",\"content\":\"a\xf0\x9f\x98":      `[{"role":"user","content":"a"}]`,
		"[{\"role\":\"user\",\"content\":\"a\uFFFD":            `[{"role":"user","content":"a"}]`,
		`[{"role":"user","content":"a\...`:                     `[{"role":"user","content":"a"}]`,
		`[{"role":"user","content":"a\u6...[truncated]`:        `[{"role":"user","content":"a"}]`,
		`[{"role":"user","content":"a...`:                      `[{"role":"user","content":"a..."}]`,
		`[{"role":"user","content":"a... [truncated]`:          `[{"role":"user","content":"a"}]`,
		`[{"role":"user","content":"a b\n<cut: 12 bytes>`:      `[{"role":"user","content":"a b\n"}]`,
		"[{\"role\":\"user\",\"content\":\"a…(99 more chars)":  `[{"role":"user","content":"a"}]`,
		`[{"role":"user","content":"a (b)`:                     `[{"role":"user","content":"a (b)"}]`,
		`[{"role":"user","content":"a"}...`:                    `[{"role":"user","content":"a"}]`,
		`[{"role":"user","content":"a"},[truncated]`:           `[{"role":"user","content":"a"}]`,
		`[{"role":"user"},{"ro`:                                `[{"role":"user"},{}]`,
		`[{"content":"a","role":"us`:                           `[{"content":"a"}]`,
		`[{"id":"call_1`:                                       `[{}]`,
		`[{"n":12`:                                             `[{}]`,
		`[1, 2`:                                                `[1]`,
		`[{"name":"look","arguments":{"q":"la`:                 `[{"name":"look","arguments":"{\"q\":\"la"}]`,
		`[{"name":"look","input":{"q":[{"a":1`:                 `[{"name":"look","input":"{\"q\":[{\"a\":1"}]`,
		`[{"function":{"name":"look","arguments":"{\"q\":\"la`: `[{"function":{"name":"look","arguments":"{\"q\":\"la"}}]`,
		`{"input":{"messages":[{"role":"user","content":"Hi`:   `{"input":{"messages":[{"role":"user","content":"Hi"}]}}`,
	} {
		if got, ok := loosejson.Complete(in); !ok || got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}

	for _, in := range []string{
		``, `...`, `Hi`, `"Hi`, `[1] Smith says`, `[see below] it`, `[{"role":"user"}] and more`, `{"a":1} is it`, `[x y`,
		`{a:1`, `[{"a" "b`, `[}`, `[1,,2`, `{"a":"b\x`,
		"[\"a\nb",
	} {
		if got, ok := loosejson.Complete(in); ok {
			t.Errorf("%q became %q", in, got)
		}
	}
}

// TestUnclosed: what is closed is found out without parsing it.
func TestUnclosed(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]bool{
		``: false, `a`: false, `"a`: false, `[]`: false, ` {"a":"]"} `: false, `[1] and [2`: false, `[`: true,
		`{"a":"}`: true, `{"a":"\"}`: true, `[{}`: true, `[{"a":"b"}...`: true,
	} {
		if got := loosejson.Unclosed(in); got != want {
			t.Errorf("%q: %v", in, got)
		}
	}
}

// TestShorten: what is too long stays JSON, and its texts survive beside an image.
func TestShorten(t *testing.T) {
	t.Parallel()
	image := strings.Repeat("iVBORw0KGgo", 10_000)
	in := `[{"role":"user","content":[{"type":"image","data":"` + image +
		`"},{"type":"text","text":"Which lamp is it?"}],"x":NaN}]`

	got, ok := loosejson.Shorten(in, 5_000)
	if !ok || len(got) > 5_000 || len(got) < 4_990 || !loosejson.Valid(got) ||
		!strings.HasSuffix(got, `"},{"type":"text","text":"Which lamp is it?"}],"x":NaN}]`) {
		t.Errorf("%v, %d bytes: %.100s ... %s", ok, len(got), got, got[max(0, len(got)-100):])
	}

	for name, in := range map[string]string{
		"a string":     `"` + image + `"`,
		"escapes":      `["` + strings.Repeat(`\ud83d\ude00\n\\`, 2_000) + `"]`,
		"characters":   `["` + strings.Repeat("日本語", 2_000) + `"]`,
		"many strings": `["a` + strings.Repeat(`","a`, 3_000) + `"]`,
		"many messages": `[{"content":"` + strings.Repeat("What was said. ", 30) +
			strings.Repeat(`"},{"content":"`+strings.Repeat("What was said. ", 30), 100) + `"}]`,
		"numbers": `[1` + strings.Repeat(`,1`, 5_000) + `]`,
		"names":   `{"` + strings.Repeat("n", 4_000) + `":1,"b":["` + strings.Repeat(`","`, 5_000) + `"]}`,
	} {
		got, ok := loosejson.Shorten(in, 5_000)
		if !ok || len(got) > 5_000 || !json.Valid([]byte(got)) || !utf8.ValidString(got) || len(got) < 3_900 {
			t.Errorf("%s: %v, %d bytes: %.100s", name, ok, len(got), got)
		}
	}

	for _, in := range []string{"", "Hi", `[1,`, `[x]`, `12345678`} {
		if got, ok := loosejson.Shorten(in, 4); ok {
			t.Errorf("%q became %q", in, got)
		}
	}
	if got, ok := loosejson.Shorten(` ["a"] `, 5); !ok || got != `["a"]` {
		t.Errorf("loosejson.Shorten = %q, %v", got, ok)
	}
}

// TestMemoryOfShortening checks that shortening takes memory that grows with the text, and not with the number of
// strings in it. It does not run beside other tests, whose memory would count too.
func TestMemoryOfShortening(t *testing.T) {
	const n, limit = 2 << 20, 1 << 20
	long := `,"` + strings.Repeat("a", 500_000) + `"`
	for name, in := range map[string]string{
		"empty strings":  `[` + strings.Repeat(`"",`, n) + `""]`,
		"small strings":  `{"a":["` + strings.Repeat(`ab","`, n) + `"]}`,
		"beside a large": `["a"` + long + strings.Repeat(`,"ab"`, n) + long + `]`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, ok := loosejson.Shorten(in, limit)
		runtime.ReadMemStats(&after)

		if !ok || len(got) > limit || len(got) < limit-1_000 || !loosejson.Valid(got) {
			t.Errorf("%s: %v, %d bytes", name, ok, len(got))
		}
		if allocated := int(after.TotalAlloc - before.TotalAlloc); allocated > 3*len(in) {
			t.Errorf("%s: %d bytes of memory for a text of %d", name, allocated, len(in))
		}
	}
}

// TestLongTexts: no text takes time that grows faster than its length: each of these would take hours.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	const n = 4 << 20
	for _, in := range []string{
		strings.Repeat("[", n), strings.Repeat(`{"a":`, n/5), strings.Repeat(`[{"a":"b"},`, n/10),
		`["` + strings.Repeat(`\`, n), `["` + strings.Repeat(`\"`, n/2),
		`["` + strings.Repeat(`\ud83d`, n/6), `[` + strings.Repeat(`NaN,`, n/4), `["a"` + strings.Repeat(`[...`, n/4),
		`["a"` + strings.Repeat(` `, n), `["` + strings.Repeat("\xf0", n),
	} {
		_ = loosejson.Valid(in)
		_ = loosejson.Unclosed(in)
		_, _ = loosejson.Complete(in)
		_, _ = loosejson.Shorten(in+"]", n/2)
	}
}

// FuzzComplete: what is completed is JSON, and so is what is shortened.
func FuzzComplete(f *testing.F) {
	for _, doc := range documents {
		f.Add(doc, 40)
		f.Add(doc[:len(doc)/2], 10)
	}
	f.Add(`[{"role":"user","content":"a\u6...[truncated]`, 0)

	f.Fuzz(func(t *testing.T, s string, limit int) {
		if whole, ok := loosejson.Complete(s); ok && !loosejson.Valid(whole) {
			t.Errorf("%q became %q", s, whole)
		}
		if short, ok := loosejson.Shorten(s, limit); ok && (!loosejson.Valid(short) || len(short) > max(limit, 0)) {
			t.Errorf("%q in %d bytes became %q", s, limit, short)
		}
		if loosejson.Valid(s) && !json.Valid([]byte(loosejson.Quoted(s))) {
			t.Errorf("%q is quoted %q", s, loosejson.Quoted(s))
		}
		if strict := loosejson.Strict(s); len(strict) != len(s) {
			t.Errorf("%q is strictly %q", s, strict)
		}
	})
}
