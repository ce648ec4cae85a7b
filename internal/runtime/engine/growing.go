package engine

import (
	"encoding/json"
	"regexp"
	"strings"
)

// growingMessage reads the member message, a text, of arguments that arrive in pieces. It reads nothing if that is not
// the first member.
type growingMessage struct {
	open string // what arrived and was not read yet
	in   bool   // the text has begun
	over bool   // it has ended, or there is none
}

// maxBeforeMessage bounds what may come before the text, in bytes.
const maxBeforeMessage = 100

var messageBegins = regexp.MustCompile(`^\s*\{\s*"message"\s*:\s*"`)

// add adds a piece of the arguments, and returns what more of the text is known.
func (g *growingMessage) add(piece string) (text string) {
	if g.over {
		return ""
	}

	g.open += piece
	if !g.in {
		begins := messageBegins.FindString(g.open)
		if begins == "" || len(begins) > maxBeforeMessage {
			g.over = len(g.open) > maxBeforeMessage
			return ""
		}
		g.in, g.open = true, g.open[len(begins):]
	}

	whole, ended := wholeEscapes(g.open)
	if err := json.Unmarshal([]byte(`"`+g.open[:whole]+`"`), &text); err != nil {
		g.over = true // it is no JSON
		return ""
	}
	g.open, g.over = g.open[whole:], ended
	return text
}

// wholeEscapes returns how much of the inside of a text of JSON can be read on its own: up to its end, or to an escape
// that is not complete.
func wholeEscapes(s string) (whole int, ended bool) {
	for whole < len(s) {
		switch rest := s[whole:]; {
		case rest[0] == '"':
			return whole, true
		case rest[0] != '\\':
			whole++
		case len(rest) == 1:
			return whole, false
		case rest[1] != 'u':
			whole += 2
		default:
			n := len(`\u0000`)
			if len(rest) >= n && isHighSurrogate(rest[2:n]) {
				if next := rest[n:min(n+2, len(rest))]; strings.HasPrefix(`\u`, next) { // the other half follows, or may
					n *= 2
				}
			}
			if len(rest) < n {
				return whole, false
			}
			whole += n
		}
	}

	return whole, false
}

// isHighSurrogate reports whether four digits are the first half of a character.
func isHighSurrogate(digits string) bool {
	d := strings.ToLower(digits)
	return d[0] == 'd' && strings.IndexByte("89ab", d[1]) >= 0
}
