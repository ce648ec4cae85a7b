// Package spool keeps changes in a folder on disk until they are on record, so that those of an
// agent that was killed are delivered when it starts again.
//
// The folder holds a write-ahead log of github.com/tidwall/wal, which is small, has no goroutines
// and a simple format, and is mature and maintained. It has no checksums, and damage to a length
// hides all that follows. So each entry here begins with a mark, its number and its checksum, and
// Open repairs the log before the library reads it. The alternatives: hashicorp/raft-wal syncs each
// write and depends on raft; the logs of etcd and Prometheus depend on etcd and Prometheus; bbolt
// is no log, and a torn page can cost all of it, or the process.
package spool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/record"
	"github.com/actlog/actlog/recorder"
)

// MaxBytesDefault bounds what waits on disk, see [Options].
const MaxBytesDefault = 1 << 30

// ErrLocked says that a folder is in use by another Spool, of this process or another one.
var ErrLocked = errors.New("the spool folder is in use")

// Options are the options of a [Spool]. The zero value is ready to use.
type Options struct {
	// Sync makes each Write wait until the records are safe on disk. Writes at the same time share
	// that wait. Without it the operating system has the records when Write returns: they survive
	// the end of the process, including kill -9, but a power loss may cost those of about the last
	// half minute.
	Sync bool

	// Buffer says how records are sent, and how many may wait. Its MaxBytes are those that wait on
	// disk, [MaxBytesDefault] by default; up to about 16 MiB that were sent already come on top.
	// Its MaxRecords are not bounded by default. Its Queue is ignored.
	Buffer recorder.BufferOptions
}

// Spool is a [recorder.Sink] that writes changes to disk, and sends them on from there as a
// [recorder.Buffer] does. It holds at most about 16 MiB of them in memory. It is safe for
// concurrent use.
type Spool struct {
	buffer *recorder.Buffer
	queue  *queue
	sync   bool
}

var _ recorder.Beater = (*Spool)(nil)

// Open opens the spool in folder dir, in front of sink, and begins to deliver what an earlier
// process left there. It creates the folder if there is none. The sink stays the caller's to
// close, after the Spool. Entries of the log that were damaged, by a power loss or by hand, are
// skipped and logged; all others are delivered. The error wraps [ErrLocked] if another Spool has
// the folder open: give each process its own.
//
// The folder holds what agents read and wrote, so only its owner has access to it.
func Open(dir string, sink recorder.Sink, options Options) (*Spool, error) {
	if sink == nil {
		panic("spool: Open needs a sink")
	}
	options.Buffer.Logger = cmp.Or(options.Buffer.Logger, slog.New(slog.DiscardHandler))
	q, err := openQueue(dir, options.Buffer.Logger)
	if err != nil {
		return nil, fmt.Errorf("open spool %s: %w", dir, err)
	}

	options.Buffer.Queue = q
	options.Buffer.MaxBytes = cmp.Or(options.Buffer.MaxBytes, MaxBytesDefault)
	options.Buffer.MaxRecords = cmp.Or(options.Buffer.MaxRecords, math.MaxInt)
	return &Spool{buffer: recorder.NewBuffer(sink, options.Buffer), queue: q, sync: options.Sync}, nil
}

// spooled is a change with its entry of the log.
type spooled struct {
	record.Change
	entry []byte
}

// Write implements [recorder.Sink]: it returns when the changes are in the log. It waits while the
// spool is full, as [recorder.Buffer.Write] does. If the disk is full or fails, the error says so
// and wraps [record.ErrUnavailable]. What already waits is safe, is sent on, and so makes room. A
// change that has no JSON is rejected.
func (s *Spool) Write(ctx context.Context, changes []record.Change) (record.Result, error) {
	var rejected []record.Rejection
	entries := make([]record.Change, 0, len(changes))
	for i, c := range changes {
		line, err := wire.Encode(c)
		if err != nil {
			rejected = append(rejected, record.Rejection{Index: i, Err: invalid(c, err)})
			continue
		}
		entries = append(entries, spooled{c, newEntry(line)})
	}

	result, err := s.buffer.Write(ctx, entries)
	if err == nil && s.sync && len(entries) > 0 {
		err = s.queue.sync()
	}
	if err != nil {
		return record.Result{}, err
	}
	result.Rejected = rejected
	return result, nil
}

// Beat implements [recorder.Beater]: heartbeats go past the log, because those of a process that
// has ended are of no use.
func (s *Spool) Beat(changes []record.Change) error { return s.buffer.Beat(changes) }

// invalid returns which field it is that has no JSON.
func invalid(c record.Change, err error) *record.InvalidError {
	_, _, cause := field.Clean(c)
	if invalid, ok := errors.AsType[*record.InvalidError](cause); ok {
		return invalid
	}
	return &record.InvalidError{Code: record.CodeMalformed, Reason: err.Error()}
}

// Lost returns how many records Open found damaged, and so could not deliver.
func (s *Spool) Lost() int { return s.queue.lost }

// Pending returns how many records wait on disk.
func (s *Spool) Pending() int { return s.buffer.Pending() }

// Flush sends what waits at once, as [recorder.Buffer.Flush] does.
func (s *Spool) Flush(ctx context.Context) error { return s.buffer.Flush(ctx) }

// Close flushes until ctx ends at the latest, and stops. With a [*recorder.UnwrittenError] what
// waits stays in the folder, and is delivered when it is opened again.
func (s *Spool) Close(ctx context.Context) error { return s.buffer.Close(ctx) }

// lock reserves the folder for this process, for as long as the file is open.
func lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func unlock(f *os.File) error { return errors.Join(unlockFile(f), f.Close()) }
