package spool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The library's format: files named by the number of their first entry. In a file each entry is its
// length and that many bytes. To drop the front of the log the library first writes a file
// NUMBER.START; nothing before that file counts.
const (
	nameDigits  = 20
	startSuffix = ".START"
	tempSuffix  = ".TEMP"
)

// maxLost bounds how many entries a damaged file may have held, and so the empty entries that
// replace them.
const maxLost = 8 << 20

// file is one of the log.
type file struct {
	path  string
	first uint64 // entry
}

// files lists the log in order.
func files(dir string) (out []file, err error) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}

	for _, f := range all {
		number, started := strings.CutSuffix(f.Name(), startSuffix)
		first, err := strconv.ParseUint(number, 10, 64)
		if err != nil || len(number) != nameDigits || first == 0 || f.IsDir() {
			continue
		}

		if started {
			out = nil
		}
		out = append(out, file{filepath.Join(dir, f.Name()), first})
	}
	return out, nil
}

// frame is the place of an entry in a file.
type frame struct {
	number     uint64
	begin, end int  // without its length before it
	isOld      bool // see unsealOld
}

type found struct {
	frames []frame // of the entries that are what was written, by number
	// empties are the entries between those that stand for lost ones. zeros are the bytes at the end of the
	// file if they are all zero: they may be more such entries.
	empties, zeros int
	inOrder        bool // up to the last of frames, the file is nothing but these entries, each where it belongs
	tail           int  // bytes behind that one
	hasOld         bool // one of frames is of an earlier version
}

// scan finds the entries of a file whose first is that of a number. After damage it goes on with the next entry that
// is whole.
func scan(data []byte, first uint64) found {
	f := found{inOrder: true}
	next := first
	at := 0
	for at < len(data) {
		if data[at] == 0 { // a length of 0, or damage: the next entry's number tells
			f.zeros++
			at++
			continue
		}

		each, isFramed := nextEntry(data, at, next+uint64(f.zeros))
		if each.end == 0 {
			f.zeros = 0
			break
		}

		if isFramed && each.number == next+uint64(f.zeros) {
			f.empties += f.zeros
		} else {
			f.inOrder = false
		}
		if len(f.frames) == 0 || each.number > f.frames[len(f.frames)-1].number {
			f.frames = append(f.frames, each)
			f.hasOld = f.hasOld || each.isOld
		}
		next, at = each.number+1, each.end
		f.tail, f.zeros = each.end, 0
	}

	f.tail = len(data) - f.tail
	return f
}

// nextEntry returns the next entry that is whole; its end is 0 if there is none. isFramed says that it is at this
// place, behind its length.
func nextEntry(data []byte, at int, expected uint64) (next frame, isFramed bool) {
	here, isWhole := framed(data, at, expected)
	if isWhole {
		return here, true
	}

	// One of an earlier version has no mark to look for, but the length of the damaged one may lead to it.
	if behind, ok := framed(data, here.end, expected+1); ok && behind.isOld {
		return behind, false
	}

	for ; at < len(data); at++ {
		marked := bytes.Index(data[at:], mark)
		if marked < 0 {
			break
		}
		at += marked
		length, _ := entryLength(data[at:])
		if number, _, ok := unseal(data[at:min(at+length, len(data))]); ok {
			return frame{number: number, begin: at, end: at + length}, false
		}
	}
	return frame{}, false
}

// framed returns the entry behind the length at a place. isWhole says that it is what was written; its end is at if
// there is no such length. An entry of an earlier version has no number: it takes the one expected.
func framed(data []byte, at int, expected uint64) (f frame, isWhole bool) {
	size, n := binary.Uvarint(data[at:])
	if n <= 0 || size > uint64(len(data)-at-n) {
		return frame{end: at}, false
	}

	f = frame{number: expected, begin: at + n, end: at + n + int(size)}
	entry := data[f.begin:f.end]
	if number, _, ok := unseal(entry); ok {
		f.number = number
		return f, true
	}
	_, f.isOld = unsealOld(entry)
	return f, f.isOld
}

