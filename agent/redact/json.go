package redact

import (
	"bytes"
	"encoding/json"
	"strings"
)

// JSON returns JSON with a marker for each match in its strings, keys too, after their escapes are read.
// Numbers and structure stay, and so does everything else, to the byte. A string that is JSON itself
// is read in the same way. What is not JSON is a text.
func (r *Redactor) JSON(raw []byte) ([]byte, Counts) {
	if r == nil || len(r.patterns) == 0 {
		return raw, nil
	}
	if !json.Valid(raw) {
		text, counts := r.Text(string(raw))
		if counts == nil {
			return raw, nil
		}
		return []byte(text), counts
	}

	return rewrite(raw, r.redactString)
}

// rewrite redacts the strings of valid JSON.
func rewrite(raw []byte, redact func(string) (string, Counts)) ([]byte, Counts) {
	var out bytes.Buffer
	var all Counts
	kept := 0 // what is before it has been written
	for at := bytes.IndexByte(raw, '"'); at >= 0; {
		end := stringEnd(raw, at)
		if text, counts := redact(unquote(raw[at:end])); counts != nil {
			out.Write(raw[kept:at])
			out.Write(quote(text))
			kept = end
			all = all.plus(counts)
		}

		next := bytes.IndexByte(raw[end:], '"')
		if next < 0 {
			break
		}
		at = end + next
	}

	if all == nil {
		return raw, nil
	}
	out.Write(raw[kept:])
	return out.Bytes(), all
}

// stringEnd returns where the string ends that starts at a place of valid JSON.
func stringEnd(raw []byte, start int) int {
	for i := start + 1; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw)
}

func unquote(raw []byte) (text string) {
	_ = json.Unmarshal(raw, &text) // cannot fail: the JSON is valid
	return text
}

func quote(text string) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // cannot fail: a text
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// redactString redacts the decoded text of a JSON string. It repeats the pass until nothing changes, because a
// replacement can make a new match. A text that still changes after spareRounds passes is replaced as a whole.
func (r *Redactor) redactString(text string) (string, Counts) {
	var all Counts
	for range spareRounds {
		redacted, counts := r.pass(text)
		if counts == nil {
			return text, all
		}
		text, all = redacted, all.plus(counts)
	}
	return "[" + kindOther + "]", all
}

// pass redacts a string once. If it is JSON itself, its strings are redacted, and then all of it as a
// text: it may be a part of a longer text, in which keys are words like others.
func (r *Redactor) pass(text string) (string, Counts) {
	var within Counts
	if begin := strings.TrimLeft(text, " \t\r\n"); begin != "" && strings.ContainsRune(`{["`, rune(begin[0])) &&
		json.Valid([]byte(text)) {
		var raw []byte
		if raw, within = rewrite([]byte(text), r.pass); within != nil {
			text = string(raw)
		}
	}

	redacted, counts := r.Text(text)
	if within == nil {
		return redacted, counts
	}
	return redacted, within.plus(counts)
}

// plus returns the sum of counts. It does not change c.
func (c Counts) plus(more Counts) Counts {
	sum := make(Counts, len(c)+len(more))
	for _, counts := range []Counts{c, more} {
		for name, n := range counts {
			sum[name] += n
		}
	}
	return sum
}
