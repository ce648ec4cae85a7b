package field

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/actlog/actlog/record"
)

// cleanJSON compacts a JSON value, keeping the order and spelling of its
// members, and replaces what Postgres or its JSON functions cannot take:
// invalid UTF-8, escaped NULs and lone surrogates.
func cleanJSON(raw []byte) (json.RawMessage, error) {
	if err := CheckDepth(raw); err != nil {
		return nil, err
	}

	var b bytes.Buffer
	if err := json.Compact(&b, bytes.ToValidUTF8(raw, []byte(replacement))); err != nil {
		return nil, errors.New("must be valid JSON")
	}
	out := replaceEscapes(b.Bytes())
	if err := checkNumbers(out); err != nil {
		return nil, err
	}
	return out, nil
}

// CheckDepth bounds the nesting of a JSON value by [record.MaxJSONDepth], before anything recurses
// into it. The error says what the value must be.
func CheckDepth(raw []byte) error {
	depth, inString := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > record.MaxJSONDepth {
				return fmt.Errorf("must not nest deeper than %d levels", record.MaxJSONDepth)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// checkNumbers refuses numbers that no double can hold. raw is valid, compact JSON.
func checkNumbers(raw []byte) error {
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			for i++; raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case c == '-' || '0' <= c && c <= '9':
			end := i
			for end < len(raw) && bytes.IndexByte([]byte("+-.eE0123456789"), raw[end]) >= 0 {
				end++
			}

			if f, err := strconv.ParseFloat(string(raw[i:end]), 64); err != nil || math.IsInf(f, 0) {
				return fmt.Errorf("holds the number %.40s, which is out of range", raw[i:end])
			}
			i = end - 1
		}
	}
	return nil
}

// replaceEscapes replaces \u0000 and surrogate escapes without their other half.
// raw is valid JSON, so an escape is always whole.
func replaceEscapes(raw []byte) []byte {
	if !bytes.Contains(raw, []byte(`\u`)) {
		return raw
	}

	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			continue
		}
		if raw[i+1] != 'u' {
			out = append(out, raw[i], raw[i+1])
			i++
			continue
		}

		r := hex4(raw[i+2:])
		switch {
		case r == 0:
			out = append(out, `\ufffd`...)
		case !utf16.IsSurrogate(r):
			out = append(out, raw[i:i+6]...)
		case i+12 <= len(raw) && raw[i+6] == '\\' && raw[i+7] == 'u' && utf16.DecodeRune(r, hex4(raw[i+8:])) != '\uFFFD':
			out = append(out, raw[i:i+12]...)
			i += 6
		default:
			out = append(out, `\ufffd`...)
		}
		i += 5
	}
	return out
}

func hex4(b []byte) rune {
	n, err := strconv.ParseUint(string(b[:4]), 16, 32)
	if err != nil {
		return -1
	}
	return rune(n)
}

// quoteShortened returns a JSON string with the beginning of raw, at most limit bytes long.
func quoteShortened(raw []byte, limit int) json.RawMessage {
	var quoted []byte
	for _, room := range shortenedTo(limit) {
		if quoted, _ = json.Marshal(Shorten(string(raw), room)); len(quoted) <= limit {
			break
		}
	}
	return quoted
}

// shortenedTo returns how many bytes quoteShortened tries to keep. Quoting at most doubles
// compact JSON, unless it is full of characters that are escaped for HTML.
func shortenedTo(limit int) []int { return []int{limit/2 - 2, limit/6 - 2} }

// wasCut reports whether a JSON value was made by quoteShortened, as an export contains it:
// a string that begins like JSON but is not JSON, cut where quoteShortened cuts.
func wasCut(raw []byte, limit int) bool {
	var s string
	return raw[0] == '"' && len(raw) <= limit && json.Unmarshal(raw, &s) == nil &&
		slices.ContainsFunc(shortenedTo(limit), func(room int) bool { return len(s) <= room && len(s) > room-utf8.UTFMax }) &&
		strings.ContainsRune(`{["`, rune(s[0])) && !json.Valid([]byte(s))
}
