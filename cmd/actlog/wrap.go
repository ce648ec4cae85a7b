package main

import (
	"strings"

	"github.com/rivo/uniseg"
)

// leastText is how many columns of a wrapped line its text has at least, however far to the right it begins.
const leastText = 40

// wrapped returns a line as lines of at most so many columns, broken between words; a word that is longer is broken
// where the line ends. The first line begins with first, the others with rest. Colours go on where a line goes on.
func wrapped(first, text, rest string, width int) []string {
	w := wrapping{begins: first, rest: rest, width: width}
	w.room = max(width-columns(first), leastText)
	for text != "" {
		var word string
		word, text = nextWord(text)
		switch n := columns(word); {
		case w.used+n <= w.room:
			w.put(word)
		case word[0] == ' ': // blanks where a line ends are its end
			w.end()
		case w.used > 0 && n <= w.room:
			w.end()
			w.put(word)
		default: // it fits no line
			if w.used > 0 {
				w.end()
			}
			w.putLong(word)
		}
	}

	if w.used > 0 || len(w.lines) == 0 {
		w.lines = append(w.lines, w.begins+strings.TrimRight(w.line.String(), " "))
	}
	return w.lines
}

type wrapping struct {
	begins, rest string
	width        int

	lines  []string // that are whole
	line   strings.Builder
	used   int    // columns of the line
	room   int    // of them that it has
	colour string // that the line is in; empty: none
}

func (w *wrapping) put(piece string) {
	w.line.WriteString(piece)
	w.used += columns(piece)
	if at := strings.LastIndexByte(piece, '\x1b'); at >= 0 {
		if w.colour = colourCode.FindString(piece[at:]); w.colour == colourOff {
			w.colour = ""
		}
	}
}

func (w *wrapping) putLong(word string) {
	for word != "" {
		piece := colourCode.FindString(word)
		if piece == "" {
			piece, _, _, _ = uniseg.FirstGraphemeClusterInString(word, -1)
		}

		if w.used > 0 && w.used+columns(piece) > w.room {
			w.end()
		}
		w.put(piece)
		word = word[len(piece):]
	}
}

func (w *wrapping) end() {
	shown := strings.TrimRight(w.line.String(), " ")
	if w.colour != "" {
		shown += colourOff
	}
	w.lines = append(w.lines, w.begins+shown)
	w.line.Reset()
	w.line.WriteString(w.colour)
	w.begins, w.used = w.rest, 0
	w.room = max(w.width-columns(w.rest), leastText)
}

const colourOff = "\x1b[0m"

// nextWord returns the blanks or the word at the beginning of a text, and what follows.
func nextWord(text string) (word, rest string) {
	blank := text[0] == ' '
	for i := range len(text) {
		if (text[i] == ' ') != blank {
			return text[:i], text[i:]
		}
	}
	return text, ""
}
