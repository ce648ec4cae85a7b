package delta_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/actlog/actlog/internal/record/delta"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// open returns the deltas of a server of a database.
func open(t *testing.T, url string) *delta.Deltas {
	t.Helper()
	return storetest.OpenURL(t, url).Deltas()
}

// watcher reads the deltas of a tree as a client does.
type watcher struct {
	mu      sync.Mutex
	backlog *delta.Backlog
	texts   map[delta.Cycle]string // without what a reset has voided
	resets  int
}

func watch(t *testing.T, d *delta.Deltas, root string) *watcher {
	t.Helper()
	w := &watcher{backlog: delta.NewBacklog(), texts: map[delta.Cycle]string{}}

	t.Cleanup(d.Watch(root, func(piece delta.Delta) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.backlog.Add(piece)
		for d, ok := w.backlog.Next(); ok; d, ok = w.backlog.Next() {
			if w.texts[d.Cycle] += d.Text; d.Reset {
				w.resets++
				w.texts[d.Cycle] = ""
			}
		}
	}))
	return w
}

// text returns what the watcher has of a cycle, and how many resets came.
func (w *watcher) text(c delta.Cycle) (text string, resets int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.texts[c], w.resets
}

func (w *watcher) ends(c delta.Cycle, with string) func() bool {
	return func() bool { text, _ := w.text(c); return strings.HasSuffix(text, with) }
}

// meet sends deltas of a tree until a watcher receives one: from then on the sender knows of it.
func meet(t *testing.T, from *delta.Deltas, w *watcher, root string) {
	t.Helper()
	meeting := delta.Cycle{RootPlanID: root, PlanID: root, StepID: fmt.Sprintf("meeting %p", from)} // of this sender
	storetest.Until(t, "the watcher is known", func() bool {
		from.Delta(root, root, meeting.StepID, 0, 1, "x")
		text, _ := w.text(meeting)
		return text != ""
	})
}

// listen returns what is sent by a channel, until the end of the test.
func listen(t *testing.T, url, channel string) func() (payloads []string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "LISTEN "+channel); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	var payloads []string
	var listening sync.WaitGroup
	listening.Go(func() {
		defer conn.Close(context.Background())
		for {
			n, err := conn.WaitForNotification(ctx)
			if err != nil {
				return
			}

			mu.Lock()
			payloads = append(payloads, n.Payload)
			mu.Unlock()
		}
	})
	t.Cleanup(func() { cancel(); listening.Wait() })

	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return payloads
	}
}

// TestDeltas: the texts of a tree reach its watchers in every process of the database, once each,
// whatever is in them and however long they are. A notification has 7 kB at most.
func TestDeltas(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	payloads := listen(t, db.URL, "actlog_delta")
	worker, server := open(t, db.URL), open(t, db.URL)
	here, there := watch(t, worker, "root"), watch(t, server, "root")
	elsewhere := watch(t, server, "other")
	meet(t, worker, there, "root")

	want := map[delta.Cycle]string{}
	for i, text := range []string{
		"plain", strings.Repeat("a", 50_000), // of equal notifications of a transaction, Postgres delivers one
		strings.Repeat("ä€😀", 7_000), strings.Repeat("\"\\<&>\n\t\x00\x01\x7f\u2028", 3_000), "cut\xe2\x82",
		strings.Repeat("long\xff", 3_000),
	} {
		c := delta.Cycle{
			RootPlanID: "root", PlanID: strings.Repeat("\x01", 255), StepID: fmt.Sprint("step", i), Seq: int64(i),
		}
		want[c] = strings.ToValidUTF8(text, "\uFFFD")

		for text != "" {
			n := min(len(text), 1+rand.IntN(20_000))
			for n < len(text) && !utf8.RuneStart(text[n]) {
				n++
			}
			worker.Delta(c.RootPlanID, c.PlanID, c.StepID, c.Seq, 1, text[:n])
			text = text[n:]
		}
	}

	for c, text := range want {
		for name, w := range map[string]*watcher{"in the process": here, "in another": there} {
			storetest.Until(t, c.StepID+" arrives "+name, func() bool { got, _ := w.text(c); return len(got) >= len(text) })
			if got, resets := w.text(c); got != text || resets > 1 { // one, of the meeting
				t.Errorf("%s, %s: %d bytes and %d resets, want %d bytes; the same: %t", c.StepID, name, len(got), resets,
					len(text), got == text)
			}
		}
	}

	for _, p := range payloads() {
		if len(p) > 7_000 || !json.Valid([]byte(p)) {
			t.Errorf("a notification of %d bytes: %.100s", len(p), p)
		}
	}

	if len(elsewhere.texts) > 0 {
		t.Errorf("the watcher of another tree received %v", elsewhere.texts)
	}
}

