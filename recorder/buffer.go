package recorder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/actlog/actlog/internal/record/wire"
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
	// MaxRecords and MaxBytes bound what waits, including what is being sent. While either is
	// reached, Write waits. Bytes are about those that the changes take in memory; the Write that
	// reaches the bound may exceed it. Defaults [MaxRecordsDefault], [MaxBytesDefault].
	MaxRecords int
	MaxBytes   int64

	// MaxWait is for programs that prefer an error to waiting: Write returns
	// [record.ErrUnavailable] if there was no room for this long. Default: Write waits until its
	// context ends.
	MaxWait time.Duration

	// What waits is sent as soon as it is BatchRecords or BatchBytes, and when the oldest has
	// waited for FlushEvery. Defaults [BatchRecordsDefault], [BatchBytesDefault],
	// [FlushEveryDefault]; never more than may wait.
	BatchRecords int
	BatchBytes   int64
	FlushEvery   time.Duration

	// OnReject is called with each change that the sink refuses for good. The log and the next
	// Flush or Close report it, too. Sending waits for OnReject.
	OnReject func(change record.Change, err *record.InvalidError)

	// Logger receives a line when the sink is away, when it is back, and for each refused record.
	// Default: nothing is logged.
	Logger *slog.Logger

	// Queue is where changes wait. The Buffer closes it. Default: memory.
	Queue Queue
}

func (o *BufferOptions) setDefaults() {
	o.MaxRecords = cmp.Or(o.MaxRecords, MaxRecordsDefault)
	o.MaxBytes = cmp.Or(o.MaxBytes, MaxBytesDefault)
	o.FlushEvery = cmp.Or(o.FlushEvery, FlushEveryDefault)
	// A full Buffer is sent: nobody should wait for a larger batch, which cannot come.
	o.BatchRecords = min(cmp.Or(o.BatchRecords, BatchRecordsDefault), o.MaxRecords)
	o.BatchBytes = min(cmp.Or(o.BatchBytes, BatchBytesDefault), o.MaxBytes)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Queue == nil {
		o.Queue = new(memory)
	}
}

// Buffer is a [Sink] in front of a Sink. Write returns as soon as the changes are queued, and one
// goroutine sends them on in batches, in the order in which they came. While the sink is away it
// tries again for ever, with growing, jittered delays, so that an agent does not fail because the
// record is away. The agent waits when the Buffer is full; nothing is ever dropped. What was
// queued and not sent ends with the process, unless the Queue outlives it.
//
// Make one with [NewBuffer], and close it as the last thing the program does. It is safe for
// concurrent use.
type Buffer struct {
	sink    Sink
	queue   Queue
	options BufferOptions

	turn    chan struct{} // held by the Write that may put; Close keeps it
	closing chan struct{} // closed by Close
	wake    chan struct{} // has a value when there may be a batch
	hurry   chan struct{} // has a value when a delay should end

	stop     context.CancelFunc // of sending
	stopped  chan struct{}      // closed when sending has stopped
	closed   sync.Once
	closeErr error

	mu       sync.Mutex
	moved    chan struct{} // closed and replaced when anything below, or the room, changes
	sent     int64         // entries, ever
	hurryTo  int64         // send up to this entry without waiting for more
	away     error         // of the last attempt
	refusals int           // attempts that failed for a reason that waiting does not fix
	rejected int           // records, since the last report
	causes   []error       // of the first of them

	beats map[record.Key]record.Change // heartbeats that wait, outside the queue
}

var _ Beater = (*Buffer)(nil)

// NewBuffer makes a Buffer in front of sink. The sink stays the caller's to close, after the
// Buffer. Its Write must end when its context does. NewBuffer panics if sink is nil.
func NewBuffer(sink Sink, options BufferOptions) *Buffer {
	if sink == nil {
		panic("recorder: NewBuffer needs a sink")
	}

	options.setDefaults()
	ctx, cancel := context.WithCancel(context.Background())
	b := &Buffer{
		sink: sink, queue: options.Queue, options: options,
		turn: make(chan struct{}, 1), closing: make(chan struct{}),
		wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1),
		stop: cancel, stopped: make(chan struct{}), moved: make(chan struct{}),
		beats: map[record.Key]record.Change{},
	}
	go b.loop(ctx)
	return b
}

// Write implements [Sink]: it returns when all changes are queued, or none with an error. While
// the Buffer is full it waits until ctx ends or for [BufferOptions.MaxWait].
// [BufferOptions.OnReject] and the next Flush or Close report what the sink refuses later. After
// Close the error wraps [record.ErrClosed].
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
		return record.Result{}, fmt.Errorf("queue %d records: %w", len(changes), err)
	}
	return record.Result{Accepted: len(changes)}, nil
}

