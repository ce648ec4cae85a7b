package content

import (
	"math/bits"
	"unicode/utf8"
)

// Sizes say how texts are cut, in bytes.
type Sizes struct {
	// Cut is how long a text has to be to be cut. A shorter one stays in its field.
	Cut int
	// Least, Average and Most are those of pieces. Average is a power of 2. The last piece of a text may
	// be shorter than Least. Other pieces may be shorter by [atBlank].
	Least, Average, Most int
}

// DefaultSizes were measured, see docs/performance.md.
var DefaultSizes = Sizes{Cut: 8192, Least: 512, Average: 2048, Most: 8192}

const (
	// atBlank is how far before a cut point a blank is looked for, to cut behind it, else the end of a
	// word: so no word of up to so many bytes is cut, and the search finds it in one piece.
	atBlank = 64
	// flat is how many pieces a text may have without pages.
	flat = 16
	// A page ends behind a piece whose hash ends with so many zero bits.
	pageBits = 3
)

// Cuts reports whether a text is stored in pieces.
func (z Sizes) Cuts(text string) bool { return len(text) >= z.Cut || IsMark(text) }

// CutText returns the pieces of a text, and the contents that they name: pages come behind their pieces.
// A content that is in the text several times comes several times. The bodies share the memory of the
// text.
func (z Sizes) CutText(text string) (pieces []Hash, contents []Content) {
	for len(text) > 0 {
		n := z.next(text)
		c := Content{Hash: HashOf(text[:n]), Body: text[:n]}
		pieces, contents = append(pieces, c.Hash), append(contents, c)
		text = text[n:]
	}

	if len(pieces) <= flat {
		return pieces, contents
	}

	var paged []Hash
	from := 0
	for i, hash := range pieces {
		if hash[HashBytes-1]&(1<<pageBits-1) != 0 {
			continue
		}
		if i == from { // a page of one piece says no more than the piece
			paged = append(paged, hash)
		} else {
			page := PageOf(pieces[from : i+1 : i+1])
			paged, contents = append(paged, page.Hash), append(contents, page)
		}
		from = i + 1
	}

	return append(paged, pieces[from:]...), contents // the end is what the next text continues
}

// next returns the length of the first piece of a text: up to where the gear hash of the bytes before
// has enough zero bits (FastCDC, Xia et al. 2016). Before the average length it takes more of them than
// after, so that most lengths are near it.
func (z Sizes) next(text string) int {
	if len(text) <= z.Least {
		return len(text)
	}

	zeros := bits.Len(uint(z.Average)) - 1
	window := text[:min(len(text), z.Most)]
	h, i := uint64(0), z.Least
	for rare := 64 - zeros - 2; i < len(window) && i < z.Average; i++ {
		if h = h<<1 + gear[window[i]]; h>>(rare&63) == 0 {
			return moveToBoundary(text, i+1)
		}
	}

	for often := 64 - zeros + 2; i < len(window); i++ {
		if h = h<<1 + gear[window[i]]; h>>(often&63) == 0 {
			return moveToBoundary(text, i+1)
		}
	}
	return moveToBoundary(text, len(window))
}

// moveToBoundary moves a cut point back to behind a blank that is near, else to behind a byte that belongs to no
// word, else to the start of a character.
func moveToBoundary(text string, at int) int {
	if at == len(text) {
		return at
	}

	ends := 0 // a word
	for i := at; i > max(at-atBlank, 0); i-- {
		switch b := text[i-1]; {
		case b == ' ' || b == '\n':
			return i
		case ends == 0 && !inWord(b):
			ends = i
		}
	}
	if ends > 0 {
		return ends
	}

	for i := at; i > max(at-utf8.UTFMax, 0); i-- {
		if utf8.RuneStart(text[i]) {
			return i
		}
	}

	for at < len(text) && !utf8.RuneStart(text[at]) { // the first character
		at++
	}
	return at
}

// inWord reports whether a byte may belong to a word, an identifier, or an escape of JSON.
func inWord(b byte) bool {
	return b >= utf8.RuneSelf || b == '_' || b == '-' || b == '\\' || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' ||
		'A' <= b && b <= 'Z'
}

// gear has a random number for each byte, made by SplitMix64 from 0.
var gear = func() (table [256]uint64) {
	var state uint64
	for i := range table {
		state += 0x9e3779b97f4a7c15
		z := (state ^ state>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		table[i] = z ^ z>>31
	}
	return table
}()