// TestReset: after a takeover, watchers drop what came before. The attempt before the latest is over,
// also if it goes on.
func TestReset(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	stalled, worker := open(t, db.URL), open(t, db.URL)
	server := open(t, db.URL)
	w := watch(t, server, "root")
	meet(t, stalled, w, "root")
	meet(t, worker, w, "root")

	c := delta.Cycle{RootPlanID: "root", PlanID: "root", StepID: "step"}
	stalled.Delta("root", "root", "step", 0, 1, "first try")
	storetest.Until(t, "the first attempt arrives", w.ends(c, "first try"))

	worker.Reset("root", "root", "step", 0, 2)
	storetest.Until(t, "it is void", func() bool { text, _ := w.text(c); return text == "" })
	worker.Delta("root", "root", "step", 0, 2, "second")
	storetest.Until(t, "the second attempt arrives", w.ends(c, "second"))

	stalled.Delta("root", "root", "step", 0, 1, " goes on")
	stalled.Delta("root", "root", "end", 0, 1, "end")
	storetest.Until(t, "what was sent after it arrives",
		w.ends(delta.Cycle{RootPlanID: "root", PlanID: "root", StepID: "end"}, "end"))

	if text, _ := w.text(c); text != "second" {
		t.Errorf("w.text(c) = %q", text)
	}
}

// TestUnwatchedDeltas: of trees that nobody watches, nothing is notified.
func TestUnwatchedDeltas(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	payloads := listen(t, db.URL, "actlog_delta")
	worker, server := open(t, db.URL), open(t, db.URL)
	local := watch(t, worker, "local")

	send := func(text string) {
		for _, root := range []string{"unwatched", "local", "root"} {
			worker.Delta(root, root, "step", 0, 1, text)
		}
	}

	send("before anybody watches")
	w := watch(t, server, "root")
	meet(t, worker, w, "root")
	send("last")
	storetest.Until(t, "the last one is notified",
		w.ends(delta.Cycle{RootPlanID: "root", PlanID: "root", StepID: "step"}, "last"))
	storetest.Until(t, "the last one is delivered",
		local.ends(delta.Cycle{RootPlanID: "local", PlanID: "local", StepID: "step"}, "last"))

	for _, p := range payloads() {
		if strings.Contains(p, "before") || !strings.Contains(p, `"root"`) {
			t.Errorf("notified: %s", p)
		}
	}
}

// TestManyWatchedTrees: the announcements of a server with many watchers are cut into notifications.
func TestManyWatchedTrees(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	worker, server := open(t, db.URL), open(t, db.URL)

	watchers := map[string]*watcher{}
	for i := range 300 {
		root := fmt.Sprintf("%0250d", i)
		watchers[root] = watch(t, server, root)
	}

	storetest.Until(t, "all of them receive something", func() bool {
		missing := false
		for root, w := range watchers {
			worker.Delta(root, root, "step", 0, 1, "x")
			text, _ := w.text(delta.Cycle{RootPlanID: root, PlanID: root, StepID: "step"})
			missing = missing || text == ""
		}
		return !missing
	})
}

// TestDeltasAfterLostConnections: deltas are lost with the connections, and later ones arrive. What
// watchers have after the last reset is the end of what was sent.
func TestDeltasAfterLostConnections(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	worker, server := open(t, db.URL), open(t, db.URL)
	w := watch(t, server, "root")
	c := delta.Cycle{RootPlanID: "root", PlanID: "root", StepID: "step"}

	var sent strings.Builder
	send := func() {
		piece := fmt.Sprintf("%d ", sent.Len())
		sent.WriteString(piece)
		worker.Delta("root", "root", "step", 0, 1, piece)
	}

	for range 4 {
		before, _ := w.text(c)
		storetest.Until(t, "a delta arrives", func() bool {
			send()
			text, _ := w.text(c)
			return text != before && text != ""
		})
		storetest.Kill(t, db.Pool, db.URL)
	}

	meet(t, worker, w, "root")
	worker.Delta("root", "root", "step", 0, 1, "end")
	storetest.Until(t, "the end arrives", w.ends(c, "end"))
	if text, _ := w.text(c); !strings.HasSuffix(sent.String()+"end", text) {
		t.Errorf("%q is not the end of what was sent", text)
	}
}

