// Package content owns how long texts are stored once: it cuts a text into pieces by what it says, so
// that texts which repeat each other have most pieces in common, names each piece by its hash, and puts
// texts together again. Cut points and hashes are a storage format: golden vectors hold them. It knows
// no SQL.
package content

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unsafe"
)

// HashBytes is the length of a [Hash].
const HashBytes = 16

// Hash names a content: the first bytes of a SHA-256.
type Hash [HashBytes]byte

// String returns the hash in hex.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText implements [encoding.TextMarshaler]: in hex.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// ParseHash reads a hash in hex.
func ParseHash(s string) (h Hash, ok bool) {
	if len(s) != hex.EncodedLen(HashBytes) {
		return h, false
	}
	_, err := hex.Decode(h[:], []byte(s))
	return h, err == nil
}

// HashOf returns the hash of a text. In SQL: substring(sha256(convert_to(text, 'UTF8')) FOR 16).
func HashOf(text string) Hash {
	// only read; a copy would cost as much as the hash
	sum := sha256.Sum256(unsafe.Slice(unsafe.StringData(text), len(text)))
	return Hash(sum[:HashBytes])
}

// Bytes returns hashes as they are stored.
func Bytes(hashes []Hash) [][]byte {
	all := make([][]byte, len(hashes))
	for i := range hashes {
		all[i] = hashes[i][:]
	}
	return all
}

// Hashes returns stored hashes.
func Hashes(stored [][]byte) []Hash {
	all := make([]Hash, len(stored))
	for i := range stored {
		all[i] = HashFromBytes(stored[i])
	}
	return all
}

// HashFromBytes returns the hash of stored bytes.
func HashFromBytes(stored []byte) (h Hash) {
	copy(h[:], stored)
	return h
}

// pageByte begins what the hash of a page is made of. It is in no text.
const pageByte = 0xff

// Content is a piece of a text, or a page: a list of pieces.
type Content struct {
	Hash   Hash
	Pieces []Hash // of a page
	Body   string // of a piece
}

// Bytes estimates what a content takes in memory and on the wire.
func (c Content) Bytes() int { return 64 + len(c.Body) + HashBytes*len(c.Pieces) }

// PageOf returns the page of some pieces.
func PageOf(pieces []Hash) Content {
	h := sha256.New()
	h.Write([]byte{pageByte})
	for i := range pieces {
		h.Write(pieces[i][:])
	}
	return Content{Hash: Hash(h.Sum(nil)[:HashBytes]), Pieces: pieces}
}

// MarkPrefix begins every [Mark]. A text that begins so is cut whatever its size, so no other value
// of a field does.
const MarkPrefix = "actlog:content:"

// Mark stands in a field for a text that is stored in pieces. Equal texts have equal marks, whatever cut
// them.
func Mark(text string) string {
	return MarkPrefix + HashOf(text).String()
}

// IsMark reports whether the value of a field that has pieces is a mark.
func IsMark(value string) bool { return strings.HasPrefix(value, MarkPrefix) }

// Texts puts texts together from contents.
type Texts map[Hash]Content

// Add adds a content.
func (t Texts) Add(c Content) { t[c.Hash] = c }

// Bytes returns the size of the text that pieces make.
func (t Texts) Bytes(pieces []Hash) (n int) {
	t.each(pieces, func(piece string) { n += len(piece) })
	return n
}

// Text returns the text that pieces make. A piece that is missing leaves a note in its place, as
// actlog.text_of does.
func (t Texts) Text(pieces []Hash) string {
	var b strings.Builder
	b.Grow(t.Bytes(pieces))
	t.each(pieces, func(piece string) { b.WriteString(piece) })
	return b.String()
}

func (t Texts) each(pieces []Hash, do func(piece string)) {
	for _, hash := range pieces {
		c, ok := t[hash]
		switch {
		case !ok:
			do("[a part of this text is missing: " + hash.String() + "]")
		case c.Pieces != nil:
			t.each(c.Pieces, do)
		default:
			do(c.Body)
		}
	}
}
