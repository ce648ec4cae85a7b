package recorder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/actlog/actlog/internal/wire"
	"github.com/actlog/actlog/record"
)

// Defaults of [BufferOptions].
const (
	MaxRecordsDefault   = 10_000
	MaxBytesDefault     = 64 << 20
	FlushEveryDefault   = 100 * time.Millisecond
	BatchRecordsDefault = wire.MaxRecords
	BatchBytesDefault   = 4 << 20
)

// BufferOptions are the options of a [Buffer]. The zero value is ready to use.
type BufferOptions struct {
	// MaxRecords and MaxBytes bound what waits, what is being sent included: while
	// either is reached, Write waits. Bytes are about those that the changes take in
	// memory; the Write that reaches the bound may exceed it. Defaults
	// [MaxRecordsDefault], [MaxBytesDefault].
	MaxRecords int
	MaxBytes   int64

	// MaxWait is for programs that would rather fail than wait: Write gives up with
	// [record.ErrUnavailable] when there was no room for this long. Default: Write
	// waits until its context ends.
	MaxWait time.Duration

	// What waits is sent as soon as it is BatchRecords or BatchBytes, and when the
	// oldest has waited for FlushEvery. Defaults [BatchRecordsDefault],
	// [BatchBytesDefault], [FlushEveryDefault]; no more than may wait.
	BatchRecords int
	BatchBytes   int64
	FlushEvery   time.Duration

	// OnReject is called with each change that the sink refuses for good, beside the
	// log and the next Flush or Close. Sending waits for it.
	OnReject func(change record.Change, err *record.InvalidError)

	// Logger is told when the sink is away and when it is back, and what was
	// refused. Default: nothing is logged.
	Logger *slog.Logger

	// Queue is where changes wait. The Buffer closes it. Default: memory.
	Queue Queue
}

func (o *BufferOptions) setDefaults() {
	o.MaxRecords = cmp.Or(o.MaxRecords, MaxRecordsDefault)
	o.MaxBytes = cmp.Or(o.MaxBytes, MaxBytesDefault)
	o.BatchRecords = cmp.Or(o.BatchRecords, BatchRecordsDefault)
	o.BatchBytes = cmp.Or(o.BatchBytes, BatchBytesDefault)
	o.FlushEvery = cmp.Or(o.FlushEvery, FlushEveryDefault)
	// What is full is sent: no one should wait for a batch that cannot come.
	o.BatchRecords = min(o.BatchRecords, o.MaxRecords)
	o.BatchBytes = min(o.BatchBytes, o.MaxBytes)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Queue == nil {
		o.Queue = new(memory)
	}
}

// Buffer is a [Sink] before a Sink: Write returns as soon as the changes are
// queued, and one goroutine sends them on in batches, in the order in which they
// came. While the sink is away it tries again for ever, with growing, jittered
// delays: an agent does not fail because the record is away. It waits when the
// Buffer is full; nothing is ever dropped. What was queued and not sent ends with
// the process, unless the Queue outlives it.
//
// Make one with [NewBuffer] and close it as the last thing the program does. It is
// safe for concurrent use.
type Buffer struct {
	sink    Sink
	queue   Queue
	options BufferOptions

	turn    chan struct{} // held by the Write that may put; Close keeps it
	closing chan struct{} // closed by Close
	wake    chan struct{} // has something when there may be a batch
	hurry   chan struct{} // has something when a delay should end

	stop     context.CancelFunc // of sending
	stopped  chan struct{}      // closed when nothing is sent any more
	closed   sync.Once
	closeErr error

	mu       sync.Mutex
	moved    chan struct{} // closed and renewed when anything below, or room, changes
	sent     int64         // entries, ever
	hurryTo  int64         // what is to be sent without waiting for more
	away     error         // what the last attempt met
	refusals int           // attempts that met what waiting does not mend
	rejected int           // since the last report
	causes   []error       // why, the first few

	beats map[record.Key]record.Change // heartbeats that wait, beside the queue
}

