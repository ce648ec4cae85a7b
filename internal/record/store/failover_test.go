package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/feed"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestFailover: a standby takes over while the old primary runs on. Nothing that was acknowledged is lost, contents
// that were learnt at the old primary are there, writers go on at the new one, and a cursor of the old one is refused.
func TestFailover(t *testing.T) {
	t.Parallel()
	pair := storetest.Pair(t)
	s := storetest.OpenURL(t, pair.URL)
	said := strings.Repeat("What the user and the agent have said so far. ", 20)

	var mu sync.Mutex
	var acknowledged []*record.ThinkAct
	var before, after atomic.Int64 // writes that were acknowledged
	var promoted atomic.Bool
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			root := fmt.Sprint("run", w)
			storetest.Write(t, s, &record.Plan{RootPlanID: root, CurrentPlanID: root})
			for seq := int64(0); after.Load() < 100 && !t.Failed(); seq++ {
				late := promoted.Load()
				c := &record.ThinkAct{
					RootPlanID: root, StepID: root, Seq: seq, ThinkInput: new(said + fmt.Sprint("and more ", seq)),
					State: new(record.Completed),
				}

				storetest.Write(t, s, c)
				mu.Lock()
				acknowledged = append(acknowledged, c)
				mu.Unlock()
				if before.Add(1); late {
					after.Add(1)
				}
			}
		})
	}

	storetest.Until(t, "all write", func() bool { return before.Load() > 50 })
	cursor := make(chan string, 1)
	watching, stop := context.WithCancel(t.Context())
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		s.Feed().Follow(watching, func(c feed.Changes) {
			select {
			case cursor <- c.Cursor:
			default:
			}
		})
	}()

	old := <-cursor
	stop()
	<-followed

	pair.Promote(t)
	promoted.Store(true)
	began := time.Now()
	writers.Wait()
	t.Logf("100 writes at the new primary after %v, %d in all", time.Since(began), before.Load())
	if _, err := s.Feed().Since(t.Context(), old, ""); !errors.Is(err, feed.ErrStaleCursor) {
		t.Errorf("a cursor of the old primary: %v", err)
	}

	at := storetest.OpenURL(t, pair.Standby)
	steps := map[string]map[int64]string{}
	for w := range 4 {
		step := fmt.Sprint("run", w)
		steps[step] = map[int64]string{}
		for _, c := range storetest.StepDetail(t, at, step).Cycles {
			steps[step][c.Record.Seq] = *c.Record.ThinkInput
		}
	}

	for _, c := range acknowledged {
		if got := steps[c.StepID][c.Seq]; got != said+fmt.Sprint("and more ", c.Seq) {
			t.Errorf("%s, cycle %d was acknowledged, and is %.60q", c.StepID, c.Seq, got)
		}
	}
}

// TestCancelledWait: an administrator cancels the wait of a commit for its standby. The write is not acknowledged until
// the standby has it.
func TestCancelledWait(t *testing.T) {
	t.Parallel()
	pair := storetest.Pair(t)
	s := storetest.OpenURL(t, pair.URL)
	conn, err := pgx.Connect(t.Context(), pair.Primary)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()

	for _, write := range []func() error{
		func() error {
			_, err := s.Write(t.Context(), []record.Change{
				&record.Plan{RootPlanID: "run", CurrentPlanID: "run", State: new(record.Completed)},
			})
			return err
		},
		func() error { return s.DeletePlan(t.Context(), "run") },
	} {
		pair.Set(t, "synchronous_standby_names", "nobody")
		written := make(chan error, 1)
		go func() { written <- write() }()

		for range 3 {
			storetest.Until(t, "a commit waits", func() bool {
				var cancelled int
				if err := conn.QueryRow(t.Context(),
					"SELECT count(*) FILTER (WHERE pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'").Scan(&cancelled); err != nil {
					t.Fatal(err)
				}
				return cancelled > 0
			})
			select {
			case err := <-written:
				t.Fatalf("a write ended before the standby had it: %v", err)
			case <-time.After(200 * time.Millisecond):
			}
		}

		pair.Set(t, "synchronous_standby_names", "*")
		if err := <-written; err != nil {
			t.Error(err)
		}
	}
}
