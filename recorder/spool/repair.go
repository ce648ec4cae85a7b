package spool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
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
	begin, end int // without its length before it
}

// found is what a file holds.
type found struct {
	frames  []frame // of the entries that are what was written, by number
	empties int     // entries that stand for lost ones
	// inOrder says that the file is nothing but these entries, each where it belongs. tail are the bytes behind the last
	// that is not empty.
	inOrder bool
	tail    int
}

// scan finds the entries of a file whose first is that of a number. After damage it goes on with the next entry that
// is whole.
func scan(data []byte, first uint64) found {
	f := found{inOrder: true}
	next := first
	at := 0
	for at < len(data) {
		if f.inOrder && data[at] == 0 { // a length of 0
			f.empties++
			next++
			at++
			continue
		}

		begin, end, isFramed := nextEntry(data, at)
		if begin < 0 {
			f.inOrder = false
			break
		}
		number, _, _ := unseal(data[begin:end])
		f.inOrder = f.inOrder && isFramed && number == next
		if len(f.frames) == 0 || number > f.frames[len(f.frames)-1].number {
			f.frames = append(f.frames, frame{number, begin, end})
		}
		next, at, f.tail = number+1, end, end
	}

	f.tail = len(data) - f.tail
	return f
}

// nextEntry returns the place of the next entry that is whole; begin is negative if there is none. isFramed says that
// it is at this place, behind its length.
func nextEntry(data []byte, at int) (begin, end int, isFramed bool) {
	if size, n := binary.Uvarint(data[at:]); n > 0 && size <= uint64(len(data)-at-n) {
		begin, end = at+n, at+n+int(size)
		if _, _, ok := unseal(data[begin:end]); ok {
			return begin, end, true
		}
	}

	for ; at < len(data); at++ {
		marked := bytes.Index(data[at:], mark)
		if marked < 0 {
			break
		}
		at += marked
		length, _ := entryLength(data[at:])
		if _, _, ok := unseal(data[at:min(at+length, len(data))]); ok {
			return at, at + length, false
		}
	}
	return -1, -1, false
}

// end returns the number behind the last entry that is whole.
func (f found) end(first uint64) uint64 {
	if len(f.frames) == 0 {
		return first
	}
	return f.frames[len(f.frames)-1].number + 1
}

// repaired is what repair found and did.
type repaired struct {
	bytes int64 // of the entries
	lost  int   // entries
}

// repair makes the log readable for the library. A crash may leave a torn end: it is cut off after the last entry that
// is whole. Damage before the end costs the damaged entries, and the log stays in one piece: empty entries replace
// them. A file is copied to the folder damaged before it is changed.
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
		isWhole := holds.inOrder
		switch {
		case isLast:
			isWhole = isWhole && holds.tail == 0
		case log[i+1].first-end > maxLost:
			return done, fmt.Errorf("the log is damaged beyond repair: %s follows entry %d; move the folder away", log[i+1].path, end-1)
		default:
			end = log[i+1].first
			isWhole = isWhole && uint64(len(holds.frames)+holds.empties) == end-log[i].first
		}
		for _, f := range holds.frames {
			done.bytes += int64(f.end - f.begin)
		}
		if isWhole {
			continue
		}

		lost := max(int(end-log[i].first)-len(holds.frames)-holds.empties, 0)
		if isLast {
			lost += torn(data[len(data)-holds.tail:])
		}
		kept, err := setAside(log[i].path)
		if err != nil {
			return done, err
		}
		if err := rewrite(log[i], data, holds.frames, end); err != nil {
			return done, err
		}

		done.lost += lost
		if isLast && holds.tail > 0 {
			logger.Error("spool: cut off a torn end of the log", "file", log[i].path, "bytes", holds.tail, "kept", kept)
		}
		if lost > 0 {
			logger.Error("spool: the log is damaged, some records are lost", "file", log[i].path, "records", lost, "kept", kept)
		}
	}
	return done, nil
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
			return nil, fmt.Errorf("the log is damaged beyond repair: %s begins before entry %d; move the folder away", stray.path, end-1)
		}

		kept, err := setAside(stray.path)
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

// setAside copies a file of the log to the folder damaged, beside the log, and returns where it is.
func setAside(path string) (kept string, err error) {
	dir := filepath.Join(filepath.Dir(filepath.Dir(path)), "damaged")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	to, err := os.CreateTemp(dir, filepath.Base(path)+"-*")
	if err != nil {
		return "", err
	}
	_, err = to.Write(data)
	return to.Name(), errors.Join(err, to.Sync(), to.Close(), syncDir(dir))
}

// rewrite replaces a file by one with these entries of it, and empty ones for those that are missing up to end.
func rewrite(f file, data []byte, frames []frame, end uint64) error {
	var whole []byte
	number := f.first
	for _, each := range frames {
		if each.number < f.first || each.number >= end {
			continue
		}
		whole = append(whole, make([]byte, each.number-number)...)
		whole = binary.AppendUvarint(whole, uint64(each.end-each.begin))
		whole = append(whole, data[each.begin:each.end]...)
		number = each.number + 1
	}
	whole = append(whole, make([]byte, end-number)...)

	to, err := os.OpenFile(f.path+tempSuffix, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = to.Write(whole)
	if err := errors.Join(err, to.Sync(), to.Close()); err != nil {
		return err
	}
	return errors.Join(os.Rename(to.Name(), f.path), syncDir(filepath.Dir(f.path)))
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