// end returns the number behind the last entry that is whole.
func (f found) end(first uint64) uint64 {
	if len(f.frames) == 0 {
		return first
	}
	return f.frames[len(f.frames)-1].number + 1
}

type repaired struct {
	bytes int64 // of the entries, as they are afterwards
	lost  int   // entries
}

// repair makes the log readable for the library. A crash may leave a torn end: it is cut off after the last entry that
// is whole. Damage before the end costs the damaged entries, and the log stays in one piece: empty entries replace
// them. What is cut off or damaged is copied to the folder damaged before. Entries of an earlier version are
// rewritten.
func repair(dir string, logger *slog.Logger) (done repaired, err error) {
	temporary, err := filepath.Glob(filepath.Join(dir, "*"+tempSuffix))
	if err != nil {
		return done, err
	}
	for _, path := range temporary {
		if err := os.Remove(path); err != nil {
			return done, err
		}
	}

	log, err := files(dir)
	if err != nil {
		return done, err
	}
	for i := 0; i < len(log); i++ {
		data, err := os.ReadFile(log[i].path)
		if err != nil {
			return done, err
		}

		holds := scan(data, log[i].first)
		end := holds.end(log[i].first)
		if log, err = withoutStray(log, i, end, logger); err != nil {
			return done, err
		}
		isLast := i == len(log)-1
		if !isLast {
			if log[i+1].first-end > maxLost {
				return done, fmt.Errorf("the log is damaged beyond repair: %s follows entry %d; move the folder away",
					log[i+1].path, end-1)
			}
			end = log[i+1].first
		}

		file, err := repairFile(log[i], data, holds, end, isLast, logger)
		if err != nil {
			return done, fmt.Errorf("repair %s: %w", log[i].path, err)
		}
		done.lost += file.lost
		done.bytes += file.bytes
	}
	return done, nil
}

// repairFile makes a file hold the entries up to end and nothing else. What it removes is in the folder damaged before.
func repairFile(
	f file, data []byte, holds found, end uint64, isLast bool, logger *slog.Logger,
) (done repaired, err error) {
	for _, each := range holds.frames {
		done.bytes += int64(each.end - each.begin)
	}

	missing := max(int(end-f.first)-len(holds.frames)-holds.empties, 0)
	isClean := holds.inOrder
	switch {
	case isLast:
		done.lost = missing + torn(data[len(data)-holds.tail:])
		isClean = isClean && holds.tail == 0
	case holds.zeros != holds.tail || holds.zeros != missing: // its end is not made of empty entries
		done.lost, isClean = missing, false
	}

	var kept string
	switch {
	case isClean && !holds.hasOld:
		return done, nil
	case isClean:
		done.bytes, err = rewrite(f, data, holds.frames, end)
		return done, err
	case isLast && holds.inOrder && !holds.hasOld: // a disk that is full has room for the end, if not for a copy of all
		kept, err = cutEnd(f.path, data, holds, logger)
	default:
		if kept, err = setAside(f.path, 0); err == nil {
			done.bytes, err = rewrite(f, data, holds.frames, end)
		}
	}
	if err != nil {
		return done, err
	}

	if isLast && holds.tail > 0 {
		logger.Error("spool: cut off a torn end of the log", "file", f.path, "bytes", holds.tail, "kept", kept)
	}
	if done.lost > 0 {
		logger.Error("spool: the log is damaged, some records are lost",
			"file", f.path, "records", done.lost, "kept", kept)
	}
	return done, nil
}

// cutEnd cuts off a torn end, and returns where the copy of it is. There is none of nothing but zeros, nor on a full
// disk: what is whole must be delivered to make room.
func cutEnd(path string, data []byte, holds found, logger *slog.Logger) (kept string, err error) {
	end := int64(len(data) - holds.tail)
	if holds.zeros != holds.tail {
		kept, err = setAside(path, end)
	}

	if isFull(err) {
		logger.Error("spool: the disk has no room for a copy of a torn end of the log", "file", path, "error", err)
		err = nil
	}
	if err != nil {
		return "", err
	}
	return kept, os.Truncate(path, end)
}

