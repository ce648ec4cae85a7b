package pg

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// ringEvery is the least time between notifications: each is a transaction.
const ringEvery = 20 * time.Millisecond

// Bell wakes those who listen, in all processes of a database, by a channel of LISTEN and NOTIFY. A
// notification may be lost, so who listens also looks from time to time. It is safe for concurrent
// use.
type Bell struct {
	db      *DB
	channel string
	log     *slog.Logger
	rung    chan struct{} // holds a token if somebody rang and nobody was notified

	mu     sync.Mutex
	here   map[chan<- struct{}]bool // who listens in this process
	unhear context.CancelFunc       // ends the connection that listens for them

	ctx     context.Context // ends with the bell
	stop    context.CancelFunc
	running sync.WaitGroup
}

// NewBell returns the bell of a channel, whose name is an identifier. The caller closes it.
func NewBell(d *DB, channel string, log *slog.Logger) *Bell {
	ctx, stop := context.WithCancel(context.Background())
	b := &Bell{
		db: d, channel: channel, log: log, rung: make(chan struct{}, 1), here: map[chan<- struct{}]bool{}, ctx: ctx,
		stop: stop,
	}
	b.running.Go(b.notify)
	return b
}

// Close ends the notifications.
func (b *Bell) Close() {
	b.stop()
	b.running.Wait()
}

// Ring wakes those who listen, within 20 ms. It returns at once. Call it after the commit: a
// notification inside a transaction makes commits wait for each other.
func (b *Bell) Ring() { Signal(b.rung) }

// RingNow is Ring, and wakes those who listen in this process at once.
func (b *Bell) RingNow() {
	b.Ring()
	b.wake()
}

func (b *Bell) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for wake := range b.here {
		Signal(wake)
	}
}

// notify notifies the processes of this database, on a connection of its own.
func (b *Bell) notify() {
	ctx := b.ctx
	var conn *pgx.Conn
	defer func() { CloseConn(conn) }()

	for attempt := 0; ; {
		select {
		case <-b.rung:
		case <-ctx.Done():
			return
		}

		wait := ringEvery
		if err := b.send(ctx, &conn); err != nil {
			CloseConn(conn)
			conn, wait = nil, Backoff(attempt)
			attempt++
			b.log.Debug("notify failed", "channel", b.channel, "error", err)
		} else {
			attempt = 0
		}
		if Pause(ctx, wait) != nil {
			return
		}
	}
}

func (b *Bell) send(ctx context.Context, conn **pgx.Conn) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if *conn == nil {
		if *conn, err = b.db.Connect(ctx); err != nil {
			return err
		}
	}
	_, err = (*conn).Exec(ctx, "NOTIFY "+b.channel)
	return err
}

// Listen leaves a token in wake at first, because of what came before, and for each notification, until ctx ends. If
// notifications do not arrive, as behind a pooler of transactions, nobody is woken.
func (b *Bell) Listen(ctx context.Context, wake chan<- struct{}) {
	b.mu.Lock()
	b.here[wake] = true
	if len(b.here) == 1 {
		hearing, stop := context.WithCancel(b.ctx)
		b.unhear = stop
		b.running.Go(func() { b.hear(hearing) })
	}
	b.mu.Unlock()

	Signal(wake)
	<-ctx.Done()

	b.mu.Lock()
	defer b.mu.Unlock()
	if delete(b.here, wake); len(b.here) == 0 {
		b.unhear()
	}
}

// hear wakes those who listen at each notification, on one connection for all of them.
func (b *Bell) hear(ctx context.Context) {
	for attempt := 0; ctx.Err() == nil; attempt++ {
		err := b.receive(ctx, func() {
			attempt = 0
			b.wake()
		})

		if ctx.Err() == nil {
			b.log.Debug("listen failed; what it tells is found by looking", "channel", b.channel, "error", err)
		}
		_ = Pause(ctx, Backoff(attempt))
	}
}

// receive calls wake at first, because what came before was missed, and at each notification.
func (b *Bell) receive(ctx context.Context, wake func()) error {
	conn, err := b.db.Connect(ctx)
	if err != nil {
		return err
	}
	defer CloseConn(conn)
	if _, err := conn.Exec(ctx, "LISTEN "+b.channel); err != nil {
		return err
	}

	for {
		wake()
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return err
		}
	}
}

// Signal leaves a token in a channel that holds one.
func Signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
