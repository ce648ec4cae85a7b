package treesitter

import (
	"bytes"
	"encoding/binary"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// encoded is a text in UTF-16, as the parser reads it.
type encoded struct {
	text   []byte   // the lower byte of each unit first
	starts []uint32 // for each unit, and the end, the byte of the text in UTF-8; nil if they are the same
}

// encode returns a text in UTF-16. What is not UTF-8 becomes the character U+FFFD, byte by byte.
func encode(text []byte) (e encoded) {
	e.text = make([]byte, 0, 2*len(text))
	ascii := !slices.ContainsFunc(text, func(b byte) bool { return b >= utf8.RuneSelf })
	if !ascii {
		e.starts = make([]uint32, 0, len(text)+1)
	}
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRune(text[at:])
		units := utf16.AppendRune(nil, r)
		for _, u := range units {
			e.text = binary.LittleEndian.AppendUint16(e.text, u)
			if !ascii {
				e.starts = append(e.starts, uint32(at))
			}
		}
		at += size
	}
	if !ascii {
		e.starts = append(e.starts, uint32(len(text)))
	}
	return e
}

// byteOf returns the byte of the text in UTF-8 at which a unit starts.
func (e encoded) byteOf(unit uint32) int {
	if e.starts == nil {
		return min(int(unit), len(e.text)/2)
	}
	return int(e.starts[min(int(unit), len(e.starts)-1)])
}

// lineStarts returns the bytes at which the lines of a text start.
func lineStarts(text []byte) []int {
	starts := []int{0}
	for at := 0; ; {
		end := bytes.IndexByte(text[at:], '\n')
		if end < 0 {
			return starts
		}
		at += end + 1
		starts = append(starts, at)
	}
}

// lineAt returns the line of a byte, from 1.
func lineAt(starts []int, at int) int {
	line, found := slices.BinarySearch(starts, at)
	if found {
		return line + 1
	}
	return line
}
