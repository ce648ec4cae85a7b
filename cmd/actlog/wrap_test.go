package main

import (
	"slices"
	"strings"
	"testing"
)

// F4: lines are broken between words, go on below where they began, and keep their colours.
func TestWrapped(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		first, text, rest string
		width             int
		want              []string
	}{
		"fits": {"- ", "one two", "  ", 30, []string{"- one two"}},
		"between words": {
			"├─ ", "one two three four five six seven eight nine ten", "│  ", 44, []string{
				"├─ one two three four five six seven eight", "│  nine ten",
			},
		},
		"a long word": {
			"", "see https://example.com/a/very/long/address/that/goes/on now", "  ", 42,
			[]string{"see", "  https://example.com/a/very/long/address/", "  that/goes/on now"},
		},
		"a colour goes on": {
			"", "\x1b[31mone two three four five six seven eight\x1b[0m nine", "  ", 40, []string{
				"\x1b[31mone two three four five six seven eight\x1b[0m", "  nine",
			},
		},
		"in a colour": {
			"", "one two \x1b[1mthree four five six seven eight nine\x1b[0m", "  ", 40, []string{
				"one two \x1b[1mthree four five six seven eight\x1b[0m", "  \x1b[1mnine\x1b[0m",
			},
		},
		"wide characters": {"", "天气预报说明天下雨请带伞出门去吧天气预报说明天下雨", "", 40, []string{"天气预报说明天下雨请带伞出门去吧天气预报", "说明天下雨"}},
		"not too narrow": {
			strings.Repeat(" ", 90), strings.Repeat("one two ", 6), strings.Repeat(" ", 90), 80,
			[]string{
				strings.Repeat(" ", 90) + strings.TrimSpace(strings.Repeat("one two ", 5)), strings.Repeat(" ", 90) + "one two",
			},
		},
	} {
		if got := wrapped(tt.first, tt.text, tt.rest, tt.width); !slices.Equal(got, tt.want) {
			t.Errorf("%s:\n got %q\nwant %q", name, got, tt.want)
		}
	}
}

// F4: a table fits the terminal: what may be cut is cut where it is widest.
func TestTableFits(t *testing.T) {
	t.Parallel()
	list := table{
		columns: []column{
			{head: "PLAN"}, {head: "SILENT", optional: true}, {head: "AGENT", share: 1}, {head: "TITLE", share: 3},
		},
	}
	list.add("plan-1", "", "a rather long name of an agent",
		"Which product do customers send back most, and why is that so?")
	list.add("plan-2", "", "b", "天气预报说明天下雨请带伞出门去吧天气预报说明天下雨请带伞出门去吧")

	for _, width := range []int{40, 80, 100, 200} {
		var out strings.Builder
		if err := list.write(&out, width); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := columns(strings.TrimSuffix(line, "\n")); n > width || strings.HasSuffix(line, " \n") {
				t.Errorf("%d columns of %d: %q", n, width, line)
			}
		}

		if strings.Contains(out.String(), "SILENT") || width >= 100 != strings.Contains(out.String(), "is that so?") {
			t.Errorf("at %d:\n%s", width, out.String())
		}
	}
}

// F4: ids are shortened to what is unique, and not to what somebody cannot type.
func TestShortIDs(t *testing.T) {
	t.Parallel()
	const (
		one   = "plan-01a2193a-4715-78b8-90e1-73f0804531c2"
		two   = "plan-01a2193a-4715-79b8-90e1-73f0804531c2"
		three = "plan-11a2193a-4715-78b8-90e1-73f0804531c2"
	)

	short := shortIDs([]string{
		three, one, two, one, "nightly-report-of-7", "Wöchentlicher Bericht der Abteilung",
		"plan-01a2193a-4715-78b8-90e1-73f0804531c2-retry",
	})
	want := map[string]string{
		one: one, two: "plan-01a2193a-4715-79", three: "plan-11a2193a-47", "nightly-report-of-7": "nightly-report-of-7",
		"Wöchentlicher Bericht der Abteilung": "Wöchentlicher Bericht der Abteilung", one + "-retry": one + "-",
	}
	for id, as := range want {
		if short[id] != as {
			t.Errorf("%s is shortened to %s, want %s", id, short[id], as)
		}
	}
}