// torn returns how many entries a torn end held, as far as can be seen. A power loss leaves zeros as well.
func torn(tail []byte) int {
	if len(bytes.Trim(tail, "\x00")) == 0 {
		return 0
	}
	return max(bytes.Count(tail, mark), 1)
}

// withoutStray moves away the files behind file i that begin before its end and hold nothing. It is an error if one
// holds something.
func withoutStray(log []file, i int, end uint64, logger *slog.Logger) ([]file, error) {
	for i+1 < len(log) && log[i+1].first < end {
		stray := log[i+1]
		data, err := os.ReadFile(stray.path)
		if err != nil {
			return nil, err
		}
		if len(scan(data, stray.first).frames) > 0 {
			return nil, fmt.Errorf("the log is damaged beyond repair: %s begins before entry %d; move the folder away",
				stray.path, end-1)
		}

		kept, err := setAside(stray.path, 0)
		if err == nil {
			err = os.Remove(stray.path)
		}
		if err != nil {
			return nil, err
		}
		logger.Error("spool: removed a file that is not of the log", "file", stray.path, "kept", kept)
		log = append(log[:i+1], log[i+2:]...)
	}
	return log, nil
}

// setAside copies a file of the log from a byte on to the folder damaged, beside the log, and returns where it is.
func setAside(path string, from int64) (kept string, err error) {
	dir := filepath.Join(filepath.Dir(filepath.Dir(path)), "damaged")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}

	source, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = source.Close() }()
	if _, err := source.Seek(from, io.SeekStart); err != nil {
		return "", err
	}

	to, err := os.CreateTemp(dir, filepath.Base(path)+"-*")
	if err != nil {
		return "", fmt.Errorf("keep a copy of what is damaged: %w", err)
	}
	_, err = io.Copy(to, source)
	if err := errors.Join(err, to.Sync(), to.Close(), syncDir(dir)); err != nil {
		return "", fmt.Errorf("keep a copy of what is damaged: %w", errors.Join(err, os.Remove(to.Name())))
	}
	return to.Name(), nil
}

// rewrite replaces a file by one with these entries of it, and empty ones for those that are missing up to end. It
// returns the bytes of the entries.
func rewrite(f file, data []byte, frames []frame, end uint64) (size int64, err error) {
	var whole []byte
	number := f.first
	for _, each := range frames {
		if each.number < f.first || each.number >= end {
			continue
		}
		entry := data[each.begin:each.end]
		if each.isOld {
			line, _ := unsealOld(entry)
			entry = newEntry(line)
			seal(entry, each.number)
		}

		whole = append(whole, make([]byte, each.number-number)...)
		whole = binary.AppendUvarint(whole, uint64(len(entry)))
		whole = append(whole, entry...)
		size += int64(len(entry))
		number = each.number + 1
	}
	whole = append(whole, make([]byte, end-number)...)

	to, err := os.OpenFile(f.path+tempSuffix, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	_, err = to.Write(whole)
	if err := errors.Join(err, to.Sync(), to.Close()); err != nil {
		return 0, err
	}
	return size, errors.Join(os.Rename(to.Name(), f.path), syncDir(filepath.Dir(f.path)))
}

// cutAfter removes what a failed write has left behind entry last.
func cutAfter(dir string, last uint64) error {
	log, err := files(dir)
	if err != nil {
		return err
	}
	for len(log) > 1 && log[len(log)-1].first > last {
		if err := os.Remove(log[len(log)-1].path); err != nil {
			return err
		}
		log = log[:len(log)-1]
	}
	if len(log) == 0 {
		return nil
	}

	f := log[len(log)-1]
	data, err := os.ReadFile(f.path)
	if err != nil {
		return err
	}

	end := 0
	for number := f.first; number <= last; number++ {
		size, n := binary.Uvarint(data[end:])
		if n <= 0 || size > uint64(len(data)-end-n) {
			return fmt.Errorf("%s ends with entry %d, before %d", f.path, number-1, last)
		}
		end += n + int(size)
	}
	return os.Truncate(f.path, int64(end))
}

// syncDir ensures that new files of a folder are found there after a power loss.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
