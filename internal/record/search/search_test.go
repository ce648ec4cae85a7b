package search_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/actlog/actlog/internal/record/search"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// matches reports whether a folded text matches, as the database checks it.
func matches(q search.Query, text string) bool {
	for _, pattern := range q.Like {
		word := strings.NewReplacer(`\\`, `\`, `\%`, `%`, `\_`, `_`).Replace(pattern[1 : len(pattern)-1])
		if !strings.Contains(text, word) {
			return false
		}
	}

	for _, expression := range q.Regexp {
		if !regexp.MustCompile(expression).MatchString(text) {
			return false
		}
	}
	return true
}

func grams(text string) map[int64]bool {
	all := map[int64]bool{}
	search.EachGram(text, func(gram int64) { all[gram] = true })
	return all
}

// N15: which words find which texts.
func TestWhatMatches(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text, found, missed string
	}{
		{"Sum UP the quarter", "sum|SUM UP|quart|up|the|t|art", "of|sums|sum upp|u2"},
		{
			"connect ECONNREFUSED 10.0.0.1:5432", "econnrefused|refused|ECONN|10.0.0.1:5432|:5432|0.0|1|10.|5432 connect",
			"43|2|econnrefused1",
		},
		{"get_weather", "get_weather|weather|get|_|_w|WEATHER get|t_w|we", "get weather now|getweather|th"},
		{"TimeoutError in src/main.go:42", "timeout|error|src/main.go:42|main.go|.go|42|go:4|/|in", "rr|o"},
		{"100% of_it", "%|f_i|f_|of|0%|100", "f%|\\|0|%_"},
		{"Größe ÄPFEL", "größe|äpfel|ÖßE|öß|ö|Ä|Gro\u0308ße|gr|pf", "grosse|fe|x"},
		{"查询天气 失败", "天气|天|查询|失败|询天气", "气失|晴"},
		{"it's \"quoted\" & (grouped) | !not:* <->", `"quoted"|'s|&|(grouped)|||!not:*|<->|"`, "quoted)|not!"},
		{"🙂 done", "🙂|done", "🙃"},
	} {
		text := search.Fold(tt.text)
		for want, queries := range map[bool]string{true: tt.found, false: tt.missed} {
			for _, query := range strings.Split(queries, "|") {
				q, err := search.Parse(query)
				if err != nil {
					if query != "" {
						t.Errorf("%q: %v", query, err)
					}
					continue
				}

				if got := matches(q, text); got != want {
					t.Errorf("%q in %q: %v", query, tt.text, got)
				}
			}
		}
	}
}

// N15: the index finds whatever matches.
func TestGramsOfAMatchAreInTheText(t *testing.T) {
	t.Parallel()
	letters := rapid.SampledFrom([]rune("aab0 _%\\äÖ天气.\n"))
	rapid.Check(t, func(rt *rapid.T) {
		text := search.Fold(string(rapid.SliceOfN(letters, 0, 30).Draw(rt, "text")))
		q, err := search.Parse(string(rapid.SliceOfN(letters, 1, 8).Draw(rt, "query")))
		if err != nil {
			return
		}

		all := grams(text)
		has := !slices.ContainsFunc(q.Grams, func(g int64) bool { return !all[g] })
		if matches(q, text) && !has {
			rt.Fatalf("%+v matches %q without its grams", q, text)
		}

		// Words of up to three characters need no check.
		if short := !slices.ContainsFunc(slices.Concat(q.Like, q.Regexp), func(s string) bool {
			return len(q.Grams) != len(q.Like)+len(q.Regexp)
		}); short && has != matches(q, text) {
			rt.Fatalf("%+v and %q: grams %v", q, text, has)
		}
	})
}

func TestQueriesThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, query := range []string{
		"", " \t\n", "\u00a0", strings.Repeat("x", search.MaxQueryBytes+1), strings.Repeat("y", 4096),
		"1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17",
	} {
		if q, err := search.Parse(query); err == nil {
			t.Errorf("%.20q is %+v", query, q)
		}
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	text := search.Merge("", search.Fold("A\nb"), search.Fold(""), search.Fold(" c "), search.Fold("a  B"))
	if text != "a b\nc" || search.Merge(text, "c") != text || search.Merge(text, "d") != "a b\nc\nd" {
		t.Errorf("search.Merge = %q", text)
	}

	long := strings.Repeat("x", search.MaxTextBytes)
	if cut := search.Fold("ä" + long); len(cut) != search.MaxTextBytes {
		t.Errorf("%d bytes", len(cut))
	}

	for i := range 100 {
		text = search.Merge(text, strings.Repeat(string(rune('a'+i%26)), search.MaxTextBytes-i))
	}
	if len(text) > search.MaxTreeBytes {
		t.Errorf("%d bytes", len(text))
	}
}

func TestFoldOfASCII(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		text := string(rapid.SliceOf(rapid.ByteRange(0, 127)).Draw(rt, "text"))
		if got, want := search.Fold(text),
			strings.TrimSuffix(search.Fold(text+" ä"), "ä"); got != strings.TrimSuffix(want, " ") {
			rt.Fatalf("%q is %q, want %q", text, got, want)
		}
	})
}

func BenchmarkFold(b *testing.B) {
	text := strings.Repeat("The order 4711 of get_weather failed: ECONNREFUSED; ", 20)
	for b.Loop() {
		search.Fold(text)
	}
}

func BenchmarkEachGram(b *testing.B) {
	text := search.Fold(strings.Repeat("The order 4711 of get_weather failed: ECONNREFUSED; ", 20))
	for b.Loop() {
		n := 0
		search.EachGram(text, func(int64) { n++ })
	}
}