var _ Beater = (*Buffer)(nil)

// NewBuffer makes a Buffer before sink, which stays the caller's to close, after
// the Buffer. The sink's Write must end when its context does. It panics where sink
// is nil.
func NewBuffer(sink Sink, options BufferOptions) *Buffer {
	if sink == nil {
		panic("recorder: NewBuffer without a sink")
	}
	options.setDefaults()
	ctx, cancel := context.WithCancel(context.Background())
	b := &Buffer{
		sink: sink, queue: options.Queue, options: options,
		turn: make(chan struct{}, 1), closing: make(chan struct{}),
		wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1),
		stop: cancel, stopped: make(chan struct{}), moved: make(chan struct{}),
	}
	go b.run(ctx)
	return b
}

// Write implements [Sink]: it returns when all changes are queued, or none with an
// error. It waits while the Buffer is full, at most until ctx ends or for
// [BufferOptions.MaxWait]. What the sink refuses later is told to
// [BufferOptions.OnReject] and by the next Flush or Close. After Close the error
// wraps [record.ErrClosed].
func (b *Buffer) Write(ctx context.Context, changes []record.Change) (record.Result, error) {
	if len(changes) == 0 {
		return record.Result{}, nil
	}
	err := b.enter(ctx)
	if err == nil {
		err = b.queue.Put(changes)
		if entries, bytes := b.queue.Len(); entries <= len(changes) || b.filled(entries, bytes) {
			signal(b.wake)
		}
		<-b.turn
	}
	if err != nil {
		return record.Result{}, fmt.Errorf("queueing %d records: %w", len(changes), err)
	}
	return record.Result{Accepted: len(changes)}, nil
}

// Beat implements [Beater]: changes are sent with the next batch, or at once where
// none waits, and never again.
func (b *Buffer) Beat(changes []record.Change) error {
	select {
	case <-b.closing:
		return record.ErrClosed
	default:
	}
	b.mu.Lock()
	if b.beats == nil {
		b.beats = map[record.Key]record.Change{}
	}
	for _, c := range changes {
		b.beats[c.Key()] = c
	}
	b.mu.Unlock()
	signal(b.wake)
	return nil
}

// takeBeats gives the heartbeats that wait to be sent.
func (b *Buffer) takeBeats() []record.Change {
	b.mu.Lock()
	defer b.mu.Unlock()
	beats := slices.Collect(maps.Values(b.beats))
	b.beats = nil
	return beats
}

func (b *Buffer) hasBeats() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.beats) > 0
}

// enter waits for its turn and for room. Without an error the turn is the
// caller's, who must give it back.
func (b *Buffer) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case b.turn <- struct{}{}:
		if !b.full() {
			return nil
		}
		<-b.turn
	default:
	}
	var late <-chan time.Time
	if b.options.MaxWait > 0 {
		timer := time.NewTimer(b.options.MaxWait)
		defer timer.Stop()
		late = timer.C
	}
	// Whoever waits for room keeps the turn: the others queue behind, in order.
	wait := func(in <-chan struct{}, out chan<- struct{}) error {
		select {
		case <-in:
			return nil
		case out <- struct{}{}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-late:
			return fmt.Errorf("%w: the buffer is full for %s", record.ErrUnavailable, b.options.MaxWait)
		case <-b.closing:
			return record.ErrClosed
		}
	}
	if err := wait(nil, b.turn); err != nil {
		return err
	}
	for {
		moved := b.movement()
		if !b.full() {
			return nil
		}
		if err := wait(moved, nil); err != nil {
			<-b.turn
			return err
		}
	}
}

func (b *Buffer) full() bool {
	entries, bytes := b.queue.Len()
	return entries >= b.options.MaxRecords || bytes >= b.options.MaxBytes
}

