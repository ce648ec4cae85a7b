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
		"fits":             {"- ", "one two", "  ", 30, []string{"- one two"}},
		"between words":    {"├─ ", "one two three four five six seven", "│  ", 24, []string{"├─ one two three four", "│  five six seven"}},
		"a long word":      {"", "see https://example.com/a/very/long/address now", "  ", 24, []string{"see", "  https://example.com/a/", "  very/long/address now"}},
		"a colour goes on": {"", "\x1b[31mone two three four five six\x1b[0m", "  ", 20, []string{"\x1b[31mone two three four\x1b[0m", "  \x1b[31mfive six\x1b[0m"}},
		"wide characters":  {"", "天气预报说明天下雨请带伞出门去吧", "", 20, []string{"天气预报说明天下雨请", "带伞出门去吧"}},
		"not too narrow":   {strings.Repeat(" ", 90), "one two three four five", strings.Repeat(" ", 90), 80, []string{strings.Repeat(" ", 90) + "one two three four", strings.Repeat(" ", 90) + "five"}},
	} {
		if got := wrapped(tt.first, tt.text, tt.rest, tt.width); !slices.Equal(got, tt.want) {
			t.Errorf("%s:\n got %q\nwant %q", name, got, tt.want)
		}
	}
}

// F4: a table fits the terminal: what may be cut is cut where it is widest.
func TestTableFits(t *testing.T) {
	t.Parallel()
	list := table{columns: []column{{head: "PLAN"}, {head: "SILENT", optional: true}, {head: "AGENT", least: 5}, {head: "TITLE", least: 10}}}
	list.add("plan-1", "", "a rather long name of an agent", "Which product do customers send back most, and why is that so?")
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
		if strings.Contains(out.String(), "SILENT") || width == 200 != strings.Contains(out.String(), "is that so?") {
			t.Errorf("at %d:\n%s", width, out.String())
		}
	}
}

// F4: ids are shortened to what is unique, and not to what somebody cannot type.
func TestShortIDs(t *testing.T) {
	t.Parallel()
	const one, two, three = "plan-01a2193a-4715-78b8-90e1-73f0804531c2", "plan-01a2193a-4715-79b8-90e1-73f0804531c2", "plan-11a2193a-4715-78b8-90e1-73f0804531c2"
	short := shortIDs([]string{three, one, two, one, "nightly-report-of-7", "Wöchentlicher Bericht der Abteilung", "plan-01a2193a-4715-78b8-90e1-73f0804531c2-retry"})
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
