package spool

import (
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

// span is the place of an entry in a file.
type span struct {
	end   int // of the entry
	bytes int // of its content
	sound bool
}

// spans finds the entries of a file, up to the first that is not whole.
func spans(data []byte) (out []span) {
	for at := 0; at < len(data); {
		size, n := binary.Uvarint(data[at:])
		if n <= 0 || size > uint64(len(data)-at-n) {
			break
		}
		content := data[at+n : at+n+int(size)]
		at += n + int(size)
		_, sound := unseal(content)
		out = append(out, span{at, int(size), sound})
	}
	return out
}

// repair makes the log readable for the library, and returns the bytes of its entries. A crash may
// leave a torn end: repair cuts it off after the last entry that is whole and sound. Damage before
// the end costs the damaged entries, and the log stays in one piece: empty entries replace those
// that a file has lost.
func repair(dir string, logger *slog.Logger) (bytes int64, err error) {
	temporary, err := filepath.Glob(filepath.Join(dir, "*"+tempSuffix))
	if err != nil {
		return 0, err
	}
	for _, path := range temporary {
		if err := os.Remove(path); err != nil {
			return 0, err
		}
	}
	log, err := files(dir)
	if err != nil {
		return 0, err
	}
	for i, f := range log {
		data, err := os.ReadFile(f.path)
		if err != nil {
			return 0, err
		}
		entries := spans(data)
		isLast := i == len(log)-1
		for isLast && len(entries) > 0 && !entries[len(entries)-1].sound {
			entries = entries[:len(entries)-1]
		}
		end, damaged := 0, 0
		for _, e := range entries {
			end = e.end
			bytes += int64(e.bytes)
			if !e.sound && e.bytes > 0 {
				damaged++
			}
		}
		if damaged > 0 {
			logger.Error("spool: the log is damaged, some records are lost", "file", f.path, "records", damaged)
		}
		if end < len(data) {
			logger.Error("spool: cut off a torn end of the log", "file", f.path, "bytes", len(data)-end)
			if err := os.Truncate(f.path, int64(end)); err != nil {
				return 0, err
			}
		}
		if isLast {
			break
		}
		next := f.first + uint64(len(entries))
		if log[i+1].first < next || log[i+1].first-next > maxLost {
			return 0, fmt.Errorf("the log is damaged beyond repair: %s follows entry %d; move the folder away", log[i+1].path, next-1)
		}
		if lost := int(log[i+1].first - next); lost > 0 {
			logger.Error("spool: the log is damaged, some records are lost", "file", f.path, "records", lost)
			if err := appendTo(f.path, make([]byte, lost)); err != nil {
				return 0, err
			}
		}
	}
	return bytes, nil
}

func appendTo(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
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
	end, entries := 0, spans(data)
	if n := int(last + 1 - f.first); n > len(entries) {
		return fmt.Errorf("%s ends with entry %d, before %d", f.path, f.first+uint64(len(entries))-1, last)
	} else if n > 0 {
		end = entries[n-1].end
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