// filled tells whether what waits is enough for a batch.
func (b *Buffer) filled(entries int, bytes int64) bool {
	return entries >= b.options.BatchRecords || bytes >= b.options.BatchBytes
}

// movement gives a channel that is closed when something has changed.
func (b *Buffer) movement() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.moved
}

// change changes what mu guards, and tells those who wait for it.
func (b *Buffer) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	close(b.moved)
	b.moved = make(chan struct{})
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run sends batch after batch until ctx ends.
func (b *Buffer) run(ctx context.Context) {
	defer close(b.stopped)
	var next batch // kept until it is sent
	for failures := 0; ; {
		if failures == 0 && !b.awaitBatch(ctx) {
			return
		}
		err := b.send(ctx, &next)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			if failures > 0 {
				b.options.Logger.InfoContext(ctx, "recorder: records are written again", "failures", failures)
			}
			failures = 0
			continue
		}
		failures++
		delay, hurry := backoff(failures), b.hurry
		var away *awayError
		if errors.As(err, &away) && away.after > delay {
			delay, hurry = away.after, nil
		}
		entries, _ := b.queue.Len()
		b.options.Logger.WarnContext(ctx, "recorder: records are not written, trying again", "waiting", entries, "in", delay, "error", err)
		if pause(ctx, delay, hurry) != nil {
			return
		}
	}
}

// awaitBatch waits until something should be sent. It is false when ctx has ended.
func (b *Buffer) awaitBatch(ctx context.Context) bool {
	var due <-chan time.Time
	for ctx.Err() == nil {
		entries, bytes := b.queue.Len()
		if b.filled(entries, bytes) || entries > 0 && b.hurried() || b.hasBeats() {
			return true
		}
		if entries > 0 && due == nil {
			timer := time.NewTimer(b.options.FlushEvery)
			defer timer.Stop()
			due = timer.C
		}
		select {
		case <-b.wake:
		case <-due:
			return true
		case <-ctx.Done():
		}
	}
	return false
}

func (b *Buffer) hurried() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sent < b.hurryTo
}

// batch is what was taken from the Queue to be sent.
type batch struct {
	changes []record.Change
	n       int // entries of the Queue
}

// send sends the oldest changes on, once.
func (b *Buffer) send(ctx context.Context, next *batch) error {
	var err error
	if next.n == 0 {
		next.changes, next.n, err = b.queue.Peek(b.options.BatchRecords, b.options.BatchBytes)
	}
	var result record.Result
	if err == nil {
		result, err = b.write(ctx, next)
	}
	if err != nil {
		if ctx.Err() == nil {
			b.change(func() {
				if b.away = err; !errors.Is(err, record.ErrUnavailable) {
					b.refusals++
				}
			})
		}
		return err
	}
	for _, rejection := range result.Rejected {
		b.reject(ctx, next.changes, rejection)
	}
	b.change(func() {
		b.queue.Drop(next.n)
		b.sent += int64(next.n)
		b.away = nil
	})
	*next = batch{}
	return nil
}

// write writes a batch, and behind it the heartbeats that wait. Those are not kept
// for another try, and where they are alone their failure is none of the batch.
func (b *Buffer) write(ctx context.Context, next *batch) (record.Result, error) {
	changes := append(slices.Clip(next.changes), b.takeBeats()...)
	if len(changes) == 0 {
		return record.Result{}, nil
	}
	result, err := b.sink.Write(ctx, changes)
	if err != nil && next.n == 0 && ctx.Err() == nil {
		b.options.Logger.WarnContext(ctx, "recorder: a heartbeat is not on record", "error", err)
		return record.Result{}, nil
	}
	return result, err
}

// maxCauses bounds the errors that a report names.
const maxCauses = 10

