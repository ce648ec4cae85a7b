package main

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// encodeAll writes items as JSON, one per line.
func encodeAll[T any](enc *json.Encoder, items []T) error {
	for _, item := range items {
		if err := enc.Encode(item); err != nil {
			return err
		}
	}
	return nil
}

// printTable writes items as a table. Tabs separate the cells of the header and of a row.
func printTable[T any](out io.Writer, header string, items []T, row func(T) string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, header)
	for _, item := range items {
		fmt.Fprintln(w, row(item))
	}
	return w.Flush()
}

// shorten returns the beginning of a text as one line that is safe for a terminal. Recorded
// texts may hold anything, including control sequences.
func shorten(s string, limit int) string {
	var b strings.Builder
	n, space := 0, false
	for _, r := range s {
		if r == ' ' || !unicode.IsPrint(r) { // no other white space is printable
			space = b.Len() > 0
			continue
		}
		if n++; n > limit {
			b.WriteRune('…')
			break
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(r)
	}
	return b.String()
}

// visible returns a text of several lines without anything that a terminal would obey. Its characters stay,
// except those that are not shown, which are left out.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s)
}

// colourCode is a sequence by which a view sets a colour. Lines have no others: recorded texts
// were shortened.
var colourCode = regexp.MustCompile("^\x1b\\[[0-9;]*m")

// fit returns a line that takes at most width columns of a terminal, with an ellipsis if
// something is missing. Colours stay.
func fit(line string, width int) string {
	room := width
	if columns(line) > width {
		room = width - 1 // for the ellipsis
	}
	var b strings.Builder
	full := false
	for line != "" {
		if code := colourCode.FindString(line); code != "" {
			b.WriteString(code)
			line = line[len(code):]
			continue
		}
		character, rest, _, _ := uniseg.FirstGraphemeClusterInString(line, -1)
		line = rest
		if full {
			continue
		}
		if room -= columns(character); room < 0 {
			full = true
			character = "…"
		}
		b.WriteString(character)
	}
	return b.String()
}

// columns returns how many columns of a terminal a line takes at most: terminals that do not
// know an emoji of several parts show the parts side by side.
func columns(line string) (n int) {
	for line != "" {
		if code := colourCode.FindString(line); code != "" {
			line = line[len(code):]
			continue
		}
		character, rest, whole, _ := uniseg.FirstGraphemeClusterInString(line, -1)
		line = rest
		parts := 0
		for _, r := range character {
			if r >= '\U0001F3FB' && r <= '\U0001F3FF' { // a skin tone is no part of a character for them
				parts += 2
			}
			parts += uniseg.StringWidth(string(r))
		}
		n += max(whole, parts)
	}
	return n
}

func duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func plural(n int64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(n) + " " + one + "s"
}

// grouped formats a number with commas.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// clean is shorten without a limit.
func clean(s string) string { return shorten(s, utf8.RuneCountInString(s)) }

// joined returns ids as a list for a sentence.
func joined(ids []string) string {
	shown := make([]string, len(ids))
	for i, id := range ids {
		shown[i] = clean(id)
	}
	return strings.Join(shown, ", ")
}

// tokens is empty if there are none.
func tokens(input, output int64) string {
	if input+output <= 0 {
		return ""
	}
	return grouped(input) + " → " + grouped(output) + " tokens"
}

// took is empty until both times are known.
func took(start, end *time.Time) string {
	if start == nil || end == nil {
		return ""
	}
	return duration(end.Sub(*start))
}

// silence is how long ago the last sign of life was; empty if none is known.
func silence(last *time.Time, now time.Time) string {
	if last == nil {
		return ""
	}
	return duration(max(now.Sub(*last), 0).Round(time.Second))
}

// dollars shows an amount to a hundredth of a cent.
func dollars(usd float64) string {
	if usd > 0 && usd < 0.0001 {
		return "<$0.0001"
	}
	return "$" + strconv.FormatFloat(usd, 'f', 4, 64)
}
