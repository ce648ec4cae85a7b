// Package spool keeps records in a folder on disk until they are on record, so
// that those of an agent that is killed are delivered when it starts again.
//
// The folder holds a write-ahead log, by github.com/tidwall/wal: small, without
// goroutines or a format of more than a page, in use for years and kept up. It
// knows neither checksums nor torn ends, so each entry here begins with its
// checksum, and Open mends the log before the library sees it. (hashicorp/raft-wal
// syncs each write and brings raft along; the logs of etcd and Prometheus bring
// etcd and Prometheus; bbolt is no log: a torn page can cost all of it, or the
// process.)
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

	"github.com/actlog/actlog/internal/wire"
	"github.com/actlog/actlog/record"
	"github.com/actlog/actlog/recorder"
)

// MaxBytesDefault bounds what waits on disk, see [Options].
const MaxBytesDefault = 1 << 30

// ErrLocked says that a folder is in use by another Spool, of this process or
// another one.
var ErrLocked = errors.New("the spool folder is in use")

// Options are the options of a [Spool]. The zero value is ready to use.
type Options struct {
	// Sync has each Write wait until the disk has the records for good; Writes at
	// the same time share that. Without it they are with the operating system when
	// Write returns: they survive the end of the process, kill -9 included, but a
	// power loss may cost those of the last half minute or so.
	Sync bool

	// Buffer says how records are sent, and how many may wait. Its MaxBytes are
	// those on disk, [MaxBytesDefault] by default, to which at most about 16 MiB
	// come that are sent already; its MaxRecords are not bounded by default. Its
	// Queue is the folder's, whatever it says.
	Buffer recorder.BufferOptions
}

// Spool is a [recorder.Sink] that keeps what it is told on disk, and sends it on
// from there as a [recorder.Buffer] does. Memory holds about 16 MiB of it at most.
// It is safe for concurrent use.
type Spool struct {
	buffer *recorder.Buffer
	queue  *queue
	sync   bool
}

var _ recorder.Beater = (*Spool)(nil)

// Open opens the spool in folder dir, which is made where there is none, before
// sink, and begins to deliver what an earlier process left in it. The sink stays
// the caller's to close, after the Spool. What was damaged in the log, by a power
// loss or by hand, is left out and logged; all else is delivered. The error wraps
// [ErrLocked] where another Spool has the folder open: each process takes its own.
//
// The folder holds what agents read and wrote, so only its owner may enter it.
func Open(dir string, sink recorder.Sink, options Options) (*Spool, error) {
	if sink == nil {
		panic("spool: Open without a sink")
	}
	if options.Buffer.Logger == nil {
		options.Buffer.Logger = slog.New(slog.DiscardHandler)
	}
	q, err := openQueue(dir, options.Buffer.Logger)
	if err != nil {
		return nil, fmt.Errorf("opening spool %s: %w", dir, err)
	}
	options.Buffer.Queue = q
	options.Buffer.MaxBytes = cmp.Or(options.Buffer.MaxBytes, MaxBytesDefault)
	options.Buffer.MaxRecords = cmp.Or(options.Buffer.MaxRecords, math.MaxInt)
	return &Spool{buffer: recorder.NewBuffer(sink, options.Buffer), queue: q, sync: options.Sync}, nil
}

// spooled is a change together with its entry of the log.
type spooled struct {
	record.Change
	entry []byte
}

// Write implements [recorder.Sink]: it returns when the changes are in the log. It
// waits while the spool is full, as [recorder.Buffer.Write] does. Where the disk is
// full or fails, the error says so and wraps [record.ErrUnavailable]; what waits
// already is safe, is sent on, and makes room. What has no JSON is rejected.
func (s *Spool) Write(ctx context.Context, changes []record.Change) (record.Result, error) {
	var rejected []record.Rejection
	entries := make([]record.Change, 0, len(changes))
	for i, c := range changes {
		line, err := wire.Encode(c)
		if err != nil {
			rejected = append(rejected, record.Rejection{Index: i, Err: invalid(c, err)})
			continue
		}
		entries = append(entries, spooled{c, seal(line)})
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

// Beat implements [recorder.Beater]: heartbeats go past the log. Those of a process
// that has ended would tell nothing.
func (s *Spool) Beat(changes []record.Change) error { return s.buffer.Beat(changes) }

// invalid says which field it is that has no JSON.
func invalid(c record.Change, err error) *record.InvalidError {
	var invalid *record.InvalidError
	if _, _, cause := record.Clean(c); errors.As(cause, &invalid) {
		return invalid
	}
	return &record.InvalidError{Code: record.CodeMalformed, Reason: err.Error()}
}

// Pending tells how many records wait on disk.
func (s *Spool) Pending() int { return s.buffer.Pending() }

// Flush sends what waits at once, as [recorder.Buffer.Flush] does.
func (s *Spool) Flush(ctx context.Context) error { return s.buffer.Flush(ctx) }

// Close flushes, until ctx ends at the latest, and stops. With a
// [*recorder.UnwrittenError] what waits stays in the folder, and is delivered when
// it is opened again.
func (s *Spool) Close(ctx context.Context) error { return s.buffer.Close(ctx) }

// lock takes the folder for this process, for as long as the file is open.
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