func (b *Buffer) reject(ctx context.Context, changes []record.Change, r record.Rejection) {
	if r.Index < 0 || r.Index >= len(changes) {
		return
	}
	cause := fmt.Errorf("%s: %w", describe(changes[r.Index]), r.Err)
	b.options.Logger.WarnContext(ctx, "recorder: a record was refused", "error", cause)
	b.change(func() {
		if b.rejected++; len(b.causes) < maxCauses {
			b.causes = append(b.causes, cause)
		}
	})
	if b.options.OnReject != nil {
		b.options.OnReject(changes[r.Index], r.Err)
	}
}

// UnwrittenError says what a [Buffer] could not put on record. It wraps its
// Causes: the ends of contexts, the sink's errors, an [*record.InvalidError] for
// each of the first refused records.
type UnwrittenError struct {
	Waiting  int     // records that wait still
	Rejected int     // records that were refused since the last report
	Causes   []error // why, ten refused records at most
}

func (e *UnwrittenError) Error() string {
	s := "not on record:"
	if e.Waiting > 0 {
		s += fmt.Sprintf(" %d records wait;", e.Waiting)
	}
	if e.Rejected > 0 {
		s += fmt.Sprintf(" %d records were refused;", e.Rejected)
	}
	for i, cause := range e.Causes {
		if i > 0 {
			s += ";"
		}
		s += " " + cause.Error()
	}
	return s
}

// Unwrap gives the causes.
func (e *UnwrittenError) Unwrap() []error { return e.Causes }

// Pending tells how many records wait to be sent, those that are being sent
// included.
func (b *Buffer) Pending() int {
	entries, _ := b.queue.Len()
	return entries
}

// Flush sends at once what was queued before, and waits until it is on record. It
// gives up when ctx ends, and when the sink refuses to work for a reason that
// waiting does not mend (it is closed, the key is wrong); sending goes on all the
// same. The error is an [*UnwrittenError]: what is not on record by then, and what
// was refused since the last report.
func (b *Buffer) Flush(ctx context.Context) error {
	target, cause := b.await(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.report(max(target-b.sent, 0), cause)
}

// await has all sent that waits now, and waits for that: until target entries were
// sent. The error says why it did not wait longer, where the sink does not.
func (b *Buffer) await(ctx context.Context) (target int64, err error) {
	b.mu.Lock()
	entries, _ := b.queue.Len()
	target = b.sent + int64(entries)
	b.hurryTo = target
	refusals := b.refusals
	b.mu.Unlock()
	signal(b.wake)
	signal(b.hurry)
	for {
		b.mu.Lock()
		moved, over := b.moved, b.sent >= target || b.refusals > refusals
		b.mu.Unlock()
		if over {
			return target, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return target, ctx.Err()
		case <-b.stopped:
			return target, record.ErrClosed
		}
	}
}

// report gives what is unwritten, and begins a new account of what is refused.
// mu is held.
func (b *Buffer) report(waiting int64, cause error) error {
	if waiting == 0 && b.rejected == 0 {
		return nil
	}
	e := &UnwrittenError{Waiting: int(waiting), Rejected: b.rejected, Causes: b.causes}
	b.rejected, b.causes = 0, nil
	if waiting > 0 {
		for _, err := range []error{cause, b.away} {
			if err != nil {
				e.Causes = append(e.Causes, err)
			}
		}
	}
	return e
}

// Close flushes, until ctx ends at the latest, and stops. Whatever the error is,
// the Buffer is closed; with an [*UnwrittenError] the records that wait are lost,
// unless the Queue outlives the process. Give it a context that ends, since the
// record may be away for long. Closed again it gives the same error.
func (b *Buffer) Close(ctx context.Context) error {
	b.closed.Do(func() {
		close(b.closing)
		b.turn <- struct{}{} // nothing is put after this
		_, cause := b.await(ctx)
		b.stop()
		<-b.stopped
		b.mu.Lock()
		defer b.mu.Unlock()
		entries, _ := b.queue.Len()
		b.closeErr = errors.Join(b.report(int64(entries), cause), b.queue.Close())
	})
	return b.closeErr
}
