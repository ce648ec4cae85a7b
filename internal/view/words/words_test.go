package words_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/view/words"
)

func TestAge(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Hour: "0s", 0: "0s", 59*time.Second + 999*time.Millisecond: "59s", time.Minute: "1m", 119 * time.Minute: "1h",
		23 * time.Hour: "23h", 400 * 24 * time.Hour: "400d",
	} {
		if got := words.Age(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0", 812: "812", 999: "999", 1000: "1.0k", 1949: "1.9k", 9_960: "10k", 41_900: "42k", 999_499: "999k",
		999_500: "1.0M", 12_400_000: "12M", 7_000_000_000_000: "7.0T", 1 << 60: "1152922T",
	} {
		if got := words.Short(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestMoreInRun(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		n    int64
		open bool
		want string
	}{
		{0, false, ""}, {0, true, "more in this run"}, {1, false, "1 more in this run"},
		{1_200, false, "1,200 more in this run"}, {5, true, "more than 5 more in this run"},
	} {
		if got := words.MoreInRun(row.n, row.open); got != row.want {
			t.Errorf("row.n = %d, %v: %q", row.n, row.open, got)
		}
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	for of, want := range map[string]string{
		`{"done":3,"total":10,"message":"reading"}`:          "3/10 reading",
		`{"done":0.25,"total":1,"message":null}`:             "0.25/1",
		`{"done":3,"total":null,"message":"a\nb\u001b[31m"}`: "3 a b [31m",
		`{"done":null,"total":10,"message":"reading"}`:       "reading",
		`{"done":null,"total":null,"message":null}`:          "",
		`{"done":1e300,"total":1e300}`:                       "10000000000000000000…/10000000000000000000…",
		`{"done":"3"}`:                                       "",
		`"{\"done\":3"`:                                      "",
		``:                                                   "",
		`{"message":"` + strings.Repeat("x", 1000) + `"}`:    strings.Repeat("x", 100) + "…",
	} {
		if _, got := words.Progress([]byte(of)); got != want {
			t.Errorf("%s: %q, want %q", of, got, want)
		}
	}
}

func TestInPlaceOf(t *testing.T) {
	t.Parallel()
	for from, want := range map[string]string{
		"": "", "[]": "", `"cut`: "", `"[{"`: "", `{}`: "",
		`[{"model":"default","errorKind":"network","error":"e"}]`:              "in place of default (network)",
		`[{"model":"a","errorKind":"auth"},{"model":"b","errorKind":"quota"}]`: "in place of a (auth), b (quota)",
		`[{"model":"a\u001b[31m\nb","errorKind":"k"}]`:                         "in place of a [31m b (k)",
		`[{}]`: "in place of another model",
	} {
		if got := words.InPlaceOf(json.RawMessage(from)); got != want {
			t.Errorf("%s: %q, want %q", from, got, want)
		}
	}
}

func TestArgument(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "''", "plan-0192f3b4-7c1e": "plan-0192f3b4-7c1e", "http://h:1/a_b@c%20+=.": "http://h:1/a_b@c%20+=.",
		"a b": "'a b'", "it's": `'it'\''s'`, "$(x)": "'$(x)'", "ä": "'ä'", "~": "'~'",
	} {
		if got := words.Argument(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
