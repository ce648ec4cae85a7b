package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rivo/uniseg"

	"github.com/actlog/actlog/cmd/actlog/internal/terminal"
	"github.com/actlog/actlog/internal/view/words"
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

// printJSON writes JSON as one line.
func printJSON(out io.Writer, raw json.RawMessage) error {
	var one bytes.Buffer
	if err := json.Compact(&one, raw); err != nil {
		return err
	}
	one.WriteByte('\n')
	_, err := out.Write(one.Bytes())
	return err
}

// named is an id with what it is of, for messages. Whoever wrote the id does not write the message.
func named(kind, id string) string { return kind + " " + terminal.Line(id) }

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

// nameless returns an error without the name of the file that it is about, which its message names already.
func nameless(err error) error {
	if about, ok := errors.AsType[*fs.PathError](err); ok {
		return about.Err
	}
	return err
}

// joined returns ids as a list for a sentence.
func joined(ids []string) string {
	shown := make([]string, len(ids))
	for i, id := range ids {
		shown[i] = terminal.Line(id)
	}
	return strings.Join(shown, ", ")
}

// silence is how long ago the last sign of life was; empty if none is known.
func silence(last *time.Time, now time.Time) string {
	if last == nil {
		return ""
	}
	return words.Duration(max(now.Sub(*last), 0).Round(time.Second))
}

// hasColour reports whether w is a terminal, and NO_COLOR does not turn colours off.
func hasColour(w io.Writer) bool { return isTerminal(w) && os.Getenv("NO_COLOR") == "" }

// isTerminal reports whether w is a terminal that can move its cursor.
func isTerminal(w io.Writer) bool {
	f, ok := terminal.Raw(w).(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
