package spool

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// An entry of the log is a header and a line of JSON. The header is a mark, the number of the entry (8 bytes),
// the length of the line (4) and a checksum of all that (4). So an entry can be found, and is known to be whole
// and in its place, whatever is before it.
//
// The mark cannot be in a line: no UTF-8 has these bytes.
var mark = []byte{0xff, 0xfe, 'a', 'l'}

const (
	numberAt    = 4
	lengthAt    = numberAt + 8
	checksumAt  = lengthAt + 4
	headerBytes = checksumAt + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// newEntry returns the entry of a line. It has no number yet.
func newEntry(line []byte) []byte {
	entry := make([]byte, headerBytes, headerBytes+len(line))
	copy(entry, mark)
	binary.LittleEndian.PutUint32(entry[lengthAt:], uint32(len(line)))
	return append(entry, line...)
}

// seal gives an entry its number and its checksum.
func seal(entry []byte, number uint64) {
	binary.LittleEndian.PutUint64(entry[numberAt:], number)
	binary.LittleEndian.PutUint32(entry[checksumAt:], checksum(entry))
}

func checksum(entry []byte) uint32 {
	return crc32.Update(crc32.Checksum(entry[:checksumAt], castagnoli), castagnoli, entry[headerBytes:])
}

// unseal returns the number and the line of an entry; ok is false if it is not what was written.
func unseal(entry []byte) (number uint64, line []byte, ok bool) {
	length, ok := entryLength(entry)
	if !ok || length != len(entry) || binary.LittleEndian.Uint32(entry[checksumAt:]) != checksum(entry) {
		return 0, nil, false
	}
	return binary.LittleEndian.Uint64(entry[numberAt:]), entry[headerBytes:], true
}

// entryLength returns how many bytes the entry has that data begins with; ok is false if data begins with none, or
// does not hold all of it.
func entryLength(data []byte) (length int, ok bool) {
	if len(data) <= headerBytes || !bytes.HasPrefix(data, mark) {
		return 0, false
	}
	line := binary.LittleEndian.Uint32(data[lengthAt:])
	return headerBytes + int(line), int64(line) <= int64(len(data)-headerBytes)
}

// unsealOld returns the line of an entry that an earlier version wrote: a checksum of the line (4 bytes), and the line.
func unsealOld(entry []byte) (line []byte, ok bool) {
	if len(entry) <= 4 {
		return nil, false
	}
	line = entry[4:]
	return line, binary.LittleEndian.Uint32(entry) == crc32.Checksum(line, castagnoli)
}
