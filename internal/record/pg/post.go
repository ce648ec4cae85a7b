package pg

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const postBytes = 1 << 20

// PostHandler receives what a [Post] carries. Its methods return soon: meanwhile the post carries nothing.
type PostHandler interface {
	// Receive receives a text that any process sent, this one included.
	Receive(channel, text string)
	// Listening is called when texts are received from now on. What came before may be lost.
	Listening()
}

// Post carries short texts between all processes of a database, by channels of LISTEN and NOTIFY,
// on one connection. Any text may be lost without a sign of it. It is safe for concurrent use.
type Post struct {
	db      *DB
	handler PostHandler
	log     *slog.Logger
	wake    chan struct{} // holds a token if there is something to do

	mu       sync.Mutex
	channels []string // that should be listened to
	waiting  []letter // what should be sent
	bytes    int      // of their texts
	online   bool

	stop    context.CancelFunc
	running sync.WaitGroup
}

type letter struct{ channel, text string }

// NewPost returns a post without a connection. The caller closes it.
func NewPost(d *DB, handler PostHandler, log *slog.Logger) *Post {
	ctx, stop := context.WithCancel(context.Background())
	p := &Post{db: d, handler: handler, log: log, wake: make(chan struct{}, 1), stop: stop}
	p.running.Go(func() { p.loop(ctx) })
	return p
}

// Close disconnects.
func (p *Post) Close() {
	p.stop()
	p.running.Wait()
}

// Listen sets which channels are listened to; their names are identifiers. The connection lasts as
// long as there are any.
func (p *Post) Listen(channels ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(channels, p.channels) {
		p.channels = channels
		Signal(p.wake)
	}
}

// Send sends a text of less than 8,000 bytes, without NUL. It returns at once. The text is lost if
// there is no connection, or if a MiB of others waits.
func (p *Post) Send(channel, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.online || p.bytes+len(text) > postBytes {
		return
	}

	p.bytes += len(text)
	p.waiting = append(p.waiting, letter{channel, text})
	Signal(p.wake)
}

func (p *Post) take() (channels []string, letters []letter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	channels, letters = p.channels, p.waiting
	p.waiting, p.bytes = nil, 0
	return channels, letters
}

func (p *Post) setOnline(online bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.online = online
}

// loop is connected while there is a channel to listen to.
func (p *Post) loop(ctx context.Context) {
	for attempt := 0; ctx.Err() == nil; {
		if channels, _ := p.take(); len(channels) == 0 {
			select {
			case <-p.wake:
			case <-ctx.Done():
			}
			continue
		}

		err := p.carry(ctx, func() { attempt = 0 })
		p.setOnline(false)
		if err != nil && ctx.Err() == nil {
			p.log.Debug("the connection that carries notifications is lost; it is made again", "error", err)
			_ = Pause(ctx, Backoff(attempt))
			attempt++
		}
	}
}

// carry connects, and sends and receives until nothing is listened to. It calls begun when it
// listens.
func (p *Post) carry(ctx context.Context, begun func()) error {
	conn, err := p.db.Connect(ctx)
	if err != nil {
		return err
	}
	defer CloseConn(conn)

	var listening []string
	for {
		channels, letters := p.take()
		if len(channels) == 0 {
			return nil
		}

		if !slices.Equal(channels, listening) {
			if err := listen(ctx, conn, channels); err != nil {
				return err
			}
			listening = channels
			begun()
			p.setOnline(true)
			p.handler.Listening()
		}

		if err := send(ctx, conn, letters); err != nil {
			return err
		}
		if err := p.receive(ctx, conn); err != nil {
			return err
		}
	}
}

func listen(ctx context.Context, conn *pgx.Conn, channels []string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := conn.Exec(ctx, "UNLISTEN *; LISTEN "+strings.Join(channels, "; LISTEN "))
	return err
}

// send notifies in one transaction, whose commit does not wait for the disk: what is lost in a crash
// of Postgres has no listeners left.
func send(ctx context.Context, conn *pgx.Conn, letters []letter) error {
	if len(letters) == 0 {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	channels, texts := make([]string, len(letters)), make([]string, len(letters))
	for i, l := range letters {
		channels[i], texts[i] = l.channel, l.text
	}
	_, err := conn.Exec(ctx, `SELECT set_config('synchronous_commit', 'off', true), pg_notify(channel, text)
		FROM unnest($1::text[], $2::text[]) AS letter (channel, text)`, pgx.QueryExecModeExec, channels, texts)
	return err
}

func (p *Post) receive(ctx context.Context, conn *pgx.Conn) error {
	wait, cancel := context.WithCancel(ctx)
	var waking sync.WaitGroup
	waking.Go(func() {
		defer cancel()
		select {
		case <-p.wake:
		case <-wait.Done():
		}
	})
	defer waking.Wait()
	defer cancel()

	for {
		n, err := conn.WaitForNotification(wait)
		switch {
		case err == nil:
			p.handler.Receive(n.Channel, n.Payload)
		case wait.Err() != nil && ctx.Err() == nil && !conn.IsClosed():
			// a wait that ends early leaves the connection as it is
			return nil
		default:
			return err
		}
	}
}
