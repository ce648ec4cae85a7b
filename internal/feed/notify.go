package feed

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/pg"
)

const (
	changeChannel = "actlog_change"
	// notifyEvery is the least time between notifications: each is a transaction.
	notifyEvery = 20 * time.Millisecond
)

// notifier notifies servers, and is notified by them.
type notifier struct {
	db    *pg.DB
	log   *slog.Logger
	grown chan struct{} // holds a token if the feed grew and nobody was notified
}

// sendNotifications notifies the servers of this database that the feed grew. It does so
// after the commit, because a notification inside a transaction makes commits wait for each
// other, and on a connection of its own. A lost notification costs readers a second.
func (n *notifier) sendNotifications(ctx context.Context) {
	var conn *pgx.Conn
	defer func() { closeConn(conn) }()
	for attempt := 0; ; {
		select {
		case <-n.grown:
		case <-ctx.Done():
			return
		}
		wait := notifyEvery
		if err := n.sendNotification(ctx, &conn); err != nil {
			closeConn(conn)
			conn, wait = nil, pg.Backoff(attempt)
			attempt++
			n.log.Debug("notify failed", "error", err)
		} else {
			attempt = 0
		}
		if pg.Pause(ctx, wait) != nil {
			return
		}
	}
}

func (n *notifier) sendNotification(ctx context.Context, conn **pgx.Conn) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if *conn == nil {
		if *conn, err = n.db.Connect(ctx); err != nil {
			return err
		}
	}
	_, err = (*conn).Exec(ctx, "NOTIFY "+changeChannel)
	return err
}

func closeConn(conn *pgx.Conn) {
	if conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // nobody needs it any more
}

// listen leaves a token in wake for each notification, until ctx ends. If notifications do
// not arrive, as behind a pooler of transactions, nobody is woken.
func (n *notifier) listen(ctx context.Context, wake chan<- struct{}) {
	for attempt := 0; ctx.Err() == nil; attempt++ {
		err := n.receive(ctx, func() {
			attempt = 0
			signal(wake)
		})
		if ctx.Err() == nil {
			n.log.Debug("listen failed; the feed is polled each second", "error", err)
		}
		_ = pg.Pause(ctx, pg.Backoff(attempt))
	}
}

// receive calls wake at first, because what came before was missed, and at each notification.
func (n *notifier) receive(ctx context.Context, wake func()) error {
	conn, err := n.db.Connect(ctx)
	if err != nil {
		return err
	}
	defer closeConn(conn)
	if _, err := conn.Exec(ctx, "LISTEN "+changeChannel); err != nil {
		return err
	}
	for {
		wake()
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return err
		}
	}
}

// signal leaves a token in a channel that holds one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
