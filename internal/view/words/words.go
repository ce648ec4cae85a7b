// Package words owns how numbers, times and texts of the record are said to people: in the terminal and on the page.
package words

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/actlog/actlog/record"
)

// Shorten returns the beginning of a text as one line that is safe for a terminal. Recorded
// texts may hold anything, including control sequences.
func Shorten(s string, limit int) string {
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

// Clean is shorten without a limit.
func Clean(s string) string { return Shorten(s, utf8.RuneCountInString(s)) }

// Duration says how long something took.
func Duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// Age says how long ago something was, in its largest unit.
func Age(d time.Duration) string {
	for _, unit := range []struct {
		of   time.Duration
		sign string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if n := d / unit.of; n > 0 {
			return strconv.FormatInt(int64(n), 10) + unit.sign
		}
	}
	return strconv.FormatInt(int64(max(d, 0)/time.Second), 10) + "s"
}

// Short formats a number that is not negative with two or three digits: 812, 42k, 1.2M.
func Short(n int64) string {
	value, sign := float64(n), ""
	for _, next := range []string{"k", "M", "G", "T"} {
		if value < 999.5 {
			break
		}
		value, sign = value/1000, next
	}

	if sign != "" && value < 9.95 {
		return strconv.FormatFloat(value, 'f', 1, 64) + sign
	}
	return strconv.FormatFloat(value, 'f', 0, 64) + sign
}

// Plural says how many there are of something.
func Plural(n int64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return Grouped(n) + " " + one + "s"
}

// Grouped formats a number with commas.
func Grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// MoreInRun says how many more texts a run has than are shown; open: at least. It is empty if there are none.
func MoreInRun(n int64, open bool) string {
	switch {
	case n <= 0 && !open:
		return ""
	case n <= 0:
		return "more in this run"
	case open:
		return "more than " + Grouped(n) + " more in this run"
	}
	return Grouped(n) + " more in this run"
}

// Argument returns a text as one argument for a POSIX shell. A plain one stays as it is.
func Argument(s string) string {
	if s != "" && strings.Trim(s, plainArgument) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// plainArgument are characters that mean nothing to a shell.
const plainArgument = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+="

// Tokens is empty if there are none.
func Tokens(input, output int64) string {
	if input+output <= 0 {
		return ""
	}
	return Grouped(input) + " → " + Grouped(output) + " tokens"
}

// Took is empty until both times are known.
func Took(start, end *time.Time) string {
	if start == nil || end == nil {
		return ""
	}
	return Duration(end.Sub(*start))
}

// Progress says how far a call has come: "3/10 reading", "3 reading", "reading". p is a [record.Progress] as it is on
// record; the text is empty if it says nothing, or is no such thing.
func Progress(p json.RawMessage) (of record.Progress, text string) {
	if json.Unmarshal(p, &of) != nil {
		return record.Progress{}, ""
	}

	number := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	var parts []string
	switch {
	case of.Done != nil && of.Total != nil:
		parts = append(parts, Shorten(number(*of.Done), 20)+"/"+Shorten(number(*of.Total), 20))
	case of.Done != nil:
		parts = append(parts, Shorten(number(*of.Done), 20))
	}
	if of.Message != nil && *of.Message != "" {
		parts = append(parts, Shorten(*of.Message, 100))
	}
	return of, strings.Join(parts, " ")
}

// Fallbacks returns the models in whose place another one answered: at most a few. from is a list of
// [record.Fallback] as it is on record.
func Fallbacks(from json.RawMessage) []record.Fallback {
	var all []record.Fallback
	if json.Unmarshal(from, &all) != nil {
		return nil
	}
	return all[:min(len(all), 10)]
}

// InPlaceOf says in whose place a model answers, and why: "in place of default (network), claude (quota)". It is
// empty if the model is the first that was to answer.
func InPlaceOf(from json.RawMessage) string {
	var parts []string
	for _, f := range Fallbacks(from) {
		part := cmp.Or(Shorten(f.Model, 50), "another model")
		if f.ErrorKind != "" {
			part += " (" + Shorten(f.ErrorKind, 30) + ")"
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return ""
	}
	return "in place of " + strings.Join(parts, ", ")
}

// Dollars shows an amount to a hundredth of a cent.
func Dollars(usd float64) string {
	if usd > 0 && usd < 0.0001 {
		return "<$0.0001"
	}
	return "$" + strconv.FormatFloat(usd, 'f', 4, 64)
}