// Beat implements [Beater]: changes are sent once, with the next batch, or at once if none waits.
func (b *Buffer) Beat(changes []record.Change) error {
	select {
	case <-b.closing:
		return record.ErrClosed
	default:
	}

	b.mu.Lock()
	for _, c := range changes {
		b.beats[c.Key()] = c
	}
	b.mu.Unlock()
	signal(b.wake)
	return nil
}

// enter waits for its turn and for room. Without an error the caller has the turn, and must
// release it.
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

	wait := func(in <-chan struct{}, out chan<- struct{}) error {
		select {
		case <-in:
			return nil
		case out <- struct{}{}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-late:
			return fmt.Errorf("%w: the buffer was full for %s", record.ErrUnavailable, b.options.MaxWait)
		case <-b.closing:
			return record.ErrClosed
		}
	}

	if err := wait(nil, b.turn); err != nil {
		return err
	}

	for { // the turn is kept while waiting for room, so that other calls queue behind, in order
		b.mu.Lock()
		moved := b.moved
		b.mu.Unlock()
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

// filled reports whether what waits is enough for a batch.
func (b *Buffer) filled(entries int, bytes int64) bool {
	return entries >= b.options.BatchRecords || bytes >= b.options.BatchBytes
}

// change changes what mu guards, and wakes everything that waits for a change.
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

// loop sends batch after batch until ctx ends.
func (b *Buffer) loop(ctx context.Context) {
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
		if away, ok := errors.AsType[*unavailableError](err); ok && away.retryAfter > delay {
			delay, hurry = away.retryAfter, nil
		}
		b.options.Logger.WarnContext(ctx, "recorder: records are not written, trying again", "waiting", b.Pending(), "in",
			delay, "error", err)
		if pause(ctx, delay, hurry) != nil {
			return
		}
	}
}

// awaitBatch waits until something should be sent. It returns false when ctx has ended.
func (b *Buffer) awaitBatch(ctx context.Context) bool {
	var due <-chan time.Time
	for ctx.Err() == nil {
		entries, bytes := b.queue.Len()
		if b.filled(entries, bytes) || b.urgent(entries) {
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

// urgent reports whether a heartbeat, or a Flush that covers some of the entries, waits.
func (b *Buffer) urgent(entries int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.beats) > 0 || entries > 0 && b.sent < b.hurryTo
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

// write writes a batch, followed by the heartbeats that wait. Heartbeats are not kept for another
// try. If they are alone, their failure does not count as one of the batch.
func (b *Buffer) write(ctx context.Context, next *batch) (record.Result, error) {
	b.mu.Lock()
	changes := slices.AppendSeq(slices.Clip(next.changes), maps.Values(b.beats))
	clear(b.beats)
	b.mu.Unlock()
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

// UnwrittenError says what a [Buffer] could not put on record. It wraps its Causes: the ends of
// contexts, the sink's errors, and an [*record.InvalidError] for each of the first refused
// records.
type UnwrittenError struct {
	Waiting  int     // records that still wait
	Rejected int     // records that were refused since the last report
	Causes   []error // why; at most ten of refused records
}

func (e *UnwrittenError) Error() string {
	var parts []string
	if e.Waiting > 0 {
		parts = append(parts, fmt.Sprintf("%d records wait", e.Waiting))
	}
	if e.Rejected > 0 {
		parts = append(parts, fmt.Sprintf("%d records were refused", e.Rejected))
	}
	for _, cause := range e.Causes {
		parts = append(parts, cause.Error())
	}
	return "not on record: " + strings.Join(parts, "; ")
}

// Unwrap returns the causes.
func (e *UnwrittenError) Unwrap() []error { return e.Causes }

// Pending returns how many records wait to be sent, including those that are being sent.
func (b *Buffer) Pending() int {
	entries, _ := b.queue.Len()
	return entries
}

// Flush sends at once what was queued before, and waits until it is on record. It returns early
// when ctx ends, and when the sink fails for a reason that waiting does not fix (it is closed, the
// key is wrong); sending goes on all the same. The error is an [*UnwrittenError]: what is not on
// record by then, and what was refused since the last report.
func (b *Buffer) Flush(ctx context.Context) error {
	target, cause := b.await(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.report(max(target-b.sent, 0), cause)
}

// await makes run send what waits now, and waits until target entries were sent. The error says
// why it stopped waiting; it is nil if the sink's failure is the reason.
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

// report returns what is unwritten, and forgets what was refused so far. The caller holds mu.
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

// Close flushes until ctx ends at the latest, and stops. The Buffer is closed even if there is an
// error. With an [*UnwrittenError] the records that wait are lost, unless the Queue outlives the
// process. Pass a context that ends, since the record may be away for long. Called again, Close
// returns the same error.
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