// lossy forwards connections to a database and loses every third notification. It returns the URL of
// the database behind it, and how many were lost.
func lossy(t *testing.T, databaseURL string, keep int64) (through string, lost *atomic.Int64) {
	t.Helper()
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	network, server := "tcp", net.JoinHostPort(config.Host, fmt.Sprint(config.Port))
	if strings.HasPrefix(config.Host, "/") {
		network, server = "unix", fmt.Sprintf("%s/.s.PGSQL.%d", config.Host, config.Port)
	}

	lost = new(atomic.Int64)
	var count atomic.Int64
	var all sync.WaitGroup
	forward := func(client net.Conn) {
		defer client.Close()
		up, err := new(net.Dialer).DialContext(context.Background(), network, server)
		if err != nil {
			return
		}
		defer up.Close()

		all.Go(func() {
			_, _ = io.Copy(up, client)
			_ = up.Close()
		})

		front, back := pgproto3.NewFrontend(up, io.Discard), pgproto3.NewBackend(strings.NewReader(""), client)
		for {
			message, err := front.Receive()
			if err != nil {
				return
			}

			if _, ok := message.(*pgproto3.NotificationResponse); ok && count.Add(1)%keep == 0 {
				lost.Add(1)
				continue
			}
			back.Send(message)
			if back.Flush() != nil {
				return
			}
		}
	}

	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { forward(client) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		all.Wait()
	})

	_, port, _ := net.SplitHostPort(listener.Addr().String())
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}

	u.Host = "127.0.0.1:" + port
	q := u.Query()
	q.Del("host")
	q.Del("port")
	q.Set("sslmode", "disable")
	u.RawQuery = q.Encode()
	return u.String(), lost
}

// TestLostNotifications: if single notifications are lost, watchers receive a reset and then the rest.
func TestLostNotifications(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	through, lost := lossy(t, db.URL, 3)
	worker, server := open(t, db.URL), open(t, through)
	w := watch(t, server, "root")
	meet(t, worker, w, "root")

	c := delta.Cycle{RootPlanID: "root", PlanID: "root", StepID: "step"}
	var sent strings.Builder
	storetest.Until(t, "some are lost", func() bool {
		piece := fmt.Sprintf("%d ", sent.Len())
		sent.WriteString(piece)
		worker.Delta("root", "root", "step", 0, 1, piece)
		text, resets := w.text(c)
		return lost.Load() > 5 && resets > 2 && text != ""
	})

	if text, _ := w.text(c); !strings.Contains(sent.String(), text) {
		t.Errorf("%q was not sent like this", text)
	}
}

// TestNoNotifications: behind a pooler that delivers no notifications, deltas stay in their process.
func TestNoNotifications(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	through, lost := lossy(t, db.URL, 1)
	worker, server := open(t, db.URL), open(t, through)
	far, near := watch(t, server, "root"), watch(t, worker, "root")
	meet(t, worker, near, "root")

	storetest.Until(t, "a notification is lost", func() bool {
		worker.Delta("root", "root", "step", 0, 1, "x")
		return lost.Load() > 2
	})

	if len(far.texts) > 0 {
		t.Errorf("far.texts = %v", far.texts)
	}
}

// TestGreedySender: a sender that never pauses waits for nobody, and fills no memory. Watchers
// receive what comes after it.
func TestGreedySender(t *testing.T) {
	t.Parallel()
	d := open(t, pgtest.New(t).URL)
	begin, began := make(chan struct{}), make(chan struct{}, 1)
	var received atomic.Int64
	last := make(chan delta.Delta, 1_000)
	stop := d.Watch("root", func(piece delta.Delta) {
		select {
		case began <- struct{}{}:
		default:
		}
		<-begin
		if received.Add(int64(len(piece.Text))); piece.StepID == "last" {
			last <- piece
		}
	})
	defer stop()

	d.Delta("root", "root", "step", 0, 1, "first")
	<-began
	text := strings.Repeat("x", 10_000)
	for i := range 10_000 {
		d.Delta("root", "root", fmt.Sprint("step", i%100), int64(i), 1, text)
		d.Reset("root", "root", fmt.Sprint("step", i), 0, 1)
	}
	close(begin)

	storetest.Until(t, "what comes later is delivered", func() bool {
		d.Delta("root", "root", "last", 0, 1, "x")
		return len(last) > 0
	})

	if n := received.Load(); n > 2<<20 {
		t.Errorf("%d bytes were kept of 100 MB", n)
	}
}
