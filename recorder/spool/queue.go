package spool

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/tidwall/wal"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/record"
	"github.com/actlog/actlog/recorder"
)

// segmentBytes is the size of a file of the log. The library keeps up to three in memory. It
// rewrites one when it drops the entries before it, or some of its own.
var segmentBytes = 4 << 20 // less in tests

// queue is the write-ahead log as a [recorder.Queue].
type queue struct {
	dir    string // of the log
	logger *slog.Logger
	locked *os.File
	lost   int // entries that repair found damaged

	mu     sync.Mutex
	log    *wal.Log
	failed error   // of the library: the log must be opened again
	first  uint64  // the oldest entry of the log
	next   uint64  // the oldest that is not on record
	last   uint64  // the newest; one less than next if none waits
	bytes  int64   // bytes from next to last
	gone   int64   // bytes from first to next
	peeked []int64 // bytes of the entries of the last Peek

	syncing sync.Mutex
	synced  uint64 // the newest entry that is safe on disk
}

var _ recorder.Queue = (*queue)(nil)

func openQueue(dir string, logger *slog.Logger) (*queue, error) {
	q := &queue{dir: filepath.Join(dir, "log"), logger: logger}
	err := os.MkdirAll(q.dir, 0o700)
	if err == nil {
		q.locked, err = lock(dir)
	}
	if err != nil {
		return nil, err
	}

	done, err := repair(q.dir, logger)
	if err == nil {
		err = q.open()
	}
	if err != nil {
		_ = unlock(q.locked)
		return nil, err
	}

	q.next = q.first
	q.bytes, q.lost = done.bytes, done.lost
	if n, bytes := q.Len(); n > 0 {
		logger.Info("spool: records of an earlier process wait to be written", "records", n, "bytes", bytes)
	}
	return q, nil
}

func (q *queue) open() error {
	log, err := wal.Open(q.dir, &wal.Options{
		NoSync: true, SegmentSize: segmentBytes, SegmentCacheSize: 1, AllowEmpty: true,
		DirPerms: 0o700, FilePerms: 0o600,
	})
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}

	first, errFirst := log.FirstIndex()
	last, errLast := log.LastIndex()
	if err := errors.Join(errFirst, errLast); err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	q.log, q.failed = log, nil
	q.first, q.last = first, last
	return nil
}

// ready opens the log again after an error of the library, which may leave half an entry on disk
// and wrong positions in memory. The caller holds mu.
func (q *queue) ready() error {
	if q.failed == nil {
		return nil
	}

	_ = q.log.Close() // it repeats the error
	last := q.last
	if err := cutAfter(q.dir, last); err != nil {
		return fmt.Errorf("repair log: %w", err)
	}
	if err := q.open(); err != nil {
		return err
	}

	if q.last != last || q.next < q.first {
		return fmt.Errorf("repair log: it ends with entry %d instead of %d", q.last, last)
	}
	if q.first == q.next { // the library had dropped the rest before it failed
		q.gone = 0
	}
	return nil
}

// Put implements [recorder.Queue].
func (q *queue) Put(changes []record.Change) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	err := q.ready()
	if err == nil {
		var batch wal.Batch
		var bytes int64
		for i, c := range changes {
			entry := c.(spooled).entry // see Write
			seal(entry, q.last+uint64(i)+1)
			batch.Write(q.last+uint64(i)+1, entry)
			bytes += int64(len(entry))
		}

		if err = q.log.WriteBatch(&batch); err == nil {
			q.last += uint64(len(changes))
			q.bytes += bytes
			return nil
		}
		q.failed = err
	}
	return fmt.Errorf("%w: write to the spool: %w", record.ErrUnavailable, err)
}

// sync returns when everything that was put before is safe on disk. Callers at the same time share
// one sync.
func (q *queue) sync() error {
	q.mu.Lock()
	want := q.last
	q.mu.Unlock()

	q.syncing.Lock()
	defer q.syncing.Unlock()
	if q.synced >= want {
		return nil
	}

	q.mu.Lock()
	last, log := q.last, q.log
	q.mu.Unlock()
	if err := errors.Join(log.Sync(), syncDir(q.dir)); err != nil {
		return fmt.Errorf("%w: sync the spool: %w", record.ErrUnavailable, err)
	}
	q.synced = last
	return nil
}

// Len implements [recorder.Queue].
func (q *queue) Len() (entries int, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return int(q.last + 1 - q.next), q.bytes
}

// Peek implements [recorder.Queue].
func (q *queue) Peek(entries int, bytes int64) (changes []record.Change, n int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.peeked = q.peeked[:0]
	if err := q.ready(); err != nil {
		return nil, 0, fmt.Errorf("read the spool: %w", err)
	}

	for index := q.next; index <= q.last && n < entries; index++ {
		entry, err := q.log.Read(index)
		if err != nil {
			q.failed = err
			return nil, 0, fmt.Errorf("read the spool: %w", err)
		}

		if bytes -= int64(len(entry)); bytes < 0 && n > 0 {
			break
		}
		q.peeked = append(q.peeked, int64(len(entry)))
		n++
		_, line, ok := unseal(entry)
		if !ok {
			continue // repair has logged it
		}

		c, err := wire.Decode(line)
		if err != nil { // a newer version wrote it
			q.logger.Error("spool: skipped a record that cannot be decoded", "error", err, "record",
				field.Shorten(string(line), 200))
			continue
		}
		changes = append(changes, c)
	}
	return changes, n, nil
}

// Drop implements [recorder.Queue].
func (q *queue) Drop(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, bytes := range q.peeked[:n] {
		q.bytes -= bytes
		q.gone += bytes
	}

	q.next += uint64(n)
	if q.next > q.last || q.gone >= 2*int64(segmentBytes) {
		q.truncate()
	}
}

// truncate removes from the log what is on record. If that fails, the next Drop tries again, or the
// next process delivers it again, which does no harm. The caller holds mu.
func (q *queue) truncate() {
	err := q.ready()
	if err == nil {
		if err = q.log.TruncateFront(q.next); err == nil {
			q.first, q.gone = q.next, 0
			return
		}
		q.failed = err
	}
	q.logger.Warn("spool: could not remove delivered records from the log; they stay for now", "error", err)
}

// Close implements [recorder.Queue].
func (q *queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.next > q.first {
		q.truncate()
	}
	if err := errors.Join(q.log.Close(), unlock(q.locked)); err != nil {
		return fmt.Errorf("close spool: %w", err)
	}
	return nil
}
