//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// silence is how long a stream of events may be silent: a comment comes every 15 seconds.
const silence = 20 * time.Second

// watchers follow trees, each from its start to its end, at one server after the other.
type watchers struct {
	servers []string
	http    *http.Client
	enough  chan struct{} // closed when no more plans are chosen
	all     sync.WaitGroup

	mu sync.Mutex
	// the states of rows as they were seen last, by root plan and row; nil: it is being followed
	seen    map[string]map[string]string
	streams int
	resets  int
}

func newWatchers(servers []string) *watchers {
	return &watchers{
		servers: servers, http: &http.Client{Transport: &http.Transport{}}, enough: make(chan struct{}),
		seen: map[string]map[string]string{},
	}
}

// follow follows a tree until it ends, unless somebody does already.
func (w *watchers) follow(ctx context.Context, root string) {
	w.mu.Lock()
	_, known := w.seen[root]
	if !known {
		w.seen[root] = nil
	}
	w.mu.Unlock()
	if known {
		return
	}

	v := &view{rows: map[string]string{}}
	for try := len(root); !v.over(root) && ctx.Err() == nil; try++ {
		_ = v.read(ctx, w.http, w.servers[try%len(w.servers)], root) // again
		w.mu.Lock()
		w.streams++
		w.mu.Unlock()
		if !v.over(root) {
			pause(ctx, 200*time.Millisecond)
		}
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	w.resets += v.resets
	if v.over(root) {
		w.seen[root] = v.rows
	}
}

// followNewest follows the newest plan of the ledger, and then the next, until there are enough.
func (w *watchers) followNewest(ctx context.Context, l *ledger) {
	w.all.Go(func() {
		for ctx.Err() == nil {
			select {
			case <-w.enough:
				return
			case <-time.After(20 * time.Millisecond):
			}

			if _, err := l.catchUp(); err != nil {
				continue // as the driver will find
			}
			if root := l.newest(); root != "" {
				w.follow(ctx, root)
			}
		}
	})
}

func (w *watchers) close() { w.http.CloseIdleConnections() }

// finish waits until all trees that are followed have ended.
func (w *watchers) finish(ctx context.Context) {
	close(w.enough)
	ended := make(chan struct{})
	go func() { w.all.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(recoverWithin):
	case <-ctx.Done():
	}
}

// check compares what was seen with what a server returns now. It returns the rows of a report.
func (w *watchers) check(ctx context.Context, violated func(format string, args ...any)) (report [][2]any, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rows, server := 0, w.servers[len(w.servers)-1]
	for root, seen := range w.seen {
		if seen == nil {
			violated("who followed plan %s never came to its end", root)
			continue
		}

		now := &view{rows: map[string]string{}}
		if err := now.read(ctx, w.http, server, root); err != nil {
			return nil, fmt.Errorf("follow plan %s: %w", root, err)
		}
		rows += len(now.rows)

		for row, state := range now.rows {
			if seen[row] != state {
				violated("who followed plan %s saw %s as %q, but it is %q", root, row, seen[row], state)
			}
		}
		for row := range seen {
			if _, there := now.rows[row]; !there {
				violated("who followed plan %s saw %s, which is not there", root, row)
			}
		}
	}

	return [][2]any{
		{"plans followed", len(w.seen)}, {"rows seen", rows}, {"streams", w.streams}, {"streams reset", w.resets},
	}, nil
}

// view is what a client that follows a tree has of it.
type view struct {
	rows   map[string]string // states, by row
	cursor string
	ended  bool // the last stream came to the end of the tree
	resets int
}

// over reports whether the tree has ended for good. A run that was stopped is retried.
func (v *view) over(root string) bool { return v.ended && v.rows["plan:"+root] != "CANCELLED" }

// read reads the events behind the cursor until the stream breaks or the tree has ended.
func (v *view) read(ctx context.Context, client *http.Client, server, root string) error {
	v.ended = false
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	quiet := time.AfterFunc(silence, cancel)
	defer quiet.Stop()

	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		server+"/api/v1/plans/"+url.PathEscape(root)+"/events?lean=true", nil)
	if err != nil {
		return err
	}
	if v.cursor != "" {
		req.Header.Set("Last-Event-ID", v.cursor)
	}

	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNoContent:
		v.ended = true
		return nil
	default:
		return fmt.Errorf("answered %s", resp.Status)
	}

	var id, event string
	var data []byte
	for lines := bufio.NewReaderSize(resp.Body, 64<<10); !v.ended; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return err
		}

		quiet.Reset(silence)
		name, value, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(": "))
		switch string(name) {
		case "id":
			id = string(value)
		case "event":
			event = string(value)
		case "data":
			data = value
		case "": // the event is complete
			if err := v.add(event, data); err != nil {
				return err
			}
			if id != "" {
				v.cursor = id
			}
			id, event = "", ""
			data = nil
		}
	}

	return nil
}

func (v *view) add(event string, data []byte) error {
	switch event {
	case "reset":
		v.resets++
		clear(v.rows)
	case "deleted": // a replaced primary showed what no other server has; its client writes it again
		clear(v.rows)
		v.cursor = ""
	case "done":
		v.ended = true
	case "rows":
		var in struct {
			Rows []struct{ At, State string }
		}
		if err := json.Unmarshal(data, &in); err != nil {
			return err
		}
		for _, r := range in.Rows {
			v.rows[r.At] = r.State
		}
	}
	return nil
}
